"""Limits of a queue over all shards: never exceeded, whoever divides, dies or is away; no place stays unused."""

import itertools
import json
import random
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from redbike import Redbike, RoundRobin, Unreachable
from redbike.errors import ServerError
from redbike.store.next_state import NextState
from redbike.store.quotas import Held, Whole
from redbike.store.sharded.dividing import divide, find_pause, is_wanting
from redbike.store.sharded.quotas import divide_anew, divide_missed, limit_queue
from tests.loops import raising
from tests.verbs import take_many

NUMBER = 4
QUEUE = "work-A"
JOBS = [f"job-{number}:A" for number in range(24)]


class Death(BaseException):
    """The process that divides is killed."""


class Watched:
    """A part of a shard, with something done before each of its requests."""

    def __init__(self, shard, part, before):
        self._shard, self._part, self._before = shard, part, before

    def __getattr__(self, name):
        def call(*given, **named):
            self._before(self._shard)
            return getattr(self._part, name)(*given, **named)

        return call


class Shard:
    """A shard whose divisions are watched."""

    def __init__(self, store, before):
        self._store, self._before = store, before
        self.quotas = Watched(store, store.quotas, before)
        self.queue_limits = Watched(store, store.queue_limits, before)

    def noted_as(self, who):
        return Shard(self._store.noted_as(who), self._before)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """What is done before each request is done in the same order each time, and a division takes no time."""

    def ask_one_by_one(numbers, ask):
        return {number: ask(number) for number in numbers}

    monkeypatch.setattr("redbike.store.sharded.quotas.ask_all", ask_one_by_one)
    # The next division is put off by ten times as long as one took.
    standing = SimpleNamespace(monotonic=lambda: 0.0, sleep=time.sleep)
    monkeypatch.setattr("redbike.store.sharded.quotas.time", standing)


