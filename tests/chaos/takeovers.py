"""What can go wrong with several servers: masters die or hang, replicas take over, the slot moves.

Each fault is noted with its begin, and with its end: that is when every client can find a master again. One after which
a replica has taken over has also `since` and `until`: what was acknowledged in this time may be forgotten.
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import redis

from tests.chaos.group import PATIENCE, Group
from tests.chaos.world import World
from tests.servers import Cluster, Node, Sentinels
from tests.waiting import wait_until

LOOK = 0.01  # seconds between two questions for the new master
REST = 2.0  # seconds at most until a server that died is started again
GIVEN_UP = 6.0  # seconds after which a replica that was asked to take over has done so, or has given up


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how it strikes, and how many of 2,000 faults are of it."""

    strike: Callable[..., None]
    share: int
    arguments: tuple[Any, ...] = ()


def master_kill(world: World, rng: Random) -> None:
    """Kill the master, and start it again when a replica has taken over."""
    group = world.group
    with group.lock:
        group.choose(rng)
        old, masters, since = group.master, group.list_masters(), group.mark()
        began = time.monotonic()
        old.kill()
        until = time.monotonic()
        wait_until(lambda: group.list_masters() - masters, PATIENCE)
        [new] = group.list_masters() - masters
        group.take_over(new)
        wait_until(lambda: group.is_known(new), PATIENCE)
        times = {"began": began, "ended": time.monotonic(), "since": since, "until": until}
        world.journal.note("fault", name="master-kill", **times)
        world.rest(rng.uniform(0, REST))
        group.start(old)
        group.settle()


def lose_master(group: Group, rng: Random, within: float) -> None:
    """Kill a master within so many seconds, and start it again when a replica has taken over.

    Nobody works meanwhile, so nothing is noted that may be forgotten: all must be there afterwards.
    """
    with group.lock:
        group.choose(rng)
        group.mark()
        old, masters = group.master, group.list_masters()
        time.sleep(within * rng.random())
        old.kill()
        wait_until(lambda: group.list_masters() - masters, PATIENCE)
        [new] = group.list_masters() - masters
        wait_until(lambda: group.is_known(new), PATIENCE)
        group.start(old)
        group.settle()


def master_pause(world: World, rng: Random) -> None:
    """Suspend the master, for 0.1 to 10 s; maybe a replica takes over, and the old master does not know at first."""
    group = world.group
    with group.lock:
        group.choose(rng)
        old, masters, since = group.master, group.list_masters(), group.mark()
        began = time.monotonic()
        old.process.send_signal(signal.SIGSTOP)
        pause = rng.choice((rng.uniform(0.1, 2), rng.uniform(2, 10)))
        watch = Watch(group, masters, old)
        while time.monotonic() < began + pause:
            watch.look(is_suspended=True)
        old.process.send_signal(signal.SIGCONT)
        resumed = time.monotonic()
        # A takeover may still be under way.
        while not group.is_settled() or (watch.new and not (watch.known and watch.demoted)):
            watch.look()
        more = {"since": since, "until": watch.demoted} if watch.new else {}
        ended = max(resumed, watch.known or resumed)
        world.journal.note("fault", name="master-pause", began=began, ended=ended, **more)
        group.settle()


def switchover(world: World, rng: Random) -> None:
    """Ask a replica to take over in order, while the master is well: nothing is forgotten then."""
    group = world.group
    with group.lock:
        group.choose(rng)
        old, masters = group.master, group.list_masters()
        with world.journal.noted("fault", name="switchover"):
            wait_until(lambda: _is_replaced(group, rng, old, masters), PATIENCE)
            group.settle()


def _is_replaced(group: Group, rng: Random, old: Node, masters: set[Node]) -> bool:
    """Ask for it, unless it has happened; whether it has in time: a busy replica gives up after 5 s, untold."""
    if group.list_masters() == masters and not _is_asked(group, rng):
        return False
    given_up = time.monotonic() + GIVEN_UP
    others = [node for node in group.servers.nodes if node is not old]
    while not any(group.is_known(node) for node in others):
        if time.monotonic() > given_up:
            return False
        time.sleep(LOOK)
    return True


def _is_asked(group: Group, rng: Random) -> bool:
    """Whether the servers have agreed to it: a Sentinel does not while it knows no replica that is good enough."""
    try:
        if isinstance(group.servers, Cluster):
            group.client_of(rng.choice(group.replicas())).execute_command("CLUSTER", "FAILOVER")
        else:
            sentinel = rng.choice(group.servers.sentinels)
            sentinel.client.execute_command("SENTINEL", "FAILOVER", "service", "COORDINATED")
    except redis.ResponseError as error:
        if str(error).startswith(("NOGOODSLAVE", "INPROG")):
            return False
        raise
    return True


class Watch:
    """Looks for a master that is none of `masters` and replaces `old`, and notes at once what it has."""

    def __init__(self, group: Group, masters: set[Node], old: Node) -> None:
        self.group = group
        self.masters = masters
        self.old = old
        self.new: Node | None = None
        self.known: float | None = None  # when all clients could find the new one
        self.demoted: float | None = None  # when the old one had become a replica

    def look(self, is_suspended: bool = False) -> None:
        """Look once; the old master is not asked while it is suspended."""
        found = self.group.list_masters(without=self.old if is_suspended else None)
        if self.new is None and (others := found - self.masters):
            [self.new] = others
            self.group.take_over(self.new)
        elif self.new and not self.known and self.group.is_known(self.new, self.old if is_suspended else None):
            self.known = time.monotonic()
        if self.new and not is_suspended and not self.demoted and self.old not in found:
            self.demoted = time.monotonic()
        time.sleep(LOOK)


def replica_kill(world: World, rng: Random) -> None:
    """Kill a replica of the master, and start it again."""
    _restart(world, rng, "replica-kill", world.group.replicas, world.group.start)


def sentinel_kill(world: World, rng: Random) -> None:
    """Kill a Sentinel, and start it again."""
    servers = world.group.servers
    assert isinstance(servers, Sentinels)
    _restart(world, rng, "sentinel-kill", lambda: servers.sentinels, Node.start)


def _restart(
    world: World, rng: Random, name: str, candidates: Callable[[], list[Node]], start: Callable[[Node], None]
) -> None:
    group = world.group
    with group.lock:
        group.choose(rng)
        victim = rng.choice(candidates())
        with world.journal.noted("fault", name=name):
            victim.kill()
            world.rest(rng.uniform(0, REST))
            start(victim)
        group.settle()


def slot_move(world: World, rng: Random) -> None:
    """Move the slot of the prefix to another master, key by key."""
    group = world.group
    assert isinstance(group.servers, Cluster)
    with group.lock:
        group.choose(rng)
        with world.journal.noted("fault", name="slot-move"):
            group.servers.move_slot(group.prefix)
            group.settle()
            # As whoever moves a slot must: until then, its keys are at one server alone.
            group.mark()


SHARE = 35  # of each kind: they strike one at a time, and each takes some seconds
KINDS = {
    name: Kind(strike, SHARE)
    for name, strike in {
        "master-kill": master_kill,
        "master-pause": master_pause,
        "switchover": switchover,
        "replica-kill": replica_kill,
    }.items()
}
SENTINEL = KINDS | {"sentinel-kill": Kind(sentinel_kill, SHARE)}
CLUSTER = KINDS | {"slot-move": Kind(slot_move, SHARE)}
