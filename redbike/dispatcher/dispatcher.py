"""The dispatcher: it moves due jobs from the timeline to their queues, and brings lost runs back.

1. Survey: one read-only script tells what is due, which tags have lost their worker, and what comes next.
2. Move what is due, in order of due time, some jobs in each atomic step. Jobs that the last survey has announced are
   moved at their instant, without another survey. What is late by more than its grace, or has expired, is skipped.
3. End the lost runs by ``on-lost``, all runs of a tag in one step.
4. Begin the blackouts whose time has come, before anything is moved that is due then too. Resume the jobs whose pause
   is over. Skip what has expired in its queue. Open the queues whose timer has come: a pause is over, or a rate
   allows more.
5. Sleep until the next due time, lease or timer, or until something earlier is set. Keep the time once a second,
   forget one-offs that have ended, archive what the journal has of ended runs, and move jobs that wait where no
   worker looks to the queue of their function. Call the ping URL of the dispatcher once a minute, as long as it
   comes this far, and those of all other shards do.

It holds no lock. A step names the due time of each of its jobs, and the script passes over a job that is not due then
any more. So of two dispatchers one works and the other finds nothing to do. If one dies, the other goes on.
"""

import itertools
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.dispatcher.due_timers import run_timers
from redbike.dispatcher.housekeeping import Archiving, Forgetting, Spreading
from redbike.dispatcher.misplaced import Moving
from redbike.dispatcher.missed import NAP, Timekeeper, skip_late
from redbike.dispatcher.unplaced import Placing
from redbike.loop.alerts.thread import Alerting
from redbike.loop.changes import decide_again
from redbike.loop.loop import Loop
from redbike.loop.pings import Pings, Switch
from redbike.loop.policies import decide_lost, decide_suspect
from redbike.loop.registration import Presence
from redbike.loop.steps import log_enqueued, log_lost
from redbike.loop.timefile import Timefile
from redbike.process import watchdog
from redbike.store.namespace import PAGE, STEP, split
from redbike.store.next_state import Answer, EndedRun
from redbike.store.processes import LOST
from redbike.store.run import Run
from redbike.store.scripts import Call, Reply
from redbike.store.signals import Signal
from redbike.store.store import Store
from redbike.store.timeline import DueJob, Survey

log = logging.getLogger("redbike.dispatcher")

LONGEST_SLEEP = 5.0  # seconds after which it looks again, whatever it was told
EARLY = 0.003  # seconds: a blocking wait is up to a millisecond late, so the last moments before an instant are slept
OVERSLEPT = 0.0002  # seconds that a sleep may take too long; it is awake for them
ROUNDING = 1e-6  # seconds by which a sum of clocks may be too small
AHEAD = 8  # steps that the server is busy with while the next ones are made
SETTLING = 4.0  # seconds after an outage, or after a start, in which workers may send late heartbeats
OVERDUE = 4.0  # seconds by which a turn is late if this process, or the whole host, was suspended


