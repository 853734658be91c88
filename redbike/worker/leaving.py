"""End a worker that has to stop in limited time, whatever its jobs do; see `redbike.process.leaving`.

1. It waits until the runs have ended or reach their deadlines, or for ``stop-within`` seconds. Runs that have not ended
   then are handed back, as with a second signal.
2. A function that still runs after the deadline of its run has `LAST` more seconds. If there is none, the rest has
   `CLOSING` seconds: calls of ``ended()``, pings, threads that jobs have left, and functions at the exit of Python.
3. It logs what keeps the process from ending, and ends it.

If such functions hold half of the slots of a worker, it replaces itself: it stops in this way, and starts again.

A second signal ends all runs, and hands them back before the process ends. A planned stop is no loss: another worker
runs these occurrences again, at once, and none of them counts as lost.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from redbike.config.settings import Settings
from redbike.errors import RedbikeError
from redbike.loop.loop import Loop
from redbike.loop.policies import decide_handed_back
from redbike.process import leaving
from redbike.store.next_state import EndedRun
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.worker.ends import commit, release
from redbike.worker.heartbeat import Heartbeat
from redbike.worker.runner import Runner

log = logging.getLogger("redbike.worker")

LAST = 5.0  # seconds for functions that still run after their deadlines
CLOSING = 20.0  # seconds for all that is not a run: longer than ended() and pings may take
TICK = 0.1  # seconds between two polls of a process that stops
MOST = 5  # jobs that the log names


class Leaving:
    """Waits, in a thread of its own, until the worker has to stop. `within`: the seconds for its runs; 0.0: no limit.

    `list_runs` returns its runs; `end_at_once` ends them and hands them back; `unregister` removes its entry.
    """

    def __init__(
        self,
        loop: Loop,
        heartbeat: Heartbeat,
        runner: Runner,
        within: float,
        list_runs: Callable[[], list[Run]],
        end_at_once: Callable[[], None],
        unregister: Callable[[], None],
    ) -> None:
        self._loop, self._heartbeat, self._runner = loop, heartbeat, runner
        self._within = within or float("inf")
        self._list_runs, self._end_at_once, self._sign_off = list_runs, end_at_once, unregister
        self._is_replacing = False

    def start(self) -> None:
        """Start the thread, if this process may be ended."""
        if leaving.is_enabled():
            threading.Thread(target=self._see_to_it, name="redbike-leaving", daemon=True).start()

    def consider_replacing(self, stuck: list[Run], slots: int) -> None:
        """Let the worker replace itself if functions that still run after their deadlines hold half of its slots."""
        if 2 * len(stuck) >= slots and not self._loop.stopping.is_set() and leaving.is_enabled():
            log.error("at least half of the slots are stuck: this worker takes no more jobs, and replaces itself")
            self._is_replacing = True
            self._loop.stopping.set()

    def replace_if_wanted(self) -> None:
        """Restart this process if it has stopped to replace itself. Everything else in it has ended."""
        if self._is_replacing and not self._loop.is_told:
            leaving.leave(self._look_for_halt, self._begins_again)

    def _see_to_it(self) -> None:
        while not self._loop.stopping.wait(3600.0):
            pass
        patience = time.monotonic() + self._within
        while any(run.local_deadline > time.monotonic() for run in self._list_runs()):
            if time.monotonic() > patience:
                self._leave(self._hand_back)
            self._pause()
        since = time.monotonic()
        while time.monotonic() < since + (LAST if self._heartbeat.list_stuck(0.0) else CLOSING):
            self._pause()
        self._leave(self._name_what_goes_on)

    def _pause(self) -> None:
        leaving.cover(time.monotonic())
        time.sleep(TICK)

    def _leave(self, first: Callable[[], None]) -> NoReturn:
        def last() -> None:
            first()
            self._heartbeat.give_back()
            self._sign_off()
            self._look_for_halt()

        leaving.leave(last, self._begins_again)

    def _look_for_halt(self) -> None:
        # After its restart, the process would take a new HALT for an old one.
        if self._is_replacing:
            self._loop.goes_on()

    def _begins_again(self) -> bool:
        return self._is_replacing and not self._loop.is_told

    def _hand_back(self) -> None:
        log.warning(
            "stop-within (%g s) is over: this worker ends the remaining runs, and hands them back", self._within
        )
        self._loop.silence()
        self._end_at_once()

    def _name_what_goes_on(self) -> None:
        stuck, left = self._heartbeat.list_stuck(0.0), self._runner.list_left_threads()
        for run in stuck:
            log.error("%s: its function still runs, %s; this process ends without it", run.jobid, _place(run.thread))
        for thread, jobid in left:
            # The thread began while that job ran, perhaps beside others.
            said = "%s: it has left a thread, %r, which goes on, %s; this process ends without it"
            log.error(said, jobid, thread.name, _place(thread.ident))
        hook = {"beginning": "startup", "ending": "shutdown"}.get(self._runner.hooks.state)
        if hook:
            said = "%s() of the worker class goes on, %s; this process ends without it"
            log.error(said, hook, _place(threading.main_thread().ident))
        elif not stuck and not left:
            # For example, Python waits for a child process, and nobody knows which job has started it.
            who = ", ".join(self._runner.registrars[-MOST:]) or self._runner.last_jobid or "this worker"
            said = "%s: a function that runs at the exit of Python hangs, %s; this process ends without it"
            log.error(said, who, _place(threading.main_thread().ident))
        self._runner.abort()


def _place(ident: int | None) -> str:
    """Return where a thread is, in words."""
    frame = sys._current_frames().get(ident or 0)
    if frame is None:
        return "nobody knows where"
    return f"in line {frame.f_lineno} of {frame.f_code.co_filename}, {frame.f_code.co_name}()"


@dataclass(slots=True)
class Left:
    """The runs that a worker has when it is ended."""

    ended: list[EndedRun] = field(default_factory=list)  # the server may not know of their ends yet
    begun: list[Run] = field(default_factory=list)
    waiting: list[Run] = field(default_factory=list)  # taken, but not begun

    def of_shard(self, store: Store, number: int) -> "Left":
        """Return the runs whose jobs are in this shard of `store`."""
        ended = [each for each in self.ended if store.number_shard(each[0].jobid) == number]
        begun, waiting = (
            [run for run in runs if store.number_shard(run.jobid) == number] for runs in (self.begun, self.waiting)
        )
        return Left(ended, begun, waiting)


def hand_back(
    store: Store, left: Left, settings_for: Callable[[Run], Settings], unregister: Callable[[Store], object]
) -> list[Store]:
    """End or hand back the runs in `left`, over new connections: interrupted code may hold the old ones.

    Then call `unregister`: a worker that has left nothing behind is not lost. A shard that is away does not delay the
    others. Return the shards that have replied.
    """
    heard = list[Store]()
    for number, shard in enumerate(store.shards):
        try:
            with shard.connect_anew() as own:
                _hand_back_to(own, left.of_shard(store, number), settings_for)
                unregister(own)
            heard.append(shard)
        except RedbikeError as error:
            log.error("the remaining runs cannot be handed back, so they count as lost: %s", error)
    return heard


def _hand_back_to(shard: Store, left: Left, settings_for: Callable[[Run], Settings]) -> None:
    for run, next_state in left.ended:
        commit(shard, run, next_state, settings_for(run))
    ends = [(run, commit(shard, run, decide_handed_back(run), settings_for(run))[0]) for run in left.begun]
    for tag in dict.fromkeys(run.tag for run in left.waiting):
        for run, next_state in release(shard, [run for run in left.waiting if run.tag == tag]):
            commit(shard, run, next_state, settings_for(run))
    # Last: logging may wait for the reader of the log.
    for run, answer in ends:
        if answer.word == "ok":
            log.warning("%s: handed back, as its worker is ended", run.jobid)
