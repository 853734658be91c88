"""The lanes of a timeline: what ran, runs and will run, compared with what was counted one by one."""

import random
from collections import Counter

import pytest

from redbike.config.settings import Settings
from redbike.control.blackouts import make_blackout, set_for_jobs
from redbike.queries.lanes import finder
from redbike.queries.lanes.finder import find_lanes
from redbike.queries.lanes.model import LISTED, Kind, Question
from redbike.store.enums import Outcome
from tests.queries import kept
from tests.queries.test_forecast import NOW, SCHEDULES, count_one_by_one, look, set_some
from tests.verbs import set_job, take_one

BIKE = {"queues": "A:B"}
HOUR = 3600.0
PARTS = 100


def find(bike, since=-4 * HOUR, until=4 * HOUR, **more):
    question = Question(NOW + since, NOW + until, **more)
    return find_lanes(bike.store.at(NOW), question, NOW, Settings(), PARTS)


def remember(bike, jobid, ended, took=1.0, outcome=Outcome.OK, **more):
    """A run of which is told when it ended, in seconds after NOW."""
    kept.remember(bike.store, NOW + ended - took, 0.0, took, outcome, "", jobid, f"work-{jobid[-1]}", **more)


def remember_many(bike, number, seed):
    """Runs before NOW, some of them beyond the time that is looked at; return (job, began, ended, kind)."""
    chance, made = random.Random(seed), []
    for ended in sorted(-chance.uniform(0, 8 * HOUR) for _ in range(number)):
        jobid, took = f"job{chance.randrange(12)}:{chance.choice('AB')}", chance.choice([0.1, 60.0, 2 * HOUR])
        outcome = chance.choice([Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.LOST])
        remember(bike, jobid, ended, took, outcome)
        kind = Kind.OK if outcome is Outcome.OK else Kind.FAILED
        made.append((jobid, NOW + ended - took, NOW + ended, kind))
    return made


@pytest.mark.parametrize("by_job", [False, True])
def test_each_lane_has_the_runs_that_went_on_in_the_time(bike, by_job):
    made = remember_many(bike, 200, by_job)
    found = find(bike, by_job=by_job)
    expected = {}
    for jobid, _, ended, kind in made:
        if ended >= NOW - 4 * HOUR:
            name = jobid if by_job else f"work-{jobid[-1]}"
            expected.setdefault(name, Counter())[kind] += 1
    assert {lane.name: lane.counts for lane in found.lanes} == expected
    assert found.counts == sum(expected.values(), Counter())
    assert (found.more, found.hidden, found.continuous, found.cuts) == (0, set(), 0, [])
    # What is listed: the failures first, of which there are fewer than are listed.
    assert len(found.listed) == min(LISTED, found.events)
    assert sum(event.kind is Kind.FAILED for event in found.listed) == found.counts[Kind.FAILED]
    assert [event.start for event in found.listed] == sorted(event.start for event in found.listed)
    assert all(event.run.jobid == event.jobid and event.run.started == event.start for event in found.listed)


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_lane_says_from_when_on_all_its_runs_are_kept(bike, is_archived):
    past = {
        ("few:A", 3): [-3, -2.5, -2, -1],  # one is gone
        ("none-gone:A", 5): [-3.5, -3, -2, -1],
        ("older:B", 2): [-5, -1],  # the last one that is kept began before the time that is shown
        ("usual:B", 10): [-3 + each / 10 for each in range(10)],
    }
    for (jobid, history), hours in past.items():
        options = {} if history == 10 else {"history": history}
        bike.set(jobid, "EVERY:1d", after=NOW, **options)
        for ended in hours:
            remember(bike, jobid, ended * HOUR, history=history)
    if is_archived:
        list(bike.store.archiver.archive())
    known = {"few:A": NOW - 2.5 * HOUR - 1, "none-gone:A": None, "older:B": None, "usual:B": NOW - 3 * HOUR - 1}
    assert {lane.name: lane.kept_from for lane in find(bike, by_job=True).lanes} == known
    by_queue = {lane.name: lane.kept_from for lane in find(bike).lanes}
    assert by_queue == {"work-A": known["few:A"], "work-B": known["usual:B"]}
    assert [lane.kept_from for lane in find(bike, fits=lambda jobid: "none" in jobid).lanes] == [None]


