"""The policies: where a job goes when a run of it has ended. All of them are pure functions.

Each takes the run and Redis' clock, and returns the `NextState` that ``lua/end.lua`` commits. Workers ask here for
their own runs, and the dispatcher for the runs of a dead worker.

If the job was set, asked for, cancelled or paused during its run, the script commits nothing. It replies with the
schedule and with what was left behind. Then `decide_again` computes the next state from that, and the script is
called again.
"""

from dataclasses import replace
from typing import Any, Literal

from redbike.config.settings import Settings
from redbike.errors import BadSchedule, CommandFailed
from redbike.loop.occurrences import JUST_BEFORE, decide_next, give_up_paused
from redbike.schedule.parser import is_one_off
from redbike.store.enums import Left, Outcome
from redbike.store.records import RetryState
from redbike.store.run import Answer, NextState, Run
from redbike.store.schedules import find_schedule
from redbike.text import printable as texts
from redbike.text.printable import format_traceback, get_message, quote

Why = Literal["", "overrun", "lost"]

MAX_PAUSE = 3600.0  # seconds between two tries
DEFAULT_RETRIES = 3  # with on-error = retry
MAX_ERROR, MAX_TRACEBACK, MAX_OUTPUT = 500, 4000, 4000  # characters that are kept of a failure


def decide_done(run: Run, result: object, settings: Settings, now: float) -> NextState:
    """Decide for a job whose ``work`` returned `result`: by its schedule."""
    schedule = find_schedule(run.jobid, run.schedule, run.options)
    if schedule.allows_pause:
        return NextState("next", due=f"+{read_pause(result):.6f}")
    return decide_next(run, schedule, settings, now)


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


def decide_unwanted(run: Run, settings: Settings, now: float) -> NextState | None:
    """Decide for a job whose run is not to begin: it was missed while its queue was paused. None if it is to begin."""
    if run.queue_pause is None:
        return None
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
    except BadSchedule:
        return None
    return give_up_paused(run, schedule, settings, now)


def decide_asked_again(run: Run, after: object) -> NextState:
    """Decide for a job whose ``work`` asked for the same occurrence again, `after` so many seconds: no failure.

    Raise `TypeError` or `ValueError` for what are no such seconds.
    """
    if isinstance(after, bool) or not isinstance(after, int | float):
        raise TypeError(f"Again(after={quote(after)}): a number of seconds is needed")
    if not 0 <= after <= 1e9:
        raise ValueError(f"Again(after={quote(after)}): 0 to 1e9 seconds are allowed")
    one_more = format_next_try(run, run.failures, losses=0)
    return NextState("due", due=f"+{after + 0.0:.6f}", retry_state=one_more, retried=True, outcome=Outcome.RETRY)


def decide_left(run: Run, pause: float) -> NextState:
    """Decide for a job that its worker cannot do, and others may: the same try, after `pause` seconds. It was no run.

    Until then it waits on the timeline: at the head of its queue the same worker would take it again at once.
    """
    kept = RetryState(run.failures, run.losses, run.tries, run.due, run.after, failed=run.failed)
    return NextState("due", due=f"+{pause:.6f}", retry_state=kept.format(), retried=True, outcome=None)


def decide_handed_back(run: Run) -> NextState:
    """Decide for a job whose worker is ended by a second signal: the same occurrence again, at once; no loss."""
    retry_state = format_next_try(run, run.failures, run.losses)
    why = "its worker was stopped, and has handed it back"
    return NextState("due", due="+0.000000", retry_state=retry_state, retried=True, outcome=Outcome.RETRY, error=why)


def decide_failed(run: Run, error: BaseException, settings: Settings, now: float) -> NextState:
    """Decide for a job whose ``work`` raised `error`: by ``on-error``."""
    decided = _decide_by_error(run, error, settings, now)
    return replace(decided, outcome=Outcome.RETRY if decided.retried else Outcome.FAILED, error=describe(error))


def _decide_by_error(run: Run, error: BaseException, settings: Settings, now: float) -> NextState:
    if isinstance(error, CommandFailed):
        failure = make_failure(run, describe(error), "", now, error.output)
    else:
        failure = make_failure(run, describe(error), format_traceback(error), now)
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
    except BadSchedule:
        return NextState("die", failure=failure)
    if run.failures < count_retries(settings):
        return _retry(run, settings)
    # With `stop_after`, it is the number of failed occurrences that ends the retries of a job.
    goes_on = settings.on_error == "reschedule" or (settings.on_error == "retry" and settings.stop_after)
    if not goes_on:
        return NextState("die", failure=failure)
    if schedule.allows_pause:
        # At once would be a loop that does nothing but fail.
        paused = NextState("next", due=f"+{settings.backoff:.6f}", failure=failure)
        return _count_failed(paused, run, settings, failure)
    decided = _die_at_the_end(decide_next(run, schedule, settings, now, failure=failure))
    return _count_failed(decided, run, settings, failure)


