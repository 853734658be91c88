"""Where a job goes when its run has ended, and what the server answers to that."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from redbike.store.enums import Outcome, Skip
from redbike.store.run import Run


@dataclass(slots=True)
class NextState:
    """The next state of a job when its run has ended, and what is kept of that; see ``lua/end.lua``."""

    # next: at `due`, computed from the schedule; due: at `due`, whatever the schedule; stay: on the timeline, where
    # somebody has put it during the run.
    place: Literal["next", "due", "stay", "stop", "die", "unset"]
    due: float | str | None = None  # a time, "+n" for n seconds from now, or None: it has run out
    why: Literal["", "overrun", "lost"] = ""  # "": the worker is done
    retry_state: str = ""  # the record of a `RetryState`
    failure: dict[str, Any] | None = None
    missed: int = 0  # occurrences that were skipped while none ran
    overlapped: int = 0  # and while this one did
    retried: bool = False  # the worker is done and has failed, but that is no failure yet
    failed_try: dict[str, Any] | None = None  # then, or if it was lost: the failure that it is if it is not tried again
    # What was left behind during the run, as far as this was computed with it: "cancelled+" if the run was
    # cancelled, `next` of the record, "+timeline" if the job is there or held, "+paused:" and the time of its pause.
    left: str = "-"
    paused: int = 0  # occurrences that were skipped because they came due while their queue was paused
    late: int = 0  # occurrences that were skipped because they were late by more than their grace
    expired: int = 0  # occurrences that were skipped because they would not begin in time
    stops: bool = False  # its schedule is STOP from now on, and a run that is owed comes first
    given_up: Skip | None = None  # why that of the run is skipped, too
    outcome: Outcome | None = Outcome.OK  # of the run; None if it has not begun, and is counted as skipped
    error: str = ""  # one line

    @property
    def is_tried_again(self) -> bool:
        """Tell whether the occurrence of the run goes on with a further one."""
        if self.outcome in (Outcome.OVERRUN, Outcome.LOST):
            # What was asked for or set during the run may be due as well, and has no retry state.
            return self.place == "due" and self.failure is None and self.retry_state != ""
        return self.outcome == Outcome.RETRY

    def has_begun(self, run: Run) -> bool:
        """Tell whether `run` has begun, as far as is known: what a dead worker had taken may have."""
        if self.outcome == Outcome.CANCELLED:
            return bool(run.began or self.why)
        return self.outcome is not None

    @property
    def skipped(self) -> dict[Skip, int]:
        """How many occurrences are skipped, by reason."""
        # Nearly all runs skip nothing.
        if not (self.missed or self.overlapped or self.late or self.paused or self.expired or self.given_up):
            return {}
        numbers = (self.missed, self.overlapped, self.late, self.paused, self.expired)
        reasons = (Skip.MISSED, Skip.RUNNING, Skip.LATE, Skip.PAUSED, Skip.EXPIRED)
        found = {reason: number for reason, number in zip(reasons, numbers, strict=True) if number}
        if self.given_up:
            found[self.given_up] = found.get(self.given_up, 0) + 1
        return found


EndedRun = tuple[Run, NextState]


class Answer(NamedTuple):
    """What a script replied to the end of a run.

    - ``ok``: `detail` is where the job is now: ``timeline``, ``queue``, ``held``, ``stopped`` or
      ``unset``.
    - ``stale``: the run is not the tag's any more. ``overrun``: it was too late, which the caller must say.
      ``alive``: it is not lost, or not overrun. ``kept``: others must be computed again first. Nothing was changed.
    - ``changed``: nothing was changed either. The next state must be computed again, from the schedule in `detail`,
      the `options`, and what was left behind for the end of the run, in `left`.
    """

    word: str
    detail: str = ""
    left: str = "-"
    options: str = ""

    def ends(self, next_state: NextState) -> Outcome | None:
        """Return how a run has ended that this is the answer to; None if it has not, or had not begun."""
        return next_state.outcome if self.word == "ok" else None
