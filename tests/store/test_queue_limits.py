"""Limits: queues and everything are paused, opened and limited, straight at the scripts; time is an argument."""

import json
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.pings import Pings
from redbike.store.enums import Outcome
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.namespace import make_tag
from redbike.store.next_state import NextState
from redbike.store.queue_limits import Pause, QueueLimits
from redbike.worker.runner import Runner
from tests.states import DUE, JOB, LATER, NOW, OLD, QUEUE, START, STATES, TIMEOUT, dump, end, take
from tests.verbs import Quiet, dispatch, set_job, survey, take_many

QUEUES = [(QUEUE, TIMEOUT), ("work-B", TIMEOUT)]
DAY = 86400.0


def fill(store, number, queue="A", now=START):
    """Put so many jobs into a queue."""
    store.at(now).jobs.set([JobToSet(f"{n:04}:{queue}", OLD, now, False, f"work-{queue}") for n in range(number)])


def take_runs(store, now, most=100, queues=QUEUES[:1]):
    return take_many(store.at(now), queues, range(1, len(queues) + 1), make_tag(), most)


def take_all(store, now, **more):
    return [run.jobid for run in take_runs(store, now, **more)]


def end_all(store, runs, now):
    call = store.at(now).runs.pack_end([(run, NextState("next", now + 10_000)) for run in runs])
    assert {answer.word for answer in store.runs.read_end(store.scripts.run(call))} == {"ok"}


def has_token(store, name=QUEUE):
    """Take the token that wakes a worker; tell whether there was one."""
    return store.client.lpop(store.keys.wake(name)) is not None


# Pauses


def test_a_paused_queue_is_not_taken_from_and_the_others_are(store):
    fill(store, 3)
    fill(store, 2, "B")
    assert store.at(NOW).queue_limits.pause(QUEUE, by="ann@host", reason="full disk")
    assert take_all(store, NOW, queues=QUEUES) == ["0000:B", "0001:B"]
    assert store.queue_limits.read(QUEUE) == QueueLimits(QUEUE, Pause(NOW, None, "ann@host", "full disk"))
    assert store.at(NOW + 1).queue_limits.open(QUEUE, resume=True)
    assert take_all(store, NOW + 1) == ["0000:A", "0001:A", "0002:A"]
    assert list(fsck(store)) == []


def test_to_pause_what_is_paused_changes_nothing(store, client):
    assert store.at(NOW).queue_limits.pause(QUEUE, reason="one")
    kept = client.hgetall(store.keys.queue_limits)
    assert not store.at(NOW + 1).queue_limits.pause(QUEUE, LATER, reason="two")
    assert client.hgetall(store.keys.queue_limits) == kept
    assert client.exists(store.keys.timers) == 0
    assert not store.at(NOW).queue_limits.open("work-B", resume=True)


def test_a_pause_ends_by_itself_and_the_dispatcher_wakes_a_worker(store):
    fill(store, 1)
    store.at(NOW).queue_limits.pause(QUEUE, until=LATER)
    has_token(store)
    store.at(LATER - 1).queue_limits.open(QUEUE)
    assert take_all(store, LATER - 0.001) == [], "no timer ends it before"
    before, after = survey(store.at(LATER - 1)), survey(store.at(LATER))
    assert (before.timers, before.next_timer) == ([], LATER)
    assert after.timers == [f"queue:{QUEUE}"]
    store.at(LATER).queue_limits.open(QUEUE)
    assert has_token(store)
    assert store.queue_limits.read(QUEUE).is_open
    # What is kept of it goes after a day.
    assert survey(store.at(LATER)).next_timer == round(LATER + DAY - 1e-6, 6), "its last instant is before its end"
    store.at(LATER + DAY).queue_limits.open(QUEUE)
    assert store.client.exists(store.keys.queue_limits, store.keys.timers) == 0


def test_nothing_wakes_a_worker_for_a_paused_queue(store):
    store.at(START).queue_limits.pause(QUEUE)
    fill(store, 5)
    assert not has_token(store)
    store.at(NOW).queue_limits.open(QUEUE, resume=True)
    assert has_token(store)


