"""The live output of runs whose page is open. It is received once for all viewers of a run, and never stored.

A thread listens to a run from its first view until the run ends, or until nobody has viewed it for a while.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from redbike.errors import RedbikeError
from redbike.store.history import PastRun
from redbike.store.live import Printed
from redbike.text.printable import escape_lines

log = logging.getLogger("redbike.web")

KEPT = 16_384  # the last bytes of the output, which are shown
LINGER = 10.0  # seconds for which a thread listens after the last view
MOST = 20  # runs that are listened to at once

Key = tuple[str, float]  # a job, and when its run began
Listen = Callable[[str, Callable[[], bool]], Iterable[Printed | PastRun | None]]


@dataclass
class Heard:
    """The output of a run that was received so far."""

    looked: float = field(default_factory=time.monotonic)  # the time of the last view (monotonic)
    text: bytes = b""


class PrintedLines:
    """The live output of runs. `listen` yields the output of a job, until the function that it gets returns true."""

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._lock = threading.Lock()
        self._heard: dict[Key, Heard] = {}

    def look(self, jobid: str, began: float) -> list[str] | None:
        """Return the last lines that the run has printed since its first view; None if too many runs are viewed."""
        key = jobid, began
        with self._lock:
            heard = self._heard.get(key)
            if heard is None:
                if len(self._heard) >= MOST:
                    return None
                heard = self._heard[key] = Heard()
                threading.Thread(target=self._hear, args=(key, heard), name="redbike-web-printed", daemon=True).start()
            heard.looked = time.monotonic()
            return escape_lines(heard.text)

    def _hear(self, key: Key, heard: Heard) -> None:
        try:
            for part in self._listen(key[0], lambda: time.monotonic() - heard.looked > LINGER):
                if isinstance(part, Printed):
                    heard.text = (heard.text + part.text)[-KEPT:]
                elif part:
                    # The run has ended. From now on, the page shows its stored output.
                    return
        except RedbikeError as error:
            # The next view starts a new thread.
            log.info("the output of %s cannot be followed: %s", key[0], error)
        finally:
            with self._lock:
                del self._heard[key]
