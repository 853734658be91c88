"""The runs of a schedule, one after the other."""

from redbike.schedule.parser import parse


def runs(text: str, after: float, number: int, timezone: str = "UTC") -> list[float | None]:
    schedule = parse(text, timezone)
    found: list[float | None] = []
    due: float | None = after
    while due is not None and len(found) < number:
        due = schedule.next(due)
        found.append(due)
    return found
