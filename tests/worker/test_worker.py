"""Workers: their order of queues, how runs end, heartbeats, and several at once."""

import os
import threading
from types import SimpleNamespace

import pytest

from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import BadConfig, BadJobId, Overrun, ServerError, StopWork, UnsetJob
from redbike.loop.worker_class import RoundRobin
from redbike.process.leaving import STUCK
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.processes import ProcessRecord
from redbike.worker.current import current_run
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, blocked, make_worker, raising
from tests.verbs import set_job
from tests.waiting import wait_until


@pytest.fixture
def state(store):
    return lambda jobid="job:A": store.questions.inspect([jobid])[0]


@pytest.fixture
def work(store):
    """Sets job:A, and works it once, by what `act` does; returns the worker."""

    def work(act, schedule="CONTINUE", timeout=None, due="now", **settings):
        set_job(store, "job:A", schedule, due, once=schedule == "NOW")
        worker = Worker(store, Acting(act, timeout=timeout), Settings(**settings))
        assert worker.work_one() == "job:A"
        return worker

    return work


def test_round_robin_names_queues_by_what_follows_the_last_colon():
    assert RoundRobin("A:A:B").queue_names() == ["work-A", "work-A", "work-B"]
    assert RoundRobin("A").queue_for("backup:db1:A") == "work-A"
    assert RoundRobin("A").queue_for("backup") == "work-backup"
    assert RoundRobin("A").timeout("work-A") is None
    for jobid in ("a:", ":"):
        with pytest.raises(BadJobId, match=jobid):
            RoundRobin("A").queue_for(jobid)


@pytest.mark.parametrize("initstring", ["", "A:", None, "A\n", "A" * 2000])
def test_bad_queues_are_refused(initstring):
    with pytest.raises(ValueError, match="bad queue"):
        RoundRobin(initstring)


@pytest.mark.parametrize(("is_halted", "ends"), [(False, ["begun anew", STUCK]), (True, [0])])
def test_a_worker_that_replaces_itself_does_not_begin_anew_after_a_halt(store, monkeypatch, is_halted, ends):
    found = []
    monkeypatch.setattr("redbike.process.leaving._process", os.getpid())
    monkeypatch.setattr("redbike.process.leaving._begin_again", lambda: found.append("begun anew"))
    monkeypatch.setattr(os, "_exit", found.append)
    worker = Worker(store, Acting(), Settings())
    worker.leaving.consider_replacing([SimpleNamespace()], 1)
    if is_halted:
        store.signals.halt()
    worker.leaving.replace_if_wanted()
    assert found == ends


def test_a_worker_that_is_stuck_in_a_job_with_a_no_break_space_is_known(store, monkeypatch):
    worker = make_worker(store, RoundRobin("A"))
    jobids = ["caf\u00e9:A", "caf\u00e9\u00a0noir:A"]
    monkeypatch.setattr(worker.heartbeat, "list_stuck", lambda: [SimpleNamespace(jobid=jobid) for jobid in jobids])
    record = ProcessRecord.parse(f"1.000000 {worker.presence.format_entry()}")
    assert record.stuck == (jobids[0], repr(jobids[1]))


@pytest.mark.parametrize("seconds", [0, True, float("nan"), 10**12, "10"])
def test_a_bad_timeout_is_refused_before_any_job_is_taken(store, seconds, state):
    set_job(store, "job:A", "NOW", "now", once=True)
    with pytest.raises(BadConfig, match="bad timeout"):
        Worker(store, Acting(timeout=seconds), Settings()).work_one()
    assert state().queued


@pytest.mark.parametrize(("seconds", "expected"), [(2.5, 2.5), (None, 33.0)])
def test_continue_goes_round_and_backs_off_and_has_the_timeout_of_its_class(store, work, state, seconds, expected):
    seen = []

    def act(_):
        seen.append(current_run().deadline - current_run().start)

    worker = work(act, timeout=seconds, default_timeout=33.0)
    assert seen == pytest.approx([expected], abs=1e-3)
    assert [worker.work_one() for _ in range(2)] == ["job:A"] * 2
    worker.runner.worker.act = lambda _: 60
    before = store.timeline.read_clock()
    worker.work_one()
    assert before + 60 <= state().timeline <= store.timeline.read_clock() + 60


NO_PAUSE = "neither None nor a number of seconds"


@pytest.mark.parametrize(
    ("act", "given", "schedule", "event", "error"),
    [
        (raising(StopWork("enough")), {}, "STOP", "STP", None),
        (raising(UnsetJob("gone")), {}, None, None, None),
        (lambda store: set_job(store, "job:A", "STOP", None), {}, "STOP", "STP", None),
        (lambda _: "soon", {}, "CONTINUE", "DIE", f"TypeError: work() returned 'soon', {NO_PAUSE}"),
        # A worker may say itself that the time is over.
        (raising(Overrun()), {"on_timeout": "requeue"}, "CONTINUE", "ENQ", None),
        (raising(Overrun()), {}, "CONTINUE", "DIE", "Overrun"),
    ],
)
def test_a_run_ends_by_what_its_work_did(store, work, state, act, given, schedule, event, error):
    work(lambda _: act(store), **given)
    found = state()
    assert (found.schedule, found.status and found.status[:3]) == (schedule, event)
    assert (found.failure and found.failure["error"]) == error


