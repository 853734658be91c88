"""Charts, drawn by the server as SVG: they need no script, and a style sheet colours them."""

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from redbike.queries.heat import LEVELS, Strip
from redbike.queries.run_durations import Durations
from redbike.store.history import PastRun
from redbike.text.printable import name_number
from redbike.web.rendering import show_number, show_took
from redbike.web.samples import HOUR, Point

WIDTH, HEIGHT = 120, 24  # of a small chart, in the units of its picture
RUN, TALL, MARK = 8, 48, 8  # the width of a run, the height of the longest one, and of the mark above one
LEAST = 2.0  # height of a run that took no time
MOST_RUNS = 100  # in a chart


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
