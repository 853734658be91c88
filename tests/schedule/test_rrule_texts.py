"""Recurrence rules: what their texts mean, and which are refused."""

import re

import pytest

from redbike.errors import BadSchedule, quoted
from redbike.schedule.parser import parse
from tests.cases import instant
from tests.schedule.walk import runs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # UNTIL as a date includes that day, in the zone of DTSTART.
        (
            "DTSTART;TZID=America/New_York:20260101T200000\nRRULE:FREQ=DAILY;UNTIL=20260102",
            ["2026-01-02T01", "2026-01-03T01", None],
        ),
        ("DTSTART:20260101T235959Z\nRRULE:FREQ=SECONDLY;UNTIL=20260101", ["2026-01-01T23:59:59", None]),
        # UNTIL without a zone is in that of DTSTART. A semicolon may end a rule.
        ("DTSTART;TZID=Asia/Aden:20260101T200000\nRRULE:FREQ=HOURLY;UNTIL=20260101T200000;", ["2026-01-01T17", None]),
        # Periods count from their starts; the zone of dates is their own.
        (
            "DTSTART:20260101T000000Z\nRDATE;VALUE=PERIOD:20260102T000000Z/PT1H\nRDATE;TZID=Asia/Tokyo:20260101T090000",
            ["2026-01-01T00", "2026-01-02T00", None],
        ),
        # An exception ends with its own UNTIL or COUNT, which need not be the end of a day.
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=HOURLY\nEXRULE:FREQ=HOURLY;UNTIL=20260101T113000Z", ["2026-01-01T12"]),
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=HOURLY\nEXRULE:FREQ=HOURLY;COUNT=13", ["2026-01-01T13"]),
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY\nEXRULE:FREQ=SECONDLY;COUNT=100", ["2026-01-01T00:01:40"]),
        # Nothing precedes DTSTART, also where it is in a gap and later local times are earlier instants.
        (
            "DTSTART;TZID=Europe/Berlin:20260329T023000\nRRULE:FREQ=DAILY;BYHOUR=2,3;BYMINUTE=29,30;BYSECOND=0,59",
            ["2026-03-29T01:30", "2026-03-29T01:30:59", "2026-03-30T00:29"],
        ),
        (
            "DTSTART;TZID=Europe/Berlin:20260329T023000\nRDATE:20260329T012959Z\n"
            "EXRULE:FREQ=DAILY;BYHOUR=3;BYMINUTE=29;BYSECOND=59",
            ["2026-03-29T01:29:59", None],
        ),
        (
            "DTSTART:20260101T123000Z\nRDATE:20260101T122959Z\nEXRULE:FREQ=HOURLY;BYMINUTE=29;BYSECOND=59",
            ["2026-01-01T12:29:59", None],
        ),
        # A local time before DTSTART does not count, also where it is in a gap and a later instant.
        *(
            (f"DTSTART;TZID=Europe/Berlin:20260329T030000\nRRULE:FREQ={rule}", ["2026-03-30T00:59:59"])
            for time in ["BYHOUR=2;BYMINUTE=59;BYSECOND=59"]
            for rule in (f"DAILY;{time}", f"WEEKLY;BYDAY=MO,SU;{time};BYSETPOS=1,2")
        ),
        # A part in a place that the standard forbids is a limit, and leaves all days of the week.
        ("DTSTART:20260101T090000Z\nRRULE:FREQ=WEEKLY;BYWEEKNO=20", ["2026-05-11T09", "2026-05-12T09"]),
        # A second of 60 is read as 59.
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;BYSECOND=60;COUNT=1", ["2026-01-01T00:00:59", None]),
        (
            "DTSTART:00030101T000000Z\nRDATE:20260101T000060Z,99991223T235960Z",
            ["2026-01-01T00:00:59", "9999-12-23T23:59:59", None],
        ),
        # Long lines may be folded, and may end as on other systems.
        ("DTSTART:20260101T000000Z\r\nRRULE:FR\r\n\tEQ=DAI\r\n LY;COUNT=1\r\n", ["2026-01-01T00", None]),
        # What has run out is no bad schedule.
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;UNTIL=20250101T000000Z", [None]),
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20260101T000000Z", [None]),
        # A date without time is a midnight, and so are its exceptions.
        (
            "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;BYMINUTE=0;COUNT=3\nEXDATE;VALUE=DATE:20260102",
            ["2026-01-01", "2026-01-03", None],
        ),
        (
            "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;COUNT=1\nRDATE:20260102T120000,20260103",
            ["2026-01-01", "2026-01-02T12", "2026-01-03", None],
        ),
    ],
)
def test_it_reads_the_corners_of_the_standard(text, expected):
    assert runs(text, 0, len(expected)) == [run and instant(run) for run in expected]


