"""Make a schedule of a text."""

import re
from datetime import UTC, datetime
from functools import lru_cache

from redbike.errors import BadSchedule
from redbike.schedule.cron import Cron
from redbike.schedule.kinds import (
    END_OF_TIME,
    At,
    Continue,
    CronSchedule,
    Every,
    Now,
    RecurrenceSchedule,
    Schedule,
    Stop,
)
from redbike.schedule.rrule.recurrence import Recurrence
from redbike.schedule.zones import find_zone, load_zone_info

MAX_TEXT = 8192  # bytes of UTF-8

_KEYWORDS = {kind.text: kind for kind in (Now, Continue, Stop)}
_RULE = re.compile(r"RRULE|FREQ=|^(DTSTART|RDATE)", re.ASCII | re.IGNORECASE)
_BLANKS = " \t\r\n"
_ANCHORED = re.compile(r"\s*every:[^@]*$|(?!.*dtstart).*freq=", re.IGNORECASE | re.DOTALL)
_HASHED = re.compile(r"(?:^|[\s,])h(?![a-z])", re.IGNORECASE)
_SECONDS = re.compile(r"\d{1,11}(\.\d{1,6})?", re.ASCII)
_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d{{1,6}})?){unit})?" for unit in "dhms"), re.ASCII | re.IGNORECASE)
_EPOCH = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_CRON_ZONE = re.compile(r"CRON_TZ=(\S+)\s+", re.IGNORECASE)


def parse(text: str, timezone: str = "UTC", jobid: str = "", anchor: float | None = None) -> Schedule:
    """Return the schedule that `text` means.

    Times that name no zone are in `timezone`. The values of ``H`` are hashed from `jobid`. EVERY without @ and a rule
    without DTSTART count from `anchor`, the instant (epoch seconds) at which the schedule is set, or from the epoch
    when that is None. Raise `BadSchedule`, and only that, for an invalid text.
    """
    if not (isinstance(text, str) and isinstance(timezone, str) and isinstance(jobid, str)):
        raise BadSchedule(f"bad schedule {text!r:.80}: it, its zone and its job id must be texts")
    text = _check_size(text).strip(_BLANKS)
    # An argument that does not matter for this text is left out of the cache key.
    anchored = _ANCHORED.match(text) is not None
    since = float(anchor or 0) if anchored else 0.0
    if not 0 <= since < END_OF_TIME:
        raise BadSchedule(f"bad schedule {text!r:.80}: {anchor!r:.40} is no instant to count from")
    return _parse(text, timezone, jobid if _HASHED.search(text) else "", since)


@lru_cache(4096)
def parse_stored(text: str) -> Schedule:
    """Return `parse` of a complete text, as it is stored in Redis. Raise `BadSchedule`."""
    return parse(text)


def check_text(schedule: object) -> None:
    """Raise `TypeError` for a schedule that is neither a text nor None."""
    if not isinstance(schedule, str | None):
        kind = type(schedule).__name__
        raise TypeError(f"a schedule is a text, or None to unset the job, not {schedule!r:.80}, which is a {kind}")


