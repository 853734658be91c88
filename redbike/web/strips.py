"""Strips of time, drawn by the server as SVG: what happened in a window, lane by lane."""

from collections import Counter
from collections.abc import Callable

from markupsafe import Markup

from redbike.queries.counting import MINUTE
from redbike.queries.incident import Incident, Lane
from redbike.queries.rehearsal.result import Rehearsal, Side

LEFT, WIDTH, LANE = 90, 900, 34  # of the names, of the time, and of the height of a lane, in units of the picture
PARTS = 180  # of the time, in which things are drawn together
TICKS = 4


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