def test_without_dtstart_it_counts_from_when_it_is_set():
    noon = instant("2026-06-01T12:00:00")
    rule = parse("FREQ=DAILY;INTERVAL=2;COUNT=2", "Europe/Berlin", anchor=noon + 0.7)
    assert rule.text == "DTSTART;TZID=Europe/Berlin:20260601T140000\nRRULE:FREQ=DAILY;INTERVAL=2;COUNT=2"
    assert rule.next(noon) == noon + 2 * 86400
    assert rule.next(noon + 2 * 86400) is None


SECOND_PASS = instant("2026-10-25T01:30:00")  # when it is 02:30 for the second time


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("DAILY\nRDATE:20300101T000000", 86400),
        ("DAILY;COUNT=2", 86400),
        ("HOURLY", 3600),
        ("MINUTELY;INTERVAL=20", 1200),
    ],
)
def test_what_counts_from_a_repeated_hour_keeps_its_phase(text, pause):
    assert parse(f"FREQ={text}", "Europe/Berlin", anchor=SECOND_PASS).next(SECOND_PASS) == SECOND_PASS + pause


@pytest.mark.parametrize("before", ["", "FREQ=DAILY\nEXRULE:"])
@pytest.mark.parametrize("text", ["MINUTELY;COUNT=30", "HOURLY;INTERVAL=2;COUNT=3"])
def test_what_would_have_ended_before_it_was_set_in_a_repeated_hour_is_refused(before, text):
    with pytest.raises(BadSchedule, match=f"{text}': it counts from 20261025T023000, which is in a repeated hour"):
        parse(f"{before}FREQ={text}", "Europe/Berlin", anchor=SECOND_PASS)
    parse(f"{before}FREQ={text}", "Europe/Berlin", anchor=SECOND_PASS - 3600)


def test_it_stops_at_the_end_of_the_calendar():
    assert parse("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z").next(0) is not None
    assert parse("FREQ=DAILY", "Europe/Berlin", anchor=253402300799.0).next(253401700000) is None
    assert parse("DTSTART:99980101T000000Z\nRRULE:FREQ=YEARLY").next(instant("9999-06-01")) is None
    assert parse("FREQ=MINUTELY").next(float("inf")) is None
    assert parse("FREQ=MINUTELY").next(-1e15) == 0


