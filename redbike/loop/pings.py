"""Pings: the URL of ``ping-url`` is called when a run starts and ends, from threads of their own.

They delay no job. A call that fails is tried up to three times more. While a service does not answer, pings beyond
`MOST` are dropped. The log names the host of a URL, and nothing else of it.
"""

import atexit
import logging
import os
import threading
import time
import urllib.request
import zlib
from collections import deque
from collections.abc import Sequence
from functools import cached_property

from redbike.config import ping_urls
from redbike.loop.web_client import call, make_opener
from redbike.process.signals import leave_to_others
from redbike.store.enums import Outcome
from redbike.store.next_state import NextState

log = logging.getLogger("redbike")

LANES = 4  # threads; all pings of a job take the same one, so that they stay in order
MOST = 250  # pings that wait in a lane; further ones are dropped
PAUSES = (1.0, 2.0, 4.0)  # seconds before each further try
TIMEOUT = 10.0  # seconds without an answer
STOP_TIMEOUT = 5.0  # seconds for which a process that stops sends what is left
INTERVAL = 60.0  # seconds between two calls of a switch
REMINDER = 60.0  # seconds after which it is logged again that a host does not answer, or that pings are dropped
FAILED = (Outcome.FAILED, Outcome.OVERRUN, Outcome.LOST)
STUCK = 120.0  # seconds after which a call is given up that goes on and on: its service sends a byte now and then


class Pings:
    """Calls URLs; those of one job in the order of the requests. `pauses` are seconds before each further try."""

    def __init__(self, pauses: Sequence[float] = PAUSES, timeout: float = TIMEOUT) -> None:
        self._pauses, self._timeout = pauses, timeout
        self._lanes = [_Lane(self) for _ in range(LANES)]
        self._told: dict[str, float] = {}  # when a complaint was logged, by the monotonic clock
        self._unsaid: dict[str, int] = {}  # how often it was not, since then
        self._changing = threading.Lock()
        self._is_begun, self._process = False, os.getpid()

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        return make_opener()

    def start(self, jobid: str, url: str) -> None:
        """Send that a run starts, unless the URL is only called at the end, with the outcome."""
        if not ping_urls.wants_outcome(url):
            self.send(jobid, ping_urls.add_signal(url, "start"))

    def end(self, jobid: str, url: str, next_state: NextState) -> None:
        """Send how a run has ended."""
        assert next_state.outcome
        if ping_urls.wants_outcome(url):
            self.send(jobid, url, next_state.outcome)
        elif next_state.outcome == Outcome.OK:
            self.send(jobid, url)
        elif next_state.outcome in FAILED and not next_state.is_tried_again:
            self.send(jobid, ping_urls.add_signal(url, "fail"))

    def send(self, jobid: str, url: str, outcome: str = "") -> None:
        """Call a URL soon, in a thread; drop the call if too many wait."""
        if not self._is_begun:
            self._is_begun = True
            # For programs that call `work_one` and end.
            atexit.register(self.stop)
        lane = self._lanes[zlib.crc32(jobid.encode()) % LANES]
        if not lane.add((jobid, ping_urls.fill(url, jobid, outcome))):
            self._complain(f"pings to {ping_urls.mask(url)} are dropped: {MOST} wait already")

    def stop(self, patience: float = STOP_TIMEOUT) -> None:
        """Send what is left, for at most `patience` seconds."""
        atexit.unregister(self.stop)
        if os.getpid() != self._process:
            # The child of a program has none of its threads.
            return
        until = time.monotonic() + patience
        left = sum(lane.stop(until) for lane in self._lanes)
        if left:
            log.warning("%d pings were not sent: there was no answer in time", left)

    def call(self, jobid: str, url: str) -> None:
        """Call a URL at once, and again after each of the pauses as long as it fails and may succeed later."""
        for pause in (*self._pauses, None):
            answer = call(self._opener, url, self._timeout)
            if not answer.problem:
                return
            if pause is None or not answer.is_worth_it:
                break
            time.sleep(pause)
        self._complain(f"a ping to {ping_urls.mask(url)} has failed: {answer.problem}", f"{jobid}: ")

    def _complain(self, text: str, whose: str = "") -> None:
        """Log a text, but not more than once a minute."""
        with self._changing:
            now = time.monotonic()
            if now - self._told.get(text, float("-inf")) < REMINDER:
                self._unsaid[text] = self._unsaid.get(text, 0) + 1
                return
            if len(self._told) > MOST:
                self._told.clear()
                self._unsaid.clear()
            self._told[text], unsaid = now, self._unsaid.pop(text, 0)
        log.warning("%s%s%s", whose, text, f"; and {unsaid} more times since the last such line" if unsaid else "")


class Switch:
    """A dead man's switch: its URL is called once a minute as long as all of its `loops` press it.

    Without a URL, it is never called.
    """

    def __init__(self, pings: Pings, url: str | None, loops: int = 1) -> None:
        self._pings, self._url = pings, url
        self._called = float("-inf")  # by the monotonic clock
        self._pressed = [float("-inf")] * loops  # when each of them did so last
        self._changing = threading.Lock()

    def press(self, number: int = 0) -> None:
        """Note that the loop with this number goes on; call the URL once a minute if all do."""
        if not self._url:
            return
        with self._changing:
            self._pressed[number] = now = time.monotonic()
            if now - self._called >= INTERVAL and now - min(self._pressed) < INTERVAL:
                self._called = now
                self._pings.send("dispatcher", self._url)


class _Lane:
    """Pings that are sent one after the other, by a thread that starts with the first one."""

    def __init__(self, pings: Pings) -> None:
        self._pings = pings
        self._waiting: deque[tuple[str, str]] = deque()
        self._stopping = False
        self._since: float | None = None  # when the call began that goes on, by the monotonic clock
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, ping: tuple[str, str]) -> bool:
        """Queue a ping; return False if too many wait."""
        with self._changed:
            is_stuck = self._since is not None and time.monotonic() - self._since > STUCK
            if len(self._waiting) >= MOST and not is_stuck:
                return False
            self._waiting.append(ping)
            self._changed.notify()
            if self._thread is None or is_stuck:
                self._since = None
                self._thread = threading.Thread(target=self._run, name="redbike-ping", daemon=True)
                with leave_to_others():
                    self._thread.start()
        return True

    def stop(self, until: float) -> int:
        """Wait until all is sent, or until `until`; return how many pings are left."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(max(0.0, until - time.monotonic()))
        return len(self._waiting) + (self._since is not None)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._thread is not threading.current_thread():
                    # It was stuck, and another one has its place.
                    return
                self._since = None
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                ping, self._since = self._waiting.popleft(), time.monotonic()
            self._pings.call(*ping)
