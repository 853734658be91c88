"""The dispatcher: it moves due jobs from the timeline to their queues, and brings lost runs back.

1. Survey: one read-only script says what is due, whose worker is not heard of any more, and what comes next.
2. Move what is due, a batch at a time in order of due time, each batch one atomic step.
3. End the runs that are lost, by ``on-lost``.
4. Sleep until the next due time or lease, or until something earlier is set, and keep the time once a second.

It holds no lock: a batch names the due time of each of its jobs, and a job that is no longer due then is passed over.
So two dispatchers are one that works and one that finds nothing left to do, and one that dies is not missed.
"""

import logging
import time
from collections import Counter

from redbike import timefile
from redbike.config import Settings
from redbike.errors import RedbikeError
from redbike.loop import Loop
from redbike.outcome import COUNT_LIMIT, commit, given_back, lost
from redbike.records import Survey
from redbike.schedule import parse
from redbike.store import LOOK, PAGE, Store

log = logging.getLogger("redbike.dispatcher")

NAP = 1.0  # seconds: how often the time is kept
LONGEST_SLEEP = 5.0  # seconds after which it looks again, whatever it was told
GAP = 2.0  # seconds without a dispatcher after which occurrences count as missed


class Dispatcher:
    """Dispatches the jobs of `store`, keeping the time in `settings.timefile`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.loop = Loop(store)
        self._kept = 0.0
        self._survey_at: tuple[float, Survey] | None = None

    def dispatch(self, after: float | None = None) -> None:
        """Dispatch until halted. The first pass moves what is due by `after`, or else by now."""
        self.loop.insist(lambda _: self.skip_missed(after))
        if after is not None:
            self.loop.insist(lambda _: self.dispatch_due(after))
        try:
            self.loop.run(self._turn)
        finally:
            self._keep_time_at_exit()

    def dispatch_due(self, now: float | None = None) -> int:
        """One pass: move everything due by `now` (default: Redis' clock), bring back lost runs; how many moved."""
        moved = 0
        while True:
            survey = self.store.survey(now)
            moved += self.move(survey, now)
            self.recover(survey, now)
            if len(survey.due) < LOOK and len(survey.lost) < PAGE:
                self._survey_at = (time.monotonic(), survey)
                return moved

    def move(self, survey: Survey, now: float | None = None) -> int:
        """Timeline → queues, for one batch; how many jobs moved."""
        return self.store.dispatch([(jobid, due, self._queue_of(jobid)) for jobid, due in survey.due], now)

    def recover(self, survey: Survey, now: float | None = None) -> None:
        """In flight → where ``on-lost`` says, for the runs whose worker is not heard of any more."""
        held = Counter(run.tag for run in survey.lost)
        if len(survey.lost) == PAGE and len(held) > 1:
            # Of those that were taken with the last one there may be more.
            del held[survey.lost[-1].tag]
        for run in survey.lost:
            if run.tag not in held:
                continue
            together = held[run.tag] > 1 and self.settings.on_lost == "requeue"
            outcome = given_back(run) if together else lost(run, self.settings, survey.now)
            word, place = commit(self.store, run, outcome, self.settings, lambda: survey.now, now)
            if word == "ok":
                count = "which was one of several" if together else f"loss {run.losses + 1} in a row"
                log.warning("%s: run %s was lost, %s; now %s", run.jobid, run.tag, count, place)

    def skip_missed(self, after: float | None = None) -> None:
        """With ``catchup = none``: jobs that came due while no dispatcher ran go on to their next occurrence."""
        now, dispatched = self.store.horizon()
        since = after
        if since is None and self.settings.timefile:
            # With every policy, so that a file that is of no use is reported at once.
            since = timefile.read(self.settings.timefile, now)
        if since is None:
            since = dispatched
        if self.settings.catchup != "none" or since is None or now - since < GAP:
            return
        for jobid, due in self.store.missed(since, now):
            self._skip(jobid, due, now)

    def _skip(self, jobid: str, due: str, now: float) -> None:
        stored = self.store.schedule(jobid) or "STOP"
        try:
            schedule = parse(stored)
        except RedbikeError as error:
            log.error("%s: %s", jobid, error)
            return
        if schedule.once or schedule.backs_off:
            return
        count = 1 + schedule.count(float(due), now, COUNT_LIMIT)
        self.store.skip(jobid, due, schedule.text, schedule.next(now), count)

    def _queue_of(self, jobid: str) -> str:
        try:
            return self.store.queue_for(jobid)
        except Exception as error:
            # The worker class is the user's own: whatever it raises must not stop the other jobs.
            log.error("%s: it has no queue: %s", jobid, error)
            return ""

    def _turn(self) -> None:
        """One pass, then sleep until there is something to do."""
        self.dispatch_due()
        assert self._survey_at is not None
        began, survey = self._survey_at
        self.loop.heed(survey.control)
        coming = [moment - survey.now for moment in (survey.next_due, survey.next_lease) if moment is not None]
        until = began + min([LONGEST_SLEEP, *coming])
        while not self.loop.stopping.is_set():
            self._keep_time()
            pause = min(NAP, until - time.monotonic())
            if pause <= 0 or self.loop.wait([self.store.keys.wakeup], pause):
                return

    def _keep_time(self) -> None:
        """Note up to when all is dispatched, at most once a second."""
        if time.monotonic() - self._kept >= NAP:
            self._kept = time.monotonic()
            self._note(self._dispatched_until())

    def _dispatched_until(self) -> float:
        assert self._survey_at is not None
        began, survey = self._survey_at
        reached = survey.now + time.monotonic() - began
        return reached if survey.next_due is None else min(reached, survey.next_due)

    def _note(self, until: float) -> None:
        if self.settings.timefile:
            timefile.write(self.settings.timefile, until)
        self.store.advance(until)

    def _keep_time_at_exit(self) -> None:
        if self._survey_at is None:
            return
        try:
            self._note(self._dispatched_until())
        except RedbikeError as error:
            log.warning("the time of the exit is not noted in Redis: %s", error)
