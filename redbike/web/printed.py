"""What runs print while somebody looks at them: heard once for all who look at the same run, and never stored.

A thread listens to a run from when it is first looked at until it ends, or until nobody has looked for a while.
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

KEPT = 16_384  # bytes of a run that are shown: the last ones
LINGER = 10.0  # seconds after the last look
MOST = 20  # runs that are listened to at once

Key = tuple[str, float]  # a job, and when its run began
Listen = Callable[[str, Callable[[], bool]], Iterable[Printed | PastRun | None]]


@dataclass
class Heard:
    """What was heard of a run."""

    looked: float = field(default_factory=time.monotonic)  # when somebody has looked last
    text: bytes = b""


class PrintedLines:
    """What runs print. `listen` yields it for a job, until what it is given says that it is over."""

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._lock = threading.Lock()
        self._heard: dict[Key, Heard] = {}

    def look(self, jobid: str, began: float) -> list[str] | None:
        """Return the lines that the run has printed since the first look; None if too many others are listened to."""
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
                    # It has ended. What is kept of it is shown from now on.
                    return
        except RedbikeError as error:
            # Whoever looks again begins anew.
            log.info("the output of %s cannot be followed: %s", key[0], error)
        finally:
            with self._lock:
                del self._heard[key]
