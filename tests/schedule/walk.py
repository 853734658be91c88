"""The runs of a schedule, one after the other."""

from redbike.schedule.parser import parse


def runs(text: str, after: float, number: int, timezone: str = "UTC", **more: str) -> list[float | None]:
    """Up to `number` runs after an instant; after the last one of all, there is None."""
    found: list[float | None] = []
    schedule, due = parse(text, timezone, **more), after
    while due is not None and len(found) < number:
        found.append(due := schedule.next(due))
    return found
