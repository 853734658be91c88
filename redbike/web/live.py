"""Live updates of the pages that are open in browsers. A view is rendered once for all its viewers.

While there are viewers, two threads run. One listens to the events that ``tail`` prints, and only notes that one came.
The other renders each distinct view at most once a second. Then it rests in proportion to its work, so that it uses a
small part of a core, however many views there are. Viewers get the fragments that have changed.

A fragment is an element with an ``id`` and the attribute ``data-live``. All viewers of a page share it. So content for
one browser, such as a form with its key, must be outside of the fragments.
"""

import json
import logging
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from redbike.errors import RedbikeError, Unreachable
from redbike.store.tokens import Role
from redbike.web.stream import Reader

log = logging.getLogger("redbike")

VIEWERS = 200  # the most viewers; each holds a connection
PACE = 1.0  # the least seconds between two renderings of a view
SELDOM = 2.0  # the least seconds without an event: some changes have none
REST = 24.0  # the rest lasts this many times the CPU time of rendering all views
LEISURE = 4.0  # and at least this many times the whole time of rendering, with the requests to the server
RETRY = 1.0  # seconds, on average, between two attempts to reach a server
CLOCK = "clock"  # the fragment with the time of the data; if only this changes, nothing is sent

Address = tuple[str, str, Role]  # the page, its query, and the role of the viewers
Render = Callable[[Address], str]
Listen = Callable[[Callable[[], bool], Callable[[], bool]], Iterable[object]]
# Data are escaped, so only the templates make tags. But data may contain the name of the attribute, so the pattern
# skips whole attributes.
BEGINNING = re.compile(r'<([a-z][a-z0-9]*)((?:\s+[^\s<>="]+(?:="[^"<>]*")?)*?\sdata-live(?:[\s=][^<>]*)?)>')
NAME = re.compile(r'\sid="([^"<>]+)"')
AGE = re.compile(r'data-age="([0-9.]+)"')
RELATIVE = re.compile(r"(<time [^<>]*data-at=[^<>]*>)[^<]*")


def find_fragments(page: str) -> dict[str, str]:
    """Return the fragments of a page by id, each with its own tag. A nested one is only a part of the outer one."""
    found, place = dict[str, str](), 0
    while begin := BEGINNING.search(page, place):
        place = _find_end(page, begin)
        name = NAME.search(begin[2])
        if name:
            found[name[1]] = page[begin.start() : place]
    return found


def _find_end(page: str, begin: re.Match[str]) -> int:
    """Return the position after the closing tag of an element."""
    depth = 1
    for tag in re.compile(rf"<(/?){begin[1]}(?=[\s>])[^<>]*>").finditer(page, begin.end()):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return len(page)


def strip_distances(fragment: str) -> str:
    """Return a fragment without the texts that change as time passes: the distances of its instants from now."""
    return RELATIVE.sub(r"\1", fragment)


@dataclass
class View:
    """The fragments of the page at an address, and when each has changed. The lock of `Live` guards it."""

    address: Address
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    version: int = 0  # 0 before it was rendered
    rendered: float = 0.0  # when (monotonic)
    parts: dict[str, tuple[int, str]] = field(default_factory=dict)  # by id: the version of the change, the fragment
    problem: str = ""  # why the view cannot be rendered now
    viewers: set["Viewer"] = field(default_factory=set)

    def take(self, page: str) -> bool:
        """Store the changed fragments of a new page. Return whether anything but the clock has changed."""
        is_news, self.problem, self.rendered = bool(self.problem) or not self.version, "", time.monotonic()
        found = find_fragments(page)
        changed = {name: part for name, part in found.items() if self._differs(name, part)}
        if not is_news and not changed.keys() - {CLOCK}:
            self.parts |= {name: (self.parts[name][0], part) for name, part in changed.items()}
            return False
        self.version += 1
        self.parts |= {name: (self.version, part) for name, part in changed.items()}
        return True

    def _differs(self, name: str, part: str) -> bool:
        return name not in self.parts or strip_distances(self.parts[name][1]) != strip_distances(part)

    def write(self, since: int) -> bytes:
        """Return an event for the stream: the fragments that are newer than version `since`, or the problem."""
        if self.problem:
            return write_event("trouble", self.problem)
        parts = {name: part for name, (version, part) in self.parts.items() if version > since}
        return write_event("parts", parts | self.write_clock(), f"{self.name}-{self.version}")

    def write_clock(self) -> dict[str, str]:
        """Return the fragment of the clock with its age in seconds; {} if the page has none, or a problem."""
        if CLOCK not in self.parts or self.problem:
            return {}
        since = time.monotonic() - self.rendered
        return {CLOCK: AGE.sub(lambda age: f'data-age="{float(age[1]) + since:.1f}"', self.parts[CLOCK][1], count=1)}


class Viewer(Reader):
    """A browser that follows a view. `last` is the id of the last event that it has received."""

    def __init__(self, view: View, last: str) -> None:
        super().__init__()
        self.view = view
        name, _, version = last.partition("-")
        is_known = name == view.name and version.isascii() and version.isdecimal() and len(version) < 16
        self.sent = int(version) if is_known else 0
        self.problem = ""


