"""The rehearsal of an action says what really happens: it is compared with what jobs run in simulated time."""

import json
import math
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from redbike import BadConfig, BadSchedule, RoundRobin
from redbike.config import override
from redbike.rehearsing import rehearser as rehearsals
from redbike.rehearsing.rehearsal import ACTIONS, GATE_ACTIONS, Capacity, Change
from redbike.rehearsing.rehearser import Rehearser, list_clock_changes
from redbike.running.policies import place_again, place_done
from redbike.running.timefile import Timefile
from redbike.watching.counting import MINUTE
from tests.chance import ALWAYS_THE_SAME
from tests.verbs import take_one

HOURS = 2.97  # so that it ends at no due time
START = 1_790_000_000.0
QUEUE = "work-A"


class Worker(RoundRobin):
    """Fails for jobs whose names say so, the first time."""

    def __init__(self):
        super().__init__("A")
        self.failed = set()

    def work(self, jobid):
        if jobid.startswith("bad") and jobid not in self.failed:
            self.failed.add(jobid)
            raise ValueError("no luck")


@pytest.fixture
def bike(redbike):
    return redbike(Worker(), now=START)


def rehearse(bike, action, jobids, hours=HOURS, patience=math.inf, **how):
    change = Change(action, **how)
    return Rehearser(bike.store, bike.settings, change, hours).run(jobids, patience)


def do(bike, action, jobids, until=None, schedule="", tz=None, gate=None):
    """Do for real what was rehearsed."""
    if gate is not None:
        until = {"until": until} if action == "pause" else {}
        _ = getattr(bike, f"{action}_queue")(gate, **until) if gate else getattr(bike, f"{action}_all")(**until)
        return
    for jobid in jobids:
        if action == "set":
            bike.set(jobid, schedule, tz=tz)
        elif action == "unset":
            bike.unset(jobid)
        elif action == "pause":
            bike.pause(jobid, until=until)
        else:
            getattr(bike, action)(jobid)


def count_real(bike, rehearsal):
    """How many runs begin in each minute, if all goes on until the end of the rehearsal."""
    base = rehearsal.changed.counting.base
    runs = bike.run_due(rehearsal.end - 0.001, reraise=False)
    return Counter(math.floor((run.start - base) / MINUTE) for run in runs)


def count(side):
    return Counter({minute: number for minute, number in enumerate(side.minutes) if number})


def check(bike, action, jobids, **how):
    """What is rehearsed is what happens."""
    found = rehearse(bike, action, jobids, **how)
    do(bike, action, jobids, **how)
    assert count_real(bike, found) == count(found.changed)
    return found


def some_of(step, rows):
    """Rows of a table, of which each `step`-th is always tried, and all are at night."""
    return [pytest.param(*row, marks=pytest.mark.nightly if n % step else ()) for n, row in enumerate(rows)]


def skip_to(bike, seconds):
    """Let time go by in which nothing works."""
    bike._clock.move(round(bike.now + seconds, 6))  # Redis has no finer clock


