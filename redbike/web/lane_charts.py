"""Draw the lanes of a timeline as SVG. Each lane is a strip that is as wide as its column of the page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from markupsafe import Markup

from redbike.queries.lanes.model import Kind, Lane, Lanes
from redbike.schedule.clock import Clock
from redbike.text.printable import name_number
from redbike.web.rendering import draw_svg, show_text

PARTS = 180  # parts of the time, in each of which the runs of a queue are counted
WIDTH, HEIGHT = 900, 20  # of a lane, in the units of its picture
THIN = 2.0  # the least width, or height, of a bar
# The height of a run of a job. A failed run is as high as its lane, so that nobody has to distinguish colours.
HEIGHTS = {Kind.FAILED: HEIGHT, Kind.RUNNING: 14, Kind.OK: 10, Kind.PLANNED: 5}


class DrawnLane(NamedTuple):
    """A lane with its picture, and the same in words. The lane of the marks has the name ""."""

    name: str
    picture: Markup
    words: str


def count_kinds(counts: Mapping[Kind, int]) -> str:
    """Return in words how many events there are of each kind."""
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in Kind if counts.get(kind)) or "nothing"


def draw_lanes(found: Lanes, clock: Clock) -> list[DrawnLane]:
    """Return the lanes with their pictures; all have the same scale."""
    most = max((sum(counts) for lane in found.lanes for _, *counts in _list_parts(lane)), default=1)
    drawn = []
    for lane in found.lanes:
        kept = [] if lane.kept_from is None else [f"not all runs before {clock.format_minute(lane.kept_from)} are kept"]
        texts = count_kinds(lane.counts), *kept, *dict.fromkeys(band.text for band in lane.bands)
        words = show_text("; ".join(texts))
        runs = _draw_events(found, lane) if found.question.by_job else _draw_parts(lane, most)
        picture = _draw_frame(found, "lane", words, [*_draw_bands(found, lane), *runs])
        drawn.append(DrawnLane(lane.name, picture, words))
    return drawn


def draw_marks(found: Lanes) -> DrawnLane:
    """Return a strip with a mark for each change, and for each process that was lost."""
    losses = sum(mark.is_loss for mark in found.marks)
    changes = name_number(len(found.marks) - losses, "change")
    words = f"{changes}, {losses:,} lost" if losses else changes
    paths = Markup("")
    for kind, is_loss, shape in (("change", False, "M{:.0f} 5h2v15h-2z"), ("loss", True, "M{:.0f} 0l5 20h-10z")):
        places = (_place(found, mark.time) for mark in found.marks if mark.is_loss is is_loss)
        if drawn := "".join(shape.format(place) for place in places):
            paths += Markup('<path class="{}" d="{}"/>').format(kind, drawn)
    return DrawnLane("", _draw_frame(found, "lane marks", words, [paths]), words)


def _draw_frame(found: Lanes, kind: str, words: str, paths: Iterable[Markup]) -> Markup:
    now = Markup("")
    if found.question.is_in(found.now, found.now):
        now = Markup('<line class="now" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>').format(
            _place(found, found.now), HEIGHT
        )
    return draw_svg(kind, WIDTH, HEIGHT, words, [*paths, now], preserveAspectRatio="none")


def _draw_bands(found: Lanes, lane: Lane) -> Iterator[Markup]:
    if lane.kept_from is not None:
        yield Markup('<line class="unkept" x1="0" x2="{0:.1f}" y1="{1}" y2="{1}"/>').format(
            _place(found, lane.kept_from), HEIGHT // 2
        )
    for band in lane.bands:
        left, right = _place(found, band.start), _place(found, band.end)
        yield Markup('<rect class="band" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(
            left, max(THIN, right - left), HEIGHT
        )


def _draw_events(found: Lanes, lane: Lane) -> Iterator[Markup]:
    """Yield the runs of a job: each from when it began until it ended."""
    paths: dict[Kind, dict[str, None]] = {}
    for event in lane.events:
        left, right, height = _place(found, event.start), _place(found, event.end), HEIGHTS[event.kind]
        # Runs that look the same are drawn once.
        bar = f"M{left:.0f} {HEIGHT - height}h{max(THIN, right - left):.0f}v{height}H{left:.0f}z"
        paths.setdefault(event.kind, {})[bar] = None
    for kind, bars in paths.items():
        yield Markup('<path class="{}" d="{}"/>').format(kind, "".join(bars))


def _list_parts(lane: Lane) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield for each part of the time its number, and how many runs failed, run, succeeded, and are planned in it."""
    counts = [lane.parts.get(kind, Counter[int]()) for kind in (Kind.FAILED, Kind.RUNNING, Kind.OK, Kind.PLANNED)]
    for part in sorted(set().union(*counts)):
        failed, running, good, planned = (count[part] for count in counts)
        yield part, failed, running, good, planned


def _draw_parts(lane: Lane, most: int) -> Iterator[Markup]:
    """Yield the runs of a queue as bars. Failed runs hang from the top; the others are stacked from the bottom."""
    size, paths = WIDTH // PARTS, dict[Kind, str]()

    def add(kind: Kind, part: int, number: int, top: float) -> float:
        height = max(THIN, HEIGHT * number / most) if number else 0.0
        if number:
            at = 0.0 if kind is Kind.FAILED else max(0.0, top - height)
            paths[kind] = paths.get(kind, "") + f"M{part * size} {at:.0f}h{size - 1}v{height:.0f}h{1 - size}z"
        return top - height

    for part, failed, running, good, planned in _list_parts(lane):
        add(Kind.FAILED, part, failed, 0.0)
        top = add(Kind.OK, part, good, float(HEIGHT))
        top = add(Kind.RUNNING, part, running, top)
        add(Kind.PLANNED, part, planned, top)
    for kind, bars in paths.items():
        yield Markup('<path class="{}" d="{}"/>').format(kind, bars)


def _place(found: Lanes, moment: float) -> float:
    since, until = found.question.since, found.question.until
    return WIDTH * min(max((moment - since) / (until - since), 0.0), 1.0)
