"""The method ``ended`` of a worker class: it is called for each run that ended, however it ended."""

import threading
import time

import pytest

from redbike import Again, Redbike, StopWork, UnsetJob, current_run
from redbike.errors import Unreachable
from redbike.store.inspection.fsck import fsck
from redbike.store.keys import NOTIFIES
from redbike.store.outbox import CLAIM_TIMEOUT, KEPT, MOST_CLAIMS
from redbike.worker.worker import Worker
from tests.loops import Doing, beside, join, make_worker, raising, start
from tests.verbs import Quiet, take_many, take_one
from tests.waiting import wait_until

QUEUES = [("work-A", 100.0)]
TOO_LONG = "overran its timeout of 0.05 s"


class Notified(Doing):
    """Notes which runs have ended."""

    def __init__(self, initstring="A"):
        super().__init__(initstring)
        self.told, self.names = [], [f"work-{name}" for name in initstring.split(":")]

    def queue_names(self):
        return self.names

    def ended(self, run, end):
        self.told.append((run, end))

    def events(self):
        return [(run.jobid, end.event, end.error) for run, end in self.told]


@pytest.fixture
def make(client, server_url, prefix):
    """Makes clients that share a prefix."""
    return lambda worker=None, **more: Redbike(worker or Notified(), prefix=prefix, redis_config=server_url, **more)


@pytest.fixture
def bike(make):
    return make_due(make())


def make_due(bike):
    bike.set("job:A", "EVERY:1h@0.0")
    bike.run("job:A")
    return bike


def count_waiting(bike):
    return bike.client.hlen(bike.store.keys.untold)


@pytest.mark.parametrize(
    ("act", "settings", "expected"),
    [
        (lambda bike: None, {}, ("ok", "")),
        (lambda bike: bike.set("job:A", "EVERY:2h"), {}, ("ok", "")),
        (lambda bike: bike.unset("job:A"), {}, ("ok", "")),
        (raising(StopWork("enough")), {}, ("ok", "")),
        (raising(UnsetJob("enough")), {}, ("ok", "")),
        (raising(Again(5, "rate limited")), {}, ("retry", "rate limited")),
        (raising(ValueError("no luck")), {}, ("failed", "ValueError: no luck")),
        (raising(ValueError("no luck")), {"on_error": "retry", "backoff": 50.0}, ("retry", "ValueError: no luck")),
        (lambda bike: wait_until(lambda: bike.worker.told), {"default_timeout": 0.05}, ("overrun", TOO_LONG)),
        (
            lambda bike: bike.unset("job:A") and wait_until(lambda: bike.worker.told),
            {"default_timeout": 0.05, "on_timeout": "requeue"},
            ("overrun", TOO_LONG),
        ),
        (lambda bike: bike.cancel("job:A") and 1 / 0, {}, ("cancelled", "")),
        (lambda bike: bike.cancel("job:A") and wait_until(lambda: current_run().cancelled), {}, ("cancelled", "")),
    ],
)
def test_a_run_is_notified_once_with_how_it_ended(make, monkeypatch, act, settings, expected):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)
    bike = make_due(make(**settings))
    bike.worker.acts["job:A"] = lambda: act(bike)
    began = time.monotonic()
    assert bike.work_one() == "job:A"
    took = time.monotonic() - began
    [(run, end)] = bike.worker.told
    assert (run.jobid, run.attempt, end.event, end.error) == ("job:A", 1, *expected)
    # What overran was not over before its deadline, which counts from when it was taken.
    assert run.received + settings.get("default_timeout", 0.0) <= run.began + end.seconds
    assert end.seconds < took
    assert end.is_tried_again == (end.event == "retry")
    told = bike.tell("job:A")
    assert end.next_run == (None if told["next_run"] is None else pytest.approx(told["next_run"], abs=took))
    if "backoff" in settings:
        assert told["next_run"] == pytest.approx(run.start + 50 + end.seconds, abs=took)
    assert count_waiting(bike) == 0
    # Without ended, nothing is kept.
    make_due(quiet := make(Quiet("A"))).work_one()
    assert count_waiting(quiet) == 0


