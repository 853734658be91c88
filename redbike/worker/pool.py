"""Several jobs at once: threads for functions, and an event loop for coroutines, which need no thread.

1. As many jobs are taken in one request as slots are free; all of them begin at once. The same request also sends the
   ends of runs that are over.
2. While the worker waits for jobs, another thread sends the ends of runs.
3. Very short functions are run as batches, in one thread, as with one job at a time (see `batch`). A batch that takes
   long is split, and the other slots continue.
"""

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from redbike.errors import RedbikeError, Unreachable
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues
from redbike.process import leaving
from redbike.store.lease import LEASE
from redbike.store.next_state import EndedRun, NextState
from redbike.store.run import Run
from redbike.text.printable import describe
from redbike.worker.batch import TOGETHER, Batch, BatchRunner, Pace
from redbike.worker.heartbeat import Heartbeat
from redbike.worker.notify import Notifier
from redbike.worker.runner import Runner
from redbike.worker.slots import Slots
from redbike.worker.source import Source

log = logging.getLogger("redbike.worker")

VERY_SHORT = 32  # jobs that fit into a batch: such a job takes less than it costs to wake a thread


class Pool:
    """Runs `size` jobs at once. `find_most` returns how many jobs a batch may have."""

    def __init__(
        self,
        size: int,
        loop: Loop,
        queues: Queues,
        source: Source,
        runner: Runner,
        heartbeat: Heartbeat,
        batches: BatchRunner,
        notifier: Notifier,
        pace: Pace,
        find_most: Callable[[], int],
    ) -> None:
        self._size = size
        self._loop, self._queues, self._source = loop, queues, source
        self._runner, self._heartbeat, self._batches, self._notifier = runner, heartbeat, batches, notifier
        self._pace, self._find_most = pace, find_most
        self._slots = Slots(size)
        self.batch: Batch | None = None  # the running batch
        self._unsaid: list[EndedRun] = []  # the ends of the last batch that the server may not know yet

    def work(self) -> None:
        """Run jobs until the loop stops; then wait for the end of those that have begun."""
        ender = threading.Thread(target=self._tell_ends, name="redbike-ends", daemon=True)
        ender.start()
        with ThreadPoolExecutor(self._size, thread_name_prefix="redbike") as threads:
            self._loop.run(lambda: self._hand_out(threads), lambda: self._finish(threads, ender))

    def list_untold(self) -> list[EndedRun]:
        """Return the ends that the server may not know yet."""
        return [*self._unsaid, *self._slots.list_untold()]

    def _finish(self, threads: ThreadPoolExecutor, ender: threading.Thread) -> None:
        with self._slots.leave_ends():
            threads.shutdown()
        self._slots.wait_until_all_free()  # coroutines have no thread to wait for
        ender.join()
        self._source.finish()
        self._notifier.stop()

    def _tell_ends(self) -> None:
        """Send the ends of runs to the server while the other thread waits for jobs."""
        while ended := self._slots.wait_for_ends():
            self._tell(ended)
            self._slots.free(len(ended), ended)

    def _tell(self, ended: Sequence[EndedRun]) -> None:
        names = ", ".join(run.jobid for run, _ in ended)
        try:
            self._source.tell(ended)
        except Unreachable as error:
            log.error("%s: the end of its run could not be stored, so it will count as lost: %s", names, error)
        except BaseException:
            # Also an exception that would end this thread: the others would wait for it.
            log.exception("%s: the end of its run could not be stored, so it will count as lost", names)
            self._loop.stopping.set()

    def _hand_out(self, threads: ThreadPoolExecutor) -> None:
        """Take jobs as soon as slots are free for them."""
        if self._notifier.is_behind:
            # Meanwhile, the other thread sends the ends of runs.
            with self._slots.leave_ends():
                self._notifier.wait(self._loop.goes_on)
        ended, free = self._slots.wait(1.0)
        if not free:
            leaving.cover(time.monotonic())
            self._loop.goes_on()  # it checks for a HALT
            return
        try:
            if self._pace.number >= VERY_SHORT and self._find_most() > 1:
                self._source.end(ended)
                runs, batched = [], self._source.take(self._find_most())
                if not batched:
                    self._pace.number = 1  # no job waits: the next one must begin at once
            else:
                runs, batched = self._take(ended, free), []
        except BaseException:
            self._slots.put_back(ended, free)
            raise
        self._slots.free(free - len(runs) - min(1, len(batched)), ended)
        self._begin_all(threads, [[run] for run in runs])
        if batched:
            self._run_batches(threads, batched)

    def _take(self, ended: list[EndedRun], free: int) -> list[Run]:
        """Send ends, and take jobs for the free slots."""
        most = min(free, TOGETHER)
        runs = self._source.end_and_take(ended, most)
        if ended and not runs:
            self._slots.free(0, ended)
            runs = self._source.take(most, skipped=1)
        if not (runs or self._loop.stopping.is_set()):
            with self._slots.leave_ends():
                runs = self._source.wait()
        return self._source.keep_own(runs)

    def _begin_all(self, threads: ThreadPoolExecutor, offers: Sequence[list[Run]]) -> None:
        """Begin the runs in `offers`, one in each list; the thread that pops it runs it. If one fails, release all."""
        try:
            with self._runner.together():
                for offer in offers:
                    self._queues.advance(offer[0].queue, self._loop.store.number_shard(offer[0].jobid))
                    self._begin(threads, offer)
        except BaseException as error:
            log.error("no job can begin, so this worker ends after those that run: %s", describe(error))
            # For example, no thread can be started. The executor keeps what it was given all the same.
            left = [offer.pop() for offer in offers if offer]
            self._slots.free(len(left))
            if left:
                with suppress(RedbikeError):  # then they count as lost
                    self._source.release(left, LEASE)
            raise

    def _begin(self, threads: ThreadPoolExecutor, offer: list[Run]) -> None:
        """Begin a run, in the context of the worker: a new thread has none."""
        context, run = contextvars.copy_context(), offer[0]
        # Here too: the thread of the run may begin only after this thread has decided how long to nap.
        leaving.cover(run.local_deadline)
        if self._runner.is_async(run.base):
            self._heartbeat.add(run)
            context.run(self._runner.start, run, self._end)
            offer.clear()
        else:
            threads.submit(context.run, self._run_to_its_end, offer)

    def _run_to_its_end(self, offer: list[Run]) -> None:
        try:
            run = offer.pop()
        except IndexError:
            return
        began = time.monotonic()
        try:
            self._heartbeat.add(run)
            next_state = self._runner.run(run)
        except BaseException:
            # The others would wait for this one.
            log.exception("%s: its run could not be ended, so it will count as lost", run.jobid)
            self._heartbeat.remove(run)
            self._slots.free(1)
            self._loop.stopping.set()
            return
        self._pace.note(1, time.monotonic() - began)
        self._end(run, next_state)

    def _end(self, run: Run, next_state: NextState) -> None:
        self._heartbeat.remove(run)
        self._slots.note_end(run, next_state)

    def _run_batches(self, threads: ThreadPoolExecutor, runs: list[Run]) -> None:
        """Run batches of very short jobs in one slot, for as long as there are any."""
        is_free = True
        try:
            with self._slots.leave_ends():
                while runs and is_free:
                    runs, is_free = self._run_batch(threads, self._source.keep_own(runs))
        finally:
            if is_free:
                self._slots.free(1)

    def _run_batch(self, threads: ThreadPoolExecutor, runs: list[Run]) -> tuple[list[Run], bool]:
        """Run a batch; return the jobs of the next one, and whether the slot is free."""
        batch = self.batch = Batch(runs, is_shared=True)
        running = threads.submit(contextvars.copy_context().run, self._batches.run, batch)
        running.add_done_callback(lambda _: batch.settled.set())
        batch.settled.wait()
        if batch.split:
            self._pace.number = 1
            self._source.end([])
            running.add_done_callback(partial(self._end_split, batch))
            return [], False
        self._unsaid = ended = running.result()
        self._pace.note(max(1, len(batch.over)), time.monotonic() - batch.began)
        most = self._find_most()
        if self._pace.number < VERY_SHORT or self._notifier.is_behind or self._loop.stopping.is_set():
            self._source.end(ended)
            return [], True
        return self._source.end_and_take(ended, most), True

    def _end_split(self, batch: Batch, running: "Future[Sequence[EndedRun]]") -> None:
        """Send the remaining ends of a split batch when its slow job is over."""
        try:
            self._source.tell(running.result())
        except Exception:
            log.exception("%s: the end of its run could not be stored, so it will count as lost", batch.runs[-1].jobid)
            self._loop.stopping.set()
        finally:
            self._slots.free(1)
