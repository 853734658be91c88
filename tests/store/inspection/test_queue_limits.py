"""Limits, slots and timers that are damaged are named and repaired."""

import pytest

from redbike.store.inspection.fsck import fsck
from tests.states import QUEUE
from tests.store.inspection.mending import repaired
from tests.verbs import set_job, take_many

LATER = 4e9


def limited(bike):
    """Two jobs in flight from a queue that allows two."""
    bike.store.queue_limits.limit(QUEUE, at_once=2)
    for jobid in ("one:A", "two:A", "three:A"):
        set_job(bike.store, jobid, "NOW", "now", once=True)
    return take_many(bike.store, [(QUEUE, 500.0)], [1], "tag", 9)


def paused(bike):
    bike.store.queue_limits.pause(QUEUE, until=LATER)
    bike.store.queue_limits.pause("", until=LATER)


def nothing(bike):
    pass


DAMAGE = {
    "a slot is gone": (limited, lambda c, k: c.zrem(k.slots, f"{QUEUE}\none:A"), "is in flight, but has no slot"),
    "all slots are gone": (limited, lambda c, k: c.delete(k.slots), "'two:A' is in flight, but has no slot"),
    "a slot is left": (limited, lambda c, k: c.zadd(k.slots, {f"{QUEUE}\nold:A": 0}), "'old:A' has a slot"),
    "a slot of no limit": (nothing, lambda c, k: c.zadd(k.slots, {f"{QUEUE}\nold:A": 0}), "'old:A' has a slot"),
    "the limit is gone": (limited, lambda c, k: c.hdel(k.queue_limits, QUEUE), "has a slot, but needs none"),
    "a slot of nothing": (nothing, lambda c, k: c.zadd(k.slots, {"garbage": 0, "\n": 0}), "names no queue and job"),
    "limits that cannot be read": (nothing, lambda c, k: c.hset(k.queue_limits, QUEUE, "{"), "cannot be read: {"),
    "limits of no queue": (nothing, lambda c, k: c.hset(k.queue_limits, "schedules", "{}"), "which no queue can have"),
    "a timer is gone": (paused, lambda c, k: c.zrem(k.timers, f"queue:{QUEUE}"), "nobody is told"),
    "all timers are gone": (paused, lambda c, k: c.delete(k.timers), "limits of everything: nobody is told"),
    "a timer is too late": (paused, lambda c, k: c.zadd(k.timers, {f"queue:{QUEUE}": LATER + 1}), "nobody is told"),
    "a timer of no limits": (nothing, lambda c, k: c.zadd(k.timers, {f"queue:{QUEUE}": LATER}), "there are no limits"),
    "a timer of nothing": (nothing, lambda c, k: c.zadd(k.timers, {"x": 1, "queue:halt": 2}), "names no limits"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_of_each_kind_is_named_and_repaired(bike, client, kind):
    prepare, damage, message = DAMAGE[kind]
    prepare(bike)
    assert list(fsck(bike.store)) == []
    kept = {limits.queue: limits for limits in bike.store.queue_limits.list_all()}
    damage(client, bike.store.keys)
    found = list(fsck(bike.store))
    assert any(message in line for line in found), found
    assert len(repaired(bike)) == len(found)
    if "limit" not in kind:
        assert {limits.queue: limits for limits in bike.store.queue_limits.list_all()} == kept
        assert client.hlen(bike.store.keys.queue_limits) == len(kept)
    if prepare is paused:
        assert client.zrange(bike.store.keys.timers, 0, -1, withscores=True) == [
            (b"queue:", LATER),
            (f"queue:{QUEUE}".encode(), LATER),
        ]


@pytest.mark.parametrize("member", ["x", "queue:halt", "open:A", "job:"])
def test_a_dispatcher_removes_a_timer_that_names_nothing(bike, client, member):
    client.zadd(bike.store.keys.timers, {member: 1})
    bike.dispatch_due()
    assert client.exists(bike.store.keys.timers) == 0
