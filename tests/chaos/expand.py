"""When a job is due, by brute force, for the few shapes of schedules that the chaos run uses.

This is the oracle's own: it shares nothing with Redbike but what the documentation says that the texts mean.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime

CRON = re.compile(r"\* \* \* \* \* (?:\*/(\d+)|(\d+(?:,\d+)*))")
EVERY = re.compile(r"EVERY:(\d+)s@([\d.]+)")
AT = re.compile(r"AT:([\d.]+)")
RULE = re.compile(
    r"DTSTART:(\d{8}T\d{6})Z\s*RRULE:FREQ=(SECONDLY|MINUTELY)"
    r"(?:;INTERVAL=(\d+))?(?:;BYSECOND=([\d,]+))?(?:;COUNT=(\d+))?"
)


def occurrences(text: str, after: float, until: float) -> list[float]:
    """The due times in (after, until], epoch seconds, of a stored schedule; none for NOW, CONTINUE and STOP."""
    return list(_occurrences(text.replace("\\n", "\n").replace("\r", ""), after, until))


def _occurrences(text: str, after: float, until: float) -> Iterator[float]:
    if text in ("NOW", "CONTINUE", "STOP"):
        return
    if found := CRON.fullmatch(text):
        seconds = range(0, 60, int(found[1])) if found[1] else [int(second) for second in found[2].split(",")]
        yield from _in_minutes(seconds, after, until)
    elif found := EVERY.fullmatch(text):
        yield from _multiples(float(found[2]), float(found[1]), after, until, first=1)
    elif found := AT.fullmatch(text):
        yield from (due for due in [float(found[1])] if after < due <= until)
    elif found := RULE.fullmatch(text):
        yield from _rule(*found.groups(), after, until)
    else:
        raise ValueError(f"a schedule that the oracle does not know: {text!r}")


def _rule(
    start: str, freq: str, interval: str | None, seconds: str | None, count: str | None, after: float, until: float
) -> Iterator[float]:
    begin = datetime.strptime(start, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
    if freq == "MINUTELY":
        assert seconds
        yield from _in_minutes(sorted(set(map(int, seconds.split(",")))), max(after, begin - 1), until)
    else:
        last = begin + int(interval or 1) * (int(count) - 1) if count else math.inf
        yield from _multiples(begin, int(interval or 1), after, min(until, last), first=0)


def _in_minutes(seconds: "range | list[int]", after: float, until: float) -> Iterator[float]:
    for minute in range(int(after) // 60 * 60, int(until) + 60, 60):
        yield from (float(minute + second) for second in seconds if after < minute + second <= until)


def _multiples(start: float, period: float, after: float, until: float, first: int) -> Iterator[float]:
    step = max(first, math.floor((after - start) / period) - 1)
    while (due := start + step * period) <= until:
        if due > after:
            yield due
        step += 1
