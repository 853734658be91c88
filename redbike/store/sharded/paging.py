"""Pages of runs and failures of several shards: of one shard after the other, or in the order of all of them."""

import heapq
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from redbike.store.cursors import Cursor, make_bad_cursor
from redbike.store.history import PastRun
from redbike.store.namespace import Entry, split
from redbike.store.past_runs import ROWS, Dead, Failure, FailurePage, RunPage
from redbike.store.records import decode, encode
from redbike.store.sharded.missing import ask_each
from redbike.store.sharded.routes import Ask, Given, Named, Shards, chain_all, same
from redbike.store.store import Store


def list_soonest(shards: Shards, ask: Ask, given: Given, named: Named) -> list[str]:
    """Return the ids of the jobs that are due first over all shards."""
    found = []
    for jobs in ask_each(shards, lambda shard: shard.overview.read_named(ask(shard)(*given, **named))):
        found += [(job.next_run, encode(job.jobid)) for job in jobs if job.next_run is not None]
    return [decode(jobid) for _, jobid in heapq.nsmallest(given[0], found)]


def list_in_flight(shards: Shards, ask: Ask, given: Given, named: Named) -> tuple[list[Any], int]:
    """Return the oldest runs in flight of all shards, and how many there are."""
    pairs = list(ask_each(shards, lambda shard: ask(shard)(*given, **named)))
    runs = sorted(chain.from_iterable(runs for runs, _ in pairs), key=lambda each: each.run.start)
    return runs[: given[0]], sum(number for _, number in pairs)


def list_since(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[list[PastRun]]:
    """Yield the kept runs of each job, see `Journal.list_since`: first those of the jobs in `first`, of all shards."""
    since, first = (*given, ())[:2]
    owns = dict(shards.divide(list(dict.fromkeys(first)), same))
    sizes = {shard: len(own) for shard, own in owns.items()}

    def tell(shard: Store, begin: int, end: int | None) -> Iterator[list[PastRun]]:
        return islice(ask(shard)(since, owns.get(shard, ())), begin, end)

    firsts = chain_all(shards, lambda shard: tell(shard, 0, sizes.get(shard, 0)))
    return chain(firsts, chain_all(shards, lambda shard: tell(shard, sizes.get(shard, 0), None)))


TOGETHER = 5000  # ids that are divided among shards at a time


def read_runs(shards: Shards, ask: Ask, given: Given, named: Named) -> RunPage:
    """Return the newest runs of all shards."""
    pages: list[RunPage] = list(ask_each(shards, lambda shard: ask(shard)(*given, **named)))
    rows: int = named["rows"] if "rows" in named else given[2] if len(given) > 2 else ROWS
    order = heapq.merge(*(page.runs for page in pages), key=_order, reverse=True)
    newest = list(islice(order, rows))
    is_more = any(page.is_more for page in pages) or sum(len(page.runs) for page in pages) > rows
    complete = all(page.is_complete for page in pages)
    return RunPage(
        newest, complete, is_more, sum(page.looked_at for page in pages), sum(page.total for page in pages),
        None if complete else Cursor()
    )  # fmt: skip


def read_runs_of_many(shards: Shards, ask: Ask, given: Given, named: Named) -> RunPage:
    """Return a page of the runs of many jobs: it is of one shard, and later pages are of the next ones."""
    search, cursor, *more = given
    page: RunPage = ask(get_shard(shards, cursor.source, cursor))(search, cursor._replace(source=0), *more, **named)
    following = None
    if page.following is not None:
        following = page.following._replace(source=cursor.source)
    elif cursor.source + 1 < len(shards):
        following = Cursor(cursor.source + 1)
    total = page.total * len(shards)  # about
    return page._replace(
        looked_at=min(total, page.looked_at + page.total * cursor.source), total=total, following=following
    )


def get_shard(shards: Shards, number: int, cursor: Cursor) -> Store:
    """Return the shard in which a page begins. Raise `BadConfig` if its cursor names one that is not there."""
    if number >= len(shards):
        raise make_bad_cursor(cursor.format())
    shard: Store = shards[number]
    return shard


def _order(run: PastRun) -> tuple[float, str]:
    return run.started, run.jobid


def read_failures(shards: Shards, ask: Ask, given: Given, named: Named) -> FailurePage:
    """Return the newest failures of all shards, before an entry."""
    pages: list[FailurePage] = list(ask_each(shards, lambda shard: ask(shard)(*given, **named)))
    rows = given[1]
    order = heapq.merge(*(page.failures for page in pages), key=_locate, reverse=True)
    found = list(islice(order, rows))
    is_more = any(page.following for page in pages) or sum(len(page.failures) for page in pages) > rows
    return FailurePage(found, sum(page.total for page in pages), _locate(found[-1]) if is_more and found else None)


def _locate(failure: Failure) -> Entry:
    """Return where a failure stands in the order of all: a page begins before it."""
    return failure.failed, encode(failure.jobid)


def find_dead(shards: Shards, ask: Ask, given: Given, named: Named) -> Dead:
    """Return the dead jobs of all shards, and the failures of those that failed last; the newest come first."""
    deads: list[Dead] = list(ask_each(shards, lambda shard: ask(shard)(*given, **named)))
    found = (each for dead in deads for each in dead.failures)
    failures = sorted(found, key=lambda each: (each.failed, each.jobid), reverse=True)[: given[0]]
    times = {each.jobid: each.failed for each in failures}
    for dead in deads:
        times |= dead.times
    return Dead(times, failures)


def list_coming(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[Any]:
    """Yield pages of the jobs that have something to run: of all jobs, or of those that are given."""
    jobids = named.get("jobids", given[2] if len(given) > 2 else None)
    if jobids is None:
        return chain.from_iterable(ask_each(shards, lambda shard: ask(shard)(*given, **named)))
    others, more = given[:2], {"note_paused": given[3]} if len(given) > 3 else {}
    return chain.from_iterable(
        ask(shard)(*others, **(named | more | {"jobids": own}))
        for page in split(jobids, TOGETHER)
        for shard, own in shards.divide(page, same)
    )