def count_retries(settings: Settings) -> int:
    """Return how often a failed run is tried again before ``on-error`` decides."""
    if settings.retries is None:
        return DEFAULT_RETRIES if settings.on_error == "retry" else 0
    return settings.retries


def _count_failed(next_state: NextState, run: Run, settings: Settings, failure: dict[str, Any]) -> NextState:
    """Count a failed occurrence of a job that goes on; by ``stop-after`` it fails for good."""
    if not settings.stop_after or next_state.place == "die":
        return next_state
    if run.failed + 1 >= settings.stop_after:
        return NextState("die", why=next_state.why, failure=failure)
    retry_state = replace(RetryState.parse(next_state.retry_state), failed=run.failed + 1)
    return replace(next_state, retry_state=retry_state.format())


def _die_at_the_end(next_state: NextState) -> NextState:
    """Let a job that has failed, and has no further occurrence, fail for good."""
    return replace(next_state, place="die") if next_state.place == "next" and next_state.due is None else next_state


def _retry(run: Run, settings: Settings) -> NextState:
    pause = min(MAX_PAUSE, settings.backoff * 2.0 ** min(run.failures, 40))
    retry_state = format_next_try(run, failures=run.failures + 1, losses=0)
    return NextState("due", due=f"+{pause:.6f}", retry_state=retry_state, retried=True)


def format_next_try(run: Run, failures: int, losses: int) -> str:
    """Return the record of a retry state with one more try of the same occurrence."""
    return RetryState(failures, losses, run.tries + 1, run.due, run.after, failed=run.failed).format()


def decide_overrun(run: Run, settings: Settings, now: float) -> NextState:
    """Decide for a job whose run outlived its deadline: by ``on-timeout``."""
    error = f"overran its timeout of {run.timeout:g} s"
    return replace(_decide_late(run, error, settings, now), outcome=Outcome.OVERRUN, error=error)


def _decide_late(run: Run, error: str, settings: Settings, now: float) -> NextState:
    failure = make_failure(run, error, "", now)
    if settings.on_timeout == "requeue":
        retry_state = format_next_try(run, run.failures, losses=0)
        decided = NextState("due", due=run.due, why="overrun", retry_state=retry_state, retried=True)
    elif settings.on_timeout == "reschedule":
        decided = _die_at_the_end(decide_rescheduled(run, settings, now, why="overrun", failure=failure))
    else:
        return NextState("die", why="overrun", failure=failure)
    # Nothing but this ends a job that overruns again and again.
    return _count_failed(decided, run, settings, failure)


def decide_lost(run: Run, settings: Settings, now: float) -> NextState:
    """Decide for a job whose worker sent no heartbeats: by ``on-lost``. With ``max-losses`` in a row, for good."""
    return replace(_decide_without_worker(run, settings, now), outcome=Outcome.LOST)


def _decide_without_worker(run: Run, settings: Settings, now: float) -> NextState:
    losses = run.losses + 1
    failure = make_failure(run, f"its worker died or was cut off, {losses} times in a row", "", now)
    if losses >= settings.max_losses or settings.on_lost == "stop":
        return NextState("die", why="lost", failure=failure)
    if settings.on_lost == "reschedule":
        retry_state = RetryState(run.failures, losses).format()
        rescheduled = decide_rescheduled(run, settings, now, why="lost", retry_state=retry_state, failure=failure)
        decided = _die_at_the_end(rescheduled)
        return _count_failed(decided, run, settings, failure)
    return NextState("due", due=run.due, why="lost", retry_state=format_next_try(run, run.failures, losses))


def decide_suspect(run: Run) -> NextState:
    """Decide for a job whose worker died with several runs. Nobody knows which of them it had begun.

    So it counts as a loss for none of them. Each runs alone the next time: that shows which one kills its workers.
    """
    tried = run.due if run.tries else None
    kept = RetryState(run.failures, run.losses, run.tries, tried, run.after, alone=True, failed=run.failed)
    return NextState("due", due=run.due, why="lost", retry_state=kept.format(), outcome=Outcome.LOST)


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


def decide_again(run: Run, next_state: NextState, changed: Answer, settings: Settings, now: float) -> NextState:
    """Decide for a job that was set, paused or cancelled during its run: that counts, and not how the run ended."""
    if changed.left.startswith(Left.WAS_CANCELLED):
        return _decide_cancelled_again(run, next_state, changed, settings, now)
    decided = _decide_changed(run, next_state, changed, settings, now)
    return replace(decided, outcome=next_state.outcome, error=next_state.error)


