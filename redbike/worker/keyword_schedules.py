"""The one schedule that keyword arguments name, such as ``every=``, ``cron=`` or ``at=``."""

import time
from datetime import datetime, timedelta
from typing import Any

from redbike.config.settings import check_zone
from redbike.errors import BadSchedule
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import LEAST_DURATION, ZoneLike, read_zone
from redbike.schedule.objects import check_schedule, format_schedule
from redbike.schedule.parser import CronSchedule, RecurrenceSchedule, parse
from redbike.text.parsing import is_number, measure_duration

_CLASSES: dict[str, type[Schedule]] = {"cron": CronSchedule, "rrule": RecurrenceSchedule}
_KEYWORDS = {"every": "EVERY", "after": "IN"}  # of values in seconds, durations and timedeltas


def make_schedule(jobid: str, tz: ZoneLike | None, **kinds: object) -> str | None:
    """Return the text of the one schedule that is given among `kinds`; None if there is none.

    With `tz` the text names its zone. Raise `BadSchedule`, `BadConfig` for a bad zone, and `TypeError` for several
    kinds, for a value of another type, and for a zone without a schedule.
    """
    given = {kind: value for kind, value in kinds.items() if value is not None}
    if len(given) > 1:
        raise TypeError(f"job {jobid!r}: {' and '.join(given)} are given, but a job has one schedule")
    if not given:
        if tz is not None:
            raise TypeError(f"job {jobid!r}: tz is given, but no schedule")
        return None
    [(kind, value)] = given.items()
    zone = None if tz is None else check_zone(read_zone(tz))
    schedule = _write(kind, value)
    check_schedule(schedule, zone)
    text = format_schedule(schedule, zone or "UTC")
    try:
        return _complete(kind, text, zone, jobid)
    except BadSchedule as error:
        raise BadSchedule(f"job {jobid!r}: {error}") from None


def _write(kind: str, value: Any) -> Any:
    """Return the schedule of this kind that a value means: a text, or an object that `check_schedule` accepts."""
    if isinstance(value, str):
        value = str.__str__(value)  # an f-string has the name of an enum
    if kind == "after" and isinstance(value, timedelta):
        value = value.total_seconds()
    if kind == "after" and _is_at_once(value):
        return "NOW"
    if isinstance(value, float) and kind in _KEYWORDS and value >= LEAST_DURATION:
        value = round(value, 6)  # as a duration is written
    if kind in _KEYWORDS and not isinstance(value, timedelta):
        return f"{_KEYWORDS[kind]}:{value}"
    return f"AT:{value}" if kind == "at" and not isinstance(value, datetime) else value


def _is_at_once(after: Any) -> bool:
    """Tell whether these seconds, or this duration, are not negative, but shorter than a schedule allows."""
    seconds = measure_duration(after) if isinstance(after, str) else after
    return is_number(seconds) and 0 <= seconds < LEAST_DURATION


def _complete(kind: str, text: str, zone: str | None, jobid: str) -> str:
    """Return `text`, with the zone if there is one. Raise `BadSchedule` if it is not of this kind."""
    parsed = parse(text, zone or "UTC", jobid, time.time())
    if not isinstance(parsed, _CLASSES.get(kind, Schedule)):
        raise BadSchedule(f"bad {kind} {text!r:.80}: it is a schedule of another kind")
    # A completed IN would be another instant at each start of the program.
    if zone is None or parsed.asked:
        return text
    if parsed.anchor_span is None:
        return parsed.with_zone().text
    if isinstance(parsed, RecurrenceSchedule):
        example = "DTSTART:20260101T080000"
        raise BadSchedule(f"bad schedule {text!r:.80}: a rule with a tz needs a line such as {example!r}")
    return text
