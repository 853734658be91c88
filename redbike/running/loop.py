"""What a dispatcher and a worker share: they block for wake-ups, stop when told to, and wait out an outage of Redis.

1. A turn does all that there is to do, and calls `wait` when that is nothing.
2. A signal or a HALT ends the loop after the turn; while it is blocked, at once.
3. When Redis goes away it says so once, pauses ever longer up to `LONGEST_PAUSE`, and goes on when it is back.

At its start it adopts the tombstones that an older version has left.
"""

import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis

from redbike.errors import Unreachable
from redbike.processes import supervised
from redbike.processes.signals import AGAIN, Hearing, StopFlag, abort_and_die, die
from redbike.serving.line import Line, line_to, pack
from redbike.state.keys import kinds_of
from redbike.state.records import text
from redbike.state.scripts import Call, Reply, name_wrong_key, packed, translated, worded
from redbike.state.store import Store

log = logging.getLogger("redbike")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
BLOCK = 4  # seconds for which the server holds a blocking pop
FAREWELL = 0.5  # seconds for which a process that is to stop tries to say what it has done

T = TypeVar("T")


class Loop:
    """Runs turns until it is told to stop. `abort` is called when a second signal ends the process at once."""

    def __init__(self, store: Store, abort: Callable[[], object] | None = None) -> None:
        self.store = store
        self.halted = False
        self.seen_control = store.control()
        store.adopt_tombstones()
        self.stopping = StopFlag()
        self._abort = abort
        self._aborting = False
        self._out = False
        self._thread: int | None = None  # the one that runs the turns: it alone waits
        self._wakeups: dict[tuple[str, ...], _Wakeup] = {}

    def run(self, turn: Callable[[], None], finish: Callable[[], None] = lambda: None) -> None:
        """Call `turn` over and over, until a HALT or a signal; then `finish`, in which a signal counts too."""
        self._thread = threading.get_ident()
        supervised.report(supervised.RUNNING)
        with Hearing(self._stop, self._end_now if self._abort else die):
            try:
                while not self.stopping.is_set():
                    self.retry_until_up(lambda _: turn())
            except Unreachable:
                # Only when it was told to stop while Redis was away: there is nothing left to wait for.
                log.warning("stopped while Redis was away")
            finally:
                # Also after an error: jobs that other threads run go on until they end, or until a second signal.
                self.close()
                finish()

    def close(self) -> None:
        """Give back the connections of the blocking waits."""
        for wakeup in self._wakeups.values():
            wakeup.close()
        self._wakeups.clear()

    def retry_until_up(self, action: Callable[[bool], T], patience: float | None = None) -> T:
        """Call `action(repeated)` until Redis answers; gives up after `patience` seconds, when stopping `FAREWELL`."""
        began = time.monotonic()
        pause, repeated = FIRST_PAUSE, False
        while True:
            self._stay_silent()
            try:
                result = action(repeated)
            except Unreachable as error:
                passed = time.monotonic() - began
                if (patience is not None and passed > patience) or (self.stopping.is_set() and passed > FAREWELL):
                    raise
                self._endure(error, pause)
                pause, repeated = min(LONGEST_PAUSE, pause * 2), True
            else:
                if self._out:
                    self._out = False
                    log.warning("Redis is back")
                return result

    def _endure(self, error: Unreachable, pause: float) -> None:
        if not self._out:
            self._out = True
            log.warning("%s; waiting for it", error)
        if threading.get_ident() == self._thread:
            # Another thread must not: this one may be reading from them, and finds out by itself what is broken.
            self.close()
        self.store.scripts.drop_idle_connections()
        pause = random.uniform(pause / 2, pause)
        if self.stopping.wait(pause):
            # That does not wait any more, and there is little time left.
            time.sleep(min(pause, FAREWELL / 10))

    def wait(self, lists: Sequence[str], seconds: float) -> bool:
        """Block until one of `lists` has a token, which is consumed, or `seconds` have passed: then False."""
        return self.wait_and_run(lists, seconds)[0]

    def wait_and_run(
        self, lists: Sequence[str], seconds: float, script: Callable[[], Call] | None = None
    ) -> tuple[bool, Reply | None]:
        """`wait`, and the reply to a script that the server runs as soon as there is a token, or after `BLOCK` seconds.

        Until then it stays pending, over several calls; `script` is asked for the next one when it has been run.
        """
        keys = (self.store.keys.halt, *lists)
        wakeup = self._wakeups.get(keys)
        if wakeup is None:
            wakeup = self._wakeups[keys] = _Wakeup(self.store.client, keys, self.stopping)
        key, reply = wakeup.wait(seconds, script)
        if key == self.store.keys.halt:
            self.check_halt(self.store.control())
        return key is not None, reply

    def check_halt(self, control: str) -> None:
        """Stop if `control` is a signal that came after this process had started."""
        if control and control != self.seen_control and not self.stopping.is_set():
            log.info("halted")
            self.halted = True
            supervised.report(supervised.HALTED)
            self.stopping.set()
            self.store.pass_halt_on()

    def _stop(self, number: int) -> None:
        name = signal.Signals(number).name
        log.info("%s: stopping after the current job; another one after %g s stops at once", name, AGAIN)
        self.stopping.set()

    def _end_now(self, number: int) -> None:
        assert self._abort is not None
        self._aborting = True
        abort_and_die(self._abort, number)

    def _stay_silent(self) -> None:
        # Runs that are aborted end somehow. Nobody may hear of that: they are recovered like those of a lost worker.
        while self._aborting:
            time.sleep(AGAIN)


