"""Which jobs are late: an occurrence has not begun, or not ended, in the time that the options of its job give it.

Those are ``start-within`` and ``finish-within``, which count from the due time, and ``finish-by``, a time of day. What
is held of a paused job is not late: somebody wants it so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from redbike.config.options import parse_options
from redbike.errors import BadSchedule
from redbike.loop.alerts.awaited import Awaited, Awaiting
from redbike.schedule.clock import Clock
from redbike.schedule.moments import AWAITED, join_words
from redbike.store.alerts import Known, Pending
from redbike.store.enums import Left
from redbike.store.schedules import find_schedule
from redbike.store.store import Store


@dataclass(frozen=True, slots=True)
class Late:
    """A job that is late. Times are epoch seconds."""

    jobid: str
    due: float
    since: float  #: until when it was to begin, or to end
    text: str  #: a clause that says so, with the job as its subject


@dataclass(frozen=True, slots=True)
class _Occurrence:
    due: float
    has_begun: bool
    place: str  # where it is, in words


def find_late(store: Store, timezone: str, known: Known | None = None) -> list[Late]:
    """Return the jobs that are late, the first one first; `timezone` is that of times of day without a zone.

    `known` is what was read for that. What it costs grows with the number of jobs that alert, and with no other one.
    """
    known = store.alerts.read() if known is None else known
    awaiting = Awaiting(store, known.now)
    late = (_judge(awaiting, job, known.now, timezone) for job in known.pending)
    return sorted((each for each in late if each), key=lambda each: (each.since, each.jobid))


def _judge(awaiting: Awaiting, job: Pending, now: float, timezone: str) -> Late | None:
    awaits = job.timeline == AWAITED and not (job.run or job.waiting)
    return judge_late(job, now, timezone, awaiting.find(job.jobid) if awaits else None)


def judge_late(job: Pending, now: float, timezone: str, awaited: Awaited | None = None) -> Late | None:
    """Return whether a job is late `now`, and since when: of several instants that have passed, since the first.

    `awaited` is what a follower waits for.
    """
    zone = _find_zone(job, timezone)
    passed = [
        (limit, occurrence, what)
        for occurrence in _list_occurrences(job, Clock(now, zone), awaited)
        if occurrence.due <= now
        for limit, what in _list_limits(job, occurrence, zone)
        if limit <= now
    ]
    if not passed:
        return None
    since, occurrence, what = min(passed, key=lambda each: each[0])
    clock = Clock(now, zone)
    text = f"{what} by {clock.name(since)}, was due at {clock.format(occurrence.due)}, and {occurrence.place}"
    return Late(job.jobid, occurrence.due, since, text)


def _find_zone(job: Pending, timezone: str) -> str:
    try:
        return find_schedule(job.jobid, job.schedule, job.options).timezone or timezone
    except BadSchedule:
        return timezone


def _list_occurrences(job: Pending, clock: Clock, awaited: Awaited | None) -> Iterator[_Occurrence]:
    if awaited:
        yield _Occurrence(awaited.due, False, f"waits for {join_words(awaited.parents)}")
    elif job.run:
        yield _Occurrence(job.run.due, True, f"runs since {clock.format(job.run.start)}")
        owed = job.run.next.removeprefix(Left.OWED)
        if owed != job.run.next:
            yield _Occurrence(float(owed), False, "waits for the end of the run before")
    elif job.waiting:
        yield _Occurrence(job.waiting.due, job.kept.has_begun, f"waits in the queue {job.waiting.queue}")
    elif job.timeline is not None:
        due = job.timeline if job.kept.due is None else job.kept.due
        is_later = job.timeline > clock.now
        place = f"is tried again at {clock.format(job.timeline)}" if is_later else "waits for a dispatcher"
        yield _Occurrence(due, job.kept.has_begun, place)


def _list_limits(job: Pending, occurrence: _Occurrence, zone: str) -> Iterator[tuple[float, str]]:
    """Yield until when the occurrence is to begin, and to end."""
    options, due = parse_options(job.options), occurrence.due
    if "start-within" in options and not occurrence.has_begun:
        yield due + float(options["start-within"]), "was to begin"
    if "finish-within" in options:
        yield due + float(options["finish-within"]), "was to end"
    if "finish-by" in options:
        yield find_time_of_day(due, str(options["finish-by"]), zone), "was to end"


def find_time_of_day(after: float, clock_time: str, zone: str) -> float:
    """Return when it is such a time of day, as ``06:00``, in a zone: the first instant after `after`.

    One that the clocks pass over is that much later, as after the change. Of one that comes twice, both count.
    """
    place = ZoneInfo(zone)
    day, moment = datetime.fromtimestamp(after, place).date(), time.fromisoformat(clock_time)
    while True:
        local = datetime.combine(day, moment, place)
        first, second = local.timestamp(), local.replace(fold=1).timestamp()
        # Of one that is passed over, the second would be earlier.
        for instant in (first, max(first, second)):
            if instant > after:
                return instant
        day += timedelta(days=1)