def _decide_changed(run: Run, next_state: NextState, changed: Answer, settings: Settings, now: float) -> NextState:
    next_state = replace(next_state, left=changed.left)
    left, _, paused = changed.left.partition(Left.WAS_PAUSED)
    if left.startswith(Left.OWED):
        return decide_owed(run, next_state, changed.detail)
    if left.startswith(Left.ANEW):
        # However this run has ended, what is tried again is of the schedule before.
        moment = left.removeprefix(Left.ANEW).removesuffix(Left.ON_TIMELINE)
        return replace(next_state, place="due", due=float(moment), retry_state="")
    if left.endswith(Left.ON_TIMELINE):
        return replace(next_state, place="stay", due=None, retry_state="")
    # What came due since the job was paused is for whoever resumes it.
    now = float(paused) if paused else now
    if left == Left.NOTHING and changed.detail == run.schedule:
        return _decide_paused(run, next_state, settings, now)
    # The new schedule has no occurrence before it was set, and where the old one would go on is not for it.
    run = replace(run, schedule=changed.detail, options=changed.options, after=max(run.due, run.start))
    decided = decide_rescheduled(run, settings, now, why=next_state.why, failure=next_state.failure)
    return replace(decided, left=changed.left, retried=next_state.retried)


def _decide_paused(run: Run, next_state: NextState, settings: Settings, since: float) -> NextState:
    """Decide for a job that was paused during its run, at `since`: at its next occurrence, even if that is past."""
    if next_state.place != "next" or isinstance(next_state.due, str):
        return next_state
    schedule = find_schedule(run.jobid, run.schedule, run.options)
    decided = decide_next(run, schedule, settings, since)
    skipped = {name: getattr(decided, name) for name in ("missed", "overlapped", "late", "paused")}
    return replace(next_state, due=decided.due, **skipped)


def decide_cancelled(run: Run, settings: Settings, now: float, why: Why = "") -> NextState:
    """Decide for a job whose run was cancelled: at its next occurrence. It has neither failed nor succeeded."""
    decided = decide_rescheduled(run, settings, now, why=why, retried=True)
    return replace(decided, left=f"{Left.WAS_CANCELLED}{Left.NOTHING}", outcome=Outcome.CANCELLED)


def _decide_cancelled_again(
    run: Run, next_state: NextState, changed: Answer, settings: Settings, now: float
) -> NextState:
    """Decide for a job whose run was cancelled. What its worker decided counts: success, `StopWork` and `UnsetJob`."""
    failed = next_state.failure is not None or next_state.why or next_state.place in ("die", "due")
    decided = decide_cancelled(run, settings, now, next_state.why) if failed else next_state
    left = changed.left.removeprefix(Left.WAS_CANCELLED)
    if left != Left.NOTHING or changed.detail != run.schedule:
        decided = decide_again(run, decided, changed._replace(left=left), settings, now)
    return replace(decided, left=changed.left)


def decide_owed(run: Run, next_state: NextState, schedule: str) -> NextState:
    """Decide for a job of which a further run is owed: that run comes first, then the schedule goes on where it was."""
    moment = next_state.left.partition(Left.WAS_PAUSED)[0].removeprefix(Left.OWED).removesuffix(Left.ON_TIMELINE)
    asked_for = replace(next_state, place="due", due=float(moment), retry_state="")
    if is_one_off(schedule):
        return asked_for
    if next_state.place == "due":
        # If this run is to happen again, that is the one that was asked for. It begins the count of failed ones again.
        tried = replace(RetryState.parse(next_state.retry_state), failed=0)
        due = next_state.due if tried.due is None else tried.due
        if isinstance(due, float):
            return replace(asked_for, due=due, retry_state=tried.format())
    after = run.due
    if next_state.place == "next":
        if not isinstance(next_state.due, float):
            return asked_for
        after = next_state.due - JUST_BEFORE
        if (counted_until := RetryState.parse(next_state.retry_state).after) is not None:
            # The run that is owed takes the place of the occurrence that came due during this one.
            asked_for, after = replace(asked_for, overlapped=asked_for.overlapped + 1), counted_until
    return replace(asked_for, retry_state=RetryState(after=after).format()) if schedule == run.schedule else asked_for


def decide_rescheduled(run: Run, settings: Settings, now: float, why: Why, **kept: Any) -> NextState:
    """Call `decide_next` with the schedule as it stands; give the job up if that is invalid by now."""
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
        return decide_next(run, schedule, settings, now, why=why, **kept)
    except BadSchedule as error:
        return refuse(run, error, now, why)


def refuse(run: Run, error: BadSchedule, now: float, why: Why = "") -> NextState:
    """Decide for a job whose stored schedule cannot be read: it has failed for good."""
    failure = make_failure(run, describe(error), "", now)
    return NextState("die", why=why, failure=failure, outcome=Outcome.FAILED, error=describe(error))
