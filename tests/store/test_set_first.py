"""The short way of ``set``, see ``_set_first.lua``: it leaves what the full text leaves, or nothing."""

from dataclasses import replace
from itertools import product

import pytest

from redbike.store import jobs
from redbike.store.jobs import JobToSet
from redbike.store.lua_loader import SCRIPTS
from redbike.store.scripts import Pipeline
from tests.states import JOB, LATER, NOW, OLD, QUEUE, START, STATES, dump
from tests.store.test_transitions import dump_all, restore_all
from tests.verbs import set_job

PLAIN = SCRIPTS["set"].plain
FULL = replace(SCRIPTS["set"], plain=None)
# The plain text that ends where the short way does: it replies nothing to what is not for that.
SHORT = replace(PLAIN, text=PLAIN.text.partition("\n-- Most systems")[0])
JOBS = {
    "now": JobToSet(JOB, "NOW", "now", True, QUEUE),
    "later": JobToSet(JOB, "EVERY:7@0.0", LATER, False, QUEUE),
    "sooner than all others": JobToSet(JOB, "EVERY:7@0.0", NOW + 1, False, QUEUE),
    "past": JobToSet(JOB, f"AT:{START}", START, True, QUEUE),
    "never": JobToSet(JOB, "STOP", None, False, QUEUE),
    "with options": JobToSet(JOB, "NOW", "now", True, QUEUE, options='{"retries":3}'),
    "with data": JobToSet(JOB, "NOW", "now", True, QUEUE, data="5"),
    "skips": JobToSet(JOB, OLD, LATER, False, QUEUE, skipped={"missed": 2}),
    "expires": JobToSet(JOB, "NOW", "now", True, QUEUE, expires=60.0),
    "of a row": JobToSet(JOB, "NOW", "now", True, QUEUE, group="1 a.csv"),
}
ITS_OWN = {"now", "later", "sooner than all others"}
OTHER = "other:A"


def others_wait(store):
    set_job(store.at(START), OTHER, "NOW", "now")
    set_job(store.at(START), "third:A", "EVERY:1h", NOW + 30)


def a_tombstone(store):
    set_job(store.at(START), OTHER, "NOW", "now")
    set_job(store.at(START), "third:A", "NOW", "now")
    store.jobs.unset(OTHER)


def another_is_paused(store):
    set_job(store.at(START), OTHER, "EVERY:1h", NOW + 30)
    store.at(START).pauses.pause([OTHER], None, "somebody", "")


def it_has_run(store):
    if store.client.hexists(store.keys.schedules, JOB):
        store.client.zadd(store.keys.spent, {JOB: START})


WITH_OPTIONS = JobToSet(OTHER, "NOW", "now", True, QUEUE, options='{"retries":3}')
REQUESTS = {f"request{number}": number for number in range(10_000)}
WORLDS = {
    "nothing": lambda store: None,
    "others wait": others_wait,
    "a tombstone": a_tombstone,
    "another is paused": another_is_paused,
    "another has options": lambda store: store.at(START).jobs.set([replace(WITH_OPTIONS)]),
    "a limit": lambda store: store.at(START).queue_limits.limit(QUEUE, at_once=1),
    "many requests": lambda store: store.client.zadd(store.keys.requests, REQUESTS),
    "it has run": it_has_run,
}


def leave(store, monkeypatch, script, job):
    """What is there after the job was set, and what the script has replied."""
    monkeypatch.setattr(Pipeline, "_choose_text", lambda self, verb: script)
    monkeypatch.setattr(jobs, "make_tag", lambda: "a-request")
    try:
        refused = store.at(NOW).jobs.set([replace(job)])
    except TypeError:  # the reply was nothing
        refused = "not short"
    monkeypatch.undo()
    requests = store.client.zcard(store.keys.requests), store.client.zscore(store.keys.requests, "a-request")
    return dump(store), requests, refused


@pytest.mark.parametrize("state", STATES)
def test_it_leaves_what_the_full_text_leaves(store, monkeypatch, state):
    fits, short = state in ("unknown", "bad", "stopped"), set()
    for world in WORLDS if fits else ["nothing"]:
        store.client.flushdb()
        STATES[state](store)
        WORLDS[world](store)
        before, kept = (dump(store), store.client.zcard(store.keys.requests)), dump_all(store)
        for name, job in JOBS.items():
            full = leave(store, monkeypatch, FULL, job)
            restore_all(store, kept, "")
            if (first := leave(store, monkeypatch, SHORT, job))[2] == "not short":
                assert (first[0], first[1][0]) == before, (name, world)
            else:
                short.add((name, world))
            restore_all(store, kept, "")
            assert leave(store, monkeypatch, PLAIN, job) == full, (name, world)
            restore_all(store, kept, "")
    # It only looks whether a queue has limits and tombstones.
    assert short == (set(product(ITS_OWN, WORLDS.keys() - {"a limit", "a tombstone"})) if fits else set())
