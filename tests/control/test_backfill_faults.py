"""Backfills that are damaged, or whose beginning is interrupted: nothing is lost, and nothing runs twice."""

import itertools
import json
import random
from collections import Counter

import pytest

from redbike import BadConfig, Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.control.backfilling import backfill
from redbike.errors import Unreachable
from redbike.store.backfill import HEAD, PART, make_jobid
from redbike.store.inspection.fsck import fsck
from tests.control.test_backfilling import HOUR, HOURLY, START, is_clean, make, start
from tests.crashing import AFTER, BEFORE, LOST, TWICE, Crash, Faults, faulty
from tests.store.inspection.mending import repaired

MINUTES = PART + 7  # occurrences, in two parts


@pytest.mark.parametrize("fault", [BEFORE, AFTER, LOST, TWICE])
def test_whoever_begins_one_dies_at_any_round_trip(client, prefix, monkeypatch, fault):
    monkeypatch.setattr("redbike.store.backfills.PARTS", 1)
    for at in itertools.count(1):
        settings, faults = Settings(prefix=f"{prefix}n{at}", history=0), Faults()
        bike = Redbike.from_settings(RoundRobin("A"), settings, client)
        now = bike.store.timeline.read_clock() // 3600 * 3600
        bike.set("a:A", "EVERY:1m@0")
        other = Redbike.from_settings(RoundRobin("A"), settings, faulty(client, faults))
        faults.arm(fault, at)
        given = ("a:A", now - (MINUTES - 1) * 60, now)
        try:
            other.backfill(*given)
        except (Crash, Unreachable):
            if bike.tell("a:A").get("backfill", {}).get("preparing", True):
                assert not [jobid for jobid, *_ in bike.get_statuses() if "@" in jobid]
                bike.backfill(*given)
        told = bike.tell("a:A")["backfill"]
        assert (told["of"], told["left"], told["preparing"]) == (MINUTES, MINUTES - 1, False)
        parts = {field for field in client.hkeys(bike.store.keys.following) if b"\n" in field}
        assert (len(parts), list(fsck(bike.store))) == (2, [])
        if not faults.struck:
            assert at > 4
            break


def test_two_that_are_begun_at_once_become_one(redbike, monkeypatch):
    """The second one takes the place of the first, which is not noted whole."""
    monkeypatch.setattr("redbike.store.backfills.PARTS", 1)
    bike, ran = make(redbike)
    bike.set("a", "EVERY:1m@0")
    run, other = bike.store.scripts.run, []

    def interfere(call):
        if call.verb == "backfill" and not other:
            other.append(call)
            reply = run(call)
            bike.backfill("a", START - 2 * HOUR, START)
            return reply
        return run(call)

    monkeypatch.setattr(bike.store.scripts, "run", interfere)
    with pytest.raises(BadConfig, match=r"is under way|begun at the same time"):
        bike.backfill("a", START - 5 * HOUR, START)
    bike.run_due()
    assert (len(ran), len(set(ran))) == (121, 121)
    assert is_clean(bike)


def test_the_schedule_changes_before_it_is_begun(redbike, monkeypatch):
    bike, ran = make(redbike)
    bike.set("a", HOURLY)
    begin = bike.store.backfills.begin

    def change(self, new):
        bike.set("a", "EVERY:30m@0")
        return begin(new)

    monkeypatch.setattr("redbike.store.backfills.Backfills.begin", change)
    assert len(backfill(bike.store, "a", START - HOUR, START, 1, False, Settings()).dues) == 3
    bike.run_due()
    assert [hour for _, hour in ran] == [-1, -0.5, 0]


def lose_first(bike):
    """An occurrence that waits is gone."""
    first = make_jobid("a", START - 5 * HOUR)
    keys = bike.store.keys
    bike.client.zrem(keys.timeline, first)
    bike.client.zrem(keys.followers, f"{first}\n{HEAD}a")
    for key in (keys.schedules, keys.statuses, keys.options):
        bike.client.hdel(key, first)


def forget_first(bike):
    """It is gone, and nothing says that it is under way."""
    lose_first(bike)
    key, field = bike.store.keys.following, f"{HEAD}a"
    record = json.loads(bike.client.hget(key, field))
    bike.client.hset(key, field, json.dumps({**record, "running": record["running"][1:]}))


def lose_job(bike):
    for key in (bike.store.keys.schedules, bike.store.keys.statuses):
        bike.client.hdel(key, "a")
    bike.client.zrem(bike.store.keys.timeline, "a")


def break_record(bike, part=""):
    bike.client.hset(bike.store.keys.following, f"{HEAD}a{part}", "{")


ALL, WAITS = [-5, -4, -3, -2, -1, 0], "it waits for 'a@2026-09-20T19:00:00Z', which does not run"
UNREADABLE = "the record of what is left cannot be read"


