"""Workers: they take due jobs from queues, run them, and report how the runs have ended.

1. Take the next job in the order of the worker class's queues, or several when the last ones were short (see `batch`).
2. Run it, with a heartbeat beside it for as long as it takes.
3. End it: its schedule, the outcome and the policies say where it goes. This and taking the next is one round trip.
4. Block when there is nothing to take.

With a concurrency of more than one, a pool does this instead (see `pool`).
"""

import logging
import time
from asyncio import AbstractEventLoop
from functools import partial
from typing import Any

from redbike.config.settings import Settings
from redbike.connection.check import describe_address
from redbike.loop.alerts.thread import Alerting
from redbike.loop.host_queues import HostQueues
from redbike.loop.loop import Loop
from redbike.loop.naming import describe_commands, describe_naming, list_taken
from redbike.loop.pings import Pings
from redbike.loop.queues import Queues
from redbike.loop.registration import Presence, shorten, sum_others
from redbike.loop.worker_class import WorkerClass
from redbike.process import leaving
from redbike.store.lease import LEASE
from redbike.store.neighbours import Neighbours
from redbike.store.next_state import EndedRun, NextState
from redbike.store.processes import Takers
from redbike.store.run import Poll, Run
from redbike.store.sharded.missing import name_if_silent
from redbike.store.signals import has_new_halt
from redbike.store.store import Store
from redbike.text.printable import name_host
from redbike.worker.batch import LONG_ENOUGH, Batch, BatchRunner, Pace
from redbike.worker.ends import Ends
from redbike.worker.heartbeat import Heartbeat, Heartbeats
from redbike.worker.leaving import Leaving, Left, hand_back
from redbike.worker.limits import LimitSetter
from redbike.worker.missing_commands import MissingCommands
from redbike.worker.notify import Notifier
from redbike.worker.pool import Pool
from redbike.worker.runner import Runner
from redbike.worker.saving import RunSaver
from redbike.worker.sharded_source import ShardedSource
from redbike.worker.source import Source

log = logging.getLogger("redbike.worker")


