"""Find the occurrence that was last due at a past instant, and whether it is still to run."""

from collections.abc import Iterator

from redbike.loop.courses import follow
from redbike.loop.outlook import Outlook
from redbike.queries.why.now import Situation, explain_pause, explain_timeline, explain_waiting
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Schedule
from redbike.store.records import RetryState

CENTURY = 3.2e9  # seconds
CLOSE = 0.001  # seconds by which the due times of an occurrence and its run may differ
MOST_KEPT = 1000  # occurrences kept by a run that are computed one by one


def find_due(situation: Situation, at: float, clock: Clock) -> float | None:
    """Return the last due time of a job until `at`, by its schedule or of a waiting occurrence; None if there is none.

    A job with CONTINUE is due whenever it does not run.
    """
    schedule, found = situation.schedule, [first for first, _, _ in _list_places(situation, clock) if first <= at]
    if schedule is not None and schedule.allows_pause:
        return max(found, default=at)
    own, asked = None if schedule is None else find_last(schedule, at), situation.job.waiting
    if own is None:
        return max(found, default=None)
    # A person may have requested the run that waits in a queue.
    return max(own, asked.due) if asked and asked.due <= at else own


def find_last(schedule: Schedule, at: float) -> float | None:
    """Return the last due time of `schedule` until `at`; None if there is none within a hundred years."""
    window, last = 1.0, None
    while last is None and window < CENTURY:
        due = schedule.next(max(0.0, at - window))
        last = due if due is not None and due <= at else None
        window *= 2
    if last is None:
        return None
    # No occurrence is due after `end`. There may be very many before it.
    end = at
    while end - last > CLOSE:
        middle = last + (end - last) / 2
        due = schedule.next(middle)
        if due is not None and due <= at:
            last = due
        else:
            end = middle
    return last


def explain_pending(situation: Situation, due: float, clock: Clock) -> str:
    """Return what the occurrence of `due`, or an earlier one that runs first, waits for; "" if neither waits."""
    places = list(_list_places(situation, clock))
    for first, _, said in places:
        if abs(first - due) < CLOSE:
            return said
    for first, how, said in places:
        if first < due:
            return f"An occurrence was due at {clock.name(due)}, while an earlier one {how}. {said}"
    return ""


def _list_places(situation: Situation, clock: Clock) -> Iterator[tuple[float, str, str]]:
    """Yield each waiting occurrence: its due time, how it waits in words, and what it waits for, as a sentence."""
    job = situation.job
    if job.waiting:
        yield job.waiting.due, "waits", explain_waiting(situation, clock)
    tried = RetryState.parse(job.retry_state).due
    if job.held is not None:
        yield job.held if tried is None else tried, "is held", explain_pause(job, clock)
    if job.due is not None and (tried is not None or job.due <= clock.now):
        yield job.due if tried is None else tried, "waits", explain_timeline(situation, clock)


def explain_behind_run(situation: Situation, due: float, clock: Clock) -> str:
    """Return what becomes of the occurrence of `due`, if the run in flight is of an earlier one; "" if it is not."""
    job, run = situation.job, situation.job.run
    if run is None or run.due >= due:
        return ""
    was_due, since = f"An occurrence was due at {clock.name(due)}", clock.name(run.start)
    # When the run ends, `overlap` and `catchup` decide whether the occurrence is kept.
    course = follow(Outlook(job, situation.settings, clock.now + CLOSE, most=MOST_KEPT))
    if any(abs(each - due) < CLOSE for each in course.dues):
        return f"{was_due}, and runs when the run before it has ended, which still goes on, since {since}."
    if run.start < due:
        return f"{was_due}, and was skipped: its last run still goes on, since {since}."
    return f"{was_due}, and was skipped: an earlier one had not ended, which runs now, since {since}."