class TestResume:
    @pytest.mark.parametrize("schedule", ["EVERY:7m", "*/10 * * * *", "RRULE:FREQ=MINUTELY;INTERVAL=25", "H * * * *"])
    @pytest.mark.parametrize(
        ("options", "released"),
        [({"catchup": "last"}, 1), ({"catchup": "none"}, 0), ({"catchup": "all", "catchup_limit": 5}, 5)],
    )
    def test_catch_ups_by_their_policy(self, bike, schedule, options, released):
        bike.set("a:A", schedule, **options)
        bike.pause("a:A")
        skip_to(bike, 5 * 3600)
        found = check(bike, "resume", ["a:A"])
        assert found.changed.at_once == released
        assert found.without.runs == 0

    def test_what_is_too_late_for_its_grace_is_not_run(self, bike):
        bike.set("a:A", "EVERY:1h", catchup="all", grace="90m")
        bike.pause("a:A")
        skip_to(bike, 5 * 3600)
        found = check(bike, "resume", ["a:A"])
        assert found.changed.at_once == 2
        assert found.changed.skipped == {"late": 3}

    def test_what_no_dispatcher_has_moved_within_its_grace_is_not_run(self, bike):
        bike.set("a:A", "EVERY:1h", catchup="all", grace="90m")
        skip_to(bike, 5 * 3600 + 60)
        found = rehearse(bike, "pause", ["a:A"])
        assert count_real(bike, found) == count(found.without)
        assert found.without.skipped == {"late": 3}

    def test_a_one_off_that_was_held(self, bike):
        bike.set("a:A", f"AT:{START + 60:.0f}", catchup="none")
        bike.pause("a:A")
        skip_to(bike, 3600)
        found = check(bike, "resume", ["a:A"])
        assert (found.changed.runs, found.changed.at_once) == (1, 1)

    def test_one_off_to_come(self, bike):
        bike.set("a:A", f"AT:{START + 3600:.0f}")
        bike.pause("a:A")
        assert check(bike, "resume", ["a:A"]).changed.runs == 1

    def test_what_waited_in_a_queue_when_it_was_paused(self, bike):
        bike.set("a:A", "EVERY:10m", catchup="none")
        skip_to(bike, 660)
        bike.dispatch_due(bike.now)
        bike.pause("a:A")
        skip_to(bike, 3600)
        assert check(bike, "resume", ["a:A"]).changed.at_once == 1

    def test_a_pause_that_ends_by_itself(self, bike):
        bike.set("a:A", "EVERY:10m", catchup="all", catchup_limit=3)
        bike.pause("a:A", until=START + 7200)
        found = rehearse(bike, "unset", ["a:A"])
        assert found.changed.runs == 0
        assert count_real(bike, found) == count(found.without)
        assert found.without.runs == 3 + 5
        assert found.without.at_once == 0

    def test_those_that_are_not_paused_stay_as_they_are(self, bike):
        bike.set("a:A", "EVERY:10m")
        found = check(bike, "resume", ["a:A"])
        assert count(found.changed) == count(found.without)

    @pytest.mark.parametrize("catchup", ["last", "none", "all"])
    @pytest.mark.parametrize("is_all", [False, True])
    def test_while_the_queue_or_everything_is_paused_too(self, bike, catchup, is_all):
        bike.set("a:A", "EVERY:10m", catchup=catchup, catchup_limit=4)
        bike.pause("a:A")
        until = START + 9000
        _ = bike.pause_all(until=until) if is_all else bike.pause_queue("A", until=until)
        skip_to(bike, 3600)
        found = check(bike, "resume", ["a:A"])
        assert found.held == 1
        assert found.changed.at_once == 0 < found.changed.runs

    def test_while_the_queue_is_paused_for_good(self, bike):
        bike.set("a:A", "EVERY:10m")
        bike.pause("a:A")
        bike.pause_queue("A")
        skip_to(bike, 3600)
        assert check(bike, "resume", ["a:A"]).changed.runs == 0


class TestSet:
    @pytest.mark.parametrize(("before", "schedule"), [
        *product(["EVERY:11m", "0 * * * *", "STOP"],
                 ["EVERY:5m", "*/7 * * * *", "H/10 * * * *", "STOP", "NOW", "RRULE:FREQ=HOURLY",
                  f"AT:{START + 1000:.0f}", "AT:1000"]),
        ("EVERY:11m", "*/20 * * * * *"),
    ])  # fmt: skip
    def test_a_schedule(self, bike, before, schedule):
        bike.set("a:A", before)
        skip_to(bike, 90)
        check(bike, "set", ["a:A"], schedule=schedule)

    def test_the_schedule_that_it_has_keeps_its_phase(self, bike):
        bike.set("a:A", "EVERY:1h")
        skip_to(bike, 1800)
        found = check(bike, "set", ["a:A"], schedule="EVERY:1h")
        assert count(found.changed) == count(found.without)

    def test_of_a_paused_job_nothing_runs(self, bike):
        bike.set("a:A", "EVERY:1h")
        bike.pause("a:A")
        assert check(bike, "set", ["a:A"], schedule="EVERY:5m").changed.runs == 0

    @pytest.mark.parametrize("verb", [None, "pause", "run"])
    def test_one_that_is_due_since_the_dispatcher_was_there_last_and_waits_already(self, redbike, tmp_path, verb):
        Timefile(tmp_path / "timefile").write(START - 3600)
        bike = redbike(Worker(), now=START, timefile=str(tmp_path / "timefile"), catchup="all")
        bike.set("a:A", "EVERY:1h@0", after=START - 20_000)
        assert bike.dispatch_due() == 0
        assert bike.tell("a:A")["status"].startswith("ENQ:")
        bike.pause_queue(QUEUE, until=START + 600)
        if verb == "pause":
            bike.pause("a:A", until=START + 600)
        elif verb == "run":
            bike.pause("a:A", until=START + 900)
            bike.run("a:A")
        found = check(bike, "set", ["a:A"], schedule="EVERY:10m@0")
        assert found.changed.runs >= 6

    def test_a_zone(self, bike):
        found = check(bike, "set", ["a:A"], schedule="30 * * * *", tz="Asia/Kathmandu")
        assert found.changed.runs == 3

    def test_a_job_that_is_not_there_yet(self, bike):
        assert check(bike, "set", ["new:A"], schedule="EVERY:1h").changed.runs == 2

    def test_a_bad_one_is_refused(self, bike):
        bike.set("a:A", "EVERY:1h")
        with pytest.raises(BadSchedule):
            rehearse(bike, "set", ["a:A"], schedule="0 0 30 2 *")

    @pytest.mark.parametrize("month", [3, 10])
    @pytest.mark.parametrize("schedule", ["30 2 * * *", "*/30 * * * *", "30 1-3 * * *", "RRULE:FREQ=DAILY;BYHOUR=2"])
    def test_a_day_on_which_clocks_change(self, redbike, month, schedule):
        day = datetime(2026, month, 29 if month == 3 else 25, tzinfo=ZoneInfo("Europe/Berlin"))
        bike = redbike(Worker(), now=day.timestamp() + 30, timezone="Europe/Berlin")
        found = rehearse(bike, "set", ["a:A"], schedule=schedule, hours=6.0)
        do(bike, "set", ["a:A"], schedule=schedule)
        assert count_real(bike, found) == count(found.changed)
        changed = datetime(2026, month, day.day, 1, tzinfo=UTC)
        assert found.clock_changes == [(changed.timestamp(), "Europe/Berlin")]


