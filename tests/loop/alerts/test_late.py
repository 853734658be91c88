"""Which jobs are late, wherever they are. Time is an argument."""

import json
from datetime import datetime
from itertools import pairwise

import pytest

from redbike import Jobs, current_run
from redbike.config.settings import Settings
from redbike.loop.alerts.late import find_late, find_time_of_day
from redbike.queries.glance import read_view
from redbike.queries.health import check_health
from redbike.queries.metrics import Metrics
from redbike.store.enums import Outcome
from redbike.store.next_state import NextState
from redbike.testing.simulated import Clock
from tests.verbs import dispatch, take_one

JOB, QUEUE = "job:A", "work-A"
DAY = 86400.0
NOON = 20_000 * DAY + DAY / 2
DAILY = "0 12 * * *"
HOUR = 3600.0


def put(bike, schedule=DAILY, jobid=JOB, now=NOON - HOUR, **options):
    """Set a job that is due at `NOON`, by its schedule or else as if by that."""
    bike.store.client.delete(bike.store.keys.timeline)
    assert bike.set(jobid, schedule, **options)
    bike.store.client.zadd(bike.store.keys.timeline, {jobid: NOON})


def enqueue(bike):
    assert dispatch(bike.store.at(NOON), [(JOB, repr(NOON), QUEUE)]) == 1


def begin(bike, at=NOON):
    enqueue(bike)
    return take_one(bike.store.at(at), [(QUEUE, 1e6)], "tag")


def fail(bike):
    again = NextState("due", NOON + HOUR, retry_state=f"1 0 1 {NOON:.6f} -", retried=True)
    bike.store.at(NOON + 1).runs.end(begin(bike), again)


PLACES = {
    "timeline": lambda bike: None,
    "queue": enqueue,
    "flight": begin,
    "retry": fail,
    "paused": lambda bike: bike.pause(JOB),
    "flight, paused": lambda bike: (begin(bike), bike.pause(JOB)),
}


def late(bike, now):
    return [(each.jobid, each.due, each.since) for each in find_late(bike.store.at(now), Settings())]


@pytest.mark.parametrize(
    ("place", "options", "limit"),
    [
        ("timeline", {"start_within": "10m"}, 600),
        ("queue", {"start_within": "10m"}, 600),
        ("flight", {"start_within": "10m"}, None),
        ("retry", {"start_within": "10m"}, None),
        ("paused", {"start_within": "10m"}, None),
        ("timeline", {"finish_within": "20m"}, 1200),
        ("queue", {"finish_within": 1200}, 1200),
        ("flight", {"finish_within": "20m"}, 1200),
        ("retry", {"finish_within": "20m"}, 1200),
        ("paused", {"finish_within": "20m"}, None),
        ("flight, paused", {"finish_within": "20m"}, 1200),
        ("flight", {"finish_by": "12:30"}, 1800),
        ("queue", {"finish_by": "12:00"}, DAY),
        ("queue", {"start_within": "10m", "finish_by": "12:30"}, 600),
        ("flight", {"start_within": "10m", "finish_by": "12:30"}, 1800),
        ("queue", {"timeout": "10m"}, None),
    ],
)
def test_a_job_is_late_from_its_limit_on(bike, place, options, limit):
    put(bike, **options)
    PLACES[place](bike)
    if limit is None:
        assert late(bike, NOON + 10 * DAY) == []
        return
    assert late(bike, NOON + limit - 0.001) == []
    assert late(bike, NOON + limit) == late(bike, NOON + 2 * DAY) == [(JOB, NOON, NOON + limit)]


def test_it_is_not_late_any_more_when_it_has_ended(bike):
    put(bike, finish_within="10m")
    run = begin(bike)
    assert late(bike, NOON + 700)
    bike.store.at(NOON + 710).runs.end(run, NextState("next", NOON + DAY))
    assert late(bike, NOON + 720) == []
    assert late(bike, NOON + DAY + 600) == [(JOB, NOON + DAY, NOON + DAY + 600)]


def set_for_what_is_past(bike):
    assert bike.set("a", "40 * * * *", after=NOON)


