"""The heat map of a day and a week."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike.queries.forecast import Forecast, Quarter
from redbike.queries.heat_map import LEVELS, MOST_QUEUES, OTHERS, list_strips, make_grid

BERLIN = "Europe/Berlin"


def at(text, zone=BERLIN):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def make(start, hours, *quarters):
    found = tuple(Quarter(at(time), queue, runs, None) for time, queue, runs in quarters)
    return Forecast(at(start), at(start) + hours * 3600, found, (), None, (), 0, 0, 0, 0, 0)


def read(grid):
    return {
        (label, column): (cell.runs, cell.level)
        for label, cells in grid.rows
        for column, cell in zip(grid.columns, cells, strict=True)
        if cell and cell.runs
    }


def test_a_day_has_a_row_for_each_hour():
    night = "2026-05-08T03:00"
    agenda = make("2026-05-07T12:20", 24, ("2026-05-07T12:15", "A", 1), (night, "A", 70), (night, "B", 30))
    grid = make_grid(agenda, "day", BERLIN)
    assert grid.columns == (":00", ":15", ":30", ":45")
    assert read(grid) == {("Thu 12:00 +0200", ":15"): (1, 1), ("Fri 03:00 +0200", ":00"): (100, LEVELS)}
    assert grid.most == 100
    first, *_, last = grid.rows
    assert first[1][0] is None  # it is past
    assert (last[0], len(grid.rows)) == ("Fri 12:00 +0200", 25)


def test_a_week_has_a_row_for_each_day():
    agenda = make("2026-05-07T12:20", 168, ("2026-05-08T03:15", "A", 4), ("2026-05-08T03:45", "A", 5))
    grid = make_grid(agenda, "week", BERLIN)
    assert len(grid.columns) == 24
    assert [label for label, _ in grid.rows][:2] == ["Thu 2026-05-07", "Fri 2026-05-08"]
    assert len(grid.rows) == 8
    assert read(grid) == {("Fri 2026-05-08", "03"): (9, LEVELS)}


@pytest.mark.parametrize(("zone", "minute"), [("UTC", 0), (BERLIN, 0), ("Asia/Kolkata", 30), ("Asia/Kathmandu", 15)])
def test_each_cell_of_a_week_begins_with_its_local_hour(zone, minute):
    """So does the first one, of which a part is past: its link is to the hour that it names."""
    for begun in ("2026-05-07T12:20", "2026-05-07T12:50", "2026-05-07T13:00"):
        grid = make_grid(make(begun, 168, ("2026-05-07T13:00", "A", 4)), "week", zone)
        starts = [cell.start for _, cells in grid.rows for cell in cells if cell]
        assert (starts[0] <= at(begun) < starts[0] + 3600, sum(read(grid)[each][0] for each in read(grid))) == (True, 4)
        assert {start % 3600 for start in starts} == {minute * 60}


def test_the_hour_that_comes_twice_has_two_rows_and_the_one_that_is_left_out_has_none():
    day = make_grid(make("2026-10-24T12:00", 24), "day", BERLIN)
    labels = [label for label, _ in day.rows]
    assert [label for label in labels if " 02:" in label] == ["Sun 02:00 +0200", "Sun 02:00 +0100"]
    assert len(labels) == 24
    week = make_grid(make("2026-03-28T00:00", 48), "week", BERLIN)
    [sunday] = [cells for label, cells in week.rows if label == "Sun 2026-03-29"]
    assert [hour for hour, cell in enumerate(sunday) if cell is None] == [2]


def test_strips_have_all_queues_first_and_then_each():
    noon, later = "2026-05-07T12:00", "2026-05-07T12:15"
    agenda = make(noon, 24, (noon, "A", 10), (later, "A", 30), (later, "B", 10))
    whole, first, second = list_strips(agenda, "day")
    assert (whole.queue, whole.runs, whole.most, whole.peak) == (None, 50, 40, at(later))
    assert (whole.levels[:3], len(whole.levels)) == ((4, LEVELS, 0), 96)
    assert (first.queue, first.levels[:3]) == ("A", (4, 7, 0))
    assert (second.queue, second.runs, second.levels[:3]) == ("B", 10, (0, 4, 0))
    assert len(list_strips(agenda, "week")[0].levels) == 24


def test_very_many_queues_share_a_row():
    agenda = make("2026-05-07T12:00", 24, *(("2026-05-07T12:00", f"q{n}", 100 - n) for n in range(30)))
    strips = list_strips(agenda, "day")
    assert len(strips) == MOST_QUEUES + 2
    assert strips[-1].queue == OTHERS
    assert sum(strip.runs for strip in strips[1:]) == strips[0].runs


def test_nothing_has_no_peak():
    [whole] = list_strips(make("2026-05-07T12:00", 24), "day")
    assert (whole.runs, whole.peak, set(whole.levels)) == (0, None, {0})
    assert make_grid(make("2026-05-07T12:00", 24), "day", BERLIN).most == 0
