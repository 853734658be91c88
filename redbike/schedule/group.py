"""The schedule ``GROUP``: a job that is due once, when the last job of a group has ended."""

from typing import Self

from redbike.errors import BadSchedule, quoted
from redbike.schedule.after import After
from redbike.schedule.moments import AWAITED, END_OF_TIME
from redbike.text.group_names import MARK, find_problem


class Group(After):
    """Run once, when each job of the group `name` has ended, well or not."""

    keyword = "GROUP:"
    # It closes the group, also if the job has this schedule already.
    runs_once = is_command = True

    def __init__(self, name: str) -> None:
        super().__init__([MARK + name], "any")
        self.name = name
        self.text = f"{self.keyword}{name}"

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from the name of a group. Raise `BadSchedule`."""
        name = rest.strip()
        if problem := find_problem(name):
            raise BadSchedule(f"bad schedule {quoted(f'{cls.keyword}{rest}')}: {problem}")
        return cls(name)

    def find_place(self, after: float) -> float | None:
        """Return `AWAITED`, or None after its run. A run that somebody has asked for before is not that."""
        return AWAITED if after == float("-inf") or after >= END_OF_TIME else None

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"Once, when each job of the group {self.name} has ended."
