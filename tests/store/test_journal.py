"""Ended runs: how they are packed, and how they come from the journal to the histories of their jobs."""

import logging
import math
import struct
import time
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.store import journal
from redbike.store.archived import add_runs, read_duration, read_last_end, read_newest, read_runs
from redbike.store.entries import NOT_BEGUN, EntryRun, Pending, pack_entry, read_entry
from redbike.store.enums import Outcome
from redbike.store.history import MAX_SIZE, Usage, pack_run, pack_worker, read_run
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lease import LEASE
from redbike.store.namespace import make_tag
from redbike.store.next_state import NextState
from redbike.store.store import Store
from redbike.store.tally import BUCKETS, count, count_recent
from tests.states import JOB, NOW, OLD, QUEUE, START, queue_for
from tests.verbs import set_job, set_one, take_many, take_one

WORKER = "web1.example.com:12345:OwnerOf1"
OTHER = "web2.example.com:54321:OwnerOf2"
WORKERS = [WORKER, OTHER, "", "x" * 99]
MANY = [f"{number}:A" for number in range(20)]

texts = st.text(max_size=300)
moments = st.floats(min_value=0, max_value=4e9)
packed_runs = st.builds(
    pack_run,
    due=moments,
    waited=st.floats(min_value=0, max_value=1e6, width=32),
    took=st.floats(min_value=0, max_value=1e6, width=32),
    outcome=st.sampled_from(list(Outcome)),
    attempt=st.integers(1, 1000),
    error=texts,
    result=st.one_of(st.just(""), texts),
    usage=st.none() | st.builds(Usage, st.floats(0, 1e6, width=32), st.none() | st.integers(1, 2**52)),
)


def archive(store, steps=None):
    """Archive all, or take some steps only, as one does who dies then."""
    for _ in islice(store.archiver.archive(), steps):
        pass


def run_once(store, jobids=(JOB,), now=NOW):
    """Run jobs together, at `now`."""
    for jobid in jobids:
        if store.questions.read_schedule(jobid) is None:
            set_job(store.at(START), jobid, OLD, now)
        store.at(now).jobs.run([jobid])
    taken = take_many(store.at(now), [(QUEUE, 100.0)], [1], make_tag("OwnerOf1"), 100)
    call = store.at(now).runs.pack_end([(run, NextState("next", now + 1e6)) for run in taken])
    store.scripts.run(call)


def dues(store, jobid=JOB):
    return [run.due for run in store.journal.list_runs([jobid])]


# How they are packed


@given(st.lists(st.tuples(packed_runs, st.sampled_from(WORKERS)), max_size=12), st.integers(1, 9))
def test_the_last_runs_of_a_job_are_read_as_they_were_added(runs, most):
    value = b""
    for packed, worker in runs:
        value = add_runs(value, [(packed, pack_worker(worker))], most)
    named = [(packed, pack_worker(worker)) for packed, worker in runs]
    expected = [read_run(JOB, *run) for run in reversed(named)][:most]
    if len(set(named)) == len(named):
        assert read_runs(JOB, value) == expected
    # Those that were archived before are there once.
    assert read_runs(JOB, add_runs(value, named, most)) == expected
    assert read_newest(JOB, value) == (expected[0] if expected else None)


