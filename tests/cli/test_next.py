"""``redbike next`` of a job: what it does now, and when it runs as it is."""

import json
import re
import time
from types import SimpleNamespace

import pytest

from redbike import StopWork
from redbike.queries.place import describe_job
from redbike.schedule.clock import Clock
from redbike.schedule.jitter import compute_jitter
from redbike.schedule.moments import format_utc
from tests.cli.conftest import Failing
from tests.queries.kept import register
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


def utc(moment):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def test_next_of_a_stored_job(shell, bike):
    shell.run("set", "job:A", "0 3 * * *", "--tz=Asia/Tokyo")
    told = json.loads(shell.run("tell", "job:A").stdout)["next_run"]
    sentence, first, *_ = shell.read("next", "job:A").splitlines()
    assert "Tokyo" in sentence
    assert "T03:00:00+09:00" in first
    assert utc(told) in first
    assert "job" not in shell.run("next", "0 0 30 2 *").stderr
    # The stored instant stands first wherever it differs from the schedule.
    later = (time.time() + 10 * 86400) // 86400 * 86400
    bike.set("job:A", "0 0 * * *", after=later)
    _, first, second, *_ = shell.read("next", "job:A").splitlines()
    assert (utc(later + 86400) in first, utc(later + 2 * 86400) in second) == (True, True)
    _, only = shell.read("next", "job:A", "--count=1", f"--after={later + 86400}").splitlines()
    assert utc(later + 2 * 86400) in only
    # So does the pause of one that goes on.
    bike.set("job:A", "CONTINUE")
    assert bike.work_one() == "job:A"
    _, first = shell.read("next", "job:A").splitlines()
    assert utc(bike.tell("job:A")["next_run"])[:16] in first
    behind = shell.run("next", "job:A", "--after=+1d")
    assert (len(behind.stdout.splitlines()), behind.stderr.splitlines()[1:]) == (1, ["redbike: no further runs"])


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
    [line] = shell.read("next", jobid).splitlines()
    assert said in line
    assert any(utc(moment)[:10] in line for moment in (began, time.time()))


@pytest.mark.parametrize("until", [None, 4102444800])
@pytest.mark.parametrize(("jobid", "schedule"), [("job:A", "NOW"), ("bad:A", "EVERY:1h@0")])
def test_a_paused_job_that_has_ended_says_that_first(shell, bike, jobid, schedule, until):
    """To resume it changes nothing."""
    bike.set(jobid, schedule, after=0)
    while bike.work_one():
        pass
    [ended] = shell.read("next", jobid).splitlines()
    bike.pause(jobid, until=until)
    [said] = shell.read("next", jobid).splitlines()
    assert said.startswith(f"{ended} Besides, it is paused since ")
    assert said in shell.run("show", jobid).stdout


def test_a_job_that_waits_or_runs_says_so_before_its_coming_runs(shell, bike):
    bike.set("job:A", "EVERY:1h@0", after=0)
    bike.set("once:B", "NOW")
    for said in ("It waits for a worker since", "It runs since"):
        explained, where, first, *_ = shell.read("next", "job:A").splitlines()
        assert explained.startswith("Every hour")
        assert where.startswith(said)
        assert first.split("  ")[1] > utc(time.time())
        take_one(bike.store, [("work-A", 100.0)], "tag")
    [_, where] = shell.read("next", "once:B").splitlines()
    assert where.startswith("It waits for a worker since")
    set_job(bike.store.at(1000.0), "job:C", "EVERY:1h@0", 1050.0)
    assert shell.read("next", "job:C").splitlines()[1] == "It is due, and waits for a dispatcher."


def hide_lengths(text):
    return re.sub(r"\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?", "LENGTH", text)