class Dispatcher:
    """Dispatches the jobs of `store`; calls `ping_url` once a minute; keeps the time in `timefile`, else the one set.

    `number` says which one of so many `shards` this is.
    """

    def __init__(
        self, store: Store, settings: Settings, ping_url: str | None = None, timefile: Timefile | None = None,
        owner: str = "", number: int = 0, shards: int = 1
    ) -> None:  # fmt: skip
        self.store = store
        self.settings = settings
        self.loop = Loop(store, may_be_away=shards > 1)
        self._placing, self._moving = Placing(store), Moving(store)
        self.presence = Presence(self.loop, "dispatcher", settings, describe=self._placing.tell, owner=owner)
        own = Timefile(settings.timefile) if settings.timefile and timefile is None else timefile
        self.timekeeper = Timekeeper(store, settings, own, self.presence.owner)
        self.divide: Callable[[str], None] = lambda name: None  # the limits of a queue among shards, soon
        self._archiving = Archiving(store)
        self._forgetting = Forgetting(store)
        self._spreading = Spreading(store, settings)
        self._pings = Pings()
        self.switch, self._number = Switch(self._pings, ping_url, shards), number
        self.alerting = Alerting(store, settings, is_dispatcher=True)
        self._pipeline = store.scripts.pipeline_class(store.client, self.loop.stopping.is_set)
        self._surveyed: Survey | None = None
        self._surveyed_at = 0.0  # by the monotonic clock
        self._offset = float("-inf")  # Redis' clock less the monotonic one
        self._next_turn = float("inf")  # when the next turn is to begin, by Redis' clock
        self._began_at = float("-inf")  # when `dispatch` began, by the monotonic clock; a single pass waits for nobody
        self.before_turn: Callable[[], None] = lambda: None

    def dispatch(self, after: float | None = None) -> None:
        """Dispatch until halted. The first pass moves what is due by `after`, or else by now."""
        with self.loop.handle_signals(), self.presence:
            self._began_at = time.monotonic()
            self.alerting.start()
            self.loop.retry_until_up(lambda _: self.timekeeper.skip_missed(after, self.presence.goes_on))
            if after is not None and not self.loop.stopping.is_set():
                self.loop.retry_until_up(lambda _: self.dispatch_due(after))
            try:
                self.loop.run(self._turn)
            finally:
                self.timekeeper.keep_at_exit()
                self.close()

    def close(self) -> None:
        """Release the connection, and end the threads."""
        self.alerting.stop()
        self.rest()
        self._pings.stop()

    def rest(self) -> None:
        """Release the connection until the next pass."""
        self._pipeline.close()

    def dispatch_due(self, now: float | None = None) -> int:
        """Move all that is due by `now` (default: Redis' clock), recover lost runs; return how many jobs moved."""
        store = self.store if now is None else self.store.at(now)
        moved, due, before = 0, self._list_expected() if now is None else [], None
        while True:
            replies, survey = self._move_and_survey(store, due, before is None or not before.lost)
            watchdog.feed()
            self.presence.renew()
            moved += sum(map(store.timeline.read_dispatch, replies))
            late = [job for reply in replies for job in store.timeline.read_late(reply)]
            moved += self._skip_late(store, late, survey.now) if late else 0
            if before is not None:
                # Only after its due jobs have moved: a lost run has overlapped the occurrence that is due now.
                self._recover(store, before)
            self._moving.hear(store, survey.timers)
            if survey.timers and run_timers(store, self.settings, survey.timers, self.divide):
                # Jobs that are due may be held since then.
                before, due = None, []
                continue
            before, due = survey, self._placing.find_queues(survey.due)
            if not due and not late:
                recovered = self._recover(store, survey)
                is_more = recovered and len(survey.lost) >= PAGE
                if not (survey.timers or is_more):
                    self._surveyed = survey
                    if now is None:
                        # An instant that somebody names may be far ahead.
                        self.timekeeper.note(survey, self._surveyed_at)
                    return moved
                before = None

    def _skip_late(self, store: Store, late: Sequence[tuple[str, str]], now: float) -> int:
        """Skip occurrences that are late or have expired; move those that are not, and return how many."""
        left = self._placing.find_queues(skip_late(store, self.settings, late, now))
        steps = _split(left)
        replies = self._pipeline.run([self._pack_dispatch(store, step, late_too=True) for step in steps])
        self._log_enqueued(store, steps, replies)
        return sum(map(store.timeline.read_dispatch, replies))

    def _move_and_survey(self, store: Store, due: Sequence[DueJob], ahead: bool) -> tuple[list[Reply], Survey]:
        """Move jobs from the timeline to queues; return the replies to such steps since the last call, and a survey.

        With `ahead` the survey passes over the last steps of many, which are moved while its reply is read.
        """
        steps = _split(due)
        # With a line for each job, the replies are to be those to these steps.
        late = steps[-AHEAD:] if ahead and len(steps) > AHEAD and not _logs_each() else []
        early = steps[: len(steps) - len(late)]
        calls, moved = (self._pack_dispatch(store, step) for step in early), list[Reply]()
        if len(early) == 1:
            # Workers take these few jobs before the survey keeps the server busy.
            moved = self._pipeline.run(calls)
        asked = time.monotonic()
        *rest, surveyed = self._pipeline.run(itertools.chain(calls, [store.timeline.pack_survey(sum(map(len, late)))]))
        moved += rest
        self._log_enqueued(store, steps, moved)
        self._surveyed_at = time.monotonic()
        for step in late:
            self._pipeline.send_all([self._pack_dispatch(store, step)])
        survey = store.timeline.read_survey(surveyed)
        self._look_for_gap(survey.now)
        # Redis read its clock in between, so each survey narrows down the offset.
        self._offset = min(max(self._offset, survey.now - self._surveyed_at), survey.now - asked)
        if not survey.due:
            moved += self._pipeline.run([])
        return moved, survey

    def _look_for_gap(self, now: float) -> None:
        """Check whether the turn is so late that this process was suspended: workers may have been so, too.

        The monotonic clock may not show it: it stands still while a machine sleeps.
        """
        if now > self._next_turn + OVERDUE:
            self.loop.back_at = time.monotonic()
        self._next_turn = float("inf")

    def _log_enqueued(self, store: Store, steps: Sequence[Sequence[DueJob]], replies: Sequence[Reply]) -> None:
        if steps and _logs_each():
            answered = zip(steps, replies, strict=False)
            log_enqueued(log, (step[0] for step, reply in answered if store.timeline.read_dispatch(reply)))

    def _pack_dispatch(self, store: Store, step: Sequence[DueJob], late_too: bool = False) -> Call:
        settings = self.settings
        return store.timeline.pack_dispatch(step, settings.grace, settings.overlap, late_too, settings.expires)

    def _list_expected(self) -> list[DueJob]:
        """Return the jobs that the last survey has announced and that are due by now."""
        if self._surveyed is None:
            return []
        reached, timer = time.monotonic() + self._offset + ROUNDING, self._surveyed.next_timer
        if timer is not None:
            # It, or one behind it, may begin a blackout, into which falls what is due at the same instant.
            reached = min(reached, math.nextafter(timer, 0.0))
        return self._placing.find_queues(
            itertools.takewhile(lambda job: float(job[1]) <= reached, self._surveyed.coming)
        )

    def _recover(self, store: Store, survey: Survey) -> bool:
        """Move lost runs from in flight to where ``on-lost`` says: their worker stopped sending heartbeats.

        Return False, and move none, while workers may have had no time for a heartbeat.
        """
        if self._is_settling():
            # Live workers could send no heartbeat either. If they do now, nothing is lost.
            return False
        for _, runs in itertools.groupby(survey.lost, lambda run: run.tag):
            self._end_lost(store, list(runs), survey.now)
        for tag, jobids in survey.strays.items():
            store.upkeep.repair_tag(tag, jobids)
        return True

    def _is_settling(self) -> bool:
        """Tell whether it is soon after an outage, after this process was suspended, or after its start.

        An outage of which it knows nothing may have ended just before its start.
        """
        return self.loop.is_settling(SETTLING) or time.monotonic() - self._began_at < SETTLING

    def _end_lost(self, store: Store, runs: list[Run], now: float) -> None:
        """End the lost runs of a tag in one step: a part of them would look as if it had been taken alone."""
        own = [override(self.settings, run.options) for run in runs]
        suspects = [len(runs) > 1 and settings.on_lost == "requeue" for settings in own]
        ended = [
            (run, decide_suspect(run) if is_suspect else decide_lost(run, settings, now))
            for run, settings, is_suspect in zip(runs, own, suspects, strict=True)
        ]
        decided, answers = ended, self._end_whole(store, ended)
        while any(answer.word == "changed" for answer in answers):
            decided = [
                (replace(run, schedule=answer.detail), decide_again(run, next_state, answer, settings, now))
                if answer.word == "changed"
                else before
                for (run, next_state), settings, before, answer in zip(ended, own, decided, answers, strict=True)
            ]
            answers = self._end_whole(store, decided)
        for (run, next_state), settings, is_suspect, answer in zip(decided, own, suspects, answers, strict=True):
            if answer.word == "ok":
                if settings.ping_url and not run.backfill_of:
                    self._pings.end(run.jobid, settings.ping_url, next_state)
                log_lost(log, run, next_state, is_suspect, answer.detail)

    def _end_whole(self, store: Store, ended: list[EndedRun]) -> list[Answer]:
        (reply,) = self._pipeline.run([store.runs.pack_end(ended, whole=True)])
        return store.runs.read_end(reply)

    def _turn(self) -> None:
        """One pass, then sleep until there is something to do."""
        self.before_turn()
        self.dispatch_due()
        assert self._surveyed is not None
        self.loop.check_halt({self.store.keys.prefix: Signal(self._surveyed.control, self._surveyed.now)})
        self.switch.press(self._number)
        survey = self._surveyed
        moments = [moment for moment in (survey.next_due, survey.next_lease, survey.next_timer) if moment is not None]
        longest = NAP if survey.lost and self._is_settling() else LONGEST_SLEEP
        until = min([self._surveyed_at + longest, *(moment - self._offset for moment in moments)])
        self._next_turn = until + self._offset
        is_more, is_moving, is_ripe = True, True, survey.is_ripe
        while not self.loop.stopping.is_set():
            self.timekeeper.keep(until)
            if not self.loop.is_settling(LOST):
                self._spreading.go_on()
            is_ripe = self._forgetting.go_on(until, is_ripe)
            is_more = is_more and self._archiving.go_on(until, survey.journal)
            is_moving = is_moving and self._moving.go_on(until)
            pause = until - time.monotonic()
            if pause <= EARLY:
                time.sleep(max(0.0, pause - OVERSLEPT))
                while time.monotonic() < until:
                    pass
                return
            if self.loop.wait(
                [self.store.keys.wakeup], 0.0 if is_more or is_moving or is_ripe else min(NAP, pause - EARLY / 2)
            ):
                return


def _logs_each() -> bool:
    return log.isEnabledFor(logging.DEBUG)


def _split(due: Sequence[DueJob]) -> list[list[DueJob]]:
    """Return the jobs in steps: one in each if each has a line in the log, as a reply only counts those that moved."""
    return list(split(due, 1 if _logs_each() else STEP))
