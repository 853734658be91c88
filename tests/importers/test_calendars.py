"""The events of calendars as jobs: the same instants as another implementation has, and what cannot be imported."""

import io
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from redbike.errors import BadConfig, BadSchedule
from redbike.importers.calendar import MAX_SIZE, read_calendar
from redbike.importers.events import Importer, Job, make_jobid
from redbike.importers.holidays import read_holidays
from redbike.schedule.parser import parse
from tests.cases import instant
from tests.cases.calendars import answers

NOW = answers.NOW.timestamp()
END = (answers.NOW + answers.YEARS).timestamp()
EVENT = "UID:one\nSUMMARY:One\nDTSTART;TZID=Europe/Berlin:20261102T090000\n"
DAILY = f"{EVENT}RRULE:FREQ=DAILY\n"
NEW_YORK = DAILY.replace("Europe/Berlin", "America/New_York")  # at 14:00 UTC
DAY = "UID:one\nSUMMARY:One\nDTSTART;VALUE=DATE:20261102\n"


def make_calendar(*events: str, head: str = "") -> str:
    body = "".join(f"BEGIN:VEVENT\n{event.rstrip()}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//test//EN\n{head}{body}END:VCALENDAR\n"


def read(text: str, zone: str | None = "Europe/Berlin") -> tuple[Importer, list[Job]]:
    importer = Importer(read_calendar(io.BytesIO(text.encode()), "it"), "calendar", zone, "UTC", NOW)
    return importer, list(importer.list_jobs())


def walk(text: str, number: int = 100_000) -> list[float]:
    return list(islice(parse(text).list_due(NOW, END), number))


def import_file(name: str) -> dict[str, list[float]]:
    """The instants of each event of a file, by its UID."""
    calendar = read_calendar(io.BytesIO((answers.FOLDER / f"{name}.ics").read_bytes()), name)
    jobs = {job.jobid: job for job in Importer(calendar, "A", answers.ZONE, "UTC", NOW).list_jobs()}
    found = {}
    for event in calendar.events:
        job = None if event.replaces else jobs.get(make_jobid(event, "A"))
        if job and job.schedule:
            found[event.uid] = walk(job.schedule.text)
    assert len(found) == len(jobs)
    return found


@pytest.mark.parametrize("name", answers.NAMES)
def test_it_has_the_instants_of_another_implementation(name):
    expected = answers.read(name)
    assert len(expected) >= 3
    assert import_file(name) == expected


@pytest.mark.parametrize("name", answers.NAMES)
def test_these_instants_are_those_of_the_package(name):
    """Where it is installed: see `tests.cases.calendars.answers`."""
    pytest.importorskip("recurring_ical_events")
    assert answers.compute(name) == answers.read(name)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([DAILY], "1102T0800 1103T0800 1104T0800 1105T0800"),
        ([f"{DAILY}EXDATE;VALUE=DATE:20261103"], "1102T0800 1104T0800 1105T0800 1106T0800"),
        ([f"{DAILY}EXDATE:20261103T080000Z\nRDATE:20261103T100000Z"], "1102T0800 1103T1000 1104T0800 1105T0800"),
        ([f"{DAILY}RDATE;VALUE=PERIOD:20261103T100000Z/PT1H"], "1102T0800 1103T0800 1103T1000 1104T0800"),
        # A start that the rule does not have is an occurrence all the same.
        ([f"{EVENT}RRULE:FREQ=WEEKLY;BYDAY=WE"], "1102T0800 1104T0800 1111T0800 1118T0800"),
        ([f"{EVENT}RRULE:FREQ=WEEKLY;BYDAY=WE;COUNT=2"], "1102T0800 1104T0800 1111T0800"),
        ([f"{EVENT}RDATE;TZID=Europe/Berlin:20261105T100000"], "1102T0800 1105T0900"),
        ([f"{EVENT}RDATE:20261105T090000Z\nEXDATE;TZID=Europe/Berlin:20261102T090000"], "1105T0900"),
        # Two occurrences that change places, and one that goes where another is cancelled.
        (
            [
                DAILY,
                f"{EVENT}RECURRENCE-ID:20261103T080000Z\nDTSTART:20261104T080000Z".replace(
                    "DTSTART;TZID=Europe/Berlin:20261102T090000\n", ""
                ),
                "UID:one\nRECURRENCE-ID:20261104T080000Z\nSTATUS:CANCELLED",
            ],
            "1102T0800 1104T0800 1105T0800 1106T0800",
        ),
        # The newest version counts.
        (
            [
                f"{DAILY}SEQUENCE:2",
                "UID:one\nSEQUENCE:4\nRECURRENCE-ID:20261103T080000Z\nDTSTART:20261103T120000Z",
                "UID:one\nSEQUENCE:3\nRECURRENCE-ID:20261103T080000Z\nDTSTART:20261103T110000Z",
                f"{EVENT}SEQUENCE:1",
            ],
            "1102T0800 1103T1200 1104T0800 1105T0800",
        ),
        # Also if an older version names the same occurrence in another zone.
        (
            [
                DAILY,
                "UID:one\nSEQUENCE:2\nRECURRENCE-ID:20261103T080000Z\nDTSTART:20261103T120000Z",
                "UID:one\nSEQUENCE:1\nRECURRENCE-ID;TZID=Asia/Tokyo:20261103T170000\nDTSTART:20261103T110000Z",
            ],
            "1102T0800 1103T1200 1104T0800 1105T0800",
        ),
        ([f"{EVENT}RDATE:20261105T090000Z\nEXDATE;VALUE=DATE:20261102"], "1105T0900"),
        # An occurrence of a series that is not there.
        (["UID:one\nRECURRENCE-ID:20261103T080000Z\nDTSTART:20261103T120000Z"], "1103T1200"),
        # Days are midnight, until the end of the last one.
        ([f"{DAY}RRULE:FREQ=DAILY;UNTIL=20261104T000000Z"], "1101T2300 1102T2300 1103T2300"),
        ([f"{DAY}RRULE:FREQ=DAILY", "UID:one\nRECURRENCE-ID:20261103T000000Z\nSTATUS:CANCELLED"], None),
        # An instant in UTC means the day that it begins or is in there, as some calendars write it.
        ([f"{DAY}RRULE:FREQ=DAILY;UNTIL=20261103T230000Z"], "1101T2300 1102T2300 1103T2300"),
        ([f"{DAY}RRULE:FREQ=DAILY;UNTIL=20261104T225959Z"], "1101T2300 1102T2300 1103T2300"),
        ([f"{DAY}RRULE:FREQ=DAILY;UNTIL=20261104T235959Z"], "1101T2300 1102T2300 1103T2300"),
        ([f"{DAY}RRULE:FREQ=DAILY;UNTIL=99991231T233000Z"], "1101T2300 1102T2300 1103T2300 1104T2300"),
        ([f"{DAY}RRULE:FREQ=DAILY\nEXDATE:20261102T230000Z"], None),
        ([f"{DAY}RRULE:FREQ=DAILY", "UID:one\nRECURRENCE-ID:20261102T230000Z\nSTATUS:CANCELLED"], None),
        (["UID:one\nDTSTART:20261102T090000"], "1102T0800"),
        # Times without a zone are in that which the start of their series names.
        ([f"{NEW_YORK}EXDATE:20261103T090000"], "1102T1400 1104T1400 1105T1400 1106T1400"),
        ([f"{NEW_YORK}RDATE:20261103T120000"], "1102T1400 1103T1400 1103T1700 1104T1400"),
        (
            [NEW_YORK, "UID:one\nRECURRENCE-ID:20261103T090000\nDTSTART:20261103T120000"],
            "1102T1400 1103T1700 1104T1400 1105T1400",
        ),
        # Clocks change on 28 March: the start is in the gap, but those before it are not.
        (
            ["UID:one\nDTSTART;TZID=Europe/Berlin:20270328T023000\nRRULE:FREQ=DAILY;COUNT=3"],
            "0328T0130 0329T0030 0330T0030",
        ),
    ],
)
def test_it_has_the_exceptions_of_the_event(events, expected):
    _, [job] = read(make_calendar(*events))
    assert job.schedule is not None, job.problem
    found = [datetime.fromtimestamp(run, UTC).strftime("%m%dT%H%M") for run in walk(job.schedule.text, 4)]
    assert found == (expected or "1101T2300 1103T2300 1104T2300 1105T2300").split()
    assert job.remark == ""


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("UID:one\nSUMMARY:One\nRRULE:FREQ=DAILY", "no DTSTART"),
        ("UID:one\nDTSTART:yesterday", "DTSTART: "),
        (f"{EVENT}RRULE:FREQ=DAILY;COUNT=x", "RRULE: "),
        (f"{EVENT}RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "it can never occur"),
        (f"{DAILY}EXDATE:never", "EXDATE: "),
        ("UID:one\nDTSTART;TZID=Middle Earth:20261102T090000", "unknown time zone 'Middle Earth': the calendar does"),
        ("UID:one\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261103T080000Z\nDTSTART:20261103T120000Z", "RANGE"),
        (f"{EVENT}RRULE:FREQ=SECONDLY\nEXDATE;VALUE=DATE:20261103", "more than 100 occurrences"),
        (
            f"{DAILY}RDATE:{','.join(f'2027{month:02}01T{n:04}00Z' for month in range(1, 10) for n in range(60))}",
            "8192",
        ),
    ],
)
def test_what_cannot_be_imported_is_named_and_the_others_are_not(event, message):
    _, jobs = read(make_calendar(event, "UID:two\nSUMMARY:Two\nDTSTART:20261103T080000Z"))
    assert [job.schedule is None for job in jobs] == [True, False]
    assert message in jobs[0].problem
    assert jobs[0].problem.isprintable()


