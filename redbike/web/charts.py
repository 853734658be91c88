"""Draw charts, and strips of time with a lane for each kind of event, as SVG.

The pictures need no script. The style sheet sets their colours.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from markupsafe import Markup

from redbike.queries.counting import MINUTE
from redbike.queries.heat_map import LEVELS, Strip
from redbike.queries.incident import Incident, Lane
from redbike.queries.rehearsal.outlook import Rehearsal, Side
from redbike.queries.unusual import Durations
from redbike.store.history import PastRun
from redbike.text.printable import name_number
from redbike.web.rendering import draw_svg, show_number, show_took

HEIGHT = 24  # of a small chart, in the units of its picture
RUN, TALL, MARK = 8, 48, 8  # the width of a run, the height of the longest run, and the height of the mark above it
AXIS, BELOW = 64, 10  # the width of the labels of the vertical axis, and the height of those of the horizontal axis
LEAST = 2.0  # the height of a run that took no time
MOST_RUNS = 100  # in a chart
MOST_OUTCOMES, CELL, CELL_HEIGHT, LOW = 20, 4, 16, 8  # runs in a strip, the size of one, and the height of a good one
LEFT, WIDTH, LANE = 90, 900, 34  # of the names, of the time, which a small chart shares, and the height of a lane
PARTS = 180  # parts of the time; what is in the same part is drawn as one
TICKS = 4

Span = tuple[float, float]  # when the time begins, and its length in seconds


def draw_hour(minutes: Sequence[int]) -> Markup:
    """Return a chart of the runs that ended in each minute of the last hour. Its label says the same in words."""
    most, total, width = max(minutes, default=0), sum(minutes), WIDTH / max(1, len(minutes))
    bars = "".join(
        f"M{place * width:.0f} {HEIGHT}v{-HEIGHT * number / most:.1f}h{width * 0.8:.0f}V{HEIGHT}z"
        for place, number in enumerate(minutes)
        if number
    )
    label = f"{name_number(total, 'run')} in the last hour, at most {show_number(most)} a minute"
    picture = Markup('<path d="{}"/>').format(bars)
    return draw_svg("hour", WIDTH, HEIGHT, label, [picture], preserveAspectRatio="none")


def draw_outcomes(runs: Sequence[PastRun]) -> Markup:
    """Return a strip with a bar for each of the last runs of a job, the newest on the right. A failed run is tall."""
    shown = runs[:MOST_OUTCOMES][::-1]
    paths = Markup("")
    for kind, height, failed in (("good", LOW, False), ("bad", CELL_HEIGHT, True)):
        cells = "".join(
            f"M{place * CELL} {CELL_HEIGHT - height}h{CELL - 1}v{height}h{1 - CELL}z"
            for place, run in enumerate(shown)
            if run.has_failed is failed
        )
        if cells:
            paths += Markup('<path class="{}" d="{}"/>').format(kind, cells)
    counts = Counter(run.outcome.value for run in shown).most_common()
    label = f"The last {name_number(len(shown), 'run')}: {', '.join(f'{number} {name}' for name, number in counts)}"
    return draw_svg("outcomes", MOST_OUTCOMES * CELL, CELL_HEIGHT, label, [paths])


def draw_runs(runs: Sequence[PastRun], durations: Durations) -> Markup:
    """Return a chart of the last runs of a job, the newest on the right: how long each took, and how it ended."""
    shown = list(enumerate(runs[:MOST_RUNS]))[::-1]
    counts = Counter(run.outcome.value for _, run in shown)
    label = (
        f"The last {name_number(len(shown), 'run')}, the newest on the right: "
        f"{', '.join(f'{number} {outcome}' for outcome, number in counts.most_common())}; "
        f"the longest took {show_took(durations.longest)}"
    )
    bars = Markup("").join(_draw_run(place, number, run, durations) for place, (number, run) in enumerate(shown))
    width, base = AXIS + max(len(shown), 20) * RUN, TALL + MARK
    axes = Markup(
        '<line x1="{0}" x2="{1}" y1="{2}" y2="{2}"/><text x="0" y="{3}">{4}</text><text x="0" y="{2}">0</text>'
        '<text x="{0}" y="{5}">the newest on the right</text>'
    ).format(AXIS, width, base, MARK + 8, show_took(durations.longest), base + BELOW - 1)
    return draw_svg("past", width, base + BELOW, label, [axes, bars], preserveAspectRatio="xMinYMax")


def _draw_run(place: int, number: int, run: PastRun, durations: Durations) -> Markup:
    height = max(LEAST, TALL * run.took / durations.longest) if durations.longest else LEAST
    left, top = AXIS + place * RUN, TALL + MARK - height
    middle = left + RUN / 2
    bar = Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        "bad" if run.has_failed else "good", left + 1, top, RUN - 2, height
    )
    if run.has_failed:
        # A cross, so that nobody has to distinguish colours.
        bar += Markup('<path class="bad" d="M{:.1f} {:.1f}l4 4m0 -4l-4 4"/>').format(middle - 2, top - 6)
    elif number in durations.unusual:
        bar += Markup('<path class="unusual" d="M{:.1f} {:.1f}l3 5h-6z"/>').format(middle, top - 6)
    return bar


def draw_strip(strip: Strip, label: str) -> Markup:
    """Return a row of cells. A cell is hotter the more runs it has. `label` says what the strip shows."""
    paths = Markup("")
    for level in range(1, LEVELS + 1):
        cells = "".join(f"M{place} 0h1v1h-1z" for place, own in enumerate(strip.levels) if own == level)
        if cells:
            paths += Markup('<path class="heat{}" d="{}"/>').format(level, cells)
    return draw_svg("strip", len(strip.levels), 1, label, [paths], preserveAspectRatio="none")


def draw_incident(incident: Incident, label: str, name: Callable[[float], str]) -> Markup:
    """Return a strip with a lane for each kind of event. `name` formats an instant; `label` says what it shows."""
    span = incident.since, max(incident.until - incident.since, 1.0)
    height = LANE * len(Lane)
    parts = [_draw_lane(incident, lane, LANE * (number + 1), span) for number, lane in enumerate(Lane)]
    if incident.first:
        x = _place(incident.first.time, span)
        parts.append(Markup('<line class="first" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>').format(x, height))
        parts.append(_draw_text("first", x, height + 32, "first unusual"))
    return draw_svg("moments", LEFT + WIDTH + 10, height + 38, label, [*parts, *_draw_ticks(span, height, name)])


def _draw_lane(incident: Incident, lane: Lane, bottom: int, span: Span) -> Markup:
    found = Counter(_find_part(moment.time, span) for moment in incident.moments if moment.lane is lane)
    most = max(found.values(), default=1)
    # A bar is never lower than a third of the lane, so that rare events are visible.
    sizes = {part: (LANE - 6) * max(1 / 3, amount / most) for part, amount in found.items()}
    text = Markup('<text x="0" y="{}">{}</text>').format(bottom - 8, lane.value)
    return _draw_base(bottom) + text + _draw_bars(lane.value, sizes, bottom)


def draw_load(rehearsal: Rehearsal, side: Side, most: int, label: str, name: Callable[[float], str]) -> Markup:
    """Return a strip of the runs of one side of a rehearsal. `most` runs in a minute have the full height."""
    span, height = (rehearsal.start, rehearsal.end - rehearsal.start), 2 * LANE
    densest = Counter[int]()
    for number, runs in enumerate(side.minutes):
        part = _find_part(side.base + number * MINUTE, span)
        densest[part] = max(densest[part], runs)
    sizes = {part: max(2.0, (height - 4) * runs / most) for part, runs in densest.items() if runs}
    top = Markup('<text x="0" y="12">{} a minute</text>').format(f"{most:,}")
    parts = [top, _draw_base(height), _draw_bars("runs", sizes, height), *_draw_ticks(span, height, name)]
    return draw_svg("moments", LEFT + WIDTH + 10, height + 22, label, parts)


def _draw_base(bottom: int) -> Markup:
    return Markup('<line class="base" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, LEFT + WIDTH, bottom, bottom)


def _draw_bars(kind: str, sizes: Mapping[int, float], bottom: int) -> Markup:
    """Return a bar for each part of the time. `sizes` are the heights of the bars by part."""
    width = WIDTH / PARTS
    return Markup("").join(
        Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            kind, LEFT + part * width, bottom - size, width * 0.8, size
        )
        for part, size in sorted(sizes.items())
    )


def _draw_ticks(span: Span, height: int, name: Callable[[float], str]) -> Iterator[Markup]:
    start, length = span
    for moment in (start + length * number / TICKS for number in range(TICKS + 1)):
        yield _draw_text("tick", _place(moment, span), height + 16, name(moment))


def _draw_text(kind: str, x: float, y: int, text: str) -> Markup:
    anchor = "end" if x > LEFT + WIDTH * 0.9 else "start" if x < LEFT + WIDTH * 0.1 else "middle"
    return Markup('<text class="{}" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, text)


def _find_part(moment: float, span: Span) -> int:
    start, length = span
    return min(PARTS - 1, max(0, int((moment - start) / length * PARTS)))


def _place(moment: float, span: Span) -> float:
    start, length = span
    return LEFT + WIDTH * min(max((moment - start) / length, 0.0), 1.0)
