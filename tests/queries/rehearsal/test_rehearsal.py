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
from redbike.config.settings import override
from redbike.loop.changes import decide_again
from redbike.loop.policies import decide_done
from redbike.loop.timefile import Timefile
from redbike.queries.counting import MINUTE
from redbike.queries.rehearsal import rehearser as rehearsals
from redbike.queries.rehearsal.outlook import ACTIONS, QUEUE_ACTIONS, Capacity, Change
from redbike.queries.rehearsal.rehearser import Rehearser, list_clock_changes
from redbike.store.processes import compute_checksum
from tests.chance import ALWAYS_THE_SAME
from tests.states import untouched
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


@pytest.fixture
def early(redbike, tmp_path):
    """A bike whose dispatcher was there an hour ago for the last time."""
    Timefile(tmp_path / "timefile").write(START - 3600)
    return redbike(Worker(), now=START, timefile=str(tmp_path / "timefile"), catchup="all")


def rehearse(bike, action, jobids=("a:A",), hours=HOURS, patience=math.inf, **how):
    change = Change(action, **how)
    return Rehearser(bike.store, bike.settings, change, hours).run(jobids, patience)


def do(bike, action, jobids=("a:A",), until=None, schedule="", tz=None, limits=None):
    """Do for real what was rehearsed."""
    if limits is not None:
        until = {"until": until} if action == "pause" else {}
        _ = getattr(bike, f"{action}_queue")(limits, **until) if limits else getattr(bike, f"{action}_all")(**until)
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
    base = rehearsal.changed.base
    runs = bike.run_due(rehearsal.end - 0.001, reraise=False)
    return Counter(math.floor((run.start - base) / MINUTE) for run in runs)


def count(side):
    return Counter({minute: number for minute, number in enumerate(side.minutes) if number})


def check(bike, action, jobids=("a:A",), hours=HOURS, flying=(), others=(), **how):
    """What is rehearsed is what happens, also if nothing is done; `others` are left out, the runs `flying` end well."""
    found = rehearse(bike, action or "unset", jobids, hours, **how)
    for jobid in others:
        bike.unset(jobid)
    if action:
        do(bike, action, jobids, **how)
    end_all(bike, flying)
    assert count_real(bike, found) == count(found.changed if action else found.without)
    return found


def some_of(step, rows):
    """Rows of a table, of which each `step`-th is always tried, and all are at night."""
    return [pytest.param(*row, marks=pytest.mark.nightly if n % step else ()) for n, row in enumerate(rows)]


def skip_to(bike, seconds):
    """Let time go by in which nothing works."""
    bike._clock.move(round(bike.now + seconds, 6))  # Redis has no finer clock


def live(bike, steps, jobid="a:A"):
    """Let a job live through `steps`: seconds that go by, and what is done, behind `@` until when."""
    for step in steps.split():
        verb, _, until = step.partition("@")
        if verb == "dispatch":
            bike.dispatch_due(bike.now)
        elif verb.isdigit():
            skip_to(bike, int(verb))
        else:
            limits = {"queue": QUEUE, "everything": ""}.get(verb)
            action = "pause" if limits is not None else verb
            do(bike, action, [jobid], until=START + int(until) if until else None, limits=limits)


def describe(found):
    """What a rehearsal has found, for the tables."""
    changed, without = found.changed, found.without
    return {
        "runs": changed.runs,
        "at_once": changed.at_once,
        "skipped": dict(changed.skipped),
        "without": without.runs,
        "without_at_once": without.at_once,
        "without_skipped": dict(without.skipped),
        "continuous": (without.continuous, changed.continuous),
        "held": found.held,
        "is_same": count(changed) == count(without),
    }


TEN, HOUR = "EVERY:10m", "EVERY:1h"
LATEST, NONE, ALL = ({"catchup": catchup} for catchup in ("last", "none", "all"))
LATE = ALL | {"grace": "90m"}
RELEASED = [(LATEST, 1), (NONE, 0), (ALL | {"catchup_limit": 5}, 5)]


