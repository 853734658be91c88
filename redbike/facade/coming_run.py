"""Whether a job has a run to wait for."""

import time
from collections.abc import Callable

from redbike.store.enums import Left
from redbike.store.history import PastRun
from redbike.store.inspected import JobState

LOOK_AGAIN = 5.0  # seconds: nobody says so when what is waited for is withdrawn, or expires


class ComingRun:
    """Whether a job has a run that is to come, by what `inspect` finds."""

    def __init__(self, inspect: Callable[[], JobState]) -> None:
        self._inspect = inspect
        self._looked = 0.0
        self._before: float | None = None  # the due time of a run that is not the one to wait for
        self.is_any = True

    def look(self) -> None:
        """Look at the job as it is now."""
        self._looked, state = time.monotonic(), self._inspect()
        places = state.run, state.waiting, state.timeline, state.held
        self.is_any = any(place is not None for place in places)
        # A recurring job that was set anew has not been asked to run once more.
        if state.run and state.run.next.startswith((Left.OWED, Left.ANEW, Left.ONCE)):
            self._before = state.run.due

    @property
    def is_none(self) -> bool:
        """Tell whether none is to come, as found out `LOOK_AGAIN` seconds ago at most."""
        if time.monotonic() > self._looked + LOOK_AGAIN:
            self.look()
        return not self.is_any

    def awaits(self, run: PastRun) -> bool:
        """Tell whether that is the run to wait for."""
        return run.due != self._before