def _check_size(text: str) -> str:
    """Return `text` if it is UTF-8 of at most `MAX_TEXT` bytes, else raise `BadSchedule`."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadSchedule(f"bad schedule {text!r:.80}: not UTF-8") from None
    if size > MAX_TEXT:
        raise BadSchedule(f"bad schedule {text[:40]!r}…: it has {size} bytes, {MAX_TEXT} are allowed")
    return text


@lru_cache(4096)
def _parse(text: str, timezone: str, jobid: str, anchor: float) -> Schedule:
    if not text.isascii():
        # Some letters of other alphabets become ASCII in upper case.
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    keyword, colon, rest = text.partition(":")
    upper = keyword.upper()
    if not colon and upper in _KEYWORDS:
        return _KEYWORDS[upper]()
    if colon and upper == "AT":
        return _parse_at(rest, timezone)
    if colon and upper == "EVERY":
        return _parse_every(rest, timezone, anchor)
    if _RULE.search(text):
        return _parse_recurrence(text, timezone, anchor)
    return _parse_cron(text, timezone, jobid)


def parse_timestamp(text: str, timezone: str = "UTC") -> float:
    """Return the epoch seconds of epoch seconds or ISO 8601. The latter is in `timezone` if it names no zone.

    Raise `BadSchedule`.
    """
    if not isinstance(text, str):
        raise BadSchedule(f"bad timestamp {text!r:.80}: it must be a text")
    if _EPOCH.fullmatch(text):
        instant = float(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
            instant = (moment if moment.tzinfo else moment.replace(tzinfo=load_zone_info(timezone))).timestamp()
        except (ValueError, OverflowError) as error:
            if isinstance(error, BadSchedule):
                raise
            raise BadSchedule(f"bad timestamp {text!r:.80}: epoch seconds or ISO 8601 is needed") from None
    if not 0 <= instant < END_OF_TIME:
        raise BadSchedule(f"bad timestamp {text!r:.80}: it is before 1970 or after 9999")
    return instant


def _parse_at(rest: str, timezone: str) -> Schedule:
    instant = parse_timestamp(rest.strip(), timezone)
    if _EPOCH.fullmatch(rest.strip()):
        return At(f"AT:{rest.strip()}", instant)
    return At(f"AT:{datetime.fromtimestamp(instant, UTC).isoformat().replace('+00:00', 'Z')}", instant)


def _parse_every(rest: str, timezone: str, anchor: float) -> Schedule:
    duration, at, start = rest.strip().partition("@")
    since = parse_timestamp(start, timezone) if at else anchor
    kept = start if at and _EPOCH.fullmatch(start) else f"{since:.6f}".rstrip("0").rstrip(".")
    every = Every(f"EVERY:{duration.lower()}@{kept}", _parse_duration(duration), float(kept))
    every.anchor_span = None if at else (len("EVERY:@") + len(duration), 0)
    return every


def _parse_duration(duration: str) -> float:
    """Return the seconds of a text such as 900, 15m or 1h30m. Raise `BadSchedule`."""
    if _SECONDS.fullmatch(duration):
        seconds = float(duration)
    else:
        found = _DURATION.fullmatch(duration)
        if not found or not duration:
            raise BadSchedule(f"bad duration {duration!r:.80}: 900, 15m, 1h30m, 1.5h or 2d is needed")
        days, hours, minutes, rest = (float(number or 0) for number in found.groups())
        # Six decimals of a second, a minute, an hour or a day are whole microseconds.
        seconds = round(days * 86400 + hours * 3600 + minutes * 60 + rest, 6)
    if not 0.001 <= seconds <= 1e10:
        raise BadSchedule(f"bad duration {duration!r:.80}: 0.001 s to 1e10 s are allowed")
    return seconds


def _parse_recurrence(text: str, timezone: str, anchor: float) -> Schedule:
    schedule = RecurrenceSchedule(Recurrence(text, timezone, anchor, find_zone))
    if _ANCHORED.match(text):
        start, _, rest = schedule.text.partition("\n")
        schedule.anchor_span = start.index(":") + 1, len(rest) + 1
    return schedule


def _parse_cron(text: str, timezone: str, jobid: str) -> Schedule:
    found = _CRON_ZONE.match(text)
    name = found[1] if found else timezone
    expression = (text[found.end() :] if found else text).replace("\t", " ")
    if (
        not expression.isascii()
        or not expression.isprintable()
        or (len(expression.split()) < 2 and expression[:1] != "@")
    ):
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    cron = Cron(expression, find_zone(name), jobid)
    full = cron.fields.text
    return CronSchedule(f"CRON_TZ={name} {full}" if found or name != "UTC" else full, cron, name)
