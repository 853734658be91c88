"""What a dispatcher and a worker share: they block for wake-ups, stop when told to, and wait out an outage of Redis.

1. A turn does all that there is to do. It calls `wait` when there is nothing.
2. A signal or a HALT ends the loop after the turn, or at once while it waits.
3. When Redis goes away, the loop logs that, once a minute, and tries again after ever longer pauses, up to
   `LONGEST_PAUSE`.
4. Each turn, wait or attempt that is over feeds the watchdog.

An idle process waits by a blocking pop that stays pending, so that waiting costs no command.
"""

import _thread
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from redbike.errors import LoginRefused, ServerError, Unreachable
from redbike.loop.wakeup import Wakeup
from redbike.process import child, leaving, watchdog
from redbike.process.leaving import AGAIN, abort_and_die, die
from redbike.process.signals import SignalHandlers, StopFlag
from redbike.store.scripts import Call, Reply
from redbike.store.signals import Signal, has_new_halt
from redbike.store.store import Store

log = logging.getLogger("redbike")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
REMINDER = 60.0  # seconds after which it is logged again that Redis is still away
REFUSED = 300.0  # seconds for which a login is refused until a process ends: begun anew, it may have another password
FAREWELL = 0.5  # seconds for which a process that is to stop tries to tell Redis what it has done

T = TypeVar("T")