@pytest.mark.parametrize(
    ("outcome", "result", "memory"),
    [
        (Outcome.OK, "", None),
        (Outcome.OK, "5", 1024),
        (Outcome.FAILED, "5", 300 * 2**30 + 1),
        (Outcome.LOST, "", 2**52),
    ],
)
def test_what_a_command_has_used_stands_behind_its_run(outcome, result, memory):
    bare = (1000.25, 0.5, 2.0, outcome, 3, "no", result)
    packed = pack_run(*bare, Usage(0.25, memory))
    assert len(packed) == len(pack_run(*bare)) + 8
    named, kept = pack_worker(WORKER), result if outcome == Outcome.OK else ""
    value = add_runs(b"", [(pack_run(*bare), named), (packed, named), (pack_run(*bare, Usage(0.0, None)), named)], 5)
    runs = read_runs(JOB, value)
    rounded = memory and min(-(-memory // 1024), 2**32 - 1) * 1024
    assert [(run.cpu, run.memory) for run in runs] == [(0.0, None), (0.25, rounded), (None, None)]
    assert {(run.outcome, run.error, run.stored_result) for run in runs} == {(outcome, "no", kept)}
    assert runs[1].to_dict().items() >= {"cpu": 0.25, **({"memory": rounded} if memory else {})}.items()
    assert not {"cpu", "memory"} & runs[2].to_dict().keys()
    assert count([pack_entry(WORKER, [(JOB, QUEUE, 10, packed)])])[f"runs:{outcome}:{QUEUE}"] == 1
    assert read_duration(value) == 2.0
    assert read_last_end(value) == 1002.75


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", {}),
        ("null", {"result": None}),
        ('{"é":[1]}', {"result": {"é": [1]}}),
        (f'"{"x" * 16382}"', {"result": "x" * 16382}),
        ("!too large", {"result_error": "too large"}),
        ("{damaged", {}),
    ],
    ids=["none", "null", "object", "large", "not kept", "damaged"],
)
def test_a_result_stands_behind_its_run(text, shown):
    packed = pack_run(1000.25, 0.5, 2.0, Outcome.OK, 3, "odd", text)
    run = read_run(JOB, packed, pack_worker(WORKER))
    assert (run.outcome, run.error, run.show_result()) == (Outcome.OK, "odd", shown)
    assert (run.has_result, run.result) == ("result" in shown, shown.get("result"))
    assert run.to_dict().items() >= shown.items()
    others = [(pack_run(each, 0.5, 2.0, Outcome.FAILED, 1, "no", "5"), pack_worker(OTHER)) for each in (1.0, 2.0)]
    value = add_runs(b"", [others[0], (packed, pack_worker(WORKER)), others[1]], 5)
    assert [each.stored_result for each in read_runs(JOB, value)] == ["", text, ""]
    assert count([pack_entry(WORKER, [(JOB, QUEUE, 10, packed)])])[f"runs:ok:{QUEUE}"] == 1


@pytest.mark.parametrize("letter", ["x", "😀"])
def test_what_is_too_long_is_cut_between_characters(letter):
    for shift in range(4):
        packed = pack_run(1000.0, 0.0, 1.0, Outcome.FAILED, 1000, "y" * shift + letter * 300)
        value = add_runs(b"", [(packed, pack_worker("z" * shift + letter * 100))], 1)
        assert len(value) <= 1 + MAX_SIZE
        [run] = read_runs(JOB, value)
        assert run.error.startswith("y" * shift + letter)
        assert set(run.error[shift:] + run.worker[shift:]) == {letter}
        assert run.attempt == 255


@pytest.mark.parametrize(
    ("waited", "exactly"),
    [(0.0, 1e-4), (-0.001, 2e-3), (0.0123, 1e-4), (214748.3, 1e-4), (3e6, 1.0), (1.8e9, 1.0)],
)
def test_it_is_known_when_a_run_started_that_was_due_long_ago(waited, exactly):
    started = read_run(JOB, pack_run(1000.0, waited, 1.0, Outcome.OK, 1, ""), b"-").started
    assert started == pytest.approx(1000.0 + waited, abs=exactly, rel=0)


def test_ten_runs_take_at_most_400_bytes():
    runs = [(pack_run(1e9 + n, 0.01, 1.5, Outcome.OK, 1, ""), pack_worker(WORKER)) for n in range(10)]
    assert len(add_runs(b"", runs, 10)) <= 260
    six = [(packed, pack_worker(f"web{n % 6}.example.com:12345:OwnerOf{n % 6}")) for n, (packed, _) in enumerate(runs)]
    assert len(add_runs(b"", six, 10)) <= 400
    all_differ = [(packed, pack_worker(f"web{n}:4711:OwnerOf{n}")) for n, (packed, _) in enumerate(runs)]
    assert len(add_runs(b"", all_differ, 10)) <= 400


@given(st.binary(max_size=200))
def test_a_damaged_value_is_no_value(value):
    found = read_runs(JOB, value)
    run = (pack_run(1.0, 0.0, 0.0, Outcome.OK, 1, ""), pack_worker(WORKER))
    if found is None:
        assert add_runs(value, [run], 5) == add_runs(b"", [run], 5)