@pytest.mark.parametrize(
    ("schedule", "options", "steps", "action", "how", "said"),
    [
        (HOUR, LATE, "pause 18000", "resume", {}, {"at_once": 2, "skipped": {"late": 3}}),
        # What no dispatcher has moved within its grace is not run.
        (HOUR, LATE, "18060", None, {}, {"without_skipped": {"late": 3}}),
        (f"AT:{START + 60:.0f}", NONE, "pause 3600", "resume", {}, {"runs": 1, "at_once": 1}),
        (f"AT:{START + 3600:.0f}", {}, "pause", "resume", {}, {"runs": 1}),
        # What waited in a queue when it was paused.
        (TEN, NONE, "660 dispatch pause 3600", "resume", {}, {"at_once": 1}),
        # A pause that ends by itself.
        (TEN, ALL | {"catchup_limit": 3}, "pause@7200", None, {}, {"runs": 0, "without": 8, "without_at_once": 0}),
        (TEN, {}, "", "resume", {}, {"runs": 17, "is_same": True}),
        (TEN, {}, "pause queue 3600", "resume", {}, {"runs": 0}),
        # The schedule that it has keeps its phase, and a paused job stays paused.
        (HOUR, {}, "1800", "set", {"schedule": HOUR}, {"runs": 3, "is_same": True}),
        (HOUR, {}, "pause", "set", {"schedule": "EVERY:5m"}, {"runs": 0}),
        # A job that is not there yet.
        (None, {}, "", "set", {"schedule": HOUR}, {"runs": 2}),
        (None, {}, "", "set", {"schedule": "30 * * * *", "tz": "Asia/Kathmandu"}, {"runs": 3}),
        (HOUR, {}, "", "run", {}, {"runs": 3, "without": 2, "at_once": 1}),
        ("*/10 * * * *", {"after": START + 7200}, "", "run", {}, {"at_once": 1}),
        # Its pause is over, but nobody has resumed it.
        (TEN, {}, "660 dispatch pause@720 3600", "run", {}, {"at_once": 1}),
        (TEN, ALL, "pause@7200 3600", "run", {}, {"runs": 23, "without": 23}),
        (HOUR, {}, "3700 dispatch", "cancel", {}, {"without_at_once": 1, "at_once": 0, "skipped": {"cancelled": 1}}),
        (TEN, {}, "660 dispatch queue 3600", "cancel", {}, {"skipped": {"cancelled": 1, "paused": 6}}),
        (TEN, ALL, "", "pause", {"until": START + 3500}, {"runs": 17, "without": 17}),
        ("CONTINUE", {}, "", "unset", {}, {"continuous": (1, 0), "without": 0}),
        # Limits that is so already stays so, and what everything holds is still held.
        (TEN, {}, "queue@4000", "pause", {"limits": QUEUE}, {"runs": 12, "is_same": True}),
        (TEN, {}, "", "resume", {"limits": QUEUE}, {"runs": 17, "is_same": True}),
        (TEN, {}, "queue everything 3600", "resume", {"limits": QUEUE}, {"runs": 0, "held": 1}),
        # What comes due after the resume is late when everything is resumed.
        ("10 * * * *", {"grace": "5m"}, "pause everything@6727", "resume", {}, {"runs": 2}),
    ],
)
def test_an_action(bike, schedule, options, steps, action, how, said):
    if schedule is not None:
        bike.set("a:A", schedule, **options)
    live(bike, steps)
    found = describe(check(bike, action, **how))
    assert found | said == found


class TestResume:
    @pytest.mark.parametrize(
        ("schedule", "options", "released"),
        [("EVERY:7m", *RELEASED[0]), ("*/10 * * * *", *RELEASED[1]), ("RRULE:FREQ=MINUTELY;INTERVAL=25", *RELEASED[2])],
    )
    def test_catch_ups_by_their_policy(self, bike, schedule, options, released):
        bike.set("a:A", schedule, **options)
        live(bike, "pause 18000")
        found = check(bike, "resume")
        assert (found.changed.at_once, found.without.runs) == (released, 0)

    @pytest.mark.parametrize(("catchup", "limits"), [("last", "everything"), ("none", "queue"), ("all", "queue")])
    def test_while_the_queue_or_everything_is_paused_too(self, bike, catchup, limits):
        bike.set("a:A", TEN, catchup=catchup, catchup_limit=4)
        live(bike, f"pause {limits}@9000 3600")
        found = check(bike, "resume")
        assert found.held == 1
        assert found.changed.at_once == 0 < found.changed.runs

    def test_a_spread_job(self, bike):
        jobids = [f"{number}:A" for number in range(10)]
        for jobid in jobids:
            bike.set(jobid, "*/30 * * * *", spread="20m")
            bike.pause(jobid)
        check(bike, "resume", jobids)


