"""What people are told of processes, of which all shards know: the first one that answers tells it."""

import pytest

from redbike import Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.loop.alerts.thread import GATHER, Alerting
from tests.loop.alerts.test_thread import NOON, told
from tests.queries.kept import register
from tests.servers import free_ports
from tests.shards import divide, name_jobs


class World:
    """Two dispatchers of two shards, and a worker. The first shard is away when they are told so."""

    def __init__(self, client, nowhere, prefix, url, every):
        self.up, self.down = (divide(prefix, each, client) for each in (client, nowhere))
        self.settings = Settings(prefix=prefix, alert=url, alert_every=every)
        self.dispatchers = [self.make_dispatcher(), self.make_dispatcher()]
        self.worker = Alerting(self.up.shards[0], self.settings, False)

    def make_dispatcher(self):
        alertings = [Alerting(shard, self.settings, True) for shard in self.up.shards]
        for each in alertings:
            each.peers = alertings
        return alertings

    def look(self, *moments, is_away=False, dispatches=True):
        """All look at these instants since noon, and once more when what is told then is sent."""
        for moment in (NOON + each + more for each in moments for more in (0, GATHER)):
            store = (self.down if is_away else self.up).at(moment)
            if dispatches:
                register(store, "dispatcher", now=moment)
            for alertings in self.dispatchers if dispatches else ():
                for each, shard in zip(alertings, store.shards, strict=True):
                    each._store = each._missed._store = shard
                    assert each._try_to_look() == ""
            self.worker._store = store.shards[0]
            assert self.worker._try_to_look() == ""


@pytest.fixture
def nowhere():
    [port] = free_ports(1)
    with connect(f"redis://127.0.0.1:{port}") as client:
        yield client


@pytest.fixture(params=[1.0, 3600.0])
def world(client, nowhere, prefix, pinged, request):
    return World(client, nowhere, prefix, f"{pinged.url}/alert", request.param)


def test_one_shard_tells_of_a_lost_worker(world, pinged):
    register(world.up, "worker", now=NOON)
    world.look(0, 16, 40, 80, 120)
    assert [bool(each._lost) for each in world.dispatchers[0]] == [True, False], "the others need not ask"
    world.look(580, 620, 1000)
    assert told(pinged) == [[("worker lost", "")]]


def test_while_the_first_one_is_away_the_next_one_tells_of_a_lost_worker_and_it_stays_told(world, pinged):
    register(world.up, "worker", now=NOON)
    world.look(0)
    world.look(10, 20, 40, 60, is_away=True)
    assert told(pinged) == [[("worker lost", "")]]
    world.look(80, 100, 120)
    world.look(150, 170, 190, is_away=True)
    world.look(240, 300, 1000)
    assert told(pinged) == []


def test_the_next_one_tells_that_the_first_one_is_away(world, pinged):
    world.look(0)
    world.look(10, 40, 64, is_away=True)
    assert told(pinged) == []
    world.look(70, 90, 120, is_away=True)
    [(_, body)] = pinged.posted
    name = world.up.shards[0].keys.prefix
    assert f"the shard {name} has not answered for 1 min" in body.decode()
    assert told(pinged) == [[("shard away", "")]]
    for number in (0, 1):
        world.dispatchers[number] = world.make_dispatcher()
        world.look(*(each + 130 + number * 100 for each in (0, 30, 60, 90)), is_away=True)
    assert told(pinged) == [], "those who have just begun do not know that it is back"
    world.look(400, 440, 480)
    assert told(pinged) == [[("recovered", "")]]


def test_what_the_first_one_has_told_stays_told_when_it_is_away(world, pinged):
    register(world.up, "worker", now=NOON)
    world.look(0, 20, 40)
    assert told(pinged) == [[("worker lost", "")]]
    world.look(60, 80, 100, is_away=True)
    world.look(130, 1000)
    assert told(pinged) == []


def test_while_the_first_one_is_away_a_worker_tells_that_there_is_no_dispatcher_and_it_stays_told(world, pinged):
    world.look(0)
    for shard in world.up.shards:
        shard.timeline.advance(NOON)
    world.look(30, 50, 70, 90, 110, is_away=True, dispatches=False)
    assert told(pinged) == [[("no dispatcher", "")]]
    world.look(130, 150, 170, 190, dispatches=False)
    assert told(pinged) == []
    world.look(200, 240, 300)
    assert told(pinged) == [[("recovered", "")]]


def test_a_follower_of_a_shard_that_is_away_holds_up_no_alert_of_others(world, pinged, client, prefix):
    parent, follower, bad = name_jobs(world.up, 0, 1, 1)
    with Redbike(RoundRobin("A"), prefix, client, shards=2) as bike:
        bike.set(parent, "EVERY:1h")
        client.zadd(world.up.shards[0].keys.timeline, {parent: NOON})
        bike.enter(follower, f"AFTER:{parent}", finish_within="10m")
        bike.set(bad, "EVERY:1h")
    world.look(700)
    assert told(pinged) == [[("late", follower)]]
    keys = world.up.shards[1].keys
    client.hset(keys.failures, bad, "{}")
    client.zadd(keys.failure_times, {bad: NOON + 750})
    world.look(800, 840, is_away=True)
    assert told(pinged) == [[("failed", bad)]]
    world.look(900, 940)
    assert told(pinged) == [], "what was told lasts"
