"""Pages of jobs: each is bounded, and together they have every job."""

from itertools import islice

import pytest

from redbike import BadConfig, Redbike
from redbike.store.cursors import FEW, MOST_SCANNED, Cursor, measure_scan
from redbike.store.enums import Event
from redbike.store.job import JobSearch
from redbike.store.jobs import JobToSet
from redbike.store.namespace import Ranks
from redbike.store.patterns import compile_patterns
from tests.loops import Acting, raising
from tests.verbs import Quiet

MANY = FEW + 500
BIKE = {"queues": "A:B", "on_error": "stop"}


@pytest.fixture
def many(bike):
    rows = ((f"job{n}:{'AB'[n % 2]}", f"EVERY:1h@{10**9 + n}") for n in range(MANY))
    assert all(result is True for _, result in bike.set_many(rows))
    return bike


def read_pages(store, search, **limits):
    """Yield all pages; each cursor goes through a URL."""
    cursor = Cursor()
    while cursor is not None:
        page = store.overview.read_page(search, Cursor.parse(cursor.format()), **limits)
        yield page
        cursor = page.following


def ids(pages):
    return [job.jobid for page in pages for job in page.jobs]


def find(pattern, **more):
    return JobSearch(pattern=pattern, matches=compile_patterns([pattern]), **more)


def test_pages_of_many_jobs_have_each_of_them_once(many):
    pages = [*read_pages(many.store, JobSearch())]
    assert sorted(ids(pages)) == sorted(jobid for jobid, _ in many.get_schedules())
    assert len(pages) > 10
    assert all(len(page.jobs) < 200 for page in pages)


def test_pages_of_few_jobs_are_in_the_order_of_their_ids(bike):
    for number in range(120):
        bike.set(f"{number:03}:A", "EVERY:1h")
    pages = [*read_pages(bike.store, JobSearch())]
    assert ids(pages) == [f"{number:03}:A" for number in range(120)]
    assert [len(page.jobs) for page in pages] == [50, 50, 20]
    assert pages[0].total == pages[0].looked_at == 120


def test_no_job_is_lost_when_a_hash_of_few_grows_between_two_pages(bike):
    for number in range(FEW - 10):
        bike.set(f"j{number:04}:A", "EVERY:1h")
    before, found = {jobid for jobid, _ in bike.get_schedules()}, []
    for page in read_pages(bike.store, JobSearch()):
        if not found:
            assert all(result is True for _, result in bike.set_many((f"a{n}:A", "EVERY:1h") for n in range(500)))
        found += ids([page])
    assert before <= {*found}


def test_no_job_is_lost_when_many_are_unset_between_two_pages(many):
    gone, found = iter(range(0, MANY - 700)), []
    for page in read_pages(many.store, JobSearch()):
        found += ids([page])
        for number in islice(gone, 100):
            many.unset(f"job{number}:{'AB'[number % 2]}")
    assert {f"job{n}:{'AB'[n % 2]}" for n in range(MANY - 700, MANY)} <= {*found}


def test_a_search_without_a_hit_ends_after_a_bounded_amount_of_work(many):
    page = many.store.overview.read_page(find("nothing*"), most=200, patience=3600)
    assert page.jobs == []
    assert page.following is not None
    assert 0 < page.looked_at < MANY
    assert page.total == MANY
    pages = [*read_pages(many.store, find("nothing*"), most=200, patience=3600)]
    assert 2 < len(pages) <= MANY / 200 + 1
    assert pages[-1].looked_at == MANY
    assert [page.looked_at for page in pages] == sorted(page.looked_at for page in pages)


def test_a_search_that_takes_too_long_makes_one_request_only_and_a_rare_job_is_found_on_some_page(many):
    assert len([*read_pages(many.store, find("nothing*"), patience=0)]) >= MANY / MOST_SCANNED
    assert len(ids(read_pages(many.store, find("job77?:*"), most=300))) == 10
    assert ids(read_pages(many.store, find("job1234:*"), most=300)) == ["job1234:A"]


def test_a_queue_has_all_of_its_jobs(many):
    others = {"work-A": [], "work-B": ["moved:A"]}  # one waits where another worker class has put it
    assert many.store.jobs.set([JobToSet("moved:A", "NOW", "now", True, "work-B")]) == []
    for queue, other in others.items():
        found = ids(read_pages(many.store, JobSearch(queue=queue)))
        assert len(found) == MANY / 2 + len(other)
        assert [jobid for jobid in found if not jobid.endswith(queue[-1])] == other


