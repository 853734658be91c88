"""The schedules of functions: from the arguments of `redbike.Jobs.job` to a text."""

import time
from datetime import datetime, timedelta
from typing import Any

from redbike.config.settings import check_zone
from redbike.errors import BadSchedule
from redbike.schedule.kinds import CronSchedule, RecurrenceSchedule, Schedule
from redbike.schedule.objects.instants import ZoneLike, read_zone
from redbike.schedule.objects.schedules import check_schedule, format_schedule
from redbike.schedule.parser import parse

_CLASSES: dict[str, type[Schedule]] = {"cron": CronSchedule, "rrule": RecurrenceSchedule}


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
    check_schedule(_WRITERS[kind](value), zone)
    text = format_schedule(_WRITERS[kind](value), zone or "UTC")
    try:
        return _complete(kind, text, zone, jobid)
    except BadSchedule as error:
        raise BadSchedule(f"job {jobid!r}: {error}") from None


def _write_every(value: Any) -> Any:
    return value if isinstance(value, timedelta) else f"EVERY:{value}"


def _write_at(value: Any) -> Any:
    return value if isinstance(value, datetime) else f"AT:{value}"


def _keep(value: Any) -> Any:
    return value


_WRITERS = {"every": _write_every, "at": _write_at, "cron": _keep, "rrule": _keep, "schedule": _keep}


def _complete(kind: str, text: str, zone: str | None, jobid: str) -> str:
    """Return `text`, with its zone if that is given. Raise `BadSchedule` if it is not of this kind."""
    parsed = parse(text, zone or "UTC", jobid, time.time())
    if not isinstance(parsed, _CLASSES.get(kind, Schedule)):
        raise BadSchedule(f"bad {kind} {text!r:.80}: it is a schedule of another kind")
    if zone is None:
        return text
    if parsed.anchor_span is None:
        return parsed.with_zone().text
    if isinstance(parsed, RecurrenceSchedule):
        example = "DTSTART:20260101T080000"
        raise BadSchedule(f"bad schedule {text!r:.80}: a rule with a tz needs a line such as {example!r}")
    return text