def test_each_part_of_a_value_is_damaged():
    runs = [(pack_run(1.0 * n, 0.0, 0.0, Outcome.OK, 1, "no"), pack_worker(WORKER)) for n in range(3)]
    value = add_runs(b"", runs, 10)
    assert len(read_runs(JOB, value)) == 3
    assert all(read_runs(JOB, value[:size]) is None for size in range(1, len(value)))
    assert read_runs(JOB, value + b"x") is None


entry_runs = st.tuples(
    st.text(min_size=1, max_size=20),
    st.sampled_from(["work-A", "work-B", "é"]),
    st.sampled_from([0, 1, 10, NOT_BEGUN]),
    packed_runs,
)


@given(st.lists(entry_runs, min_size=1, max_size=5), st.text(max_size=100), st.lists(st.sampled_from("01u")))
def test_an_entry_is_read_as_it_was_packed(runs, worker, marks):
    entry = pack_entry(worker, runs)
    expected = [EntryRun(*run, pack_worker(worker)) for run in runs]
    assert read_entry(entry) == [run for run in expected if run.kept != NOT_BEGUN]
    marked = b"P" + "".join(marks).encode() + b"\n" + entry
    if len(marks) != len(runs):
        assert read_entry(marked) is None or not marks
        return
    counts = [
        run._replace(kept=0 if mark == "u" else run.kept)
        for run, mark in zip(expected, marks, strict=True)
        if mark != "0" and run.kept != NOT_BEGUN
    ]
    assert read_entry(marked) == counts


def test_runs_that_look_the_same_are_all_there():
    pending = Pending()
    for _ in range(2):
        # Their occurrence was due long ago, so their starts have whole seconds.
        pending.add(EntryRun(JOB, QUEUE, 10, pack_run(1e9, 8e8, 0.001, Outcome.OK, 1, ""), b"w"))
    assert len(pending.read(JOB, b"")) == 2
    value = pending.add_to(b"")
    assert [len(pending.read(JOB, each)) for each in (value, pending.add_to(value))] == [2, 2]


@given(st.binary(max_size=200))
def test_what_is_no_entry_is_none_or_read(noise):
    for entry in (noise, b"R" + noise, b"P1\nR" + noise, b"F" + noise):
        found = read_entry(entry)
        assert found is None or all(isinstance(each, str | EntryRun) for each in found)
        assert sum(count_recent([entry]).values()) == len([each for each in found or () if isinstance(each, EntryRun)])


def test_each_part_of_an_entry_is_damaged():
    entry = pack_entry(WORKER, [(JOB, QUEUE, 10, pack_run(1.0, 0.0, 0.0, Outcome.OK, 1, "no"))] * 2)
    whole = [size for size in range(len(entry) + 1) if read_entry(entry[:size]) is not None]
    # One run less, or none, is an entry too, as nothing says how many there are.
    assert [len(read_entry(entry[:size])) for size in whole] == [0, 1, 2]


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x05",  # too short for a run
        b"\x14" + struct.pack("<dIfBBB", 1.0, 0, 0.0, 200, 1, 0),  # an outcome that there is not
        b"\x14" + struct.pack("<dIfBBB", math.nan, 0, 0.0, 0, 1, 0),
        b"\x14" + struct.pack("<dIfBBB", 1.0, 0, math.inf, 0, 1, 0),
        b"\x14" + struct.pack("<dIfBBB", 1.0, 0, -5.0, 0, 1, 0),
    ],
)
def test_a_run_that_nobody_can_have_packed_stops_neither_readers_nor_archiving(store, damaged):
    run_once(store)
    damaged = damaged.ljust(damaged[0], b"x")
    store.client.rpush(store.keys.journal, pack_entry(WORKER, [(JOB, QUEUE, 10, damaged)]))
    store.client.hset(
        store.keys.untold, "tag+ job:A", f"{NOW:.6f} 0\n".encode() + pack_entry(WORKER, [(JOB, QUEUE, 10, damaged)])
    )
    assert len(list(fsck(store))) == 2
    assert [claim.runs for claim in store.at(NOW).outbox.claim_all([QUEUE])] == [()]
    assert dues(store) == [NOW]
    archive(store)
    assert dues(store) == [NOW]
    value = bytes([1]) + damaged[:-1] + b"\1" + b"-" if damaged[0] < 20 else bytes([1, 21]) + damaged[1:19] + b"\1-"
    assert read_runs(JOB, value) is None