@pytest.mark.parametrize(
    ("settings", "options", "happens", "due"),
    [
        pytest.param({}, {"overlap": "queue"}, None, NOON + HOUR, id="overlap"),
        pytest.param({"overlap": "queue"}, {}, None, NOON + HOUR, id="overlap of the setting"),
        pytest.param({"overlap": "queue"}, {"overlap": "skip"}, None, None, id="no overlap"),
        pytest.param({}, {}, lambda bike: bike.run("a"), NOON + 2700, id="asked for"),
        pytest.param({}, {}, set_for_what_is_past, NOON + 2400, id="set for what is past"),
        pytest.param({}, {"overlap": "queue"}, lambda bike: bike.run("a"), NOON + 2700, id="overlap, asked for"),
        pytest.param({}, {"overlap": "queue"}, lambda bike: bike.pause("a"), None, id="overlap, paused"),
        pytest.param({}, {"overlap": "queue", "expires": "90m"}, None, NOON + HOUR, id="overlap, may expire"),
        pytest.param({}, {"overlap": "queue", "expires": "5m"}, None, None, id="overlap, expires"),
        pytest.param({}, {"overlap": "queue", "retries": 1, "backoff": 1200}, None, NOON + HOUR, id="overlap, tried"),
        pytest.param({}, {"retries": 1, "backoff": 1200}, None, None, id="no overlap, tried"),
    ],
)
def test_what_waits_for_the_end_of_a_run_is_late_as_well(redbike, settings, options, happens, due):
    jobs, clock, seen = Jobs(), Clock(NOON - 60), []

    def look(at):
        clock.move(at)
        seen.append([(each.jobid, each.due, each.since) for each in find_late(bike.store, bike.settings)])

    @jobs.job("a", cron="0 * * * *", start_within="10m", timeout="1d", **options)
    def work():
        if seen:
            return
        clock.move(NOON + 2700)
        if happens:
            happens(bike)
        for at in (due or NOON + HOUR) + 599, (due or NOON + HOUR) + 600, NOON + 1.4 * HOUR:
            look(at)
        if "retries" in options:
            raise ValueError("it is tried again")

    bike = redbike(jobs, now=NOON - 60, **settings)
    bike.follow(clock)
    bike.sync(jobs.schedules())
    runs = bike.run_due(NOON + 1.5 * HOUR, reraise=False)
    look(NOON + 1.6 * HOUR)
    runs += bike.run_due(NOON + 2.5 * HOUR)
    found = [] if due is None else [("a", due, due + 600)]
    assert seen == [[], found, found, found if "retries" in options else []]
    assert due is None or [run.due for run in runs if run.attempt == 1][:2] == [NOON, due]


def test_what_was_missed_is_late_until_its_turn_comes(redbike):
    jobs, clock, seen = Jobs(), Clock(NOON), []

    @jobs.job("a", every="1h", start_within="10m", catchup="all")
    def work():
        seen.append((current_run().due, [each.due for each in find_late(bike.store, bike.settings)]))

    bike = redbike(jobs)
    bike.follow(clock)
    bike.sync(jobs.schedules())
    clock.move(NOON + 3.5 * HOUR)
    bike.run_due()
    assert seen == [(NOON + HOUR, [NOON + 2 * HOUR]), (NOON + 2 * HOUR, [NOON + 3 * HOUR]), (NOON + 3 * HOUR, [])]


# The instants are taken from the rules of the zones, not from this program.
@pytest.mark.parametrize(
    ("schedule", "timezone", "ends"),
    [
        (DAILY, "Asia/Tokyo", NOON + HOUR),  # as it is stored, it follows UTC
        ("EVERY:1d", "UTC", NOON + HOUR),
        ("EVERY:1d", "Asia/Tokyo", NOON + 16 * HOUR),
        (f"CRON_TZ=Asia/Tokyo {DAILY}", "UTC", NOON + 16 * HOUR),
        (f"CRON_TZ=Asia/Tokyo {DAILY}", "Europe/Berlin", NOON + 16 * HOUR),
    ],
)
def test_a_time_of_day_is_in_the_zone_of_the_schedule_or_else_of_the_setting(bike, schedule, timezone, ends):
    put(bike, schedule, finish_by="13:00")
    assert [each.since for each in find_late(bike.store.at(NOON + 5 * DAY), Settings(timezone=timezone))] == [ends]


@pytest.mark.parametrize(
    ("after", "clock_time", "instant"),
    [
        ("2026-03-28T22:00Z", "02:30", "2026-03-29T01:30Z"),  # it is passed over: 03:30 is as much later
        ("2026-03-29T01:30Z", "02:30", "2026-03-30T00:30Z"),
        ("2026-10-24T22:00Z", "02:30", "2026-10-25T00:30Z"),  # there are two: the first
        ("2026-10-25T00:30Z", "02:30", "2026-10-25T01:30Z"),
        ("2026-06-01T04:00Z", "06:00", "2026-06-02T04:00Z"),
    ],
)
def test_a_time_of_day_where_clocks_change(after, clock_time, instant):
    since, expected = (datetime.fromisoformat(text).timestamp() for text in (after, instant))
    assert find_time_of_day(since, clock_time, "Europe/Berlin") == expected


