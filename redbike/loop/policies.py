"""The policies: where a job goes when a run of it has ended. All of them are pure functions.

Each takes the run and Redis' clock, and returns the `Placement` that ``lua/end.lua`` commits. Workers ask here for
their own runs, and the dispatcher for the runs of a dead worker.

If the job was set, asked for, cancelled or paused during its run, the script commits nothing. It replies with the
schedule and with what was left behind. Then `place_again` computes the place from that, and the script is called again.
"""

from dataclasses import replace
from typing import Any, Literal

from redbike.config.settings import Settings
from redbike.errors import BadSchedule, CommandFailed
from redbike.loop.occurrences import JUST_BEFORE, give_up_paused, place_next
from redbike.schedule.parser import is_one_off
from redbike.store.enums import Outcome
from redbike.store.records import ANEW, CANCELLED, NOTHING, OWED, Streak
from redbike.store.run import Answer, Placement, Run
from redbike.store.schedules import find_schedule
from redbike.text import printable as texts
from redbike.text.printable import format_traceback, get_message, quote

Why = Literal["", "overrun", "lost"]

ON_TIMELINE = "+timeline"  # behind what was left for the end of a run: the job is on the timeline, or held
PAUSED = "+paused:"  # behind that: the job is paused, since the time that follows
MAX_PAUSE = 3600.0  # seconds between two tries
DEFAULT_RETRIES = 3  # with on-error = retry
MAX_ERROR, MAX_TRACEBACK, MAX_OUTPUT = 500, 4000, 4000  # characters that are kept of a failure


def place_done(run: Run, result: object, settings: Settings, now: float) -> Placement:
    """Place a job whose ``work`` returned `result`: by its schedule."""
    schedule = find_schedule(run.jobid, run.schedule, run.options)
    if schedule.allows_pause:
        return Placement("next", due=f"+{read_pause(result):.6f}")
    return place_next(run, schedule, settings, now)


def read_pause(result: object) -> float:
    """Return the pause in seconds that ``work`` asked for by returning `result`. Raise `TypeError` or `ValueError`."""
    if result is None:
        return 0.0
    if isinstance(result, bool) or not isinstance(result, int | float):
        raise TypeError(f"work() returned {quote(result)}, neither None nor a number of seconds")
    if not 0 <= result <= 1e9:
        raise ValueError(f"work() returned {quote(result)}: a backoff is 0 to 1e9 seconds")
    # Without the sign that a zero may have.
    return float(result) + 0.0


def place_unwanted(run: Run, settings: Settings, now: float) -> Placement | None:
    """Place a job whose run is not to begin: it was missed while its queue was paused. None if it is to begin."""
    if run.queue_pause is None:
        return None
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
    except BadSchedule:
        return None
    return give_up_paused(run, schedule, settings, now)


def place_asked_again(run: Run, after: object) -> Placement:
    """Place a job whose ``work`` asked for the same occurrence again, `after` so many seconds. That is no failure.

    Raise `TypeError` or `ValueError` for what are no such seconds.
    """
    if isinstance(after, bool) or not isinstance(after, int | float):
        raise TypeError(f"Again(after={quote(after)}): a number of seconds is needed")
    if not 0 <= after <= 1e9:
        raise ValueError(f"Again(after={quote(after)}): 0 to 1e9 seconds are allowed")
    one_more = format_next_try(run, run.failures, losses=0)
    return Placement("due", due=f"+{after + 0.0:.6f}", streak=one_more, retried=True, outcome=Outcome.RETRY)


def place_left(run: Run, pause: float) -> Placement:
    """Place a job that its worker cannot do, and others may: the same try again, after `pause` seconds. It was no run.

    Until then it waits on the timeline: at the head of its queue the same worker would take it again at once.
    """
    kept = Streak(run.failures, run.losses, run.tries, run.due, run.after, failed=run.failed)
    return Placement("due", due=f"+{pause:.6f}", streak=kept.format(), retried=True, outcome=None)


def place_handed_back(run: Run) -> Placement:
    """Place a job whose worker is ended by a second signal: the same occurrence again, at once. That is no loss."""
    streak = format_next_try(run, run.failures, run.losses)
    why = "its worker was stopped, and has handed it back"
    return Placement("due", due="+0.000000", streak=streak, retried=True, outcome=Outcome.RETRY, error=why)


def place_failed(run: Run, error: BaseException, settings: Settings, now: float) -> Placement:
    """Place a job whose ``work`` raised `error`: by ``on-error``."""
    placed = _place_by_error(run, error, settings, now)
    return replace(placed, outcome=Outcome.RETRY if placed.retried else Outcome.FAILED, error=describe(error))