class _Wakeup:
    """A blocking pop on lists of tokens, pending on a line of its own.

    The server's own timeouts are late by up to 0.1 s. So the pop stays pending, and the client decides how long to
    look at it; that is exact, and costs no command. A script that is sent behind it is run by the server when the pop
    is over: whoever is woken has its reply at once.
    """

    def __init__(self, client: "redis.Redis", keys: Sequence[str], stopping: StopFlag) -> None:
        self._client = client
        self._stopping = stopping
        self._keys = keys
        self._line = line_to(client)
        self._pop = pack(["BLPOP", *keys, str(BLOCK)])
        self._call: Call | None = None  # the script behind the pending pop
        self._sent = 0.0  # when, by the monotonic clock

    def wait(self, seconds: float, script: Callable[[], Call] | None) -> tuple[str | None, Reply | None]:
        """The key of a list that had a token, or None after `seconds` or when stopping or earlier; and the reply."""
        with translated():
            if self._line is None:
                popped: Any = self._client.blpop(list(self._keys), timeout=max(0.01, min(seconds, 1.0)))
                return (None if popped is None else text(popped[0])), None
            try:
                return self._wait_pending(self._line, max(0.0, seconds), script)
            except BaseException:
                # A reply may be left in it, or half of one.
                self._line.drop()
                raise

    def _wait_pending(
        self, line: Line, seconds: float, script: Callable[[], Call] | None
    ) -> tuple[str | None, Reply | None]:
        if not line.pending:
            self._sent = time.monotonic()
            self._call = script() if script else None
            line.send(self._pop, *([packed(self._call)] if self._call else []))
        if line.has_reply(seconds, self._stopping.fileno()):
            popped = line.receive()
            reply = line.receive() if line.pending else None
            if isinstance(reply, redis.exceptions.NoScriptError):
                # Whoever waits runs it again without a pop, and loads it then.
                reply = None
            if isinstance(popped, Exception):
                raise name_wrong_key(self._client, ((key, "list") for key in self._keys), popped)
            if isinstance(reply, Exception):
                assert self._call is not None
                raise name_wrong_key(self._client, kinds_of(self._call.keys), reply)
            return popped and text(popped[0]), reply and worded(reply)
        if time.monotonic() - self._sent > 2 * BLOCK:
            raise redis.exceptions.ConnectionError("the server has not answered in time")
        return None, None

    def close(self) -> None:
        """Give up the pop."""
        if self._line is not None:
            self._line.drop()
