"""Runs the jobs of a batch in turn, and splits a batch that takes long."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from redbike.errors import RedbikeError
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues
from redbike.store.run import LEASE, EndedRun
from redbike.text.printable import name_number
from redbike.worker.batch import TOGETHER, UNREPORTED, Batch, Watch
from redbike.worker.ends import Ends
from redbike.worker.heartbeat import Heartbeat
from redbike.worker.runner import Runner
from redbike.worker.source import Source

log = logging.getLogger("redbike.worker")

T = TypeVar("T")


class BatchRunner:
    """Runs batches, one after the other."""

    def __init__(
        self, loop: Loop, queues: Queues, source: Source, runner: Runner, ends: Ends, heartbeat: Heartbeat
    ) -> None:
        self._stopping = loop.stopping
        self._queues = queues
        self._source = source
        self._runner = runner
        self._ends = ends
        self._heartbeat = heartbeat
        self.watch = Watch(self.split)

    def stop(self) -> None:
        """End the thread that watches."""
        self.watch.stop()

    def run(self, batch: Batch) -> list[EndedRun]:
        """Run the jobs of `batch`; return those whose end the server was not told of."""
        self.watch.begin(batch)
        self._runner.spent = 0.0
        try:
            while not batch.closed:
                self._run_in_turn(batch)
                with batch.changing:
                    batch.closed = not batch.todo or self._stopping.is_set()
        finally:
            batch.closed = True
            for run in batch.watched:
                self._heartbeat.remove(run)
        if batch.todo:
            self._source.release(list(batch.todo))
        return list(batch.done)

    def _run_in_turn(self, batch: Batch) -> None:
        stopping, fresh_until = self._stopping, self._source.fresh_until
        while batch.todo and not stopping.is_set():
            if time.monotonic() > fresh_until:
                self._drop_stale(batch)
                fresh_until = self._source.fresh_until
            try:
                run = batch.todo.popleft()
            except IndexError:
                # The thread that splits batches was faster.
                return
            # Only now: what is given back takes no turn.
            self._queues.advance(run.queue)
            next_state = self._runner.run(run)
            batch.over.add(id(run))
            if batch.watched:
                # What has ended gives no sign of life, while others of the batch go on.
                self._heartbeat.remove(run)
            batch.done.append((run, next_state))
            if self._runner.spent > UNREPORTED or len(batch.done) >= TOGETHER:
                self._source.send_ends(_drain(batch.done.popleft))
                self._runner.spent = 0.0

    def _drop_stale(self, batch: Batch) -> None:
        """Leave out the runs of `batch` that are not this worker's any more, because it was suspended for so long."""
        with batch.changing:
            batch.todo.extend(self._source.keep_own(_drain(batch.todo.popleft)))

    def split(self, batch: Batch) -> None:
        """End what is done of `batch`, and give back what has not begun: it takes long."""
        with batch.changing:
            if batch.closed:
                return
            # In this order: what is done meanwhile would have to wait for the slow one that is begun after it.
            rest = _drain(batch.todo.pop)[::-1]
            done = _drain(batch.done.popleft)
            # From now on there is time for a heartbeat.
            left = batch.over | {id(run) for run in rest}
            batch.watched = [run for run in batch.runs if id(run) not in left]
            for run in batch.watched:
                self._heartbeat.add(run)
                if id(run) in batch.over:
                    self._heartbeat.remove(run)
            try:
                self._ends.end(done, patience=LEASE)
                words = self._source.release(rest, patience=LEASE) if rest else []
            except RedbikeError as error:
                jobs = name_number(len(rest), "job")
                log.error("%s could not be ended or given back, and will count as lost: %s", jobs, error)
                return
            kept = [run for run, word in zip(rest, words, strict=True) if word == "kept"]
            for run in kept:
                self._heartbeat.add(run)
            batch.watched = batch.watched + kept
            batch.todo.extend(kept)


def _drain(pop: Callable[[], T]) -> list[T]:
    """Return all that `pop` gives until there is no more."""
    found = []
    while True:
        try:
            found.append(pop())
        except IndexError:
            return found
