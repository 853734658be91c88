"""Set and end blackouts, which pause jobs, a queue or everything at each time of a schedule."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from redbike.config.settings import Settings
from redbike.control.operator import check_reason, name_operator
from redbike.errors import BadConfig, BadSchedule, quoted
from redbike.importers.rows import WantedBlackout
from redbike.loop.blackouts import begin_named
from redbike.loop.host_jobs import check_alone, list_others, name_bases
from redbike.loop.resuming import resume
from redbike.schedule.clock import format_length
from redbike.schedule.moments import parse_duration
from redbike.schedule.objects import ScheduleLike, check_schedule, format_schedule
from redbike.schedule.parser import is_hashed, parse
from redbike.schedule.windows import check_recurring, find_window
from redbike.store.blackouts import LONGEST, OF_JOB, OF_QUEUE, Blackout
from redbike.store.patterns import Steered
from redbike.store.rows import StoredRow
from redbike.store.store import Store
from redbike.text.printable import quote


def make_blackout(store: Store, every: ScheduleLike, lasting: Any, reason: str, timezone: str) -> Blackout:
    """Return a blackout from arguments of a caller. Raise `BadSchedule`, or `BadConfig` for a bad length or reason.

    Times without a zone are in `timezone`.
    """
    return check_blackout(every, lasting, store.who, reason, timezone, store.timeline.read_clock())


def make_row_blackout(
    wanted: WantedBlackout | None, timezone: str, now: float, stored: StoredRow, names_zone: bool
) -> Blackout | None:
    """Return the blackout of a row; None if the row has none, or if the blackout is over. Raise as `make_blackout`.

    A blackout is over if it never begins again. For a new job, a blackout that is on now is not over.
    """
    if wanted is None:
        return None
    found = check_blackout(*wanted, timezone, now, Blackout.parse(stored.blackout), True, names_zone)
    comes = found.schedule.next(now) is not None or (stored.schedule is None and found.find(now) is not None)
    return found if comes else None


def check_blackout(
    every: ScheduleLike, lasting: Any, by: str | None, reason: str | None, timezone: str, now: float,
    stored: Blackout | None = None, may_be_over: bool = False, names_zone: bool = False
) -> Blackout:  # fmt: skip
    """`make_blackout`, as set by `by`; None is the user of this process. `now` is the current time, in epoch seconds.

    If the `stored` blackout has the same schedule, except for an anchor that was added, its text is kept. With
    `names_zone`, the schedule is stored with its zone, even if the zone is UTC.
    """
    check_reason(reason or "")
    seconds = read_length(lasting)
    check_schedule(every, None)
    given = format_schedule(every, timezone)
    schedule = parse(given, timezone, anchor=now)
    if is_hashed(given):
        raise BadSchedule(f"bad schedule {quoted(given)}: H is not allowed in a blackout, as several jobs may share it")
    check_recurring(schedule, None if may_be_over else now)
    find_window(schedule, seconds, now)  # raises if it would never open
    if names_zone:
        schedule = schedule.with_zone()
    text = stored.every if stored and schedule.is_stored_as(stored.every) else schedule.text
    return Blackout(text, seconds, round(now, 6), by or name_operator(), reason or "")


def read_length(lasting: Any) -> float:
    """Return the seconds of a text such as ``2h``, a number or a timedelta. Raise `BadConfig`."""
    try:
        seconds = lasting.total_seconds() if isinstance(lasting, timedelta) else lasting
        seconds = parse_duration(str(round(seconds, 6) if isinstance(seconds, float) else seconds).strip())
    except BadSchedule:
        seconds = 0.0
    if isinstance(lasting, bool) or not 1 <= seconds <= LONGEST:
        raise BadConfig(f"bad length of a blackout {quote(lasting)}: a duration of 1 s or more is needed, such as 2h")
    return seconds


def check_together(until: object, every: object, lasting: object) -> None:
    """Raise `BadConfig` if only one of `every` and `lasting` is given, or if `until` is given with them."""
    if (every is None) != (lasting is None):
        raise BadConfig("a blackout needs a schedule (every) and a length (for; in Python, lasting)")
    if every is not None and until is not None:
        raise BadConfig("a blackout ends after its length: until is for a single pause")


def set_blackout(store: Store, names: Sequence[str], blackout: Blackout, settings: Settings) -> list[str]:
    """Set the same blackout for each of `names`. If it is on now, its pause begins at once.

    If a replaced blackout has paused a job or queue, this pause ends, or lasts until the end of the new one. The words
    are ``set``, ``replaced`` (there was another one) and ``missing`` (the job was unset meanwhile).
    """
    window = blackout.find(blackout.since)
    assert window is not None
    at = max(window.start, blackout.since)
    words = store.blackouts.set(names, blackout, at, _describe(names, describe_blackout(blackout)))
    if window.start <= blackout.since:
        begin_named(store, names)
    else:
        _end_pauses(store, names, settings)
    return words


def end_blackout(store: Store, names: Sequence[str], settings: Settings) -> list[str]:
    """End the blackouts of `names`, and the pauses that they have begun. The words are ``ended`` and ``unchanged``."""
    words = store.blackouts.end(names, _describe(names, ""))
    _end_pauses(store, names, settings)
    return words


def _end_pauses(store: Store, names: Sequence[str], settings: Settings) -> None:
    """End the pauses that blackouts have begun, if none is on now. A pause that one has extended ends as before.

    This is also done for a blackout that was ended before: that request may have been interrupted here.
    """
    # The log has the change of the blackout already.
    quiet = store.noted_as(None)
    pauses = store.questions.read_pauses([name.removeprefix(OF_JOB) for name in names if name.startswith(OF_JOB)])
    jobids = [jobid for jobid, pause in pauses.items() if pause.is_of_blackout or pause.is_lengthened]
    queues = [name for name in names if name.startswith(OF_QUEUE) and _is_paused(store, name)]
    begin_named(quiet, [f"{OF_JOB}{jobid}" for jobid in jobids] + queues)
    resume(quiet, settings, jobids, only_over=True)
    for name in queues:
        quiet.queue_limits.open(name.removeprefix(OF_QUEUE))


def _is_paused(store: Store, name: str) -> bool:
    """Tell whether a queue, or everything, has a pause of its own."""
    return store.queue_limits.read(name.removeprefix(OF_QUEUE)).pause is not None


def set_for_jobs(store: Store, jobids: Sequence[str], blackout: Blackout, settings: Settings) -> list[Steered]:
    """`set_blackout` for jobs."""
    jobids = [*jobids, *list_others(store, jobids)]
    words = set_blackout(store, [f"{OF_JOB}{jobid}" for jobid in jobids], blackout, settings) if jobids else []
    return [Steered(*each) for each in zip(jobids, words, strict=True)]


def end_for_jobs(store: Store, jobids: Sequence[str], settings: Settings) -> list[Steered]:
    """`end_blackout` for jobs.

    Raise `BadJobId` for a job on one host with the blackout of its base: the blackout of the base would pause it again.
    """
    bases = name_bases(jobids)
    names = [f"{OF_JOB}{each}" for each in (*bases, *dict.fromkeys(bases.values()))]
    found = store.blackouts.read(names) if names else {}
    texts = {name.removeprefix(OF_JOB): blackout.format() for name, blackout in found.items()}
    shared = {jobid: base for jobid, base in bases.items() if jobid in texts and texts[jobid] == texts.get(base)}
    check_alone(store, shared, "has that blackout, so end it there")
    jobids = [*list_others(store, jobids), *jobids]
    words = end_blackout(store, [f"{OF_JOB}{jobid}" for jobid in jobids], settings) if jobids else []
    return [Steered(*each) for each in zip(jobids, words, strict=True)]


def describe_blackout(blackout: Blackout) -> str:
    """Return when a blackout is on, and why: ``every 0 2 * * * for 2 h: maintenance``."""
    said = f"every {blackout.every} for {format_length(blackout.seconds)}"
    return f"{said}: {blackout.reason}" if blackout.reason else said


def _describe(names: Sequence[str], said: str) -> str:
    """Return the text of an entry in the log: names of queues and `said`. Jobs have their own column there."""
    if not names or names[0].startswith(OF_JOB):
        return said
    queue = names[0].removeprefix(OF_QUEUE)
    return " ".join(filter(None, (f"queue {queue}" if queue else "all", said)))