def test_ended_may_be_a_coroutine_function_and_what_it_raises_is_logged_and_harms_nothing(bike, caplog):
    told = []

    async def ended(run, end):
        told.append(end.event)
        raise ZeroDivisionError

    bike.worker.ended = ended
    assert bike.work_one() == "job:A"
    assert told == ["ok"]
    assert "job:A: ended() of its worker class fails: ZeroDivisionError" in caplog.text
    assert count_waiting(bike) == 0


# What others have left


def lose(bike, number=1, tag=f"OwnerOf1tag{NOTIFIES}"):
    """Let jobs that are due be lost together, under this tag, by a worker that has `ended`."""
    runs = take_many(bike.store, QUEUES, [1], tag, number)
    assert len(runs) == number
    bike.client.zadd(bike.store.keys.leases, {tag: 1.0})
    bike.dispatch_due()
    return runs


@pytest.fixture
def lost(bike, make):
    """A run of job:A that was lost, by a worker that has `ended`."""
    [run] = lose(make(Quiet("A")))
    return run


@pytest.fixture
def lost_two(bike, make):
    """The same, and one of other:A, which has data."""
    bike.set("other:A", "NOW", data={"a": 1})
    return lose(make(Quiet("A")), 2)


@pytest.fixture
def now(bike):
    """The time on the clock of the server."""
    return bike.store.timeline.read_dispatched()[0]


def notify_others(bike, now=None):
    make_worker(bike.store if now is None else bike.store.at(now), bike.worker, bike.settings).notifier.notify_others()
    return bike.worker.events()


@pytest.mark.parametrize("runs_again", [False, True])
def test_a_lost_run_is_notified_by_another_worker_and_since_when_it_is_due(bike, lost, runs_again):
    assert count_waiting(bike) == 1
    assert list(fsck(bike.store)) == []
    if runs_again:
        take_one(bike.store, QUEUES, "OwnerOf2tag")
    assert notify_others(bike) == [("job:A", "lost", "")]
    [(told, end)] = bike.worker.told
    assert (told.jobid, told.due, told.tag, told.attempt) == ("job:A", lost.due, lost.tag, 1)
    assert 0 <= end.seconds < time.monotonic() - lost.received
    assert (end.next_run, end.is_tried_again) == (lost.due, True)
    assert count_waiting(bike) == 0


def test_a_lost_run_of_a_queue_that_a_class_does_not_work_is_not_notified_to_it(make, lost, now, caplog):
    bike = make(Notified("M"))
    for later, left in ((0, 1), (KEPT - 5, 1), (KEPT + 5, 0)):
        assert notify_others(bike, now + later) == []
        assert count_waiting(bike) == left
    assert "job:A: no worker that has ended() works its queue, so it is not called" in caplog.text
    assert notify_others(make(Notified("M:A"))) == []
    lose(make(Quiet("A")), tag=f"OwnerOf2tag{NOTIFIES}")
    assert notify_others(bike) == []
    assert notify_others(make(Notified("M:A"))) == [("job:A", "lost", "")]
    assert count_waiting(bike) == 0
    lose(make(Quiet("A")), tag="OwnerOf3tag")
    assert count_waiting(bike) == 0, "its class has no ended"


def claim_all(bike, now):
    return list(bike.store.at(now).outbox.claim_all(["work-A"]))


def test_what_ends_its_workers_is_given_up(bike, lost, now, caplog):
    for number in range(1, MOST_CLAIMS + 1):
        assert count_waiting(bike) == 1
        assert [claim.number for claim in claim_all(bike, now + number * (CLAIM_TIMEOUT + 1))] == [number]
        assert notify_others(bike, now + number * (CLAIM_TIMEOUT + 1) + 1) == [], "another one looks at once"
    assert notify_others(bike, now + 10 * CLAIM_TIMEOUT) == []
    assert count_waiting(bike) == 0
    assert "job:A: ended() was begun 3 times, and did not end: it is not called again" in caplog.text


@pytest.mark.parametrize(("later", "told"), [(CLAIM_TIMEOUT - 2, 2), (4 * CLAIM_TIMEOUT, 1)])
def test_what_takes_long_is_claimed_for_longer_unless_another_has_claimed_it(
    bike, lost_two, now, monkeypatch, later, told
):
    monkeypatch.setattr("redbike.worker.notify.RENEWED", -1.0)
    note, claimed, began = bike.worker.ended, [], now + CLAIM_TIMEOUT

    def ended(run, end):
        note(run, end)
        claimed.extend(claim_all(bike, began + later))

    bike.worker.ended = ended
    events = notify_others(bike, began)
    assert events == [(run.jobid, "lost", "") for run in lost_two][:told]
    assert [run.data for run, _ in bike.worker.told] == [None, {"a": 1}][:told]
    assert len(claimed) == count_waiting(bike) == 2 - told, "for the one that has claimed it"


