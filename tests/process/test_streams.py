"""The standard streams of a process."""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import termios

from tests.waiting import wait_until

CODE = """
from redbike.process import streams
streams.prepare()
with streams.buffer_output():
    for n in range(3000):
        print(n)
print("afterwards")
print("at once")
"""


def test_many_rows_are_one_write_also_if_standard_output_is_unbuffered():
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader:
        with writer:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            child = subprocess.Popen([sys.executable, "-c", CODE], stdout=writer, env=environment)
        writes = list(iter(lambda: reader.recv(100_000).decode(), ""))
        assert child.wait() == 0
    rows = writes[:-4]
    assert "".join(rows) == "".join(f"{n}\n" for n in range(3000))
    assert len(rows) < 30
    # What comes after them is unbuffered again.
    assert writes[-4:] == ["afterwards", "\n", "at once", "\n"]


def test_the_descriptor_of_a_stream_that_a_program_has_set_stays_open(tmp_path):
    script = (
        "import gc, os, sys\n"
        "from redbike.process import streams\n"
        f"sys.stdout = open({str(tmp_path / 'output')!r}, 'w')\n"
        "streams.prepare()\n"
        "gc.collect()\n"
        f"other = os.open({str(tmp_path / 'other')!r}, os.O_CREAT | os.O_WRONLY)\n"
        "print('said', flush=True)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "output").read_text() == "said\n"
    assert (tmp_path / "other").read_text() == ""


def test_an_interrupt_in_a_write_prints_nothing_twice(shell):
    arguments = ["next", "--count=1000", "* * * * *", "--after=0"]
    whole = shell.run(*arguments).stdout
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = shell.spawn(arguments, writer, writer, writer, shell.environment)
    os.close(writer)
    with open(reader) as pipe:
        # Then it waits in a write, a part of whose data is in the pipe.
        wait_until(lambda: struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0] == size)
        process.send_signal(signal.SIGINT)
        printed = pipe.read()
    assert process.wait(60) == 130
    assert len(printed) >= size
    # How long ago an instant was may change from one command to the next.
    lines = [[line.split("  ")[0] for line in text.splitlines()] for text in (whole, printed.rpartition("\n")[0])]
    assert lines[0][: len(lines[1])] == lines[1]