class TestSet:
    @pytest.mark.parametrize(("before", "schedule"), [
        *product(["EVERY:11m"],
                 ["*/7 * * * *", "H/10 * * * *", "*/10 * * * * 30", "STOP", f"AT:{START + 1000:.0f}", "AT:1000"]),
        ("0 * * * *", "NOW"), ("STOP", "RRULE:FREQ=HOURLY"),
    ])  # fmt: skip
    def test_a_schedule(self, bike, before, schedule):
        bike.set("a:A", before)
        skip_to(bike, 90)
        check(bike, "set", schedule=schedule)

    @pytest.mark.parametrize("steps", ["", "pause@600", "pause@900 run"])
    def test_one_that_is_due_since_the_dispatcher_was_there_last_and_waits_already(self, early, steps):
        early.set("a:A", "EVERY:1h@0", after=START - 20_000)
        assert early.dispatch_due() == 0
        assert early.tell("a:A")["status"].startswith("ENQ:")
        live(early, f"queue@600 {steps}")
        assert check(early, "set", schedule="EVERY:10m@0").changed.runs >= 6

    @pytest.mark.parametrize(
        ("month", "schedule"),
        [(3, "30 2 * * *"), (3, "RRULE:FREQ=DAILY;BYHOUR=2"), (10, "30 1-3 * * *"), (10, "RRULE:FREQ=DAILY;BYHOUR=2")],
    )
    def test_a_day_on_which_clocks_change(self, redbike, month, schedule):
        day = datetime(2026, month, 29 if month == 3 else 25, tzinfo=ZoneInfo("Europe/Berlin"))
        bike = redbike(Worker(), now=day.timestamp() + 30, timezone="Europe/Berlin")
        found = check(bike, "set", schedule=schedule, hours=6.0)
        changed = datetime(2026, month, day.day, 1, tzinfo=UTC)
        assert found.clock_changes == [(changed.timestamp(), "Europe/Berlin")]


def test_run_of_a_job_that_failed_for_good(bike):
    bike.set("bad:A", TEN, on_error="stop")
    bike.run_due(START + 700, reraise=False)
    found = check(bike, "run", ["bad:A"])
    assert found.without.runs == 0 < found.changed.runs