class World:
    """Four shards of one program; jobs are set, taken and ended, and divisions are cut short and interleaved."""

    def __init__(self, client, prefix, chance):
        self.chance, self.now = chance, 1_900_000_000.0
        self.bike = Redbike(RoundRobin("A"), prefix, client, shards=NUMBER)
        stores = [store.follow(lambda: self.now) for store in (self.bike.store, self.bike._noted)]
        self.bike._compose(*stores, self.bike.worker)
        self.shards = self.bike.store.shards
        self.flying, self.away, self.depth, self.number = [], set(), 0, itertools.count()
        self.bounds = [10**9]  # the limit, and those that it may be as well while it is changed

    def watch(self, before):
        """The shards, with something done before each of the requests of one who divides."""
        return type(self.shards)([Shard(each, before) for each in self.shards], self.shards.find, self.shards.note)

    def fill(self):
        """Set all jobs; return those of each shard."""
        for jobid in JOBS:
            self.bike.set(jobid, "EVERY:1d")
        return [[jobid for jobid in JOBS if self.bike.store.number_shard(jobid) == number] for number in range(NUMBER)]

    def before(self, shard):
        """Something happens before a request of one who divides."""
        if shard in [self.shards[number] for number in self.away]:
            raise Unreachable("it is away")
        draw = self.chance.random()
        if draw < 0.03:
            raise Death
        if draw < 0.1 and self.depth < 3:
            self.divide()
        elif draw < 0.5:
            self.step(self.chance.choice([self.take, self.end, self.enqueue]))

    def divide(self):
        self.depth += 1
        with suppress(Death):
            divide_anew(self.watch(self.before), QUEUE)
        self.depth -= 1

    def limit(self):
        most = self.chance.choice([1, 2, 3, 6, 13, False])
        self.bounds.append(most or 10**9)
        self.depth += 1
        try:
            limit_queue(self.watch(self.before), None, (QUEUE,), {"at_once": most})
        except (Death, Unreachable):
            pass
        else:
            self.bounds = [most or 10**9]
        self.depth -= 1

    def enqueue(self):
        jobid = self.chance.choice(JOBS)
        is_flying = jobid in [run.jobid for run in self.flying]
        if not is_flying and self.bike.store.number_shard(jobid) not in self.away:
            self.bike.set(jobid, "EVERY:1d")
            list(self.bike.run(jobid))

    def take(self):
        number = self.chance.randrange(NUMBER)
        if number not in self.away:
            self.take_from(number, self.chance.randrange(1, 4))

    def take_from(self, number, most=64):
        """Take jobs of one shard: no more may be in flight then than the limit allows."""
        runs = take_many(self.shards[number], [(QUEUE, 9999.0)], [1], f"run{next(self.number):013}", most)
        self.flying += runs
        assert not runs or len(self.flying) <= max(self.bounds)
        return runs

    def end(self):
        if self.flying:
            run = self.flying.pop(self.chance.randrange(len(self.flying)))
            if self.bike.store.number_shard(run.jobid) in self.away:
                self.flying.append(run)
            else:
                assert self.bike.store.runs.end(run, NextState("next", self.now + 86400)).word == "ok"

    def pass_time(self):
        self.now += self.chance.choice([0.001, 0.06, 0.5])
        for number, shard in enumerate(self.shards):
            if number not in self.away:
                self.dispatch(shard)

    def dispatch(self, shard):
        """What a dispatcher does whose timer has come."""
        due = shard.client.zrangebyscore(shard.keys.timers, "-inf", self.now)
        if f"quota:{QUEUE}".encode() in due:
            shard.quotas.postpone(QUEUE)
            self.divide()

    def leave(self):
        self.away = {self.chance.randrange(NUMBER)} if self.chance.random() < 0.3 else set()

    def step(self, act=None):
        acts = [self.take] * 5 + [self.end] * 5 + [self.enqueue] * 5 + [self.pass_time] * 3
        act = act or self.chance.choice([*acts, self.limit, self.leave])
        act()

    def settle(self):
        """Nothing fails any more: all that waits runs, as many at once as the limit allows."""
        self.away, self.before = set(), lambda shard: None
        for _ in range(40):
            self.enqueue()
        for _ in range(400):
            if not self.count_waiting():
                break
            for number in range(NUMBER):
                self.take_from(number)
            self.now += 0.3
            for shard in self.shards:
                self.dispatch(shard)
            if self.chance.random() < 0.5:
                self.end()
        assert self.count_waiting() == 0

    def count_waiting(self):
        return sum(queue.waiting for queue in self.bike.queues())


@pytest.fixture
def world(client, prefix):
    return World(client, prefix, random.Random(1))


def at_request(number, act):
    """What does `act` before the request of that number; its `asked` counts them."""
    asked = itertools.count()

    def before(shard):
        if next(asked) == number:
            act()

    before.asked = asked
    return before


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.acceptance) for seed in range(2, 10))])
def test_no_more_run_than_the_limit_whoever_divides_dies_or_is_away(client, prefix, seed):
    world = World(client, prefix, random.Random(seed))
    for _ in range(200):
        world.step()
    world.settle()
    assert list(world.bike.fsck()) == []


def test_what_a_shard_was_given_by_one_who_died_is_not_given_again_while_it_is_away(world):
    world.before, world.bounds = lambda shard: None, [6]
    world.bike.limit("A", at_once=6)
    own = world.fill()
    list(world.bike.run(*own[0][:6]))
    world.before = at_request(3 * NUMBER + 1, raising(Death()))
    world.divide()
    assert next(world.before.asked) > 3 * NUMBER + 1
    assert len(world.take_from(0)) == min(6, len(own[0])) > 3
    list(world.bike.run(*own[1][:6]))
    world.away, world.before = {0}, World.before.__get__(world)
    world.chance.random = lambda: 0.9
    world.divide()
    assert world.take_from(1) == []