class Worker:
    """Runs jobs by the methods of `worker`, an instance of a worker class, `concurrency` at once.

    Coroutines run in `event_loop`, or else in an event loop of the worker's own.
    """

    pings_class: type[Pings] = Pings

    def __init__(
        self,
        store: Store,
        worker: WorkerClass,
        settings: Settings,
        concurrency: int = 1,
        event_loop: AbstractEventLoop | None = None,
    ) -> None:
        self.store = store
        self.worker = worker
        self.settings = settings
        self.concurrency = concurrency
        self.loop = Loop(store, self._end_at_once)
        self._batch: Batch | None = None  # the running batch
        self._unsaid: list[EndedRun] = []  # the ends of the last batch that the server may not know yet
        self.hosts = HostQueues(settings.host or name_host(), store.queue_limits.find_used)
        self.queues = Queues(worker, settings.default_timeout, hosts=self.hosts, check=Neighbours(store).check_shared)
        self.pings = self.pings_class()
        self.missing = MissingCommands(worker, Takers(store.workers.list_working))
        self.runner = Runner(worker, settings, self.pings, self.missing.leave, event_loop)
        self.runner.stop_flag = self.loop.stopping
        self.runner.saver = self.saver = RunSaver(store.runs, store.log, self.loop)
        self.notifier = Notifier(store, worker, self.queues.names)
        self.ends = Ends(store, self.loop, self.runner.settings_for, self.notifier, self.pings)
        self.heartbeat = self._open_heartbeat()
        told = self._describe, partial(describe_naming, worker)
        self.presence = Presence(self.loop, "worker", settings, self.notifier, *told)
        self.limits = LimitSetter(store, worker, self.queues, self.loop)
        self.presence.when_forgotten = self.limits.begin
        self.source = self._open_source()
        self.source.when_idle = lambda: leaving.uncover(self.heartbeat.list_runs)
        self.batches = BatchRunner(self.loop, self.queues, self.source, self.runner, self.heartbeat)
        self.pace = Pace()
        self._pool = Pool(
            concurrency, self.loop, self.queues, self.source, self.runner, self.heartbeat, self.batches,
            self.notifier, self.pace, self.most
        )  # fmt: skip
        more = settings.stop_within, lambda: self._list_left().begun, self._end_at_once, self.presence.unregister
        self._alerting = Alerting(store.shards[0], settings, is_dispatcher=False)
        self.leaving = Leaving(self.loop, self.heartbeat, self.runner, *more)

    def _open_heartbeat(self) -> Heartbeat:
        given = self.ends.end_overrun, self.runner.cancel, self._note_stuck
        heartbeats = [Heartbeat(shard, *given) for shard in self.store.shards]
        return heartbeats[0] if len(heartbeats) == 1 else Heartbeats(heartbeats, self.store.number_shard)

    def _open_source(self) -> Source:
        given = self.loop, self.queues, self.ends, self.presence
        sources = [Source(shard, *given, number) for number, shard in enumerate(self.store.shards)]
        return sources[0] if len(sources) == 1 else ShardedSource(sources, self.loop, self.queues, self.ends)

    def work(self) -> None:
        """Work until halted."""
        try:
            next(self.queues.polls())
            self._introduce()
            self.limits.apply()
            with self.loop.handle_signals():
                # First: startup() may never end.
                self.leaving.start()
                self.runner.hooks.begin()
                try:
                    self._loop_until_halted()
                finally:
                    self.source.close()
                    self.runner.hooks.end()
        finally:
            # After an error too: a program may continue, and work again.
            self.close()
        self.leaving.replace_if_wanted()

    def _loop_until_halted(self) -> None:
        with self.presence:
            self.notifier.start()
            self._alerting.start()
            if self.concurrency == 1:
                self.loop.run(self._turn, self._finish)
            else:
                self._pool.work()

    def _finish(self) -> None:
        self.source.finish()
        self.notifier.stop()

    def _end_at_once(self) -> None:
        """End all runs and hand them back, in a thread of its own: a second signal ends this process."""
        left = self._list_left()  # before they are interrupted: how they end then is not stored
        try:
            self.runner.abort()
            self.runner.cancel_all()
        finally:
            heard = hand_back(self.store, left, self.runner.settings_for, self.presence.unregister)
            self.presence.note_end(heard)

    def _list_left(self) -> Left:
        begun = {(run.tag, run.jobid): run for run in self.heartbeat.list_runs()}
        batch = self._batch or self._pool.batch
        unsaid = [*self._unsaid, *self._pool.list_untold(), *self.source.list_owed()]
        unsaid = list({id(each): each for each in unsaid}.values())
        if batch is None:
            return Left(unsaid, list(begun.values()))
        waiting = list(batch.todo)
        over = batch.over | {id(run) for run in waiting}
        if len(batch.runs) > 1:
            begun |= {(run.tag, run.jobid): run for run in batch.runs if id(run) not in over}
        return Left([*unsaid, *batch.done], list(begun.values()), waiting if len(batch.runs) > 1 else [])

    def _describe(self) -> dict[str, Any]:
        """Return the fields for the entry of this worker, see `ProcessRecord`."""
        names, stuck = self.queues.names(), [run.jobid for run in self.heartbeat.list_stuck()]
        return {
            "queues": shorten(names),
            "checksums": sum_others(tuple(names)),
            "for_host": True,
            "concurrency": self.concurrency,
            "takes": list_taken(self.worker),
            "lacks": tuple(self.missing.list_lacking().items()),
            # A record with a text that is not safe to show counts as damaged.
            "stuck": tuple(jobid if jobid.isprintable() else repr(jobid) for jobid in stuck),
            "lines": tuple(describe_commands(self.worker).items()),
        }

    def _note_stuck(self, run: Run) -> None:
        """Report that the function of `run` still runs after its deadline, or that it has ended."""
        self.presence.hurry()
        stuck = self.heartbeat.list_stuck()
        if run not in stuck:
            log.warning("%s: its function has ended, after its deadline", run.jobid)
            return
        slots = f"{len(stuck)} of {self.concurrency} slots stuck" if self.concurrency > 1 else "this worker is stuck"
        log.error("%s: its function still runs after its deadline: %s", run.jobid, slots)
        self.leaving.consider_replacing(stuck, self.concurrency)

    def close(self) -> None:
        """End the threads, and release the connection."""
        self._alerting.stop()
        self.runner.hooks.end()
        self.batches.stop()
        self.heartbeat.stop()
        self.ends.run_log.stop()
        self.pings.stop()
        self.runner.stop()
        self.saver.stop()
        self.source.close()

    def _introduce(self) -> None:
        """Log what this worker is."""
        kind, queues = type(self.worker), ", ".join(shorten(self.queues.names())) or "no queue"
        together = f", up to {self.concurrency} jobs at once" if self.concurrency > 1 else ""
        place = describe_address(self.store.client)
        log.info("%s.%s works %s%s, on %s", kind.__module__, kind.__qualname__, queues, together, place)

    def work_one(self) -> str | None:
        """Take and work at most one job without waiting; return its id, or None when every queue was empty."""
        self.runner.hooks.begin()
        turns = ((poll, each) for each in self.source.take_turns() for poll in self.queues.polls(each.number))
        run = next(filter(None, (self._take_one(*turn) for turn in turns)), None)
        if run is None:
            return None
        self.ends.end(self._run_one(run), patience=LEASE)
        return run.jobid

    def _take_one(self, poll: Poll, source: Source) -> Run | None:
        with name_if_silent(source.store):
            taken = source.store.runs.take(poll, self.presence.make_tag(), 1, self.loop.read_signal(source.store))
            if taken == "halted":
                is_old = not has_new_halt(self.loop.signals_at_start, source.store.signals.read_all())
                return self._take_one(poll, source) if is_old else None
        return taken[0] if taken else None

    def _turn(self) -> None:
        """Run jobs, one or some short ones at a time, until a wait returns none."""
        runs = self.source.take(self.most())
        while runs or (runs := self.source.wait()):
            self._unsaid = ended = self.run_all(runs)
            if self.notifier.is_behind:
                # During the wait, no end is unsent, and no job is taken.
                self.source.end(ended)
                self.notifier.wait(self.loop.goes_on)
                runs = self.source.take(self.most())
            else:
                runs = self.source.end_and_take(ended, self.most()) or self.source.take(self.most(), skipped=1)

    def most(self) -> int:
        """Return how many jobs to take at once."""
        together = self.settings.on_lost == "requeue" and self.queues.shortest_timeout >= LONG_ENOUGH
        return self.pace.number if together else 1

    def run_all(self, runs: list[Run]) -> list[EndedRun]:
        """Run jobs that were taken together; return the ends that were not sent to the server."""
        runs = self.source.keep_own(runs)
        batch = self._batch = Batch(runs)
        ended = self._run_one(runs[0]) if len(runs) == 1 else self.batches.run(batch)
        self.pace.note(max(1, len(batch.over)), time.monotonic() - batch.began)
        return ended

    def _run_one(self, run: Run) -> list[EndedRun]:
        self.queues.advance(run.queue, self.store.number_shard(run.jobid))
        return [(run, self._run(run))]

    def _run(self, run: Run) -> NextState:
        """Run the job, with a heartbeat; return where the job goes then."""
        self.heartbeat.add(run)
        try:
            return self.runner.run(run)
        finally:
            self.heartbeat.remove(run)
