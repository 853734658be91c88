"""The policies: where a job goes when a run of it has ended. All of them are pure functions.

Each takes the run and Redis' clock, and returns the `NextState` that ``lua/end.lua`` commits. Workers ask here for
their own runs, and the dispatcher for the runs of a dead worker.
"""

from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal

from redbike.config.settings import Settings
from redbike.errors import BadSchedule, CommandFailed
from redbike.loop.catchup import JUST_BEFORE, decide_next, find_expiry, give_up_expired, give_up_paused
from redbike.loop.retries import NO_RULES, ErrorRules, compute_pause, count_retries
from redbike.schedule.moments import read_duration
from redbike.schedule.parser import is_one_off
from redbike.store.enums import Outcome
from redbike.store.next_state import NextState
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import find_schedule, read_schedule
from redbike.text import printable as texts
from redbike.text.parsing import is_number
from redbike.text.printable import format_traceback, get_message, quote

Why = Literal["", "overrun", "lost"]

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
    said = f"work() returned {quote(result)}"
    return _read_seconds(
        result, f"{said}, neither None nor a number of seconds", f"{said}: a backoff is 0 to 1e9 seconds"
    )


def _read_seconds(value: object, is_no_number: str, is_out_of_bounds: str) -> float:
    """Return `value` if it is 0 to 1e9 seconds, else raise `TypeError` or `ValueError` with one of these messages."""
    if not is_number(value):
        raise TypeError(is_no_number)
    if not 0 <= value <= 1e9:
        raise ValueError(is_out_of_bounds)
    # Without the sign that a zero may have.
    return float(value) + 0.0


def decide_unwanted(run: Run, settings: Settings, now: float) -> NextState | None:
    """Decide for a job whose run is not to begin: it has expired, or was missed while its queue was paused.

    None if it is to begin.
    """
    if run.queue_pause is None and not settings.expires:
        return None
    schedule = read_schedule(run.jobid, run.schedule, run.options)
    if schedule is None:
        return None
    expiry = find_expiry(run, schedule, settings)
    if expiry is not None and now > expiry - JUST_BEFORE:
        return give_up_expired(run, schedule, settings, now)
    return give_up_paused(run, schedule, settings, now)


def decide_asked_again(run: Run, after: object, reason: str = "") -> NextState:
    """Decide for a job whose ``work`` asked for another try of its occurrence, `after` so long: that is no failure.

    `reason` is one line, or "". Raise `TypeError` or `ValueError` for an invalid `after`.
    """
    said = f"Again(after={quote(after)})"
    seconds = read_duration("after", after) if isinstance(after, str | timedelta) else after
    is_none = f"{said}: seconds, a text such as 15m, or a timedelta is needed"
    pause = _read_seconds(seconds, is_none, f"{said}: 0 to 1e9 seconds are allowed")
    one_more = _format_next_try(run, run.failures, losses=0)
    due = f"+{pause:.6f}"
    return NextState("due", due=due, retry_state=one_more, retried=True, outcome=Outcome.RETRY, error=reason)


def decide_left(run: Run, pause: float) -> NextState:
    """Decide for a job that only other workers can do: the same try comes after `pause` seconds. It was no run.

    Until then it waits on the timeline: at the head of its queue the same worker would take it again at once.
    """
    kept = RetryState(run.failures, run.losses, run.tries, run.due, run.after, run.alone, run.failed)
    return NextState("due", due=f"+{pause:.6f}", retry_state=kept.format(), retried=True, outcome=None)


def decide_handed_back(run: Run) -> NextState:
    """Decide for a job whose worker is ended by a second signal: its occurrence runs again at once. It is no loss."""
    retry_state = _format_next_try(run, run.failures, run.losses)
    why = "its worker was stopped, and has handed it back"
    return NextState("due", due="+0.000000", retry_state=retry_state, retried=True, outcome=Outcome.RETRY, error=why)


def decide_failed(
    run: Run, error: BaseException, settings: Settings, now: float, rules: ErrorRules = NO_RULES
) -> NextState:
    """Decide for a job whose ``work`` raised `error`: by `rules`, and then by ``on-error``."""
    text, stop = describe(error), rules.find_stop(error)
    trace, output = ("", error.output) if isinstance(error, CommandFailed) else (format_traceback(error), "")
    if stop is not None:
        why = f" (stop_on has {stop.__name__})"
        text = text[: MAX_ERROR - len(why)] + why
    failure = make_failure(run, text, trace, now, output)
    if stop is not None:
        return NextState("die", failure=failure, outcome=Outcome.FAILED, error=text)
    decided = _decide_by_error(run, settings, now, failure, rules.allow_retry(error))
    return replace(decided, outcome=Outcome.RETRY if decided.retried else Outcome.FAILED, error=text)


def _decide_by_error(run: Run, settings: Settings, now: float, failure: dict[str, Any], may_retry: bool) -> NextState:
    schedule = read_schedule(run.jobid, run.schedule, run.options)
    if schedule is None:
        return NextState("die", failure=failure)
    if may_retry and run.failures < count_retries(settings):
        pause = compute_pause(run, settings)
        one_more = _format_next_try(run, run.failures + 1, losses=0)
        return NextState("due", due=f"+{pause:.6f}", retry_state=one_more, retried=True, failed_try=failure)
    # With `stop_after`, a job whose retries are used up goes on until so many occurrences have failed.
    goes_on = settings.on_error == "reschedule" or (settings.on_error == "retry" and settings.stop_after)
    if not goes_on:
        return NextState("die", failure=failure)
    if schedule.allows_pause:
        # At once would be a loop that does nothing but fail.
        paused = NextState("next", due=f"+{settings.backoff:.6f}", failure=failure)
        return _count_failed(paused, run, settings, failure)
    decided = _die_at_the_end(decide_next(run, schedule, settings, now, failure=failure))
    return _count_failed(decided, run, settings, failure)


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