@pytest.mark.parametrize(
    ("damage", "said", "hours"),
    [
        (lose_first, WAITS, ALL[1:]),
        (forget_first, "what is left of it does not begin", ALL[1:]),
        (lambda bike: bike.client.delete(bike.store.keys.followers), WAITS, ALL),
        (break_record, UNREADABLE, ALL[:1]),
        (lambda bike: break_record(bike, "\ndone"), "the record of what it has run cannot be read", ALL),
        (lose_job, "there is no such job", ALL[:1]),
        (lambda bike: bike.client.hdel(bike.store.keys.following, f"{HEAD}a"), UNREADABLE, ALL[:1]),
    ],
)
def test_what_is_damaged_is_found_and_repaired(redbike, damage, said, hours):
    bike, ran = make(redbike)
    start(bike)
    damage(bike)
    found = list(fsck(bike.store))
    assert f"the backfill of 'a': {said}" in found
    repaired(bike)
    assert list(fsck(bike.store)) == []
    bike.run_due()
    assert sorted(hour for _, hour in ran) == hours
    assert is_clean(bike)


@pytest.mark.timeout(10)
def test_where_no_backfill_can_be_ended_cancel_is_for_the_job_itself(redbike):
    words = []

    def cancel(run):
        """A run of what follows an occurrence outlasts both the backfill and its job."""
        words.extend(bike.cancel("a"))
        bike.unset("a")
        bike.set("a", HOURLY)
        words.extend(bike.cancel("a"))

    bike, _ = make(redbike, lambda run: cancel(run) if run.base == "b" else None)
    bike.set("b", "AFTER:a")
    start(bike)
    bike.run_due()
    break_record(bike)
    assert [*words, *bike.cancel("a")] == [("a", "ended"), ("a", "idle"), ("a", "idle")]


@pytest.mark.parametrize("seed", range(4))
def test_each_occurrence_ends_once_whatever_happens_meanwhile(redbike, seed):
    """A model: what has begun and not ended is in order, and no more than so many of it wait or run."""
    chance = random.Random(seed)
    bike, ran = make(redbike)
    at_once, hours = chance.randint(1, 4), chance.randint(1, 12)
    bike.set("a", HOURLY)
    found = bike.backfill("a", START - hours * HOUR, START, at_once=at_once)
    dropped = []
    for _ in range(200):
        told = bike.tell("a").get("backfill")
        if told is None:
            break
        under_way = told["running"]
        assert len(under_way) <= at_once
        begun = told["done"] + told["failed"] + told["dropped"] + len(under_way)
        assert set(under_way) <= set(found.dues[:begun])
        step = chance.choice(["dispatch", "work", "work", "work", "pause", "resume", "unset", "cancel", "cancel one"])
        if step == "dispatch":
            bike.dispatch_due(bike.now)
        elif step == "work":
            bike.work_one()
        elif step in ("pause", "resume"):
            getattr(bike, step)("a")
        elif under_way and chance.random() < 0.3 and step in ("unset", "cancel one"):
            due = chance.choice(under_way)
            if step == "unset":
                bike.unset(make_jobid("a", due))
            elif bike.cancel(make_jobid("a", due))[0].word != "cancelled":
                continue
            dropped.append((due - START) / HOUR)
        elif step == "cancel" and chance.random() < 0.05:
            bike.cancel("a")
        assert list(fsck(bike.store)) == []
    bike.resume("a")
    bike.run_due()
    last = bike.tell("a")["last_backfill"]
    assert last["done"] + last["failed"] + last["dropped"] + last["left"] == last["of"]
    assert last["cancelled"] or not last["left"]
    hours_run = [hour for _, hour in ran]
    assert Counter(hours_run).most_common(1)[0][1] == 1 if hours_run else True
    assert not set(dropped) & set(hours_run)
    if not last["cancelled"]:
        assert sorted([*hours_run, *dropped]) == list(range(-hours, 1))
    assert is_clean(bike)


def test_much_is_noted_in_bounded_parts(redbike):
    bike, _ = make(redbike)
    bike.set("a", "EVERY:1m@0")
    bike.backfill("a", START - 20 * 86400, START)
    sizes = [len(value) for value in bike.client.hgetall(bike.store.keys.following).values()]
    assert (max(sizes) < 2000, sum(sizes) / 28801 < 20) == (True, True)
    assert json.loads(bike.client.hget(bike.store.keys.following, f"{HEAD}a"))["of"] == 28801


def test_one_whose_occurrences_are_still_being_noted_is_not_wrong(redbike):
    bike, _ = make(redbike)
    start(bike)
    key, field = bike.store.keys.following, f"{HEAD}a"
    record = json.loads(bike.client.hget(key, field))
    for job in list(bike.jobs("a@*")):
        bike.unset(job.jobid)
    bike.client.hset(key, field, json.dumps({**record, "open": True, "running": []}))
    assert bike.tell("a")["backfill"]["left"] > 0
    assert list(fsck(bike.store)) == []
