"""What the evaluators of a rule have in common."""

from abc import ABC, abstractmethod

from redbike.errors import BadSchedule, quoted
from redbike.schedule.rrule.rule import LAST, Rule

_FAR = 4_102_444_800  # the year 2100, and as much after DTSTART: a COUNT that is not reached till then is no limit


def horizon(start: int) -> int:
    """Until when a COUNT has to be reached that is to end a rule which starts at `start`."""
    return max(_FAR, start + _FAR)


def uncountable(rule: Rule) -> BadSchedule:
    """The refusal of a COUNT that is not reached in reasonable time, and may yet be before the horizon."""
    return BadSchedule(f"bad rule {quoted(rule.text)}: its COUNT={rule.count} is too high to be counted")


class Evaluator(ABC):
    """A rule that is evaluated; all instants are whole epoch seconds."""

    _before: int  # the second before DTSTART
    _until: int  # the last instant that UNTIL and COUNT leave
    _found = (0, 0)  # an instant, and what comes after it: the answer for all instants in between

    def next(self, after: int) -> int | None:
        """The first occurrence after `after`."""
        if after >= self._until:
            return None
        after = max(after, self._before)
        low, due = self._found
        if not low <= after < due:
            found = self._search(after)
            low, due = self._found = after, LAST if found is None else found
        return due if due <= self._until and due < LAST else None

    @abstractmethod
    def _search(self, after: int) -> int | None:
        """As `next`, for an instant from `_before` on, and without an end."""

    @abstractmethod
    def holds(self, due: int) -> bool:
        """Whether it occurs at `due`."""

    @abstractmethod
    def covers(self, other: "Evaluator") -> bool:
        """Whether it has every occurrence of `other` while its own local time passes, as far as that is known."""

    @abstractmethod
    def clear(self, due: int) -> int | None:
        """The first instant after `due` that it may not cover; None when there is none within reach."""
