"""What a dispatcher does in small steps, in moments that it can spare.

It archives ended runs once a minute, or earlier if there are many. It forgets one-offs that have ended, and updates the
jobs for every host. `misplaced` has another such task.
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
SPREAD = 5.0  # seconds between two updates of the jobs for every host
LONGEST_WAIT = 1.0  # seconds after which a step is taken even if that may make a job late


class InMoments:
    """Takes steps, a moment at a time; an error ends them, and is logged once as `complaint`: jobs go on."""

    def __init__(self, complaint: str) -> None:
        self.steps: Iterator[None] | None = None  # those that are left
        self.done = self._stepped = time.monotonic()  # when all was done last, and when a step was
        self.spent = 0.0  # seconds of the last steps
        self._complaint, self._error = complaint, ""

    def begin(self, steps: Iterator[None]) -> None:
        """Take these steps from now on."""
        self.steps, self.spent = steps, 0.0

    def step(self, until: float) -> bool:
        """Take steps for a moment, if there is one before `until` (monotonic); return whether any may be left."""
        now = time.monotonic()
        if self.steps is None or (until - now <= MOMENT and now - self._stepped < LONGEST_WAIT):
            return False
        try:
            for _ in self.steps:
                self._stepped = time.monotonic()
                if self._stepped - now >= MOMENT / 2:
                    self.spent += self._stepped - now
                    return True
            self._error = ""
        except Unreachable:
            self.steps = None
            raise
        except RedbikeError as error:
            if str(error) != self._error:
                log.error("%s: %s", self._complaint, error)
            self._error = str(error)
        self.steps, self.done = None, time.monotonic()
        self.spent += self.done - now
        return False


class Archiving(InMoments):
    """Archives the ended runs of `store`, a moment at a time."""

    def __init__(self, store: Store) -> None:
        super().__init__("ended runs cannot be archived")
        self._archiver = store.archiver

    def go_on(self, until: float, entries: int) -> bool:
        """Archive for a moment, if there is one before `until` (monotonic); return whether to go on with that.

        `entries` is how many the journal had when somebody looked last.
        """
        if self.steps is None:
            if not entries or (entries < MANY and time.monotonic() - self.done < INTERVAL):
                return False
            self.begin(self._archiver.archive())
        return self.step(until)


class Spreading:
    """Updates the jobs for every host, once in `SPREAD` seconds."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._every_host = EveryHost(store, settings)
        # Workers that start together with the dispatcher register first.
        self._done = time.monotonic() + SPREAD
        self._complaint = ""

    def go_on(self) -> None:
        """Update them, if it is time."""
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
