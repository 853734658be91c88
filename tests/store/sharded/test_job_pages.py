"""Pages of jobs in the order of all shards: as one shard has them, whatever happens between two of them."""

import random

import pytest

from redbike import BadConfig, Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.errors import Unreachable
from redbike.store.cursors import ROWS, Cursor
from redbike.store.job import JobSearch
from redbike.store.patterns import compile_patterns
from tests.shards import divide
from tests.states import queue_for
from tests.store.test_paging import read_pages
from tests.verbs import set_job

NOW = 1_900_000_000.0
JOBS = [f"job-{number}:{'AB'[number % 2]}" for number in range(500)]
INSTANTS = [NOW + 60 * number for number in range(-3, 9)]  # so most jobs are due together with others
PATTERN = "job-*3:?"


class Twins:
    """The same jobs in one shard and in four."""

    def __init__(self, client, prefix):
        bikes = [Redbike(RoundRobin("A:B"), f"{prefix}{n}", client, shards=n) for n in (1, 4)]
        for bike in bikes:
            rows = [(jobid, "EVERY:1h", {"tags": "some" if jobid < "job-3" else ""}) for jobid in JOBS]
            assert all(result is True for _, result in bike.set_many(rows))
        self.stores = [bike.store.at(NOW) for bike in bikes]

    def put(self, name, scores):
        """Give jobs scores in a sorted set; None takes a job out."""
        for store in self.stores:
            for jobid, score in scores.items():
                put(store, name, jobid, score)


def put(store, name, jobid, score):
    shard = store.find_shard(jobid)
    key = getattr(shard.keys, name)
    if score is None:
        shard.client.zrem(key, jobid)
    else:
        shard.client.zadd(key, {jobid: score})


@pytest.fixture
def twins(client, prefix):
    twins, chance = Twins(client, prefix), random.Random(1)
    twins.put("timeline", {jobid: chance.choice(INSTANTS) for jobid in JOBS})
    twins.put("timeline", dict.fromkeys(JOBS[::9]))
    twins.put("failure_times", {jobid: chance.choice(INSTANTS) for jobid in JOBS[::2]})
    return twins


def walk(store, search, **limits):
    """Yield the ids on each page."""
    for page in read_pages(store, search, patience=60.0, **limits):
        assert page.looked_at <= page.total
        yield [job.jobid for job in page.jobs]


def join(pages):
    return [jobid for page in pages for jobid in page]


@pytest.mark.parametrize(
    "search",
    [
        JobSearch(by_next=True),
        JobSearch(planned=True),
        JobSearch(overdue=True),
        JobSearch(failed=True),
        JobSearch(by_next=True, queue="work-A", tags=frozenset({"some"})),
        JobSearch(by_next=True, pattern=PATTERN, matches=compile_patterns([PATTERN])),
    ],
)
def test_jobs_have_the_order_of_one_shard(twins, search):
    # Jobs that have no time come behind the others, shard by shard.
    timeless = {*JOBS[::9]} if search.by_next else set()
    for rows in (1, 60, 10_000):
        one, four = (join(walk(store, search, rows=rows)) for store in twins.stores)
        assert len(one) > 30
        assert sorted(four) == sorted(one)
        assert [each for each in four if each not in timeless] == [each for each in one if each not in timeless]
        assert timeless.isdisjoint(four[: len(one) - len(timeless & {*one})])


@pytest.mark.parametrize("seed", range(3))
def test_pages_are_those_of_one_shard_though_jobs_move_between_them(twins, seed):
    walks = []
    for store in twins.stores:
        walks.append([])
        for number, page in enumerate(walk(store, JobSearch(planned=True)), 1):
            walks[-1].append(page)
            chance = random.Random(100 * seed + number)
            for jobid in chance.sample(JOBS, 40):
                put(store, "timeline", jobid, chance.choice([*INSTANTS, None]))
    assert walks[0] == walks[1]
    assert len(walks[0]) >= 5


def test_a_page_takes_one_request_of_a_few_entries_of_each_shard(twins, client):
    client.config_resetstat()
    page = twins.stores[1].overview.read_page(JobSearch(by_next=True))
    assert client.info("commandstats")["cmdstat_zrange"]["calls"] == 4
    assert [len(page.jobs), page.looked_at, page.total] == [ROWS, ROWS, len(JOBS)]


def test_a_page_has_jobs_of_all_shards_however_slow_they_are(twins):
    search = JobSearch(pattern="job-1?:?", matches=compile_patterns(["job-1?:?"]))
    page = twins.stores[1].overview.read_page(search, patience=0.0)
    assert (len(page.jobs), page.looked_at, page.following) == (10, page.total, None)


@pytest.mark.parametrize("text", ["50-0", "990-0"])
def test_a_cursor_of_a_shard_that_is_not_there_is_refused(twins, text):
    cursor, store = Cursor.parse(text), twins.stores[1]
    for ask in (store.overview.read_page, store.past.read_runs_of_many):
        with pytest.raises(BadConfig, match=f"bad cursor '{text}'"):
            ask(JobSearch(), cursor)


@pytest.fixture
def store(client, prefix, own_server):
    """Four shards, one of them on a server of its own."""
    with connect(own_server.url) as other:
        store = divide(prefix, client, other, client, client, queue_for=queue_for)
        for number, jobid in enumerate(JOBS[:200]):
            set_job(store, jobid, "EVERY:1h", NOW + number)
        for jobid in JOBS[200:220]:
            store.jobs.reject(jobid)
        yield store


@pytest.mark.parametrize("search", [JobSearch(by_next=True), JobSearch(planned=True), JobSearch()])
def test_a_shard_that_is_away_is_named_when_all_others_are_listed(store, own_server, search):
    everything, found = join(walk(store, search)), []
    own_server.stop()
    with pytest.raises(Unreachable, match=f"^the shard {store.shards[1].keys.prefix} is missing: "):
        found.extend(jobid for page in walk(store, search) for jobid in page)
    assert found == [jobid for jobid in everything if store.number_shard(jobid) != 1]


@pytest.mark.parametrize("search", [JobSearch(by_next=True), JobSearch(planned=True), JobSearch()])
def test_no_job_is_left_out_of_a_shard_that_was_away_for_a_page(store, own_server, search):
    everything = join(walk(store, search))
    own_server.stop()
    pages = walk(store, search)
    found = next(pages)
    own_server.start()
    assert sorted(found + join(pages)) == sorted(everything)


def test_a_page_has_jobs_of_all_shards_that_answer_though_one_is_away_and_late(store, own_server):
    own_server.stop()
    search = JobSearch(pattern="job-1?:?", matches=compile_patterns(["job-1?:?"]))
    page = store.overview.read_page(search, patience=0.0)
    there = [jobid for jobid in JOBS[10:20] if store.number_shard(jobid) != 1]
    assert sorted(job.jobid for job in page.jobs) == there
    assert {store.number_shard(jobid) for jobid in there} == {0, 2, 3}


def test_all_shards_that_are_away_are_no_empty_page(own_server, prefix):
    with connect(own_server.url) as client:
        store = divide(prefix, client, client)
        own_server.stop()
        for search in (JobSearch(by_next=True), JobSearch()):
            with pytest.raises(Unreachable, match="is missing: "):
                join(walk(store, search))
