"""Schedules with their next runs, as text that people can read and extend; each file's head says how."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """A schedule, whether it is refused, and what comes after an instant (all in epoch seconds)."""

    schedule: str
    bad: bool
    after: float = 0.0
    expected: tuple[float | None, ...] = ()


def instant(text: str) -> float:
    """Epoch seconds of an ISO 8601 text in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def sections(name: str) -> Iterator[tuple[str, list[Case]]]:
    """The headings of a file of cases, with their cases."""
    head, schedule, cases = "", "", list[Case]()
    for line in (Path(__file__).parent / f"{name}.txt").read_text().splitlines():
        if line.startswith("# "):
            if cases:
                yield head, cases
            head, cases = line[2:], []
        elif line.startswith("    "):
            cases.append(case(schedule, line))
        elif line:
            schedule = line
    yield head, cases


def case(schedule: str, line: str) -> Case:
    """The case that one indented line stands for."""
    if line.strip() == "bad":
        return Case(schedule, True)
    after, _, runs = line.partition(" > ")
    return Case(
        schedule, False, instant(after.strip()), tuple(instant(r) if r != "end" else None for r in runs.split())
    )
