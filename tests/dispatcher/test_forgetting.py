"""One-offs that have ended are forgotten in time, and nothing else is."""

import logging

import pytest

from redbike import Redbike, UnsetJob
from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.queries.metrics import Metrics
from redbike.store.inspection.fsck import fsck
from redbike.store.timeline import Timeline
from tests.loops import beside, raising
from tests.verbs import Telling, set_job
from tests.waiting import wait_until

DAY, NOW = 86400.0, 1_000_000.0
ONCE = f"AT:{NOW:.0f}"


@pytest.fixture
def bike(client, prefix):
    bike = Redbike.from_settings(Telling("A"), Settings(prefix=prefix), client)
    yield bike
    assert not list(fsck(bike.store))


def end(bike, jobid, schedule=ONCE, **options):
    """Set a job, and let it run at `NOW`."""
    assert bike.set(jobid, schedule, after=NOW - 1, **options)
    run_all(bike)


def run_all(bike):
    bike.dispatch_due(NOW)
    while bike.work_one():
        pass


def forget(bike, days):
    store = bike.store.at(bike.store.timeline.read_clock() + days * DAY)
    number, is_more = store.timeline.forget()
    assert not is_more
    return number


@pytest.mark.parametrize(
    ("jobid", "options", "kept", "gone"),
    [
        ("once:A", {}, 6.9, 7.1),
        ("stop:A", {}, 6.9, 7.1),
        ("once:A", {"forget_after": "2d"}, 1.9, 2.1),
        ("once:A", {"forget_after": 0}, None, 0),
        ("once:A", {"forget_after": "never"}, 1e4, None),
        ("bad:A", {}, 1e4, None),
        ("every:A", {"schedule": "EVERY:1h@0"}, 1e4, None),
        ("stop every:A", {"schedule": "EVERY:1h@0"}, 1e4, None),
    ],
)
def test_a_one_off_that_has_ended_is_forgotten_by_forget_after(bike, jobid, options, kept, gone):
    end(bike, jobid, **options)
    if kept is not None:
        assert forget(bike, kept) == 0
        assert bike.tell(jobid)["schedule"]
    if gone is not None:
        assert "forget_at" in bike.tell(jobid)
        assert forget(bike, gone) == 1
        assert bike.tell(jobid)["status"] is None
        assert forget(bike, gone) == 0


@pytest.mark.parametrize("how", ["cancelled", "late", "paused until it was late"])
def test_one_that_ends_without_a_run_is_forgotten_too(client, prefix, how):
    bike = Redbike.from_settings(Telling("A"), Settings(prefix=prefix, forget_after="3d", grace="1m"), client)
    set_job(bike.store.at(NOW - 10), "once:A", ONCE, NOW)
    if how == "cancelled":
        bike.cancel("once:A")
    elif how == "late":
        bike.dispatch_due()
    else:
        bike.pause("once:A")
        bike.resume("once:A")
    assert bike.tell("once:A")["schedule"] == "STOP"
    assert forget(bike, 2.9) == 0
    assert forget(bike, 3.1) == 1


@pytest.mark.parametrize(
    "later",
    [lambda bike: bike.set("once:A", "STOP", forget_after="never"), lambda bike: bike.run("once:A")],
    ids=["set to stay", "runs again"],
)
def test_one_that_is_set_or_runs_again_is_not_forgotten(bike, later):
    end(bike, "once:A")
    # One that has failed, and succeeds later, is.
    end(bike, "bad:A")
    bike.worker.work = lambda jobid: None
    bike.run("bad:A")
    run_all(bike)
    later(bike)
    bike.set("stopped:A", "STOP")
    assert forget(bike, 7.1) == 1
    assert [bool(bike.tell(f"{name}:A")["schedule"]) for name in ("once", "bad", "stopped")] == [True, False, True]


@pytest.mark.parametrize("jobid", ["once:A", "bad:A"])
def test_one_that_runs_again_is_kept_from_then_on(bike, client, jobid):
    end(bike, jobid)
    client.zadd(bike.store.keys.spent, {jobid: bike.store.timeline.read_clock() + 60})
    if jobid == "bad:A":
        assert forget(bike, 1) == 0, "it has failed for good"
    bike.worker.work = lambda jobid: None
    bike.run(jobid)
    run_all(bike)
    assert forget(bike, 6.9) == 0
    assert "forget_at" in bike.tell(jobid)
    assert forget(bike, 7.1) == 1


@pytest.mark.parametrize("how", ["unset", "UnsetJob", "forget_after"])
def test_nothing_is_kept_of_a_job_that_is_gone(bike, client, how):
    keys = bike.store.keys
    bike.set("once:A", ONCE)
    bike.pause("once:A", every="@yearly", lasting="1s")
    client.hset(keys.following, "\x1eonce:A\ndone", "[]")
    client.hset(keys.alerts, mapping={"job:once:A": "", "missed:once:A": ""})
    for key in (keys.saved, keys.progress):
        client.hset(key, "once:A", "")
    if how == "unset":
        bike.unset("once:A")
    if how == "UnsetJob":
        bike.worker.work = raising(UnsetJob())
    run_all(bike)
    assert forget(bike, 7.1) == (how == "forget_after")
    assert not bike.store.questions.read_schedule("once:A")
    assert client.exists(keys.following, keys.blackouts, keys.alerts, keys.saved, keys.progress, keys.timers) == 0


def test_one_whose_time_comes_while_it_waits_to_be_tried_again_is_forgotten_later(bike):
    end(bike, "once:A", retries=1, backoff="9d")
    bike.worker.work = lambda jobid: 1 / 0
    bike.run("once:A")
    run_all(bike)
    assert bike.tell("once:A")["status"].startswith("TML")
    assert forget(bike, 8) == 0
    bike.worker.work = lambda jobid: None
    bike.run("once:A")
    run_all(bike)
    assert forget(bike, 6.9) == 0
    assert forget(bike, 7.1) == 1


def test_one_that_runs_again_with_never_stays(client, prefix):
    bike = Redbike.from_settings(Telling("A"), Settings(prefix=prefix), client)
    end(bike, "once:A")
    bike = Redbike.from_settings(Telling("A"), Settings(prefix=prefix, forget_after="never"), client)
    bike.run("once:A")
    run_all(bike)
    assert forget(bike, 1e4) == 0
    assert bike.tell("once:A")["schedule"] == "STOP"


def test_a_dispatcher_forgets_in_small_steps_and_says_so(bike, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    for number in range(120):
        bike.set(f"{number}:A", ONCE, forget_after=0)
    run_all(bike)
    bike.set("kept:A", "EVERY:1h")
    steps, forget = [], Timeline.forget
    monkeypatch.setattr(Timeline, "forget", lambda self: steps.append(1) or forget(self))
    dispatcher = Dispatcher(bike.store, bike.settings)
    with beside(bike.store, dispatcher.dispatch):
        wait_until(lambda: "forgot 120 one-offs that have ended, by forget-after" in caplog.text)
    assert len(steps) == 3
    assert [jobid for jobid, _ in bike.store.catalog.list_schedules()] == ["kept:A"]
    assert (
        f'redbike_forgotten_jobs_total{{prefix="{bike.store.keys.prefix}"}} 120.0'
        in Metrics(lambda: bike.store).format()
    )
    dispatcher.dispatch_due()
    assert not dispatcher._surveyed.is_ripe
