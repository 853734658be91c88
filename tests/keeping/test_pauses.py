"""Damage to paused jobs: fsck names it, and the repair leaves them paused, in one place."""

import pytest

from redbike import Redbike
from tests.verbs import Once, set_job, take_one

JOB, QUEUE = "job:A", "work-A"
HOURLY = "EVERY:1h@0"
LATER, UNTIL = 4e9, 3e9


@pytest.fixture
def bike(server_url, client, prefix):
    return Redbike(Once("A"), prefix, server_url)


def state_of(bike):
    return bike.store.questions.inspect([JOB])[0]


def held(bike):
    set_job(bike.store, JOB, HOURLY, LATER)
    bike.pause(JOB, until=UNTIL)


def held_from_queue(bike):
    set_job(bike.store, JOB, HOURLY, "now")
    bike.pause(JOB, until=UNTIL)


def in_flight(bike):
    set_job(bike.store, JOB, HOURLY, "now")
    assert take_one(bike.store, [(QUEUE, 100.0)], "tag").jobid == JOB
    bike.pause(JOB, until=UNTIL)


def pull(client, keys, due="-", until=UNTIL):
    client.hset(keys.pauses, JOB, f"{due} 1000.000000 {until:.6f} {{}}")


DAMAGES = {
    "on the timeline": (held, lambda c, k: c.zadd(k.timeline, {JOB: LATER + 5}), "it is paused, but on the timeline"),
    "on the timeline, and nothing is held": (
        held,
        lambda c, k: (pull(c, k), c.zadd(k.timeline, {JOB: LATER})),
        "it is paused, but on the timeline",
    ),
    "nowhere": (held, pull, "but it is nowhere"),
    "nowhere, and due": (held_from_queue, pull, "but it is nowhere"),
    "without an alarm": (held, lambda c, k: c.delete(k.alarms), "nothing ends its pause"),
    "with an alarm at another time": (
        held,
        lambda c, k: c.zadd(k.alarms, {f"job:{JOB}": UNTIL + 1}),
        "its pause ends by itself at another time, or never",
    ),
    "with its entry, and without a tombstone": (
        held_from_queue,
        lambda c, k: c.delete(k.tombstones(QUEUE)),
        "without a record",
    ),
    "in its queue as well": (
        held,
        lambda c, k: (
            c.lpush(k.queue(QUEUE), JOB),
            c.hset(k.queued, JOB, f"5.000000 {QUEUE}"),
            c.sadd(k.queues, QUEUE),
        ),
        "it is in more than one place: queue, held",
    ),
    "in flight as well": (
        in_flight,
        lambda c, k: pull(c, k, f"{LATER:.6f}"),
        "it is in more than one place: in flight, held",
    ),
    "with another status": (held, lambda c, k: c.hset(k.statuses, JOB, "STP:5"), "but it is in: held"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_named_and_repaired_and_the_job_stays_paused(bike, client, damage):
    prepare, act, said = DAMAGES[damage]
    prepare(bike)
    assert list(bike.fsck()) == []
    act(client, bike.store.keys)
    assert any(said in line for line in bike.fsck()), list(bike.fsck())
    lines = list(bike.repair())
    assert lines
    assert all(well for _, well in lines), lines
    assert list(bike.fsck()) == []
    assert list(bike.repair()) == [], "the second time there is nothing to do"
    found = state_of(bike)
    assert (found.pause.until, found.alarm) == (UNTIL, UNTIL)
    assert found.timeline is None
    # What is in flight, or has a whole record in a queue, may have been asked for.
    assert (found.held is None) == ("as well" in damage)
    assert bool(found.running or found.queued) == ("as well" in damage)


@pytest.mark.parametrize("prepare", [held, held_from_queue])
@pytest.mark.parametrize("record", [None, "", "garbage"])
def test_a_job_whose_pause_is_lost_goes_on(bike, client, prepare, record):
    prepare(bike)
    if record is None:
        client.hdel(bike.store.keys.pauses, JOB)
    else:
        client.hset(bike.store.keys.pauses, JOB, record)
    assert list(bike.fsck())
    assert all(well for _, well in bike.repair())
    assert list(bike.fsck()) == []
    assert client.exists(bike.store.keys.pauses, bike.store.keys.alarms) == 0
    assert state_of(bike).timeline or state_of(bike).queued


def test_pauses_of_jobs_that_do_not_exist_are_removed(bike, client):
    keys = bike.store.keys
    pull(client, keys)
    client.zadd(keys.alarms, {"job:nobody:A": 5})
    assert len(list(bike.fsck())) == 2
    assert all(well for _, well in bike.repair())
    assert client.exists(keys.pauses, keys.alarms) == 0
    assert list(bike.fsck()) == []


def test_a_repair_does_not_undo_a_resumption(bike):
    held(bike)
    found = bike.store.questions.inspect([JOB], {JOB: [QUEUE]})[0]
    bike.resume(JOB)
    assert bike.store.upkeep.repair([(found, found)]) == [False]
    assert state_of(bike).timeline == LATER