def test_a_queue_or_everything_that_is_paused_holds_what_waits_and_what_comes(shell, bike):
    bike.set("waits:A", "EVERY:1h@0", after=0)
    bike.set("later:A", "EVERY:1h@0")
    set_job(bike.store.at(1000.0), "due:A", "EVERY:1h@0", 1050.0)
    bike.pause_queue("A", until=4e9, reason="a flood")
    held = " its queue work-a is paused since "
    until = ", until 2096-10-02 07:06:40 UTC (a flood)."

    def read(jobid, *more):
        """What next says before the times, which show says too, and these."""
        said, *runs = shell.read("next", jobid, *more).splitlines()[1:]
        # Between the two, a second may have passed.
        assert hide_lengths(said) in hide_lengths(shell.run("show", jobid).stdout)
        return said, runs

    for jobid, start in (("waits:A", "It waits for a worker since"), ("later:A", "It waits until it is due, in ")):
        said, runs = read(jobid)
        assert (said.startswith(start), held in said.lower()) == (True, True)
        assert said.endswith(until)
        assert all(run.endswith("  paused then, until 2096-10-02 07:06:40 UTC") for run in runs)
    assert read("due:A")[0] == "It is due, and waits for a dispatcher."
    _, runs = read("later:A", "--after=4000000000")
    assert not any("paused" in run for run in runs)
    bike.resume_queue("A")
    bike.pause_all()
    for jobid, start in (
        ("waits:A", "It waits for a worker since"),
        ("due:A", "It is due, but everything is paused since"),
        ("later:A", "It waits until it is due, in "),
    ):
        said, runs = read(jobid)
        assert (said.startswith(start), "everything is paused since " in said.lower()) == (True, True)
        assert said.endswith(", until somebody resumes it.")
        assert all(run.endswith("  paused then") for run in runs)


@pytest.mark.parametrize("schedule", ["EVERY:1h@0", "AT:4102444800", "CONTINUE", "AFTER:parent:A"])
def test_the_runs_of_a_paused_job_begin_when_its_pause_ends(shell, bike, schedule):
    """By itself, as that of a blackout does. What its pause leaves comes first."""
    bike.set("parent:A", "EVERY:1h@0", after=4102444799)
    bike.set("job:A", schedule, **({} if schedule in ("CONTINUE", "AFTER:parent:A") else {"after": 4102444799}))
    bike.pause("job:A", until=4102450200)
    explained, *said, first = shell.read("next", "job:A", "--count=1").splitlines()
    assert explained
    assert said[0].startswith("It is paused since ")
    assert said[0].endswith(", until 2100-01-01 01:30:00 UTC.")
    assert "2100-01-01T01:30:00Z" in first
    shown = shell.run("show", "job:A").stdout
    assert said[0] in shown
    assert re.search(r"^  2100-01-01T01:30:00", shown, re.MULTILINE)
    if schedule == "EVERY:1h@0":
        assert "2100-01-01T02:00:00Z" in shell.read("next", "job:A").splitlines()[3]


@pytest.mark.parametrize("verb", ["next", "show"])
def test_what_a_pause_leaves_is_named_by_its_due_times(shell, bike, verb):
    bike.set("job:A", "EVERY:1h@0", after=4102444799, catchup="all")
    bike.pause("job:A", until=4102450200.25)
    found = re.findall(r"  (\S+Z)  in .*  due at (.*)", shell.read(verb, "job:A"))
    assert found == [("2100-01-01T01:30:00.250000Z", f"2100-01-01 0{n}:00:00 UTC") for n in (0, 1)]


def test_a_follower_that_waits_is_due_since_its_parent_ended(shell, bike):
    bike.set("parent:A", "EVERY:1h")
    bike.set("job:A", "AFTER:parent:A")
    bike.run("parent:A")
    assert bike.work_one() == "parent:A"
    bike.pause_queue("A")
    bike.dispatch_due()
    [state] = bike.store.questions.inspect(["job:A"])
    for verb in ("next", "show"):
        assert f"  {format_utc(state.waiting.due)}  " in shell.read(verb, "job:A")


