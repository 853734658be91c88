"""The timeline: past runs on the left of now, and next runs on the right, in lanes by queue or by job."""

import math
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig
from redbike.queries.lanes.finder import find_lanes
from redbike.queries.lanes.model import Kind, Lanes, Question
from redbike.schedule.clock import Clock
from redbike.store.sharded.missing import note_missing
from redbike.text.parsing import measure_duration
from redbike.web.background import Report
from redbike.web.lane_charts import PARTS, count_kinds, draw_lanes, draw_marks
from redbike.web.pages.forecast import AGAIN, EVERY, LATER
from redbike.web.pages.parameters import (
    compile_pattern,
    list_queues,
    make_link,
    read_choice,
    read_nearest,
    read_pattern,
    read_queue,
    read_text,
)
from redbike.web.rendering import format_utc
from redbike.web.site import Site

# The spans of time by name: their length, and the length of their parts, in seconds.
SPANS = {
    "5m": (300, 60), "10m": (600, 120), "15m": (900, 180), "30m": (1800, 300), "1h": (3600, 600), "3h": (10800, 1800),
    "6h": (21600, 3600), "8h": (28800, 3600), "24h": (86400, 10800), "48h": (172800, 21600),
}  # fmt: skip
DEFAULTS = {"span": "8h", "lanes": "queue"}
FURTHEST = 366  # days into the future that may be shown: next runs are counted from now on


class Slot(NamedTuple):
    """A part of the time: its beginning as a label, its span in words, and a link to it; "" if no span is narrower."""

    label: str
    words: str
    href: str


class Move(NamedTuple):
    """A link to another time: its name, its relation (``prev``, ``next`` or ""), and its address."""

    name: str
    relation: str
    href: str


class Asked(NamedTuple):
    """The parameters of a request."""

    at: float | None  # epoch seconds; None for now
    said: str  # the same as an exact text
    span: str
    lanes: str
    queue: str
    pattern: str
    every: str
    typed: str  # the pattern as it was typed

    def link(self, **changes: object) -> str:
        """Return a link with these parameters, updated by `changes`."""
        given: dict[str, object] = {"at": self.said, "span": self.span, "lanes": self.lanes, "queue": self.queue}
        given |= {"pattern": self.typed, "every": self.every} | changes
        return make_link("timeline", {name: value for name, value in given.items() if value != DEFAULTS.get(name)})

    def look(self, site: Site, report: Report) -> Lanes:
        """Return the lanes. `report` is called with the progress."""
        now, zone = site.bike.store.timeline.read_clock(), site.settings.timezone
        since, until = _align(now if self.at is None else self.at, self.span, zone)
        seconds = measure_duration(self.every) or 0.0
        question = Question(since, until, self.lanes == "job", self.queue, compile_pattern(self.pattern), seconds)
        return find_lanes(site.bike.store, question, now, site.bike.settings, PARTS, report)


def show_timeline(site: Site, request: Request) -> Response:
    """Show the lanes of a time as they were last read, or the progress. They are read in the background."""
    clock = site.read_clock()
    at, said = read_nearest(request, "at", clock)
    if at is not None and at > clock.now + FURTHEST * 86400:
        raise BadConfig(f"bad at {said!r:.40}: at most {FURTHEST} days to come are shown")
    asked = Asked(
        at,
        said,
        read_choice(request, "span", DEFAULTS["span"], *SPANS),
        read_choice(request, "lanes", DEFAULTS["lanes"], "job"),
        read_queue(site, request),
        read_pattern(request),
        read_choice(request, "every", *EVERY),
        read_text(request, "pattern"),
    )
    task = site.background.get(("timeline", asked._replace(at=None)), lambda report: asked.look(site, report))
    note_missing(task.missing)
    found: Lanes | None = task.result
    return site.answer(
        request,
        "timeline.html",
        clock,
        here="timeline",
        task=task,
        again=AGAIN if found is None else LATER,
        found=found,
        lanes=draw_lanes(found, clock) if found else [],
        marks=draw_marks(found) if found else None,
        counted=count_kinds(found.counts) if found else "",
        slots=list(_list_slots(found.question, asked, clock)) if found else [],
        moves=_list_moves(found.question, asked) if found else [],
        asked_for=asked,
        spans=list(SPANS),
        choices=EVERY,
        kind=Kind,
        queues=list_queues(site, asked.queue),
        link=asked.link,
    )


def _align(at: float, span: str, zone: str) -> tuple[float, float]:
    """Return the beginning and the end (epoch seconds) of a span around `at`. It begins at a round local time."""
    width, step = SPANS[span]
    offset = datetime.fromtimestamp(max(0.0, at - width / 2), ZoneInfo(zone)).utcoffset()
    seconds = offset.total_seconds() if offset else 0.0
    since = max(0.0, math.floor((at - width / 2 + step / 2 + seconds) / step) * step - seconds)
    return since, since + width


def _list_slots(question: Question, asked: Asked, clock: Clock) -> Iterator[Slot]:
    width, step = SPANS[asked.span]
    narrower = next(name for name, (seconds, _) in SPANS.items() if seconds >= step)
    for number in range(width // step):
        start = question.since + number * step
        time = clock.format(start)
        label = time[5:10] if time[11:16] == "00:00" else time[11:16]
        href = asked.link(at=format_utc(start + step / 2), span=narrower) if narrower != asked.span else ""
        yield Slot(label, f"{clock.name(start)} to {clock.name(start + step)}", href)


def _list_moves(question: Question, asked: Asked) -> list[Move]:
    middle, half = (question.since + question.until) / 2, (question.until - question.since) / 2
    names = list(SPANS)
    place = names.index(asked.span)
    wider, narrower = names[place + 1 :][:1], names[:place][-1:]
    return [
        Move("Earlier", "prev", asked.link(at=format_utc(max(0.0, middle - half)))),
        *(Move("Wider", "", asked.link(at=format_utc(middle), span=each)) for each in wider),
        *(Move("Narrower", "", asked.link(at=format_utc(middle), span=each)) for each in narrower),
        Move("Now", "", asked.link(at="")),
        Move("Later", "next", asked.link(at=format_utc(middle + half))),
    ]