class TestOthers:
    def test_run_adds_one(self, bike):
        bike.set("a:A", "EVERY:1h")
        found = check(bike, "run", ["a:A"])
        assert (found.changed.runs, found.without.runs, found.changed.at_once) == (3, 2, 1)

    def test_run_of_a_job_that_failed_for_good(self, bike):
        bike.set("bad:A", "EVERY:10m", on_error="stop")
        bike.run_due(START + 700, reraise=False)
        found = check(bike, "run", ["bad:A"])
        assert found.without.runs == 0 < found.changed.runs

    def test_run_of_a_job_whose_pause_is_over_but_nobody_has_resumed_it(self, bike):
        bike.set("a:A", "EVERY:10m")
        skip_to(bike, 660)
        bike.dispatch_due(bike.now)
        bike.pause("a:A", until=bike.now + 60)
        skip_to(bike, 3600)
        assert check(bike, "run", ["a:A"]).changed.at_once == 1

    def test_run_of_a_paused_job(self, bike):
        bike.set("a:A", "EVERY:10m", catchup="all")
        bike.pause("a:A", until=START + 7200)
        skip_to(bike, 3600)
        found = check(bike, "run", ["a:A"])
        assert found.changed.runs >= found.without.runs

    def test_cancel_drops_what_waits(self, bike):
        bike.set("a:A", "EVERY:1h")
        skip_to(bike, 3700)
        bike.dispatch_due(bike.now)
        found = check(bike, "cancel", ["a:A"])
        assert (found.without.at_once, found.changed.at_once) == (1, 0)
        assert found.changed.skipped["cancelled"] == 1

    def test_a_pause_until(self, bike):
        bike.set("a:A", "EVERY:10m", catchup="all")
        found = check(bike, "pause", ["a:A"], until=START + 3500)
        assert found.changed.runs == found.without.runs

    def test_those_that_run_all_the_time_are_not_counted(self, bike):
        bike.set("a:A", "CONTINUE")
        found = rehearse(bike, "unset", ["a:A"])
        assert (found.without.continuous, found.changed.continuous, found.without.runs) == (1, 0, 0)

    def test_a_spread_job(self, bike):
        for number in range(10):
            bike.set(f"{number}:A", "*/30 * * * *", spread="20m")
            bike.pause(f"{number}:A")
        check(bike, "resume", [f"{number}:A" for number in range(10)])


