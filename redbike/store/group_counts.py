"""The record of a group: how its jobs have ended."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from redbike.text.parsing import load_object

COUNTED = ("total", "failed", "dropped")


class GroupDetails(TypedDict):
    """The group that a job follows; see `Redbike.tell`."""

    name: str
    left: int  #: jobs that have not ended
    total: int  #: jobs that it has had
    failed: int  #: jobs of these that have failed
    dropped: int  #: jobs of these that were given up: unset, cancelled, expired, stopped, or set without the group


class GroupCounts(NamedTuple):
    """How many jobs a group has had, and how they have ended."""

    left: int
    total: int
    failed: int
    dropped: int
    is_open: bool = False  # whether more are to come
    due: float | None = None  # the latest due time of its ended jobs

    @classmethod
    def parse(cls, record: str, left: int) -> "GroupCounts":
        """Read the record of a group with so many jobs `left`. An empty or damaged record counts as no ended jobs."""
        return cls.read(load_object(record) or {}, left)

    @classmethod
    def read(cls, found: Mapping[str, Any], left: int) -> "GroupCounts":
        """Read the object of a group, or of an ended group as its follower has it."""
        total, failed, dropped = (_count(found.get(field)) for field in COUNTED)
        try:
            due = float(found["due"])
        except (KeyError, TypeError, ValueError):
            due = None
        return cls(left, max(total, left), failed, dropped, found.get("open") is True, due)

    def describe(self) -> str:
        """Return in words how its jobs have ended: ``2 of 1,000 jobs left, 3 failed``."""
        parts = [f"{self.left:,} of {self.total:,} jobs left"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.dropped:,} given up"] if self.dropped else []
        return ", ".join(parts)

    def to_dict(self, name: str) -> GroupDetails:
        """Return the details of the group with this name."""
        return {
            "name": name, "left": self.left, "total": self.total, "failed": self.failed, "dropped": self.dropped
        }  # fmt: skip


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0
