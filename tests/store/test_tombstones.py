"""Nothing is looked for in the list of a queue: what is withdrawn leaves its entry there, as a tombstone."""

import itertools

import pytest

from redbike import Redbike
from redbike.store.inspection.fsck import fsck
from redbike.store.namespace import PAGE, make_tag
from redbike.store.next_state import NextState
from redbike.store.run import Poll
from redbike.store.store import Store
from tests.states import NEW, NOW, OLD, QUEUE, START, dump, take
from tests.verbs import Quiet, dispatch, run_job, set_job, take_many

LOOK = 64  # entries that one take looks at where there are tombstones
BIKE = {"worker": Quiet}


def enqueued(store, number):
    """So many jobs that wait in the queue, oldest first."""
    jobids = [f"{n}:A" for n in range(number)]
    for jobid in jobids:
        set_job(store.at(START), jobid, OLD, START)
    return jobids


def elsewhere(store, name="other"):
    """What puts jobs into another queue."""
    return Store(store.client, store.keys.prefix, lambda jobid: name)


def left(store, queue=QUEUE):
    return {member.decode() for member in store.client.smembers(store.keys.tombstones(queue))}


def waiting(store):
    entries = store.client.lrange(store.keys.queue(QUEUE), 0, -1)
    return [entry.decode() for entry in reversed(entries)]


def drained(store, queues=((QUEUE, 500.0),), now=NOW):
    turns = range(1, len(queues) + 1)
    runs = []
    while found := take_many(store.at(now), queues, turns, make_tag(), 7):
        runs += found
    return [run.jobid for run in runs]


@pytest.mark.parametrize("number", [4, 150])
def test_what_is_withdrawn_is_not_looked_for_and_not_run(store, client, number):
    """However many wait."""
    jobids = enqueued(store, number)
    client.config_resetstat()
    store.jobs.unset("1:A")
    set_job(store.at(NOW), "2:A", NEW, NOW + 100)
    set_job(store.at(NOW), "3:A", "STOP", None)
    assert {"cmdstat_lrem", "cmdstat_lpos"}.isdisjoint(client.info("commandstats"))
    assert left(store) == {"1:A", "2:A", "3:A"}
    assert waiting(store) == jobids
    assert list(fsck(store)) == []
    assert drained(store) == [jobids[0], *jobids[4:]]
    assert left(store) == set()
    assert client.llen(store.keys.queue(QUEUE)) == 0
    assert list(fsck(store)) == []


@pytest.mark.parametrize("number", [1, 3])
def test_a_queue_of_nothing_but_tombstones_keeps_no_worker_from_another_queue(store, client, number):
    jobids = enqueued(store, number)
    for jobid in jobids:
        store.jobs.unset(jobid)
    assert (left(store), waiting(store)) == ({*jobids}, jobids)
    set_job(elsewhere(store).at(START), "job:B", OLD, START)
    runs = take_many(store.at(NOW), [(QUEUE, 500.0), ("other", 500.0)], [1, 2], "tag", 1)
    assert [run.jobid for run in runs] == ["job:B"]
    assert take(store, "empty") == "empty"
    assert client.exists(*store.keys.of_queue(QUEUE)[::2]) == 0
    assert list(fsck(store)) == []


def test_a_job_may_have_entries_in_several_queues_and_tombstones_in_all_but_the_last(store):
    jobids, names = enqueued(store, 70), ["other", "third"]
    for name in names:
        store.jobs.unset("0:A")
        store = elsewhere(store, name)
        set_job(store.at(START), "0:A", OLD, START)
    queues = [QUEUE, *names]
    assert [left(store, name) for name in queues] == [{"0:A"}] * len(names) + [set()]
    assert list(fsck(store)) == []
    assert sorted(drained(store, [(name, 500.0) for name in queues])) == sorted(jobids)
    assert [left(store, name) for name in queues] == [set()] * len(queues)


def test_thousands_that_wait_for_nothing_are_thrown_away_in_bounded_steps(store, client, bike):
    list(bike.set_many((f"{n}:A", "NOW") for n in range(2500)))
    list(bike.set_many((f"{n}:A", "STOP") for n in range(2499)))
    assert client.scard(store.keys.tombstones(QUEUE)) == 2499
    replies, sizes = [], [client.llen(store.keys.queue(QUEUE))]
    call = store.runs.pack_take(Poll([(QUEUE, 500.0)], [1]), "tag", 64)
    while not replies or replies[-1][0] == "again":
        replies.append(store.scripts.run(call))
        sizes.append(client.llen(store.keys.queue(QUEUE)))
        assert client.scard(store.keys.tombstones(QUEUE)) == max(0, sizes[-1] - 1)
    assert {before - after for before, after in itertools.pairwise(sizes[:-1])} == {LOOK}
    assert {reply[0] for reply in replies[:-1]} == {"again"}
    assert [run.jobid for run in store.runs.read_take(replies[-1], "tag")] == ["2499:A"]
    assert client.exists(*store.keys.of_queue(QUEUE)[::2]) == 0
    assert list(bike.fsck()) == []