@pytest.mark.parametrize(("policy", "status"), [("stop", "DIE"), ("reschedule", "TML"), ("requeue", "ENQ")])
def test_a_run_that_outlives_its_deadline_ends_by_policy_while_it_still_runs(store, work, state, policy, status):
    during = []

    def act(_):
        wait_until(lambda: not state().running)
        during.append(state().status[:3])
        return "whatever it returns later changes nothing"

    work(act, "EVERY:1000@0.0", timeout=0.2, on_timeout=policy)
    assert during == [status]
    assert state().status.startswith(status)
    assert list(fsck(store)) == []


@pytest.fixture
def patient(monkeypatch):
    """A worker that is not woken notices nothing for as long as the test lasts."""
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 600)
    monkeypatch.setattr("redbike.loop.wakeup.SILENCE", 700)


@pytest.mark.parametrize(("number", "concurrency"), [(1, 3), (4, 1)])
def test_all_idle_workers_are_halted_at_once_but_not_those_that_come_after_it(store, patient, number, concurrency):
    for _ in range(2):
        with beside(store, *(Worker(store, Acting(), Settings(), concurrency).work for _ in range(number))):
            wait_until(lambda: len(blocked(store.client)) == number)


@pytest.mark.parametrize("number", [0, 1])
def test_a_halt_that_a_server_has_again_does_not_stop_those_that_came_after_it(store, client, number):
    old = f"HALT {store.timeline.read_clock() - 60:.6f}"
    for _ in range(number):
        store.signals.halt()
    worker = Worker(store, Acting(), Settings())
    single = Worker(store, Acting(), Settings())
    dispatcher = Dispatcher(store, Settings())
    with beside(store, worker.work, dispatcher.dispatch):
        wait_until(lambda: blocked(store.client))
        client.set(store.keys.control, old)
        client.lpush(store.keys.halt, "1")
        for jobid in ("first:A", "second:A"):
            set_job(store, jobid, "NOW", store.timeline.read_clock() + 0.1, once=True)
            wait_until(lambda jobid=jobid: jobid in worker.runner.worker.worked)
    set_job(store, "single:A", "NOW", "now", once=True)
    store.signals.clear()
    client.set(store.keys.control, old)
    assert single.work_one() == "single:A"


def test_one_token_wakes_several_idle_workers_in_a_chain(store):
    meeting = threading.Barrier(5)
    workers = [Worker(store, Acting(lambda _: meeting.wait(timeout=60) and None), Settings()) for _ in range(4)]
    with beside(store, *(worker.work for worker in workers)):
        store.jobs.set([JobToSet(f"{n}:A", "NOW", "now", True, "work-A") for n in range(4)])
        meeting.wait(timeout=60)
    assert sorted(jobid for worker in workers for jobid in worker.runner.worker.worked) == ["0:A", "1:A", "2:A", "3:A"]


@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize(("took", "event"), [(1.0, "TML"), (120.0, "DIE")])
def test_a_run_that_was_over_in_time_is_no_overrun_if_redis_hears_of_it_late(store, state, took, event, is_set):
    """Its worker waits for a server that is away for longer than the timeout."""
    now = store.timeline.read_clock()
    worker = make_worker(store.follow(lambda: now), Acting(timeout=100.0))
    set_job(store, "job:A", f"EVERY:1h@{now}", "now")  # it is not due again meanwhile
    runs = worker.source.take(1)
    worker.heartbeat.add = lambda run: None  # nobody else tells
    [(run, next_state)] = worker.run_all(runs)
    # As if so much time had passed since it began.
    now += 150
    run.received -= 150
    run.over = run.received + took
    if is_set:
        set_job(store, "job:A", f"EVERY:2h@{now}", now + 7200)
    worker.source.end([(run, next_state)])
    assert state().status.startswith("TML" if is_set else event)
    assert bool(state().failure) == (event == "DIE")
    assert list(fsck(store)) == []


def test_a_worker_that_ends_by_an_error_leaves_no_thread(store):
    def act(jobid):
        store.client.set(store.keys.queue("work-A"), "no list")

    set_job(store, "job:A", "EVERY:1h@0", "now")
    before, worker = {*threading.enumerate()}, Worker(store, Acting(act), Settings())
    with pytest.raises(ServerError, match="WRONGTYPE"):
        worker.work()
    wait_until(lambda: {*threading.enumerate()} <= before)
    store.client.delete(store.keys.queue("work-A"))