# What is kept of a job


def test_a_run_is_known_as_soon_as_it_has_ended_and_when_it_is_archived(store):
    set_job(store.at(START), JOB, OLD, START)
    run = take_one(store.at(NOW), [(QUEUE, 100.0)], "OwnerOf1tag")
    run.over = run.received + 2.5
    run.began = run.received + 0.5
    store.at(NOW + 3).runs.end(run, NextState("next", NOW + 50, error="it grumbled", outcome=Outcome.RETRY))
    [found] = store.journal.list_runs([JOB])
    assert (found.due, found.outcome, found.attempt, found.error) == (START, "retry", 1, "it grumbled")
    assert found.worker.endswith(":OwnerOf1")
    assert found.started == pytest.approx(NOW + 0.5, abs=1e-3)
    assert found.took == 2.0
    archive(store)
    assert store.client.llen(store.keys.journal) == 0
    assert list(store.journal.list_runs([JOB])) == list(store.journal.list_runs()) == [found]
    assert list(store.journal.list_runs(["other:A"])) == []


@pytest.mark.parametrize("archives", [False, True])
def test_history_is_an_option_and_a_setting(client, prefix, archives):
    store = Store(client, prefix, queue_for, history=3)

    def run_with(options, now):
        set_one(store.at(now), JobToSet(JOB, OLD, now, False, QUEUE, options=options))
        run_once(store, now=now)
        if archives:
            archive(store)
        return len(dues(store))

    assert [run_with("", NOW + number) for number in range(4)] == [1, 2, 3, 3]
    assert [run_with('{"history":5}', NOW + number) for number in range(4, 8)] == [4, 5, 5, 5]
    assert run_with('{"history":2}', NOW + 8) == 2
    assert run_with('{"history":5}', NOW + 9) == 3
    assert run_with('{"history":0}', NOW + 10) == 0
    assert run_with("", NOW + 11) == 1
    archive(store)
    assert dues(store) == [NOW + 11]
    assert store.counts.read()[f"runs:ok:{QUEUE}"] == 12


@pytest.mark.parametrize("archived", [False, True])
def test_an_unset_job_is_forgotten_and_one_of_the_same_id_is_new(store, archived):
    run_once(store, [JOB, "other:A"])
    if archived:
        archive(store)
    store.jobs.unset(JOB)
    assert dues(store) == []
    run_once(store, now=NOW + 1)
    assert dues(store) == [NOW + 1]
    archive(store)
    assert dues(store) == [NOW + 1]
    store.jobs.unset(JOB)
    archive(store)
    assert store.client.hkeys(store.keys.history) == [b"other:A"]
    assert list(fsck(store)) == []


def test_the_worker_of_a_lost_run_is_named_by_whoever_finds_it(store):
    entry = '{"kind": "worker", "host": "web1", "pid": 4711, "queues": ["work-A"], "version": "1"}'
    store.at(START).workers.register("OwnerOf1", entry)
    set_job(store.at(START), JOB, OLD, START)
    take_one(store.at(NOW), [(QUEUE, 100.0)], "OwnerOf1tag")
    later, before = store.at(NOW + LEASE), time.monotonic()
    [run] = later.timeline.read_survey(later.scripts.run(later.timeline.pack_survey())).lost
    later.runs.end(run, NextState("due", START, "lost", "0 1", outcome=Outcome.LOST))
    [found] = store.journal.list_runs([JOB])
    assert (found.outcome, found.worker) == ("lost", "web1:4711:OwnerOf1")
    assert found.started == pytest.approx(NOW, abs=0.1)
    assert LEASE - 0.1 < found.took < LEASE + time.monotonic() - before + 0.1
    # Nobody knows how long it took.
    assert [name for name in store.counts.read() if name.startswith("took:")] == []


# Archiving in steps


