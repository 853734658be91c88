"""One run: the worker class' ``work`` is called, and what it returned or raised says where the job goes."""

import asyncio
import contextvars
import inspect
import logging
import threading
import time
from dataclasses import replace
from typing import Any

from redbike.config import Settings
from redbike.errors import BadSchedule, CommandFailed, Overrun, StopWork, UnsetJob
from redbike.outcome import describe, done, failed, failure_of
from redbike.outcome import overrun as overran
from redbike.records import Outcome, Run
from redbike.rotation import Handler
from redbike.tracebacks import Tracebacks

log = logging.getLogger("redbike.worker")

_current: contextvars.ContextVar[Run] = contextvars.ContextVar("redbike_run")


def current_run() -> Run:
    """The run that the calling ``work`` is in; raises `LookupError` outside of one."""
    return _current.get()


class Performer:
    """Performs runs, also several at once from several threads; coroutines in an event loop of its own."""

    def __init__(self, handler: Handler, settings: Settings) -> None:
        self.handler = handler
        self.settings = settings
        self.spent = 0.0  # seconds in ``work`` since somebody set this to 0
        self._settings_for = getattr(handler, "settings_for", None)  # once: not every job is to pay for it
        self._tracebacks = Tracebacks()
        self._coroutines: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def settings_for(self, run: Run) -> Settings:
        """The settings of one run: those of the worker class, if it has some of its own."""
        if self._settings_for is None:
            return self.settings
        try:
            settings = self._settings_for(run, self.settings)
            if not isinstance(settings, Settings):
                raise TypeError(f"settings_for() returned {settings!r:.80}, no Settings")
        except Exception as error:
            # It is the user's own, and the run must end in any case.
            log.error("%s: it has the settings of all jobs: %s", run.jobid, describe(error))
            return self.settings
        return settings

    def perform(self, run: Run, now: float | None = None) -> Outcome:
        """Call ``work`` for `run`; where its job goes then. `now` is Redis' clock afterwards, which tests give."""
        settings = self.settings if self._settings_for is None else self.settings_for(run)
        token = _current.set(run)
        try:
            return done(run, self._work(run), settings, run.now() if now is None else now)
        except StopWork as reason:
            log.info("%s: stopped by its worker: %s", run.jobid, reason)
            return Outcome("stop")
        except UnsetJob as reason:
            log.info("%s: unset by its worker: %s", run.jobid, reason)
            return Outcome("unset")
        except Overrun as error:
            log.error("%s: gave up when its time was over: %s", run.jobid, error)
            return self._given_up(run, error, settings)
        except BadSchedule as error:
            log.error("%s: %s", run.jobid, error)
            return Outcome("die", failure=failure_of(run, describe(error), "", run.now()))
        except CommandFailed as error:
            log.error("%s: %s", run.jobid, describe(error))
            return failed(run, error, settings, run.now() if now is None else now)
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError) as error:
            log.error("%s: %s", run.jobid, describe(error), exc_info=self._tracebacks.fresh(error, run.queue))
            return failed(run, error, settings, run.now() if now is None else now)
        finally:
            _current.reset(token)

    def _work(self, run: Run) -> object:
        began = time.monotonic()
        try:
            result = self.handler.work(run.jobid)
            return self._await(result) if result is not None and inspect.isawaitable(result) else result
        finally:
            run.over = time.monotonic()
            self.spent += run.over - began

    def _given_up(self, run: Run, error: Overrun, settings: Settings) -> Outcome:
        # By on-timeout, but before the deadline: so it ends like a run that is in time.
        outcome = replace(overran(run, settings, run.now()), why="")
        failure = None if outcome.failure is None else failure_of(run, describe(error), "", run.now(), error.output)
        return replace(outcome, failure=failure)

    def _await(self, awaitable: Any) -> Any:
        async def to_the_end() -> Any:
            return await awaitable

        with self._starting:
            if self._coroutines is None:
                self._coroutines = asyncio.new_event_loop()
                threading.Thread(target=self._coroutines.run_forever, name="redbike-async", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(to_the_end(), self._coroutines).result()
