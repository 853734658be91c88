"""Queues of very many entries, in which nothing is looked for: what is withdrawn leaves its entry behind."""

import pytest

from redbike import Redbike, RoundRobin
from redbike.fsck import fsck
from redbike.store import PAGE, Store
from tests.states import NEW, NOW, OLD, QUEUE, START, queue_for, take


class Quiet(RoundRobin):
    def work(self, jobid):
        pass


LONG = 101  # entries, of which one more is not looked for


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, queue_for)


@pytest.fixture
def jobids(store):
    """The jobs that wait in a long queue, oldest first."""
    jobids = [f"{n}:A" for n in range(LONG)]
    for jobid in jobids:
        store.set(jobid, OLD, START, now=START)
    return jobids


def left(store):
    return {member.decode() for member in store.client.smembers(store.keys.withdrawn)}


def waiting(store):
    entries = store.client.lrange(store.keys.queue(QUEUE), 0, -1)
    return [entry.decode() for entry in reversed(entries)]


def drained(store, queues=((QUEUE, 500.0),), now=NOW):
    turns = range(1, len(queues) + 1)
    runs, number = [], 0
    while found := store.take_many(queues, turns, f"tag{number}", 7, now=now):
        runs += found
        number += 1
    return [run.jobid for run in runs]


def test_what_is_withdrawn_is_not_looked_for_and_not_run(store, jobids, client):
    client.config_resetstat()
    store.unset("50:A")
    store.set("51:A", NEW, NOW + 100, now=NOW)
    store.set("52:A", "STOP", None, now=NOW)
    assert "cmdstat_lrem" not in client.info("commandstats")
    assert left(store) == {f"{n}:A\n{QUEUE}" for n in (50, 51, 52)}
    assert list(fsck(store)) == []
    assert drained(store) == jobids[:50] + jobids[53:]
    assert left(store) == set()
    assert client.llen(store.keys.queue(QUEUE)) == 0
    assert list(fsck(store)) == []


def test_in_a_queue_that_is_not_long_the_entry_goes_with_the_job(store, jobids, client):
    take(store)
    store.unset("50:A")
    assert left(store) == set()
    assert client.llen(store.keys.queue(QUEUE)) == LONG - 2


def test_a_job_that_is_enqueued_again_has_its_place_again(store, jobids):
    for _ in range(3):
        store.unset("50:A")
        store.set("50:A", "NOW", "now", now=NOW)
    store.unset("51:A")
    store.set("51:A", OLD, START + 100, now=START)
    assert store.dispatch([("51:A", "1100", QUEUE)], now=START + 100) == 1
    store.set("52:A", "STOP", None, now=NOW)
    store.requeue("52:A", now=NOW)
    assert left(store) == set()
    assert waiting(store) == jobids
    assert list(fsck(store)) == []
    runs = store.take_many([(QUEUE, 500.0)], [1], "tag", 53, now=NOW)
    assert [(run.jobid, run.due) for run in runs[50:]] == [("50:A", NOW), ("51:A", START + 100), ("52:A", NOW)]
    assert runs[49].due == START


def test_many_that_are_set_anew_at_once_are_not_looked_for(store, client):
    bike = Redbike(RoundRobin("A"), prefix=store.keys.prefix, redis_config=client)
    pairs = [(f"{n}:A", "NOW") for n in range(500)]
    assert all(ok is True for _, ok in bike.set_many(pairs))
    client.config_resetstat()
    later = [(jobid, "AT:4000000000") for jobid, _ in pairs]
    assert all(ok is True for _, ok in bike.set_many(later))
    stats = client.info("commandstats")
    assert stats.get("cmdstat_lrem", {"calls": 0})["calls"] == 0
    assert client.zcard(store.keys.timeline) == 500
    assert list(fsck(store)) == []
    assert drained(store) == []
    assert client.llen(store.keys.queue(QUEUE)) == 0
    assert all(ok is True for _, ok in bike.set_many(pairs))
    assert drained(store) == [jobid for jobid, _ in pairs]


def test_a_job_that_now_waits_in_another_queue_is_run_there(store, jobids, client):
    store.unset("50:A")
    other = Store(client, store.keys.prefix, lambda jobid: "other")
    other.set("50:A", OLD, START, now=START)
    assert list(fsck(other)) == []
    assert left(store) == {f"50:A\n{QUEUE}"}
    assert drained(store) == [jobid for jobid in jobids if jobid != "50:A"]
    assert list(fsck(other)) == []
    assert drained(store, [("other", 500.0)]) == ["50:A"]


def test_both_entries_of_a_job_in_one_take(store, jobids, client):
    store.unset("0:A")
    Store(client, store.keys.prefix, lambda jobid: "other").set("0:A", OLD, START, now=START)
    queues = [(QUEUE, 500.0), ("other", 500.0)]
    assert sorted(drained(store, queues)) == sorted(jobids)
    assert left(store) == set()


