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

import redis

from redbike.connection.cluster import MOVING, PAUSE
from redbike.connection.line import Line, pack
from redbike.connection.refusals import translate_errors
from redbike.errors import Unreachable
from redbike.process import child, leaving, watchdog
from redbike.process.leaving import AGAIN, abort_and_die, die
from redbike.process.signals import SignalHandlers, StopFlag
from redbike.store.records import decode
from redbike.store.scripts import Call, Reply, decode_word, name_wrong_key, pack_call
from redbike.store.store import Store, has_new_halt

log = logging.getLogger("redbike")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
REMINDER = 60.0  # seconds after which it is logged again that Redis is still away
FAREWELL = 0.5  # seconds for which a process that is to stop tries to tell Redis what it has done

T = TypeVar("T")
_ASK_ID = pack(["CLIENT", "ID"])
BLOCK = 6  # seconds for which the server holds a blocking pop
SILENCE = BLOCK + 4  # seconds without a reply after which the server counts as gone


class Wakeup:
    """A blocking pop on lists of tokens, pending on a line of its own.

    The server's own timeouts are late by up to 0.1 s. So the pop stays pending, and the client decides how long it
    waits for the reply. That is exact, and costs no command. A script may be sent behind the pop: the server runs it
    when the pop is over, so the process that is woken has the script's reply at once.
    """

    def __init__(self, client: "redis.Redis", keys: Sequence[str], stopping: StopFlag) -> None:
        self._client = client
        self._stopping = stopping
        self._keys = keys
        self.token = ""  # the last one that it has had
        self._line = Line(client)
        self._pop = pack(["BLPOP", *keys, str(BLOCK)])
        self._call: Call | None = None  # the script behind the pending pop
        self._sent = 0.0  # when, by the monotonic clock
        self._id, self._known = 0, 0  # how the server knows the connection, and which one of the line that is

    def wait(self, seconds: float, script: Callable[[], Call] | None) -> tuple[str | None, Reply | None]:
        """Wait for up to `seconds`, or until the process is to stop; it may return earlier.

        Return the key of a list that had a token, or None, and the reply of the script, or None.
        """
        with translate_errors():
            try:
                return self._wait_pending(max(0.0, seconds), script)
            except BaseException:
                # A reply may be left in the line, or half of one.
                self._line.drop()
                raise

    def _wait_pending(self, seconds: float, script: Callable[[], Call] | None) -> tuple[str | None, Reply | None]:
        line = self._line
        if not line.pending:
            self._sent = time.monotonic()
            self._call = script() if script else None
            line.send(self._pop, *([pack_call(self._call)] if self._call else []))
        if line.has_reply(seconds, self._stopping.fileno()):
            popped = line.receive()
            reply = line.receive() if line.pending else None
            if isinstance(reply, (redis.exceptions.NoScriptError, *MOVING)):
                # Whoever waits runs it again without a pop, and loads it then.
                reply = None
            if isinstance(popped, Exception):
                if isinstance(popped, MOVING) or str(popped).startswith("UNBLOCKED"):
                    # The caller looks for itself now, and finds the new master.
                    line.drop()
                    self._stopping.wait(PAUSE)
                    return None, None
                raise name_wrong_key(self._client, ((key, "list") for key in self._keys), popped)
            if isinstance(reply, Exception):
                assert self._call is not None
                raise name_wrong_key(self._client, self._call.list_kinds(), reply)
            self.token = decode(popped[1]) if popped else ""
            return popped and decode(popped[0]), reply and decode_word(reply)
        if time.monotonic() - self._sent > SILENCE:
            raise redis.exceptions.ConnectionError("the server has not answered in time")
        return None, None

    def begin(self) -> int:
        """Send the pop, unless it is pending; return a descriptor that is readable when there is a reply."""
        with translate_errors():
            try:
                if not self._line.pending:
                    self._sent, self._call = time.monotonic(), None
                    self._line.make_ready()
                    if self._known != self._line.generation:
                        self._line.send(_ASK_ID)
                        self._id, self._known = int(self._line.receive()), self._line.generation
                    self._line.send(self._pop)
                return self._line.fileno()
            except BaseException:
                self._line.drop()
                raise

    def call_off(self) -> str | None:
        """End a pop that is pending; return the key of a list that has had a token meanwhile, or None."""
        if not self._line.pending:
            return None
        with translate_errors():
            try:
                self._client.client_unblock(self._id)
                popped = self._line.receive()
            except BaseException:
                self._line.drop()
                raise
        return decode(popped[0]) if isinstance(popped, list) else None

    def close(self) -> None:
        """Give up the pop."""
        self._line.drop()


