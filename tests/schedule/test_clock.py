"""The clock of somebody who looks: how it writes instants."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike.schedule.clock import Clock, format_length, format_took
from redbike.schedule.moments import END_OF_TIME

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 10, 25, 1, 59, 59, tzinfo=BERLIN), "2026-10-25 01:59:59"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), "2026-10-25 02:30:00+02:00"),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), "2026-10-25 02:30:00+01:00"),
        (datetime(2026, 10, 25, 3, 0, tzinfo=BERLIN), "2026-10-25 03:00:00"),
        (datetime(2026, 3, 29, 3, 0, tzinfo=BERLIN), "2026-03-29 03:00:00"),
        (datetime(2026, 3, 29, 0, 59, 59, 999_600, BERLIN), "2026-03-29 00:59:59"),
        # A blackout begins just before its second.
        (datetime(2026, 3, 29, 0, 59, 59, 999_999, BERLIN), "2026-03-29 01:00:00"),
        (datetime(2026, 3, 29, 1, 0, 0, 250_000, BERLIN), "2026-03-29 01:00:00"),
        (datetime(1970, 1, 1, 1, tzinfo=BERLIN), "1970-01-01 01:00:00"),
    ],
)
def test_an_hour_that_a_day_has_twice_is_told_with_its_distance_from_utc(moment, written):
    assert Clock(0.0, "Europe/Berlin").format(moment.timestamp()) == written


@pytest.mark.parametrize(
    ("zone", "moment", "written"),
    [
        ("UTC", END_OF_TIME - 1.5, "9999-12-31 23:59:58"),
        ("America/New_York", END_OF_TIME - 1.5, "9999-12-31 18:59:58"),
        ("Asia/Tokyo", END_OF_TIME - 1.5, "9999-12-31 23:59:58+00:00"),  # where the year 10000 has begun
        *(("UTC", moment, "9999-12-31 23:59:59") for moment in (END_OF_TIME, 1e300, float("inf"))),
    ],
)
def test_the_last_day_of_the_last_year_is_written_exactly_and_what_is_later_as_its_end(zone, moment, written):
    assert Clock(0.0, zone).format(moment) == written


@pytest.mark.parametrize(
    ("zone", "moment", "written"),
    [
        ("Europe/Berlin", "2027-10-31T00:30:59+00:00", "2027-10-31 02:30+02:00"),
        ("Europe/Berlin", "2027-10-31T02:00:00+00:00", "2027-10-31 03:00"),
        ("Australia/Lord_Howe", "2027-04-03T14:45:00+00:00", "2027-04-04 01:45+11:00"),
        ("Australia/Lord_Howe", "2027-04-03T15:15:00+00:00", "2027-04-04 01:45+10:30"),
        ("Asia/Tokyo", "9999-12-31T23:59:58+00:00", "9999-12-31 23:59+00:00"),
    ],
)
def test_an_instant_to_the_minute_keeps_its_distance_from_utc(zone, moment, written):
    assert Clock(0.0, zone).format_minute(datetime.fromisoformat(moment).timestamp()) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0 s"),
        (0.4, "0 s"),
        (-59.6, "1 min"),
        (61.0, "1 min 1 s"),
        (3600.0, "1 h"),
        (3605.0, "1 h"),
        (7384.0, "2 h 3 min"),
        (86400 + 59, "1 d"),
        (2 * 86400 + 3 * 3600 + 59, "2 d 3 h"),
        (400 * 86400.0, "400 d"),
    ],
)
def test_a_length_has_its_two_largest_units(seconds, written):
    assert format_length(seconds) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0 ms"),
        (0.0123, "12 ms"),
        (0.999, "999 ms"),
        (1.0, "1.00 s"),
        (59.994, "59.99 s"),
        (60.0, "1 min"),
        (312.4, "5 min 12 s"),
    ],
)
def test_what_took_less_is_told_more_exactly(seconds, written):
    assert format_took(seconds) == written