def test_many_are_archived_in_short_steps_and_read_as_one_meanwhile(store, monkeypatch):
    monkeypatch.setattr(journal, "READ_STEP", 2)
    monkeypatch.setattr(journal, "WRITE_STEP", 3)
    for number in range(5):
        run_once(store, MANY, now=NOW + number)
    expected = [NOW + number for number in range(4, -1, -1)]
    steps = 0
    for _ in store.archiver.archive():
        steps += 1
        assert all(dues(store, jobid) == expected for jobid in MANY)
        assert len(list(store.journal.list_runs())) == 5 * len(MANY)
        assert store.counts.read()[f"runs:ok:{QUEUE}"] == 5 * len(MANY)
        assert list(fsck(store)) == []
    assert steps == 2 + 7
    assert store.client.llen(store.keys.journal) == 0
    assert store.client.hget(store.keys.counts, "archiver") is None


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_another_goes_on_where_one_has_died(store, monkeypatch, steps):
    monkeypatch.setattr(journal, "WRITE_STEP", 7)
    run_once(store, MANY)
    archive(store, steps)
    run_once(store, MANY, now=NOW + 1)
    # Not at once: it may be alive.
    archive(store)
    if steps < 3:
        assert store.client.llen(store.keys.journal) == 2
    archive(store.at(NOW + 1e9))
    assert store.client.llen(store.keys.journal) == 0
    assert all(dues(store, jobid) == [NOW + 1, NOW] for jobid in MANY)
    kept = store.client.hgetall(store.keys.history)
    assert all(len(read_runs(jobid.decode(), value)) == 2 for jobid, value in kept.items())
    assert store.counts.read()[f"runs:ok:{QUEUE}"] == 2 * len(MANY)


def test_one_that_was_suspended_changes_nothing_once_another_has_taken_over(store, monkeypatch):
    monkeypatch.setattr(journal, "WRITE_STEP", 7)
    run_once(store, MANY)
    slow = store.at(NOW).archiver.archive()
    next(slow)
    run_once(store, MANY, now=NOW + 1)
    archive(store.at(NOW + 60))
    run_once(store, MANY, now=NOW + 2)
    assert list(slow) == []
    assert all(dues(store, jobid) == [NOW + 2, NOW + 1, NOW] for jobid in MANY)
    assert store.counts.read()[f"runs:ok:{QUEUE}"] == 3 * len(MANY)


def test_what_another_archives_before_it_reads_is_not_counted_for_these(store, monkeypatch):
    run_once(store)
    lrange = store.client.lrange

    def read_late(*given):
        monkeypatch.undo()
        archive(store)
        run_once(store, now=NOW + 1)
        return lrange(*given)

    monkeypatch.setattr(store.client, "lrange", read_late)
    assert list(store.at(NOW + 60).archiver.archive()) == []
    archive(store.at(NOW + 60))
    assert store.client.hget(store.keys.counts, "archived") == b"2"
    assert dues(store) == [NOW + 1, NOW]


@pytest.mark.parametrize(("steps", "others"), [("reading", 0), ("reading", 2), ("writing", 0), ("writing", 1)])
def test_runs_that_the_server_has_lost_are_not_archived(store, monkeypatch, steps, others):
    """A server that was killed has lost what it had last; so has a replica that takes its place."""
    monkeypatch.setattr(journal, "READ_STEP", 1)
    monkeypatch.setattr(journal, "WRITE_STEP", 7)
    run_once(store)
    before = {key: store.client.dump(key) for key in store.client.scan_iter(f"{store.keys.prefix}*")}
    run_once(store, MANY)
    left = store.archiver.archive()
    for _ in range(2):
        next(left)
    if steps == "writing":
        next(left)
        before[store.keys.counts.encode()] = store.client.dump(store.keys.counts)
    for key in store.client.scan_iter(f"{store.keys.prefix}*"):
        store.client.delete(key)
    for key, value in before.items():
        store.client.restore(key, 0, value)
    for number in range(others):
        run_once(store, now=NOW + 1 + number)
    list(left)
    assert list(fsck(store)) == []
    archive(store.at(NOW + 60))
    assert [run.jobid for run in store.journal.list_runs()] == [JOB] * (1 + others)
    assert store.counts.read()[f"runs:ok:{QUEUE}"] == 1 + others