def test_an_entry_that_was_left_behind_does_not_keep_the_job_from_running_elsewhere(store, jobids):
    """The record of a job that waits in one queue is not touched by its old entry in another."""
    store.unset("0:A")
    other = Store(store.client, store.keys.prefix, lambda jobid: "other")
    other.set("0:A", OLD, START, now=START)
    assert take(store).jobid == "1:A"
    assert other.inspect(["0:A"], {"0:A": ["other", QUEUE]})[0].entries == {"other": 1, QUEUE: 0}
    assert other.inspect(["0:A"])[0].queued == f"{START:.6f} other"


def test_thousands_that_wait_for_nothing_are_thrown_away_in_bounded_steps(store, client):
    bike = Redbike(RoundRobin("A"), prefix=store.keys.prefix, redis_config=client)
    list(bike.set_many((f"{n}:A", "NOW") for n in range(2500)))
    list(bike.set_many((f"{n}:A", "STOP") for n in range(2499)))
    assert client.scard(store.keys.withdrawn) == 2499
    replies = []
    call = store.take_call([(QUEUE, 500.0)], [1], "tag", 64)
    while not replies or replies[-1][0] == "again":
        replies.append(store.scripts.run(call))
    assert [reply[0] for reply in replies[:-1]] == ["again"] * 2
    assert [run.jobid for run in store.taken(replies[-1], "tag")] == ["2499:A"]
    assert client.scard(store.keys.withdrawn) == 0


def test_what_waits_for_nothing_is_thrown_away_many_at_a_time(store, client):
    """Also by a worker that takes one job: or else each would be as much work for the server as a job."""
    bike = Redbike(RoundRobin("A"), prefix=store.keys.prefix, redis_config=client)
    list(bike.set_many((f"{n}:A", "NOW") for n in range(900)))
    list(bike.set_many((f"{n}:A", None) for n in range(899)))
    client.config_resetstat()
    assert take(store, now=None).jobid == "899:A"
    assert client.info("commandstats")["cmdstat_hmget"]["calls"] < 50


def test_a_job_that_changes_while_it_is_repaired_is_left_as_it_is(store, client):
    """Whether an entry waits for nothing is seen at the same instant as all else."""
    bike = Redbike(RoundRobin("A"), prefix=store.keys.prefix, redis_config=client)
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


def test_a_run_that_is_given_back_is_in_front_of_what_was_left_behind(store, jobids):
    [first] = store.take_many([(QUEUE, 500.0)], [1], "tag", 1, now=NOW)
    store.set("extra:A", OLD, START, now=START)
    store.unset("1:A")
    assert store.release([first], now=NOW) == ["queue"]
    assert [take(store, f"again{n}", now=NOW).jobid for n in range(2)] == ["0:A", "2:A"]


def test_flush_leaves_nothing_of_it(store, jobids, client):
    store.unset("50:A")
    store.flush()
    assert client.keys(f"{store.keys.prefix}-*") == []


DAMAGE = {
    "noted, but not in the queue": (
        lambda client, keys: client.sadd(keys.withdrawn, f"stopped:A\n{QUEUE}"),
        "it is noted to have left an entry behind",
    ),
    "noted while it waits": (
        lambda client, keys: client.sadd(keys.withdrawn, f"60:A\n{QUEUE}"),
        "it is recorded as queued, but is not in the queue",
    ),
    "in the queue once more": (
        lambda client, keys: client.lpush(keys.queue(QUEUE), "50:A"),
        "beside an entry that it has left behind",
    ),
    "not noted": (
        lambda client, keys: client.srem(keys.withdrawn, f"50:A\n{QUEUE}"),
        "without a record",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_repaired(store, jobids, client, kind):
    bike = Redbike(RoundRobin("A"), prefix=store.keys.prefix, redis_config=client)
    store.set("stopped:A", "STOP", None, now=NOW)
    store.unset("50:A")
    damage, problem = DAMAGE[kind]
    damage(client, store.keys)
    found = list(bike.fsck())
    assert len(found) == 1
    assert problem in found[0]
    done = list(bike.repair())
    assert len(done) == 1
    assert done[0][1]
    assert list(bike.fsck()) == []
    assert sorted(drained(store)) == sorted(jobid for jobid in jobids if jobid != "50:A")


@pytest.mark.parametrize("member", ["nothing", "job:A\n", "\nwork-A", "job:A\nschedules", "job:A\nwork-A\nwork-B"])
def test_what_names_no_job_and_queue_is_reported_and_removed(store, client, member):
    bike = Redbike(Quiet("A"), prefix=store.keys.prefix, redis_config=client)
    assert bike.set("job:A", "NOW")
    client.sadd(store.keys.withdrawn, member)
    [line] = bike.fsck()
    assert repr(member) in line
    assert "names no job and queue" in line
    [(line, well)] = bike.repair()
    assert "repaired" in line
    assert well
    assert list(bike.fsck()) == []
    assert bike.work_one() == "job:A"
