"""The forecast as a heat map: the number of runs in each quarter of an hour of a day, or in each hour of a week."""

import math
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from redbike.queries.counting import QUARTER
from redbike.queries.forecast import Forecast

Span = Literal["day", "week"]
HOURS: dict[Span, int] = {"day": 24, "week": 168}  # of the forecast for each span
CELL: dict[Span, int] = {"day": QUARTER, "week": 4 * QUARTER}  # seconds
LEVELS = 8  # of heat, without level 0
MOST_QUEUES = 15  # that have a row of their own
OTHERS = "…"  # the row of all other queues


@dataclass(frozen=True, slots=True)
class Cell:
    """A quarter of an hour or an hour of the forecast."""

    runs: int
    level: int  #: from 0, where nothing runs, to `LEVELS`
    start: float  #: epoch seconds; if clocks are set back and the hour comes twice, the first one


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells in rows: hours by quarters, or days by hours, in local time; None where there is no such time."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    most: int  #: runs of the hottest cell


@dataclass(frozen=True, slots=True)
class Strip:
    """All cells of a queue in one row."""

    queue: str | None  #: None: all queues together
    runs: int
    levels: tuple[int, ...]
    peak: float | None  #: when the hottest cell begins, in epoch seconds
    most: int  #: runs of the hottest cell


def make_grid(forecast: Forecast, span: Span, zone: str) -> Grid:
    """Return the heat of all queues in the local time of the IANA zone `zone`."""
    local, runs = ZoneInfo(zone), Counter[tuple[str, int]]()
    quarters = Counter[float]()
    for quarter in forecast.quarters:
        quarters[quarter.start] += quarter.runs
    start = math.floor(forecast.start / QUARTER) * QUARTER
    if span == "week":
        start -= datetime.fromtimestamp(start, local).minute * 60  # the first cell is a whole hour as well
    labels = dict[str, None]()
    starts = dict[tuple[str, int], float]()
    for moment in range(start, math.ceil(forecast.end), QUARTER):
        place = _find_place(datetime.fromtimestamp(moment, local), span)
        labels[place[0]] = None
        starts.setdefault(place, moment)
        runs[place] += quarters[moment]
    most = max(runs.values(), default=0)
    columns = (":00", ":15", ":30", ":45") if span == "day" else tuple(f"{hour:02}" for hour in range(24))
    rows = tuple(
        (
            label,
            tuple(
                Cell(runs[place], _find_level(runs[place], most), starts[place]) if place in runs else None
                for place in ((label, column) for column in range(len(columns)))
            ),
        )
        for label in labels
    )
    return Grid(columns, rows, most)


def list_strips(forecast: Forecast, span: Span) -> list[Strip]:
    """Return a strip of all queues together, and one for each queue with the most runs, in levels of the same scale."""
    size = CELL[span]
    base = math.floor(forecast.start / size) * size
    number = math.ceil((forecast.end - base) / size)
    totals = Counter[str]()
    for quarter in forecast.quarters:
        totals[quarter.queue] += quarter.runs
    named = dict(totals.most_common(MOST_QUEUES))
    cells: dict[str | None, list[int]] = {None: [0] * number}
    for queue in named:
        cells[queue] = [0] * number
    for quarter in forecast.quarters:
        place = math.floor((quarter.start - base) / size)
        name = quarter.queue if quarter.queue in named else OTHERS
        for own in (cells[None], cells.setdefault(name, [0] * number)):
            own[place] += quarter.runs
    most = max(cells[None], default=0)
    return [_make_strip(queue, own, most, base, size) for queue, own in cells.items()]


def _make_strip(queue: str | None, cells: list[int], most: int, base: int, size: int) -> Strip:
    hottest = max(cells, default=0)
    peak = float(base + cells.index(hottest) * size) if hottest else None
    return Strip(queue, sum(cells), tuple(_find_level(runs, most) for runs in cells), peak, hottest)


def _find_place(moment: datetime, span: Span) -> tuple[str, int]:
    """Return the row and the column of an instant in local time."""
    if span == "week":
        return f"{moment:%a %Y-%m-%d}", moment.hour
    # The hour that comes twice when clocks are set back has two rows.
    return f"{moment:%a %H:00 %z}", moment.minute // 15


def _find_level(runs: int, most: int) -> int:
    # By the square root: otherwise one peak would make all other cells look empty.
    return math.ceil(LEVELS * math.sqrt(runs / most)) if runs else 0