class Loop:
    """Runs turns until it is told to stop. It calls `abort` when a second signal ends the process at once.

    With `may_be_away`, it may begin while the server does not answer.
    """

    def __init__(self, store: Store, abort: Callable[[], object] | None = None, may_be_away: bool = False) -> None:
        self.store = store
        # By prefix. The first signal that it reads from a shard counts as older than this process.
        self.signals_at_start: dict[str, Signal] = {}
        with suppress(*[Unreachable] * may_be_away):
            self.signals_at_start = store.signals.read_all()
        self.stopping = StopFlag()
        store.scripts.is_stopping = self.stopping.is_set
        self._abort = abort
        self.when_stopping: Callable[[], None] = lambda: None  # called when a signal or a HALT is to stop the loop
        self._aborting = False
        self.is_told = False  # a signal or a HALT is to stop the loop
        self._out, self._told_at = False, 0.0  # whether Redis is away, and when that was logged last
        self._refused_at: float | None = None  # since when it refuses the login, as was logged
        self.when_back: Callable[[], None] = lambda: None
        self.back_at = float("-inf")  # when Redis answered again after an outage, by the monotonic clock
        self._thread: int | None = None  # the one that runs the turns: it alone waits
        self._wakeup: Wakeup | None = None
        self.token = ""  # the last one that it has consumed

    def handle_signals(self) -> SignalHandlers:
        """Return a context manager: during it a first signal stops the loop, and a second one ends the process at once.

        Enter it before the process is registered: after that, somebody may see the process and send it a signal.
        """
        return SignalHandlers(self._stop, self._end_now if self._abort else die)

    def run(self, turn: Callable[[], None], finish: Callable[[], None] = lambda: None) -> None:
        """Call `turn` over and over until a HALT or a signal; then call `finish`."""
        self._thread = threading.get_ident()
        child.report(child.RUNNING)
        watchdog.begin()
        try:
            while not self.stopping.is_set():
                self.retry_until_up(lambda _: turn())
        except Unreachable:
            # Only when it was told to stop while Redis was away: there is nothing left to wait for.
            self._out = True
            log.warning("stopped while Redis did not answer")
        finally:
            # Also after an error: other threads run their jobs to the end, or until a second signal.
            watchdog.end()
            self.close()
            finish()

    def close(self) -> None:
        """Release the connection of the blocking wait."""
        if self._wakeup:
            self._wakeup.close()

    def retry_until_up(self, action: Callable[[bool], T], patience: float | None = None) -> T:
        """Call `action(repeated)` until Redis answers, and return what it returns.

        Raise `Unreachable` after `patience` seconds, or after `FAREWELL` when the loop is to stop.
        """
        began = time.monotonic()
        pause, repeated = FIRST_PAUSE, False
        while True:
            # Aborted runs end somehow, and this must not reach Redis: they are recovered like those of a lost worker.
            while self._aborting:
                time.sleep(AGAIN)
            try:
                result = action(repeated)
            except Unreachable as error:
                passed = time.monotonic() - began
                if (patience is not None and passed > patience) or (self.stopping.is_set() and passed > FAREWELL):
                    raise
                if isinstance(error, LoginRefused) and self._is_refused_for_good():
                    raise ServerError(f"{error}, for {REFUSED:g} s") from error
                self._endure(error, pause)
                pause, repeated = min(LONGEST_PAUSE, pause * 2), True
            else:
                if self._out:
                    self._out, self._refused_at, self.back_at = False, None, time.monotonic()
                    log.warning("Redis is back")
                    self.when_back()
                watchdog.feed()
                return result

    def goes_on(self) -> bool:
        """Check for a HALT, and tell whether the loop is to go on."""
        if not self.is_told:
            self.check_halt(self.store.signals.read_all())
        return not self.stopping.is_set()

    def is_settling(self, seconds: float) -> bool:
        """Tell whether Redis is away, or is back from an outage for less than so many seconds."""
        return self._out or time.monotonic() - self.back_at < seconds

    def _is_refused_for_good(self) -> bool:
        # One of several masters stops only its own shards.
        refused_at, shards = self._refused_at, self.store.whole.shards
        return refused_at is not None and len(shards) == 1 and time.monotonic() - refused_at > REFUSED

    def _endure(self, error: Unreachable, pause: float) -> None:
        # The server may have closed the connections first, but somebody has to do something about a password.
        is_news = isinstance(error, LoginRefused) and self._refused_at is None
        if not self._out or is_news or time.monotonic() - self._told_at >= REMINDER:
            self._out, self._told_at = True, time.monotonic()
            self._refused_at = self._told_at if is_news else self._refused_at
            log.warning("%s; waiting for it", error)
        watchdog.feed()
        if leaving.is_covered():
            leaving.cover(time.monotonic())
        if threading.get_ident() == self._thread:
            # Only the thread that reads may close the connection. In another one, leave it: its thread gets the error.
            self.close()
        self.store.scripts.drop_idle_connections()
        pause = random.uniform(pause / 2, pause)
        if self.stopping.wait(pause):
            # `wait` does not wait any more, and there is little time left.
            time.sleep(min(pause, FAREWELL / 10))

    def wait(self, lists: Sequence[str], seconds: float) -> bool:
        """Block until one of `lists` has a token, and consume it; return False if `seconds` pass without one."""
        return self.wait_and_run(lists, seconds)[0] is not None

    def wait_and_run(
        self, lists: Sequence[str], seconds: float, script: Callable[[], Call] | None = None
    ) -> tuple[str | None, Reply | None]:
        """Wait like `wait`; return the list that had a token, or None, and the reply to a script.

        The server runs the script as soon as there is a token, or else after some seconds. Until then it stays pending,
        also over several calls. After that, `script` is called for the next one.
        """
        wakeup = self._wakeup = self._wakeup or Wakeup(self.store.client, (), self.stopping)
        wakeup.aim_at((self.store.keys.halt, *lists))
        key, reply = wakeup.wait(seconds, script)
        watchdog.feed()
        self.token = wakeup.token if key else self.token
        if key == self.store.keys.halt:
            self.check_halt(self.store.signals.read_all())
        return key, reply

    def read_signal(self, store: Store) -> str:
        """Return the text of the signal of a shard that does not concern this process, see `signals_at_start`."""
        known, prefix = self.signals_at_start, store.keys.prefix
        if prefix not in known:
            known.setdefault(prefix, store.signals.read())
        return known[prefix].text

    def check_halt(self, signals: Mapping[str, Signal]) -> None:
        """Stop if one of `signals`, by prefix, is a HALT that was given after this process had started."""
        # A process that stops to replace itself is to stop for good.
        if has_new_halt(self.signals_at_start, signals) and not self.is_told:
            self.is_told = True
            child.report(child.HALTED)
            self.stopping.set()
            self.when_stopping()
            # Only now: it may wait for the reader of the log.
            log.info("halted")
            self.store.signals.pass_on()

    def _stop(self, number: int) -> None:
        self.is_told = True
        self.stopping.set()
        # In a thread: what the signal has interrupted may hold a lock.
        _thread.start_new_thread(self.when_stopping, ())
        # Last: it may wait for the reader of the log.
        name = signal.Signals(number).name
        log.info("%s: stopping after the current job; a second signal after %g s stops at once", name, AGAIN)

    def _end_now(self, number: int) -> None:
        assert self._abort is not None
        self.silence()
        abort_and_die(self._abort, number)

    def silence(self) -> None:
        """Let the threads of the loop write nothing to Redis any more: this process is about to end."""
        self._aborting = True