class Slow(Notified):
    """Its `ended` waits for those jobs for which it is to wait."""

    def __init__(self, initstring="A"):
        super().__init__(initstring)
        self.worked, self.slow, self.entered, self.goes_on = [], set(), threading.Event(), threading.Event()
        self.threads = set()

    def work(self, jobid):
        self.worked.append(jobid)
        return super().work(jobid)

    def ended(self, run, end):
        self.threads.add(threading.current_thread().name)
        if run.jobid in self.slow:
            self.entered.set()
            assert self.goes_on.wait(90)
        super().ended(run, end)


@pytest.fixture
def working():
    """Lets workers work in threads of their own until the test is over."""
    threads = []

    def work(bike, concurrency=1):
        threads.append((bike, start(Worker(bike.store, bike.worker, bike.settings, concurrency).work)))

    yield work
    for bike, thread in threads:
        if isinstance(bike.worker, Slow):
            bike.worker.goes_on.set()
        bike.control("HALT")
        join(thread)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_while_ended_takes_its_time_no_run_waits_for_it(make, working, concurrency):
    """A run that had not begun, or whose end was not said, would count as lost."""
    bike = make(Slow())
    bike.worker.slow = {"000:A"}
    assert all(result for _, result in bike.set_many((f"{number:03}:A", "NOW") for number in range(400)))
    working(bike, concurrency)
    assert bike.worker.entered.wait(60)
    # It is behind with the next ones.
    wait_until(lambda: count_waiting(bike) >= 2 and bike.client.hlen(bike.store.keys.running) == 0)
    assert "000:A" not in {run.jobid for run, _ in bike.worker.told}
    assert bike.client.llen(bike.store.keys.queue("work-A")) > 0, "it takes no more"
    bike.worker.goes_on.set()
    wait_until(lambda: len(bike.worker.told) == 400)
    assert {event for _, event, _ in bike.worker.events()} == {"ok"}
    assert bike.worker.threads == {"redbike-ended"}


@pytest.mark.parametrize(("concurrency", "error"), [(1, SystemExit(4)), (2, KeyboardInterrupt())])
def test_no_exception_in_ended_ends_the_worker(make, working, concurrency, error, caplog):
    bike, left = make(Slow()), [error]
    told = bike.worker.ended
    bike.worker.ended = lambda run, end: raising(left.pop())() if left else told(run, end)
    bike.set("a:A", "NOW")
    working(bike, concurrency)
    wait_until(lambda: "a:A: ended() of its worker class fails" in caplog.text)
    bike.worker.acts["b:A"] = lambda: wait_until(lambda: bike.worker.told)  # until it overruns
    bike.set("b:A", "NOW", timeout=2)  # so that it has begun by then
    wait_until(lambda: bike.worker.events() == [("b:A", "overrun", "overran its timeout of 2 s")])
    wait_until(lambda: count_waiting(bike) == 0)
    assert bike.worker.threads == {"redbike-ended"}, "the heartbeats go on"


def test_a_call_that_goes_on_for_long_is_mentioned_once_and_holds_up_no_stop(make, monkeypatch, caplog):
    monkeypatch.setattr("redbike.worker.notify.LONG", 0.0)
    monkeypatch.setattr("redbike.worker.notify.STOP_TIMEOUT", 0.1)
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 0.1)
    monkeypatch.setattr("redbike.loop.registration.LATENESS", 0.05)
    bike = make(Slow())
    bike.worker.slow = {"a:A"}
    bike.set("a:A", "NOW")
    with beside(bike.store, Worker(bike.store, bike.worker, bike.settings).work):
        wait_until(lambda: "a:A: ended() of its worker class has gone on for" in caplog.text)
        before = bike.workers()[0].seen
        wait_until(lambda: bike.workers()[0].seen > before + 0.2)
    assert {each.daemon for each in threading.enumerate() if each.name == "redbike-ended"} == {True}
    assert caplog.text.count("has gone on for") == 1
    assert "other workers will call it for the runs that are left" in caplog.text
    assert count_waiting(bike) == 1
    bike.worker.goes_on.set()


