"""Runs one job: what ``work`` of the worker class returns or raises decides where the job goes."""

import atexit
import contextvars
import inspect
import logging
import os
import threading
import time
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from signal import Signals
from typing import Any

from redbike.config.settings import Settings, override
from redbike.errors import RedbikeError
from redbike.loop.catchup import keep_failed
from redbike.loop.changes import decide_cancelled
from redbike.loop.pings import Pings
from redbike.loop.policies import decide_done, decide_failed, decide_handed_back, decide_unwanted, describe
from redbike.loop.steps import log_started
from redbike.loop.worker_class import WorkerClass, check_result, takes_data
from redbike.process import leaving
from redbike.process.leaving import leave_fork
from redbike.process.signals import forget_wishes, interrupts_caller
from redbike.store.enums import Outcome
from redbike.store.next_state import NextState
from redbike.store.run import Run, Saver
from redbike.store.stopping import StopFlag
from redbike.text import printable
from redbike.worker.coroutines import Coroutines, Ending
from redbike.worker.current import enter_run
from redbike.worker.hooks import Hooks
from redbike.worker.notify import ON_FAILURE
from redbike.worker.raised import RaisedErrors, is_interrupted
from redbike.worker.saving import pack_result

log = logging.getLogger("redbike.worker")

LAST_WISH = 2.0  # seconds for what coroutines do at their end
_count_at_exit = getattr(atexit, "_ncallbacks", int)  # of registered functions; not every Python counts them
_listed = getattr(threading, "_active", None)
_count_threads = threading.active_count if _listed is None else _listed.__len__  # the second takes no lock