MISSED = "20270106T080000Z,20270107T080000Z,20270108T100000Z,20270109T100000Z,20270110T100000Z,20270111T100000Z"


@pytest.mark.parametrize(
    ("events", "remark"),
    [
        (
            [f"{DAILY}EXDATE:20261203T080000"],
            "'EXDATE:20261203T080000' cancels or moves nothing: there is no occurrence",
        ),
        ([f"{DAILY}EXDATE;VALUE=DATE:20261101,20261103"], "'EXDATE:20261101' cancels or moves nothing"),
        (
            [DAILY, "UID:one\nRECURRENCE-ID:20261103T083000\nDTSTART:20261103T120000Z"],
            "'RECURRENCE-ID:20261103T083000' cancels or moves nothing",
        ),
        (
            [f"{DAILY}EXDATE:{MISSED}"],
            "'EXDATE:20270108T100000Z', 'EXDATE:20270109T100000Z', 'EXDATE:20270110T100000Z' and 1 more cancel or move",
        ),
        # Of what is past, nothing would run.
        ([f"{DAILY}EXDATE:20260601T080000Z"], ""),
        # The occurrence is one of the series, though it has come by an RDATE.
        ([f"{DAILY}RDATE:20261103T100000Z\nEXDATE:20261103T100000Z"], ""),
    ],
)
def test_a_date_that_cancels_or_moves_nothing_is_named(events, remark):
    _, [job] = read(make_calendar(*events))
    assert job.remark.startswith(remark)
    assert bool(job.remark) == bool(remark)