def test_while_everything_is_paused_nothing_is_due_and_nothing_taken(store, client):
    STATES["timeline"](store)
    fill(store, 1)
    has_token(store)
    store.at(NOW).queue_limits.pause("")
    found = survey(store.at(NOW))
    assert (found.due, found.coming) == ([], [])
    assert dispatch(store.at(NOW), [(JOB, f"{DUE:.0f}", QUEUE)]) == 0
    assert store.questions.inspect([JOB])[0].timeline == DUE
    assert take_all(store, NOW) == []
    set_job(store.at(NOW), "now:A", "NOW", "now", once=True)
    assert not has_token(store)
    assert list(fsck(store)) == []
    client.delete(store.keys.wakeup)
    store.at(LATER).queue_limits.open("", resume=True)
    assert client.llen(store.keys.wakeup) == 1, "the dispatcher is woken"
    assert has_token(store), "and a worker of each queue that has jobs"
    assert [jobid for jobid, _ in survey(store.at(LATER)).due] == [JOB]
    assert take_all(store, LATER) == ["0000:A", "now:A"]


# Limits


def test_as_many_are_in_flight_as_the_limit_says_and_an_end_wakes_a_worker(store):
    fill(store, 5)
    assert store.at(NOW).queue_limits.limit(QUEUE, at_once=2)
    has_token(store)
    runs = take_runs(store, NOW)
    assert [run.jobid for run in runs] == ["0000:A", "0001:A"]
    assert not has_token(store), "there is no room"
    assert take_all(store, NOW + 1) == []
    end_all(store, runs[:1], NOW + 2)
    assert has_token(store)
    assert take_all(store, NOW + 3) == ["0002:A"]
    assert list(fsck(store)) == []


@pytest.mark.parametrize("dies", [False, True])
def test_nothing_is_taken_before_what_is_in_flight_counts(store, monkeypatch, dies):
    """If whoever sets the limit dies in between, a dispatcher counts."""
    fill(store, 3)
    runs, limiter = take_runs(store, NOW, most=1), store.at(NOW).queue_limits
    count = limiter.count_flying

    def count_late(name):
        assert take_all(store, NOW) == []
        if dies:
            raise KeyboardInterrupt
        count(name)

    monkeypatch.setattr(limiter, "count_flying", count_late)
    with suppress(KeyboardInterrupt):
        limiter.limit(QUEUE, at_once=1)
    if dies:
        limiter.limit(QUEUE, rate=(100, 1))
        assert take_all(store, NOW) == []
        assert survey(store.at(NOW + 2)).timers == [f"queue:{QUEUE}"]
        store.at(NOW + 2).queue_limits.open(QUEUE)
    assert has_token(store)
    assert take_all(store, NOW + 3) == []
    end_all(store, runs, NOW + 4)
    assert take_all(store, NOW + 5) == ["0001:A"]
    assert list(fsck(store)) == []


def test_a_limit_is_taken_back_with_its_timer(store, client):
    fill(store, 5)
    store.at(NOW).queue_limits.limit(QUEUE, at_once=2, rate=(1, 3600))
    assert len(take_all(store, NOW)) == 1
    assert client.zcard(store.keys.timers) == 1
    store.at(NOW).queue_limits.limit(QUEUE, rate=False)
    assert store.queue_limits.read(QUEUE) == QueueLimits(QUEUE, at_once=2)
    store.at(NOW).queue_limits.limit(QUEUE, at_once=False)
    assert client.exists(store.keys.queue_limits, store.keys.slots) == 0
    assert list(fsck(store)) == []
    assert len(take_all(store, NOW + 1)) == 4


def test_the_weights_of_other_queues_stay_exact(store):
    for queue in "ABC":
        fill(store, 40, queue)
    queues = [(f"work-{queue}", TIMEOUT) for queue in "ABC"]
    store.at(NOW).queue_limits.limit("work-B", at_once=3)
    taken = [run.queue for run in take_many(store.at(NOW), queues, [1, 1, 2, 3], "tag", 30)]
    rest = [name for name in taken if name != "work-B"]
    assert len(taken) - len(rest) == 3
    assert rest == (["work-A", "work-A", "work-C"] * 9)[: len(rest)]


def test_a_queue_of_a_hundred_a_minute(store):
    """A hundred at once, and then one each 0.6 s: whoever asks, and however often."""
    fill(store, 210)
    store.at(NOW).queue_limits.limit(QUEUE, rate=(100, 60))
    taken, at = [], NOW
    while at < NOW + 60:
        store.at(at).queue_limits.open(QUEUE)
        found = take_runs(store, at)
        end_all(store, found, at)
        taken += [at] * len(found)
        assert len(found) == (100 if at == NOW else 1)
        opens = survey(store.at(at)).next_timer
        if len(taken) % 100 == 0:
            assert take_all(store, opens - 0.001) == []
        at = opens
    assert len(taken) == 100 + 100 - 1
    for first in range(0, len(taken) - 101, 7):
        # One bucket more than the rate, in any time.
        assert taken[first + 101] - taken[first] >= 0.59


