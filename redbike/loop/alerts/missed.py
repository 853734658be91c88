"""Find occurrences that were missed, and of which people are not told yet."""

import time
from collections.abc import Callable
from functools import partial

from redbike.loop.alerts.deciding import decide_missed
from redbike.store.alerts import MISSED, Change
from redbike.store.store import Store

SHARE = 20  # the pause after a long look is so many times as long, unless the look has waited for a server


class MissedWatch:
    """Finds occurrences that were missed and are not told yet. It reads all counts only if their total has changed."""

    def __init__(self, store: Store, every: float) -> None:
        self._store = store
        self._every = every
        self._seen = ""  # the total when all counts were read last
        self._put_off = False  # whether some of them are to be told later
        self._read_at = float("-inf")  # when that was, by the monotonic clock
        self._took = 0.0
        self._confirm: Callable[[], None] = lambda: None

    def look(self, now: float) -> list[Change]:
        """Return the changes of what is told."""
        total, told = self._store.alerts.read_missed_total()
        began = time.monotonic()
        is_due = total != self._seen or (self._put_off and began - self._read_at > min(self._every, 60.0))
        self._confirm = lambda: None
        if total == told or not is_due or began - self._read_at < SHARE * self._took:
            return []
        found = [
            decide_missed(*each, now, self._every, is_first=told is None) for each in self._store.alerts.list_missed()
        ]
        changes = [each for each in found if each is not None]
        self._read_at, self._took = time.monotonic(), time.monotonic() - began
        self._confirm = partial(self._note, told, total, len(changes) < len(found))
        return changes

    def confirm(self) -> None:
        """Note that what `look` has returned is told."""
        confirm, self._confirm = self._confirm, lambda: None
        confirm()

    def _note(self, told: str | None, total: str, puts_off: bool) -> None:
        self._seen, self._put_off = total, puts_off
        if not puts_off:
            self._store.alerts.alert([Change(MISSED, told, total)])