class Live:
    """All viewers and their views.

    `render` returns the page at an address. `listen` yields events, see `redbike.store.log.Events.listen`. `name_time`
    returns the time of this process in words.
    """

    def __init__(self, render: Render, listen: Listen, name_time: Callable[[], str]) -> None:
        self.listen = listen
        self._render, self._name_time = render, name_time
        self._lock = threading.Lock()
        self._views: dict[Address, View] = {}
        self._watch: _Watch | None = None
        self._is_stopped = False

    def join(self, address: Address, last: str) -> Viewer | None:
        """Return a new viewer, who has received the event with the id `last`; None if there are too many."""
        with self._lock:
            if self._is_stopped or sum(len(view.viewers) for view in self._views.values()) >= VIEWERS:
                return None
            view = self._views.setdefault(address, View(address))
            viewer = Viewer(view, last)
            view.viewers.add(viewer)
            if self._watch is None:
                self._watch = _Watch(self)
            self._watch.wake()
            return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer, and the view if it was the last viewer."""
        with self._lock:
            viewer.view.viewers.discard(viewer)
            if not viewer.view.viewers and self._views.get(viewer.view.address) is viewer.view:
                del self._views[viewer.view.address]
            if not self._views and self._watch:
                self._watch.end()
                self._watch = None

    def stop(self) -> None:
        """End all streams at once, and let no further stream begin."""
        with self._lock:
            self._is_stopped = True
            viewers = [viewer for view in self._views.values() for viewer in view.viewers]
        for viewer in viewers:
            viewer.wake(is_over=True)

    def take_message(self, viewer: Viewer) -> bytes:
        """Return an event with what is new for a viewer; b"" if nothing is."""
        view = viewer.view
        with self._lock:
            if view.problem == viewer.problem and (view.problem or viewer.sent == view.version):
                return b""
            message = view.write(viewer.sent)
            viewer.sent, viewer.problem = viewer.sent if view.problem else view.version, view.problem
            return message

    def write_beat(self, viewer: Viewer) -> bytes:
        """Return an event that shows that the stream is alive, with the clock."""
        with self._lock:
            return b": alive\n" + write_event("beat", viewer.view.write_clock())

    def list_views(self, only_new: bool) -> list[View]:
        """Return the views; with `only_new`, only those that were never rendered."""
        with self._lock:
            return [view for view in self._views.values() if not (only_new and (view.version or view.problem))]

    def refresh(self, views: Iterable[View], away_since: str) -> str:
        """Render `views`. Return since when the server does not answer, as a text; "" if it does."""
        for view in views:
            try:
                page = self._render(view.address)
            except Unreachable:
                away_since = away_since or self._name_time()
                for each in self.list_views(only_new=False):
                    self._notify(each, f"Redis does not answer since {away_since}.")
                return away_since
            except RedbikeError as error:
                self._notify(view, str(error))
            except Exception:
                log.exception("the page %s cannot be rendered", view.address[0])
                self._notify(view, "This page cannot be updated: the log of its server says why.")
            else:
                self._take(view, page)
            away_since = ""
        return away_since

    def _take(self, view: View, page: str) -> None:
        with self._lock:
            viewers = list(view.viewers) if view.take(page) else []
        for viewer in viewers:
            viewer.wake()

    def _notify(self, view: View, problem: str) -> None:
        with self._lock:
            view.problem, viewers = problem, list(view.viewers)
        for viewer in viewers:
            viewer.wake()


class _Watch:
    """The two threads. They end soon after `end`. A later `_Watch` has its own threads."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._is_over = threading.Event()
        self._has_news = threading.Event()
        self._wake = threading.Event()
        for work in (self._listen, self._refresh):
            threading.Thread(target=work, name=f"redbike-web-live{work.__name__}", daemon=True).start()

    def wake(self) -> None:
        """Let the second thread render new views soon."""
        self._wake.set()

    def end(self) -> None:
        """Let the threads end."""
        self._is_over.set()
        self._wake.set()

    def _listen(self) -> None:
        # After an event, further events are not read until the views are rendered.
        while not self._is_over.is_set():
            try:
                for _ in self._live.listen(lambda: not self._has_news.is_set(), self._is_over.is_set):
                    if not self._has_news.is_set():
                        self._has_news.set()
                        self._wake.set()
            except RedbikeError:
                pass  # rendering reports it
            except Exception:
                log.exception("live updates: no event can be received")
            self._is_over.wait(RETRY * random.uniform(0.5, 1.5))

    def _refresh(self) -> None:
        away_since, earliest, latest = "", 0.0, 0.0
        while not self._is_over.is_set():
            self._wake.clear()
            began, worked = time.monotonic(), time.thread_time()
            is_round = began >= (earliest if self._has_news.is_set() else latest)
            if is_round:
                self._has_news.clear()
            away_since = self._live.refresh(self._live.list_views(only_new=not is_round), away_since)
            if is_round:
                ended = time.monotonic()
                # If it took long only because the server is away, do not rest in proportion.
                spent = max((time.thread_time() - worked) * REST, (ended - began) * LEISURE)
                rest = RETRY * random.uniform(0.5, 1.5) if away_since else spent
                earliest, latest = ended + max(PACE, rest), ended + max(SELDOM, rest)
            target = earliest if self._has_news.is_set() else latest
            self._wake.wait(max(0.0, target - time.monotonic()))


def write_event(kind: str, value: object, name: str = "") -> bytes:
    """Return an event in the format of the stream. Its JSON has no line breaks."""
    head = f"id: {name}\n" if name else ""
    return f"{head}event: {kind}\ndata: {json.dumps(value)}\n\n".encode()