class TestGates:
    """A queue, or everything, is paused or resumed."""

    @pytest.mark.parametrize("gate", [QUEUE, ""])
    @pytest.mark.parametrize(
        ("options", "released"),
        [({"catchup": "last"}, 1), ({"catchup": "none"}, 0), ({"catchup": "all", "catchup_limit": 5}, 5)],
    )
    @pytest.mark.parametrize("waits", [False, True])
    def test_a_resumed_gate_releases_what_came_due(self, bike, gate, options, released, waits):
        bike.set("a:A", "EVERY:7m", **options)
        skip_to(bike, 300)
        _ = bike.pause_queue("A") if gate else bike.pause_all()
        if waits:
            skip_to(bike, 300)
            bike.dispatch_due(bike.now)
        skip_to(bike, 5 * 3600)
        found = check(bike, "resume", ["a:A"], gate=gate)
        assert found.without.runs == found.held == 0 < found.changed.runs
        assert found.changed.at_once >= released

    @pytest.mark.parametrize("gate", [QUEUE, ""])
    @pytest.mark.parametrize("until", [None, START + 5000])
    def test_a_paused_gate_holds_its_jobs(self, bike, gate, until):
        for number, catchup in enumerate(("last", "none", "all")):
            bike.set(f"{number}:A", "EVERY:10m", catchup=catchup)
        bike.set("now:A", "NOW")
        bike.dispatch_due(bike.now)
        found = check(bike, "pause", ["0:A", "1:A", "2:A", "now:A"], gate=gate, until=until)
        assert found.changed.at_once == 0 < found.without.at_once
        assert bool(found.changed.runs) == (until is not None)

    @pytest.mark.parametrize("action", ["pause", "resume"])
    def test_a_gate_that_is_so_already_stays_so(self, bike, action):
        bike.set("a:A", "EVERY:10m")
        if action == "pause":
            bike.pause_queue("A", until=START + 4000)
        found = check(bike, action, ["a:A"], gate=QUEUE)
        assert count(found.changed) == count(found.without) != {}

    def test_what_everything_holds_is_still_held(self, bike):
        bike.set("a:A", "EVERY:10m")
        bike.pause_queue("A")
        bike.pause_all()
        skip_to(bike, 3600)
        found = check(bike, "resume", ["a:A"], gate=QUEUE)
        assert (found.changed.runs, found.held) == (0, 1)

    def test_its_jobs_are_found_wherever_they_are(self, redbike):
        bike = redbike(RoundRobin("A:B"), now=START)
        for jobid, schedule in (("late:A", "AT:1000"), ("a:A", "EVERY:1h"), ("b:B", "EVERY:1h"), ("far:A", "EVERY:9h")):
            bike.set(jobid, schedule)
        bike.dispatch_due(bike.now)
        bike.set("held:A", "EVERY:1h")
        bike.pause("held:A", until=START + 60)
        rehearser = Rehearser(bike.store, bike.settings, Change("resume", gate=QUEUE), HOURS)
        assert rehearser.find_jobs(QUEUE, 10, 60.0) == (["late:A", "held:A", "a:A"], False)
        assert rehearser.find_jobs("", 10, 60.0) == (["late:A", "held:A", "a:A", "b:B"], False)
        assert rehearser.find_jobs("", 3, 60.0) == (["late:A", "held:A", "a:A"], True)
        assert rehearser.find_jobs("", 10, 0.0) == (["late:A"], True)

    def test_other_actions_are_refused(self, bike):
        with pytest.raises(BadConfig, match="bad action 'run': resume, pause are allowed"):
            rehearse(bike, "run", ["a:A"], gate=QUEUE)