def test_the_rate_goes_on_when_the_clock_was_set_back(store):
    fill(store, 9)
    store.at(NOW + DAY).queue_limits.limit(QUEUE, rate=(2, 60))
    assert len(take_all(store, NOW + DAY)) == 2
    assert take_all(store, NOW + DAY - 0.5) == []
    # It is not known any more what was taken when, so the bucket counts as full.
    assert len(take_all(store, NOW)) == 2
    assert take_all(store, NOW + 29) == []
    assert len(take_all(store, NOW + 31)) == 1


@pytest.mark.parametrize(("rate", "again", "least"), [((2, 60), (2, 60), 29), ((1, 60), (2, 10), 5)])
def test_a_rate_that_is_set_again_or_with_a_shorter_time_does_not_fill_the_bucket(store, rate, again, least):
    fill(store, 9)
    store.at(NOW).queue_limits.limit(QUEUE, rate=rate)
    assert len(take_all(store, NOW)) == rate[0]
    store.at(NOW).queue_limits.limit(QUEUE, rate=again)
    assert take_all(store, NOW + least - 1) == []
    assert len(take_all(store, NOW + least + 2)) == 1


@pytest.mark.parametrize(
    ("outcome", "began", "why", "counts"),
    [
        pytest.param(None, 0.0, "", False, id="left, or expired"),
        pytest.param(Outcome.CANCELLED, 0.0, "", False, id="cancelled before it began"),
        pytest.param(Outcome.CANCELLED, 1.0, "", True, id="cancelled"),
        pytest.param(Outcome.CANCELLED, 0.0, "lost", True, id="cancelled, and lost"),
        pytest.param(Outcome.OK, 1.0, "", True, id="done"),
    ],
)
@pytest.mark.parametrize("at_once", [None, 2])
def test_what_has_not_begun_counts_for_no_rate(store, client, outcome, began, why, counts, at_once):
    fill(store, 5)
    store.at(NOW).queue_limits.limit(QUEUE, at_once, (3, 3600))
    runs = take_runs(store, NOW, most=2)
    assert has_token(store)
    if at_once is None:
        assert len(take_runs(store, NOW)) == 1
    client.zadd(store.keys.leases, {runs[0].tag: NOW})
    ended = [(replace(run, began=began), NextState("due", LATER, why, outcome=outcome)) for run in runs]
    call = store.at(NOW).runs.pack_end(ended)
    for words in (["ok", "ok"], ["stale", "stale"]):
        assert [answer.word for answer in store.runs.read_end(store.scripts.run(call))] == words
    # It wakes a worker, as whoever was woken before has found nothing.
    assert has_token(store) is (at_once is not None or not counts)
    assert len(take_runs(store, NOW)) == (2 if not counts else 0 if at_once is None else 1)
    assert list(fsck(store)) == []


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_dispatcher_wakes_a_worker_when_the_rate_allows_the_next(store, client, is_waiting):
    store.at(NOW).queue_limits.limit(QUEUE, rate=(1, 60))
    fill(store, 1 + is_waiting, now=NOW)
    assert has_token(store)
    client.delete(store.keys.wakeup)
    assert len(take_all(store, NOW)) == 1
    if not is_waiting:
        # A job that comes when the bucket is empty sets the timer.
        assert survey(store.at(NOW)).next_timer is None
        set_job(store.at(NOW + 1), JOB, OLD, NOW)
    assert not has_token(store)
    assert client.llen(store.keys.wakeup) == 1, "it may sleep until later"
    assert survey(store.at(NOW)).next_timer == NOW + 60
    store.at(NOW + 60).queue_limits.open(QUEUE)
    assert has_token(store)
    assert client.exists(store.keys.timers) == 0


def test_an_operator_outweighs_the_code(store):
    queue_limits = store.at(NOW).queue_limits
    assert queue_limits.limit(QUEUE, at_once=5, by_code=True)
    assert queue_limits.limit(QUEUE, at_once=2)
    assert not queue_limits.limit(QUEUE, at_once=5, by_code=True)
    assert queue_limits.read(QUEUE).at_once == 2
    queue_limits.limit(QUEUE, at_once=False)
    assert queue_limits.limit(QUEUE, rate=(7, 1), by_code=True)
    assert queue_limits.read(QUEUE) == QueueLimits(QUEUE, rate="7/s")