class TestGates:
    """A queue, or everything, is paused or resumed."""

    @pytest.mark.parametrize(
        ("limits", "name", "options", "released", "waits"),
        [
            (QUEUE, "queue", *RELEASED[0], ""),
            (QUEUE, "queue", *RELEASED[1], "300 dispatch"),
            ("", "everything", *RELEASED[1], ""),
            ("", "everything", *RELEASED[2], "300 dispatch"),
        ],
    )
    def test_a_resumed_gate_releases_what_came_due(self, bike, limits, name, options, released, waits):
        bike.set("a:A", "EVERY:7m", **options)
        live(bike, f"300 {name} {waits} 18000")
        found = check(bike, "resume", limits=limits)
        assert found.without.runs == found.held == 0 < found.changed.runs
        assert found.changed.at_once >= released

    @pytest.mark.parametrize(("limits", "until"), [(QUEUE, START + 5000), ("", None)])
    def test_a_paused_gate_holds_its_jobs(self, bike, limits, until):
        for number, catchup in enumerate(("last", "none", "all")):
            bike.set(f"{number}:A", TEN, catchup=catchup)
        bike.set("now:A", "NOW")
        bike.dispatch_due(bike.now)
        found = check(bike, "pause", ["0:A", "1:A", "2:A", "now:A"], limits=limits, until=until)
        assert found.changed.at_once == 0 < found.without.at_once
        assert bool(found.changed.runs) == (until is not None)

    @pytest.mark.parametrize("limits", [None, QUEUE, ""])
    @pytest.mark.parametrize("seconds", [1000, 5000, None])
    def test_a_pause_goes_on_after_a_blackout_that_is_on(self, bike, limits, seconds):
        bike.set("a:A", TEN, catchup="none")
        blackout = {"every": f"EVERY:1d@{START - 86400:.0f}", "lasting": 2000}
        of = {QUEUE: lambda: bike.pause_queue("A", **blackout), "": lambda: bike.pause_all(**blackout)}
        of.get(limits, lambda: bike.pause("a:A", **blackout))()
        until = None if seconds is None else START + seconds
        found = check(bike, "pause", limits=limits, until=until)
        assert (found.without.runs, found.changed.runs) == (14, {1000: 14, 5000: 9, None: 0}[seconds])

    @pytest.mark.parametrize(("schedule", "catchup"), [("30 14 * * *", "last"), (f"AT:{START + 1000:.0f}", "none")])
    def test_a_pause_of_a_job_that_ends_in_a_blackout_of_its_queue(self, bike, schedule, catchup):
        bike.set("a:A", schedule, catchup=catchup)
        bike.pause_queue("A", every="15 14 * * *", lasting="1h")
        assert check(bike, "pause", until=START + 1600).changed.runs == 1

    def test_its_jobs_are_found_wherever_they_are(self, redbike):
        bike = redbike(RoundRobin("A:B"), now=START)
        for jobid, schedule in (("late:A", "AT:1000"), ("a:A", HOUR), ("b:B", HOUR), ("far:A", "EVERY:9h")):
            bike.set(jobid, schedule)
        bike.dispatch_due(bike.now)
        bike.set("held:A", HOUR)
        bike.pause("held:A", until=START + 60)
        rehearser = Rehearser(bike.store, bike.settings, Change("resume", limits=QUEUE), HOURS)
        assert rehearser.find_jobs(QUEUE, 10, 60.0) == (["late:A", "held:A", "a:A"], False)
        assert rehearser.find_jobs("", 10, 60.0) == (["late:A", "held:A", "a:A", "b:B"], False)
        assert rehearser.find_jobs("", 3, 60.0) == (["late:A", "held:A", "a:A"], True)
        assert rehearser.find_jobs("", 10, 0.0) == (["late:A"], True)


