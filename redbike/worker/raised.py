"""Decide where a job goes after ``work`` of the worker class has raised an exception."""

import logging
from asyncio import CancelledError, all_tasks
from collections.abc import Callable
from dataclasses import replace
from threading import current_thread

from redbike.config.settings import Settings
from redbike.errors import Again, BadSchedule, CommandFailed, Overrun, StopWork, UnsetJob
from redbike.loop.changes import decide_cancelled
from redbike.loop.policies import (
    decide_asked_again,
    decide_failed,
    decide_loop_ended,
    decide_overrun,
    describe,
    make_failure,
    refuse,
)
from redbike.loop.retries import count_retries, find_rules
from redbike.loop.worker_class import WorkerClass
from redbike.store.next_state import NextState
from redbike.store.run import Run
from redbike.store.schedules import read_schedule
from redbike.text.printable import get_message
from redbike.worker.log_lines import Tracebacks
from redbike.worker.loop_ended import LoopEnded

log = logging.getLogger("redbike.worker")


class RaisedErrors:
    """Decides where jobs go after exceptions of ``work`` of `worker`."""

    def __init__(self, worker: WorkerClass, settings_for: Callable[[Run], Settings]) -> None:
        self._worker, self._settings_for = worker, settings_for
        self._tracebacks = Tracebacks()

    def decide(self, run: Run, error: BaseException, settings: Settings) -> NextState:
        """Return where the job goes after ``work`` has raised `error`, and log it."""
        if isinstance(error, StopWork):
            log.info("%s: stopped by its worker%s", run.jobid, _say_why(error))
            return NextState("stop")
        if isinstance(error, UnsetJob):
            log.info("%s: unset by its worker%s", run.jobid, _say_why(error))
            return NextState("unset")
        if run.cancelled:
            log.info("%s: ended, as it was cancelled: %s", run.jobid, describe(error))
            return decide_cancelled(run, settings, run.now())
        if isinstance(error, Again):
            return self._decide_asked_again(run, error, settings)
        if isinstance(error, Overrun):
            log.error("%s: gave up when its time was over%s", run.jobid, _say_why(error))
            return self._decide_given_up(run, error, settings)
        if isinstance(error, LoopEnded):
            return self._decide_loop_ended(run, error, settings)
        if isinstance(error, BadSchedule) and not _is_readable(run):
            log.error("%s: %s", run.jobid, get_message(error))
            return refuse(run, error, run.now())
        return self._decide_failed(run, error, settings)

    def _decide_failed(self, run: Run, error: BaseException, settings: Settings) -> NextState:
        next_state = decide_failed(run, error, settings, run.now(), find_rules(self._worker, run.base))
        shown = None if isinstance(error, CommandFailed) else self._tracebacks.keep_if_new(error, run.queue)
        if next_state.retried and isinstance(next_state.due, str):
            said = "%s: %s; it is tried again in %g s"
            log.warning(said, run.jobid, describe(error), float(next_state.due), exc_info=shown)
        else:
            log.error("%s: %s", run.jobid, next_state.error, exc_info=shown)
        return next_state

    def will_retry(self, run: Run, error: BaseException) -> bool:
        """Tell whether `decide` lets the same occurrence run again."""
        if run.cancelled:
            return False
        settings, now = self._settings_for(run), run.now()
        if isinstance(error, Overrun) or now >= run.deadline:
            return decide_overrun(run, settings, now).retried
        if isinstance(error, StopWork | UnsetJob):
            return False
        if is_interrupted(run, error):
            return True
        if isinstance(error, LoopEnded):
            return decide_loop_ended(run, error, error.blames(run), settings, now).retried
        if isinstance(error, Again):
            try:
                return decide_asked_again(run, error.after).retried
            except (TypeError, ValueError) as wrong:
                error = wrong
        if not _is_readable(run):
            return False
        rules = find_rules(self._worker, run.base)
        return rules.find_stop(error) is None and rules.allow_retry(error) and run.failures < count_retries(settings)

    def _decide_asked_again(self, run: Run, error: Again, settings: Settings) -> NextState:
        try:
            next_state = decide_asked_again(run, error.after, get_message(error) if error.reason else "")
        except (TypeError, ValueError) as wrong:
            return self._decide_failed(run, wrong, settings)
        reason = f": {next_state.error}" if next_state.error else ""
        log.info("%s: it runs again in %g s, as it asked%s", run.jobid, round(float(next_state.due or 0), 3), reason)
        return next_state

    def _decide_loop_ended(self, run: Run, error: LoopEnded, settings: Settings) -> NextState:
        next_state = decide_loop_ended(run, error, error.blames(run), settings, run.now())
        count = f"loss {run.losses + 1} in a row" if error.blames(run) else "by another one"
        log.warning("%s: its run was ended with its event loop, %s", run.jobid, count)
        return next_state

    def _decide_given_up(self, run: Run, error: Overrun, settings: Settings) -> NextState:
        # By on-timeout, but before the deadline: so it ends like a run that is in time.
        next_state = replace(decide_overrun(run, settings, run.now()), why="")
        failure = next_state.failure and make_failure(run, describe(error), "", run.now(), error.output)
        return replace(next_state, failure=failure, error=describe(error))


def is_interrupted(run: Run, error: BaseException) -> bool:
    """Tell whether the program cancelled the coroutine of `run` because it ends: then the run is handed back."""
    # `isinstance` would look at the exception, which is the user's own.
    if not issubclass(type(error), CancelledError) or not run.awaited or run.cancelled:
        return False
    return bool(run.stopping) or _is_program_ending()


def _is_program_ending() -> bool:
    """Tell whether the program cancels all its tasks because it ends: the worker may be cancelled after its runs."""
    if current_thread().name.startswith("redbike"):
        # The event loop is the worker's own: the program does not cancel its tasks.
        return False
    try:
        return all(task.cancelling() for task in all_tasks())
    except RuntimeError:
        # In a thread, outside of the event loop.
        return False


def _is_readable(run: Run) -> bool:
    """Tell whether the stored schedule of the job can be read. An unreadable one is no failure of ``work``."""
    return read_schedule(run.jobid, run.schedule, run.options) is not None


def _say_why(error: BaseException) -> str:
    """Return the message of an exception as the end of a line; "" if it has none."""
    message = get_message(error)
    return f": {message}" if message else ""
