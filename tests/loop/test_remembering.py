"""What is remembered of runs: how each of them ended, and when that is archived."""

import time

import pytest

from redbike import Again, Redbike, StopWork, UnsetJob
from redbike.dispatcher import housekeeping
from redbike.errors import BadConfig, BadJobId
from redbike.store.lease import LEASE
from redbike.worker import ends
from tests.loops import Doing, join, raising, start
from tests.states import QUEUE
from tests.verbs import take_one
from tests.waiting import wait_until


@pytest.fixture
def bike(client, server_url, prefix):
    """A worker whose jobs do what `bike.worker.acts` says."""

    def make(**more):
        bike = Redbike(Doing(), prefix=prefix, redis_config=server_url, **more)
        bike.set("job:A", "EVERY:10000d@0.0")  # so seldom that it comes due in no test
        bike.run("job:A")
        return bike

    return make


def work(bike, act=lambda: None):
    bike.worker.acts["job:A"] = act
    assert bike.work_one() == "job:A"
    return [(run.outcome, run.attempt, run.error) for run in bike.runs()]


NO_LUCK = ValueError("no luck")


def doing(verb, *given, then=None):
    """Work that asks the bike for this, and raises `then`."""

    def act(bike):
        getattr(bike, verb)("job:A", *given)
        if then:
            raise then

    return act


@pytest.mark.parametrize(
    ("act", "settings", "outcome", "error"),
    [
        (raising(StopWork("enough")), {}, "ok", ""),
        (raising(Again(after=5)), {}, "retry", ""),
        (raising(Again(after=5, reason="rate limited")), {}, "retry", "rate limited"),
        (raising(NO_LUCK), {}, "failed", "ValueError: no luck"),
        (raising(NO_LUCK), {"on_error": "reschedule"}, "failed", "ValueError: no luck"),
        (raising(NO_LUCK), {"on_error": "retry"}, "retry", "ValueError: no luck"),
        (raising(NO_LUCK), {"on_error": "retry", "retries": 0}, "failed", "ValueError: no luck"),
        (doing("cancel", then=NO_LUCK), {}, "cancelled", ""),
        # Also if the job was set meanwhile.
        *(
            (doing("set", schedule, then=NO_LUCK), {}, "failed", "ValueError: no luck")
            for schedule in ("NOW", "EVERY:1s@0")
        ),
    ],
)
def test_it_is_remembered_how_a_run_ended(bike, act, settings, outcome, error):
    bike = bike(**settings)
    assert bike.runs("job:A") == []
    assert "runs" not in bike.tell("job:A")
    assert work(bike, lambda: act(bike)) == [(outcome, 1, error)]


def test_a_run_that_unsets_its_job_is_forgotten_with_it(bike):
    bike = bike()
    assert work(bike, raising(UnsetJob("enough"))) == []
    list(bike.store.archiver.archive())
    assert bike.client.exists(bike.store.keys.history) == 0


# Failures: all that is in DIE, and nothing that has succeeded since


def lose(bike, times):
    for number in range(times):
        run = take_one(bike.store, [(QUEUE, 100.0)], f"OwnerOf1tag{number}")
        bike.dispatch_due(run.start + LEASE + 1)


def damage(bike):
    bike.client.hset(bike.store.keys.schedules, "job:A", "0 0 30 2 *")
    bike.work_one()


def retry(bike):
    for _ in range(3):
        bike.work_one()
        bike.dispatch_due(time.time() + 1e6)


def outlive(bike):
    bike.worker.acts["job:A"] = lambda: wait_until(lambda: bike.runs())
    bike.work_one()


WAYS = {
    "it raised": (raising(NO_LUCK), {}, lambda bike: bike.work_one()),
    "no retry was left": (raising(NO_LUCK), {"on_error": "retry", "retries": 2}, retry),
    "it failed too often": (
        raising(NO_LUCK),
        {"on_error": "reschedule", "stop_after": 1},
        lambda bike: bike.work_one(),
    ),
    "it overran": (None, {"default_timeout": 0.05}, outlive),
    "it was lost": (None, {"on_lost": "stop"}, lambda bike: lose(bike, 1)),
    "it was lost three times": (None, {}, lambda bike: lose(bike, 3)),
    "its schedule was damaged": (None, {}, damage),
}