@pytest.mark.parametrize(
    ("action", "how", "error", "said"),
    [
        ("run", {"limits": QUEUE}, BadConfig, "bad action 'run': resume, pause are allowed"),
        ("halt", {}, BadConfig, "bad action 'halt'"),
        ("set", {"schedule": "0 0 30 2 *"}, BadSchedule, "never"),
        ("run", {"jobids": ["a:A"] * 10_001}, BadConfig, "10,001 jobs, 10,000 can be rehearsed"),
        *(("run", {"hours": hours}, BadConfig, "bad hours") for hours in (0, -1, 25, math.nan)),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(bike, action, how, error, said):
    bike.set("a:A", HOUR)
    with pytest.raises(error, match=said):
        rehearse(bike, action, **how)


class TestWhole:
    def test_what_workers_run_at_once(self, bike):
        bike.set("a:A", TEN)
        known = {"kind": "worker", "host": "web1", "pid": 1, "queues": [QUEUE], "version": "1"}
        for owner, more in (
            ("Owner001", {"concurrency": 10}),
            ("Owner002", {"concurrency": 1}),
            ("Owner003", {"kind": "dispatcher", "queues": []}),
        ):
            bike.store.workers.register(owner, json.dumps(known | more))
        assert rehearse(bike, "run").capacities == {QUEUE: Capacity(2, 11)}
        bike.store.workers.register("Owner004", json.dumps(known))  # of an older version
        assert rehearse(bike, "run").capacities == {QUEUE: Capacity(3, None)}
        more = {"queues": ["work-B", "…+1"], "checksums": compute_checksum(QUEUE)}
        bike.store.workers.register("Owner004", json.dumps(known | more))  # it has many queues
        assert rehearse(bike, "run").capacities == {QUEUE: Capacity(3, None)}

    def test_the_peak_counts_other_jobs_and_what_runs_took(self, bike):
        bike.set("a:A", TEN, history=10)
        bike.set("other:A", "EVERY:5m")
        bike.run_due(START + 3600)
        list(bike.store.archiver.archive())
        bike.pause("a:A")
        found = rehearse(bike, "resume")
        assert found.others is not None
        [peak] = found.find_peaks(found.changed)
        [without] = found.find_peaks(found.without)
        assert (peak.queue, peak.runs - without.runs) == (QUEUE, 2)
        assert peak.busy is not None

    def test_in_a_peak_no_job_is_counted_twice(self, bike):
        for jobid in ("a:A", "other:A"):
            bike.set(jobid, "EVERY:5m")
        found = rehearse(bike, "unset")
        assert [found.find_peaks(side)[0].runs for side in (found.without, found.changed)] == [6, 3]

    def test_jobs_that_are_too_many_are_left_out_and_that_is_told(self, bike, monkeypatch):
        jobids = ["a:A", "b:A", "c:A"]
        for jobid in jobids:
            bike.set(jobid, TEN)
        monkeypatch.setattr(rehearsals, "PAGE", 2)
        found = rehearse(bike, "run", jobids, patience=0.0)
        assert (found.jobs, found.left_out) == (2, 1)
        monkeypatch.setattr(rehearsals, "MOST_OTHERS", 1)
        found = rehearse(bike, "run")
        assert (found.others, found.changed.runs) == (None, 18)

    def test_a_damaged_schedule_does_not_run(self, bike):
        bike.set("a:A", TEN)
        bike.redis.hset(bike.store.keys.schedules, "a:A", "nonsense")
        found = rehearse(bike, "run")
        assert (found.wrong, found.without.runs, found.changed.runs) == (1, 0, 0)

    def test_nothing_is_changed(self, bike):
        bike.set("a:A", TEN, catchup="all")
        live(bike, "pause 3600")
        with untouched(bike.client):
            for action in ACTIONS:
                rehearse(bike, action, ["a:A", "new:A"], schedule=HOUR, until=bike.now + 60)

    def test_clock_changes_of_zones(self):
        start = datetime(2026, 3, 28, 20, tzinfo=UTC).timestamp()
        zones = ["Asia/Kathmandu", "Europe/Berlin", "UTC"]
        assert list(list_clock_changes(start, start + 4 * 3600, zones)) == []
        assert list(list_clock_changes(start, start + 6 * 3600, zones)) == [(start + 5 * 3600, "Europe/Berlin")]


class TestAskedForWhilePaused:
    """Somebody has asked for a run of a paused job, and it waits in a queue that is paused too."""

    @pytest.mark.parametrize(
        ("until", "action"), [*product(["@900"], ACTIONS), ("", "resume"), ("", "run"), ("@1000000", "set")]
    )
    def test_a_run_that_was_asked_for_waits_for_its_queue(self, bike, until, action):
        bike.set("a:A", "EVERY:1h@0")
        live(bike, f"pause{until} queue@600 run")
        check(bike, action, **({"schedule": "EVERY:1h@0"} if action == "set" else {}))

    @pytest.mark.parametrize("steps", ["pause queue run", "pause@900 queue@600 run"])
    def test_the_queue_of_a_run_that_was_asked_for_is_resumed(self, bike, steps):
        bike.set("a:A", "EVERY:1h@0")
        live(bike, steps)
        assert check(bike, "resume", limits=QUEUE).changed.at_once == 1


def take(bike):
    """A run that is in flight: it ends at once, and well."""
    return take_one(bike.store.at(bike.now), [(QUEUE, 1e6)], "elsewhere0")


class TestInFlight:
    def test_a_job_in_flight_that_is_set_to_the_schedule_it_has(self, bike):
        bike.set("a:A", TEN)
        live(bike, "900 dispatch")
        run = take(bike)
        skip_to(bike, 100)
        assert describe(check(bike, "set", schedule=TEN, flying=[run]))["is_same"]

    @pytest.mark.parametrize("steps", ["", "pause@900"])
    def test_what_a_schedule_has_missed_that_is_set_during_the_run(self, early, steps):
        early.set("a:A", "NOW")
        run = take(early)
        live(early, steps)
        assert check(early, "set", schedule="EVERY:10m@0", flying=[run]).changed.runs >= 18

    def test_now_once_more_during_its_run(self, bike):
        bike.set("a:A", "NOW")
        found = check(bike, "set", schedule="NOW", flying=[take(bike)])
        assert (found.without.runs, found.changed.runs) == (0, 1)

    @pytest.mark.parametrize(("before", "action", "schedule", "until"), some_of(7, product(
        [[], ["run"], ["pause"], ["pause", "run"], ["run", "pause"], ["set"],
         ["pause", "set"], ["set", "pause"], ["pause", "set", "run"], ["cancel"]],
        ["run", "pause", "resume", "set", "cancel", "unset"],
        ["EVERY:25m", f"AT:{START + 1200:.0f}"],
        [None, START + 3600],
    )))  # fmt: skip
    def test_a_job_in_flight(self, bike, before, action, schedule, until):
        bike.set("a:A", TEN, catchup=("last", "none", "all")[(len(before) + len(action)) % 3])
        live(bike, "900 dispatch")
        run = take(bike)
        for verb in before:
            skip_to(bike, 1)
            do(bike, verb, schedule=schedule, until=until)
        skip_to(bike, 700)
        how = {"set": {"schedule": "EVERY:40m"}, "pause": {"until": START + 5000}}.get(action, {})
        found = check(bike, action, flying=[run], **how)
        if action == "cancel":
            assert found.changed.skipped.get("cancelled", 0) == ("cancel" not in before)


SCHEDULES = ["EVERY:7m", "EVERY:1h", "*/10 * * * *", "H * * * *", "RRULE:FREQ=MINUTELY;INTERVAL=25", "EVERY:90s",
             f"AT:{START + 3000:.0f}", f"AT:{START + 9000:.0f}", "NOW", "STOP", "CRON_TZ=Asia/Kathmandu 15 * * * *",
             "RRULE:FREQ=MINUTELY;INTERVAL=9;COUNT=12"]  # fmt: skip


def choose_options(chance):
    options = {"catchup": chance.choice(["last", "none", "all"]), "catchup_limit": chance.choice([1, 3, 100])}
    options |= {"grace": "15m"} if chance.random() < 0.3 else {}
    options |= {"expires": chance.choice(["5m", "25m", "2h"])} if chance.random() < 0.3 else {}
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
        next_state = decide_done(run, None, settings, bike.now)
        answer = store.runs.end(run, next_state)
        while answer.word == "changed":
            next_state = decide_again(run, next_state, answer, override(bike.settings, answer.options), bike.now)
            run = replace(run, schedule=answer.detail)
            answer = store.runs.end(run, next_state)
        assert answer.word == "ok", answer


@pytest.mark.acceptance
@pytest.mark.parametrize("number", some_of(6, ((number,) for number in range(120))))
def test_whatever_has_happened(redbike, number):
    """Jobs with any options, in any state: the rehearsal of any action is what happens."""
    seed = number if ALWAYS_THE_SAME else random.randrange(10**9)
    print("seed", seed)  # for who looks at a failure
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
    action, how = chance.choice([None, *ACTIONS]), {}
    if action in QUEUE_ACTIONS and chance.random() < 0.5:
        how = {"limits": chance.choice([QUEUE, ""])}
    if action == "set":
        how = {"schedule": chance.choice(SCHEDULES)}
    elif action == "pause" and chance.random() < 0.6:
        how |= {"until": bike.now + chance.uniform(1, 9000)}
    chosen = chance.sample(jobids, 4) if action and "limits" not in how else jobids
    check(bike, action, chosen, flying=flying, others={*jobids} - {*chosen}, **how)
