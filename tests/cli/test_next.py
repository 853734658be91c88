"""``redbike next`` of a job: what it does now, and when it runs as it is."""

import json
import time

import pytest

from redbike import StopWork
from redbike.queries.place import describe_job
from redbike.schedule.clock import Clock
from redbike.schedule.jitter import compute_jitter
from tests.cli.conftest import Failing
from tests.verbs import set_job, take_one

CLOCK = Clock(9.0, "Asia/Tokyo")


def work(self, jobid):
    if jobid == "enough:A":
        raise StopWork
    if jobid == "bad:A":
        raise ValueError("as ordered")
    return 300


@pytest.fixture
def bike(bike, monkeypatch):
    monkeypatch.setattr(Failing, "work", work)
    return bike


def lines(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def utc(moment):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def test_next_of_a_stored_job(shell, bike):
    shell.run("set", "job:A", "0 3 * * *", "--tz=Asia/Tokyo")
    told = json.loads(shell.run("tell", "job:A").stdout)["next_run"]
    sentence, first, *_ = lines(shell.run("next", "job:A"))
    assert "Tokyo" in sentence
    assert "T03:00:00+09:00" in first
    assert utc(told) in first
    assert "job" not in shell.run("next", "0 0 30 2 *").stderr
    # The stored instant stands first wherever it differs from the schedule.
    later = (time.time() + 10 * 86400) // 86400 * 86400
    bike.set("job:A", "0 0 * * *", after=later)
    _, first, second, *_ = lines(shell.run("next", "job:A"))
    assert (utc(later + 86400) in first, utc(later + 2 * 86400) in second) == (True, True)
    _, only = lines(shell.run("next", "job:A", "--count=1", f"--after={later + 86400}"))
    assert utc(later + 2 * 86400) in only
    # So does the pause of one that goes on.
    bike.set("job:A", "CONTINUE")
    assert bike.work_one() == "job:A"
    _, first = lines(shell.run("next", "job:A"))
    assert utc(bike.tell("job:A")["next_run"])[:16] in first


@pytest.mark.parametrize(
    ("jobid", "schedule", "said"),
    [
        ("job:A", "STOP", "(STP)"),
        ("job:A", "RRULE:FREQ=DAILY;COUNT=1", "(STP)"),
        ("enough:A", "EVERY:1h@0", "(STP)"),
        ("bad:A", "EVERY:1h@0", "has failed for good"),
        ("job:A", "every day", "its schedule is bad"),
    ],
)
def test_a_job_that_will_not_run_says_so_and_lists_no_runs(shell, bike, jobid, schedule, said):
    began = time.time()
    list(bike.load([(jobid, schedule)], after=0, mark_bad=True))
    while bike.work_one():
        pass
    [line] = lines(shell.run("next", jobid))
    assert said in line
    assert any(utc(moment)[:10] in line for moment in (began, time.time()))


def test_a_job_that_waits_or_runs_says_so_before_its_coming_runs(shell, bike):
    bike.set("job:A", "EVERY:1h@0", after=0)
    bike.set("once:B", "NOW")
    for said in ("It waits for a worker since", "It runs since"):
        explained, where, first, *_ = lines(shell.run("next", "job:A"))
        assert explained.startswith("Every hour")
        assert where.startswith(said)
        assert first.split("  ")[1] > utc(time.time())
        take_one(bike.store, [("work-A", 100.0)], "tag")
    [_, where] = lines(shell.run("next", "once:B"))
    assert where.startswith("It waits for a worker since")
    set_job(bike.store.at(1000.0), "job:C", "EVERY:1h@0", 1050.0)
    assert lines(shell.run("next", "job:C"))[1] == "It is due, and waits for a dispatcher."


def test_instants_are_in_the_zone_of_the_settings_which_they_name(shell, bike):
    pause = {"since": 3600.0, "until": 7200.0, "by": "ada", "reason": ""}
    told = {"status": "TML:60", "schedule": "NOW", "working": False, "next_run": None, "paused": pause}
    said = "It is paused since 1970-01-01 10:00:00 Asia/Tokyo by ada, until 1970-01-01 11:00:00 Asia/Tokyo."
    assert describe_job(told, CLOCK) == (said, False)
    running = "It runs since 1970-01-01 09:01:00 Asia/Tokyo (TML). It is paused"
    assert describe_job(told | {"working": True}, CLOCK)[0].startswith(running)
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Asia/Tokyo\n")
    bike.set("job:A", "NOW")
    for command in ("next", "show"):
        assert " Asia/Tokyo (ENQ)." in shell.run(command, "job:A").stdout


def test_a_job_that_is_nowhere_is_for_fsck(shell, bike, client):
    told = {"status": "TML:1", "schedule": None, "working": False, "next_run": 5.0}
    assert describe_job(told, CLOCK) == ("It has no schedule; redbike fsck says more.", False)
    damaged = told | {"status": "STP:99999999999999", "schedule": "NOW", "next_run": None}
    assert "now, and is not" in describe_job(damaged, CLOCK)[0]
    bike.set("job:A", "EVERY:1h")
    client.zrem("redbike-timeline", "job:A")
    [line] = lines(shell.run("next", "job:A"))
    assert "fsck" in line


def test_next_counts_a_spread_and_tells_that_a_one_off_is_past(shell):
    shell.run("set", "job:A", "EVERY:1h@0", "--spread=10m")
    share = compute_jitter("job:A", 600)
    sentence, first, second, *_ = lines(shell.run("next", "job:A"))
    assert f"Each run is {share:g} s later" in sentence
    due = json.loads(shell.run("tell", "job:A").stdout)["next_run"]
    assert due % 3600 == pytest.approx(share)
    assert (utc(due)[:-1] in first, utc(due + 3600)[:-1] in second) == (True, True)
    explained, said = lines(shell.run("next", "AT:2020-01-01T00:00:00Z"))
    assert explained.startswith("Once")
    assert "due at once" in said