@pytest.mark.parametrize("way", WAYS)
def test_all_that_is_in_die_is_a_failure_until_it_succeeds(bike, way):
    act, settings, fail = WAYS[way]
    bike = bike(**settings)
    if act:
        bike.worker.acts["job:A"] = act
    fail(bike)
    wait_until(lambda: bike.tell("job:A")["status"].startswith("DIE"))
    [failure] = bike.failures()
    assert failure["jobid"] == "job:A"
    assert bike.tell("job:A")["failure"] == failure
    last = bike.runs()[0]
    assert last.outcome in ("failed", "overrun", "lost")
    bike.set("job:A", "EVERY:1h@0", timeout=60)  # which is enough, as far as that was the reason
    assert list(bike.failures()) == [failure]
    bike.worker.acts.clear()
    bike.dispatch_due(time.time() + 1e4)
    assert bike.work_one() == "job:A"
    assert bike.runs()[0].outcome == "ok"
    assert list(bike.failures()) == []


# What is asked of them


def test_runs_are_found_by_job_time_and_outcome(bike):
    bike = bike()
    bike.set("bad:A", "NOW")
    bike.worker.acts["bad:A"] = raising(NO_LUCK)
    work(bike)
    bike.work_one()
    list(bike.store.archiver.archive())
    bike.run("job:A")
    bike.work_one()
    newest, failed, oldest = bike.runs()
    assert [run.jobid for run in (newest, failed, oldest)] == ["job:A", "bad:A", "job:A"]
    assert bike.runs("job:A") == [newest, oldest]
    assert bike.runs("*d:A") == bike.runs(failed=True) == [failed]
    assert bike.runs("bad:A", "job:A") == [newest, failed, oldest]
    assert bike.runs(limit=1) == [newest]
    assert bike.runs(since=failed.started) == [newest, failed]
    assert bike.tell("job:A")["runs"] == [newest.to_dict(), oldest.to_dict()]
    assert bike.runs("nobody:A", "no*", "bad:A") == [failed]
    with pytest.raises(BadJobId):
        bike.runs("\n")


@pytest.mark.parametrize("limit", [0, -3, "x", True, 1.5])
def test_what_is_no_limit_is_quoted(bike, limit):
    with pytest.raises(BadConfig, match=f"bad limit {limit!r}"):
        bike().runs(limit=limit)


# When they are archived


@pytest.fixture
def dispatching(bike, monkeypatch):
    """Starts dispatchers in threads, and halts them."""
    monkeypatch.setattr("redbike.dispatcher.dispatcher.LONGEST_SLEEP", 0.1)
    bike, threads = bike(), []

    def dispatch():
        threads.append(start(bike.dispatch))
        return bike

    yield dispatch
    bike.control("HALT")
    join(*threads)


@pytest.mark.parametrize(("name", "value", "number", "least"), [("INTERVAL", 0.1, 1, 1), ("MANY", 5, 7, 5)])
def test_a_dispatcher_archives_when_it_is_idle_or_at_once_where_there_is_much(
    dispatching, monkeypatch, name, value, number, least
):
    monkeypatch.setattr(housekeeping, name, value)
    bike = dispatching()
    for each in range(number - 1):
        bike.set(f"{each}:A", "NOW")
    while bike.work_one():
        pass
    # It may have begun before the last ones ended: then these are too few for it.
    wait_until(lambda: bike.client.hlen(bike.store.keys.history) >= least)
    wait_until(lambda: bike.client.llen(bike.store.keys.journal) < least)
    assert len(bike.runs()) == number


def test_what_cannot_be_archived_is_said_once_and_holds_up_no_job(dispatching, monkeypatch, caplog):
    monkeypatch.setattr(housekeeping, "INTERVAL", 0.0)
    bike = dispatching()
    bike.client.set(bike.store.keys.counts, "wrong")
    bike.work_one()
    wait_until(lambda: "cannot be archived" in caplog.text)
    for number in range(3):
        bike.set(f"{number}:A", "NOW")
        wait_until(bike.work_one)
    assert caplog.text.count("cannot be archived") == 1
    assert f"WRONGTYPE {bike.store.keys.counts}" in caplog.text


def test_a_worker_archives_if_nobody_else_does(bike, monkeypatch):
    monkeypatch.setattr(ends, "MANY", 3)
    monkeypatch.setattr(ends, "CROWDED", 5)
    bike = bike()
    left = []
    for number in range(7):
        bike.set(f"{number}:A", "NOW")
        bike.work_one()
        left.append(bike.client.llen(bike.store.keys.journal))
    assert left == [1, 2, 3, 4, 5, 0, 1]


def test_a_worker_that_cannot_archive_goes_on(bike, monkeypatch, caplog):
    monkeypatch.setattr(ends, "MANY", 1)
    monkeypatch.setattr(ends, "CROWDED", 1)
    bike = bike()
    bike.client.set(bike.store.keys.counts, "wrong")
    assert bike.work_one() == "job:A"
    assert "cannot be archived" in caplog.text
    assert bike.tell("job:A")["status"].startswith("TML")