def test_what_waits_for_nothing_is_thrown_away_many_at_a_time(store, client, bike):
    """Also by a worker that takes one job: or else each would be as much work for the server as a job."""
    list(bike.set_many((f"{n}:A", "NOW") for n in range(900)))
    list(bike.set_many((f"{n}:A", None) for n in range(899)))
    client.config_resetstat()
    assert take(store, now=None).jobid == "899:A"
    assert client.info("commandstats")["cmdstat_hmget"]["calls"] < 50


@pytest.mark.parametrize(
    ("again", "number"),
    [("set", 70), *((again, 3) for again in ("run", "dispatch", "end", "release", "take", "repair"))],
)
def test_no_job_is_lost_when_somebody_has_deleted_the_list_of_a_queue(store, client, bike, number, again):
    """Its tombstones stand for entries that are there no more, whichever way jobs come back into it."""
    set_job(store.at(START), "flying:A", OLD, START)
    run = take(store)
    jobids = enqueued(store, number)
    for jobid in jobids:
        set_job(store.at(NOW), jobid, "STOP", None)
    client.delete(store.keys.queue(QUEUE))
    assert left(store) == {*jobids}
    expected = sorted(jobids)
    if again in ("end", "release"):
        # Now the list is there again, with an entry that has nothing to do with the tombstones.
        come_back = {
            "release": lambda: store.at(NOW).runs.release([run]),
            "end": lambda: store.at(NOW).runs.end(run, NextState("next", NOW)),
        }
        come_back[again]()
        expected = sorted([*jobids, "flying:A"])
    elif again == "take":
        assert take(store, "other") == "empty"
    elif again == "repair":
        assert all(well for _, well in bike.repair())
        assert left(store) == set()
    if again == "dispatch":
        for jobid in jobids:
            set_job(store.at(NOW), jobid, OLD, NOW + 1)
        assert dispatch(store.at(NOW + 1), [(jobid, str(NOW + 1), QUEUE) for jobid in jobids]) == number
    for jobid in jobids if again != "dispatch" else ():
        if again == "run":
            run_job(store.at(NOW), jobid)
        else:
            set_job(store.at(NOW), jobid, "NOW", "now")
    assert left(store) == set()
    assert sorted(waiting(store)) == expected
    assert list(fsck(store)) == []
    assert sorted(drained(store)) == expected


def test_a_job_that_changes_while_it_is_repaired_is_left_as_it_is(store, client, bike):
    """Whether an entry is a tombstone is seen at the same instant as all else."""
    jobids = [f"{n}:A" for n in range(3 * PAGE)]
    list(bike.set_many((jobid, "NOW") for jobid in jobids))
    for jobid in jobids[200:300]:
        bike.unset(jobid)
    client.delete(store.keys.statuses)
    repair = bike.repair()
    next(repair)
    for jobid in jobids[:200]:
        bike.unset(jobid)
    for jobid in jobids[200:300]:
        bike.set(jobid, "NOW")
    done = [line.rpartition("repaired: ")[2] for line, _ in repair]
    assert len(done) > PAGE
    assert set(done) == {"status ENQ"}
    assert list(bike.fsck()) == []
    for jobid in jobids[:200]:
        bike.set(jobid, "NOW")
    assert list(bike.fsck()) == []
    assert sorted(drained(store, now=None)) == sorted(jobids)


@pytest.mark.parametrize("name", ["statuses", "a\nb", "mine"])
def test_tombstones_of_what_cannot_be_a_queue_are_reported_and_left_alone(store, client, bike, name):
    assert bike.set("job:A", "NOW")
    client.set(store.keys.queue("mine"), "no list")
    client.sadd(store.keys.tombstones(name), "job:A")
    [line] = [line for line in bike.fsck() if "tombstones" in line]
    assert line.startswith(f"the key {store.keys.tombstones(name)!r} is not a key of Redbike")
    assert [well for line, well in bike.repair() if "tombstones" in line] == [False]
    assert client.smembers(store.keys.tombstones(name)) == {b"job:A"}
    assert bike.work_one() == "job:A"


def test_another_prefix_that_begins_like_our_tombstones_is_left_alone(store, client, bike):
    other = Redbike(Quiet("A"), prefix=store.keys.tombstones("x"), redis_config=client)
    assert other.set("job:A", "NOW")
    assert other.set("gone:A", "NOW")
    other.unset("gone:A")
    assert bike.set("job:A", "NOW")
    before = dump(other.store)
    assert list(bike.fsck()) == []
    assert list(bike.repair()) == []
    assert dump(other.store) == before
    assert list(other.fsck()) == []
