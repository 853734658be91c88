"""The command tail: what happens, as it happens, whatever its reader and the server do."""

import csv
import io
import json
import os
import re
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from redbike import Redbike
from redbike.cli import tail
from redbike.cli.output import LONGEST
from redbike.cli.tail import FIELDS, Line
from redbike.store.enums import Outcome
from redbike.store.history import PastRun
from redbike.store.live import Printed
from tests.cli.conftest import Failing
from tests.commandline import memory_file, read
from tests.terminal import run_on_terminal
from tests.waiting import wait_until


@pytest.fixture
def bike(noted):
    return noted


def listeners(client, prefix="redbike"):
    return client.execute_command("PUBSUB", "SHARDNUMSUB", f"{prefix}-journal")[1]


def listen(client, prefix, *given, **more):
    """A listener that listens, in a thread."""
    listener = tail._Listener(*given, **more)
    threading.Thread(target=listener.listen, daemon=True).start()
    wait_until(lambda: listeners(client, prefix))
    return listener


@pytest.fixture
def follow(shell, client):
    """Starts `tail`; it listens."""

    def start(*arguments, log="tail"):
        before = listeners(client)
        process = shell.start("tail", *arguments, log=log)
        wait_until(lambda: listeners(client) > before)
        return process

    return start


def work(bike, *jobids):
    for jobid in jobids:
        bike.set(jobid, "NOW")
        assert bike.work_one() == jobid


def test_as_csv_and_json(bike, shell, follow):
    follow(log="csv")
    follow("--format=json", log="json")
    work(bike, "good:A", "bad:A")
    bike.pause("good:A", reason="a, b")
    wait_until(lambda: len(shell.log("json").splitlines()) == len(shell.log("csv").splitlines()) == 5)
    rows = [dict(zip(FIELDS, row, strict=True)) for row in csv.reader(io.StringIO(shell.log("csv")))]
    assert [(row["kind"], row["jobid"], row["event"]) for row in rows] == [
        ("change", "good:A", "set"),
        ("run", "good:A", "ok"),
        ("change", "bad:A", "set"),
        ("run", "bad:A", "failed"),
        ("change", "good:A", "pause"),
    ]
    assert rows[3]["detail"] == 'ValueError: no "host", no luck'
    assert (rows[4]["who"], rows[4]["took"], rows[4]["due"], rows[4]["attempt"]) == ("ada@here", "", "", "")
    for line, row in zip(shell.log("json").splitlines(), rows, strict=True):
        found = json.loads(line)
        assert tuple(found) == FIELDS
        assert (found["jobid"], found["event"], found["detail"]) == (row["jobid"], row["event"], row["detail"])
        assert abs(found["time"] - time.time()) < 60
        assert (found["took"] is None) == (row["kind"] == "change")
    assert [float(row["attempt"] or 0) for row in rows] == [0, 1, 0, 1, 0]


def test_only_what_is_asked_for(bike, shell, follow):
    bike.set("good:A", "STOP", tags="night")
    bike.set("bad:A", "STOP", tags="night")
    follow("b*:A", "good:A", log="named")
    follow("--tag=NIGHT,day", "g*", "o*", log="tagged")
    work(bike, "other:A", "bad:A", "good:A")
    bike.pause_all()
    wait_until(lambda: all("good:A,ok" in shell.log(log) for log in ("named", "tagged")))
    assert {line.split(",")[2] for line in shell.log("named").splitlines()} == {"bad:A", "good:A"}
    assert {line.split(",")[2] for line in shell.log("tagged").splitlines()} == {"good:A"}


def test_for_people():
    clock = tail.Clock(0.0, "Asia/Tokyo")
    run = Line(1000.0, "run", "a\u202eb:A", Outcome.FAILED, 900.0, 2.5, 2, "OSError: full", "web1:1:x")
    assert tail.describe_line(run, clock) == (
        "1970-01-01 09:16:40  a\\u202eb:A: failed after 2.50 s, try 2 on web1:1:x: OSError: full"
    )
    change = Line(1000.0, "change", "", "pause", None, None, None, "all", "ada@here")
    assert tail.describe_line(change, clock) == "1970-01-01 09:16:40  ada@here: pause: all"


