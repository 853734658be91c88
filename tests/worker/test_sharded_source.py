"""Workers of several shards: each job wakes one that is idle, and none that is busy keeps a token to itself."""

import threading
import time
from functools import partial

import pytest
import redis

from redbike import Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.errors import Unreachable
from redbike.loop import wakeup
from redbike.worker import shard, sharded_source
from redbike.worker.worker import Worker
from tests.loops import beside
from tests.shards import divide, name_jobs
from tests.verbs import Quiet
from tests.waiting import wait_until

ROUNDS = 30


class Meeting(RoundRobin):
    """Its jobs end when as many have begun as are to run at the same time."""

    def __init__(self, number):
        super().__init__("A")
        self.barrier, self.met = threading.Barrier(number), 0

    def work(self, jobid):
        if self.barrier.wait(60) == 0:
            self.met += 1


@pytest.fixture
def make(client, prefix):
    bikes = []

    def make(worker):
        bikes.append(Redbike(worker, prefix, client, shards=4))
        return bikes[-1]

    yield make
    for bike in bikes:
        bike.close()


@pytest.fixture
def jobids(make):
    """The id of a job of each shard."""
    bike = make(RoundRobin("A"))
    return name_jobs(bike.store, *range(4))


def test_jobs_of_all_shards_that_come_at_once_wake_as_many_workers(make, jobids, monkeypatch):
    # So whoever has a token that it does not use holds up a job for good.
    monkeypatch.setattr(wakeup, "BLOCK", 600)
    monkeypatch.setattr(sharded_source, "BLOCK", 600)
    worker = Meeting(4)
    bikes = [make(worker) for _ in range(4)]
    with beside(bikes[0].store, *(bike.work for bike in bikes)):
        wait_until(lambda: len(bikes[0].workers()) == 4)
        for number in range(ROUNDS):
            list(bikes[0].set_many((jobid, "NOW") for jobid in jobids))
            wait_until(lambda number=number: worker.met == number + 1)
            wait_until(lambda: not any(queue.in_flight for queue in bikes[0].queues()))
    assert worker.met == ROUNDS


def work_singly(bike):
    while bike.work_one():
        pass


@pytest.mark.parametrize("work", [work_singly, Redbike.work, partial(Redbike.work, concurrency=2)])
@pytest.mark.parametrize(("names", "turns"), [("A:B", "AB"), ("A:A:B", "AAB"), ("A:A:B:B", "AABB")])
def test_all_jobs_run_once_and_each_shard_keeps_the_weights_of_the_queues(make, names, turns, work):
    bike = make(Quiet(names))
    jobids = [f"{number}:{code}" for code in "AB" for number in range(80)]
    list(bike.set_many((jobid, "NOW") for jobid in jobids))
    with beside(bike.store, lambda: work(bike)):
        wait_until(lambda: {status for _, status, _ in bike.get_statuses()} == {"STP"})
    assert sorted(bike.worker.worked) == sorted(jobids)
    orders = [[jobid[-1] for jobid in bike.worker.worked if bike.store.number_shard(jobid) == n] for n in range(4)]
    # Two threads may begin their jobs in another order.
    size, few = len(turns) * (12 // len(turns)), 2 * isinstance(work, partial)
    for order in orders:
        assert abs(order[:size].count("B") - (turns * size)[:size].count("B")) <= few, orders
        assert few or "".join(order[:size]) == (turns * size)[:size], orders


def test_one_job_at_a_time_comes_from_each_shard_in_turn(make, jobids):
    bike = make(Quiet("A"))
    bike.set(jobids[0], "CONTINUE")
    for jobid in jobids[1:]:
        bike.set(jobid, "NOW")
    assert [bike.work_one() for _ in range(6)] == [*jobids, jobids[0], jobids[0]]


def test_a_shard_that_was_not_asked_lately_does_not_make_the_jobs_of_others_stale(make, jobids):
    bike = make(RoundRobin("A"))
    bike.set(jobids[1], "NOW")
    source = Worker(bike.store, RoundRobin("A"), Settings()).source
    # The last two are not asked.
    assert [run.jobid for run in source.take(1)] == [jobids[1]]
    assert source.fresh_until > time.monotonic()
    source.close()


def test_shards_of_a_master_that_does_not_answer_are_away_together(client, prefix, monkeypatch):
    other = redis.Redis(connection_pool=client.connection_pool)
    monkeypatch.setattr(sharded_source, "get_known_server", id)
    monkeypatch.setattr(shard, "is_in_cluster", bool)
    monkeypatch.setattr(shard, "RETRY", 600.0)
    source = Worker(divide(prefix, client, other, client), RoundRobin("A"), Settings()).source
    assert {each.source._pipeline.line.patience for each in source._shards} == {shard.PATIENCE}
    source._pass_over(source._shards[0], Unreachable("gone"))
    assert [each.is_away for each in source._shards] == [True, False, True]
    source.close()


def test_a_full_server_takes_the_token_back_that_is_not_used(make, jobids, client):
    bike = make(RoundRobin("A"))
    source = Worker(bike.store, RoundRobin("A"), Settings()).source
    assert source.take(1) == []
    for each in source._shards:
        each.begin_to_wait(source._queues.list_awaited())
    for jobid in jobids[:2]:
        bike.set(jobid, "NOW")
    client.config_set("maxmemory", 1)
    try:
        [run] = source.wait()
    finally:
        client.config_set("maxmemory", 0)
    assert not any(shard.is_away for shard in source._shards)
    others = [shard.keys.wake("work-A") for shard in bike.store.shards[:2] if shard != bike.store.find_shard(run.jobid)]
    assert [client.llen(key) for key in others] == [1]
    source.close()