@pytest.mark.parametrize("begins", [0, 5, 8, 13])
@pytest.mark.parametrize("most", [1, False])
def test_a_division_does_not_undo_what_was_changed_since_it_began(world, most, begins):
    world.bike.set(JOBS[0], "EVERY:1d")
    for stops in range(4 * NUMBER):
        world.bike.limit("A", at_once=3)
        has_stopped, goes_on = threading.Event(), threading.Event()

        def stop(has_stopped=has_stopped, goes_on=goes_on):
            has_stopped.set()
            assert goes_on.wait(60)

        def divide(shards, has_stopped=has_stopped):
            divide_anew(shards, QUEUE)
            has_stopped.set()

        divider = threading.Thread(target=divide, args=[world.watch(at_request(stops, stop))])

        def begin(divider=divider, has_stopped=has_stopped):
            divider.start()
            assert has_stopped.wait(60)

        limit_queue(world.watch(at_request(begins, begin)), None, (QUEUE,), {"at_once": most})
        goes_on.set()
        if divider.ident is not None:
            divider.join()
        list(world.bike.run(JOBS[0]))
        world.now += 3  # a division that was cut short is done again then
        world.bike.dispatch_due()
        assert [limit.at_once for limit in world.bike.queue_limits()] == ([most] if most else [])
        assert world.bike.work_one() == JOBS[0]


def test_who_changes_another_limit_at_the_same_time_undoes_none(world):
    for stops in range(4 * NUMBER):
        world.bike.limit("A", at_once=3, rate="9/m")
        change = at_request(stops, lambda: world.bike.limit("A", rate="5/m"))
        limit_queue(world.watch(change), None, (QUEUE,), {"at_once": 2})
        assert [(limit.at_once, limit.rate) for limit in world.bike.queue_limits()] == [(2, "5/m")]


def test_limits_of_an_operator_stay_when_those_of_a_worker_class_are_taken_back_just_then(world):
    for stops in range(5 * NUMBER):
        world.bike.limit("A", at_once=None)
        assert world.bike.store.queue_limits.limit(QUEUE, 2, False, by_code=True)
        change = at_request(stops, lambda: world.bike.limit("A", at_once=5))
        limit_queue(world.watch(change), None, (QUEUE, False, False), {"by_code": True})
        if next(change.asked) > stops:
            assert [limit.at_once for limit in world.bike.queue_limits()] == [5], stops
            assert not any(shard.quotas.read(QUEUE).moving for shard in world.shards)


def test_a_shard_that_is_away_keeps_the_places_of_its_runs(world):
    world.before = lambda shard: None
    world.bike.limit("A", at_once=4)
    own = world.fill()

    def take(*wanted):
        for number, most in wanted:
            list(world.bike.run(*own[number][:most]))
        world.divide()
        return [world.take_from(number) for number, _ in wanted]

    flying = [*take((0, 3)), *take((1, 1)), *take((2, 3))]
    assert list(map(len, flying)) == [3, 1, 0]
    # The first shard is to give a place to the third one when a run ends; it is away before.
    world.away, world.before = {0}, World.before.__get__(world)
    world.chance.random = lambda: 0.9
    assert world.shards[1].runs.end(flying[1][0], NextState("next", world.now + 86400)).word == "ok"
    assert sum(map(len, take((1, 3), (2, 3)))) == 1


def test_two_who_divide_while_a_shard_is_away_do_not_stop_the_others(world):
    world.bike.limit("A", at_once=4)
    world.away, world.chance.random, fail = {3}, lambda: 0.9, world.before
    for stops in range(4 * NUMBER):
        divide_too = at_request(stops, lambda: divide_anew(world.watch(fail), QUEUE))
        world.before = lambda shard, divide_too=divide_too: (fail(shard), divide_too(shard))
        world.divide()
        assert not any(shard.quotas.read(QUEUE).moving for shard in world.shards), stops
        world.now += 3


def test_a_shard_that_goes_away_while_another_one_is_does_not_stop_the_rest(world):
    world.bike.limit("A", at_once=4)
    world.chance.random, fail = lambda: 0.9, world.before
    for stops in range(NUMBER + 2 * (NUMBER - 1)):
        world.away, world.before = set(), fail
        world.divide()
        world.away = {3}
        leave = at_request(stops, lambda: world.away.add(2))
        world.before = lambda shard, leave=leave: (leave(shard), fail(shard))
        with suppress(Unreachable):
            world.divide()
        assert not any(shard.quotas.read(QUEUE).moving for shard in list(world.shards)[:2]), stops