def test_a_last_line_without_an_end_is_shown_when_its_run_ends_or_is_not_heard_any_more():
    end, long = PastRun("x:A", 0.0, 0.0, 1.0, Outcome.OK, 1, "", ""), b"x" * LONGEST
    heard = [[b"one\r\ntw", end, b"three\n", None, long, b"\nend\n" + long + b"\xc3", b"\xa4\nfo"], [b"five\n"]]
    parts = ([Printed("x:A", each, 0.0) if isinstance(each, bytes) else each for each in part] for part in heard)
    live = SimpleNamespace(listen=lambda jobids: next(parts))
    listener = tail._Listener(SimpleNamespace(store=SimpleNamespace(live=live)))
    listener.listen_to_output("x:A")  # until there is nothing more to listen to
    *lines, _ = [listener.heard.get() for _ in range(listener.heard.qsize())]
    assert [line.detail for line in lines] == [
        "one",
        "tw",
        "three",
        long.decode(),
        "end",
        long.decode(),
        "ä",
        "fo",
        "five",
    ]


def test_on_a_terminal_it_is_ended_by_ctrl_c(bike, shell, client):
    def act():
        wait_until(lambda: listeners(client))
        work(bike, "good:A", "last:A")

    shown = run_on_terminal(shell, "tail", meanwhile=act, until=b"last:A: ok")
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  good:A: ok after ", shown, re.MULTILINE)
    assert "Traceback" not in shown


def test_a_closed_pipe_ends_it(bike, shell, client):
    reader, writer = os.pipe()
    with memory_file() as said, open(os.devnull) as null:
        process = shell.spawn(("tail",), null.fileno(), writer, said)
        os.close(writer)
        wait_until(lambda: listeners(client))
        os.close(reader)
        wait_until(lambda: work(bike, "good:A") or process.poll() is not None)
        assert (process.wait(), read(said)) == (1, "")


def test_a_reader_that_is_too_slow_is_told_how_much_it_has_missed(client, prefix, monkeypatch, capsys):
    # Its thread listens for as long as the tests go on, so it must not be in the way of others.
    bike = Redbike(Failing("A"), prefix, client, noted_as="ada@here")
    monkeypatch.setattr(tail, "MOST", 5)
    monkeypatch.setattr(tail, "NAP", 0.01)
    listener = listen(client, prefix, bike)
    for number in range(50):
        bike.set(f"{number}:A", "EVERY:1h")
    wait_until(lambda: listener.unread == 45)
    lines = tail._read(listener)
    assert [next(lines).jobid for _ in range(5)] == [f"{number}:A" for number in range(5)]
    bike.set("last:A", "EVERY:1h")
    assert next(lines).jobid == "last:A"
    assert capsys.readouterr().err == "redbike: 45 events are missing: they came faster than they were read\n"


def test_no_more_come_than_the_limit_allows_of_what_is_asked_for(client, prefix):
    bike = Redbike(Failing("A"), prefix, client)
    listener = listen(client, prefix, bike, ("wanted*",), rate=3)
    began = time.monotonic()
    work(bike, *(f"other:{number}:A" for number in range(10)))
    work(bike, *(f"wanted:{number}:A" for number in range(30)))
    problems = []
    wait_until(lambda: problems.extend(listener.take_problems()) or problems)
    assert problems == ["events are missing: there were more than 3 a second, see --limit"]
    heard = [listener.heard.get().jobid for _ in range(listener.heard.qsize())]
    assert heard[:3] == [f"wanted:{number}:A" for number in range(3)]
    assert len(heard) <= 4 + 3 * (time.monotonic() - began)

    def has_last():
        work(bike, "wanted:last:A")
        return "wanted:last:A" in [listener.heard.get().jobid for _ in range(listener.heard.qsize())]

    wait_until(has_last)


def test_who_has_changed_what_comes_soon_though_too_many_runs_end(client, prefix):
    bike = Redbike(Failing("A"), prefix, client, noted_as="ada@here")
    heard = []
    events = bike.store.events.listen(wants=lambda: heard.append(0))
    for number in range(3):
        work(bike, f"{number}:A")
        entry = next(events)
        assert (entry.action, entry.jobid) == ("set", f"{number}:A")
        assert time.time() - entry.time < 20
    assert 1 <= len(heard) <= 3
    events.close()


def test_a_server_that_goes_away(own):
    own.server.start()
    with Redbike(Failing("A"), redis_config=own.server.url) as bike:
        process = own.start("tail", log="tail")
        wait_until(lambda: listeners(bike.client))
        work(bike, "one:A")
        wait_until(lambda: "one:A,ok" in own.log("tail"))
        own.server.stop()
        wait_until(lambda: "; waiting for it\n" in own.log("tail"))
        own.server.start()
        wait_until(lambda: "the server is back" in own.log("tail"))
        work(bike, "two:A")
    wait_until(lambda: "two:A,ok" in own.log("tail"))
    assert own.log("tail").count("waiting for it") == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "Traceback" not in own.log("tail")