def _place_by_error(run: Run, error: BaseException, settings: Settings, now: float) -> Placement:
    if isinstance(error, CommandFailed):
        failure = make_failure(run, describe(error), "", now, error.output)
    else:
        failure = make_failure(run, describe(error), format_traceback(error), now)
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
    except BadSchedule:
        return Placement("die", failure=failure)
    if run.failures < count_retries(settings):
        return _retry(run, settings)
    # With `stop_after`, it is the number of failed occurrences that ends the retries of a job.
    goes_on = settings.on_error == "reschedule" or (settings.on_error == "retry" and settings.stop_after)
    if not goes_on:
        return Placement("die", failure=failure)
    if schedule.allows_pause:
        # At once would be a loop that does nothing but fail.
        paused = Placement("next", due=f"+{settings.backoff:.6f}", failure=failure)
        return _count_failed(paused, run, settings, failure)
    placed = _die_at_the_end(place_next(run, schedule, settings, now, failure=failure))
    return _count_failed(placed, run, settings, failure)


def count_retries(settings: Settings) -> int:
    """Return how often a failed run is tried again before ``on-error`` decides."""
    if settings.retries is None:
        return DEFAULT_RETRIES if settings.on_error == "retry" else 0
    return settings.retries


def _count_failed(placement: Placement, run: Run, settings: Settings, failure: dict[str, Any]) -> Placement:
    """Count a failed occurrence of a job that goes on; by ``stop-after`` it fails for good."""
    if not settings.stop_after or placement.place == "die":
        return placement
    if run.failed + 1 >= settings.stop_after:
        return Placement("die", why=placement.why, failure=failure)
    return replace(placement, streak=replace(Streak.parse(placement.streak), failed=run.failed + 1).format())


def _die_at_the_end(placement: Placement) -> Placement:
    """Let a job that has failed, and has no further occurrence, fail for good."""
    return replace(placement, place="die") if placement.place == "next" and placement.due is None else placement


def _retry(run: Run, settings: Settings) -> Placement:
    pause = min(MAX_PAUSE, settings.backoff * 2.0 ** min(run.failures, 40))
    streak = format_next_try(run, failures=run.failures + 1, losses=0)
    return Placement("due", due=f"+{pause:.6f}", streak=streak, retried=True)


def format_next_try(run: Run, failures: int, losses: int) -> str:
    """Return the record of a streak with one more try of the same occurrence."""
    return Streak(failures, losses, run.tries + 1, run.due, run.after, failed=run.failed).format()


def place_overrun(run: Run, settings: Settings, now: float) -> Placement:
    """Place a job whose run outlived its deadline: by ``on-timeout``."""
    error = f"overran its timeout of {run.timeout:g} s"
    return replace(_place_late(run, error, settings, now), outcome=Outcome.OVERRUN, error=error)


def _place_late(run: Run, error: str, settings: Settings, now: float) -> Placement:
    failure = make_failure(run, error, "", now)
    if settings.on_timeout == "requeue":
        streak = format_next_try(run, run.failures, losses=0)
        placed = Placement("due", due=run.due, why="overrun", streak=streak, retried=True)
    elif settings.on_timeout == "reschedule":
        placed = _die_at_the_end(place_rescheduled(run, settings, now, why="overrun", failure=failure))
    else:
        return Placement("die", why="overrun", failure=failure)
    # Nothing but this ends a job that overruns again and again.
    return _count_failed(placed, run, settings, failure)


def place_lost(run: Run, settings: Settings, now: float) -> Placement:
    """Place a job whose worker stopped sending heartbeats: by ``on-lost``. With ``max-losses`` in a row, for good."""
    return replace(_place_without_worker(run, settings, now), outcome=Outcome.LOST)


def _place_without_worker(run: Run, settings: Settings, now: float) -> Placement:
    losses = run.losses + 1
    failure = make_failure(run, f"its worker died or was cut off, {losses} times in a row", "", now)
    if losses >= settings.max_losses or settings.on_lost == "stop":
        return Placement("die", why="lost", failure=failure)
    if settings.on_lost == "reschedule":
        streak = Streak(run.failures, losses).format()
        placed = _die_at_the_end(place_rescheduled(run, settings, now, why="lost", streak=streak, failure=failure))
        return _count_failed(placed, run, settings, failure)
    return Placement("due", due=run.due, why="lost", streak=format_next_try(run, run.failures, losses))


def place_suspect(run: Run) -> Placement:
    """Place a job whose worker died with several runs. Nobody knows which of them it had begun.

    So it counts as a loss for none of them. Each runs alone the next time: that shows which one kills its workers.
    """
    tried = run.due if run.tries else None
    kept = Streak(run.failures, run.losses, run.tries, tried, run.after, alone=True, failed=run.failed)
    return Placement("due", due=run.due, why="lost", streak=kept.format(), outcome=Outcome.LOST)


def describe(error: BaseException) -> str:
    """Return one line for an exception: its type and its message; for a failed command the message alone."""
    return get_message(error) if isinstance(error, CommandFailed) else texts.describe(error)


def make_failure(run: Run, error: str, trace: str, now: float, output: str = "") -> dict[str, Any]:
    """Return what is kept of a run that ended badly, of limited size. `output` is the end of what a command printed."""
    failure = {
        "jobid": run.jobid,
        "due": run.due,
        "attempt": run.attempt,
        "failed": now,
        "error": error[:MAX_ERROR],
        "traceback": trace[-MAX_TRACEBACK:],
    }
    return failure | {"output": output[-MAX_OUTPUT:]} if output else failure


