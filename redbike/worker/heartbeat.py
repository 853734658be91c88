"""The heartbeat that a worker sends for its runs, from a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from redbike.errors import RedbikeError, Unreachable
from redbike.process import watchdog
from redbike.store.lease import LEASE
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.worker.live import LivePublisher

log = logging.getLogger("redbike.heartbeat")

INTERVAL = LEASE / 4  # seconds between two heartbeats: two may get lost
STUCK_AFTER = 5.0  # seconds after its deadline for which a function may still run: coroutines end after their deadlines


class Heartbeat:
    """Renews the leases of runs, and calls `overrun` once for each that outlives its deadline.

    It calls `cancel` once for each run that somebody has cancelled. It calls `stuck` if the function of a run still
    runs `STUCK_AFTER` seconds after its deadline, and again when that function ends.

    The thread sleeps until the next lease or deadline. Short jobs cost nothing: a run wakes the thread only if its
    deadline comes before the thread would wake by itself.
    """

    def __init__(
        self,
        store: Store,
        overrun: Callable[[Run], None],
        cancel: Callable[[Run], None],
        stuck: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self._store = store
        self._overrun = overrun
        self._cancel = cancel
        self._report_stuck = stuck
        self._live = LivePublisher(store.live)
        self._going_on: dict[tuple[str, str], Run] = {}  # without heartbeats, but their functions still run
        self._reserved: dict[tuple[str, str], Run] = {}  # those of them that count for the limits of their queues
        self._reported: set[tuple[str, str]] = set()  # those for which `stuck` was called
        self._runs: dict[tuple[str, str], Run] = {}  # by tag and job id
        self._changed = threading.Condition()
        self._wake_at = float("inf")
        self._thread: threading.Thread | None = None
        self._stopped = False

    def add(self, run: Run) -> None:
        """Send heartbeats for `run` from now on."""
        self._runs[run.tag, run.jobid] = run
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="redbike-heartbeat", daemon=True)
                thread.start()
                self._thread = thread  # only now: the start may fail
            if self._find_due(run) < self._wake_at:
                self._changed.notify()

    def remove(self, run: Run) -> None:
        """Send no more heartbeats for `run`: it has ended."""
        key = run.tag, run.jobid
        if self._runs.pop(key, None) is None and self._going_on:
            with self._changed:
                self._going_on.pop(key, None)
                was_reported = key in self._reported
                self._reported.discard(key)
            if was_reported:
                self._report_stuck(run)
            self._give_back(key)

    def list_runs(self) -> list[Run]:
        """Return the runs that have a heartbeat."""
        return list(self._runs.values())

    def list_stuck(self, seconds: float = STUCK_AFTER) -> list[Run]:
        """Return the runs whose functions still run `seconds` or more after their deadlines."""
        now = time.monotonic()
        return [run for run in list(self._going_on.values()) if now >= run.local_deadline + seconds]

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _find_due(self, run: Run) -> float:
        # Monotonic, because the host's clock may jump. A moment late, so that the deadline has surely passed.
        return min(time.monotonic() + INTERVAL, run.local_deadline + 0.01)

    def _find_next_poll(self, runs: list[Run]) -> float:
        waiting = [run.local_deadline + STUCK_AFTER for run in self._list_unreported()]
        if self._reserved:
            waiting.append(time.monotonic() + INTERVAL)
        if runs or waiting:
            return min([*map(self._find_due, runs), *waiting])
        # The run that woke the thread has ended. The thread does not rest at once: each next run would wake it again.
        return time.monotonic() + INTERVAL if self._wake_at == float("inf") else float("inf")

    def _run(self) -> None:
        while True:
            with self._changed:
                runs = list(self._runs.values())
                self._wake_at = self._find_next_poll(runs)
                if not self._stopped:
                    resting = self._wake_at == float("inf")
                    self._changed.wait(None if resting else max(0.0, self._wake_at - time.monotonic()))
                if self._stopped:
                    return
            self._beat()

    def _list_unreported(self) -> list[Run]:
        return [run for key, run in list(self._going_on.items()) if key not in self._reported]

    def _drop(self, run: Run) -> None:
        """Send no more heartbeats for `run`, although its function still runs."""
        key = run.tag, run.jobid
        with self._changed:
            if key in self._runs:
                # In this order: `remove`, which takes no lock for the usual run, sees one of the two.
                self._going_on[key] = run
                if self._runs.pop(key, None) is None:
                    del self._going_on[key]
        self._check_reserved(key)

    def _reserve(self, run: Run) -> None:
        """Let the function of `run`, which still runs, count for the limit of its queue, if the queue has one."""
        if self._store.queue_limits.reserve(run.queue, run.tag, run.jobid, LEASE):
            self._reserved[run.tag, run.jobid] = run

    def _check_reserved(self, key: tuple[str, str]) -> None:
        """Release the place of a function that has ended during the request for the place."""
        if key not in self._going_on:
            self._give_back(key)

    def _give_back(self, key: tuple[str, str]) -> None:
        if run := self._reserved.pop(key, None):
            try:
                self._store.queue_limits.reserve(run.queue, run.tag, run.jobid, 0.0)
            except RedbikeError as error:
                log.debug("%s: its place in the queue is free in %g s: %s", run.jobid, LEASE, error)

    def give_back(self) -> None:
        """Release all places in the limits of queues: this process is about to end."""
        for key in list(self._reserved):
            self._give_back(key)

    def _report_stuck_runs(self) -> None:
        for run in self._list_unreported():
            key = run.tag, run.jobid
            with self._changed:
                is_stuck = key in self._going_on and time.monotonic() >= run.local_deadline + STUCK_AFTER
                if is_stuck:
                    self._reported.add(key)
            if is_stuck:
                self._report_stuck(run)

    def _beat(self) -> None:
        if self._going_on:
            self._report_stuck_runs()
        runs = list(self._runs.values())
        if not (runs or self._reserved):
            return
        try:
            for key, run in list(self._reserved.items()):
                self._reserve(run)
                self._check_reserved(key)
            has_failed = False
            for run, word in zip(runs, self._store.runs.heartbeat(runs) if runs else (), strict=True):
                if word != "ok" and (run.tag, run.jobid) in self._runs:
                    has_failed |= not self._take_note(run, word)
            self._live.look(runs)
            if has_failed:
                time.sleep(INTERVAL)
        except Unreachable as error:
            log.debug("no heartbeat: %s", error)
            time.sleep(INTERVAL / 4)
        except RedbikeError as error:
            log.error("no heartbeat: %s", error)
            time.sleep(INTERVAL)
        except Exception:
            log.exception("a heartbeat was interrupted")
            time.sleep(INTERVAL)
        if self._runs:
            # A job that continues after its deadline is not among them.
            watchdog.feed()

    def _take_note(self, run: Run, word: str) -> bool:
        """Act on the reply `word` to the heartbeat of `run`; return whether this succeeded.

        Raise only errors of the server, which concern other runs, too.
        """
        try:
            if word == "cancelled":
                if not run.cancelled:
                    self._cancel(run)
                return True
            if word == "overrun":
                # First: no other run may take its place in between.
                self._reserve(run)
                self._overrun(run)
            else:
                log.warning("%s: run %s is no longer this worker's", run.jobid, run.tag)
            self._drop(run)
        except RedbikeError:
            raise
        except Exception:
            # For example, no thread can be started. The next heartbeat tries again.
            log.exception("%s: run %s goes on, though it is to end: %s", run.jobid, run.tag, word)
            return False
        return True


class Heartbeats(Heartbeat):
    """The heartbeats of runs in several shards. If a shard does not answer, runs of others still keep their leases."""

    def __init__(self, heartbeats: Sequence[Heartbeat], find: Callable[[str], int]) -> None:
        self._all, self._find = heartbeats, find

    def add(self, run: Run) -> None:
        """Send heartbeats for `run` from now on."""
        self._all[self._find(run.jobid)].add(run)

    def remove(self, run: Run) -> None:
        """Send no more heartbeats for `run`: it has ended."""
        self._all[self._find(run.jobid)].remove(run)

    def list_runs(self) -> list[Run]:
        """Return the runs that have heartbeats."""
        return [run for each in self._all for run in each.list_runs()]

    def list_stuck(self, seconds: float = STUCK_AFTER) -> list[Run]:
        """Return the runs whose functions still run `seconds` or more after their deadlines."""
        return [run for each in self._all for run in each.list_stuck(seconds)]

    def give_back(self) -> None:
        """Release all places in the limits of queues, in every shard: this process is about to end."""
        for each in self._all:
            each.give_back()

    def stop(self) -> None:
        """End the threads."""
        for each in self._all:
            each.stop()
