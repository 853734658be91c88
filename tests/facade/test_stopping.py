"""`stop` ends the loops of one object, each after its current job; `close` and ``with`` close what it opened."""

import asyncio
import os
import signal
import threading
from contextlib import contextmanager
from functools import partial

import pytest
import redis

from redbike import Again, AsyncRedbike, Jobs, Redbike, RedbikeError, RoundRobin, Unreachable, current_run
from redbike.connection.embedded import EmbeddedServer
from tests import loops
from tests.loops import Acting, Held
from tests.waiting import wait_until


@pytest.fixture
def named(server, prefix):
    """Make a Redbike whose connections have the name of its prefix on the server."""

    def make(worker, name="own", **more):
        return Redbike(worker, prefix, {"unix_socket_path": str(server.socket), "client_name": name, **more})

    return make


def connections(client, name="own"):
    return [each for each in client.client_list() if each["name"] == name]


def end(client, *threads):
    """Wait until these and all connections have ended."""
    loops.join(*threads)
    wait_until(lambda: not connections(client))


def start(*calls):
    """Run each call in a thread of its own; the threads, and what the calls have raised."""
    raised = []

    def run(call):
        try:
            call()
        except BaseException as error:
            raised.append(error)

    return [loops.start(partial(run, call)) for call in calls], raised


