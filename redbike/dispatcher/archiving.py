"""When a dispatcher archives ended runs: once a minute, or earlier if there are many, in moments that it can spare."""

import logging
import time
from collections.abc import Iterator

from redbike.errors import RedbikeError, Unreachable
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

INTERVAL, MANY = 60.0, 1000  # seconds after which ended runs are archived, or earlier if they have so many entries
MOMENT = 0.02  # seconds that it may take at a time
PATIENCE = 1.0  # seconds after which it takes a moment even if that may make a job late


class Archiving:
    """Archives the ended runs of `store`, a moment at a time."""

    def __init__(self, store: Store) -> None:
        self._archiver = store.archiver
        self._steps: Iterator[None] | None = None  # those that are left
        self._done = self._stepped = time.monotonic()  # when all of it was done last, and when a step was
        self._complaint = ""

    def go_on(self, until: float, entries: int) -> bool:
        """Archive for a moment, if there is one before `until` (monotonic); return whether to go on with that.

        `entries` is how many the journal had when somebody looked last.
        """
        now = time.monotonic()
        if self._steps is None:
            if not entries or (entries < MANY and now - self._done < INTERVAL):
                return False
            self._steps = self._archiver.archive()
        if until - now <= MOMENT and now - self._stepped < PATIENCE:
            return False
        try:
            for _ in self._steps:
                self._stepped = time.monotonic()
                if self._stepped - now >= MOMENT / 2:
                    return True
            self._complaint = ""
        except Unreachable:
            self._steps = None
            raise
        except RedbikeError as error:
            # Jobs go on all the same.
            if str(error) != self._complaint:
                log.error("ended runs cannot be archived: %s", error)
            self._complaint = str(error)
        self._steps, self._done = None, time.monotonic()
        return False