def test_of_a_zone_that_the_package_guesses_there_is_no_warning(recwarn):
    _, [job] = read(make_calendar(DAILY.replace("TZID=", "TZID=/mozilla.org/20070129_1/")))
    assert job.schedule is not None, job.problem
    assert job.schedule.text.startswith("DTSTART;TZID=Europe/Berlin:20261102T090000\n")
    assert recwarn.list == []


def test_an_event_without_a_uid_is_none_of_the_others():
    events = "UID:1\nSUMMARY:One\nDTSTART:20261103T080000Z", "SUMMARY:Two\nDTSTART:20261104T080000Z"
    _, jobs = read(make_calendar(*events))
    assert [(job.title, job.problem) for job in jobs] == [("event 'One'", ""), ("event 'Two'", "")]


def test_what_has_no_run_to_come_is_left_out():
    importer, jobs = read(
        make_calendar(
            "UID:past\nDTSTART:20200101T090000Z",
            "UID:old\nDTSTART:19500101T090000Z",
            "UID:ended\nDTSTART:20200101T090000Z\nRRULE:FREQ=DAILY;COUNT=3",
            f"{DAILY}STATUS:CANCELLED",
            "UID:none\nDTSTART:20261103T080000Z\nEXDATE:20261103T080000Z",
        )
    )
    assert jobs == []
    assert dict(importer.left_out) == {"past": 3, "cancelled": 2}


def test_past_exceptions_give_way_if_the_text_would_be_too_long():
    days = [date(2024, 1, 1) + timedelta(number) for number in range(600)]
    past = ",".join(f"{day:%Y%m%d}T080000Z" for day in days)
    start = "UID:one\nDTSTART;TZID=Europe/Berlin:20200101T090000\nRRULE:FREQ=DAILY\n"
    _, [job] = read(make_calendar(f"{start}EXDATE:{past},20261103T080000Z"))
    assert job.schedule is not None
    assert job.schedule.text.endswith("\nEXDATE:20261103T090000")


