"""Times as people say them: which instant each means, next or last, and what means none."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike.errors import BadSchedule
from redbike.schedule.moments import END_OF_TIME
from redbike.schedule.typed_times import read_time

BERLIN = ZoneInfo("Europe/Berlin")
THURSDAY = datetime(2026, 11, 26, 10, 30, tzinfo=BERLIN)


def read(text, now=THURSDAY, looks_back=False, zone="Europe/Berlin"):
    found = read_time(text, now.timestamp(), zone, looks_back).instant
    return datetime.fromtimestamp(found, ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("text", "following", "last"),
    [
        ("now", "2026-11-26T10:30", "2026-11-26T10:30"),
        ("+1h", "2026-11-26T11:30", "2026-11-26T11:30"),
        ("-2h", "2026-11-26T08:30", "2026-11-26T08:30"),
        ("now + 1h30m", "2026-11-26T12:00", "2026-11-26T12:00"),
        ("1h", "2026-11-26T11:30", "2026-11-26T09:30"),
        ("1h30m ago", "2026-11-26T09:00", "2026-11-26T09:00"),
        ("2 days ago", "2026-11-24T10:30", "2026-11-24T10:30"),
        # A day that is named is that day, past or not; without a time it is its beginning.
        ("today", "2026-11-26T00:00", "2026-11-26T00:00"),
        ("Tomorrow 6:00", "2026-11-27T06:00", "2026-11-27T06:00"),
        ("yesterday at 6pm", "2026-11-25T18:00", "2026-11-25T18:00"),
        ("24 dec 2027 18:00", "2027-12-24T18:00", "2027-12-24T18:00"),
        ("2026-12-01 6:00", "2026-12-01T06:00", "2026-12-01T06:00"),
        # What comes again is the next one, or the last.
        ("22:45", "2026-11-26T22:45", "2026-11-25T22:45"),
        ("9:00", "2026-11-27T09:00", "2026-11-26T09:00"),
        ("10:30", "2026-11-26T10:30", "2026-11-26T10:30"),
        ("noon", "2026-11-26T12:00", "2026-11-25T12:00"),
        ("Midnight", "2026-11-27T00:00", "2026-11-26T00:00"),
        ("tomorrow noon", "2026-11-27T12:00", "2026-11-27T12:00"),
        ("12:30 am", "2026-11-27T00:30", "2026-11-26T00:30"),
        ("mon 9:00", "2026-11-30T09:00", "2026-11-23T09:00"),
        ("thu 9:00", "2026-12-03T09:00", "2026-11-26T09:00"),
        ("9:00 thursday", "2026-12-03T09:00", "2026-11-26T09:00"),
        ("thu, 11:00", "2026-11-26T11:00", "2026-11-19T11:00"),
        ("monday", "2026-11-30T00:00", "2026-11-23T00:00"),
        ("24 dec 18:00", "2026-12-24T18:00", "2025-12-24T18:00"),
        ("Nov 26th 9:00", "2027-11-26T09:00", "2026-11-26T09:00"),
        ("29 feb", "2028-02-29T00:00", "2024-02-29T00:00"),
        ("sat", "2026-11-28T00:00", "2026-11-21T00:00"),
        ("wednesday 11:00", "2026-12-02T11:00", "2026-11-25T11:00"),
    ],
)
def test_what_people_say_is_the_next_instant_or_the_last(text, following, last):
    assert read(text) == f"{following}:00+01:00"
    assert read(text, looks_back=True) == f"{last}:00+01:00"
    said = read_time(text, THURSDAY.timestamp(), "Europe/Berlin")
    assert said == (datetime.fromisoformat(f"{following}:00+01:00").timestamp(), False)


def test_a_day_is_that_of_the_zone():
    now = datetime(2026, 11, 27, 0, 30, tzinfo=BERLIN)  # in UTC it is the day before
    assert read("today", now) == read("midnight", now, looks_back=True) == "2026-11-27T00:00:00+01:00"
    assert read("tomorrow", now) == "2026-11-28T00:00:00+01:00"
    # The other way round.
    now = datetime(2026, 11, 26, 22, 30, tzinfo=ZoneInfo("America/New_York"))
    assert read("noon", now, zone="America/New_York") == "2026-11-27T12:00:00-05:00"
    assert read("yesterday", now, zone="America/New_York") == "2026-11-25T00:00:00-05:00"


@pytest.mark.parametrize(
    ("now", "text", "following", "last"),
    [
        # Skipped: by the offset before it. Whoever looks back finds it on the day before.
        ("2026-03-28T12:00", "2:30", "2026-03-29T03:30:00+02:00", "2026-03-28T02:30:00+01:00"),
        ("2026-03-29T12:00", "2:30", "2026-03-30T02:30:00+02:00", "2026-03-28T02:30:00+01:00"),
        ("2026-03-01T12:00", "29 mar 2026 2:30", "2026-03-29T03:30:00+02:00", "2026-03-29T03:30:00+02:00"),
        # There twice: the first, and the second only from between the two on.
        ("2026-10-24T12:00", "2:30", "2026-10-25T02:30:00+02:00", "2026-10-24T02:30:00+02:00"),
        ("2026-10-25T02:10+01:00", "2:30", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00"),
        ("2026-10-25T12:00", "2:30", "2026-10-26T02:30:00+01:00", "2026-10-25T02:30:00+01:00"),
        ("2026-10-25T12:00", "today 2:30", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+02:00"),
        # A duration is of seconds: a day has 24 hours.
        ("2026-03-28T12:00", "+1d", "2026-03-29T13:00:00+02:00", "2026-03-29T13:00:00+02:00"),
    ],
)
def test_clocks_change(now, text, following, last):
    moment = datetime.fromisoformat(now)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=BERLIN)
    assert read(text, moment) == following
    assert read(text, moment, looks_back=True) == last


def test_a_leap_day_may_be_eight_years_away():
    assert read("29 feb", datetime(2096, 3, 1, tzinfo=BERLIN)) == "2104-02-29T00:00:00+01:00"
    assert read("29 feb", datetime(2104, 2, 28, tzinfo=BERLIN), looks_back=True) == "2096-02-29T00:00:00+01:00"


def test_it_means_an_instant_from_1970_to_9999():
    assert read("1 jan 1970", zone="UTC") == "1970-01-01T00:00:00+00:00"
    with pytest.raises(BadSchedule, match=r"bad timestamp '\+1s': it is before 1970 or after 9999"):
        read_time("+1s", END_OF_TIME - 1, "UTC")


def test_a_zone_may_skip_a_day():
    # Samoa had no 30 December 2011.
    now = datetime(2011, 12, 29, 12, tzinfo=ZoneInfo("Pacific/Apia"))
    assert read("11:00", now, zone="Pacific/Apia") == "2011-12-31T11:00:00+14:00"
    assert read("23:00", now, zone="Pacific/Apia") == "2011-12-29T23:00:00-10:00"


@pytest.mark.parametrize(
    ("text", "instant"), [("0", 0), ("1796000000.5", 1796000000.5), ("2026-12-01", 1796079600), ("20261201T00Z", None)]
)
def test_epoch_seconds_and_iso_say_themselves_which_instant(text, instant):
    found = read_time(text, THURSDAY.timestamp(), "Europe/Berlin")
    assert found.is_exact
    assert instant in (None, found.instant)


@pytest.mark.parametrize("text", ["7", "22", "2245", "20261201"])
def test_a_number_that_may_be_meant_as_something_else_does_not_say_which_instant_it_is(text):
    assert read_time(text, THURSDAY.timestamp(), "Europe/Berlin") == (float(text), False)


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "monday morning", "mon tue", "today now", "may", "24/12", "1.2.", "24 foo", "24 of", "31 feb",
     "5 mon", "0 jan", "24 dec 26", "24:00", "9:60", "13pm", "0am", "7 8", "+7", "+-1h", "+1x", "1x", "at 9:00",
     "22:45 utc", "22:45Z", "mon midnight", "5 ago", "1 mays ago", "2026-13-01", "\u0663:\u0660\u0665", "x" * 9000,
     "24 dec 1969", "+1e9d", "+9999999999h", "a\nb"],
)  # fmt: skip
def test_what_means_nothing_or_two_things_is_quoted(text):
    with pytest.raises(BadSchedule) as raised:
        read(text)
    said = str(raised.value)
    assert repr(text)[:40] in said
    assert "\n" not in said
    assert len(said) < 250
