"""``redbike show``: a page about one job, for a person."""

import csv
import io
import itertools
import json
import time
from datetime import UTC, datetime

import pytest

from redbike.cli.output import UNKNOWN
from redbike.commands.worker import NO_TIMEOUT
from redbike.store.live import LiveOutput
from tests.cli.refused import check_refused
from tests.queries.kept import register
from tests.terminal import run_on_terminal
from tests.verbs import take_one


def show(shell, *words):
    return shell.read("show", *words).splitlines()


def fact(lines, name):
    [line] = [line for line in lines if line.startswith(f"  {name} ")]
    return line.split(name, 1)[1].strip()


def test_a_job_that_waits(bike, shell):
    bike.set("job:A", "0 3 * * *", tz="Asia/Tokyo", data={"ä": [1]}, timeout="2h", retries=5)
    lines = show(shell, "job:A")
    assert lines[0] == "job:A"
    assert "03:00" in lines[1]
    assert "Tokyo" in lines[1]
    assert lines[2].startswith("It waits until it is due, in ")
    assert fact(lines, "schedule") == "CRON_TZ=Asia/Tokyo 0 3 * * *"
    assert fact(lines, "status").startswith("TML since ")
    assert fact(lines, "queue") == "work-A"
    assert fact(lines, "options") == "retries=5, timeout=7200"
    assert fact(lines, "data") == '{"ä": [1]}'
    at = lines.index("Next runs (Asia/Tokyo, then UTC)")
    assert len(lines[at + 1 :]) == 5
    assert all("T03:00:00+09:00" in line for line in lines[at + 1 :])
    assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(bike.tell("job:A")["next_run"])) in lines[at + 1]


def test_a_job_that_has_failed(bike, shell):
    bike.worker.error = "no \x1b[31mluck"
    bike.set("bad:A", "EVERY:1h@0.0", on_error="reschedule")
    for _ in range(3):
        bike.run("bad:A")
        bike.work_one()
    lines = show(shell, "bad:A")
    at = lines.index("Last runs")
    assert lines[at + 1].startswith("STARTED (UTC)")
    assert all("failed" in line and "ValueError: no" in line for line in lines[at + 2 : at + 5])
    assert lines[at + 6] == "Last failure"
    assert "UTC, " in lines[at + 7]
    assert lines[at + 8] == "  Traceback (most recent call last):"
    assert lines[-1] == r"  ValueError: no \x1b[31mluck"
    assert "\x1b[31mluck" not in run_on_terminal(shell, "show", "bad:A")


def test_the_last_run_of_a_job_whose_id_looks_like_a_pattern(bike, shell):
    for jobid in ("db[1]:A", "bad1:A"):
        bike.set(jobid, "NOW")
        bike.work_one()
    lines = show(shell, "db[1]:A")
    assert " ok " in lines[lines.index("Last runs") + 2]
    assert shell.run("output", "db[1]:A", "--follow").returncode == 0


def test_output_follows_no_run_that_is_cancelled_while_it_waits(bike, shell, monkeypatch):
    bike.set("job:A", "@yearly")
    bike.run("job:A")
    bike.work_one()
    bike.run("job:A")

    def listen(*_):
        yield None
        bike.cancel("job:A")
        yield from itertools.repeat(None)

    monkeypatch.setattr(LiveOutput, "listen", listen)
    check_refused(shell.run("output", "job:A", "--follow"), 1, f"job:A: {UNKNOWN}")


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda bike: bike.store.jobs.reject("job:A"), "It was never scheduled, as its schedule is bad, since"),
        (lambda bike: bike.set("job:A", "EVERY:1h") and bike.pause("job:A", reason="a flood"), "is resumed: a flood"),
    ],
)
def test_a_job_that_will_not_run_by_itself(bike, shell, prepare, said):
    prepare(bike)
    lines = show(shell, "job:A")
    assert any(said in line for line in lines[:3])
    assert not any(line.startswith("Next runs") for line in lines)


def test_a_job_that_runs(bike, shell):
    bike.set("job:A", "EVERY:1h")
    bike.run("job:A")
    register(bike.store, "worker", now=time.time())
    take_one(bike.store, [("work-A", 100.0)], "Ownerw01tag")
    lines = show(shell, "job:A")
    assert lines[2].startswith("It runs since")
    assert fact(lines, "worker") == "web1:1:Ownerw01"
    assert fact(lines, "deadline").endswith(" UTC")
    bike.set("endless:A", "NOW")
    take_one(bike.store, [("work-A", NO_TIMEOUT)], "Ownerw012")
    assert fact(show(shell, "endless:A"), "deadline") == "none"


def test_the_same_facts_as_data(bike, shell):
    bike.set("bad:A", "NOW", data="x")
    bike.work_one()
    told = {"jobid": "bad:A", **bike.tell("bad:A")}
    assert json.loads("\n".join(show(shell, "bad:A", "--format=json"))) == told
    rows = dict(csv.reader(io.StringIO(shell.run("show", "bad:A", "--format=csv").stdout)))
    assert list(rows) == list(told)
    assert (rows["jobid"], rows["status"], rows["next_run"]) == ("bad:A", told["status"], "")
    assert json.loads(rows["failure"]) == told["failure"]


def test_why_a_job_does_not_run(bike, shell):
    bike.set("job:A", "NOW")
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Asia/Kolkata\n")
    said = shell.read("why", "job:A")
    assert said.startswith("It has been due since 2")
    assert said.endswith(" Asia/Kolkata and waits in work-A, but no worker works this queue.\n")
    bike.set("job:A", "EVERY:1h@0.0")
    done = shell.run("why", "job:A", "--at=2020-02-02T12:30+01:00")
    assert done.stdout.startswith("An occurrence was due at 2020-02-02 16:30:00 Asia/Kolkata, and")


def test_what_happened_then(bike, shell):
    bike.set("bad:A", "NOW")
    shell.run("pause", "--queue=B", "--reason=flood")
    assert bike.work_one() == "bad:A"
    [failure] = bike.failures()
    head, counts, first, _, *lines = shell.read("incident").splitlines()
    assert head.startswith(f"Redbike {bike.store.keys.prefix}: ")
    assert counts.endswith(": 0 runs without a failure, 1 failure, 1 change, 0 processes began or lost.")
    assert "bad:A" in first
    assert {line.split(" ", 1)[1].split(":")[0] for line in lines} == {"failure bad", "change"}
    before = datetime.fromtimestamp(failure["failed"] - 60, UTC).isoformat(timespec="seconds")
    assert shell.run("incident", f"{before}+-30s").stdout.splitlines()[4:] == [], "by then nothing had happened"
    check_refused(shell.run("incident", "25:00"), 2, "'25:00'")


@pytest.mark.parametrize("damaged", ["{broken", "[" * 100_000])
def test_what_is_damaged_is_shown_as_it_is(bike, shell, damaged):
    bike.set("job:A", "EVERY:1h", data=1)
    bike.client.hset(bike.store.keys.data, "job:A", damaged)
    assert bike.tell("job:A")["data"] == damaged
    for command in ("show", "tell", "next"):
        shell.read(command, "job:A")
    bike.client.hset(bike.store.keys.schedules, "job:A", "every \x1b[2J day")
    assert fact(show(shell, "job:A"), "schedule") == r"every \x1b[2J day"
