"""Define the interface of the evaluators of a rule."""

from abc import ABC, abstractmethod

from redbike.errors import BadSchedule, quoted
from redbike.schedule.rrule.rule import LAST, Rule

SPARSE = 20 * 86400  # seconds; a step that is longer costs more, as years and offsets are not cached
_FAR = 4_102_444_800  # the year 2100; also the seconds after DTSTART after which a COUNT is ignored


def get_count_horizon(start: int) -> int:
    """Return the instant after which a COUNT is ignored, for a rule that starts at `start`."""
    return max(_FAR, start + _FAR)


def make_count_error(rule: Rule) -> BadSchedule:
    """Return the error for a COUNT that cannot be reached in reasonable time."""
    return BadSchedule(f"bad rule {quoted(rule.text)}: its COUNT={rule.count} is too high to be counted")


class Evaluator(ABC):
    """Finds the occurrences of a rule. All instants are whole epoch seconds."""

    _before: int  # the second before DTSTART
    _until: int  # the last instant that UNTIL and COUNT allow
    _answer = (0, 0)  # an instant, and the next occurrence: the cached answer for all instants in between

    def next(self, after: int) -> int | None:
        """Return the first occurrence strictly after `after`; None if there is none."""
        if after >= self._until:
            return None
        after = max(after, self._before)
        low, due = self._answer
        if not low <= after < due:
            found = self._search(after)
            low, due = self._answer = after, LAST if found is None else found
        return due if due <= self._until and due < LAST else None

    def count(self, after: int, until: int) -> int | None:
        """Count the occurrences in (after, until] by division; None if they must be counted one by one."""
        return None

    @abstractmethod
    def _search(self, after: int) -> int | None:
        """Return the first occurrence after `after`, which is `_before` or later. Ignore UNTIL and COUNT."""

    @abstractmethod
    def occurs_at(self, due: int) -> bool:
        """Tell whether the rule occurs at `due`."""

    def covers(self, other: "Evaluator") -> bool:
        """Tell whether this rule has all occurrences of `other` at local times that its own BYxxx parts match.

        Return False if it is not known.
        """
        return False

    def find_uncovered(self, due: int) -> int:
        """Return the first instant after `due` that the rule may not cover; `LAST` if the search gives up."""
        return due + 1