def test_a_clock_that_was_ahead_holds_nobody_up_for_long(store, monkeypatch):
    monkeypatch.setattr(journal, "WRITE_STEP", 7)
    run_once(store, MANY)
    archive(store.at(NOW + 1e8), 1)
    archive(store.at(NOW))
    assert store.client.llen(store.keys.journal) == 0


def test_no_more_are_archived_together_than_memory_is_for(store, monkeypatch):
    monkeypatch.setattr(journal, "READ_STEP", 2)
    monkeypatch.setattr(journal, "MOST_BYTES", 1)
    for number in range(5):
        run_once(store, now=NOW + number)
    archive(store)
    assert store.client.llen(store.keys.journal) == 3
    assert dues(store) == [NOW + number for number in range(4, -1, -1)]


def test_a_damaged_entry_is_passed_over_and_its_size_limited_in_the_log(store, caplog):
    store.client.rpush(store.keys.journal, b"R\xff" + b"x" * 5000)
    run_once(store)
    assert len(list(fsck(store))) == 1
    with caplog.at_level(logging.ERROR):
        archive(store)
    [record] = caplog.records
    assert "damaged" in record.message
    assert len(record.message) < 200
    assert dues(store) == [NOW]
    assert list(fsck(store)) == []


# The counts


def test_each_run_is_in_one_bucket(store):
    for seconds in (0.0, *BUCKETS, *(size * 1.01 for size in BUCKETS)):
        store.client.flushall()
        packed = pack_run(NOW, 0.0, seconds, Outcome.OK, 1, "")
        store.client.rpush(store.keys.journal, pack_entry(WORKER, [(JOB, QUEUE, 10, packed)]))
        expected = min(size for size in (*BUCKETS, math.inf) if seconds <= size)
        counts = store.counts.read()
        assert [name for name in counts if name.startswith("took:")] == [f"took:{expected:g}:{QUEUE}"]
        assert counts[f"microseconds::{QUEUE}"] == pytest.approx(seconds * 1e6, rel=1e-6)
        archive(store)
        assert store.counts.read() == counts


def test_the_number_of_queues_that_are_counted_apart_is_bounded(store):
    store.client.hset(store.keys.counts, mapping={f"runs:ok:work-{number}": 1 for number in range(40_000)})
    runs = [(f"{n}:{n}", f"work-{n}", 10, pack_run(NOW, 0.0, 0.0, Outcome.OK, 1, "")) for n in range(39_999, 40_003)]
    store.client.rpush(store.keys.journal, pack_entry(WORKER, runs))
    archive(store)
    counts = store.counts.read()
    assert (counts["runs:ok:work-39999"], counts["runs:ok:work-40000"], counts["runs:ok:"]) == (2, 0, 3)
    assert (counts["took:0.005:"], counts["delay:0.005:"]) == (4, 4)
    assert len(counts) < 40_007


def test_runs_of_more_queues_than_a_command_has_arguments_are_archived(store):
    runs = [(f"{n}:{n}", f"work-{n}", 0, pack_run(NOW, 0.0, 0.0, Outcome.OK, 1, "")) for n in range(2000)]
    store.client.rpush(store.keys.journal, *(pack_entry(WORKER, [run]) for run in runs))
    archive(store)
    counts = store.counts.read()
    assert {counts[f"runs:ok:work-{n}"] for n in range(2000)} == {1}
    assert store.archiver.count_entries() == 0


def test_a_job_that_is_unset_while_it_is_archived_leaves_nothing_in_the_end(store, monkeypatch):
    monkeypatch.setattr(journal, "WRITE_STEP", 1)
    run_once(store, [JOB, "other:A"])
    steps = store.archiver.archive()
    next(steps)
    store.jobs.unset("other:A")
    store.jobs.unset(JOB)
    list(steps)
    # What was written after that goes with the next entries.
    assert store.client.hkeys(store.keys.history) == [b"other:A"]
    assert list(fsck(store)) == []
    assert list(store.journal.list_runs()) == []
    archive(store)
    assert store.client.exists(store.keys.history, store.keys.journal) == 0
