"""The ends of runs: what the server replies to them, and what follows if the job was changed during a run."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from redbike.config.settings import Settings
from redbike.errors import RedbikeError
from redbike.loop.changes import decide_again
from redbike.loop.loop import Loop
from redbike.loop.pings import Pings
from redbike.loop.policies import decide_left, decide_overrun
from redbike.store.next_state import Answer, EndedRun, NextState
from redbike.store.run import Run
from redbike.store.scripts import Reply
from redbike.store.store import Store
from redbike.worker.log_lines import RunLog
from redbike.worker.notify import Notifier

log = logging.getLogger("redbike.worker")

MANY = 1000  # ends after which a worker counts the entries of the journal
CROWDED = 4000  # entries from which on it archives them: no dispatcher does, or none can keep up


class Ends:
    """Ends runs, from any thread, and notifies ``ended``, the log and URLs. `settings_for` returns a run's settings."""

    def __init__(
        self, store: Store, loop: Loop, settings_for: Callable[[Run], Settings], notifier: Notifier, pings: Pings
    ) -> None:
        self._store = store
        self._notifier, self._pings = notifier, pings
        self._loop = loop
        self._settings_for = settings_for
        self.run_log = RunLog()
        self._entries = 0  # of the journal, which this process has added since it last counted them

    def end(self, ended: Sequence[EndedRun], patience: float | None = None) -> None:
        """End runs, until Redis answers. Raise `Unreachable` after `patience` seconds."""
        if ended:
            groups = group_by_tag(ended)
            self._loop.retry_until_up(lambda _: self._end_once(groups), patience)

    def _end_once(self, groups: Sequence[Sequence[EndedRun]]) -> None:
        """End groups of runs that were taken together."""
        replies = self._store.scripts.run_all(map(self._store.runs.pack_end, groups))
        self.follow_up([each for group in groups for each in group], list(replies))

    def follow_up(self, ended: Sequence[EndedRun], replies: Sequence[Reply]) -> None:
        """Read what the server replied to the ends of these runs, and end again those that it did not accept."""
        self._relieve(len(replies))
        left, logs_all = iter(ended), log.isEnabledFor(logging.DEBUG)
        for answers in map(self._store.runs.read_end, replies):
            own = list(islice(left, len(answers)))
            self._notify(own, answers)
            for (run, next_state), answer in zip(own, answers, strict=True):
                if answer.word != "ok" or logs_all:
                    self._follow_up_one(run, next_state, answer)

    def _relieve(self, entries: int) -> None:
        """Archive ended runs from time to time, if no dispatcher does."""
        self._entries += entries
        if self._entries < MANY:
            return
        self._entries = 0
        try:
            if self._store.archiver.count_entries() >= CROWDED:
                for _ in self._store.archiver.archive():
                    pass
        except RedbikeError as error:
            log.error("ended runs cannot be archived: %s", error)

    def _follow_up_one(self, run: Run, next_state: NextState, answer: Answer) -> None:
        if answer.word in ("changed", "overrun"):
            answer = self._commit(run, next_state, self._settings_for(run), answer)
        if answer.word == "ok":
            log.debug("%s: run %s ended, now %s", run.jobid, run.tag, answer.detail)
        else:
            lost = "%s: run %s is no longer this worker's (%s); its end changes nothing"
            log.warning(lost, run.jobid, run.tag, answer.word)

    def end_overrun(self, run: Run) -> None:
        """End a run that has outlived its deadline. Its `work` may continue, but its end changes nothing."""
        settings = self._settings_for(run)
        if run.tap and run.output_size:
            # Its command still runs.
            run.output = run.tap.show(run.output_size)
        self._commit(run, decide_overrun(run, settings, run.now()), settings)
        # A cancelled run has not failed.
        level = logging.INFO if run.cancelled else logging.ERROR
        log.log(level, "%s: overran its timeout of %g s", run.jobid, run.timeout)

    def _commit(self, run: Run, next_state: NextState, settings: Settings, answer: Answer | None = None) -> Answer:
        answer, next_state = commit(self._store, run, next_state, settings, answer)
        self._notify([(run, next_state)], [answer])
        return answer

    def _notify(self, ended: Sequence[EndedRun], answers: Sequence[Answer]) -> None:
        self._notifier.notify(ended, answers)
        self.run_log.add(ended, answers)
        for (run, next_state), answer in zip(ended, answers, strict=True):
            if run.ping_url and answer.ends(next_state):
                self._pings.end(run.jobid, run.ping_url, next_state)


def group_by_tag(ended: Sequence[EndedRun]) -> Sequence[Sequence[EndedRun]]:
    """Return the ends in groups of runs that were taken together: one script call ends a group."""
    groups: dict[str, list[EndedRun]] = {}
    for each in ended:
        groups.setdefault(each[0].tag, []).append(each)
    return list(groups.values())


def commit(
    store: Store, run: Run, next_state: NextState, settings: Settings, answer: Answer | None = None
) -> tuple[Answer, NextState]:
    """End `run`. Compute its next state again as long as the script replies that the state does not fit any more.

    `answer` is the reply to `next_state`, if there is one already. Return the last reply, and the state it belongs to.
    """
    decided, late = next_state, 0.0
    answer = answer or store.runs.end(run, next_state)
    while answer.word in ("changed", "overrun"):
        if answer.word == "overrun" and run.was_in_time and not late:
            # Redis was away, and has received the end late.
            late = time.monotonic() - run.over
            answer = store.runs.end(run, decided, late)
        elif answer.word == "overrun":
            decided = next_state = decide_overrun(run, settings, run.now())
            answer = store.runs.end(run, decided)
        else:
            # From `next_state`, as the run has ended: the state computed for the last change may not fit this one.
            decided = decide_again(run, next_state, answer, settings, run.now())
            answer = store.runs.end(replace(run, schedule=answer.detail), decided, late)
    return answer, decided


def release(store: Store, runs: Sequence[Run]) -> list[EndedRun]:
    """Release runs of one tag that have not begun; return the ends of those that must be ended instead.

    If a job was set or cancelled meanwhile, this takes effect when its run ends. So such a run must be ended.
    """
    kept = [run for run, word in zip(runs, store.runs.release(runs), strict=True) if word == "kept"]
    for run in kept:
        run.over = run.received  # it has not overrun, however late the server receives its end
    return [(run, decide_left(run, 0.0)) for run in kept]
