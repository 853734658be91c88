"""What is kept of runs that are taken together: their list, their lease, their expiring key, and what mends these."""

import pytest

from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lease import LEASE
from redbike.store.next_state import NextState
from redbike.store.store import Store
from tests.verbs import survey, take_many

START = 1000.0
SCHEDULE = "EVERY:1000@0.0"
DONE = NextState("next", START + 5000)
SHORT, LONG = 5.0, 500.0  # timeouts of the queues
QUEUES = [("short", SHORT), ("long", LONG)]
BOTH = ["job:short", "job:long"]


def queue_for(jobid):
    return jobid.partition(":")[2] or "long"


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, queue_for)


def enter(store, jobids, now=START):
    store.at(now).jobs.set([JobToSet(jobid, SCHEDULE, now or 0.0, False, queue_for(jobid)) for jobid in jobids])


def take(store, jobids, tag="tag", now=START, repeated=False):
    """Set the jobs, and take them together; their runs, by job id."""
    enter(store, jobids, now)
    runs = take_many(store.at(now), QUEUES, [1, 2], tag, len(jobids), repeated=repeated)
    return {run.jobid: run for run in runs}


def held(store, tag="tag", jobids=()):
    return store.questions.inspect_tags({tag: jobids})[0]


# Their list

ALIKE = ["ab", "b", "a-b", "aab", "ba", "bab", "a", "a.b", "abab"]


@pytest.mark.parametrize(
    "gone", [*([jobid] for jobid in ALIKE), ["b", "ba", "a"], ["a", "ab"], ["aab", "ba"], ["abab", "a.b"]]
)
def test_an_id_that_is_a_part_of_others_is_taken_out_alone(store, gone):
    runs = take(store, ALIKE)
    store.runs.read_end(store.scripts.run(store.at(START).runs.pack_end([(runs[jobid], DONE) for jobid in gone])))
    assert held(store).listed == [jobid for jobid in ALIKE if jobid not in gone]
    assert (held(store).lease, held(store).kind) == (START + LEASE, "string")


def test_a_tag_is_served_no_run_that_is_another_ones_by_now(store):
    runs = take(store, BOTH)
    take(store, ["other:long"], "other")
    store.client.hset(store.keys.batches, "tag", "\njob:long\nother:long\njob:short\n")
    again = take_many(store.at(START), QUEUES, [1, 2], "tag", 3, repeated=True)
    assert {run.jobid: run for run in again} == runs


def test_a_tag_that_begins_like_another_does_not_end_its_runs(store):
    take(store, ["one:long"], "tag")
    runs = take(store, ["two:long"], "tag2")
    run = runs["two:long"]
    run.tag = "tag"
    assert store.at(START).runs.end(run, DONE).word == "stale"
    assert held(store, "tag2").listed == ["two:long"]


# What a dispatcher finds


def test_a_survey_tells_of_no_more_lost_runs_than_it_must(store, monkeypatch):
    for n in range(3):
        take(store, [f"{n}a:long", f"{n}b:long"], f"tag{n}", START + n)
    monkeypatch.setattr("redbike.store.timeline.PAGE", 2)
    assert [run.jobid for run in survey(store.at(START + 3 + LEASE)).lost] == ["0a:long", "0b:long"]


def test_a_job_that_the_lost_tag_does_not_have_any_more_is_not_lost(store):
    take(store, ["one:long", "two:long"], "dead")
    store.client.hset(store.keys.batches, "dead", "\none:long\ntwo:long\nthree:long\n")
    run = take(store, ["three:long"], "alive", START + LEASE)["three:long"]
    found = survey(store.at(START + LEASE))
    assert [lost.jobid for lost in found.lost] == ["one:long", "two:long"]
    assert found.strays == {"dead": ["one:long", "two:long", "three:long"]}
    Dispatcher(store, Settings()).dispatch_due(START + LEASE)
    assert held(store, "dead").lease is None
    assert held(store, "dead").listed is None
    assert store.at(START + LEASE).runs.end(run, DONE).word == "ok"


def test_a_list_that_is_far_too_long_keeps_nobody_from_what_is_lost(store):
    take(store, BOTH)
    names = [*(f"{n}:long" for n in range(9000)), *BOTH]
    store.client.hset(store.keys.batches, "tag", "\n" + "\n".join(names) + "\n")
    assert len(survey(store.at(START + LEASE)).strays["tag"]) < len(names)
    for _ in range(2):
        Dispatcher(store, Settings()).dispatch_due(START + LEASE)
    assert all(state.queued for state in store.questions.inspect(BOTH))
    assert held(store, jobids=BOTH).listed is None


# What mends them

DAMAGE = {
    "no list": lambda c, k: c.hdel(k.batches, "tag"),
    "a run that is not listed": lambda c, k: c.hset(k.batches, "tag", "\njob:short\n"),
    "a job that is not its own": lambda c, k: c.hset(k.batches, "tag", "\njob:short\nother:long\njob:long\n"),
    "no lease": lambda c, k: c.zrem(k.leases, "tag"),
    "a lease without end": lambda c, k: c.zadd(k.leases, {"tag": 1e11}),
    "no key": lambda c, k: c.delete(k.inflight("tag")),
    "a key without end": lambda c, k: c.persist(k.inflight("tag")),
    "a key that names one": lambda c, k: c.set(k.inflight("tag"), "\njob:short\n", px=400000),
    "a key of another type": lambda c, k: (c.delete(k.inflight("tag")), c.sadd(k.inflight("tag"), "job:short")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_kept_of_a_tag_is_made_to_agree_with_its_runs(store, client, damage):
    runs = take(store, BOTH, now=None)
    take(store, ["other:long"], "other", None)
    assert list(fsck(store)) == []
    DAMAGE[damage](client, store.keys)
    assert any("the tag 'tag'" in line for line in fsck(store))
    store.upkeep.repair_tag("tag", [*BOTH, "other:long"])
    assert list(fsck(store)) == []
    now = held(store)
    assert sorted(now.listed) == sorted(now.named) == sorted(BOTH)
    assert now.deadlines == {jobid: run.deadline for jobid, run in runs.items()}
    assert now.now < now.lease <= now.now + LEASE
    assert SHORT * 1000 < now.inflight_ms <= LONG * 1000
    assert held(store, "other", ["job:long"]).deadlines.keys() == {"other:long"}


@pytest.mark.parametrize("listed", [None, "", "\n\n"])
def test_a_lease_without_a_list_is_reported_and_a_dispatcher_removes_it(store, client, dispatcher, listed):
    runs = take(store, BOTH)
    if listed is not None:
        client.hset(store.keys.batches, "empty", listed)
    client.zadd(store.keys.leases, {"empty": 1.0})
    client.set(store.keys.inflight("empty"), "\n", px=50_000)
    assert any("the tag 'empty'" in line for line in fsck(store))
    dispatcher.dispatch_due(START)
    assert list(fsck(store)) == []
    assert not client.exists(store.keys.inflight("empty"))
    assert held(store).deadlines.keys() == runs.keys()
