"""Comparisons of the evaluators with the oracle, each for one seed or change of offset."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from redbike.errors import BadSchedule
from redbike.schedule.parser import parse

from . import oracle

START, STOP = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2020, 2038))
SHAPES = {
    "daily": ("30 2 * * *", {30}, {2}, False),
    "some times a day": ("30 0-5 * * *", {30}, {0, 1, 2, 3, 4, 5}, False),
    "hourly": ("0 * * * *", {0}, set(range(24)), True),
    "quarter-hourly": ("*/15 * * * *", {0, 15, 30, 45}, set(range(24)), True),
    "at midnight": ("0 0 * * *", {0}, {0}, False),
}


def rule_differs(seed: int) -> str:
    """What a random rule gets wrong, or nothing."""
    pick = random.Random(seed)
    rule = oracle.random_rule(pick)
    expected = oracle.occurrences(rule, {"YEARLY": 5, "MONTHLY": 3, "WEEKLY": 2, "DAILY": 1}.get(rule.freq, 1500))
    try:
        schedule = parse(rule.text)
    except BadSchedule as refused:
        return f"{rule.text!r} is refused, but has {expected[:2]}: {refused}" if expected else ""
    # The oracle only looks so far; what may lie further is left out, unless a limit was reached.
    limited = bool(expected) and (rule.count == len(expected) or rule.until is not None)
    first = oracle.instant(rule.start, rule.zone) - 1
    places = [first, *(pick.choice(expected) for _ in range(4)), *expected[-3:]] if expected else []
    places += [due + pick.choice((-1, 0.5, -3600, 3600, 86400)) for due in places]
    for after in places:
        place = bisect_right(expected, after)
        wanted = expected[place] if place < len(expected) else None
        found = schedule.next(after)
        unknown = wanted is None and (not limited or (rule.until is not None and found is not None))
        if found != wanted and not unknown:
            return f"{rule.text!r} after {after}: {found}, not {wanted}"
    return ""


def line_differs(seed: int) -> str:
    """What a random crontab line gets wrong within some days, which are mostly about a change of offset."""
    pick = random.Random(seed)
    line = oracle.random_line(pick)
    stops = changes(line.zone)
    middle = pick.choice(stops) if stops and pick.random() < 0.7 else pick.randrange(START, STOP)
    return window_differs(line, middle // 60 * 60, pick.choice((8, 15, 30)))


def window_differs(line: oracle.Line, middle: int, hours: int) -> str:
    """What a line gets wrong within `hours` of an instant."""
    start, stop = middle - hours * 3600, middle + hours * 3600
    expected = list(oracle.cron_runs(line, start, stop))
    try:
        schedule = parse(line.text)
    except BadSchedule as refused:
        return f"{line.text!r} is refused, but has {expected[:2]}: {refused}" if expected else ""
    found, due = [], schedule.next(start - 1)
    while due is not None and due < stop and len(found) <= len(expected):
        found.append(due)
        due = schedule.next(due)
    if found == expected:
        return asked_anywhere(line, expected, start, stop)
    wrong = sorted(set(found) ^ set(expected))[:4]
    return f"{line.text!r} about {middle}: {[(due, due in expected) for due in wrong]} (True: missing)"


def asked_anywhere(line: oracle.Line, expected: list[int], start: int, stop: int) -> str:
    """What a line gets wrong when it is asked at instants that are none of its runs."""
    schedule = parse(line.text)
    for after in range(start, stop, 1117):
        place = bisect_right(expected, after)
        if place < len(expected) and schedule.next(after) != expected[place]:
            return f"{line.text!r} after {after}: {schedule.next(after)}, not {expected[place]}"
    return ""


def changes(zone: str) -> list[int]:
    """The instants from 2020 to 2037 at which a zone's offset changes."""
    info, found = ZoneInfo(zone), []
    for before, after in pairwise(range(START, STOP, 43200)):
        low, high = before, after
        old, new = (datetime.fromtimestamp(at, info).utcoffset() for at in (low, high))
        while old != new and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if datetime.fromtimestamp(middle, info).utcoffset() == old else (low, middle)
        found += [high] if old != new else []
    return found


def zone_differs(zone: str) -> Iterator[str]:
    """What cron and RRULE get wrong about any change of a zone's offset."""
    for middle in changes(zone):
        yield lines_differ(zone, middle)
        yield rules_differ(zone, middle)


def lines_differ(zone: str, middle: int) -> str:
    """What lines of some shapes get wrong about a change."""

    def always(day: date) -> bool:
        return True

    for fields, minutes, hours, follows in SHAPES.values():
        line = oracle.Line(f"CRON_TZ={zone} {fields}", zone, minutes, hours, {0}, always, follows)
        if wrong := window_differs(line, middle // 60 * 60, 4):
            return wrong
    return ""


def rules_differ(zone: str, middle: int) -> str:
    """What rules that begin hours or a day before a change get wrong about it."""
    start = datetime.fromtimestamp(middle - 86400, ZoneInfo(zone)).replace(tzinfo=None, second=0)
    near = datetime.fromtimestamp(middle - 4 * 3600, ZoneInfo(zone)).replace(tzinfo=None, minute=0, second=0)
    rules = [oracle.Rule("HOURLY", start, zone), oracle.Rule("MINUTELY", start, zone, interval=15)]
    rules.append(oracle.Rule("HOURLY", near, zone, parts={"BYMINUTE": [0, 1, 20, 35, 45, 59]}))
    rules += [
        oracle.Rule("HOURLY", near.replace(minute=minute), zone, interval, parts={"BYMINUTE": [0, 20, 50]})
        for minute in (0, 15)
        for interval in (1, 2)
    ]
    rules += [
        oracle.Rule("DAILY", start.replace(hour=hour, minute=minute), zone) for hour in range(4) for minute in (0, 30)
    ]
    for rule in rules:
        expected = oracle.occurrences(rule, 0 if rule.freq == "DAILY" else 200)[:40]
        schedule, after, found = parse(rule.text), oracle.instant(rule.start, zone) - 1, []
        while len(found) < len(expected) and after is not None:
            found.append(after := schedule.next(after))
        if found != expected:
            return f"{rule.text!r}: {found[:6]}, not {expected[:6]}"
    return ""
