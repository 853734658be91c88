"""Charts, and strips of time with a lane for each kind of event, drawn by the server as SVG.

They need no script, and a style sheet colours them.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from markupsafe import Markup

from redbike.queries.counting import MINUTE
from redbike.queries.heat import LEVELS, Strip
from redbike.queries.incident import Incident, Lane
from redbike.queries.rehearsal.outlook import Rehearsal, Side
from redbike.queries.unusual import Durations
from redbike.store.history import PastRun
from redbike.text.printable import name_number
from redbike.web.rendering import show_number, show_took
from redbike.web.samples import HOUR, Point

WIDTH, HEIGHT = 120, 24  # of a small chart, in the units of its picture
RUN, TALL, MARK = 8, 48, 8  # the width of a run, the height of the longest one, and of the mark above one
LEAST = 2.0  # height of a run that took no time
MOST_RUNS = 100  # in a chart
LEFT, WIDTH, LANE = 90, 900, 34  # of the names, of the time, and of the height of a lane, in units of the picture
PARTS = 180  # of the time, in which things are drawn together
TICKS = 4


def draw_hour(points: Sequence[Point], now: float) -> Markup:
    """Return a chart of the runs that ended in each minute of the last hour, and its meaning in words."""
    known = [point for point in points if point.end > now - HOUR]
    if not known:
        return Markup('<span class="empty">{}</span>').format("not known yet")
    most, total = max(point.rate for point in known), sum(point.ended for point in known)
    minutes = round((known[-1].end - known[0].start) / 60)
    length = name_number(minutes, "minute") if minutes else "less than a minute"
    label = f"{name_number(total, 'run')} in {length}, at most {show_number(most)} a minute"
    bars = Markup("").join(_draw_bar(point, now, most) for point in known)
    return Markup('<svg class="hour" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, label, bars
    )


def _draw_bar(point: Point, now: float, most: float) -> Markup:
    start = WIDTH * (1 - min(HOUR, now - point.start) / HOUR)
    end = WIDTH * (1 - max(0.0, now - point.end) / HOUR)
    height = HEIGHT * point.rate / most if most else 0.0
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        start, HEIGHT - height, max(0.5, (end - start) * 0.8), height
    )


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
    return Markup(
        '<svg class="past" viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="xMinYMax">{}</svg>'
    ).format(max(len(shown), 20) * RUN, TALL + MARK, label, bars)


def _draw_run(place: int, number: int, run: PastRun, durations: Durations) -> Markup:
    height = max(LEAST, TALL * run.took / durations.longest) if durations.longest else LEAST
    top, middle = TALL + MARK - height, place * RUN + RUN / 2
    bar = Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        "bad" if run.has_failed else "good", place * RUN + 1, top, RUN - 2, height
    )
    if run.has_failed:
        # A cross: nobody has to tell colours apart.
        bar += Markup('<path class="bad" d="M{:.1f} {:.1f}l4 4m0 -4l-4 4"/>').format(middle - 2, top - 6)
    elif number in durations.unusual:
        bar += Markup('<path class="unusual" d="M{:.1f} {:.1f}l3 5h-6z"/>').format(middle, top - 6)
    return bar


def draw_strip(strip: Strip, label: str) -> Markup:
    """Return a row of cells, the hotter the more runs they have."""
    paths = Markup("")
    for level in range(1, LEVELS + 1):
        cells = "".join(f"M{place} 0h1v1h-1z" for place, own in enumerate(strip.levels) if own == level)
        if cells:
            paths += Markup('<path class="heat{}" d="{}"/>').format(level, cells)
    return Markup(
        '<svg class="strip" viewBox="0 0 {} 1" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(len(strip.levels), label, paths)


def draw_incident(incident: Incident, label: str, name: Callable[[float], str]) -> Markup:
    """Return a strip with a lane for each kind of thing; `name` writes an instant, `label` says what it shows."""
    length = max(incident.until - incident.since, 1.0)

    def place(moment: float) -> float:
        return LEFT + WIDTH * min(max((moment - incident.since) / length, 0.0), 1.0)

    height = LANE * len(Lane)
    parts = [_draw_lane(incident, lane, number, length) for number, lane in enumerate(Lane)]
    if incident.first:
        x = place(incident.first.time)
        parts.append(Markup('<line class="first" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>').format(x, height))
        parts.append(
            Markup('<text class="first" x="{:.1f}" y="{}" text-anchor="{}">first unusual</text>').format(
                x, height + 32, _anchor(x)
            )
        )
    parts += [_draw_tick(incident.since + length * number / TICKS, place, height, name) for number in range(TICKS + 1)]
    return Markup('<svg class="moments" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        LEFT + WIDTH + 10, height + 38, label, Markup("").join(parts)
    )


def _draw_lane(incident: Incident, lane: Lane, number: int, length: float) -> Markup:
    found = Counter(
        min(PARTS - 1, max(0, int((moment.time - incident.since) / length * PARTS)))
        for moment in incident.moments
        if moment.lane is lane
    )
    most, bottom, width = max(found.values(), default=1), LANE * (number + 1), WIDTH / PARTS
    # What is rare must be seen: a bar is never lower than a third.
    bars = Markup("").join(
        Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            lane.value, LEFT + part * width, bottom - size, width * 0.8, size
        )
        for part, amount in sorted(found.items())
        if (size := (LANE - 6) * max(1 / 3, amount / most))
    )
    line = Markup('<line class="base" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, LEFT + WIDTH, bottom, bottom)
    text = Markup('<text x="0" y="{}">{}</text>').format(bottom - 8, lane.value)
    return Markup("").join((line, text, bars))


def _draw_tick(moment: float, place: Callable[[float], float], height: float, name: Callable[[float], str]) -> Markup:
    x = place(moment)
    return Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
        x, height + 16, _anchor(x), name(moment)
    )


def _anchor(x: float) -> str:
    return "end" if x > LEFT + WIDTH * 0.9 else "start" if x < LEFT + WIDTH * 0.1 else "middle"


def draw_load(rehearsal: Rehearsal, side: Side, most: int, label: str, name: Callable[[float], str]) -> Markup:
    """Return a strip of the runs of one side of a rehearsal; `most` runs in a minute are as high as it is."""
    first, last = rehearsal.start, rehearsal.end
    width, height = WIDTH / PARTS, 2 * LANE
    densest = Counter[int]()
    for number, runs in enumerate(side.minutes):
        moment = side.counting.base + number * MINUTE
        part = min(PARTS - 1, max(0, int((moment - first) / (last - first) * PARTS)))
        densest[part] = max(densest[part], runs)
    bars = Markup("").join(
        Markup('<rect class="runs" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            LEFT + part * width, height - size, width * 0.8, size
        )
        for part, runs in sorted(densest.items())
        if runs and (size := max(2.0, (height - 4) * runs / most))
    )
    ticks = [
        _draw_tick(
            first + (last - first) * number / TICKS,
            lambda moment: LEFT + WIDTH * (moment - first) / (last - first),
            height,
            name,
        )
        for number in range(TICKS + 1)
    ]
    top = Markup('<text x="0" y="12">{} a minute</text>').format(f"{most:,}")
    line = Markup('<line class="base" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, LEFT + WIDTH, height, height)
    return Markup('<svg class="moments" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        LEFT + WIDTH + 10, height + 22, label, Markup("").join([top, line, bars, *ticks])
    )
