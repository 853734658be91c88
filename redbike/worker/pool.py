"""Several jobs at once: threads that each run one, which is taken as soon as a thread is free for it."""

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from redbike.errors import Unreachable
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues
from redbike.process import leaving
from redbike.store.run import NextState, Run
from redbike.worker.ends import Ends
from redbike.worker.notify import Notifier
from redbike.worker.source import Source

log = logging.getLogger("redbike.worker")


class Pool:
    """Runs `size` jobs at once by `run`, which says where a job goes then."""

    def __init__(
        self,
        size: int,
        loop: Loop,
        queues: Queues,
        source: Source,
        ends: Ends,
        run: Callable[[Run], NextState],
        notifier: Notifier,
    ) -> None:
        self._notifier = notifier
        self._loop = loop
        self._queues = queues
        self._source = source
        self._ends = ends
        self._run = run
        self._size = size
        self._free = threading.Semaphore(size)

    def work(self) -> None:
        """Run jobs until the loop stops, and then those that have begun to their end."""
        with ThreadPoolExecutor(self._size, thread_name_prefix="redbike") as threads:
            self._loop.run(lambda: self._hand_out(threads), lambda: self._finish(threads))

    def _finish(self, threads: ThreadPoolExecutor) -> None:
        threads.shutdown()
        self._notifier.stop()

    def _hand_out(self, threads: ThreadPoolExecutor) -> None:
        """Take a job as soon as a thread is free for it."""
        self._notifier.wait(self._loop.goes_on)
        while not self._free.acquire(timeout=1.0):
            leaving.cover(time.monotonic())
            if not self._loop.goes_on():
                return
        runs: list[Run] = []
        try:
            if not self._loop.stopping.is_set():
                runs = self._source.keep_own(self._source.take(1) or self._source.wait())
        finally:
            if not runs:
                self._free.release()
        if runs:
            self._queues.advance(runs[0].queue)
            # In the context of the worker: a new thread has none.
            threads.submit(contextvars.copy_context().run, self._run_to_its_end, runs[0])

    def _run_to_its_end(self, run: Run) -> None:
        try:
            self._ends.end([(run, self._run(run))])
        except Unreachable as error:
            log.error("%s: its end could not be told, it will count as lost: %s", run.jobid, error)
        except Exception:
            log.exception("%s: its end could not be told, it will count as lost", run.jobid)
            self._loop.stopping.set()
        finally:
            self._free.release()
