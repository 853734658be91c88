"""What a dispatcher does in small steps, in moments that it can spare.

It archives ended runs once a minute, or earlier if there are many, and forgets one-offs that have ended. It sees to it
that jobs for every host are on each.
"""

import logging
import time
from collections.abc import Iterator

from redbike.config.settings import Settings
from redbike.errors import RedbikeError, Unreachable
from redbike.loop.every_host import EveryHost
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

INTERVAL, MANY = 60.0, 1000  # seconds after which ended runs are archived, or earlier if they have so many entries
MOMENT = 0.02  # seconds that a step may take
SPREAD = 5.0  # seconds
LONGEST_WAIT = 1.0  # seconds after which a step is taken even if that may make a job late


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
        if until - now <= MOMENT and now - self._stepped < LONGEST_WAIT:
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


class Spreading:
    """Sees to the jobs for every host, once in `SPREAD` seconds."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._every_host = EveryHost(store, settings)
        # Workers that start together with the dispatcher register first.
        self._done = time.monotonic() + SPREAD
        self._complaint = ""

    def go_on(self) -> None:
        """Do it, if it is time for that."""
        if (now := time.monotonic()) - self._done < SPREAD:
            return
        self._done, complaint = now, ""
        try:
            self._every_host.spread_all()
        except Unreachable:
            raise
        except RedbikeError as error:
            # Other jobs go on all the same.
            complaint = str(error)
            if complaint != self._complaint:
                log.error("cannot update the jobs for every host: %s", complaint)
        self._complaint = complaint


class Forgetting:
    """Forgets the one-offs of `store` whose time has come, a step at a time."""

    def __init__(self, store: Store) -> None:
        self._timeline = store.timeline
        self._stepped = time.monotonic()
        self._forgotten = 0  # since the last line of log

    def go_on(self, until: float, is_any: bool) -> bool:
        """Make a step, if there is a moment for one before `until` (monotonic); return whether to go on with that.

        `is_any` tells whether there was a one-off to forget when somebody looked last.
        """
        now = time.monotonic()
        if not is_any or (until - now <= MOMENT and now - self._stepped < LONGEST_WAIT):
            return False
        self._stepped = now
        number, is_more = self._timeline.forget()
        self._forgotten += number
        if not is_more and self._forgotten:
            jobs = "one-off that has" if self._forgotten == 1 else "one-offs that have"
            log.info("forgot %d %s ended, by forget-after", self._forgotten, jobs)
            self._forgotten = 0
        return is_more