def test_only_the_clock_of_the_server_counts_for_a_job(shell, bike, monkeypatch):
    ahead = SimpleNamespace(time=lambda: time.time() + 600)
    for module in ("next", "arguments"):
        monkeypatch.setattr(f"redbike.cli.{module}.time", ahead)
    due = int(time.time()) + 300
    bike.set("job:A", f"AT:{due}")
    _, only = shell.run("next", "job:A").stdout.splitlines()
    assert (utc(due) in only, only.endswith("s ago"), "in " in only) == (True, False, True)
    shell.run("set", "job:A", "EVERY:1m@0")
    _, first, *_ = shell.run("next", "job:A", "--after=5m").stdout.splitlines()
    assert utc(due - 5) <= first.split("  ")[1] <= utc(due + 120)


def test_instants_are_in_the_zone_of_the_settings_which_they_name(shell, bike):
    pause = {"since": 3600.0, "until": 7200.0, "by": "ada", "reason": ""}
    told = {"status": "TML:60", "schedule": "NOW", "working": False, "next_run": None, "paused": pause}
    said = "It is paused since 1970-01-01 10:00:00 Asia/Tokyo by ada, until 1970-01-01 11:00:00 Asia/Tokyo."
    assert describe_job(told, CLOCK) == (said, True)
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
    [line] = shell.read("next", "job:A").splitlines()
    assert "fsck" in line


def test_next_counts_a_spread_and_tells_that_a_one_off_is_past(shell):
    shell.run("set", "job:A", "EVERY:1h@0", "--spread=10m")
    share = compute_jitter("job:A", 600)
    sentence, first, second, *_ = shell.read("next", "job:A").splitlines()
    assert f"Each run is {share:g} s later" in sentence
    due = json.loads(shell.run("tell", "job:A").stdout)["next_run"]
    assert due % 3600 == pytest.approx(share)
    assert (utc(due)[:-1] in first, utc(due + 3600)[:-1] in second) == (True, True)
    explained, said = shell.read("next", "AT:2020-01-01T00:00:00Z").splitlines()
    assert explained.startswith("Once")
    assert "due at once" in said


@pytest.mark.parametrize("spread", [0, "10m"])
def test_a_job_for_every_host_has_the_times_of_the_host_that_is_first(shell, bike, spread):
    assert len(shell.read("next", "ALL:EVERY:5m", "--count=2").splitlines()) == 3
    bike.set("wide:A@all", "EVERY:1h@0", spread=spread)
    assert len(shell.read("next", "wide:A@all", "--count=2").splitlines()) == 4  # with where it is
    for number, host in enumerate(("web1", "web2"), 1):
        register(bike.store, "worker", number, host=host, for_host=True, now=time.time())
    bike.set("wide:A@all", "EVERY:1h@0", spread=spread)
    due = min(bike.tell(f"wide:A@{host}")["next_run"] for host in ("web1", "web2"))
    times = [utc(due)[:-1], utc(due + 3600)[:-1]]
    for command in (("next", "wide:A@all", "--count=2"), ("show", "wide:A@all")):
        done = shell.run(*command)
        lines = [line for line in done.stdout.splitlines() if "  in " in line]
        assert all(each in line for each, line in zip(times, lines[:2], strict=True)), done.stdout
        assert "no further" not in done.stderr


def test_a_job_for_every_host_has_no_times_while_those_of_all_hosts_are_paused(shell, bike):
    register(bike.store, "worker", host="web1", for_host=True, now=time.time())
    bike.set("wide:A@all", "EVERY:1h@0")
    bike.pause("wide:A@web1", until=(until := bike.store.timeline.read_clock() // 60 * 60 + 86460))
    assert utc(until)[:-1] in shell.read("next", "wide:A@all", "--count=1")
    bike.resume("wide:A@web1")
    bike.pause("wide:A@web1")
    assert shell.read("next", "wide:A@all").startswith("None of its jobs on hosts has a run to come")
    assert "Next runs" not in shell.read("show", "wide:A@all")


def test_a_paused_job_for_every_host_has_no_times_of_its_own(shell, bike):
    bike.set("wide:A@all", "* * * * *")
    bike.pause("wide:A@all", until=bike.store.timeline.read_clock() + 1200)
    for command in ("next", "show"):
        done = shell.run(command, "wide:A@all")
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        assert "paused" in done.stdout
        assert "33658" not in done.stdout
