"""Send the output of commands while they run, as long as somebody listens; see `redbike.store.live`.

Each command has a `Tap`. After each heartbeat, `LivePublisher` asks whether anybody listens, and opens or shuts the
taps. It sends in a thread of its own, which starts when somebody listens for the first time. So no command waits for
the server.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterable

from redbike.errors import RedbikeError
from redbike.store.live import LiveOutput
from redbike.store.run import Run
from redbike.text.printable import escape_lines

log = logging.getLogger("redbike.worker")

BEFORE = 16 * 1024  # bytes of earlier output that a new listener gets
LIMIT = 256 * 1024  # bytes that wait to be sent; further output is left out
LAST = 1.0  # seconds to send what still waits when a command has ended


class Tap:
    """The output of one command. It keeps the end, and sends everything while it is open."""

    def __init__(self, jobid: str) -> None:
        self.jobid = jobid
        self.left_out = 0  # bytes
        self._lock = threading.Lock()
        self.printed = b""  # the end of all output so far
        self._publisher: LivePublisher | None = None  # None: it is shut

    def feed(self, text: bytes, printed: bytes) -> None:
        """Take the new output `text`; `printed` is the end of all output, which ends with `text`."""
        with self._lock:
            self.printed = printed
            if self._publisher:
                self._publisher.put(self, text)

    def show(self, size: int) -> str:
        """Return the last `size` bytes of the output so far, in lines that are safe to show."""
        shown = "\n".join(escape_lines(self.printed[-size:])).encode()
        return shown[-size:].decode(errors="ignore")

    def open(self, publisher: "LivePublisher") -> None:
        """Send all output from now on, but first the end of the earlier output."""
        with self._lock:
            if self._publisher is None:
                self._publisher = publisher
                if self.printed:
                    publisher.put(self, self.printed[-BEFORE:])

    def shut(self) -> None:
        """Send no more."""
        with self._lock:
            self._publisher = None

    def close(self) -> None:
        """Wait until all output is sent, for `LAST` seconds at most: the command has ended."""
        with self._lock:
            publisher, self._publisher = self._publisher, None
        if publisher:
            publisher.finish(self)


class LivePublisher:
    """Opens the taps of runs if somebody listens, and sends their output."""

    def __init__(self, live: LiveOutput) -> None:
        self._live = live
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Tap, bytes]] = deque()
        self._size = 0  # bytes of these
        self._sending: Tap | None = None
        self._thread: threading.Thread | None = None

    def look(self, runs: Iterable[Run]) -> None:
        """Ask the server whether anybody listens, and open or shut the taps of `runs`. Raise `Unreachable`."""
        taps = [run.tap for run in runs if run.tap is not None]
        if not taps:
            return
        is_watched = self._live.is_watched()
        for tap in taps:
            if is_watched:
                tap.open(self)
            else:
                tap.shut()

    def put(self, tap: Tap, text: bytes) -> None:
        """Send `text` soon. If too much waits, leave it out; the next text that is sent says how much was left out."""
        with self._changed:
            if self._size + len(text) > LIMIT:
                tap.left_out += len(text)
                return
            if tap.left_out:
                text = b"\n... %d bytes were left out here: they came too fast\n%b" % (tap.left_out, text)
                tap.left_out = 0
            self._waiting.append((tap, text))
            self._size += len(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="redbike-live", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def finish(self, tap: Tap) -> None:
        """Wait until all output of a tap is sent, for `LAST` seconds at most."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._sending is not tap and all(each is not tap for each, _ in self._waiting), LAST
            )

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._sending = None
                self._changed.notify_all()
                while not self._waiting:
                    self._changed.wait()
                tap, text = self._waiting.popleft()
                self._sending = tap
                self._size -= len(text)
            try:
                is_heard = self._live.send(tap.jobid, text)
            except RedbikeError as error:
                log.debug("%s: what it prints is not sent: %s", tap.jobid, error)
                is_heard = False
            if not is_heard:
                # The next heartbeat asks again.
                tap.shut()