def test_a_shard_that_refuses_leaves_none_of_the_others_held(world):
    """As where a right is missing on one master."""
    world.bike.limit("A", at_once=4)
    world.before = lambda shard: None
    for stops in range(3 * NUMBER):
        refuse = at_request(stops, raising(ServerError("no permissions")))
        with pytest.raises(ServerError, match="no permissions"):
            divide_anew(world.watch(refuse), QUEUE)
        assert not any(shard.quotas.read(QUEUE).moving for shard in world.shards), stops


def test_one_place_goes_to_each_shard_in_turn(world):
    world.bike.limit("A", at_once=1)
    for jobid in JOBS:
        world.bike.set(jobid, "EVERY:1d")
        list(world.bike.run(jobid))
        world.now += 10
        world.bike.dispatch_due()
        assert world.bike.work_one() == jobid


def test_a_damaged_record_counts_as_none_and_is_written_anew(world, client):
    world.before = lambda shard: None
    world.bike.limit("A", at_once=3)
    for text in ("no JSON", '{"of":7}', '{"epoch":"x","of":{"at_once":"y"},"parts":9,"at_once":"z"}'):
        client.hset(world.shards[1].keys.queue_limits, QUEUE, text)
        world.divide()
        parts = [json.loads(client.hget(shard.keys.queue_limits, QUEUE))["at_once"] for shard in world.shards]
        assert sum(parts) == 3


@pytest.mark.parametrize(
    "again",
    [
        lambda world: world.bike.limit("A", at_once=3),
        lambda world: world.bike.store.queue_limits.limit(QUEUE, 3, False, by_code=True),
        lambda world: divide_missed(world.shards, [world.shards[1].keys.prefix]),
    ],
    ids=["an operator", "a worker class", "a dispatcher"],
)
@pytest.mark.parametrize("lost", ["all", "another limit", "a division"])
def test_a_shard_that_has_lost_data_gets_its_part_again(world, client, again, lost):
    world.before, key = lambda shard: None, world.shards[1].keys.queue_limits
    if lost == "another limit":
        world.bike.limit("A", at_once=9)
    elif lost == "a division":
        world.bike.limit("A", at_once=3)
    kept = client.hget(key, QUEUE)
    world.bike.limit("A", at_once=3)
    own = world.fill()
    list(world.bike.run(*own[0]))
    world.divide()
    if kept is None:
        client.hdel(key, QUEUE)
    else:
        client.hset(key, QUEUE, kept)
    list(world.bike.run(*own[1]))
    assert world.take_from(1, 1), "its part was another one"
    again(world)
    list(world.bike.run(*own[2], *own[3]))
    world.now += 3
    for shard in world.shards:
        world.dispatch(shard)
    world.bounds = [3]
    for number in (0, 2, 3, 1):
        world.take_from(number)
    assert len(world.flying) == 3
    epochs = {shard.quotas.read(QUEUE).epoch for shard in world.shards}
    assert len(epochs) == 1


def test_what_all_shards_know_is_not_divided_anew(world):
    world.bike.limit("A", at_once=3)
    world.bike.pause_queue("B")
    before = [shard.quotas.read_all() for shard in world.shards]
    divide_missed(world.shards, [])
    world.now += 3
    for shard in world.shards:
        world.dispatch(shard)
    assert [shard.quotas.read_all() for shard in world.shards] == before


def test_a_clock_that_was_set_back_does_not_put_a_division_off(world, client):
    world.bike.limit("A", at_once=1)
    world.now -= 3600
    for jobid in JOBS[:9]:
        world.bike.set(jobid, "EVERY:1d")
        list(world.bike.run(jobid))
    due = [client.zscore(shard.keys.timers, f"quota:{QUEUE}") for shard in world.shards]
    assert world.now in due


def test_a_rate_holds_over_all_shards_and_is_used_up(world):
    world.bike.limit("A", rate="3/s")
    taken, began = 0, world.now
    world.fill()
    list(world.bike.run(*JOBS))
    while taken < len(JOBS):
        for number in range(NUMBER):
            taken += len(world.take_from(number))
            # Redis' clock has microseconds.
            assert taken <= 3 + 3 * (world.now - began) + 1e-5
        world.now += 0.1
        world.bike.dispatch_due(world.now)
    assert world.now - began <= 2 * len(JOBS) / 3


