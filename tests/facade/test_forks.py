"""A forked process has the objects of its parent, and none of the threads that these have there."""

import asyncio
import os
import select
import signal
import threading
from contextlib import contextmanager

import pytest

from redbike import AsyncRedbike, Redbike
from tests import loops
from tests.loops import Acting
from tests.proc import is_gone
from tests.servers import Sentinels
from tests.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def fork(action):
    """Call `action` in a forked process, and return the id of that."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def wait_for(child):
    try:
        wait_until(lambda: is_gone(child))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextmanager
def held_by_others(*locks):
    """Another thread holds these locks."""
    are_held, is_over = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        are_held.set()
        is_over.wait(60)
        for lock in locks:
            lock.release()

    thread = loops.start(hold)
    assert are_held.wait(60)
    try:
        yield
    finally:
        is_over.set()
        loops.join(thread)


def test_a_fork_of_a_program_that_has_worked_sends_heartbeats(client, prefix, tmp_path):
    worker = Acting(timeout=100.0)
    bike = Redbike(worker, prefix, client)
    bike.set("first:A", "NOW")
    assert bike.work_one() == "first:A"
    worker.act = lambda _: wait_until((tmp_path / "go").exists, timeout=60)
    bike.set("second:A", "NOW")
    child = fork(bike.work_one)
    leases = bike.store.keys.leases
    wait_until(lambda: client.zcard(leases) == 1)
    [(tag, until)] = client.zrange(leases, 0, -1, withscores=True)
    wait_until(lambda: client.zscore(leases, tag) > until)
    (tmp_path / "go").touch()
    wait_for(child)
    assert bike.tell("second:A")["status"].startswith("STP")


def test_a_fork_that_closes_its_copy_does_not_touch_the_loops_of_its_parent(client, prefix):
    bike = Redbike(Acting(), prefix, client)
    thread = loops.start(bike.work)
    wait_until(lambda: loops.blocked(client))
    child = fork(bike.close)
    wait_for(child)
    [stay] = bike._loops.calls._stays.values()
    # A loop that could read from that would spin.
    assert select.select([stay._flag.fileno()], [], [], 0)[0] == []
    bike.stop()
    loops.join(thread)


def test_a_fork_of_a_program_in_asyncio_may_go_on_calling(client, prefix):
    bike = AsyncRedbike(Acting(), prefix, client)

    async def call(jobid):
        await bike.set(jobid, "NOW")
        # The thread of the call is idle by then, and that is known.
        threads = bike._threads
        await asyncio.to_thread(wait_until, lambda: threads._idle_semaphore._value == len(threads._threads))

    asyncio.run(call("first:A"))
    child = fork(lambda: asyncio.run(call("second:A")))
    wait_for(child)
    assert asyncio.run(bike.tell("second:A"))["status"].startswith("ENQ")


def set_in_fork(bike, *locks):
    """A child sets a job, though a thread of its parent held these at the fork."""
    with held_by_others(*locks):
        child = fork(lambda: bike.set("second:A", "NOW"))
    wait_for(child)
    assert bike.tell("second:A")["status"].startswith("ENQ")
    bike.close()


@pytest.mark.parametrize("limit", [{}, {"max_connections": 3}], ids=["unlimited", "limited"])
def test_a_fork_may_go_on_calling_though_a_thread_has_held_the_locks_of_the_pool(client, prefix, limit):
    place = {"unix_socket_path": client.connection_pool.connection_kwargs["path"]}
    bike = Redbike(Acting(), prefix, place | limit)
    bike.set("first:A", "NOW")
    pool = bike.client.connection_pool
    set_in_fork(bike, pool._lock, pool._fork_lock)


@pytest.mark.acceptance
def test_a_fork_finds_its_master_though_a_thread_has_held_the_lock_of_the_router(cluster, prefix):
    bike = Redbike(Acting(), prefix, cluster.url)
    bike.set("first:A", "NOW")
    set_in_fork(bike, bike.client.connection_pool.connection_kwargs["router"]._changing)


@pytest.mark.acceptance
def test_a_fork_asks_the_sentinels_though_a_thread_has_held_the_locks_of_their_pools(tmp_path, prefix):
    sentinels = Sentinels(tmp_path / "servers")
    try:
        bike = Redbike(Acting(), prefix, sentinels.url)
        bike.set("first:A", "NOW")
        pools = [each.connection_pool for each in bike.client.connection_pool.sentinel_manager.sentinels]
        set_in_fork(bike, *(lock for pool in pools for lock in (pool._lock, pool._fork_lock)))
    finally:
        sentinels.stop()
