"""Whoever moves jobs to another number of shards may die at any request, or be suspended while others do it."""

import contextlib
import os
import signal

import pytest

from redbike import BadConfig, Redbike, RedbikeError, RoundRobin
from redbike.connection.client import aim_at, connect
from redbike.control.moving import Mover
from redbike.store.agreement import Division
from redbike.text.printable import name_number
from tests.control.moved import World, check_places, dump_all, fill
from tests.crashing import AFTER, LOST, TWICE, Crash, Faults, faulty
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("fault", "every"),
    [(AFTER, 41), *(pytest.param(fault, 5, marks=pytest.mark.nightly) for fault in (AFTER, LOST, TWICE))],
)
@pytest.mark.parametrize(("old", "new"), [(1, 2), (3, 1)])
def test_whoever_moves_them_may_die_at_any_request(client, prefix, old, new, fault, every):
    world = World(client, prefix)
    fill(world, old)
    dumped = world.dump()
    faults = Faults()
    world.move(new, faulty(client, faults))
    expected, requests = dump_all(world, new), len(faults.requests)
    for at in range(1, requests + 1, every):
        world.restore(dumped)
        faults = Faults()
        faults.arm(fault, at)
        with contextlib.suppress(Crash, RedbikeError):
            world.move(new, faulty(client, faults))
        where = f"{fault}, at request {at} of {requests}: {faults.requests[-1]}"
        refuse_others(world, old, new, where)
        assert world.move(new).number == new, where
        assert dump_all(world, new) == expected, where
        check_places(world, old, new)


def refuse_others(world, old, new, where):
    """Who opens the prefix finds it as it was, or as it is to be, or hears what to do."""
    heard = []
    for number in (old, new):
        try:
            world.open(number)
        except BadConfig as error:
            heard.append(str(error))
    on_the_move = (
        f"on the move from {name_number(old, 'shard')} to {new}: redbike shards move --to={new} completes the move"
    )
    assert all(on_the_move in line for line in heard) if len(heard) > 1 else len(heard) == 1, where


class Meanwhile(Faults):
    """Does something before the request number `at`, as if this process were suspended there."""

    def __init__(self, at, act):
        super().__init__()
        self.at, self.act = at, act

    def next(self, commands):
        if len(self.requests) == self.at:
            self.act()
        return super().next(commands)


@pytest.mark.parametrize(
    ("numbers", "every"),
    [
        ((3,), 23),
        pytest.param((3, 1, 3), 53, marks=pytest.mark.acceptance),
        *(pytest.param(numbers, 3, marks=pytest.mark.nightly) for numbers in [(3,), (3, 1), (3, 1, 3), (3, 2)]),
    ],
)
def test_whoever_is_suspended_while_others_move_them_changes_nothing(client, prefix, numbers, every):
    world = World(client, prefix)
    bike = world.open(1)
    for number in range(12):
        bike.set(f"job-{number}:A", "NOW" if number % 3 else "EVERY:1h", data=number)
    dumped = world.dump()
    # The first time, the server may not know the scripts: that takes more requests.
    for faults in (Faults(), Faults()):
        world.restore(dumped)
        world.move(3, faulty(client, faults))
    for at in range(1, len(faults.requests), every):
        world.restore(dumped)
        expected = []

        def act(expected=expected):
            for number in numbers:
                world.move(number)
            world.open(numbers[-1]).set("new:A", "EVERY:1h")
            expected += dump_all(world, numbers[-1])

        meanwhile = Meanwhile(at, act)
        with contextlib.suppress(RedbikeError):
            world.move(3, faulty(client, meanwhile))
        where = f"before request {at} of {len(faults.requests)}: {faults.requests[at]}"
        now = Division.parse(client.hget(f"{prefix}-agreed", "shards").decode())
        assert now.to is None, where
        assert dump_all(world, now.number) == expected, where
        assert len(list(world.open(now.number).jobs())) == 13, where
        assert list(world.open(now.number).fsck()) == [], where


class Rollback(Faults):
    """Before the request number `at` since it was decided, the server of the prefix loses the decision.

    So it may if a replica takes over. That happens only while nothing of what is old has gone.
    """

    def __init__(self, client, prefix, at):
        super().__init__()
        self._client, self._prefix, self.left = client, prefix, at

    def next(self, commands):
        text = self._client.hget(f"{self._prefix}-agreed", "shards")
        if self.left and b"=>" in text and len(self._client.keys(f"*{self._prefix}*old-schedules")) == 2:
            self.left -= 1
            if not self.left:
                self._client.hset(f"{self._prefix}-agreed", "shards", text.replace(b"=>", b">"))
        return super().next(commands)


def test_nothing_old_goes_while_the_server_of_the_prefix_does_not_know_that_it_is_decided(client, prefix):
    world = World(client, prefix)
    for number in range(4):
        world.open(2).set(f"job-{number}:A", "EVERY:1h")
    dumped = world.dump()
    for at in range(1, 99, 3):
        world.restore(dumped)
        rollback = Rollback(client, prefix, at)
        with contextlib.suppress(RedbikeError):
            world.move(1, faulty(client, rollback))
        with contextlib.suppress(BadConfig):
            world.move(2)
        world.move(1)
        assert len(list(world.open(1).jobs())) == 4, at
        if rollback.left:
            break
    assert at > 3


@pytest.mark.acceptance
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