class TestWhole:
    def test_what_workers_run_at_once(self, bike):
        bike.set("a:A", "EVERY:10m")
        known = {"kind": "worker", "host": "web1", "pid": 1, "queues": [QUEUE], "version": "1"}
        for owner, more in (("Owner001", {"concurrency": 10}), ("Owner002", {"concurrency": 1})):
            bike.store.workers.sign(owner, json.dumps(known | more))
        bike.store.workers.sign("Owner003", json.dumps(known | {"kind": "dispatcher", "queues": []}))
        assert rehearse(bike, "run", ["a:A"]).capacities == {QUEUE: Capacity(2, 11)}
        bike.store.workers.sign("Owner004", json.dumps(known))  # of an older version
        assert rehearse(bike, "run", ["a:A"]).capacities == {QUEUE: Capacity(3, None)}

    def test_the_peak_counts_other_jobs_and_what_runs_took(self, bike):
        bike.set("a:A", "EVERY:10m", history=10)
        bike.set("other:A", "EVERY:5m")
        bike.run_due(START + 3600)
        list(bike.store.archiver.archive())
        bike.pause("a:A")
        found = rehearse(bike, "resume", ["a:A"])
        assert found.others is not None
        [peak] = found.find_peaks(found.changed)
        [without] = found.find_peaks(found.without)
        assert (peak.queue, peak.runs - without.runs) == (QUEUE, 2)
        assert peak.busy is not None

    def test_in_a_peak_no_job_is_counted_twice(self, bike):
        bike.set("a:A", "EVERY:5m")
        bike.set("other:A", "EVERY:5m")
        found = rehearse(bike, "unset", ["a:A"])
        assert found.find_peaks(found.without)[0].runs == 6
        assert found.find_peaks(found.changed)[0].runs == 3

    def test_others_that_are_too_many_are_left_out_and_that_is_told(self, bike, monkeypatch):
        monkeypatch.setattr(rehearsals, "MOST_OTHERS", 1)
        for name in ("a:A", "b:A", "c:A"):
            bike.set(name, "EVERY:10m")
        found = rehearse(bike, "run", ["a:A"])
        assert found.others is None
        assert found.changed.runs == 18

    def test_without_time_jobs_are_left_out_and_counted(self, bike, monkeypatch):
        monkeypatch.setattr(rehearsals, "PAGE", 2)
        for name in ("a:A", "b:A", "c:A"):
            bike.set(name, "EVERY:10m")
        found = rehearse(bike, "run", ["a:A", "b:A", "c:A"], patience=0.0)
        assert (found.jobs, found.left_out) == (2, 1)

    def test_more_jobs_than_can_be_rehearsed_are_refused(self, bike):
        with pytest.raises(BadConfig, match="10,001 jobs, 10,000 can be rehearsed"):
            rehearse(bike, "run", [f"{number}:A" for number in range(10_001)])

    @pytest.mark.parametrize("hours", [0, -1, 25, math.nan])
    def test_bad_hours(self, bike, hours):
        with pytest.raises(BadConfig, match="bad hours"):
            rehearse(bike, "run", ["a:A"], hours=hours)

    def test_a_bad_action(self, bike):
        with pytest.raises(BadConfig, match="bad action 'halt'"):
            rehearse(bike, "halt", ["a:A"])

    def test_a_damaged_schedule_does_not_run(self, bike):
        bike.set("a:A", "EVERY:10m")
        bike.redis.hset(bike.store.keys.schedules, "a:A", "nonsense")
        found = rehearse(bike, "run", ["a:A"])
        assert (found.wrong, found.without.runs, found.changed.runs) == (1, 0, 0)

    def test_nothing_is_changed(self, bike, client):
        bike.set("a:A", "EVERY:10m", catchup="all")
        bike.pause("a:A")
        skip_to(bike, 3600)
        before = {key: client.dump(key) for key in client.scan_iter()}
        for action in ACTIONS:
            rehearse(bike, action, ["a:A", "new:A"], schedule="EVERY:1h", until=bike.now + 60)
        assert {key: client.dump(key) for key in client.scan_iter()} == before

    def test_clock_changes_of_zones(self):
        start = datetime(2026, 3, 28, 20, tzinfo=UTC).timestamp()
        zones = ["Asia/Kathmandu", "Europe/Berlin", "UTC"]
        assert list(list_clock_changes(start, start + 4 * 3600, zones)) == []
        assert list(list_clock_changes(start, start + 6 * 3600, zones)) == [(start + 5 * 3600, "Europe/Berlin")]


class TestAskedForWhilePaused:
    """Somebody has asked for a run of a paused job, and it waits in a queue that is paused too."""

    @pytest.fixture(params=[None, START + 900, START + 1e6])
    def bike(self, bike, request):
        bike.set("a:A", "EVERY:1h@0")
        bike.pause("a:A", until=request.param)
        return bike

    @pytest.mark.parametrize("action", ["resume", "set", "pause", "run", "cancel", "unset"])
    def test_a_run_that_was_asked_for_waits_for_its_queue(self, bike, action):
        bike.pause_queue(QUEUE, until=START + 600)
        bike.run("a:A")
        check(bike, action, ["a:A"], **({"schedule": "EVERY:1h@0"} if action == "set" else {}))

    @pytest.mark.parametrize("until", [None, START + 600])
    def test_the_queue_of_a_run_that_was_asked_for_is_resumed(self, bike, until):
        bike.pause_queue(QUEUE, until=until)
        bike.run("a:A")
        found = check(bike, "resume", ["a:A"], gate=QUEUE)
        assert found.changed.at_once == 1


