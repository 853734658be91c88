"""The record of a group: what has become of its jobs."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from redbike.text.parsing import load_object

COUNTED = ("total", "failed", "dropped")


class GroupDetails(TypedDict):
    """The group that a job follows; see `Redbike.tell`."""

    name: str
    left: int  #: jobs that have not ended
    total: int  #: jobs that it has had
    failed: int  #: those of them that have failed
    dropped: int  #: those that were given up: unset, cancelled, expired, stopped, or set without the group


class GroupCounts(NamedTuple):
    """How many jobs a group has had, and what has become of them."""

    left: int
    total: int
    failed: int
    dropped: int
    is_open: bool = False  # whether more are to come
    due: float | None = None  # the latest due time of those that have ended

    @classmethod
    def parse(cls, record: str, left: int) -> "GroupCounts":
        """Read the record of a group of which so many are `left`; "" for none. A damaged one counts as none."""
        return cls.read(load_object(record) or {}, left)

    @classmethod
    def read(cls, found: Mapping[str, Any], left: int) -> "GroupCounts":
        """Read the record of a group, or of a follower when its group has ended."""
        total, failed, dropped = (_count(found.get(field)) for field in COUNTED)
        try:
            due = float(found["due"])
        except (KeyError, TypeError, ValueError):
            due = None
        return cls(left, max(total, left), failed, dropped, found.get("open") is True, due)

    def describe(self) -> str:
        """Return in words what has become of its jobs: ``2 of 1,000 jobs left, 3 failed``."""
        parts = [f"{self.left:,} of {self.total:,} jobs left"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.dropped:,} given up"] if self.dropped else []
        return ", ".join(parts)

    def to_dict(self, name: str) -> GroupDetails:
        """Return the group with this name as people get it."""
        return {
            "name": name, "left": self.left, "total": self.total, "failed": self.failed, "dropped": self.dropped
        }  # fmt: skip


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0
