"""Pages of the jobs that are late, for those who list them."""

from collections.abc import Sequence

from redbike.loop.alerts.late import Late
from redbike.store.cursors import Cursor
from redbike.store.namespace import split
from redbike.store.overview import ROWS, Job, JobPage, JobSearch
from redbike.store.records import encode
from redbike.store.store import Store


def read_late_page(store: Store, late: Sequence[Late], search: JobSearch, cursor: Cursor) -> JobPage:
    """Return a page of those jobs of `late`, as `find_late` has found them, for which `search` holds."""
    entries = [(each.since, encode(each.jobid)) for each in late]
    names = [
        each.jobid
        for each, entry in zip(late, entries, strict=True)
        if (cursor.entry is None or entry > cursor.entry) and search.matches(each.jobid)
    ]
    places, jobs = {each.jobid: number for number, each in enumerate(late)}, list[Job]()
    for page in split(store.questions.keep_tagged(names, search.tags), ROWS):
        jobs += filter(search.fits, store.overview.read_named(page))
        if len(jobs) >= ROWS:
            last = places[page[-1]]
            following = Cursor(entry=entries[last]) if page[-1] != names[-1] else None
            return JobPage(jobs, last + 1, len(late), following)
    return JobPage(jobs, len(late), len(late), None)