def test_the_id_is_the_same_again_and_a_job_id():
    _, [first] = read(make_calendar("UID:a@b\nSUMMARY:Réport\\, the: Ωne\nDTSTART:20261103T080000Z"))
    _, [again] = read(make_calendar("UID:a@b\nSUMMARY:Réport\\, the: Ωne\nDTSTART:20271103T080000Z\nSEQUENCE:3"))
    _, [other] = read(make_calendar("UID:c@b\nSUMMARY:Réport\\, the: Ωne\nDTSTART:20261103T080000Z"))
    assert first.jobid == again.jobid != other.jobid
    assert first.jobid.startswith("réport-the-ωne-")
    assert first.jobid.count(":") == 1
    assert read(make_calendar("DTSTART:20261103T080000Z"))[1][0].jobid.startswith("event-")


@pytest.mark.parametrize(
    ("zone", "head", "expected"),
    [
        ("Asia/Tokyo", "X-WR-TIMEZONE:America/New_York\n", "1101T1500"),
        (None, "X-WR-TIMEZONE:America/New_York\n", "1102T0500"),
        (None, "X-WR-TIMEZONE:W. Europe Standard Time\n", "1101T2300"),
        (None, "X-WR-TIMEZONE:Asia/Tokyo\nX-WR-TIMEZONE:UTC\n", "1101T1500"),
        (None, "", "1102T0000"),
    ],
)
def test_days_are_midnight_where_the_user_or_the_calendar_says_until_the_end_of_the_last(zone, head, expected):
    _, [job] = read(make_calendar(f"{DAY}RRULE:FREQ=DAILY;UNTIL=20261104T000000Z", head=head), zone)
    first = instant(f"2026-{expected[:2]}-{expected[2:]}")
    assert walk(job.schedule.text) == [first, first + 86400, first + 2 * 86400]


def test_a_calendar_in_an_unknown_zone_is_refused():
    with pytest.raises(BadSchedule, match="unknown time zone 'Middle Earth'"):
        read(make_calendar(DAY, head="X-WR-TIMEZONE:Middle Earth\n"), None)


@pytest.mark.parametrize("twice", ["DTSTART:16020101T000000", "TZOFFSETFROM:+0300", "TZOFFSETTO:+0300"])
def test_a_part_of_a_zone_that_has_a_property_twice_does_not_count(twice):
    part = f"DTSTART:16010101T000000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0100\n{twice}\n"
    zone = f"BEGIN:VTIMEZONE\nTZID:X\nBEGIN:STANDARD\n{part}END:STANDARD\nEND:VTIMEZONE\n"
    assert read_calendar(io.BytesIO(make_calendar(head=zone).encode()), "it").definitions == {"X": ()}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is not a calendar"),
        (bytes(range(128)) * 10, "it is not a calendar"),
        (make_calendar(DAILY.replace("One", "Äpfel")).encode("latin-1"), "line 6 is not UTF-8"),
        (make_calendar(DAILY).encode("utf-16"), "line 1 is not UTF-8"),
        (make_calendar(DAILY)[:-15].encode(), "it seems to be cut off"),
        (b"BEGIN:VCALENDAR\n" + b"BEGIN:VEVENT\n" * 5000, "cut off"),
        (b"BEGIN:VCALENDAR\nno line\nEND:VCALENDAR\n", "could not be parsed"),
        (b"BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nBEGIN:STANDARD\nEND:STANDARD\nEND:VTIMEZONE\nEND:VCALENDAR", None),
        (b"BEGIN:VCALENDAR\n" + b" x" * (MAX_SIZE // 2), "more than 32 MiB"),
    ],
)
def test_what_is_no_calendar_is_refused_in_one_line(data, message):
    if message is None:
        assert read_calendar(io.BytesIO(data), "it").events == []
        return
    with pytest.raises(BadConfig, match=f"cannot read 'it': .*{message}") as refused:
        read_calendar(io.BytesIO(data), "it")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 250


def list_holidays(*events: str, head: str = "") -> list[str]:
    found = read_holidays(io.BytesIO(make_calendar(*events, head=head).encode()), "it", NOW)
    return [datetime.fromtimestamp(day * 86400, UTC).strftime("%Y%m%d") for day in found]