def test_jobs_come_in_the_order_in_which_they_are_due(many):
    pages = [*read_pages(many.store, JobSearch(by_next=True), patience=3600)]
    assert len(set(ids(pages))) == MANY
    dues = [job.next_run for page in pages for job in page.jobs]
    assert dues == sorted(dues)
    assert [len(page.jobs) for page in pages] == [50] * (MANY // 50)
    matching = [*read_pages(many.store, find("*7:?", by_next=True), patience=3600)]
    assert len(ids(matching)) == MANY / 10
    assert max(len(page.jobs) for page in matching) < 100


def test_jobs_that_are_due_at_the_same_instant_are_on_one_page_each(bike, client):
    key = bike.store.keys.timeline
    client.zadd(key, {f"x{n:04}": 10.0 for n in range(1000)})
    ranks, seen, last = Ranks(bike.store._namespace, key), [], None
    for _ in range(10):
        _, page = next(ranks.list_after(last, 100))
        seen += page
        last = page[-1]
        # Not even the place at which the page ended is left.
        client.zrem(key, last[1], page[0][1])
    assert [member for _, member in seen] == [f"x{n:04}".encode() for n in range(1000)]
    assert [page for _, page in ranks.list_after(last)] == []


def test_no_job_is_left_out_because_the_last_one_of_a_page_has_moved_elsewhere(bike, client):
    key = bike.store.keys.timeline
    client.zadd(key, {f"x{n:03}": float(n) for n in range(100)})
    ranks = Ranks(bike.store._namespace, key)
    _, page = next(ranks.list_after(None, 50))
    client.zadd(key, {page[-1][1]: 1000.0})  # it has run, and is due again later
    _, further = next(ranks.list_after(page[-1], 50))
    assert [member for _, member in further] == [f"x{n:03}".encode() for n in range(50, 100)]


def test_a_sorted_set_is_walked_backwards_too(bike, client):
    key = bike.store.keys.failure_times
    client.zadd(key, {f"x{n:03}": 10.0 for n in range(100)})
    ranks = Ranks(bike.store._namespace, key)
    first, second = [page for _, page in ranks.list_before(None, 50)]
    assert [member for _, member in first + second] == [f"x{n:03}".encode() for n in range(99, -1, -1)]
    client.zrem(key, first[-1][1])
    assert [page for _, page in ranks.list_before(first[-1], 50)] == [second]


def test_each_filter_finds_its_jobs_and_no_other_one(bike, client):
    worker = Redbike(Acting(raising(ValueError("no luck"))), bike.prefix, client, on_error="stop")
    bike.set("dead:A", "NOW")
    assert worker.work_one() == "dead:A"
    bike.set("old:A", "NOW")
    assert worker.work_one() == "old:A"
    client.zrem(bike.store.keys.failure_times, "old:A")  # as many others have failed since
    bike.set("ran:A", "NOW")
    assert Redbike(Quiet("A"), bike.prefix, client).work_one() == "ran:A"
    bike.set("queued:A", "NOW")
    bike.set("later:B", "EVERY:1h")
    bike.set("late:B", "EVERY:1h@1000", after=1000)
    bike.set("due:B", "EVERY:1h")
    client.zadd(bike.store.keys.timeline, {"due:B": 1000.0})
    bike.set("held:B", "EVERY:1h")
    bike.store.jobs.reject("bad:B")
    bike.set("waited:B", "NOW")
    bike.set("forced:A", "EVERY:1h")
    assert list(bike.pause("held:B", "waited:B", "forced:A", reason="no disk"))
    bike.run("forced:A")  # it waits in a queue, and stays paused
    wanted = [
        (JobSearch(failed=True), ["dead:A", "old:A"]),
        (JobSearch(paused=True), ["forced:A", "held:B", "waited:B"]),
        (JobSearch(overdue=True), ["due:B", "forced:A", "late:B", "queued:A"]),
        (
            JobSearch(never_ran=True),
            ["bad:B", "due:B", "forced:A", "held:B", "late:B", "later:B", "queued:A", "waited:B"],
        ),
        (JobSearch(planned=True), ["due:B", "later:B"]),
        (JobSearch(status=Event.ENQ), ["forced:A", "late:B", "queued:A", "waited:B"]),
        (JobSearch(status=Event.ENQ, paused=True), ["forced:A", "waited:B"]),
        (JobSearch(status=Event.ENQ, queue="work-B"), ["late:B", "waited:B"]),
        (JobSearch(status=Event.TML, queue="work-B"), ["due:B", "held:B", "later:B"]),
        (JobSearch(status=Event.WRK), []),
        (JobSearch(status=Event.BAD), ["bad:B"]),
        (find("*d:?", failed=True), ["dead:A", "old:A"]),
        (find("l*", overdue=True), ["late:B"]),
    ]
    newest = bike.store.journal.read_newest()
    for search, found in wanted:
        assert ids(read_pages(bike.store, search, newest=newest)) == found, search
        listed = filter(search.matches, (job.jobid for job in bike.store.overview.list_jobs(search)))
        assert sorted(listed) == found, search


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1-2-3",
        "-1-0",
        f"0-{2**64}",
        "0-0-nan",
        "0-0-1-xyz",
        "9" * 30 + "-0",
        "0-0-x-aa",
        "٣-0",
        "1000-0",
        "0.-0",
        "0.x-0",
    ],
)
def test_a_cursor_that_nobody_has_given_is_refused(text):
    with pytest.raises(BadConfig, match="bad cursor"):
        Cursor.parse(text)


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(),
        Cursor(1, 2**64 - 1),
        Cursor(0, 0, (-1.5e-7, b"a-\xff\n")),
        Cursor(2, 3, (0.1, b"")),
        Cursor(650, 1, (2.0, b"a"), 5),
        Cursor(9, missed=2**63),
    ],
)
def test_a_cursor_comes_back_from_its_text(cursor):
    assert Cursor.parse(cursor.format()) == cursor


def test_a_cursor_tells_how_far_it_is():
    assert [measure_scan(cursor) for cursor in range(4)] == [0, 0.5, 0.25, 0.75]
