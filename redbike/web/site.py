"""What all pages of a site share: the connection to Redis, the settings, the caches and the templates.

Data that many viewers need are read once for all of them.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from redbike.config.settings import Settings
from redbike.errors import RedbikeError, Unreachable
from redbike.facade.redbike import Redbike
from redbike.queries.glance import read_view
from redbike.queries.health import MAX_LAG
from redbike.schedule.clock import Clock
from redbike.store.sharded.missing import list_missing, note_missing, tolerate_missing
from redbike.web.background import Background
from redbike.web.guard import Book
from redbike.web.keys import Keys
from redbike.web.memory import Memory
from redbike.web.printed import PrintedLines
from redbike.web.rendering import make_environment, show_instant
from redbike.web.requests import count_depth, name_place, read_cookies

SHOWN = 10  # failures, and jobs that are due next, on the overview
GROUPED = 1000  # failures that are read to group them
LATE, LATER = 2.0, 5.0  # seconds for which data are cached that take longer to read
PAGES = (
    ("", "Overview"),
    ("jobs", "Jobs"),
    ("timeline", "Timeline"),
    ("agenda", "Agenda"),
    ("runs", "Runs"),
    ("failures", "Failures"),
    ("queues", "Queues"),
    ("workers", "Workers"),
    ("log", "Log"),
)

Endpoint = Callable[["Site", Request], Response]
T = TypeVar("T")

FRESH = 1.0  # seconds for which data are cached at least
SHARE = 20  # data are cached for at least this many times the time that it took to read them


class Snapshot(Generic[T]):
    """A cache for the answer of `read`, for `fresh` seconds, or `SHARE` times the reading time if that is longer.

    Callers that come while `read` runs wait for its answer, or get its error.
    """

    def __init__(self, read: Callable[[], T], fresh: float = FRESH) -> None:
        self._read = read
        self._fresh = fresh
        self._reading = threading.Lock()
        # When it expires, when `read` was called (both monotonic), the answer, and the shards that it lacks.
        self._found: tuple[float, float, T, dict[str, Unreachable]] | None = None
        self._failed: tuple[float, RedbikeError] | None = None  # the last time, and why

    def get(self) -> T:
        """Return the answer. Raise what `read` raises."""
        return self.get_with_time()[0]

    def get_with_time(self) -> tuple[T, float]:
        """Return the answer, and when `read` was called (monotonic). Raise what `read` raises."""
        came = time.monotonic()
        with self._reading:
            if self._found is None or time.monotonic() > self._found[0]:
                # A hanging server takes seconds to fail. A caller that has waited for this does not wait again.
                if self._failed and came <= self._failed[0]:
                    raise self._failed[1].with_traceback(None)
                began = time.monotonic()
                try:
                    with tolerate_missing() as missing:
                        answer = self._read()
                except RedbikeError as error:
                    self._failed = time.monotonic(), error
                    raise
                now = time.monotonic()
                self._found = now + max(self._fresh, SHARE * (now - began)), began, answer, missing
            _, began, answer, missing = self._found
        if math.isfinite(self._fresh):  # otherwise it is the connection to the server, and not data
            note_missing(missing)
        return answer, began

    def drop(self) -> None:
        """Drop the answer, so that the next call reads it again."""
        with self._reading:
            self._found = None


@dataclass
class Site:
    """The pages for the jobs of the `Redbike` that `open_bike` returns. `settings` are those of this `Redbike`.

    `open_bike` is called for the first page, and again as long as it raises `RedbikeError`. With `write`, the pages
    make changes, if the role of the user permits it. With `show_data`, they show data, output and tracebacks.
    """

    open_bike: Callable[[], Redbike]
    settings: Settings
    keys: Keys
    write: bool = False
    show_data: bool = False
    pages: Sequence[tuple[str, str]] = PAGES

    def __post_init__(self) -> None:
        self._opened = Snapshot(self.open_bike, math.inf)
        self.book = Book(lambda: self.bike.store.tokens.read_all())
        self.background = Background()
        self.printed = PrintedLines(lambda jobid, is_over: self.bike.store.live.listen([jobid], is_over))
        self.memory = Memory(self.keys)
        self.view = Snapshot(lambda: read_view(self.bike.store, SHOWN, MAX_LAG, self.bike.settings))
        # Runs that ended in each minute of the last hour, by queue; runs that are not archived yet, by job.
        self.hours = Snapshot(lambda: self.bike.store.journal.count_hour(self.bike.store.timeline.read_clock()))
        self.newest = Snapshot(lambda: self.bike.store.journal.read_newest(), LATE)
        self.queue_limits = Snapshot(lambda: self.bike.store.queue_limits.list_all())
        self.failures = Snapshot(lambda: self.bike.store.past.read_failures(None, GROUPED), LATER)
        self._environment = make_environment()

    @property
    def bike(self) -> Redbike:
        """The `Redbike` of this site. Raise what `open_bike` raises, such as `Unreachable`."""
        return self._opened.get()

    @property
    def name(self) -> str:
        """The prefix of the keys, as in the settings. It is known even while Redis is away."""
        return self.settings.prefix

    def drop_seen(self) -> None:
        """Drop the cached data after a change, so that the user does not see the state before it."""
        for seen in (self.view, self.hours, self.queue_limits, self.failures):
            seen.drop()

    def read_clock(self) -> Clock:
        """Return a clock at Redis' present time, in the zone in which times are shown."""
        return self.make_clock(self.bike.store.timeline.read_clock())

    def make_clock(self, now: float | None = None) -> Clock:
        """Return a clock at `now` (epoch seconds), or at the time of this process, for pages while Redis is away."""
        return Clock(time.time() if now is None else now, self.settings.timezone)

    def answer(
        self,
        request: Request,
        template: str,
        clock: Clock,
        status: int = 200,
        read_at: float | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """Return a page from a template. `clock` has the time of the data; `read_at` is the same as monotonic time."""
        # Only relative links, because a proxy may serve the site below any path.
        browser, place = request.state.browser, name_place(request.scope)
        # A background request gets no notes, because the person would not see them. A 503 page reloads by itself, so
        # it keeps the notes, which the person may not have read yet.
        is_seen = "text/html" in request.headers.get("accept", "")
        context = {
            "site": self,
            "up": "../" * count_depth(request.scope),
            "here": None,
            "may": request.state.permit.may,
            "is_logged_in": bool(read_cookies(request.headers, self.keys.session_name)),
            "stream": f"events?page={quote(place, safe='')}",
            "clock": clock,
            "age": 0.0 if read_at is None else time.monotonic() - read_at,
            "instant": lambda moment: show_instant(moment, clock),
            "form": self.keys.make_form(browser),
            "once": lambda: self.memory.make_once(browser),
            "notes": lambda: self.memory.take_notes(browser, keep=status == 503) if is_seen else [],
            "back": place,
            "asked": request.query_params,
            "missing": list_missing(),
            **values,
        }
        return HTMLResponse(self._environment.get_template(template).render(context), status)
