"""Keep the time up to which all is dispatched; skip what was missed since then, with ``catchup = none``, and late ones.

The time is kept in Redis, and in the timefile if there is one.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.errors import RedbikeError
from redbike.loop.catchup import count_given_up, pass_late_ones
from redbike.loop.timefile import Timefile
from redbike.schedule.kinds import Schedule
from redbike.store.namespace import PAGE, split
from redbike.store.schedules import find_schedule
from redbike.store.scripts import Call
from redbike.store.store import Store
from redbike.store.timeline import Survey, is_ahead
from redbike.store.upkeep import MINE, REPAIR, Rewind

log = logging.getLogger("redbike.dispatcher")

NAP = 1.0  # seconds: how often the time is kept
KEEPING = 0.05  # seconds that keeping the time may take
BEHIND = 3.0  # seconds by which Redis may be behind the timefile, if the dispatcher was killed in between
GAP = 60.0  # seconds without a dispatcher after which occurrences count as missed: a restart takes less

Late = tuple[str, str]  # job id, due time as Redis spells it


class Timekeeper:
    """Keeps the time of the dispatcher `owner`.

    Redis has two instants: one of all dispatchers, and one of this dispatcher. When a master was replaced, another
    dispatcher may have advanced the first one at the new master, while this dispatcher still used the old master.
    """

    def __init__(self, store: Store, settings: Settings, timefile: Timefile | None, owner: str) -> None:
        self._store = store
        self._owner = owner
        self._settings = settings
        self._timefile = timefile
        self._kept = 0.0  # when it was kept last, by the monotonic clock
        self._known: float | None = None  # until when all is dispatched, as the server has known, too
        self._mine: float | None = None  # what it has kept last itself
        self._survey: Survey | None = None
        self._surveyed_at = 0.0  # by the monotonic clock
        self.when_rewound: Callable[[], None] = lambda: None  # called when the server has lost data
        self._ahead: float | None = None  # what Redis' clock said when it was ahead, if that is not kept yet

    def note(self, survey: Survey, at: float) -> None:
        """Note that `survey` was made `at` an instant of the monotonic clock, and that all of it is dispatched."""
        before = self._survey
        if before and is_ahead(before.now + at - self._surveyed_at, survey.now):
            # It may have been ahead for a moment only. What came due then is late now, so somebody has to be told.
            self._ahead = max(before.now, self._ahead or 0.0)
        self._survey, self._surveyed_at = survey, at

    def skip_missed(self, after: float | None = None, goes_on: Callable[[], bool] = lambda: True) -> None:
        """With ``catchup = none``, move jobs that came due while no dispatcher ran to their next occurrence.

        After each page of them, it stops unless it `goes_on`.
        """
        now, dispatched = self._store.timeline.read_dispatched()
        ended = after  # when the last dispatcher did, as far as it is known
        if ended is None and self._timefile:
            # With every policy, so that an invalid file is logged at once.
            ended = self._timefile.read(now)
            if ended is not None and dispatched is not None:
                self._known = ended - BEHIND
        since = ended
        if after is None and dispatched is not None and not is_ahead(dispatched, now):
            # Another dispatcher may have gone on after the timefile was written. A restored server is behind the file.
            since, ended = dispatched, max(dispatched, ended or 0.0)
        if since is not None and ended is not None and now - ended >= GAP:
            skip_missed(self._store, self._settings, since, now, goes_on)

    def keep(self, until: float) -> None:
        """Keep the time about once a second, unless that might make a job late that is due at `until` (monotonic)."""
        since = time.monotonic() - self._kept
        if since >= NAP and (until - time.monotonic() > KEEPING or since >= 2 * NAP):
            self._kept = time.monotonic()
            self._keep()

    def keep_at_exit(self) -> None:
        """Keep the time at the end of the process."""
        if self._survey is None:
            return
        try:
            self._keep(ended=True)
        except RedbikeError as error:
            log.warning("cannot write the time of the exit to Redis: %s", error)

    def _keep(self, ended: bool = False) -> None:
        assert self._survey is not None
        # Redis' clock as far as it is known without a request; it is never ahead.
        clock = self._survey.now + time.monotonic() - self._surveyed_at
        dispatched, due = self._survey.dispatched, self._survey.next_due
        until = clock if due is None else min(clock, due)
        if self._timefile:
            self._timefile.write(until)
        if self._ahead:
            self._store.timeline.advance(self._ahead)
            dispatched, self._ahead = max(dispatched or 0.0, self._ahead), None
        mine = self._mine
        was_ahead = any(each is not None and is_ahead(each, clock) for each in (dispatched, mine))
        if was_ahead:
            mine = None
        # Another dispatcher may have found out that the clock was ahead.
        moments = [each for each in (self._known, dispatched) if each is not None and each >= 0]
        known = max((each for each in moments if not is_ahead(each, clock)), default=None)
        rewind = self._store.timeline.advance(until, was_ahead, known, self._owner, mine, ended)
        self._mine = max(until, 0.0 if rewind or mine is None else mine)
        if rewind and (found := Rewind.parse(*rewind, self._store.keys.prefix)):
            what = f"{REPAIR} brings them back" if found.is_of_clock else f"{MINE} when you have looked"
            log.error("%s; %s", found.describe(), what)
            self.when_rewound()
        # From here on, whatever there was before.
        self._known = max(until, 0.0 if rewind or known is None else known)
        self._survey = replace(self._survey, dispatched=until)


def skip_missed(
    store: Store, settings: Settings, since: float, now: float, goes_on: Callable[[], bool] = lambda: True
) -> None:
    """Move jobs with ``catchup = none`` that came due after `since` to their next occurrence, while it `goes_on`."""
    if settings.catchup != "none" and not store.catalog.has_options():
        return
    for page in split(store.timeline.list_between(since, now), PAGE):
        calls = []
        for jobid, due, text, schedule, own in _read_jobs(store, settings, page):
            count = count_given_up(schedule, float(due), now) if own.catchup == "none" else 0
            if count:
                calls.append(store.timeline.pack_skip(jobid, due, text, schedule.find_place(now), count))
        store.scripts.run_all(calls)
        if not goes_on():
            return


def skip_late(store: Store, settings: Settings, late: Sequence[Late], now: float) -> list[Late]:
    """Move jobs that are late, or have expired, to the first occurrence that is neither, which may be past.

    Return the jobs that are not to be skipped after all.
    """
    left, calls = dict(late), list[Call]()
    for jobid, due, text, schedule, own in _read_jobs(store, settings, late):
        first, passed = pass_late_ones(schedule, float(due), now, own)
        for reason, count in passed.items():
            calls.append(store.timeline.pack_skip(jobid, due, text, first, count, reason))
            del left[jobid]
    store.scripts.run_all(calls)
    return list(left.items())


def _read_jobs(
    store: Store, settings: Settings, jobs: Sequence[Late]
) -> Iterator[tuple[str, str, str, Schedule, Settings]]:
    """Yield each job that is known with its due time, its schedule and its settings; log an invalid schedule.

    Before the schedule is its text as it is stored, which another version or a person may have written.
    """
    for page in split(jobs, PAGE):
        stored = store.questions.read_schedules([jobid for jobid, _ in page])
        for (jobid, due), (text, options) in zip(page, stored, strict=True):
            if text is None:
                continue
            try:
                schedule = find_schedule(jobid, text, options)
            except RedbikeError as error:
                log.error("%s: %s", jobid, error)
                continue
            yield jobid, due, text, schedule, override(settings, options)