class TestInFlight:
    """A run is in flight: it ends at once, and well."""

    @pytest.fixture(params=["last", "none", "all"])
    def bike(self, bike, request):
        bike.set("a:A", "EVERY:10m", catchup=request.param)
        skip_to(bike, 900)
        bike.dispatch_due(bike.now)
        return bike

    def test_a_job_in_flight_that_is_set_to_the_schedule_it_has(self, bike):
        run = take_one(bike.store.at(bike.now), [(QUEUE, 1e6)], "elsewhere0")
        skip_to(bike, 100)
        found = rehearse(bike, "set", ["a:A"], schedule="EVERY:10m")
        do(bike, "set", ["a:A"], schedule="EVERY:10m")
        end_all(bike, [run])
        assert count_real(bike, found) == count(found.changed) == count(found.without)

    @pytest.mark.parametrize("is_paused", [False, True])
    def test_what_a_schedule_has_missed_that_is_set_during_the_run(self, redbike, tmp_path, is_paused):
        Timefile(tmp_path / "timefile").write(START - 3600)
        bike = redbike(Worker(), now=START, timefile=str(tmp_path / "timefile"), catchup="all")
        bike.set("a:A", "NOW")
        run = take_one(bike.store.at(bike.now), [(QUEUE, 1e6)], "elsewhere0")
        if is_paused:
            bike.pause("a:A", until=START + 900)
        found = rehearse(bike, "set", ["a:A"], schedule="EVERY:10m@0")
        do(bike, "set", ["a:A"], schedule="EVERY:10m@0")
        end_all(bike, [run])
        assert count_real(bike, found) == count(found.changed)
        assert found.changed.runs >= 18

    def test_now_once_more_during_its_run(self, bike):
        bike.set("a:A", "NOW")
        run = take_one(bike.store.at(bike.now), [(QUEUE, 1e6)], "elsewhere0")
        found = rehearse(bike, "set", ["a:A"], schedule="NOW")
        do(bike, "set", ["a:A"], schedule="NOW")
        end_all(bike, [run])
        assert count_real(bike, found) == count(found.changed)
        assert (found.without.runs, found.changed.runs) == (0, 1)

    @pytest.mark.parametrize(("before", "action", "schedule", "until"), some_of(7, product(
        [[], ["run"], ["pause"], ["pause", "run"], ["run", "pause"], ["set"],
         ["pause", "set"], ["set", "pause"], ["pause", "set", "run"], ["cancel"]],
        ["run", "pause", "resume", "set", "cancel", "unset"],
        ["EVERY:25m", f"AT:{START + 1200:.0f}"],
        [None, START + 3600],
    )))  # fmt: skip
    def test_a_job_in_flight(self, bike, before, action, schedule, until):
        run = take_one(bike.store.at(bike.now), [(QUEUE, 1e6)], "elsewhere0")
        for verb in before:
            skip_to(bike, 1)
            do(bike, verb, ["a:A"], schedule=schedule, until=until)
        skip_to(bike, 700)
        how = {"schedule": "EVERY:40m"} if action == "set" else {"until": START + 5000} if action == "pause" else {}
        found = rehearse(bike, action, ["a:A"], **how)
        if action == "cancel":
            assert found.changed.skipped.get("cancelled", 0) == ("cancel" not in before)
        do(bike, action, ["a:A"], **how)
        end_all(bike, [run])
        assert count_real(bike, found) == count(found.changed)


SCHEDULES = ["EVERY:7m", "EVERY:1h", "*/10 * * * *", "H * * * *", "RRULE:FREQ=MINUTELY;INTERVAL=25", "EVERY:90s",
             f"AT:{START + 3000:.0f}", f"AT:{START + 9000:.0f}", "NOW", "STOP", "CRON_TZ=Asia/Kathmandu 15 * * * *",
             "RRULE:FREQ=MINUTELY;INTERVAL=9;COUNT=12"]  # fmt: skip


