"""The plain texts of scripts: they do what the full ones do, or nothing, and then the full ones are sent."""

import itertools
import math
import re

import pytest

from redbike.connection.client import connect
from redbike.schedule.moments import AWAITED
from redbike.store import scripts
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lua_loader import HOT, LEFT_OUT, SCRIPTS
from redbike.store.namespace import make_tag
from redbike.store.next_state import NextState
from redbike.store.store import Store
from tests.states import queue_for
from tests.store.test_transitions import STATES, TABLE, move, sent
from tests.verbs import set_job, set_one, take_one

__all__ = ["sent"]
OF_HOT = [verb for verb in TABLE if verb.split()[0] in HOT]


def send_full(store, until=math.inf):
    """Let a store send full texts, as those before plain ones did; with 0.0, no longer."""
    for pipeline in store.scripts._idle:
        pipeline._full_until = until
    return store


def count_asked(store):
    """How often a plain text has asked for the full one."""
    return store.client.info("errorstats").get("errorstat_FULLTEXT", {"count": 0})["count"]


def follow(store, jobid, *parents):
    follows = {"parents": parents, "when": "ok"}
    set_one(store, JobToSet(jobid, f"AFTER:{','.join(parents)}", AWAITED, True, queue_for(jobid), follows=follows))


def is_due(store, jobid):
    return store.client.zscore(store.keys.timeline, jobid) < AWAITED


def pack_end(store, jobid):
    return store.runs.pack_end([(take(store, jobid), NextState("next"))])


def take(store, jobid):
    set_job(store, jobid, "NOW", "now")
    return take_one(store, [(queue_for(jobid), 1e6)], make_tag())  # it is over when the test ends it, and not before


@pytest.mark.parametrize("verb", HOT)
def test_a_plain_text_has_nothing_of_what_follows(verb):
    full, plain = SCRIPTS[verb], SCRIPTS[verb].plain
    assert (plain.verb, plain.keys, plain.notes_changes) == (full.verb, full.keys, full.notes_changes)
    assert plain.text.count("local function need_full()") == 1
    assert "need_full" not in full.text
    assert not re.findall(rf"\b(?:{'|'.join(LEFT_OUT)})\b", plain.text)
    assert not re.findall(r"'(?:HSET|HDEL|ZREM|ZADD)', follow", plain.text), "it can change nothing of them"


def test_what_is_left_out_is_there():
    for name in LEFT_OUT:
        assert any(f"local function {name}" in SCRIPTS[verb].text for verb in HOT)


@pytest.mark.parametrize("verb", OF_HOT)
def test_a_full_text_moves_jobs_as_the_table_says_too(store, sent, monkeypatch, verb):
    """All other tests of the table are of the plain text, as nothing follows there."""
    monkeypatch.setattr(scripts.Pipeline, "_choose_text", lambda self, verb: SCRIPTS[verb])
    for expected, state in dict(zip(TABLE[verb], STATES, strict=True)).items():
        move(store, sent, state, verb, expected)


def test_a_system_without_followers_has_no_full_text(client, store):
    client.script_flush()
    store.scripts.run(pack_end(store, "a:A"))
    assert client.script_exists(*(SCRIPTS[verb].digest for verb in HOT)) == [False, False]
    assert client.script_exists(*(SCRIPTS[verb].plain.digest for verb in HOT)) == [True, True]


def test_a_client_asks_once_and_forgets_that(store, monkeypatch):
    """It sends plain texts again later: the followers may be gone."""
    asked = count_asked(store)
    follow(store, "child:B", "a:A")
    for _ in range(3):
        store.scripts.run(pack_end(store, "a:A"))
    assert is_due(store, "child:B")
    assert count_asked(store) - asked == 1
    send_full(store, until=0.0)
    store.client.script_flush()  # it knows neither text
    store.scripts.run(pack_end(store, "a:A"))
    assert count_asked(store) - asked == 2
    store.jobs.unset("child:B")
    send_full(store, until=0.0)
    for _ in range(2):
        store.scripts.run(pack_end(store, "a:A"))
    assert count_asked(store) - asked == 2


def test_of_a_pipeline_only_what_needs_it_is_sent_again(store):
    follow(store, "child:B", "a:A")
    run = take(store, "a:A")
    send_full(store, until=0.0)
    end, survey = store.runs.pack_end([(run, NextState("next"))]), store.timeline.pack_survey()
    assert [reply[0] for reply in store.scripts.run_all([survey, end, survey])] == ["ok", "ok", "ok"]
    assert is_due(store, "child:B")


@pytest.mark.parametrize("steps", [*itertools.permutations(["end a:A", "end b:A", "old:B a:A,b:A", "older:B a:A"])])
def test_a_follower_that_is_set_meanwhile_is_due_or_not_yet_there(client, prefix, server_url, steps):
    """Two new clients end what they have packed before; two old ones, which know no plain text, set followers."""
    with connect(server_url) as other:
        new = {job: Store(each, prefix, queue_for) for job, each in (("a:A", client), ("b:A", other))}
        ends = {job: pack_end(store, job) for job, store in new.items()}
        old = {job: send_full(Store(client, prefix, queue_for)) for job in ("old:B", "older:B")}
        for store in old.values():
            store.scripts._idle.append(scripts.Pipeline(client))
            send_full(store)
        waiting, due = {}, set()
        for step in steps:
            what, names = step.split()
            if what == "end":
                new[names].scripts.run(ends[names])
                for parents in waiting.values():
                    parents.discard(names)
                due |= {job for job, parents in waiting.items() if not parents}
            else:
                follow(old[what], what, *names.split(","))
                waiting[what] = set(names.split(","))
        assert {job for job in waiting if is_due(new["a:A"], job)} == due
        assert list(fsck(new["b:A"])) == []
