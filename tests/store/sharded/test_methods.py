"""The table of routes: each method of a store has one, or belongs to what serves one shard."""

import inspect
import json

import pytest

from redbike.store.processes import LOST, MOST_JOBS
from redbike.store.sharded.methods import TABLE
from redbike.store.store import Store
from tests.queries.kept import register
from tests.verbs import take_one

# What only a dispatcher, a worker or fsck does, with one shard at a time.
OF_ONE = {
    "alerts": {"pack_watch", "leave", "watch_all", "read_missed_total", "list_missed", "alert", "list_failing"},
    "backfills": {"check"},
    "blackouts": {"begin", "inspect", "repair"},
    "hosts": {"list_bad", "scan_bases"},
    "journal": {"count_recent", "find_last", "list_bad"},
    "groups": {"close", "tell", "list_names"},
    "links": {
        *(
            "list_ended",
            "list_links",
            "subscribe",
            "list_mail",
            "read_mail",
            "deliver",
            "confirm",
            "list_followers",
            "list_subscribers",
            "list_bad",
            "read_parents",
        )
    },
    "log": {"list_bad"},
    "misplaced": {"list_used", "read_entries", "move", "claim"},
    "outbox": {"list_bad"},
    "overview": {"count_sources", "find_order", "read_ranks"},
    "questions": {"inspect_tags"},
    "signals": {"read"},
    "queue_limits": {"rebuild_slots", "count_flying", "inspect", "find_opening"},
    "quotas": {"read", "read_all", "postpone", "hold", "look", "free", "give"},
    "runs": {"take", "pack_take", "read_take", "read_registration", "has_notices"},
    "timeline": {
        *("pack_survey", "read_survey", "pack_dispatch", "read_dispatch", "read_late", "read_expiring", "expire"),
        *("pack_skip", "forget", "list_between", "advance"),
    },
    "upkeep": {"repair", "repair_tag", "discard", "add_queue", "persist", "delete"},
    "rewinds": {"list_bad"},
    "workers": {"list_bad", "forget"},
}


@pytest.fixture
def parts(client, prefix):
    store = Store(client, prefix, lambda jobid: "work-A")
    return {name: part for name, part in vars(store).items() if not name.startswith("_") and name not in OTHERS}


OTHERS = ("client", "keys", "scripts")
BIKE = {"shards": 4}


def test_each_method_has_a_route_or_is_of_one_shard(parts):
    found = {
        name: {each for each, _ in inspect.getmembers(part, inspect.ismethod) if not each.startswith("_")}
        for name, part in parts.items()
    }
    assert {name: set(TABLE.get(name, {})) | OF_ONE.get(name, set()) for name in parts} == found
    assert set(TABLE) == set(parts)
    assert not any(TABLE[name].keys() & OF_ONE.get(name, set()) for name in parts)


def test_of_the_runs_in_flight_of_all_shards_the_oldest_are_listed(bike):
    jobids = [f"{number}:A" for number in range(8)]
    for jobid in jobids:
        bike.set(jobid, "NOW")
        take_one(bike.store.find_shard(jobid), [("work-A", 50.0)], f"Ownerw01{jobid}")
    for most in (100, 3):
        flights, number = bike.store.questions.list_in_flight(most)
        assert ([each.jobid for each in flights], number) == (jobids[:most], 8)


def test_of_a_process_some_jobs_of_all_shards_are_listed_and_lost_ones_come_first(bike, client):
    now = bike.store.timeline.read_clock()
    register(bike.store, "worker", now=now - 2 * LOST)
    register(bike.store, "dispatcher", now=now)
    for number, shard in enumerate(bike.store.shards):
        client.hset(shard.keys.batches, "Ownerw01tag", f"\n{number}:A" * 600)
    assert [(each.kind, len(each.jobs)) for each in bike.workers()] == [("worker", MOST_JOBS), ("dispatcher", 0)]


def keep_failures(store, jobids):
    """Keep failures of one instant."""
    for jobid in jobids:
        keys = store.find_shard(jobid).keys
        store.client.zadd(keys.failure_times, {jobid: 1000.0})
        store.client.hset(keys.failures, jobid, json.dumps({"jobid": jobid, "failed": 1000.0}))


@pytest.mark.parametrize("failed", ["", ', "failed": "x"', ', "failed": null', f', "failed": 1{"0" * 400}'])
def test_a_damaged_failure_hides_no_other_one(bike, client, failed):
    store, jobids = bike.store, [f"{number}:A" for number in range(8)]
    keep_failures(store, jobids)
    client.hset(store.find_shard("3:A").keys.failures, "3:A", f'{{"jobid": "3:A"{failed}}}')
    for found in (store.past.list_failures(), store.past.list_failures_between(900.0, 1100.0, 100)):
        assert sorted(each["jobid"] for each in found) == jobids


def test_the_pages_of_failures_of_one_instant_have_each_of_them_once(bike):
    jobids = [f"{number:02}:A" for number in range(40)]
    keep_failures(bike.store, jobids)
    last, found = None, []
    while not found or last:
        page = bike.store.past.read_failures(last, 7)
        found += [each.jobid for each in page.failures]
        last = page.following
    assert found == jobids[::-1]


def test_of_dead_jobs_those_that_failed_last_are_told(bike):
    jobids = [f"{number:02}:A" for number in range(40)]
    keep_failures(bike.store, jobids)
    for jobid in jobids:
        bike.set(jobid, "EVERY:1h")
        bike.redis.hset(bike.store.find_shard(jobid).keys.statuses, jobid, "DIE:1000")
    dead = bike.store.past.find_dead(7)
    assert ([each.jobid for each in dead.failures], len(dead.times)) == (jobids[:-8:-1], 40)
