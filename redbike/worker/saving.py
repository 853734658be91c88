"""Keep values of a run.

``current_run().save()`` keeps a value, so that the next try of the occurrence continues where this one was. The option
``keep-result`` keeps the value that ``work`` returns.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from redbike.config.options import find_all_of, format_json
from redbike.errors import BadConfig
from redbike.loop.loop import Loop
from redbike.process.signals import interrupts_caller
from redbike.store.history import NOT_KEPT
from redbike.store.lease import LEASE
from redbike.store.log import Log, LogEntry
from redbike.store.run import Run
from redbike.store.runs import Runs
from redbike.text.parsing import load_json
from redbike.text.printable import describe, get_message

log = logging.getLogger("redbike.worker")

MAX_SAVED, MAX_RESULT = 64 * 1024, 16 * 1024  # bytes of JSON in UTF-8
MAX_REASON = 200  # characters


class RunSaver:
    """Saves and reads values of runs, each in one round trip. In a coroutine, a thread does this; await the call.

    While the server is away, a call waits for as long as the lease of a run lasts.
    """

    def __init__(self, runs: Runs, changes: Log, loop: Loop) -> None:
        self._runs = runs
        self._changes = changes
        self._loop = loop
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="redbike-save")

    def save(self, run: Run, value: Any) -> Any:
        """Keep `value` for the next try. Raise `BadConfig` at once for a value that cannot be kept."""
        text = "" if value is None else format_json(value, "saved state", "it has", MAX_SAVED)
        return _call_or_start(self._threads, partial(self._save, run, text))

    def read(self, run: Run) -> Any:
        """Return the value that is kept, a new copy each time; None if there is none."""
        return _call_or_start(self._threads, partial(self._read, run))

    def find_order(self, run: Run) -> Any:
        """Return the entry of the log for the call that set the job, or ordered this run; None if there is none."""
        return _call_or_start(self._threads, partial(self._find_order, run))

    def stop(self) -> None:
        """End the thread."""
        self._threads.shutdown(wait=False)

    def _save(self, run: Run, text: str) -> None:
        # Set before the request: if the reply is lost, the value may be stored all the same.
        run.uses_saved = True
        self._loop.retry_until_up(lambda _: self._runs.save(run, text), patience=LEASE)
        run.saved_text = text

    def _read(self, run: Run) -> Any:
        if run.saved_text is None:
            run.saved_text = self._loop.retry_until_up(lambda _: self._runs.read_saved(run), patience=LEASE)
        # There may be no value, or somebody has damaged it.
        return load_json(run.saved_text)

    def _find_order(self, run: Run) -> LogEntry | None:
        def find(jobid: str) -> LogEntry | None:
            order = jobid, run.due, run.start, bool(run.backfill_of)
            return self._loop.retry_until_up(lambda _: self._changes.find_order(*order), patience=LEASE)

        # The job on one host is set with its base, which may be in another shard.
        found = map(find, filter(None, (run.base, find_all_of(run.options)[0])))
        return max(filter(None, found), key=lambda entry: entry.time, default=None)


def _call_or_start(threads: ThreadPoolExecutor, function: Callable[[], Any]) -> Any:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return function()
    return loop.run_in_executor(threads, function)


def pack_result(run: Run, result: object) -> str:
    """Return a result as it is stored. If it cannot be kept, log and return the reason: the run is still ok."""
    try:
        return format_json(result, "result", "it has", MAX_RESULT)
    except BaseException as error:
        # The object is the user's own: looking at it may raise anything.
        if interrupts_caller(error):
            raise
        reason = get_message(error) if isinstance(error, BadConfig) else describe(error)
    log.warning("%s: its result is not kept: %s", run.jobid, reason)
    return NOT_KEPT + reason[:MAX_REASON]
