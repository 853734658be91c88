"""The table of routes: each method of a store has one, or belongs to what serves one shard."""

import inspect

import pytest

from redbike import Redbike, RoundRobin
from redbike.store.sharded.table import TABLE
from redbike.store.store import Store
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
    "quotas": {"read", "postpone", "hold", "look", "free", "give"},
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


def test_each_method_has_a_route_or_is_of_one_shard(parts):
    found = {
        name: {each for each, _ in inspect.getmembers(part, inspect.ismethod) if not each.startswith("_")}
        for name, part in parts.items()
    }
    assert {name: set(TABLE.get(name, {})) | OF_ONE.get(name, set()) for name in parts} == found
    assert set(TABLE) == set(parts)
    assert not any(TABLE[name].keys() & OF_ONE.get(name, set()) for name in parts)


def test_of_the_runs_in_flight_of_all_shards_the_oldest_are_listed(client, prefix):
    bike, jobids = Redbike(RoundRobin("A"), prefix, client, shards=4), [f"{number}:A" for number in range(8)]
    for jobid in jobids:
        bike.set(jobid, "NOW")
        take_one(bike.store.find_shard(jobid), [("work-A", 50.0)], f"Ownerw01{jobid}")
    for most in (100, 3):
        flights, number = bike.store.questions.list_in_flight(most)
        assert ([each.jobid for each in flights], number) == (jobids[:most], 8)
