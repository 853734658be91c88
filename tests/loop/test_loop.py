"""How a loop waits: it blocks for wake-ups, and says of an outage at once, again once a minute, and when it is over."""

import logging
import os
import signal
import threading
import time

import pytest

from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import LoginRefused, ServerError, Unreachable
from redbike.loop import loop
from redbike.loop.loop import Loop
from redbike.loop.wakeup import Wakeup
from redbike.process import leaving, signals
from redbike.process.signals import StopFlag
from redbike.store.inspection.fsck import fsck
from redbike.store.lease import LEASE
from redbike.store.store import Store
from tests.commandline import make_module
from tests.loops import blocked, join, make_worker, start
from tests.states import queue_for
from tests.verbs import Quiet, set_job, take_many
from tests.waiting import wait_until


@pytest.mark.parametrize(("reminder", "times"), [(60.0, 1), (0.0, 5)])
def test_a_long_outage_is_said_again(client, prefix, monkeypatch, caplog, reminder, times):
    monkeypatch.setattr(loop, "REMINDER", reminder)
    monkeypatch.setattr(loop, "FIRST_PAUSE", 0.001)
    attempts = []

    def act(repeated):
        attempts.append(repeated)
        if len(attempts) <= 5:
            raise Unreachable("it is away")
        return "done"

    found = Loop(Store(client, prefix, queue_for))
    assert found.retry_until_up(act) == "done"
    # What is tried again knows that it is: a take whose reply was lost might take more under the same tag.
    assert attempts == [False] + [True] * 5
    assert found.retry_until_up(act) == "done"
    assert caplog.messages == ["it is away; waiting for it"] * times + ["Redis is back"]


def test_the_pauses_of_an_outage_grow_up_to_the_longest_one_and_vary(client, prefix, monkeypatch):
    """So many processes do not come back at the same instant."""
    found, waited = Loop(Store(client, prefix, queue_for)), []
    monkeypatch.setattr(found.stopping, "wait", waited.append)

    def act(repeated):
        if len(waited) < 12:
            raise Unreachable("it is away")

    found.retry_until_up(act)
    assert waited[:6] == sorted(waited[:6])
    assert waited[0] <= loop.FIRST_PAUSE
    assert all(loop.LONGEST_PAUSE / 2 <= pause <= loop.LONGEST_PAUSE == 2.0 for pause in waited[6:])
    assert len({*waited}) == 12


def test_a_login_that_stays_refused_ends_the_loop_as_it_may_have_another_password_by_then(
    client, prefix, monkeypatch, caplog
):
    monkeypatch.setattr(loop, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(loop, "REFUSED", 0.05)
    began = time.monotonic()

    def act(repeated):
        raise LoginRefused("Redis refuses the login: WRONGPASS")

    with pytest.raises(ServerError, match=r"^Redis refuses the login: WRONGPASS, for 0\.05 s$") as raised:
        Loop(Store(client, prefix, queue_for)).retry_until_up(act)
    assert not isinstance(raised.value, Unreachable)
    assert time.monotonic() - began > 0.05
    assert caplog.messages == ["Redis refuses the login: WRONGPASS; waiting for it"]


@pytest.mark.parametrize(("was_covered", "number"), [(False, 0), (True, 1)])
def test_an_outage_lets_a_process_live_that_runs_nothing_and_is_suspended(
    client, prefix, monkeypatch, was_covered, number
):
    """Only if a run has begun the timer that ends a process which hangs, that is put off."""
    covered = []
    monkeypatch.setattr(loop, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(leaving, "is_covered", lambda: was_covered)
    monkeypatch.setattr(leaving, "cover", covered.append)

    def act(repeated):
        if not repeated:
            raise Unreachable("it is away")

    Loop(Store(client, prefix, queue_for)).retry_until_up(act)
    assert len(covered) == number


ROUNDS = 3
WORKER = make_module("with open('ran.log', 'a') as file: print(jobid, file=file)")


def test_a_signal_and_an_overrun_count_before_a_log_that_nobody_reads(worker, monkeypatch):
    done = []
    monkeypatch.setattr(logging.getLogger("redbike"), "info", lambda *_: done.append(worker.loop.stopping.is_set()))
    with worker.loop.handle_signals():
        assert signals.tell(signal.SIGTERM)
    set_job(worker.store, "job:A", "NOW", "now")
    [run] = take_many(worker.store, [("work-A", 1.0)], [1], "tag", 1)
    monkeypatch.setattr(
        logging.getLogger("redbike.worker"), "log", lambda *_: done.append(worker.store.runs.heartbeat([run]))
    )
    wait_until(lambda: run.now() > run.deadline)
    worker.ends.end_overrun(run)
    assert done == [True, ["stale"]]


@pytest.fixture
def worker(store):
    return make_worker(store, Quiet())


def idle(worker, found):
    """A thread that waits for a job, and puts it into `found`."""
    before = len(blocked(worker.store.client))
    thread = start(lambda: found.extend(worker.source.wait()))
    wait_until(lambda: len(blocked(worker.store.client)) > before)
    return thread


def test_the_job_comes_with_the_wake_up(store, worker, monkeypatch):
    # Otherwise it would ask again after a while.
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 600)
    monkeypatch.setattr("redbike.loop.wakeup.SILENCE", 700)
    set_job(store, "job:A", "STOP", None)
    found = worker.source.take(1)  # from now on the server has both scripts
    thread = idle(worker, found)
    store.client.config_resetstat()
    set_job(store, "job:A", "NOW", "now")
    join(thread)
    assert [run.jobid for run in found] == ["job:A"]
    # `set` and the take that was pending: the worker has asked for nothing.
    assert store.client.info("commandstats")["cmdstat_evalsha"]["calls"] == 2
    assert worker.source._ahead == ""
    worker.loop.close()


def test_an_idle_worker_gets_a_job_without_a_token_also_if_the_server_has_forgotten_the_script(
    store, worker, monkeypatch
):
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 0.1)
    set_job(store, "job:A", "NOW", "now")
    store.client.delete(store.keys.wake("work-A"))  # a worker that was killed had the token
    store.client.script_flush()
    found = []
    join(start(lambda: found.extend(worker.source.wait())))
    assert [run.jobid for run in found] == ["job:A"]
    worker.loop.close()


