"""Skip occurrences on the timeline that are not to be run: those missed with ``catchup = none``, and late ones."""

import logging
from collections.abc import Iterator, Sequence

from redbike.config.settings import Settings, override
from redbike.errors import RedbikeError
from redbike.loop.occurrences import count_given_up, pass_late_ones
from redbike.schedule.kinds import Schedule, Stop
from redbike.store.enums import Skip
from redbike.store.namespace import PAGE
from redbike.store.schedules import find_schedule
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

Late = tuple[str, str]  # job id, due time as Redis spells it


def skip_missed(store: Store, settings: Settings, since: float, now: float) -> None:
    """Move jobs with ``catchup = none`` that came due after `since` to their next occurrence."""
    if settings.catchup != "none" and not store.questions.has_options():
        return
    for jobid, due, schedule, own in _read_jobs(store, settings, store.timeline.list_between(since, now)):
        count = count_given_up(schedule, float(due), now) if own.catchup == "none" else 0
        if count:
            store.timeline.skip(jobid, due, schedule.text, schedule.next(now), count)


def skip_late(store: Store, settings: Settings, late: Sequence[Late], now: float) -> list[Late]:
    """Move jobs that are late by more than their grace to the first occurrence that is not, which may be past.

    Return the jobs that are not to be skipped after all.
    """
    left = dict(late)
    for jobid, due, schedule, own in _read_jobs(store, settings, late):
        first, count = pass_late_ones(schedule, float(due), now, own)
        if first != float(due):
            store.timeline.skip(jobid, due, schedule.text, first, count, Skip.LATE)
            del left[jobid]
    return list(left.items())


def _read_jobs(store: Store, settings: Settings, jobs: Sequence[Late]) -> Iterator[tuple[str, str, Schedule, Settings]]:
    """Yield each job with its due time, its schedule and its settings; log an invalid schedule."""
    for first in range(0, len(jobs), PAGE):
        page = jobs[first : first + PAGE]
        stored = store.questions.read_schedules([jobid for jobid, _ in page])
        for (jobid, due), (text, options) in zip(page, stored, strict=True):
            try:
                schedule = find_schedule(jobid, Stop.text if text is None else text, options)
            except RedbikeError as error:
                log.error("%s: %s", jobid, error)
                continue
            yield jobid, due, schedule, override(settings, options)