NO_MOMENT = "is no date and time from the year 3 to 23 December 9999"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DTSTART:20240101T000000Z", "bad rule TEXT: it has neither RRULE nor RDATE"),
        ("FREQ=DAILY\n" * 17, "bad rule TEXT: it has 17 rules, 16 are allowed"),
        (
            "DTSTART:20240101T000000Z\nRRULE:FREQ=DAILY\nEXRULE:FREQ=DAILY",
            "bad rule TEXT: its exceptions leave nothing",
        ),
        ("DTSTART:99990101\nDTSTART:20240101", "bad rule: it has more than one DTSTART, 'DTSTART:20240101'"),
        *(
            (f"DTSTART;TZID=Asia/Tokyo:{moment}", f"bad schedule: '{moment}' in TEXT {NO_MOMENT}")
            for day in ("20240230", "00021231", "99991224")
            for moment in (day, f"{day}T000000")
        ),
        *(
            (f"DTSTART:20240101T{time}", f"bad schedule: '20240101T{time}' in TEXT {NO_MOMENT}")
            for time in ("240000", "006000", "000061", "0000")
        ),
        ("FREQ=DAILY\nEXDATE:20240101", "bad rule: each date in 'EXDATE:20240101' needs a time, as its runs have one"),
        ("FREQ=DAILY\nFREQ:1", "bad rule: 'FREQ:1' is no DTSTART, RRULE, RDATE, EXRULE or EXDATE"),
        ("RRULE;TZID=UTC:FREQ=DAILY", "bad rule: 'TZID=UTC' is not allowed in TEXT"),
        ("DTSTART;TZID=:20240101", "bad rule: TEXT needs one zone in its TZID"),
        ("DTSTART;TZID=UTC;TZID=UTC:20240101", "bad rule: TEXT needs one zone in its TZID"),
        ("FREQ=DAILY;UNTIL=SOON", f"bad schedule: 'SOON' in TEXT {NO_MOMENT}"),
        ("FREQ=DAILY;X=1", "bad rule TEXT: 'X=1' is not a part of a rule"),
        ("FREQ=DAILY;FREQ=DAILY", "bad rule TEXT: it has more than one FREQ"),
        (
            "FREQ=SOMETIMES",
            "bad rule TEXT: FREQ= one of YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY is needed",
        ),
        ("FREQ=DAILY;COUNT=1=2", "bad COUNT='1=2': '1=2' is not from 1 to 9999999999"),
        ("FREQ=DAILY;COUNT=1,2", "bad COUNT='1,2': one number is needed"),
        ("FREQ=DAILY;INTERVAL=1,2", "bad INTERVAL='1,2': one number is needed"),
        ("FREQ=DAILY;BYDAY=MO,54MO", "bad weekday '54MO' in a rule: MO, 1MO to 53MO or -1MO to -53MO is needed"),
    ],
)
def test_what_is_refused_is_quoted(text, message):
    with pytest.raises(BadSchedule, match=f"^{re.escape(message.replace('TEXT', quoted(text)))}$"):
        parse(text)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("INTERVAL", 1, 9_999_999_999),
        ("COUNT", 1, 9_999_999_999),
        ("BYSETPOS", -366, 366),
        ("BYMONTH", 1, 12),
        ("BYWEEKNO", -53, 53),
        ("BYYEARDAY", -366, 366),
        ("BYMONTHDAY", -31, 31),
        ("BYHOUR", 0, 23),
        ("BYMINUTE", 0, 59),
        ("BYSECOND", 0, 60),
    ],
)
def test_numbers_are_within_the_bounds_of_the_standard(name, low, high):
    rule = f"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;{name}="
    for number in (low, high):
        parse(f"{rule}{number}")
    for number in {low - 1, high + 1, 0 if low else -1}:
        with pytest.raises(BadSchedule, match=f"^bad {name}='{number}': '{number}' is not from {low} to {high}$"):
            parse(f"{rule}{number}")


def test_its_lines_may_name_16_zones():
    lines = [f"RDATE;TZID=Etc/GMT{hours:+}:20300101T000000" for hours in range(-8, 9)]
    assert parse("\n".join(["FREQ=YEARLY;COUNT=1", *lines[:16]])).next(0) == instant("2029-12-31T16:00")
    with pytest.raises(BadSchedule, match=r"^bad rule '.+: it has more than 16 time zones$"):
        parse("\n".join(lines))
    amended = "\n".join(["0 0 1 1 *", "EXDATE:20300101T000000", *lines[:16]])
    assert parse(amended).next(instant("2029-12-31T12:00")) == instant("2029-12-31T16:00")
    with pytest.raises(BadSchedule, match=r"^bad cron '0 0 1 1 \*': its dates have more than 16 time zones$"):
        parse("\n".join(["0 0 1 1 *", *lines]))