def test_a_limit_is_shown_whole_noted_once_and_taken_back(client, prefix):
    with Redbike(RoundRobin("A"), prefix, client, shards=NUMBER, noted_as="ada@here") as bike:
        assert str(bike.limit("A", at_once=3, rate="5/m")) == str(bike.queue_limits()[0])
        assert (bike.queues()[0].at_once, bike.limit("A").rate) == (3, "5/m")
        assert bike.limit("A", at_once=7).rate == "5/m"
        assert [(entry.action, entry.detail) for entry in bike.log()] == [
            ("limit", "queue work-A: at once 7"),
            ("limit", "queue work-A: at once 3, rate 5/m"),
        ]
        bike.limit("A", at_once=None, rate=None)
        assert bike.queue_limits() == []
        assert next(iter(bike.log())).detail == "queue work-A: at once none, rate none"
        assert [shard.quotas.read(QUEUE).epoch for shard in bike.store.shards] == [0] * NUMBER


def test_limits_of_a_worker_class_are_divided_too_unless_an_operator_has_set_others(client, prefix):
    with Redbike(RoundRobin("A"), prefix, client, shards=NUMBER) as bike:
        limiter = bike.store.queue_limits
        assert limiter.limit(QUEUE, 2, False, by_code=True)
        assert not limiter.limit(QUEUE, 2, False, by_code=True)
        assert bike.limit("A", at_once=3).at_once == 3
        assert not limiter.limit(QUEUE, 2, False, by_code=True)
        assert bike.limit("A").at_once == 3


# ---- how they are divided

HELD = some.builds(
    Held,
    epoch=some.just(1),
    moving=some.just(True),
    whole=some.just(Whole()),
    parts=some.just(""),
    count=some.integers(0, 9),
    flying=some.integers(0, 9),
    waiting=some.integers(0, 9),
    first=some.integers(0, 5).map(float),
    tokens=some.floats(0, 9),
)


@given(
    held=some.dictionaries(some.integers(0, 5), HELD, min_size=1),
    most=some.integers(1, 30),
    before=some.lists(some.integers(0, 4), min_size=6, max_size=6),
)
def test_places_are_never_more_than_the_limit_and_none_stays_free_where_a_job_waits(held, most, before):
    quotas = divide(Whole(most), held, {"at_once": before})
    elsewhere = sum(part for shard, part in enumerate(before) if shard not in held)
    flying = sum(each.flying for each in held.values())
    taken = sum(max(quotas[shard].at_once, each.flying) for shard, each in held.items())
    assert all(each.at_once >= 0 for each in quotas.values())
    assert taken + elsewhere <= max(most, flying + elsewhere)
    used = sum(min(each.waiting, max(0, quotas[shard].at_once - each.flying)) for shard, each in held.items())
    waiting = sum(each.waiting for each in held.values())
    assert used == max(0, min(most - flying - elsewhere, waiting))
    assert is_wanting(quotas, held) == (used < waiting)
    assert find_pause(Whole(most), quotas, held) is None


@given(
    parts=some.lists(some.tuples(HELD, some.integers(0, 9)), min_size=6, max_size=6),
    away=some.sets(some.integers(0, 5), max_size=5),
)
def test_a_rate_is_divided_with_all_its_tokens(parts, away):
    before = [count for _, count in parts]
    most = max(1, sum(before))
    held = {
        shard: Held(1, True, Whole(), "", count, 0, each.waiting, each.first, min(each.tokens, count))
        for shard, (each, count) in enumerate(parts)
        if shard not in away
    }
    quotas = divide(Whole(rate=(most, 60.0)), held, {"count": before})
    assert sum(each.count for each in quotas.values()) == most - sum(before[shard] for shard in away)
    assert all(0 <= each.tokens <= each.count for each in quotas.values())
    lacks = sum(each.count - each.tokens for each in held.values())
    assert sum(each.count - each.tokens for each in quotas.values()) == pytest.approx(lacks)
