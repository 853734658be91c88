"""Files of rows, as names, open files, pipes and FIFOs: each is read once, and nothing of it is lost silently."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import threading

import pytest

from redbike.config.options import ALL_COLUMNS, COLUMNS
from redbike.errors import BadConfig
from redbike.importers.rows import read_rows
from tests.commandline import Shell
from tests.pages import run_line
from tests.proc import waits_in
from tests.waiting import wait_until

MANY = "".join(f"{n}:A,EVERY:1h\n" for n in range(1000))


def summary(done):
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "jobs.csv"])
def test_a_pipe_or_a_fifo_is_read_from_its_beginning_to_its_end(shell, name):
    os.mkfifo(fifo := shell.folder / "jobs.csv")
    if name == "jobs.csv":
        load = shell.start("load", name)
        fifo.write_text(MANY)
        assert load.wait(timeout=60) == 0
        assert "jobs.csv: 1000 added" in shell.log()
    else:
        assert "1000 added" in summary(Shell.run(shell, "load", name, input=MANY))
        assert summary(shell.run("load", "-", input="")) == "redbike: standard input: no jobs"
    found = {line.partition(",")[0] for line in shell.run("schedules").stdout.splitlines()}
    assert found == {f"{n}:A" for n in range(1000)}


def test_ctrl_c_ends_the_wait_for_rows(shell):
    fifo = shell.folder / "jobs.csv"
    os.mkfifo(fifo)
    load = shell.start("load", "jobs.csv")
    writers = []

    def has_reader():
        with contextlib.suppress(OSError):
            writers.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return writers

    wait_until(has_reader)
    # A signal that comes just before a program begins to read does not end the read; it sleeps in the opening, too.
    wait_until(lambda: waits_in(load.pid, "pipe_read"))
    load.send_signal(signal.SIGINT)
    # Since Python 3.12 a signal collects garbage first, and a finalizer of redis-py may swallow it: one presses again.
    wait_until(lambda: load.poll() is not None or "Exception ignored" in shell.log())
    if load.poll() is None:
        load.send_signal(signal.SIGINT)
    else:
        assert shell.log() == ""
    assert load.wait(timeout=60) == 130
    os.close(writers[0])


def test_standard_input_that_is_closed_is_said_in_one_line(shell):
    done = run_line(shell, f"exec {shlex.join(shell.command(('load', '-')))} <&-")
    assert (done.returncode, done.stderr) == (2, "redbike: cannot read standard input: it is closed\n")


A, B = ("a:A", "NOW", {}), ("b:A", "STOP", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A last line without its end is a row.
        ("a:A,NOW\nb:A,STOP", [A, B]),
        # A header is one only in the first line.
        ("a:A,NOW\njobid,schedule", [A, ("jobid", "schedule", {})]),
        ("a:A,NOW\nb:A", [A, "has 1 column, not JOBID,SCHEDULE"]),
        ("a:A\tNOW", ["has 1 column, not JOBID,SCHEDULE; commas separate them"]),
        (
            "# a:A,NOW\n#a:A,NOW\n#\n#b\na:A,NOW",
            [
                "'# a:A,NOW' seems to be a comment: leave the row out",
                ("#a:A", "NOW", {}),
                *(f"{text!r} seems to be a comment: leave the row out" for text in ("#", "#b")),
                A,
            ],
        ),
        (
            'a:A,0,30 * * * *\na:A,"0,30 * * * *"\n',
            ["a schedule with commas in it needs quotes", ("a:A", "0,30 * * * *", {})],
        ),
        ('a:A,"DTSTART:20300101T090000Z\nRRULE:FREQ=DAILY;COUNT=1', ["unexpected end of data"]),
    ],
)
def test_a_row_is_read_or_refused_with_its_reason(text, expected):
    for number, (line, row), wanted in zip(range(1, 9), read_rows(io.StringIO(text)), expected, strict=False):
        assert line == number
        assert row == wanted if isinstance(wanted, tuple) else wanted in str(row)
    assert len(list(read_rows(io.StringIO(text)))) == len(expected)


def test_what_is_no_line_of_text_takes_no_memory(shell):
    command = shlex.join(shell.command(("load", "-")))
    done = run_line(shell, f"ulimit -v 400000; head -c 1000000000 /dev/zero | {command}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "redbike: cannot read '<stdin>': a line has 1048576 characters or more\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_open_files_of_either_kind_are_read_and_stay_open(end, mark):
    content = f"{mark}é:A,NOW{end}b:A,STOP{end}"
    for file in (io.StringIO(content, newline=""), io.BytesIO(content.encode())):
        assert [row for _, row in read_rows(file)] == [("é:A", "NOW", {}), ("b:A", "STOP", {})]
        assert not file.closed


def test_a_pipe_is_loaded_in_python(bike):
    read, write = os.pipe()
    with open(write, "w") as writer:
        threading.Thread(target=lambda: (writer.write(MANY), writer.close())).start()
        with open(read) as reader:
            assert sum(result is True for _, _, result in bike.load(reader)) == 1000


def test_what_cannot_be_read_is_quoted(tmp_path):
    read, write = os.pipe()
    os.set_blocking(read, False)
    with open(read, "rb") as reader, open(write, "wb"), pytest.raises(BadConfig, match="non-blocking"):
        list(read_rows(reader))
    file, memory = (tmp_path / "jobs.csv").open("w+"), io.BytesIO()
    for each, name in ((file, f"{tmp_path}/jobs.csv"), (memory, "the open file")):
        each.close()
        with pytest.raises(BadConfig, match=f"cannot read '{name}': it is closed"):
            list(read_rows(each))
    for source in (None, "nowhere/jobs.csv", "a\0b", "\ud800", "/"):
        with pytest.raises(BadConfig, match="cannot read"):
            list(read_rows(source))


HEADER = ",".join(ALL_COLUMNS)


def test_under_a_header_the_further_columns_are_options_and_data(bike):
    text = 'jobid,schedule,retries,data,grace\na:A,EVERY:1h@0,5,"{""x"": 1}",15m\nb:A,EVERY:1h@0,,,\n'
    bike.set("b:A", "EVERY:1h@0", retries=7, grace=7, backoff=7, data=7)
    assert [result for _, _, result in bike.load(io.StringIO(text))] == [True, True]
    told = bike.tell("a:A")
    assert (told["options"], told["data"]) == ({"retries": 5, "grace": 900}, {"x": 1})
    # An empty cell is the default. What is in no column stays.
    assert bike.tell("b:A")["options"] == {"backoff": 7}
    assert "data" not in bike.tell("b:A")
    # So do all of them without the header.
    assert [result for _, _, result in bike.load(io.StringIO("a:A,EVERY:2h@0\n"))] == [True]
    told = bike.tell("a:A")
    assert (told["schedule"], told["options"]["retries"], told["data"]) == ("EVERY:2h@0", 5, {"x": 1})


def test_bad_cells_and_rows_are_named_and_the_others_set(bike):
    text = "jobid,schedule,retries,data\na:A,NOW,many,\nb:A,NOW,5\nc:A,NOW,,{\nd:A,NOW,5,1\ne:A,never,5,\n"
    found = list(bike.load(io.StringIO(text)))
    assert [(line, jobid) for line, jobid, _ in found] == [(2, "a:A"), (3, ""), (4, "c:A"), (5, "d:A"), (6, "e:A")]
    said = [str(result) for _, _, result in found]
    assert "bad retries 'many'" in said[0]
    assert "has 3 columns, not the 4 of the header" in said[1]
    assert "bad data '{'" in said[2]
    assert [result is True for _, _, result in found] == [False, False, False, True, False]
    assert [jobid for jobid, _ in bike.get_schedules()] == ["d:A"]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("jobid,schedule,retires", "unknown column 'retires' in its header; is 'retries' meant?"),
        ("jobid,schedule,,", "unknown column '' in its header"),
        ("jobid,schedule,grace,grace", "the column 'grace' is twice in its header"),
        ("JobID,Schedule", "its header 'JobID,Schedule' does not begin with 'jobid,schedule'"),
    ],
)
def test_a_bad_header_is_refused_before_anything_is_set(bike, header, said):
    with pytest.raises(BadConfig, match=re.escape(said)):
        list(bike.load(io.StringIO(f"{header}\na:A,NOW,1,1\n")))
    assert list(bike.get_schedules()) == []


def test_a_full_dump_is_loaded_back_as_it_was(shell, client):
    lines = [
        f"plain:A,EVERY:1h@5{(len(ALL_COLUMNS) - 2) * ','}",
        '"full:A","0,30 * * * *",7200,requeue,retry,5,0.5,600,0.25,stop,all,7,3,900,450,600,3600,06:00,queue,60.25,86400,3,yes,16384,import-7,"http://h/{jobid}?a=1,2",'
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01,"
        'billing nightly,Ann,"Call her, first","{""a"":""b, c\\n\\u2028""}",,',
        f"data:A,NOW{(len(ALL_COLUMNS) - 4) * ','}[1],,",
    ]
    (shell.folder / "jobs.csv").write_text("\n".join([HEADER, *lines, ""]))
    assert shell.run("load", "jobs.csv").returncode == 0
    dump = shell.run("schedules", "--full").stdout
    assert dump.splitlines()[0] == HEADER
    client.flushall()
    assert "3 added" in summary(shell.run("load", "-", input=dump))
    again = shell.run("schedules", "--full").stdout
    assert sorted(again.splitlines()) == sorted(dump.splitlines())
    told = json.loads(shell.run("tell", "full:A").stdout)
    assert (told["options"]["spread"], told["options"]["history"]) == (60.25, 3)
    assert told["data"] == {"a": "b, c\n\u2028"}
    places = client.zrange("redbike-timeline", 0, -1, withscores=True)
    assert shell.run("load", "-", input=dump).returncode == 0
    assert client.zrange("redbike-timeline", 0, -1, withscores=True) == places
    # Without options it is as before.
    assert sorted(shell.run("schedules").stdout.splitlines())[0] == "data:A,NOW"


def test_rows_of_more_jobs_than_a_page_are_complete(bike):
    for n in range(120):
        bike.set(f"{n}:A", "EVERY:1h@0", **({"retries": n} if n % 3 else {}), data=n or None)
    found = {row[0]: (row[COLUMNS.index("retries")], row[COLUMNS.index("data")]) for row in bike.get_rows()}
    assert found == {f"{n}:A": (str(n) if n % 3 else "", str(n) if n else "") for n in range(120)}
