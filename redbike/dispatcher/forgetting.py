"""When a dispatcher forgets one-offs that have ended: in small steps, in moments that it can spare."""

import logging
import time

from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

MOMENT = 0.02  # seconds that a step may take
PATIENCE = 1.0  # seconds after which it takes a step even if that may make a job late


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
        if not is_any or (until - now <= MOMENT and now - self._stepped < PATIENCE):
            return False
        self._stepped = now
        number, is_more = self._timeline.forget()
        self._forgotten += number
        if not is_more and self._forgotten:
            jobs = "one-off that has" if self._forgotten == 1 else "one-offs that have"
            log.info("forgot %d %s ended, by forget-after", self._forgotten, jobs)
            self._forgotten = 0
        return is_more
