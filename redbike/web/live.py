"""Live updates: what changes on the pages that somebody looks at, rendered once for all who look at the same.

While there are viewers, two threads run. One listens to the events that ``tail`` prints, and only remembers that there
was one. The other renders each distinct view at most once a second, and rests after that for so long that all of it
takes a small part of a core, however many views there are. Viewers are sent the fragments that have changed.

A fragment is an element with an ``id`` and the attribute ``data-live``. All who look at a page share it. So what
belongs to one browser, such as a form with its token, stands beside the fragments.
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

VIEWERS = 200  # at most; each holds a connection
PACE = 1.0  # seconds between two renderings of a view, at least
SELDOM = 2.0  # seconds between two if nothing was heard: not all that changes is an event
REST = 24.0  # times as long as this process worked to render all views, it rests
LEISURE = 4.0  # times as long as the server was asked, too
RETRY = 1.0  # seconds, about, after which a server that is away is asked again
CLOCK = "clock"  # the fragment that says when it was so; it alone is no news

Address = tuple[str, str, Role]  # the page, its query, and what those who look may do
Render = Callable[[Address], str]
Listen = Callable[[Callable[[], bool], Callable[[], bool]], Iterable[object]]
# What comes from elsewhere is escaped, so these characters make tags only where a template has them. It may have the
# name of the attribute in it, so whole attributes are passed over.
BEGINNING = re.compile(r'<([a-z][a-z0-9]*)((?:\s+[^\s<>="]+(?:="[^"<>]*")?)*?\sdata-live(?:[\s=][^<>]*)?)>')
NAME = re.compile(r'\sid="([^"<>]+)"')
AGE = re.compile(r'data-age="([0-9.]+)"')
RELATIVE = re.compile(r"(<time [^<>]*data-at=[^<>]*>)[^<]*")


def find_fragments(page: str) -> dict[str, str]:
    """Return the fragments of a page by id, each with its own tag. One inside of another is a part of that."""
    found, place = dict[str, str](), 0
    while begin := BEGINNING.search(page, place):
        place = _find_end(page, begin)
        name = NAME.search(begin[2])
        if name:
            found[name[1]] = page[begin.start() : place]
    return found


def _find_end(page: str, begin: re.Match[str]) -> int:
    """Return where an element ends: where as many tags of its kind are closed as are opened."""
    depth = 1
    for tag in re.compile(rf"<(/?){begin[1]}(?=[\s>])[^<>]*>").finditer(page, begin.end()):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return len(page)


def strip_distances(fragment: str) -> str:
    """Return a fragment without what changes by itself as time goes on: how far away its instants are."""
    return RELATIVE.sub(r"\1", fragment)


@dataclass
class View:
    """What is shown at an address: its fragments, and when each has changed. The lock of `Live` guards it."""

    address: Address
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    version: int = 0  # 0 before it was rendered
    rendered: float = 0.0  # when (monotonic)
    parts: dict[str, tuple[int, str]] = field(default_factory=dict)  # the version that brought it, the fragment
    problem: str = ""  # why it is not rendered now
    viewers: set["Viewer"] = field(default_factory=set)

    def take(self, page: str) -> bool:
        """Take over what has changed of a page; tell whether anything has."""
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
        """Return an event with the fragments that are newer than version `since`, as the stream has it."""
        if self.problem:
            return write_event("trouble", self.problem)
        parts = {name: part for name, (version, part) in self.parts.items() if version > since}
        return write_event("parts", parts | self.write_clock(), f"{self.name}-{self.version}")

    def write_clock(self) -> dict[str, str]:
        """Return the clock, if there is one, which says how many seconds ago it was right."""
        if CLOCK not in self.parts or self.problem:
            return {}
        since = time.monotonic() - self.rendered
        return {CLOCK: AGE.sub(lambda age: f'data-age="{float(age[1]) + since:.1f}"', self.parts[CLOCK][1], count=1)}


class Viewer(Reader):
    """One who looks."""

    def __init__(self, view: View, last: str) -> None:
        super().__init__()
        self.view = view
        name, _, version = last.partition("-")
        is_known = name == view.name and version.isascii() and version.isdecimal() and len(version) < 16
        self.sent = int(version) if is_known else 0
        self.problem = ""


class Live:
    """All who look, and what they look at.

    `render` returns the page at an address, `listen` yields events, see `redbike.store.log.Events.listen`, and
    `name_time` is the time of this process in words.
    """

    def __init__(self, render: Render, listen: Listen, name_time: Callable[[], str]) -> None:
        self.listen = listen
        self._render, self._name_time = render, name_time
        self._lock = threading.Lock()
        self._views: dict[Address, View] = {}
        self._watch: _Watch | None = None
        self._is_stopped = False

    def join(self, address: Address, last: str) -> Viewer | None:
        """Return one more viewer, who has seen what the id `last` stands for; None if there are too many."""
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
        """Forget a viewer, and the view if nobody else looks at it."""
        with self._lock:
            viewer.view.viewers.discard(viewer)
            if not viewer.view.viewers and self._views.get(viewer.view.address) is viewer.view:
                del self._views[viewer.view.address]
            if not self._views and self._watch:
                self._watch.end()
                self._watch = None

    def stop(self) -> None:
        """End all streams at once; none begins any more."""
        with self._lock:
            self._is_stopped = True
            viewers = [viewer for view in self._views.values() for viewer in view.viewers]
        for viewer in viewers:
            viewer.wake(is_over=True)

    def take_message(self, viewer: Viewer) -> bytes:
        """Return what a viewer has not seen yet; nothing if it has seen all."""
        view = viewer.view
        with self._lock:
            if view.problem == viewer.problem and (view.problem or viewer.sent == view.version):
                return b""
            message = view.write(viewer.sent)
            viewer.sent, viewer.problem = viewer.sent if view.problem else view.version, view.problem
            return message

    def write_beat(self, viewer: Viewer) -> bytes:
        """Return what says that the stream is alive, and when what is shown was so."""
        with self._lock:
            return b": alive\n" + write_event("beat", viewer.view.write_clock())

    def list_views(self, only_new: bool) -> list[View]:
        """Return what somebody looks at; `only_new` what was never rendered."""
        with self._lock:
            return [view for view in self._views.values() if not (only_new and (view.version or view.problem))]

    def refresh(self, views: Iterable[View], away_since: str) -> str:
        """Render `views`. Return since when the server is away, "" if it is there."""
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
    """The two threads. They end soon after `end`; those of the next watch are others."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._is_over = threading.Event()
        self._has_news = threading.Event()
        self._wake = threading.Event()
        for work in (self._listen, self._refresh):
            threading.Thread(target=work, name=f"redbike-web-live{work.__name__}", daemon=True).start()

    def wake(self) -> None:
        """Let it render what is new."""
        self._wake.set()

    def end(self) -> None:
        """Let the threads end."""
        self._is_over.set()
        self._wake.set()

    def _listen(self) -> None:
        # Nobody needs to read further events before the one that was heard is shown.
        while not self._is_over.is_set():
            try:
                for _ in self._live.listen(lambda: not self._has_news.is_set(), self._is_over.is_set):
                    if not self._has_news.is_set():
                        self._has_news.set()
                        self._wake.set()
            except RedbikeError:
                pass  # what is rendered says so
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
                # What takes long only because the server is away costs nothing.
                spent = max((time.thread_time() - worked) * REST, (ended - began) * LEISURE)
                rest = RETRY * random.uniform(0.5, 1.5) if away_since else spent
                earliest, latest = ended + max(PACE, rest), ended + max(SELDOM, rest)
            target = earliest if self._has_news.is_set() else latest
            self._wake.wait(max(0.0, target - time.monotonic()))


def write_event(kind: str, value: object, name: str = "") -> bytes:
    """Return an event as the stream has it. JSON has no line break in it."""
    head = f"id: {name}\n" if name else ""
    return f"{head}event: {kind}\ndata: {json.dumps(value)}\n\n".encode()