@contextmanager
def interrupted_by(act):
    """Call `act` in the main thread, whatever that does, when `interrupt`, which this is, is called in another one."""
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: act())
    try:
        yield lambda: signal.pthread_kill(main, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_run_hears_that_its_worker_is_to_stop(client, prefix):
    heard = []

    def act(jobid):
        heard.append(bool(current_run().stopping))
        wait_until(lambda: current_run().stopping)
        raise Again

    bike = Redbike(Acting(act, timeout=100.0), prefix, client)
    bike.set("job:A", "NOW")
    threads, raised = start(bike.work)
    wait_until(lambda: heard)
    bike.stop()
    loops.join(*threads)
    assert (heard, raised, bike.tell("job:A")["status"][:3]) == ([False], [], "ENQ")


def test_coroutines_wait_until_their_worker_is_to_stop(client, prefix):
    heard, jobs = [], Jobs(concurrency=3)

    @jobs.job("job")
    async def job(jobid):
        heard.append(f"{jobid} begins")
        await current_run().stopping
        await current_run().stopping
        assert current_run().stopping
        heard.append(f"{jobid} ends")

    bike = Redbike(jobs, prefix, client)
    for number in range(2):
        bike.set(f"job:{number}", "NOW")
    before = len(os.listdir("/proc/self/fd"))
    threads, raised = start(bike.work)
    wait_until(lambda: len(heard) == 2)
    bike.stop()
    loops.join(*threads)
    assert (sorted(heard[2:]), raised) == (["job:0 ends", "job:1 ends"], [])
    bike.close()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_loops_in_threads_stop_each_after_its_current_job(client, prefix, concurrency):
    worker = Held()
    bike, other = Redbike(worker, prefix, client), Redbike(Held(), prefix, client)
    threads, raised = start(bike.dispatch, lambda: bike.work(concurrency))
    others, _ = start(other.dispatch)
    wait_until(lambda: len(bike.workers()) == 3)
    bike.set("job:A", "AT:1")
    assert worker.begun.wait(60)
    bike.stop()
    bike.stop()
    loops.join(threads[0])
    assert threads[1].is_alive()
    worker.opened.set()
    loops.join(*threads)
    assert (worker.worked, raised) == (["job:A"], [])
    assert bike.tell("job:A")["status"].startswith("STP:")
    assert others[0].is_alive()
    assert len(other.workers()) == 1
    other.stop()
    loops.join(*others)


def test_a_loop_that_begins_after_stop_ends_at_once(client, prefix):
    worker = Acting()
    bike = Redbike(worker, prefix, client)
    worker.act = lambda _: bike.stop()
    bike.set("job:A", "CONTINUE")
    # A job may stop its own loop.
    threads, raised = start(bike.work)
    loops.join(*threads)
    assert bike.tell("job:A")["working"] is False
    threads, more = start(bike.dispatch, bike.work)
    loops.join(*threads)
    assert raised == more == []
    # Single turns are no loops.
    assert bike.work_one() == "job:A"


def test_a_signal_handler_may_stop_the_loop_that_it_interrupts(client, prefix):
    begun, stopped = threading.Event(), threading.Event()

    def act(jobid):
        begun.set()
        wait_until(stopped.is_set)  # a lock would not notice a signal that comes in the instant before

    bike = Redbike(Acting(act, timeout=100.0), prefix, client)
    with interrupted_by(lambda: (bike.stop(), stopped.set())) as interrupt:
        threads, raised = start(bike.dispatch, lambda: begun.wait(60) and interrupt())
        bike.set("job:A", "NOW")
        bike.work()
        loops.join(*threads)
    assert (bike.tell("job:A")["status"][:3], raised) == ("STP", [])


# Closing


def test_with_closes_the_connections_and_only_these(client, named):
    class Async(RoundRobin):
        async def work(self, jobid):
            pass

    before = set(threading.enumerate())
    with named(Held(), "other") as other, named(Async("A")) as bike:
        bike.set("job:A", "NOW")
        bike.dispatch_due()
        assert bike.work_one() == "job:A"
        assert set(threading.enumerate()) - before
        assert connections(client)
        other.set("job:A", "EVERY:1h")
        bike.close()
        wait_until(lambda: not connections(client))
        assert connections(client, "other")
    bike.close()
    wait_until(lambda: not connections(client, "other"))
    assert client.ping()
    wait_until(lambda: not set(threading.enumerate()) - before)


def test_a_client_of_the_user_stays_open(server, client, prefix):
    own = redis.Redis(unix_socket_path=str(server.socket), client_name="given")
    own.ping()
    with Redbike(Held(), prefix, own) as bike:
        bike.set("job:A", "EVERY:1h")
        assert len(connections(client, "given")) > 1
    wait_until(lambda: len(connections(client, "given")) == 1)
    with Redbike.from_settings(Held(), bike.settings, own) as bike:
        bike.get_schedules()
    assert own.ping()
    own.close()


def test_close_waits_for_the_loops_of_other_threads(client, named):
    worker = Held()
    with named(worker) as bike:
        threads, raised = start(bike.dispatch, lambda: bike.work(2))
        wait_until(lambda: len(bike.workers()) == 2)
        bike.set("job:A", "NOW")
        assert worker.begun.wait(60)
        closing, _ = start(bike.close)
        loops.join(threads[0])
        assert closing[0].is_alive()
        worker.opened.set()
    assert worker.worked == ["job:A"]
    end(client, *threads, *closing)
    assert raised == []


CALLS = {
    "set": ("job:A", "NOW"), "tell": ("job:A",), "work_one": (), "dispatch_due": (), "work": (), "dispatch": (),
    "get_schedules": (), "set_many": ([("job:A", "NOW")],), "jobs": (), "run": ("job:A",), "health": (), "flush": (),
}  # fmt: skip


def test_a_closed_one_refuses_the_same_calls_in_both_classes(client, prefix):
    bike, other = Redbike(Held(), prefix, client), AsyncRedbike(Held(), prefix, client)

    async def call(name, given):
        found = getattr(other, name)(*given)
        return [each async for each in found] if hasattr(found, "__aiter__") else await found

    async def main():
        async with other:
            pass
        for name, given in CALLS.items():
            with pytest.raises(RedbikeError, match="this AsyncRedbike is closed"):
                await call(name, given)
        with pytest.raises(RedbikeError, match="this AsyncRedbike is closed"):
            await other.__aenter__()
        other.stop()
        await other.close()

    asyncio.run(main())
    bike.close()
    for name, given in CALLS.items():
        with pytest.raises(RedbikeError, match="this Redbike is closed"):
            getattr(bike, name)(*given)
    with pytest.raises(RedbikeError, match="this Redbike is closed"), bike:
        pass
    bike.stop()
    bike.close()
    assert bike.prefix == prefix


def test_a_job_that_still_runs_may_go_on_calling(client, prefix):
    class Follower(Held):
        def work(self, jobid):
            super().work(jobid)
            bike.set("next:A", "EVERY:1h")

    worker = Follower()
    bike = Redbike(worker, prefix, client)
    threads, raised = start(bike.work)
    bike.set("job:A", "NOW")
    assert worker.begun.wait(60)
    closing, _ = start(bike.close)
    wait_until(lambda: bike._loops.is_closing)
    worker.opened.set()
    loops.join(*threads, *closing)
    assert raised == []
    assert Redbike(worker, prefix, client).tell("next:A")["status"].startswith("TML")


@pytest.mark.parametrize("concurrency", [None, 1, 2])
def test_close_in_a_job_does_not_wait_for_itself(client, named, concurrency):
    worker = Acting()
    bike = named(worker)
    worker.act = lambda _: bike.close()
    bike.set("job:A", "NOW")
    threads, raised = start(bike.work_one if concurrency is None else lambda: bike.work(concurrency))
    end(client, *threads)
    assert raised == []
    assert Redbike(worker, bike.prefix, client).tell("job:A")["status"].startswith("STP:")


LIMITS = [{}, {"max_connections": 3}]


@pytest.fixture
def paused(client):
    """The server lets writes wait until this is called."""
    client.client_pause(60_000, all=False)
    yield client.client_unpause
    client.client_unpause()


def is_waiting(client):
    return any("b" in each["flags"] for each in connections(client))


@pytest.mark.parametrize("limit", LIMITS)
def test_a_call_that_is_in_flight_completes_after_close(client, named, paused, limit):
    bike = named(Held(), **limit)
    threads, raised = start(lambda: bike.set("job:A", "EVERY:1h@0"))
    wait_until(lambda: is_waiting(client))
    bike.close()
    paused()
    end(client, *threads)
    assert raised == []
    assert dict(Redbike(Held(), bike.prefix, client).get_schedules()) == {"job:A": "EVERY:1h@0"}


def test_close_while_other_threads_go_on_calling(client, named):
    for limit in LIMITS:
        bike, done = named(Held(), **limit), []

        def call(bike=bike, done=done):
            while True:
                bike.set("job:A", "EVERY:1h@0")
                done.append(len(list(bike.get_schedules())))

        events = bike.events()
        bike.pause_all()
        threads, raised = start(call, call)
        listening, silent = start(lambda events=events: list(events))
        wait_until(lambda done=done: len(done) > 10)
        bike.close()
        end(client, *threads, *listening)
        assert [str(error) for error in raised] == 2 * ["this Redbike is closed"]
        assert silent == []


def test_a_signal_handler_may_close_during_a_call(client, named, paused):
    bike, closed = named(Held(), max_connections=3), threading.Event()

    def close():
        wait_until(lambda: is_waiting(client))
        interrupt()
        assert closed.wait(60)
        paused()

    with interrupted_by(lambda: (bike.close(), closed.set())) as interrupt:
        threads, raised = start(close)
        assert bike.set("job:A", "EVERY:1h@0")
        end(client, *threads)
        assert raised == []


def test_the_embedded_server_outlives_the_object(tmp_path, prefix, caplog):
    server = EmbeddedServer(tmp_path / "server")
    try:
        with Redbike(Held(), prefix, f"embedded:{tmp_path}/server") as bike:
            bike.set("job:A", "EVERY:1h")
        assert server.status()["running"]
        with Redbike(Held(), prefix, f"embedded:{tmp_path}/server") as bike:
            assert [jobid for jobid, _ in bike.get_schedules()] == ["job:A"]
        # To stop loops, no server is waited for.
        bike = Redbike(Held(), prefix, f"unix://{server.socket}")
        threads, raised = start(bike.dispatch, bike.work)
        wait_until(lambda: len(bike.workers()) == 2)
        server.stop()
        wait_until(lambda: sum("waiting for it" in message for message in caplog.messages) >= 2)
        bike.stop()
        loops.join(*threads)
        assert raised == []
        with pytest.raises(Unreachable):
            bike.work_one()
    finally:
        server.stop()
