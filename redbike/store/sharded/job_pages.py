"""Pages of the jobs of all shards: first in one order over all shards, if the search has one, then shard by shard.

Each shard has the same order: by the score, and then by the bytes of the id. So an entry of one shard says where a page
begins in all shards.

A shard that does not answer is passed over, and the cursor notes that. It is asked once more after all others, from its
beginning. If it is back by then, none of its jobs is left out; otherwise the error names it.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from redbike.errors import Unreachable
from redbike.store.cursors import Cursor, RankPage, Step, walk_ranks
from redbike.store.job import Job, JobPage, JobSearch
from redbike.store.namespace import RANKS_PAGE, Entry
from redbike.store.overview import BEGINNING, MOST, PAGE_TIMEOUT, ROWS, Newest, add_last_runs, fill
from redbike.store.sharded.missing import is_tolerated, pass_over
from redbike.store.sharded.paging import get_shard
from redbike.store.sharded.routes import Ask, Given, Named, Shards, try_each
from redbike.store.store import Store

T = TypeVar("T")
PLACES = 10  # sources of a search, at most


def read_page(shards: Shards, ask: Ask, given: Given, named: Named) -> JobPage:
    """Return a page of the jobs of all shards; see `JobLister.read_page`."""
    return JobPager(shards, ask, *given, **named).read()


@dataclass(slots=True)
class JobPager:
    """Reads one page. A cursor whose source is less than `PLACES` is in the order over all shards.

    The next `PLACES` sources are those of the first shard, the `PLACES` after them those of the second one, and so on.
    """

    shards: Shards
    ask: Ask
    search: JobSearch
    cursor: Cursor = BEGINNING  # where the page begins
    newest: Newest | None = None
    rows: int = ROWS
    most: int = MOST
    patience: float = PAGE_TIMEOUT
    missed: int = field(init=False)  # a bit for each shard that was passed over
    until: float = field(init=False)
    order: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.missed = self.cursor.missed
        self.until = time.monotonic() + self.patience
        self.order = self.shards[0].overview.find_order(self.search)

    def read(self) -> JobPage:
        """Return the page. Raise `Unreachable` if only shards that do not answer are left."""
        page, goes_on = JobPage([], 0, 0, self.cursor), True
        if self.cursor.source < PLACES:
            page = self._read_in_order() if self.order else page._replace(following=self._find_next())
            goes_on = page.following is not None and page.following.source >= PLACES and len(page.jobs) < self.rows
        while goes_on:
            page, goes_on = self._read_shard(page)
        return page

    # ---- in the order of all shards

    def _read_in_order(self) -> JobPage:
        whole, newest = self.shards[0].whole, self.newest
        counts = self._ask_each(lambda shard: shard.overview.count_sources(self.search))
        total, has_rest = sum(map(sum, counts)), any(any(rest) for _, *rest in counts)

        def read(names: list[str]) -> list[Job]:
            found: list[Job] = whole.overview.read_named(names, newest or {})
            return found

        steps = self._walk_in_order(has_rest)
        found, last = fill(steps, read, self.search, self.rows, self.most, self.until)
        jobs = add_last_runs(found, newest, whole.journal.read_newest)
        if last:
            return JobPage(jobs, min(last.done, total), total, last.following)
        return JobPage(jobs, total, total, self._find_rest(has_rest))

    def _walk_in_order(self, has_rest: bool) -> Iterator[Step]:
        last, size, keep_tagged = self.cursor.entry, ROWS, self.shards[0].whole.catalog.keep_tagged
        while True:
            page = self._read_ranks(last, size)
            for step in walk_ranks([page], Cursor(missed=self.missed)):
                names = keep_tagged(filter(self.search.matches, step.names), self.search.tags)
                following = step.following or self._find_rest(has_rest)
                yield step._replace(names=list(names), following=following)
            if page.is_over:
                return
            last, size = page.entries[-1], RANKS_PAGE

    def _read_ranks(self, last: Entry | None, size: int) -> RankPage:
        """Return the entries of all shards behind `last`, at most `size` of each, up to where a shard may have more."""
        pages = self._ask_each(lambda shard: shard.overview.read_ranks(self.search, last, size))
        is_backwards = self.order == "descending"
        entries = sorted((entry for page in pages for entry in page.entries), reverse=is_backwards)
        ends = [page.entries[-1] for page in pages if not page.is_over]
        if ends:
            end = max(ends) if is_backwards else min(ends)
            entries = entries[: entries.index(end) + 1]
        return RankPage(sum(page.done for page in pages), entries, not ends)

    def _ask_each(self, ask: Callable[[Store], T]) -> list[T]:
        """Ask at the same time all shards that were not passed over. Raise `Unreachable` if none of them answers."""
        numbers = [number for number in range(len(self.shards)) if not self._is_missed(number)]
        found = try_each([self.shards[number] for number in numbers], ask) if numbers else []
        answers = [each for each in found if not isinstance(each, Unreachable)]
        for number, each in zip(numbers, found, strict=True):
            if isinstance(each, Unreachable):
                if not answers:
                    raise each
                self.missed |= 1 << number
        return answers

    def _find_rest(self, has_rest: bool) -> Cursor | None:
        """Return where to go on with jobs that have no order, or whose shard was passed over; None for nowhere."""
        return self._find_next() if has_rest or self.missed else None

    # ---- shard by shard

    def _read_shard(self, page: JobPage) -> tuple[JobPage, bool]:
        """Add the jobs of one more shard to a page. Return it, and whether it has room for those of the next shard."""
        cursor = page.following or BEGINNING
        number, source = divmod(cursor.source - PLACES, PLACES)
        shard, was_missed, before = get_shard(self.shards, number, cursor), self._is_missed(number), 0
        try:
            if self.order and not was_missed:
                before = shard.overview.count_sources(self.search)[0]
            # Each shard is asked once, however late it is: a page of few jobs must not lack those of some shards.
            limits = self.rows, self.most, max(0.0, self.until - time.monotonic())
            start = Cursor(source, cursor.scan, cursor.entry)
            found: JobPage = self.ask(shard)(self.search, start, self.newest, *limits)
        except Unreachable as error:
            if not was_missed:
                self.missed |= 1 << number
                return page._replace(following=self._find_next(number)), len(page.jobs) < self.rows
            if page.jobs and not is_tolerated():
                return page, False  # the next page names it
            pass_over(shard, error)
            rest = self._find_next(number, True)
            return page._replace(following=rest), rest is not None and len(page.jobs) < self.rows
        jobs, count = page.jobs + found.jobs, len(self.shards)
        total = found.total * count  # about
        if found.following:
            following: Cursor | None = self._place(number, found.following)
        else:
            following = self._find_next(number, was_missed)
        if following is None:
            return JobPage(jobs, total, total, None), False
        others = sum(self._turn(each) < self._turn(number) for each in range(count))
        done = before * count + (found.total - before) * others + found.looked_at - before
        return JobPage(jobs, min(done, total), total, following), not (found.following or len(jobs) >= self.rows)

    def _find_next(self, number: int = -1, was_missed: bool = False) -> Cursor | None:
        """Return where the next shard behind the shard `number` begins; None if that was the last one."""
        behind = (was_missed, number)
        found = min((each for each in map(self._turn, range(len(self.shards))) if each > behind), default=None)
        if found is None:
            return None
        is_missed, following = found
        return self._place(following, Cursor(1 if self.order and not is_missed else 0))

    def _place(self, number: int, cursor: Cursor) -> Cursor:
        return cursor._replace(source=PLACES * (number + 1) + cursor.source, missed=self.missed)

    def _turn(self, number: int) -> tuple[bool, int]:
        """Return the sort key of a shard: the shards that were passed over come last."""
        return self._is_missed(number), number

    def _is_missed(self, number: int) -> bool:
        return bool(self.missed >> number & 1)
