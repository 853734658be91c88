"""Lines that are cut, and an outlet, which drops what nobody reads; also one that is closed from its own thread."""

import contextlib
import io
import logging
import os
import pty
import sys
import threading

from redbike.process.outlet import LINE_LIMIT, Lines, Outlet, log_without_waiting, open_outlets


def test_an_outlet_may_be_closed_by_its_own_thread():
    reader, writer = os.pipe()
    errors, closed = [], threading.Event()

    class Closing(Outlet):
        def _write(self, data):
            super()._write(data)
            try:
                self.close()
            except RuntimeError as error:
                errors.append(error)
            closed.set()

    outlet = Closing(writer)
    outlet.put(b"a line")
    assert closed.wait(20)
    outlet.close()
    assert os.read(reader, 100) == b"a line\n"
    assert errors == []
    os.close(reader)
    os.close(writer)


def test_lines_are_cut_where_they_end_and_say_how_much_is_left_out():
    lines = Lines()
    assert list(lines.feed(b"one\ntw")) == [b"one"]
    assert list(lines.feed(b"o\n\nthree")) == [b"two", b""]
    assert list(lines.finish()) == [b"three"]
    assert list(lines.finish()) == []
    for _ in range(3):
        assert list(lines.feed(b"x" * LINE_LIMIT)) == []
    assert len(lines._partial) == LINE_LIMIT, "what is left out takes no memory"
    (line,) = lines.feed(b"\n")
    assert line == b"x" * LINE_LIMIT + f" … {2 * LINE_LIMIT} bytes more were left out".encode()
    assert list(lines.feed(b"next\n")) == [b"next"]


def test_an_outlet_counts_what_it_leaves_out_and_goes_on():
    read, write = os.pipe()
    outlet = Outlet(write, limit=200_000)
    for number in range(10_000):
        outlet.put(b"%d " % number + b"x" * 100)
    received, sent = b"", 10_000
    with open(read, "rb", buffering=0) as reader:
        while b"left out" not in received:
            received += reader.read(65536)
            outlet.put(b"%d again" % sent)
            sent += 1
        outlet.close(patience=60)
        os.close(write)
        received += reader.read()
    came = missing = 0
    for line in received.decode().splitlines():
        if "left out" in line:
            missing += int(line.split()[1])
        else:
            assert int(line.split()[0]) == came + missing
            came += 1
    assert came + missing == sent
    assert missing > 5_000


def test_an_outlet_whose_reader_never_reads_is_given_up():
    read, write = os.pipe()
    outlet = Outlet(write)
    outlet.put(b"x" * 1_000_000)
    outlet.close(patience=0.2)
    os.close(read)


def test_what_is_logged_comes_between_what_is_printed_and_never_waits(monkeypatch):
    reader, writer = os.pipe()
    with open(writer, "w", buffering=1, encoding="latin-1") as stream, open(reader, "rb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(stream)])
        with open_outlets():
            for number in range(3):
                logging.error("caf\u00e9 %d %s", number, "x" * 6000)
                print("printed", number)
            lines = [line.split()[:2] for line in file.read(65536).splitlines()]
            assert lines == [[word, b"%d" % number] for number in range(3) for word in (b"caf\xe9", b"printed")]
            os.set_blocking(writer, False)
            with contextlib.suppress(BlockingIOError):
                while os.write(writer, b"y" * 4096):
                    pass
            os.set_blocking(writer, True)
            logging.error("nobody reads it yet")
            received = b""
            while b"nobody reads it yet" not in received:
                received += file.read(65536)


def test_a_program_may_put_what_is_no_file_in_place_of_the_output(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(text)])
    with contextlib.redirect_stdout(text), log_without_waiting():
        logging.error("as before")
    assert text.getvalue() == "as before\n"


def test_a_terminal_that_nobody_reads_stops_nobody():
    reader, terminal = pty.openpty()
    outlet = Outlet(terminal)
    writing = threading.Thread(target=lambda: [outlet.write("x" * 700 + "\n") for _ in range(1000)], daemon=True)
    writing.start()
    writing.join(20)
    assert not writing.is_alive()
    os.close(reader)
    outlet.close()
    os.close(terminal)


def test_a_forked_process_writes_although_lines_wait():
    reader, writer = os.pipe()
    outlet = Outlet(writer)
    while not outlet._size:
        outlet.write("x" * 4000 + "\n")
    child = os.fork()
    if child == 0:
        outlet.write("from the child\n")
        os._exit(0)
    with open(reader, "rb", buffering=0) as file:
        received = b""
        while b"from the child" not in received:
            received += file.read(65536)
    assert os.waitpid(child, 0)[1] == 0
    outlet.close()
    os.close(writer)