def choose_options(chance):
    options = {"catchup": chance.choice(["last", "none", "all"]), "catchup_limit": chance.choice([1, 3, 100])}
    options |= {"grace": "15m"} if chance.random() < 0.3 else {}
    options |= {"spread": "4m"} if chance.random() < 0.3 else {}
    options |= {"overlap": "queue"} if chance.random() < 0.3 else {}
    return options | {"on_error": chance.choice(["stop", "reschedule", "retry"])}


def let_pass(bike, chance):
    """Let some time go by."""
    match chance.randrange(3):
        case 0:
            skip_to(bike, chance.uniform(0, 3000))
        case 1:
            bike.run_due(bike.now + chance.uniform(0, 3000), reraise=False)
        case 2:
            skip_to(bike, chance.uniform(0, 900))
            bike.dispatch_due(bike.now)


def meddle(bike, chance, jobids):
    """Do this or that, at once."""
    jobid = chance.choice(jobids)
    match chance.randrange(3, 13):
        case 3 | 4:
            bike.pause(jobid, until=bike.now + chance.uniform(1, 9000) if chance.random() < 0.4 else None)
        case 5:
            bike.resume(jobid)
        case 6:
            bike.cancel(jobid)
        case 7:
            bike.set(jobid, chance.choice(SCHEDULES), **choose_options(chance))
        case 8:
            until = bike.now + chance.uniform(1, 9000) if chance.random() < 0.4 else None
            _ = bike.pause_queue("A", until=until) if chance.random() < 0.5 else bike.pause_all(until=until)
        case 9:
            _ = bike.resume_queue("A") if chance.random() < 0.5 else bike.resume_all()
        case 10 | 11:
            bike.run(jobid)
        case 12:
            bike.set(jobid, chance.choice(SCHEDULES), after=bike.now - chance.uniform(0, 3000))


def take_some(bike, chance):
    """Take jobs from the queue, as a worker does that works them still when the rehearsal begins."""
    bike.dispatch_due(bike.now)
    store = bike.store.at(bike.now)
    taken = [take_one(store, [(QUEUE, 1e6)], f"elsewhere{number}") for number in range(chance.randrange(4))]
    return [run for run in taken if run != "empty"]


def end_all(bike, flying):
    """End runs at once, and well, as the worker does that has taken them."""
    store = bike.store.at(bike.now)
    for run in flying:
        settings = override(bike.settings, run.options)
        placement = place_done(run, None, settings, bike.now)
        answer = store.runs.end(run, placement)
        while answer.word == "changed":
            placement = place_again(run, placement, answer, override(bike.settings, answer.options), bike.now)
            run = replace(run, schedule=answer.detail)
            answer = store.runs.end(run, placement)
        assert answer.word == "ok", answer


@pytest.mark.acceptance
@pytest.mark.parametrize("number", some_of(5, ((number,) for number in range(120))))
def test_whatever_has_happened(redbike, number):
    """Jobs with any options, in any state: the rehearsal of any action is what happens."""
    seed = number if ALWAYS_THE_SAME else random.randrange(10**9)
    chance = random.Random(seed)
    bike = redbike(Worker(), now=START)
    jobids = [f"{name}{number}:A" for number in range(4) for name in ("a", "bad")]
    for jobid in jobids:
        bike.set(jobid, chance.choice(SCHEDULES), **choose_options(chance))
    for _ in range(chance.randrange(12)):
        if chance.random() < 0.25:
            let_pass(bike, chance)
        else:
            meddle(bike, chance, jobids)
    flying = take_some(bike, chance) if chance.random() < 0.5 else []
    for _ in range(chance.randrange(4) if flying else 0):
        meddle(bike, chance, jobids)
    bike.worker.failed = set(jobids)  # from now on, all succeed
    action, how = chance.choice(["none", *ACTIONS]), {}
    if action in GATE_ACTIONS and chance.random() < 0.5:
        how = {"gate": chance.choice([QUEUE, ""])}
    if action == "set":
        how = {"schedule": chance.choice(SCHEDULES)}
    elif action == "pause" and chance.random() < 0.6:
        how |= {"until": bike.now + chance.uniform(1, 9000)}
    chosen = chance.sample(jobids, 4) if action != "none" and "gate" not in how else jobids
    found = rehearse(bike, "unset" if action == "none" else action, chosen, **how)
    for jobid in jobids:
        if jobid not in chosen:
            bike.unset(jobid)
    if action != "none":
        do(bike, action, chosen, **how)
    end_all(bike, flying)
    assert count_real(bike, found) == count(found.without if action == "none" else found.changed), (seed, action)