class Loop:
    """Runs turns until it is told to stop. It calls `abort` when a second signal ends the process at once.

    With `may_be_away`, it may begin while the server does not answer.
    """

    def __init__(self, store: Store, abort: Callable[[], object] | None = None, may_be_away: bool = False) -> None:
        self.store = store
        # By prefix. The first signal that it sees of a shard is older than this process.
        self.signals_at_start: dict[str, str] = {}
        with suppress(*[Unreachable] * may_be_away):
            self.signals_at_start = store.read_signals()
        self.stopping = StopFlag()
        store.scripts.is_stopping = self.stopping.is_set
        self._abort = abort
        self.when_stopping: Callable[[], None] = lambda: None  # called when a signal or a HALT is to stop the loop
        self._aborting = False
        self.is_told = False  # a signal or a HALT is to stop the loop
        self._out, self._told_at = False, 0.0  # whether Redis is away, and when that was logged last
        self.when_back: Callable[[], None] = lambda: None
        self._back_at = float("-inf")  # when Redis answered again after an outage, by the monotonic clock
        self._thread: int | None = None  # the one that runs the turns: it alone waits
        self._wakeups: dict[tuple[str, ...], Wakeup] = {}
        self.token = ""  # the last one that it has consumed

    def handle_signals(self) -> SignalHandlers:
        """Return a context manager: during it a first signal stops the loop, and a second one ends the process at once.

        Enter it before the process is registered. Whoever sees the process may send it a signal.
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
        """Give back the connections of the blocking waits."""
        for wakeup in self._wakeups.values():
            wakeup.close()
        self._wakeups.clear()

    def retry_until_up(self, action: Callable[[bool], T], patience: float | None = None) -> T:
        """Call `action(repeated)` until Redis answers, and return what it returns.

        Raise `Unreachable` after `patience` seconds, or after `FAREWELL` when the loop is to stop.
        """
        began = time.monotonic()
        pause, repeated = FIRST_PAUSE, False
        while True:
            # Aborted runs end somehow. Redis must not hear of that: they are recovered like those of a lost worker.
            while self._aborting:
                time.sleep(AGAIN)
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
                    self._out, self._back_at = False, time.monotonic()
                    log.warning("Redis is back")
                    self.when_back()
                watchdog.feed()
                return result

    def goes_on(self) -> bool:
        """Look whether there was a HALT, and tell whether the loop is to go on."""
        if not self.stopping.is_set():
            self.check_halt(self.store.read_signals())
        return not self.stopping.is_set()

    def is_settling(self, seconds: float) -> bool:
        """Tell whether Redis is back from an outage for less than so many seconds."""
        return self._out or time.monotonic() - self._back_at < seconds

    def _endure(self, error: Unreachable, pause: float) -> None:
        if not self._out or time.monotonic() - self._told_at >= REMINDER:
            self._out, self._told_at = True, time.monotonic()
            log.warning("%s; waiting for it", error)
        watchdog.feed()
        leaving.cover(time.monotonic())
        if threading.get_ident() == self._thread:
            # Only this thread may close them: it may be reading. Another one lets it find out by itself what is broken.
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

        The server runs that as soon as there is a token.
        Without one it runs it after some seconds. Until then it stays pending, also over several calls.
        Then `script` gives the next one.
        """
        keys = (self.store.keys.halt, *lists)
        wakeup = self._wakeups.get(keys)
        if wakeup is None:
            wakeup = self._wakeups[keys] = Wakeup(self.store.client, keys, self.stopping)
        key, reply = wakeup.wait(seconds, script)
        watchdog.feed()
        self.token = wakeup.token if key else self.token
        if key == self.store.keys.halt:
            self.check_halt(self.store.read_signals())
        return key, reply

    def check_halt(self, signals: Mapping[str, str]) -> None:
        """Stop if one of `signals`, by prefix, is a HALT that was given after this process had started."""
        if has_new_halt(self.signals_at_start, signals) and not self.stopping.is_set():
            log.info("halted")
            self.is_told = True
            child.report(child.HALTED)
            self.stopping.set()
            self.when_stopping()
            self.store.pass_halt_on()

    def _stop(self, number: int) -> None:
        name = signal.Signals(number).name
        log.info("%s: stopping after the current job; a second signal after %g s stops at once", name, AGAIN)
        self.is_told = True
        self.stopping.set()
        # In a thread: what the signal has interrupted may hold a lock.
        _thread.start_new_thread(self.when_stopping, ())

    def _end_now(self, number: int) -> None:
        assert self._abort is not None
        self.silence()
        abort_and_die(self._abort, number)

    def silence(self) -> None:
        """Let the threads of the loop tell Redis nothing any more: this process is about to end."""
        self._aborting = True