def test_a_part_of_a_queue_has_what_went_on_in_it(bike):
    made = remember_many(bike, 60, 3)
    found, size = find(bike), 8 * HOUR / PARTS
    for lane in found.lanes:
        for part in range(PARTS):
            start = NOW - 4 * HOUR + part * size
            own = [each for each in made if f"work-{each[0][-1]}" == lane.name]
            for kind in (Kind.OK, Kind.FAILED):
                inside = [each for each in own if each[3] is kind and each[1] < start + size and each[2] >= start]
                assert lane.parts[kind][part] == len(inside)


def test_what_is_planned_is_what_the_forecast_counts(bike):
    for number, schedule in enumerate(SCHEDULES):
        set_some(bike, 2, schedule, f"{number}.", "AB"[number % 2])
    list(bike.pause("0.0:A"))
    agenda = look(bike, hours=4)
    quarters, _ = count_one_by_one(bike, NOW, agenda.end, NOW)
    found = find(bike, since=-HOUR, until=agenda.end - NOW)
    by_queue = Counter()
    for (_, queue), runs in quarters.items():
        by_queue[queue] += runs
    assert {lane.name: lane.counts[Kind.PLANNED] for lane in found.lanes} == dict(by_queue)
    assert found.counts[Kind.PLANNED] == agenda.runs == sum(by_queue.values())
    assert found.continuous == agenda.continuous > 0
    # Each job for itself, and when.
    [lane] = find(bike, by_job=True, fits=lambda jobid: jobid == "6.0:A").lanes  # in each second of 12 minutes
    assert [(event.number, event.start % 1200) for event in lane.events] == [(60, 0.0)] * 12


def test_a_run_in_flight_is_drawn_until_now_and_its_job_has_its_past(bike):
    bike.set("job:A", "EVERY:1h", after=NOW)
    remember(bike, "job:A", -HOUR)
    bike.store.at(NOW - 60).jobs.run(["job:A"])
    take_one(bike.store.at(NOW - 50), [("work-A", 100.0)], "tag")
    [lane] = find(bike, by_job=True).lanes
    assert lane.counts == {Kind.OK: 1, Kind.RUNNING: 1, Kind.PLANNED: 4}
    [running] = [event for event in lane.events if event.kind is Kind.RUNNING]
    assert (running.start, running.end) == (NOW - 50, NOW)


@pytest.mark.parametrize("held", [1, 1000])
def test_of_very_many_jobs_those_that_failed_come_first_and_then_those_that_run(bike, monkeypatch, held):
    monkeypatch.setattr(finder, "LANES", 4)
    monkeypatch.setattr(finder, "KEPT", held)
    for number in range(30):
        remember(bike, f"past{number:02}:A", -60)
        bike.set(f"plan{number:02}:A", "EVERY:1h", after=NOW)
    remember(bike, "past21:A", -30, outcome=Outcome.FAILED)
    remember(bike, "zfails:A", -30, outcome=Outcome.FAILED)
    bike.store.at(NOW - 60).jobs.run(["plan17:A"])
    take_one(bike.store.at(NOW - 50), [("work-A", 100.0)], "tag")
    found = find(bike, by_job=True)
    assert [lane.name for lane in found.lanes] == ["past21:A", "zfails:A", "plan17:A", "past00:A"]
    assert found.more == 61 - 4
    assert [lane.counts for lane in found.lanes][2] == {Kind.RUNNING: 1, Kind.PLANNED: 4}
    assert found.counts == {Kind.OK: 30, Kind.FAILED: 2, Kind.RUNNING: 1, Kind.PLANNED: 30 * 4}


def test_a_job_that_runs_often_hides_no_other_one_in_the_list(bike):
    for number in range(200):
        remember(bike, "often:A", -60 * (200 - number))
    for number in range(90):
        remember(bike, f"rare{number}:A", -30)
    bike.set("fast:A", "EVERY:30s", after=NOW)
    listed = Counter(event.jobid for event in find(bike).listed)
    assert {f"rare{number}:A" for number in range(90)} <= set(listed)
    assert (listed["often:A"], listed["fast:A"]) == (5, 5)
    assert len(find(bike, until=0, fits=lambda jobid: jobid == "often:A").listed) == 10, "all that is kept"


