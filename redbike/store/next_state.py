"""The next state of a job when its run has ended, and the server's reply."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from redbike.store.enums import Outcome, Skip
from redbike.store.run import Run


@dataclass(slots=True)
class NextState:
    """The next state of a job when its run has ended, and what is stored of the run; see ``lua/end.lua``."""

    # next: at `due`, computed from the schedule; due: at `due`, independent of the schedule; stay: on the timeline,
    # where somebody has put it during the run.
    place: Literal["next", "due", "stay", "stop", "die", "unset"]
    due: float | str | None = None  # a time, "+n" for n seconds from now, or None: the schedule has no more
    why: Literal["", "overrun", "lost"] = ""  # "": the worker is done
    retry_state: str = ""  # the record of a `RetryState`
    failure: dict[str, Any] | None = None
    missed: int = 0  # occurrences that were skipped while none ran
    overlapped: int = 0  # occurrences that were skipped while this run went on
    retried: bool = False  # the run has failed, but it is tried again, so that counts as no failure yet
    failed_try: dict[str, Any] | None = None  # if `retried` or lost: the failure to store if it is not tried again
    # What changes during the run have left behind, as it was when this was computed: "cancelled+" if the run was
    # cancelled, `next` of the record, "+timeline" if the job is there or held, "+paused:" and the time of its pause.
    left: str = "-"
    paused: int = 0  # occurrences that were skipped because they came due while their queue was paused
    late: int = 0  # occurrences that were skipped because they were late by more than their grace
    expired: int = 0  # occurrences that were skipped because they would not begin in time
    stops: bool = False  # whether its schedule becomes STOP, after a run that is owed
    given_up: Skip | None = None  # why the occurrence of the run is skipped, too
    outcome: Outcome | None = Outcome.OK  # of the run; None if it has not begun, and is counted as skipped
    error: str = ""  # one line

    @property
    def is_tried_again(self) -> bool:
        """Tell whether the occurrence of the run is tried again."""
        if self.outcome in (Outcome.OVERRUN, Outcome.LOST):
            # A run that was ordered or set during this one also has the place "due", but no retry state.
            return self.place == "due" and self.failure is None and self.retry_state != ""
        return self.outcome == Outcome.RETRY

    def has_begun(self, run: Run) -> bool:
        """Tell whether `run` has begun, or may have begun with a worker that died."""
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
    """The reply of a script to the end of a run: a word, and what belongs to it.

    - ``ok``: `detail` is where the job is now: ``timeline``, ``queue``, ``held``, ``stopped`` or ``unset``.
    - ``stale``: the run does not belong to this tag any more. ``overrun``: it ended too late, and the caller must say
      so. ``alive``: it is not lost, or not overrun. ``kept``: the next states of other runs must be computed again
      first. With these words, nothing was changed.
    - ``changed``: nothing was changed either. The next state must be computed again, from the schedule in `detail`,
      the `options`, and in `left` what changes during the run have left behind.
    """

    word: str
    detail: str = ""
    left: str = "-"
    options: str = ""

    def ends(self, next_state: NextState) -> Outcome | None:
        """Return the outcome of the run with this answer; None if it has not ended, or had not begun."""
        return next_state.outcome if self.word == "ok" else None