def place_again(run: Run, placement: Placement, changed: Answer, settings: Settings, now: float) -> Placement:
    """Place a job that was set, paused or cancelled during its run: that counts, and not how the run ended."""
    if changed.left.startswith(CANCELLED):
        return _place_cancelled_again(run, placement, changed, settings, now)
    placed = _place_changed(run, placement, changed, settings, now)
    return replace(placed, outcome=placement.outcome, error=placement.error)


def _place_changed(run: Run, placement: Placement, changed: Answer, settings: Settings, now: float) -> Placement:
    placement = replace(placement, left=changed.left)
    left, _, paused = changed.left.partition(PAUSED)
    if left.startswith(OWED):
        return place_owed(run, placement, changed.detail)
    if left.startswith(ANEW):
        # However this run has ended, what is tried again is of the schedule before.
        moment = left.removeprefix(ANEW).removesuffix(ON_TIMELINE)
        return replace(placement, place="due", due=float(moment), streak="")
    if left.endswith(ON_TIMELINE):
        return replace(placement, place="stay", due=None, streak="")
    # What came due since the job was paused is for whoever resumes it.
    now = float(paused) if paused else now
    if left == NOTHING and changed.detail == run.schedule:
        return _place_paused(run, placement, settings, now)
    # The new schedule has no occurrence before it was set, and where the old one would go on is not for it.
    run = replace(run, schedule=changed.detail, options=changed.options, after=max(run.due, run.start))
    placed = place_rescheduled(run, settings, now, why=placement.why, failure=placement.failure)
    return replace(placed, left=changed.left, retried=placement.retried)


def _place_paused(run: Run, placement: Placement, settings: Settings, since: float) -> Placement:
    """Place a job that was paused during its run, at `since`: at its next occurrence, even if that is past."""
    if placement.place != "next" or isinstance(placement.due, str):
        return placement
    schedule = find_schedule(run.jobid, run.schedule, run.options)
    placed = place_next(run, schedule, settings, since)
    skipped = {name: getattr(placed, name) for name in ("missed", "overlapped", "late", "paused")}
    return replace(placement, due=placed.due, **skipped)


def place_cancelled(run: Run, settings: Settings, now: float, why: Why = "") -> Placement:
    """Place a job whose run was cancelled: at its next occurrence. It has neither failed nor succeeded."""
    placed = place_rescheduled(run, settings, now, why=why, retried=True)
    return replace(placed, left=f"{CANCELLED}{NOTHING}", outcome=Outcome.CANCELLED)


def _place_cancelled_again(
    run: Run, placement: Placement, changed: Answer, settings: Settings, now: float
) -> Placement:
    """Place a job whose run was cancelled. What its worker decided counts: success, `StopWork` and `UnsetJob`."""
    failed = placement.failure is not None or placement.why or placement.place in ("die", "due")
    placed = place_cancelled(run, settings, now, placement.why) if failed else placement
    left = changed.left.removeprefix(CANCELLED)
    if left != NOTHING or changed.detail != run.schedule:
        placed = place_again(run, placed, changed._replace(left=left), settings, now)
    return replace(placed, left=changed.left)


def place_owed(run: Run, placement: Placement, schedule: str) -> Placement:
    """Place a job of which a further run is owed: that run comes first, then the schedule goes on where it was."""
    moment = placement.left.partition(PAUSED)[0].removeprefix(OWED).removesuffix(ON_TIMELINE)
    asked_for = replace(placement, place="due", due=float(moment), streak="")
    if is_one_off(schedule):
        return asked_for
    if placement.place == "due":
        # If this run is to happen again, that is the one that was asked for. It begins the count of failed ones again.
        tried = replace(Streak.parse(placement.streak), failed=0)
        due = placement.due if tried.due is None else tried.due
        if isinstance(due, float):
            return replace(asked_for, due=due, streak=tried.format())
    after = run.due
    if placement.place == "next":
        if not isinstance(placement.due, float):
            return asked_for
        after = placement.due - JUST_BEFORE
        if (counted_until := Streak.parse(placement.streak).after) is not None:
            # The run that is owed takes the place of the occurrence that came due during this one.
            asked_for, after = replace(asked_for, overlapped=asked_for.overlapped + 1), counted_until
    return replace(asked_for, streak=Streak(after=after).format()) if schedule == run.schedule else asked_for


def place_rescheduled(run: Run, settings: Settings, now: float, why: Why, **kept: Any) -> Placement:
    """Call `place_next` with the schedule as it stands; give the job up if that is invalid by now."""
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
        return place_next(run, schedule, settings, now, why=why, **kept)
    except BadSchedule as error:
        return refuse(run, error, now, why)


def refuse(run: Run, error: BadSchedule, now: float, why: Why = "") -> Placement:
    """Place a job whose stored schedule cannot be read: it has failed for good."""
    failure = make_failure(run, describe(error), "", now)
    return Placement("die", why=why, failure=failure, outcome=Outcome.FAILED, error=describe(error))