def test_what_runs_more_often_may_be_left_out_but_for_its_tries(bike):
    for number in range(5):
        remember(bike, "often:A", 60 * (number - 5))
        remember(bike, "hourly:A", HOUR * (number - 5) + HOUR)
        kept.remember(bike.store, NOW - 999, number, 1.0, Outcome.FAILED, "", "tried:A", "work-A", number + 1)
    remember(bike, "often:A", -1, outcome=Outcome.FAILED)
    bike.set("fast:B", "EVERY:30s", after=NOW)
    bike.set("slow:B", "EVERY:1h", after=NOW)
    found = find(bike, by_job=True, every=300.0)
    assert {lane.name for lane in found.lanes} == {"hourly:A", "tried:A", "slow:B", "often:A"}
    assert found.hidden == {"often:A", "fast:B"}
    assert found.counts == {Kind.OK: 5, Kind.FAILED: 6, Kind.PLANNED: 4}
    # What comes just as often is shown, whatever was run besides.
    bike.set("even:B", "EVERY:5m", after=NOW)
    bike.run("even:B")
    assert "even:B" not in find(bike, by_job=True, every=300.0).hidden


def test_a_queue_and_a_pattern_choose(bike):
    for jobid in ("one:A", "two:A", "one:B"):
        remember(bike, jobid, -60)
        bike.set(jobid, "EVERY:1h", after=NOW)
    assert {lane.name for lane in find(bike, by_job=True, queue="work-A").lanes} == {"one:A", "two:A"}
    assert {lane.name for lane in find(bike, by_job=True, fits=lambda each: each[0] == "o").lanes} == {"one:A", "one:B"}
    assert [(lane.name, lane.counts[Kind.OK]) for lane in find(bike, queue="work-A").lanes] == [("work-A", 2)]


def test_pauses_and_blackouts_are_bands(bike):
    for jobid in ("own:A", "other:A", "far:B"):
        remember(bike, jobid, -60)
        bike.set(jobid, "EVERY:1h", after=NOW)
    earlier = bike.store.noted_as("ann").at(NOW - HOUR)
    earlier.pauses.pause(["own:A"], NOW + HOUR, "ann", "tapes")
    earlier.queue_limits.pause("work-A", NOW + 60, "ann", "")
    set_for_jobs(earlier, ["other:A"], make_blackout(earlier, "0 * * * *", "10m", "", "UTC"), Settings())
    bands = {lane.name: [(band.start - NOW, band.end - NOW, band.text) for band in lane.bands]
             for lane in find(bike, by_job=True).lanes}  # fmt: skip
    queue = (-HOUR, 60.0, "queue work-A paused")
    assert bands["own:A"] == [queue, (-HOUR, HOUR, "paused: tapes")]
    assert bands["far:B"] == []
    *blackouts, last = bands["other:A"]
    assert last == queue
    assert {(end - start, text) for start, end, text in blackouts} == {(600.0, "blackout of 10 min")}
    assert [start % HOUR for start, *_ in blackouts] == [1599.75] * 5
    assert {lane.name: len(lane.bands) for lane in find(bike).lanes} == {"work-A": 1, "work-B": 0}


def test_changes_and_losses_are_marks(bike):
    store = bike.store.noted_as("ann@host").at(NOW - 600)
    kept.register(bike.store, "worker", 1, ["work-A"], NOW - 3000)
    kept.register(bike.store, "worker", 1, ["work-A"], NOW - 2000, f"{NOW - 3000:.6f}")
    for jobid in ("job:A", "other:A"):
        set_job(store, jobid, "EVERY:1h", NOW + HOUR)
    marks = find(bike, fits=lambda jobid: jobid == "job:A").marks
    assert [(mark.time, mark.jobid, mark.is_loss) for mark in marks] == [
        (NOW - 2000, "", True), (NOW - 600, "job:A", False)
    ]  # fmt: skip
    assert marks[1].text.startswith("ann@host: set EVERY:1h")
    assert find(bike, since=-300).marks == []
