"""Pages of ended runs and of failures."""

import json

import pytest

from redbike.store.cursors import FEW, Cursor
from redbike.store.entries import NOT_BEGUN, list_last_naming, list_naming, pack_entry
from redbike.store.past_runs import MOST, MOST_FAILED, RunSearch
from tests import states
from tests.queries.kept import add_runs, archive, make_run
from tests.states import JOB, NOW, START

MANY = FEW + 100


def add(store, *runs):
    add_runs(store, *(make_run(start, jobid=jobid, error=error) for jobid, start, error in runs))


def test_runs_of_few_jobs_are_all_in_order_whether_they_are_archived_or_not(store):
    add(store, ("a:A", 1000.0, ""), ("b:A", 3000.0, "no luck"))
    archive(store)
    add(store, ("a:A", 2000.0, ""))
    page = store.past.read_runs(RunSearch(), rows=2)
    assert [(run.jobid, run.started) for run in page.runs] == [("b:A", 3000.0), ("a:A", 2000.0)]
    assert (page.is_complete, page.is_more) == (True, True)
    older = store.past.read_runs(RunSearch(before=(2000.0, "a:A")), rows=2)
    assert [run.started for run in older.runs] == [1000.0]
    assert [run.jobid for run in store.past.read_runs(RunSearch(failed=True)).runs] == ["b:A"]
    assert len(store.past.read_runs(RunSearch(since=2000.0)).runs) == 2
    assert len(store.past.read_runs(RunSearch(), ["a:A"]).runs) == 2


def test_runs_of_many_jobs_are_read_in_bounded_parts_that_have_each_of_them(store):
    add(store, *((f"j{n:04}:A", 1000.0 + n, "") for n in range(MANY)))
    archive(store)
    add(store, ("new:A", 9000.0, ""))
    newest = store.past.read_runs(RunSearch())
    assert [run.jobid for run in newest.runs] == ["new:A"]
    assert (newest.is_complete, newest.total) == (False, MANY)
    place, seen, pages = newest.following, [], 0
    while place is not None:
        page = store.past.read_runs_of_many(RunSearch(), Cursor.parse(place.format()), rows=100, patience=3600)
        assert len(page.runs) < 400
        seen += [run.jobid for run in page.runs]
        place, pages = page.following, pages + 1
    assert sorted(seen) == [f"j{n:04}:A" for n in range(MANY)]
    assert pages > 3


@pytest.mark.parametrize(("entries", "size"), [(MOST + 1, 1), (100, 60)])
def test_only_the_newest_runs_are_read_while_very_many_are_not_archived(store, entries, size):
    for number in range(entries):
        add(store, *((f"j{(number * size + each) % 700}:A", 1000.0 + number, "") for each in range(size)))
    found = store.past.read_runs(RunSearch())
    assert found.runs == sorted(found.runs, key=lambda run: run.started, reverse=True)
    assert found.runs[0].started == 999.0 + entries
    assert (len(found.runs), found.is_complete, found.following) == (100, False, Cursor())
    archive(store)
    assert store.past.read_runs(RunSearch()).is_complete


def test_a_search_for_runs_without_a_hit_ends_in_time(store):
    add(store, *((f"j{n:04}:A", 1000.0 + n, "") for n in range(MANY)))
    archive(store)
    page = store.past.read_runs_of_many(RunSearch(pattern="nothing*"), Cursor(), patience=-1)
    assert page.runs == []
    assert page.following is not None
    assert page.looked_at < MANY


def test_failures_go_on_behind_the_last_one(store):
    keys = store.keys
    for number in range(30):
        store.client.hset(keys.failures, f"j{number:02}:A", json.dumps({"error": f"error {number}", "attempt": 2}))
        store.client.zadd(keys.failure_times, {f"j{number:02}:A": 1000.0})
    seen, last = [], None
    while True:
        page = store.past.read_failures(last, 7)
        assert page.total == 30
        seen += [failure.jobid for failure in page.failures]
        if page.following is None or not page.failures:
            break
        last = page.following
    assert seen == [f"j{number:02}:A" for number in reversed(range(30))]


@pytest.mark.parametrize(
    "kept", [b"", b"\xff", b"[]", b"{}", b'{"error": 7, "attempt": "x", "failed": []}', b"[" * 9999]
)
def test_a_damaged_failure_is_one_all_the_same(store, kept):
    store.client.hset(store.keys.failures, "j:A", kept)
    store.client.zadd(store.keys.failure_times, {"j:A": 1000.0})
    [failure] = store.past.read_failures(None, 10).failures
    assert (failure.jobid, failure.failed, failure.attempt) == ("j:A", 1000.0, None)
    assert isinstance(failure.error, str)


def test_dead_jobs_are_found_among_the_newest_and_the_oldest_failures(store):
    states.dead(store)
    others = {f"{number}:A": NOW + number for number in range(2 * MOST_FAILED)}
    store.client.zadd(store.keys.failure_times, others)
    dead = store.past.find_dead(1)
    assert dead.times == {JOB: START + 1}
    assert [(failure.jobid, failure.error) for failure in dead.failures] == [(JOB, "it broke")]
    store.client.zadd(store.keys.failure_times, {JOB: 2 * NOW + len(others)})
    assert list(store.past.find_dead(0).times) == [JOB]


def test_only_entries_that_name_a_job_are_read_as_a_whole(store):
    one, other = (pack_entry("h", [make_run(1.0, jobid=jobid)]) for jobid in ("1:A", "11:A"))
    assert list_naming([one, other, b"F1:A", b"F11:A"], ["1:A"]) == [one, b"F1:A"]
    assert list_naming([one, b"P1\n" + other], ["11:A", "x"]) == [b"P1\n" + other]


@pytest.mark.parametrize("others", [1, 100])
def test_the_last_entries_that_tell_of_jobs_are_found(others):
    """Few jobs are looked for in another way than many."""

    def pack(jobid, kept=10):
        return pack_entry("host:1:x", [make_run(1.0, jobid=jobid, history=kept)])

    one, other, wanted = pack("1:A"), pack("11:A"), ["1:A", "11:A", *(f"x{number}" for number in range(others))]
    assert list_last_naming([one, other, one, other, b"F1:A", other], wanted) == [b"F1:A", other]
    # What has not begun, and what is damaged, tells nothing of a job.
    for nothing in (b"P0\n" + one, pack("1:A", NOT_BEGUN), one[:-1], one + b"R", b"R", b"", b"F"):
        assert list_last_naming([pack("1:A", 7), one, nothing, other, nothing], wanted) == [one, other]


def test_the_newest_run_of_a_job_is_known_however_often_it_has_run(store):
    for number in range(50):
        add(store, ("a:A", 1000.0 + number, ""), ("b:A", 2000.0 + number, "no luck"))
    add(store, ("b:A", 5000.0, ""))
    newest = store.journal.read_newest(["a:A", "b:A", "c:A"])
    assert {jobid: run.started for jobid, run in newest.items()} == {"a:A": 1049.0, "b:A": 5000.0}
    store.client.rpush(store.keys.journal, b"Fa:A")
    assert store.journal.read_newest(["a:A"]) == {"a:A": None}
