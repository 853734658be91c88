"""Add jitter to schedules: each job runs some seconds later. A hash of its id gives this delay."""

from hashlib import sha1

from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME


def add_jitter(schedule: Schedule, jobid: str, seconds: float) -> Schedule:
    """Return `schedule` with each occurrence delayed by the jitter of `jobid`, which is less than `seconds`.

    A schedule without own times, such as NOW, is unchanged. So is one for every host: each host has its own jitter.
    """
    jitter = compute_jitter(jobid, seconds)
    follows_no_clock = schedule.is_immediate or schedule.never_runs or schedule.is_awaiting or schedule.is_for_hosts
    return schedule if not jitter or follows_no_clock else JitteredSchedule(schedule, jitter)


def compute_jitter(jobid: str, seconds: float) -> float:
    """Return the jitter of `jobid`, from 0 to less than `seconds`, in whole milliseconds."""
    digest = sha1(jobid.encode(errors="surrogateescape"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:6]) * int(seconds * 1000) // 2**48 / 1000


class JitteredSchedule(Schedule):
    """A schedule whose occurrences are `jitter` seconds later than those of `base`. It has the text of `base`."""

    def __init__(self, base: Schedule, jitter: float) -> None:
        self._base = base
        self._jitter = jitter
        self.text = base.text
        self.timezone = base.timezone
        self.runs_once = base.runs_once
        self.is_command = base.is_command
        self.period = base.period
        self.anchor_span = base.anchor_span

    @property
    def label(self) -> str:
        """The label of `base`."""
        return self._base.label

    def next(self, after: float) -> float | None:
        """Return the first due time strictly after `after`, both in epoch seconds; None when there is none."""
        due = self._base.next(self._without_jitter(after))
        if due is not None and self._with_jitter(due) <= after:
            # Redis keeps six decimals, but the base may have more: this occurrence is the one at `after` itself.
            due = self._base.next(due)
        return None if due is None or self._with_jitter(due) >= END_OF_TIME else self._with_jitter(due)

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`."""
        return self.count_safely(after, until, limit)[0]

    def count_safely(self, after: float, until: float, limit: int) -> tuple[int, bool]:
        """Return the number of `count`, and whether it is complete: False if counting was given up before `limit`."""
        return self._base.count_safely(self._without_jitter(after), self._without_jitter(until), limit)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"{self._base.explain(timezone)} Each run is {self._jitter:g} s later."

    def with_zone(self) -> Schedule:
        """Return the same schedule with its zone in its text, even if that is UTC."""
        return JitteredSchedule(self._base.with_zone(), self._jitter)

    def _with_jitter(self, instant: float) -> float:
        return round(instant + self._jitter, 6)

    def _without_jitter(self, instant: float) -> float:
        return round(instant - self._jitter, 6)
