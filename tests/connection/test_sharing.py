"""Shards of a cluster share connections: each has one for as long as a reply is to come to it, and no longer."""

import os

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection import pools
from tests.servers import Cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

SHARDS = 16


@pytest.fixture
def bike(cluster, prefix):
    with Redbike(RoundRobin("A"), prefix, f"{cluster.url}?client_name={prefix}", shards=SHARDS) as bike:
        yield bike


def list_connections(cluster: Cluster, name: str) -> list[set[str]]:
    """The connections of that name to each master."""
    listed = [node.client.client_list(_type="normal") for node in cluster.nodes]
    return [{each["addr"] for each in own if each["name"] == name} for own in listed]


def ask_all(bike):
    """Ask each shard over a pipeline, and by a plain command."""
    for shard in bike.store.shards:
        shard.timeline.read_clock()
        shard.signals.read()


def find_pairs(cluster, bike):
    """Two shards of the same master, with a job in each."""
    first, *others = bike.store.shards
    home = cluster.master_of(first.keys.schedules)
    pair = first, next(shard for shard in others if cluster.master_of(shard.keys.schedules) is home)
    names = [f"{number}:A" for number in range(500)]
    jobids = [next(name for name in names if bike.store.find_shard(name) is shard) for shard in pair]
    for jobid in jobids:
        bike.set(jobid, "IN:1h")
    return pair, jobids


def read_jobs(shard, reply):
    return [jobid for jobid, _ in shard.timeline.read_survey(reply).coming]


def test_all_shards_of_a_master_are_asked_over_one_connection(bike, cluster, prefix):
    ask_all(bike)
    before = list_connections(cluster, prefix)
    assert sum(map(len, before)) <= 3 + 1  # one more has read how many shards there are
    for _ in range(3):
        ask_all(bike)
        bike.queues()
    assert list_connections(cluster, prefix) == before


def test_a_reply_is_read_by_none_but_the_shard_that_has_asked(bike, cluster):
    (one, other), (first, second) = find_pairs(cluster, bike)
    pipelines = [shard.scripts.pipeline_class(shard.client) for shard in (one, other)]
    calls = [shard.timeline.pack_survey(0) for shard in (one, other)]
    pipelines[0].send_all([calls[0]])
    (reply,) = pipelines[1].run([calls[1]])
    assert read_jobs(other, reply) == [second]
    (reply,) = pipelines[0].run([])
    assert read_jobs(one, reply) == [first]
    # What is on its way when a shard gives its connection back, or fails, reaches nobody.
    pipelines[0].send_all([calls[0]])
    pipelines[0].close()
    for _ in range(3):
        (reply,) = pipelines[1].run([calls[1]])
        assert read_jobs(other, reply) == [second]


def test_a_shard_that_moves_leaves_the_connections_to_the_others(bike, cluster, prefix):
    (one, other), (first, second) = find_pairs(cluster, bike)
    ask_all(bike)
    home = cluster.master_of(one.keys.schedules)
    cluster.move_slot(one.keys.schedules)
    assert cluster.master_of(one.keys.schedules) is not home
    for _ in range(2):
        ask_all(bike)
        for shard, jobid in ((one, first), (other, second)):
            assert read_jobs(shard, shard.scripts.run(shard.timeline.pack_survey(0))) == [jobid]
            assert bike.tell(jobid)["status"]
    # That which has heard of the move has followed.
    assert sum(map(len, list_connections(cluster, prefix))) <= 3 + 2


def test_connections_that_are_not_needed_any_more_are_closed(bike, cluster, prefix, monkeypatch):
    shard = bike.store.shards[0]
    pool = shard.client.connection_pool
    for connection in [pool.get_connection() for _ in range(5)]:
        pool.release(connection)
    assert sum(map(len, list_connections(cluster, prefix))) > 4
    monkeypatch.setattr(pools, "UNUSED", 0.0)
    monkeypatch.setattr(pools, "LOOKS", 0.0)

    def is_over():
        ask_all(bike)
        return sum(map(len, list_connections(cluster, prefix))) <= 3 + 1

    wait_until(is_over)


def test_a_program_that_closes_leaves_none_behind(cluster, prefix):
    with Redbike(RoundRobin("A"), prefix, f"{cluster.url}?client_name={prefix}", shards=SHARDS) as bike:
        ask_all(bike)
        held = bike.store.shards[3].client.connection_pool.get_connection()
    assert sum(map(len, list_connections(cluster, prefix))) == 1
    bike.store.shards[3].client.connection_pool.release(held)
    wait_until(lambda: not any(list_connections(cluster, prefix)))


def test_a_forked_process_uses_none_of_its_parents_connections(bike, cluster, prefix):
    ask_all(bike)
    before = list_connections(cluster, prefix)
    child = os.fork()
    if not child:
        try:
            ask_all(bike)
            own = [now - old for now, old in zip(list_connections(cluster, prefix), before, strict=True)]
            os._exit(0 if sum(map(bool, own)) == 3 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    ask_all(bike)
    wait_until(lambda: list_connections(cluster, prefix) == before)


def test_a_master_that_may_evict_keys_is_warned_of_at_the_start_whichever_it_is(cluster, prefix, caplog):
    for node in cluster.nodes:
        caplog.clear()
        node.client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with Redbike(RoundRobin("A"), prefix, cluster.url, shards=SHARDS) as bike:
                masters = {cluster.master_of(shard.keys.prefix).port for shard in bike.store.shards}
        finally:
            node.client.config_set("maxmemory-policy", "noeviction")
        warned = [record.message.partition(": it may")[0] for record in caplog.records]
        warning = f"127.0.0.1:{node.port}: the server's maxmemory-policy is 'allkeys-lru'"
        assert warned == ([warning] if node.port in masters else [])