def test_an_outage_does_not_keep_the_thread_busy(make, working, monkeypatch, caplog):
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 0.2)
    monkeypatch.setattr("redbike.worker.notify.REST", 0.1)
    bike, tried = make(Slow()), []
    bike.client.hset(bike.store.keys.untold, "x", "y")  # so that it is always told that there is something
    monkeypatch.setattr("redbike.store.outbox.Outbox.claim_all", lambda *_: tried.append(time.monotonic()) or away())
    working(bike)
    wait_until(lambda: len(tried) >= 2)
    bike.set("a:A", "NOW")
    wait_until(lambda: len(bike.worker.told) == 1)
    assert len(tried) <= 1 + (tried[-1] - tried[0]) / 0.1
    assert "cannot call ended() for the runs of lost workers: the server is away" in caplog.text


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_worker_that_works_tells_of_lost_runs_soon(bike, make, concurrency, monkeypatch):
    # An idle one hears of them by its takes, long before it is to be seen again.
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 600.0)
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 0.3)
    monkeypatch.setattr("redbike.worker.source.NAP", 0.1)
    monkeypatch.setattr("redbike.worker.notify.REST", 0.1)
    with beside(bike.store, Worker(bike.store, bike.worker, bike.settings, concurrency).work):
        wait_until(lambda: bike.worker.told)
        other = make(Quiet("A"))
        other.store.queue_limits.pause("work-A")
        other.set("other:A", "NOW")
        other.store.queue_limits.open("work-A", resume=True)
        wait_until(lambda: len(bike.worker.told) == 2)
        # From a queue that it does not work yet, so that it cannot take it itself.
        other.set("third:B", "NOW")
        take_one(other.store, [("work-B", 100.0)], f"OwnerOf1tag{NOTIFIES}")
        other.client.zadd(other.store.keys.leases, {f"OwnerOf1tag{NOTIFIES}": 1.0})
        other.dispatch_due()
        bike.worker.names.append("work-B")
        wait_until(lambda: ("third:B", "lost", "") in bike.worker.events())
    assert count_waiting(bike) == 0


away = raising(Unreachable("the server is away"))


def test_what_cannot_be_removed_is_notified_again_and_that_is_said(bike, monkeypatch, caplog):
    worker = Worker(bike.store, bike.worker, bike.settings)
    monkeypatch.setattr(worker.store.outbox, "forget", away)
    # Only the server knows when it runs next.
    bike.worker.acts["job:A"] = lambda: bike.set("job:A", "EVERY:2h")
    monkeypatch.setattr(worker.store.questions, "inspect", away)
    worker.work_one()
    assert "its next run is unknown" in caplog.text
    assert "ended() will be called again" in caplog.text
    monkeypatch.undo()
    ended = bike.store.timeline.read_clock()
    assert notify_others(bike, ended + CLAIM_TIMEOUT + 1) == [("job:A", "ok", "")] * 2


def test_damaged_entries_are_found_and_removed(bike):
    bike.client.hset(bike.store.keys.untold, mapping={"x": "y", "tag+ job:A": "1.5\nR"})
    assert len(list(fsck(bike.store))) == 2
    assert all(well for _, well in bike.repair())
    assert count_waiting(bike) == 0


def test_what_ended_together_and_what_had_to_be_ended_again_is_all_told(bike, now):
    """The first of two was set meanwhile: it ends by a request of its own. Their worker dies before it tells."""
    bike.set("other:A", "NOW")
    runs = take_many(bike.store, QUEUES, [1], f"OwnerOf1tag{NOTIFIES}", 2)
    bike.set("job:A", "EVERY:2h@0")
    worker = Worker(bike.store, Quiet("A"), bike.settings)
    worker.ends.end([(run, worker.runner.run(run)) for run in runs])
    ended = bike.store.timeline.read_clock()
    assert notify_others(bike, now + CLAIM_TIMEOUT - 5) == []
    assert sorted(notify_others(bike, ended + CLAIM_TIMEOUT + 1)) == [("job:A", "ok", ""), ("other:A", "ok", "")]
