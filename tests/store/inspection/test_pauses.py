"""Damage to paused jobs: fsck names it, and the repair leaves them paused, in one place."""

import pytest

from tests.store.inspection.mending import repaired, state_of
from tests.verbs import Once, set_job, take_one

JOB, QUEUE = "job:A", "work-A"
HOURLY = "EVERY:1h@0"
LATER, UNTIL = 4e9, 3e9
BIKE = {"worker": Once}


def held(bike, due=LATER):
    set_job(bike.store, JOB, HOURLY, due)
    bike.pause(JOB, until=UNTIL)


def held_from_queue(bike):
    held(bike, "now")


def in_flight(bike):
    set_job(bike.store, JOB, HOURLY, "now")
    assert take_one(bike.store, [(QUEUE, 100.0)], "tag").jobid == JOB
    bike.pause(JOB, until=UNTIL)


def pull(client, keys, due="-", until=UNTIL):
    client.hset(keys.pauses, JOB, f"{due} 1000.000000 {until:.6f} {{}}")


def queue(client, keys):
    client.lpush(keys.queue(QUEUE), JOB)
    client.hset(keys.queued, JOB, f"5.000000 {QUEUE}")
    client.sadd(keys.queues, QUEUE)


ON_TIMELINE = "it is paused, but on the timeline"
TWO_PLACES = "it is in more than one place: "
DAMAGES = {
    "on the timeline": (held, lambda c, k: c.zadd(k.timeline, {JOB: LATER + 5}), ON_TIMELINE),
    "there, and nothing is held": (held, lambda c, k: (pull(c, k), c.zadd(k.timeline, {JOB: LATER})), ON_TIMELINE),
    "nowhere": (held, pull, "but it is nowhere"),
    "nowhere, and due": (held_from_queue, pull, "but it is nowhere"),
    "without a timer": (held, lambda c, k: c.delete(k.timers), "nothing ends its pause"),
    "with another timer": (held, lambda c, k: c.zadd(k.timers, {f"job:{JOB}": UNTIL + 1}), "at another time, or never"),
    "without a tombstone": (held_from_queue, lambda c, k: c.delete(k.tombstones(QUEUE)), "without a record"),
    "in its queue as well": (held, queue, f"{TWO_PLACES}queue, held"),
    "in flight as well": (in_flight, lambda c, k: pull(c, k, f"{LATER:.6f}"), f"{TWO_PLACES}in flight, held"),
    "with another status": (held, lambda c, k: c.hset(k.statuses, JOB, "STP:5"), "but it is in: held"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_named_and_repaired_and_the_job_stays_paused(bike, client, damage):
    prepare, act, said = DAMAGES[damage]
    prepare(bike)
    assert list(bike.fsck()) == []
    act(client, bike.store.keys)
    assert any(said in line for line in bike.fsck()), list(bike.fsck())
    repaired(bike)
    found = state_of(bike)
    assert (found.pause.until, found.timer) == (UNTIL, UNTIL)
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
    repaired(bike)
    assert client.exists(bike.store.keys.pauses, bike.store.keys.timers) == 0
    assert state_of(bike).timeline or state_of(bike).queued


def test_pauses_of_jobs_that_do_not_exist_are_removed(bike, client):
    keys = bike.store.keys
    pull(client, keys)
    client.zadd(keys.timers, {"job:nobody:A": 5})
    assert len(list(bike.fsck())) == 2
    repaired(bike)
    assert client.exists(keys.pauses, keys.timers) == 0


def test_a_repair_does_not_undo_a_resumption(bike):
    held(bike)
    found = bike.store.questions.inspect([JOB], {JOB: [QUEUE]})[0]
    bike.resume(JOB)
    assert bike.store.upkeep.repair([(found, found)]) == [False]
    assert state_of(bike).timeline == LATER