def test_jobs_health_metrics_and_the_view_say_the_same(bike):
    put(bike, finish_by="13:00")
    bike.set("well:A", DAILY, finish_by="13:00")
    bike.set("other:A", "NOW")
    text = f"{JOB} was to end by 2024-10-04 13:00:00 UTC, was due at 2024-10-04 12:00:00, and waits for a dispatcher"
    health = check_health(bike.store.at(NOON + 2 * HOUR), [], 1e9, Settings())
    assert (text in health.problems, health.metrics["late"]) == (True, 1)
    assert [each.jobid for each in read_view(bike.store.at(NOON + 2 * HOUR), 5).glance.late] == [JOB]
    assert [job.jobid for job in bike.jobs(late=True)] == [JOB]
    assert [job.jobid for job in bike.jobs("w*", late=True)] == []
    figures = Metrics(lambda: bike.store.at(NOON + 2 * HOUR)).format()
    assert f'redbike_late_jobs{{prefix="{bike.prefix}"}} 1.0' in figures


def watched(bike):
    return sorted(name.decode() for name in bike.store.client.hkeys(bike.store.keys.alerts))


def test_what_does_not_alert_has_no_key_and_what_is_gone_neither(bike):
    bike.set("plain:A", "NOW", timeout="10m")
    assert watched(bike) == []
    for jobid in ("a:A", "b:A"):
        bike.set(jobid, DAILY, start_within="1s")
    assert watched(bike) == ["job:a:A", "job:b:A"]
    bike.unset("a:A")
    assert watched(bike) == ["job:b:A"]
    bike.set("b:A", DAILY, start_within=None)
    bike.set("c:A", DAILY, start_within="1s")
    assert (late(bike, NOON), bike.store.alerts.read().idle) == ([], ["b:A"])
    bike.store.alerts.leave(["b:A", "c:A"])
    assert watched(bike) == ["job:c:A"]


def test_it_finds_all_of_many_and_those_that_nobody_has_noted(bike):
    number = 1200
    for each in range(number):
        bike.store.client.hset(bike.store.keys.options, f"{each}:A", json.dumps({"finish-within": 1}))
        bike.store.client.zadd(bike.store.keys.timeline, {f"{each}:A": NOON})
    assert late(bike, NOON + 2) == []
    for _ in range(2):
        assert len(list(bike.store.alerts.watch_all())) >= 1
    assert len(late(bike, NOON + 2)) == number


def ended(bike, place="next", failure=None):
    """The run of `JOB` is over, a second after it began."""
    outcome = Outcome.FAILED if failure else Outcome.OK
    ending = NextState(place, NOON + DAY if place == "next" else None, failure=failure, outcome=outcome)
    bike.store.at(NOON + 1).runs.end(begin(bike), ending)


@pytest.mark.parametrize(
    ("bring_about", "is_late"),
    [
        pytest.param(begin, True, id="its parent runs"),
        pytest.param(enqueue, True, id="its parent waits"),
        pytest.param(fail, True, id="its parent is tried again"),
        pytest.param(lambda bike: ended(bike, "die", {"due": NOON}), True, id="its parent has failed for good"),
        pytest.param(lambda bike: ended(bike, "next", {"due": NOON}), True, id="its parent has failed and goes on"),
        pytest.param(ended, True, id="it is due, and waits for a dispatcher"),
        pytest.param(PLACES["paused"], False, id="its parent is paused"),
    ],
)
@pytest.mark.parametrize("chain", [False, True], ids=["alone", "chain"])
def test_a_follower_is_late_by_the_due_time_of_its_parent(bike, bring_about, is_late, chain):
    put(bike)
    middle = ["middle:A"] if chain else []
    for jobid, parent in zip([*middle, "report:A"], [JOB, *middle], strict=True):
        assert bike.set(jobid, f"AFTER:{parent}", **({"finish_by": "14:00"} if jobid == "report:A" else {}))
    bring_about(bike)
    assert find_late(bike.store.at(NOON + HOUR), Settings()) == []
    if chain and bring_about is ended:
        return  # what the one between them is due for is one step away
    found = [(late.jobid, late.due, late.since) for late in find_late(bike.store.at(NOON + 3 * HOUR), Settings())]
    assert found == ([("report:A", NOON, NOON + 2 * HOUR)] if is_late else [])


def test_what_may_fail_is_not_awaited(bike):
    put(bike)
    assert bike.set("trouble:A", f"AFTER:{JOB} failed", finish_by="14:00")
    begin(bike)
    assert find_late(bike.store.at(NOON + 3 * HOUR), Settings()) == []


def test_each_of_many_parents_is_looked_at_once(bike):
    put(bike)
    levels = [[JOB], *([f"{level}{side}:A" for side in "ab"] for level in range(20))]
    for above, below in pairwise(levels):
        for jobid in below:
            assert bike.set(jobid, f"AFTER:{','.join(above)}", finish_within="1h")
    begin(bike)
    assert len(find_late(bike.store.at(NOON + 3 * HOUR), Settings())) == 40