def test_one_connection_waits_for_queues_whose_order_changes(client, prefix):
    found, seen, before = Loop(Store(client, prefix, queue_for)), set(), {*blocked(client)}
    for lists in (["a", "b"], ["b", "a"], ["c"]):
        client.rpush(lists[0], "token")
        assert found.wait(lists, 30)
        seen |= {*blocked(client)} - before
    assert len(seen) == 1
    for lists in (["a"], ["b"]):  # nothing comes, so the first pop stays pending
        found.wait(lists, 0)
    wait_until(lambda: len({*blocked(client)} - before) == 1)
    found.close()


def test_the_time_that_it_takes_to_connect_is_no_silence_of_the_server(own_server, monkeypatch):
    """The process, or the server, may have been suspended meanwhile."""
    monkeypatch.setattr("redbike.loop.wakeup.SILENCE", 0.3)
    with connect(own_server.url) as client:
        wakeup = Wakeup(client, ["wakeup"], StopFlag())
        pid = own_server.status()["pid"]
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()
        assert wakeup.wait(0.0, None) == (None, None)
        wakeup.close()


def test_a_take_whose_reply_was_lost_is_repeated(store, worker):
    worker.source._ahead = "pending"
    set_job(store, "job:A", "NOW", "now")
    (run,) = take_many(store, [("work-A", 10.0)], [1], "pending", 1)
    assert worker.source.take(1) == [run]
    assert worker.source.take(1) == []


def test_an_idle_worker_that_is_cut_off_goes_on(store, worker):
    before = len(blocked(store.client))
    thread = start(worker.work)
    for n in range(ROUNDS):
        wait_until(lambda: len(blocked(store.client)) > before)
        for number in blocked(store.client):
            store.client.client_kill_filter(_id=number)
        set_job(store, f"{n}:A", "EVERY:1h@0", "now")
        wait_until(lambda number=n: len(worker.runner.worker.worked) == number + 1)
    store.signals.halt()
    join(thread)
    assert worker.runner.worker.worked == [f"{n}:A" for n in range(ROUNDS)]
    states = store.questions.inspect(worker.runner.worker.worked)
    assert not any(state.retry_state for state in states), "none counts as lost"
    assert list(fsck(store)) == []


def test_what_was_taken_for_a_worker_that_stops_is_given_back(store, worker):
    worker.source._ahead = "pending"
    for jobid in ("one:A", "two:A"):
        set_job(store, jobid, "NOW", "now")
    take_many(store, [("work-A", 10.0)], [1], "pending", 1)
    worker.loop.stopping.set()
    assert worker.source.wait() == []
    states = store.questions.inspect(["one:A", "two:A"])
    assert all(state.queued and not state.running for state in states)
    assert [run.jobid for run in take_many(store, [("work-A", 10.0)], [1], "next", 2)] == ["one:A", "two:A"]


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_that_was_suspended_while_idle_begins_only_what_is_still_its_own(store, worker, monkeypatch, lost):
    assert worker.source.take(1) == []  # from now on the server has the script
    monkeypatch.setattr("redbike.worker.source.STALE", -10.0)
    answered = worker.source._check_halt

    def received(taken):
        if lost and taken:
            Dispatcher(store, Settings()).dispatch_due(store.timeline.read_dispatched()[0] + LEASE + 1)
        return answered(taken)

    monkeypatch.setattr(worker.source, "_check_halt", received)
    found = []
    thread = idle(worker, found)
    set_job(store, "job:A", "NOW", "now")
    join(thread)
    assert len(found) == 1
    worker.run_all(found)
    assert worker.runner.worker.worked == ([] if lost else ["job:A"])
    worker.loop.close()


def test_idle_workers_that_are_stopped_while_jobs_come_lose_none(jobs, client):
    store, jobids = jobs.bike.store, []
    for n in range(ROUNDS):
        process = jobs.start("work", "jobs:Worker('A')")
        wait_until(lambda: blocked(store.client))
        stopping = start(process.terminate)
        for k in range(5):
            jobids.append(f"{n}-{k}:A")
            set_job(store, jobids[-1], "NOW", "now")
        join(stopping)
        assert process.wait(60) == 0
        assert client.zcard(store.keys.leases) == 0
    waiting = [entry.decode() for entry in client.lrange(store.keys.queue("work-A"), 0, -1)]
    assert sorted(jobs.log("ran.log").split() + waiting) == sorted(jobids)
    assert list(fsck(store)) == []