class Runner:
    """Runs jobs, from any thread; coroutines in an event loop of its own.

    `leave` returns where a job goes that this worker leaves to others; None for a job that it runs. If `event_loop` is
    given, coroutines run there.
    """

    def __init__(
        self,
        worker: WorkerClass,
        settings: Settings,
        pings: Pings,
        leave: Callable[[Run], NextState | None] | None = None,
        event_loop: "AbstractEventLoop | None" = None,
    ) -> None:
        self.worker = worker
        self._leave = leave
        self.settings = settings
        self._pings = pings
        self.stop_flag: StopFlag | None = None  # set when the worker is to stop
        self.find_bike: Callable[[], Any] | None = None  # returns the ``bike`` of a run
        self.saver: Saver | None = None  # saves and reads values of runs
        self._is_aborted = False  # whether this process is about to end
        self.spent = 0.0  # seconds in ``work``, since a caller set this to 0
        self._settings_for = getattr(worker, "settings_for", None)  # looked up once, not for every job
        self._cancel = getattr(worker, "cancel", None)
        self._reads_options = bool(getattr(worker, "reads_options", False))
        self._takes_data = takes_data(worker)
        self._raised = RaisedErrors(worker, self.settings_for)
        self._coroutines = Coroutines(event_loop)
        self.hooks = Hooks(worker, self._coroutines, self._raised.will_retry)
        self._threads = _count_threads()
        self._at_exit = _count_at_exit()
        self.last_jobid = ""  # of the run that has begun last
        self.registrars: list[str] = []  # the jobs that have registered something for the exit of Python
        self._left: weakref.WeakKeyDictionary[threading.Thread, str] = weakref.WeakKeyDictionary()

    def cancel_all(self) -> None:
        """Cancel all coroutines, and wait for up to `LAST_WISH` seconds until they have ended."""
        self._coroutines.cancel_all(LAST_WISH)

    def abort(self) -> None:
        """Let the worker class end its work, if it can: this process is about to end."""
        self._is_aborted = True
        if abort := getattr(self.worker, "abort", None):
            abort()

    def list_left_threads(self) -> list[tuple[threading.Thread, str]]:
        """Return the threads that jobs have left and for which Python waits at its exit, and the ids of these jobs."""
        own = [thread for thread in threading.enumerate() if thread.name.startswith(ON_FAILURE)]
        left = [(thread, jobid) for thread, jobid in self._left.items() if thread.is_alive()]
        return left + [(thread, thread.name.removeprefix(ON_FAILURE)) for thread in own]

    def stop(self) -> None:
        """End the thread for coroutines."""
        self._coroutines.stop()

    def settings_for(self, run: Run) -> Settings:
        """Return the settings of one run: the options of its job override those that the worker class returns."""
        settings = self.settings if self._settings_for is None else self._ask_worker(run)
        return settings if self._reads_options else override(settings, run.options)

    def _ask_worker(self, run: Run) -> Settings:
        assert self._settings_for is not None
        try:
            settings = self._settings_for(run, self.settings)
            if not isinstance(settings, Settings):
                raise TypeError(f"settings_for() returned {settings!r:.80}, not Settings")
        except Exception as error:
            # The function is the user's own: it may raise anything, and the run must end all the same.
            log.error("%s: settings_for() fails, so the settings of all jobs apply: %s", run.jobid, describe(error))
            return self.settings
        return settings

    def is_async(self, jobid: str) -> bool:
        """Tell whether ``work`` of this job is a coroutine function."""
        return self.hooks.is_async(jobid)

    def run(self, run: Run) -> NextState:
        """Call ``work`` for `run`; return where its job goes then."""
        settings, decided = self._prepare(run)
        if decided is not None:
            return decided
        # The next job must not see what this one sets in its context.
        context = contextvars.copy_context()
        return self._conclude(run, context.run(self._run_in_context, run, settings))

    def start(self, run: Run, ended: Callable[[Run, NextState], None]) -> None:
        """Start ``work``, a coroutine function, for `run`, in the context of the caller; it needs no thread.

        `ended` gets the run and where its job goes then, in any thread.
        """
        settings, decided = self._prepare(run)
        if decided is not None:
            ended(run, decided)
            return
        enter_run(run)
        self._begin(run)
        run.awaited = True
        limit, key = run.deadline - run.now(), (run.tag, run.jobid)

        def decide(ending: Ending) -> None:
            self._coroutines.forget(key)
            self._note_over(run)
            result, error = ending
            try:
                if error is not None:
                    raise error
                next_state = self._decide_done(run, result, settings)
            except BaseException as raised:
                next_state = self._decide_raised(run, raised, settings)
            ended(run, self._conclude(run, next_state))

        call: Callable[[], object] = partial(self._call_work, run)
        if self.hooks.middleware:
            call = partial(self.hooks.run_async, run, call)
        self._coroutines.start(call, run.jobid, limit, decide, key)

    def together(self) -> AbstractContextManager[None]:
        """Return a context manager in which `start` costs less for each of several runs."""
        return self._coroutines.together()

    def _decide_done(self, run: Run, result: object, settings: Settings) -> NextState:
        if result is not None:
            check_result("work", result)
        if settings.keep_result == "yes":
            run.result = pack_result(run, result)
        return decide_done(run, result, settings, run.now())

    def _prepare(self, run: Run) -> tuple[Settings, NextState | None]:
        """Return the settings of a run, and where its job goes if it does not begin."""
        settings = self.settings if self._settings_for is None and not run.options else self.settings_for(run)
        # A service that watches a job must not get pings for occurrences of a backfill.
        run.ping_url = None if settings.ping_url and run.backfill_of else settings.ping_url
        run.stop_flag, run.saver = self.stop_flag, self.saver
        if self.find_bike is not None:
            run.find_bike = self.find_bike
        if run.cancelled:
            # Before it has begun.
            return settings, decide_cancelled(run, settings, run.now())
        if (run.queue_pause or settings.expires) and (unwanted := decide_unwanted(run, settings, run.now())):
            run.over = time.monotonic()
            return settings, unwanted
        if self._leave is not None and (left := self._leave(run)):
            run.over = time.monotonic()
            return settings, left
        if run.ping_url:
            self._pings.start(run.jobid, run.ping_url)
        return settings, None

    def _conclude(self, run: Run, next_state: NextState) -> NextState:
        if run.cancelled and next_state.outcome == Outcome.OK:
            # It has stopped early, or run to its end all the same. Nobody knows which, so it is no success.
            return keep_failed(replace(next_state, outcome=Outcome.CANCELLED, retried=True), run.failed)
        return next_state

    def _run_in_context(self, run: Run, settings: Settings) -> NextState:
        enter_run(run)
        try:
            return self._decide_done(run, self._work(run), settings)
        except BaseException as error:
            if interrupts_caller(error):
                raise
            return self._decide_raised(run, error, settings)

    def cancel(self, run: Run) -> None:
        """Set ``cancelled`` of `run`, which its ``work`` may read, and cancel its coroutine if it has one.

        The method ``cancel`` of the worker class gets a thread of its own: it may take long.
        """
        log.info("%s: its run was cancelled", run.jobid)
        run.cancelled = True
        self._coroutines.cancel((run.tag, run.jobid))
        if self._cancel is not None:
            threading.Thread(target=self._call_cancel, args=(run,), name="redbike-cancel", daemon=True).start()

    def _call_cancel(self, run: Run) -> None:
        assert self._cancel is not None
        try:
            self._cancel(run)
        except BaseException as error:
            # The method is the user's own: it may raise anything.
            log.error("%s: cancel() of its worker class fails: %s", run.jobid, printable.describe(error))

    def _begin(self, run: Run) -> None:
        run.thread = threading.get_ident()
        leaving.cover(run.local_deadline)
        self.last_jobid = run.jobid
        if log.isEnabledFor(logging.DEBUG):
            log_started(log, run)
        run.began = time.monotonic()  # last: the longer ``work`` takes, the fewer ends are sent together

    def _note_over(self, run: Run) -> None:
        """Note when the work of `run` was over, and what it has left in the process."""
        run.over = time.monotonic()
        self.spent += run.over - run.began
        if (threads := _count_threads()) > self._threads:
            self._note_threads(run)
        self._threads = threads
        if (registered := _count_at_exit()) > self._at_exit:
            self.registrars.append(run.jobid)
        self._at_exit = registered

    def _work(self, run: Run) -> object:
        process = os.getpid()
        self._begin(run)
        try:
            if self.hooks.middleware:
                result = self.hooks.run(run, partial(self._call_work, run), partial(self._await, run))
            else:
                result = self._call_work(run)
                if result is not None and inspect.isawaitable(result):
                    result = self._await(run, result)
        except BaseException as error:
            if os.getpid() != process:
                leave_fork(run.jobid, error)
            raise
        finally:
            self._note_over(run)
            if wishes := forget_wishes():
                names = ", ".join(Signals(number).name for number in wishes)
                log.warning("%s: it has set handlers for %s: these apply only while it runs", run.jobid, names)
        if os.getpid() != process:
            leave_fork(run.jobid, None)
        return result

    def _call_work(self, run: Run) -> object:
        return self.worker.work(run.base, run.data) if self._takes_data else self.worker.work(run.base)

    def _await(self, run: Run, awaitable: Awaitable[Any]) -> object:
        run.awaited = True
        return self._coroutines.run(awaitable, run.jobid, run.deadline - run.now(), (run.tag, run.jobid))

    def _note_threads(self, run: Run) -> None:
        """Note the new threads that are not ours, with the job that has started them."""
        for thread in threading.enumerate():
            is_own = thread.name.startswith("redbike") or thread is threading.main_thread()
            if not thread.daemon and not is_own:
                self._left.setdefault(thread, run.jobid)

    def _decide_raised(self, run: Run, error: BaseException, settings: Settings) -> NextState:
        """Return where the job goes after ``work`` has raised `error`."""
        if self._is_aborted or (run.stopping and is_interrupted(run, error)):
            # It was interrupted, which is no failure. The code that hands it back logs that.
            return decide_handed_back(run)
        try:
            return self._raised.decide(run, error, settings)
        except BaseException as another:
            # The exception is the user's own: looking at it may raise anything, and the run must end all the same.
            log.error("%s: it raised an exception that cannot be shown: %s", run.jobid, printable.describe(another))
            return decide_failed(run, RedbikeError("it raised an exception that cannot be shown"), settings, run.now())
