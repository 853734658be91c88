"""Pages of the jobs that are late, for lists."""

import math
from collections.abc import Sequence

from redbike.loop.alerts.late import Late
from redbike.store.cursors import Cursor
from redbike.store.job import Job, JobPage, JobSearch
from redbike.store.namespace import split
from redbike.store.overview import ROWS
from redbike.store.records import decode, encode
from redbike.store.store import Store


def read_late_page(store: Store, late: Sequence[Late], search: JobSearch, cursor: Cursor) -> JobPage:
    """Return a page of the jobs of `late` (from `find_late`) that match `search`."""
    behind = (cursor.entry[0], decode(cursor.entry[1])) if cursor.entry else (-math.inf, "")
    names = [each.jobid for each in late if (each.since, each.jobid) > behind and search.matches(each.jobid)]
    places, jobs = {each.jobid: number for number, each in enumerate(late)}, list[Job]()
    for page in split(store.catalog.keep_tagged(names, search.tags), ROWS):
        jobs += filter(search.fits, store.overview.read_named(page))
        if len(jobs) >= ROWS:
            last = places[page[-1]]
            following = Cursor(entry=(late[last].since, encode(page[-1]))) if page[-1] != names[-1] else None
            return JobPage(jobs, last + 1, len(late), following)
    return JobPage(jobs, len(late), len(late), None)
