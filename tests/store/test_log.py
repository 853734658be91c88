"""The log of what people change: what an entry says, that it is bounded, and how it is read while others write."""

import json

import pytest

from redbike.store import log
from redbike.store.jobs import Cancellation, JobToSet, SetMode
from redbike.store.log import LogEntry, LogSearch, moves_job, parse_entry
from tests.states import JOB, NEW, NOW, OLD, QUEUE
from tests.verbs import set_one

ME = "me@here"
LATER = 4e9


FIRST = "ping-url: default -> a URL, retries: default -> 3"


def set_as(store, jobid=JOB, schedule=OLD, now=NOW, who=ME, **more):
    set_one(store.at(now).noted_as(who), JobToSet(jobid, schedule, LATER, False, QUEUE, SetMode.KEEP_PLACE, **more))


def details(store):
    return [entry.detail for entry in store.log.list_entries()]


def push_old(store, number):
    """So many entries, whose times are 0, 1, 2, …"""
    rows = (json.dumps([f"{each}.000000", ME, "unset", "", "old:A"]) for each in range(number))
    store.client.lpush(store.keys.log, *rows)


def test_setting_says_what_the_schedule_was_and_which_options_changed(store):
    set_as(store)
    set_as(store, schedule=NEW, options='{"retries":2,"timeout":5}', data='{"password":"secret"}')
    set_as(store, schedule=NEW, options='{"retries":3,"timeout":5}', data='{"password":"secret"}')
    set_as(store, schedule=NEW, options='{"retries":3,"timeout":5}')
    set_as(store, schedule=NEW, data="")
    set_as(store, schedule=NEW, options='{"note":"it, spread: wide"}')
    set_as(store, schedule=NEW, options='{"note":"x","spread":60}')
    set_as(store, schedule=NEW, options="")
    assert details(store) == [
        "spread: 60 -> default, note: x -> default",
        "spread: default -> 60, note: it, spread: wide -> x",
        "note: default -> it, spread: wide, retries: 3 -> default, timeout: 5 -> default",
        "data changed",
        "retries: 2 -> 3",
        f"{OLD} -> {NEW}; retries: default -> 2, timeout: default -> 5; data changed",
        OLD,
    ]
    moves = [True, True, False, False, False, True, True]
    assert [moves_job(entry) for entry in store.log.list_entries()] == moves
    assert b"secret" not in b"".join(store.client.lrange(store.keys.log, 0, -1))


def test_several_that_are_set_in_one_step_are_one_entry(store):
    jobs = [JobToSet(f"{n}:A", OLD, LATER, False, QUEUE, SetMode.KEEP_PLACE) for n in range(250)]
    set_as(store, "7:A")
    store.noted_as(ME).jobs.set(jobs)
    assert store.client.llen(store.keys.log) == 4
    rows = list(store.log.list_entries())
    assert [row.jobid for row in rows] == [f"{n}:A" for n in reversed(range(250)) if n != 7] + ["7:A"]
    assert {row.detail for row in rows[:-1]} == {"with others"}


def test_what_one_command_does_job_by_job_shares_entries(store):
    store.jobs.set([JobToSet(f"{n}:A", OLD, LATER, False, QUEUE) for n in range(250)])
    store.at(NOW).noted_as(ME).jobs.run([f"{n}:A" for n in range(250)])
    assert store.client.llen(store.keys.log) == 3
    assert [row.jobid for row in store.log.list_entries()] == [f"{n}:A" for n in reversed(range(250))]