def _format_next_try(run: Run, failures: int, losses: int) -> str:
    """Return the record of a retry state with one more try of the same occurrence."""
    return RetryState(failures, losses, run.tries + 1, run.due, run.after, failed=run.failed).format()


def decide_overrun(run: Run, settings: Settings, now: float) -> NextState:
    """Decide for a job whose run outlived its deadline: by ``on-timeout``."""
    error = f"overran its timeout of {run.timeout:g} s"
    return replace(_decide_late(run, error, settings, now), outcome=Outcome.OVERRUN, error=error)


def _decide_late(run: Run, error: str, settings: Settings, now: float) -> NextState:
    failure = make_failure(run, error, "", now, run.tap.show(MAX_OUTPUT) if run.tap else "")
    if settings.on_timeout == "requeue":
        retry_state = _format_next_try(run, run.failures, losses=0)
        decided = NextState("due", due=run.due, why="overrun", retry_state=retry_state, retried=True)
        decided.failed_try = failure
    elif settings.on_timeout == "reschedule":
        decided = _die_at_the_end(decide_rescheduled(run, settings, now, why="overrun", failure=failure))
    else:
        return NextState("die", why="overrun", failure=failure)
    # Nothing but this ends a job that overruns again and again.
    return _count_failed(decided, run, settings, failure)


def decide_lost(run: Run, settings: Settings, now: float) -> NextState:
    """Decide for a job whose worker sent no heartbeats: by ``on-lost``. ``max-losses`` in a row end it for good."""
    losses = run.losses + 1
    failure = make_failure(run, f"its worker died or was cut off, {losses} times in a row", "", now)
    return replace(_decide_without_worker(run, settings, now, losses, failure), outcome=Outcome.LOST)


def decide_loop_ended(run: Run, error: BaseException, is_to_blame: bool, settings: Settings, now: float) -> NextState:
    """Decide for a job whose event loop has ended: by ``on-lost``, as if it had lost its worker.

    It counts as a loss if the run `is_to_blame`, or if ``on-lost`` is not ``requeue``.
    """
    losses = run.losses + (is_to_blame or settings.on_lost != "requeue")
    text = get_message(error)
    failure = make_failure(run, f"{text}, {losses} times in a row" if is_to_blame else text, "", now)
    decided = _decide_without_worker(run, settings, now, losses, failure)
    # Its worker lives, and says so itself.
    return replace(decided, why="", retried=decided.failure is None, outcome=Outcome.LOST, error=text[:MAX_ERROR])


def _decide_without_worker(run: Run, settings: Settings, now: float, losses: int, failure: dict[str, Any]) -> NextState:
    if losses >= settings.max_losses or settings.on_lost == "stop":
        return NextState("die", why="lost", failure=failure)
    if settings.on_lost == "reschedule":
        retry_state = RetryState(losses=losses).format()
        rescheduled = decide_rescheduled(run, settings, now, why="lost", retry_state=retry_state, failure=failure)
        return _count_failed(_die_at_the_end(rescheduled), run, settings, failure)
    one_more = _format_next_try(run, run.failures, losses)
    return NextState("due", due=run.due, why="lost", retry_state=one_more, failed_try=failure)


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


def decide_rescheduled(run: Run, settings: Settings, now: float, why: Why, **kept: Any) -> NextState:
    """Call `decide_next` with the stored schedule; the job fails for good if that is invalid."""
    try:
        schedule = find_schedule(run.jobid, run.schedule, run.options)
        return decide_next(run, schedule, settings, now, why=why, **kept)
    except BadSchedule as error:
        return refuse(run, error, now, why)


def refuse(run: Run, error: BadSchedule, now: float, why: Why = "") -> NextState:
    """Decide for a job whose stored schedule cannot be read: it has failed for good."""
    failure = make_failure(run, describe(error), "", now)
    return NextState("die", why=why, failure=failure, outcome=Outcome.FAILED, error=describe(error))


def go_on_as_cron(
    run: Run, settings: Settings, on_error: str | None, on_timeout: str | None, retries: int | None
) -> Settings:
    """Return `settings` with the policies for one run: those that are given, else those of `settings`.

    If neither has one, a recurring job is rescheduled, and a one-off is stopped. If `on_error` is given and is not
    ``retry``, the `retries` of `settings` do not count.
    """
    default = "stop" if is_one_off(run.schedule) else "reschedule"
    if retries is None:
        retries = 0 if on_error in ("stop", "reschedule") else settings.retries
    on_error = on_error or settings.on_error or default
    return _replace(settings, on_error, on_timeout or settings.on_timeout or default, retries)


@lru_cache(1024)
def _replace(settings: Settings, on_error: str, on_timeout: str, retries: int | None) -> Settings:
    # Settings check all of their values whenever they are made.
    changes: dict[str, Any] = {"on_error": on_error, "on_timeout": on_timeout, "retries": retries}
    return replace(settings, **changes)