def test_holidays_are_the_all_day_events_of_two_years():
    assert list_holidays(
        "UID:1\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227",
        "UID:2\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=YEARLY",
        "UID:3\nDTSTART;VALUE=DATE:20261030\nDURATION:P4D",
        "UID:4\nDTSTART;VALUE=DATE:20290101",
        "UID:5\nDTSTART:20261111T090000Z",
        "UID:6\nDTSTART;VALUE=DATE:20261212\nSTATUS:CANCELLED",
    ) == ["20261031", "20261101", "20261102", "20261225", "20261226", "20270101", "20280101"]


WEEKLY = "UID:7\nDTSTART;VALUE=DATE:20261102\nRRULE:FREQ=WEEKLY;COUNT=2"
CHANGED = "RECURRENCE-ID;VALUE=DATE:20261109"


@pytest.mark.parametrize(
    ("series", "change", "days"),
    [
        (WEEKLY, f"{CHANGED}\nDTSTART;VALUE=DATE:20261110\nDTEND;VALUE=DATE:20261112", "02 10 11 30"),
        (WEEKLY, f"{CHANGED}\nDTSTART:20261109T120000Z", "02 30"),
        (WEEKLY, f"{CHANGED}\nDTSTART;VALUE=DATE:20261109\nSTATUS:CANCELLED", "02 30"),
        (f"{WEEKLY}\nSTATUS:CANCELLED", f"{CHANGED}\nDTSTART;VALUE=DATE:20261110", "30"),
        (WEEKLY.replace(";VALUE=DATE:20261102", ":20261102T090000Z"),
         "RECURRENCE-ID:20261109T090000Z\nDTSTART;VALUE=DATE:20261110", "10 30"),
    ],
)  # fmt: skip
def test_a_changed_occurrence_of_a_holiday_has_its_own_days(series, change, days):
    other = "UID:8\nDTSTART;VALUE=DATE:20261130"
    assert list_holidays(series, f"UID:7\n{change}", other) == [f"202611{day}" for day in days.split()]


@pytest.mark.parametrize(
    ("head", "hours", "days"),
    [
        ("", 0, "02 04"),
        ("X-WR-TIMEZONE:Europe/Berlin\n", 1, "02 03 05"),
        ("X-WR-TIMEZONE:America/New_York\n", -5, "02 04"),
    ],
)
def test_a_time_that_stands_for_a_holiday_means_the_day_in_the_zone_of_the_calendar(head, hours, days):
    """As some calendars write the midnight of Berlin for a day. As jobs, the events have the same days."""
    event = f"{DAY}RRULE:FREQ=DAILY;UNTIL=20261104T230000Z\nEXDATE:20261103T230000Z"
    assert list_holidays(event, head=head) == [f"202611{day}" for day in days.split()]
    _, [job] = read(make_calendar(event, head=head), zone=None)
    assert [f"{datetime.fromtimestamp(due + hours * 3600, UTC):%d}" for due in walk(job.schedule.text)] == days.split()


def test_holidays_of_a_calendar_with_a_zone_that_nobody_knows_are_read():
    assert list_holidays(DAY, head="X-WR-TIMEZONE:Mars/Olympus\n") == ["20261102"]


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        ("DTEND;VALUE=DATE:20321102\nRRULE:FREQ=SECONDLY", "20281030"),
        ("DTEND;VALUE=DATE:20321102\nRRULE:FREQ=DAILY", "20281030"),
        ("RRULE:FREQ=SECONDLY;UNTIL=20261104T120000Z", "20261104"),
        ("DTEND;VALUE=DATE:20261104\nRRULE:FREQ=SECONDLY;UNTIL=20261104T120000Z", "20261105"),
    ],
)
@pytest.mark.timeout(20)
def test_a_holiday_that_comes_too_often_takes_no_longer(lines, last):
    days = list_holidays(f"{DAY}{lines}")
    assert (days[0], days[-1]) == ("20261102", last)
    first, final = (date.fromisoformat(day) for day in (days[0], days[-1]))
    assert len(days) == (final - first).days + 1


def test_a_calendar_without_holidays_is_refused():
    with pytest.raises(BadConfig, match="it has no all-day event in the next two years"):
        list_holidays("UID:5\nDTSTART:20261111T090000Z")
    with pytest.raises(BadConfig, match="event 'One': RRULE: "):
        list_holidays(f"{DAY}RRULE:FREQ=YEARLY;COUNT=x")
