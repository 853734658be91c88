"""Jobs that move to shards on other masters are not deleted before replicas of these have them."""

import os
import signal

import pytest

from redbike import Redbike, RedbikeError, RoundRobin
from redbike.connection.client import aim_at, connect
from redbike.control.moving import Mover
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance


def test_nothing_old_goes_before_a_replica_of_each_master_has_what_is_new(cluster, prefix, monkeypatch):
    monkeypatch.setattr("redbike.control.moving.PATIENCE", 0.1)
    monkeypatch.setattr("redbike.store.moving.shard.REPLICA_TIMEOUT", 0.1)
    with Redbike(RoundRobin("A"), prefix, cluster.url) as bike:
        list(bike.set_many((f"job-{number}:A", "EVERY:1h") for number in range(9)))
    replicas = [node for node in cluster.nodes if node.client.info("replication")["role"] == "slave"]
    with connect(cluster.url) as client:
        own = aim_at(client, prefix)
        wait_until(cluster.is_well)
        for node in replicas:
            os.kill(node.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(RedbikeError, match=r"no replica of the master of .* has all jobs yet"):
                Mover(client, own).move(4)
        finally:
            for node in replicas:
                os.kill(node.process.pid, signal.SIGCONT)
        assert client.hlen(f"{own}-~old-schedules") == 9
        wait_until(cluster.is_well)
        wait_until(lambda: can_move(client, own))
    with Redbike(RoundRobin("A"), prefix, cluster.url, shards=4) as bike:
        assert len(list(bike.jobs())) == 9
        assert list(bike.fsck()) == []


def can_move(client, prefix):
    try:
        return Mover(client, prefix).move(4).number == 4
    except RedbikeError:
        return False  # a replica has not caught up yet
