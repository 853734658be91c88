"""The calendar of a job: how often it runs on each of the next days, in the zone of its schedule."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from redbike.queries.calendar import MOST, list_coming, make_calendar
from redbike.schedule.jitter import add_jitter
from redbike.schedule.parser import parse

BERLIN = "Europe/Berlin"


def at(text, zone="UTC"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def count(schedule, now, zone="UTC", **more):
    """The runs of each day, by its date."""
    weeks = make_calendar(schedule, zone, now, patience=3600, **more)
    return {day.date: day.runs for week in weeks for day in week if not day.is_past}


def make(text, zone="UTC", anchor=0.0):
    return parse(text, zone, "some:A", anchor)


def test_it_begins_on_monday_and_has_whole_weeks():
    weeks = make_calendar(make("0 3 * * *"), "UTC", at("2026-05-07T12:00"), patience=3600)
    assert [len(week) for week in weeks] == [7] * 5
    assert weeks[0][0].date == date(2026, 5, 4)
    assert [day.is_past for day in weeks[0]] == [True] * 3 + [False] * 4
    assert [day.date for week in weeks for day in week if day.is_today] == [date(2026, 5, 7)]
    assert [day.runs for day in weeks[0]] == [0, 0, 0, 0, 1, 1, 1]


def test_days_are_those_of_the_zone():
    # At 23:30 in Berlin it is the same day there, but 21:30 or 22:30 in UTC; at 00:30 it is another one.
    mondays, now = make("30 0 * * 1", BERLIN), at("2026-05-07T12:00")
    found = [str(day) for day, runs in count(mondays, now, BERLIN).items() if runs]
    assert found == ["2026-05-11", "2026-05-18", "2026-05-25", "2026-06-01"]
    assert count(mondays, now, "UTC")[date(2026, 5, 10)] == 1


def test_midnight_belongs_to_the_day_that_it_begins():
    found = count(make("0 0 * * *"), at("2026-05-07T00:00"))
    assert found[date(2026, 5, 7)] == 0  # it is now, not to come
    assert {runs for day, runs in found.items() if day > date(2026, 5, 7)} == {1}


@pytest.mark.parametrize(
    ("now", "day", "runs"), [("2026-03-28T12:00", date(2026, 3, 29), 23), ("2026-10-24T12:00", date(2026, 10, 25), 25)]
)
def test_a_day_on_which_clocks_change_has_another_number_of_hours(now, day, runs):
    found = count(make("EVERY:1h"), at(now, BERLIN), BERLIN)
    assert found[day] == runs


@pytest.mark.parametrize(
    ("schedule", "runs"),
    [
        (make("EVERY:1s"), (86400, False)),
        (add_jitter(make("EVERY:1s"), "some:A", 60), (86400, False)),
        (make("* * * * *"), (MOST, True)),
    ],
)
def test_very_many_runs_are_not_counted_one_by_one(schedule, runs):
    [_, [monday, *_], *_] = make_calendar(schedule, "UTC", at("2026-05-07T12:00"), patience=3600)
    assert (monday.runs, monday.is_more) == runs


def test_it_ends_when_that_takes_too_long():
    weeks = make_calendar(make("0 3 * * *"), "UTC", at("2026-05-07T12:00"), patience=-1)
    assert {day.runs for week in weeks for day in week if not day.is_past} == {None}


@pytest.mark.parametrize("due", ["2026-05-07T12:05", "2026-05-08T03:00"])
def test_a_run_at_another_time_than_the_schedule_says_counts_too(due):
    found = count(make("0 3 * * *"), at("2026-05-07T12:00"), due=at(due))
    assert found[date.fromisoformat(due[:10])] == 1


def test_it_may_reach_the_end_of_time():
    now = datetime(9999, 12, 20, tzinfo=UTC).timestamp()
    found = count(make("0 3 * * *"), now, "UTC", weeks=1)
    assert found[date(9999, 12, 21)] == 1


def test_the_next_runs_begin_with_the_one_that_is_due():
    now = at("2026-05-07T12:00")
    coming = list(list_coming(make("0 3 * * *"), now, at("2026-05-07T12:05"), 3))
    assert coming == [at("2026-05-07T12:05"), at("2026-05-08T03:00"), at("2026-05-09T03:00")]
    assert list(list_coming(make("AT:2026-05-08T03:00"), now, None, 3)) == [at("2026-05-08T03:00")]