def test_entries_are_looked_for_by_job_time_and_a_part_of_who(store):
    names = ("amy@web1", "bob@web1", "Amy@web2")
    # The clock was set back by half an hour between the second and the third.
    moments = (NOW, NOW + 3000, NOW + 1200, NOW + 9000)
    for number, moment in enumerate(moments):
        set_as(store, f"{number % 2}:A", now=moment, who=names[number % 3], schedule=(OLD, NEW)[number // 2])
    kept = list(store.log.list_entries())
    assert [entry.time for entry in kept] == list(reversed(moments))
    for search in (
        LogSearch(jobid, since, until, who)
        for jobid in (None, "0:A")
        for since in (None, NOW + 1200, NOW + 1201, NOW + 9001)
        for until in (None, NOW + 3000)
        for who in ("", "AMY", "web1", "nobody")
    ):
        wanted = [
            entry
            for entry in kept
            if (search.jobid is None or entry.jobid == search.jobid)
            and (search.since is None or entry.time >= search.since)
            and (search.until is None or entry.time <= search.until)
            and search.who.casefold() in entry.who.casefold()
        ]
        assert list(store.log.list_entries(search)) == wanted


def test_what_is_long_past_is_not_read_for_what_is_of_late(store):
    push_old(store, 1000)
    set_as(store, now=NOW + 10_000)
    store.client.config_resetstat()
    assert [entry.jobid for entry in store.log.list_entries(LogSearch(since=NOW + 9000))] == [JOB]
    assert store.client.info("commandstats")["cmdstat_lrange"]["calls"] == 1


@pytest.mark.parametrize(
    ("who", "verb", "now"),
    [("other@here", "run", NOW), (ME, "cancel", NOW), (ME, "run", NOW + 1), (ME, "run", NOW - 0.5)],
)
def test_what_differs_has_an_entry_of_its_own(store, who, verb, now):
    store.jobs.set([JobToSet(jobid, OLD, "now", False, QUEUE) for jobid in ("a:A", "b:A")])
    store.at(NOW).noted_as(ME).jobs.run(["a:A"])
    if verb == "run":
        store.at(now).noted_as(who).jobs.run(["b:A"])
    else:
        [found] = store.questions.inspect(["b:A"])
        plan = {name: found.stored[name] for name in ("schedule", "queued")}
        assert store.at(now).noted_as(who).jobs.cancel([Cancellation("b:A", plan, None, QUEUE, LATER)]) == ["cancelled"]
    assert store.client.llen(store.keys.log) == 2
    assert [(row.time, row.who, row.action) for row in store.log.list_entries()] == [(now, who, verb), (NOW, ME, "run")]


def test_a_damaged_entry_is_never_added_to(store):
    store.jobs.set([JobToSet(JOB, OLD, LATER, False, QUEUE)])
    store.client.lpush(store.keys.log, json.dumps([f"{NOW:.6f}", ME, "run", "", 7]))
    store.at(NOW).noted_as(ME).jobs.run([JOB])
    assert [row.jobid for row in store.log.list_entries()] == [JOB]


def test_queues_and_everything_are_named_with_what_is_new(store):
    queue_limits = store.at(NOW).noted_as(ME).queue_limits
    queue_limits.pause(QUEUE, 1800000000.0, ME, "moving house")
    queue_limits.pause("", None, ME, "")
    queue_limits.open(QUEUE, resume=True)
    queue_limits.open("", resume=True)
    queue_limits.open("", resume=True)
    queue_limits.limit(QUEUE, at_once=5, rate=(100, 60))
    queue_limits.limit(QUEUE, at_once=5)
    queue_limits.limit(QUEUE, rate=False)
    assert [(row.action, row.jobid, row.detail) for row in store.log.list_entries()] == [
        ("limit", "", "queue work-A: rate none"),
        ("limit", "", "queue work-A: at once 5, rate 100/m"),
        ("resume", "", "all"),
        ("resume", "", "queue work-A"),
        ("pause", "", "all"),
        ("pause", "", "queue work-A until 2027-01-15T08:00:00+00:00: moving house"),
    ]


def test_a_pause_that_ends_by_itself_is_not_noted(store):
    store.at(NOW).queue_limits.pause(QUEUE, NOW + 10)
    store.at(NOW + 20).noted_as(ME).queue_limits.open(QUEUE, resume=True)
    assert details(store) == []


def test_a_definition_is_whole_and_can_be_set_again(store):
    long = "AFTER:" + "x" * 8000
    set_as(store, schedule=long, options='{"retries":3,"ping-url":"https://host/secret"}')
    set_as(store, schedule=NEW)
    set_as(store, schedule=long)
    store.noted_as(ME).jobs.unset(JOB)
    gone = f"{long}; ping-url: a URL -> default, retries: 3 -> default"
    assert details(store) == [gone, f"{NEW} -> {long}", f"{long} -> {NEW}", f"{long}; {FIRST}"]
    assert b"secret" not in b"".join(store.client.lrange(store.keys.log, 0, -1))


@pytest.mark.parametrize("letter", ["x", "😀"])
def test_a_long_reason_is_cut_between_characters(store, letter):
    for shift in range(4):
        store.at(NOW + shift).noted_as(ME).queue_limits.pause(QUEUE, reason="y" * shift + letter * 2000)
        store.at(NOW + shift).noted_as(ME).queue_limits.open(QUEUE, resume=True)
    for entry in store.client.lrange(store.keys.log, 0, -1):
        assert b'"pause"' not in entry or (len(entry) < 700 and f"{letter}..." in entry.decode())


def test_the_list_is_bounded_and_keeps_the_newest(store):
    push_old(store, 10_005)
    store.noted_as(ME).signals.halt()
    assert store.client.llen(store.keys.log) == 10_000
    rows = list(store.log.list_entries())
    assert (rows[0].action, rows[1].time, rows[-1].time, len(rows)) == ("halt", 10_004.0, 6.0, 10_000)
    store.noted_as(ME).signals.halt()
    assert store.client.llen(store.keys.log) == 10_000


@pytest.mark.parametrize(("meanwhile", "seen"), [("added", range(9, -1, -1)), ("dropped", (9, 8, 7))])
def test_entries_are_read_once_each_while_others_are_added_or_dropped(store, monkeypatch, meanwhile, seen):
    monkeypatch.setattr(log, "PAGE", 3)
    push_old(store, 10)
    found = []
    for row in store.log.list_entries():
        found.append(row.time)
        if meanwhile == "added":
            store.noted_as(ME).signals.halt()
        else:
            store.client.ltrim(store.keys.log, 0, 0)
    assert found == [*seen]


DAMAGED = [
    b"",
    b"{}",
    b"7",
    b"[" * 100_000,
    b"\xff\xfe",
    b'[1.5,"me","set","","a:A"]',
    b'["soon","me","set","","a:A"]',
    b'["1.000000",null,"set","","a:A"]',
    b'["1.000000","me","set","",["a:A"]]',
    b'["1.000000","me","set","",""]',
]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_entry_counts_as_none_however_often_it_is_there(store, monkeypatch, damaged):
    monkeypatch.setattr(log, "PAGE", 2)
    assert parse_entry(damaged) is None
    good = b'["1.000000","me","set","x","a:A","b:A"]'
    store.client.rpush(store.keys.log, damaged, good, damaged, damaged, damaged, good, damaged, damaged)
    rows = [LogEntry(1.0, "me", "set", jobid, "x") for jobid in ("b:A", "a:A")]
    assert list(store.log.list_entries()) == rows * 2
    assert list(store.log.list_entries(LogSearch("a:A"))) == rows[1:] * 2
    [(key, entry, _)] = store.log.list_bad()
    assert entry == damaged
    store.upkeep.discard(key, entry)
    assert store.client.lrange(key, 0, -1) == [good] * 2


def test_ids_that_are_not_utf_8_are_noted_as_they_are(store):
    store.client.hset(store.keys.schedules, b"caf\xe9:A", OLD)
    store.noted_as(ME).jobs.unset("caf\udce9:A")
    kept = store.client.lindex(store.keys.log, 0)
    assert b'"caf\xe9:A"' in kept