@pytest.mark.parametrize(
    "text",
    [
        "garbage",
        "[]",
        '{"paused": 7}',
        '{"paused": {"since": "x"}}',
        '{"at_once": -1}',
        '{"at_once": 1e400}',
        '{"count": 0, "seconds": 0}',
        '{"count": 5, "seconds": {}}',
        '{"last": []}',
        "[" * 2000,
    ],
)
def test_a_damaged_limit_counts_as_none(store, client, text):
    fill(store, 3)
    client.hset(store.keys.queue_limits, mapping={QUEUE: text, "": text})
    assert len(take_all(store, NOW)) == 3
    assert survey(store.at(NOW)).due == []
    assert store.queue_limits.list_all() == []
    assert store.at(NOW).queue_limits.pause(QUEUE)
    assert store.queue_limits.read(QUEUE).pause


# Places that functions hold which go on after their runs


def reserve(store, tag, seconds, now=NOW):
    return store.at(now).queue_limits.reserve(QUEUE, tag, JOB, seconds)


def held(store):
    limits = json.loads(store.client.hget(store.keys.queue_limits, QUEUE))
    return {run.partition(" ")[0]: ends for run, ends in limits.get("held", {}).items()}


def timer(store):
    return store.client.zscore(store.keys.timers, f"queue:{QUEUE}")


def test_each_reservation_is_ended_or_ends_by_itself_and_the_first_end_is_told(store):
    store.at(NOW).queue_limits.limit(QUEUE, at_once=3)
    store.client.delete(store.keys.timers)  # that of the new limit
    for tag, seconds in (("one", 10.0), ("two", 20.0), ("three", 30.0), ("three", 0.0)):
        assert reserve(store, tag, seconds)
    assert (held(store), timer(store)) == ({"one": NOW + 10, "two": NOW + 20}, NOW + 10)
    assert reserve(store, "two", 5.0, NOW + 9.999)
    assert held(store) == {"one": NOW + 10, "two": NOW + 14.999}
    assert reserve(store, "two", 1.0, NOW + 10)
    assert held(store) == {"two": NOW + 11}


@pytest.mark.parametrize("waiting", [0, 1])
def test_the_end_of_one_wakes_a_worker_if_there_is_something_to_do(store, client, waiting):
    store.at(START).queue_limits.limit(QUEUE, at_once=1)
    fill(store, waiting)
    for key in (store.keys.wake(QUEUE), store.keys.timers):
        client.delete(key)
    assert reserve(store, "one", 10.0)
    assert client.llen(store.keys.wake(QUEUE)) == 0
    client.delete(store.keys.timers)
    assert reserve(store, "one", 0.0)
    assert (held(store), timer(store)) == ({}, None)
    assert client.llen(store.keys.wake(QUEUE)) == waiting
    settled = dump(store)
    assert not reserve(store, "one", 0.0), "there is none any more"
    assert dump(store) == settled


@pytest.mark.parametrize("rate", [None, (5, 60)])
@pytest.mark.parametrize("seconds", [0.0, 10.0])
def test_a_queue_without_such_a_limit_has_none(store, rate, seconds):
    store.at(NOW).queue_limits.limit(QUEUE, rate=rate or False)
    before = dump(store)
    assert not reserve(store, "one", seconds)
    assert dump(store) == before


# What came due while a queue, or everything, was paused


@pytest.mark.parametrize(
    ("name", "catchup", "hours", "paused"),
    [("", "last", [1], 23), (QUEUE, "none", [], 24), (QUEUE, "all", [1, 20, 21, 22, 23, 24], 18)],
)
def test_what_came_due_during_a_pause_is_for_catchup(store, name, catchup, hours, paused):
    """An hourly job, whose queue or everything is paused for a day, and which is due when that begins."""
    settings = Settings(catchup=catchup, catchup_limit=5)
    set_job(store.at(DAY - 60), JOB, "EVERY:3600@0", DAY + 3600)
    store.at(DAY).queue_limits.pause(name)
    dispatcher, worker = Dispatcher(store, settings), Quiet()
    runner = Runner(worker, settings, Pings())
    dues, now = [], DAY
    while now < 2 * DAY + 3600:
        now += 600
        if now == 2 * DAY:
            store.at(now).queue_limits.open(name, resume=True)
        dispatcher.dispatch_due(now)
        while (run := take(store, make_tag(), now=now)) != "empty":
            run.received = time.monotonic()
            before = len(worker.worked)
            next_state = runner.run(run)
            dues += [run.due] * (len(worker.worked) - before)
            assert end(store, run, next_state, now=now).word == "ok"
    dispatcher.close()
    assert [(due - DAY) / 3600 for due in dues] == [*hours, 25]
    assert store.questions.inspect([JOB])[0].skipped == {"paused": paused}
