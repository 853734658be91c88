"""`Redbike` takes what Python has for schedules, instants and zones."""

import math
import re
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from dateutil import rrule, tz

from redbike import BadConfig, BadSchedule
from redbike.schedule.moments import format_instant, read_instant, read_zone
from redbike.schedule.objects import format_schedule
from tests.commandline import ROOT

BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = datetime(2030, 7, 1, 9, tzinfo=BERLIN)
NAIVE = datetime(2030, 7, 1, 9)


class Text(StrEnum):
    HOURLY = "EVERY:1h@0"


SCHEDULES = [
    (MOMENT, "AT:2030-07-01T07:00:00Z"),
    (datetime(2030, 7, 1, 9, 0, 0, 250, UTC), "AT:2030-07-01T09:00:00.000250Z"),
    (datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=1), "AT:2030-10-27T01:30:00Z"),
    (datetime(2030, 7, 1, 9, tzinfo=timezone(timedelta(hours=-5))), "AT:2030-07-01T14:00:00Z"),
    (Text.HOURLY, "EVERY:1h@0"),
    (croniter("0 3 * * *", MOMENT), "CRON_TZ=Europe/Berlin 0 3 * * *"),
    (
        rrule.rrule(rrule.DAILY, dtstart=MOMENT),
        "DTSTART;TZID=Europe/Berlin:20300701T090000\nRRULE:FREQ=DAILY",
    ),
]


@pytest.mark.parametrize(("schedule", "stored"), SCHEDULES)
def test_each_way_to_set_takes_it(bike, schedule, stored):
    assert bike.set("set:A", schedule)
    assert bike.enter("entered:A", schedule)
    assert list(bike.set_many([("many:A", schedule)])) == [("many:A", True)]
    assert dict(bike.get_schedules()) == {"set:A": stored, "entered:A": stored, "many:A": stored}
    assert type(format_schedule(schedule, "UTC")) is str


@pytest.mark.parametrize(
    ("period", "stored"),
    [
        (timedelta(hours=1), "EVERY:3600@"),
        (timedelta(days=2, milliseconds=500), "EVERY:172800.5@"),
        (timedelta(milliseconds=1), "EVERY:0.001@"),
    ],
)
def test_a_timedelta_is_a_period_from_now_on(bike, period, stored):
    bike.set("job:A", period)
    told = bike.tell("job:A")
    assert told["schedule"].startswith(stored)
    since = float(told["schedule"].partition("@")[2])
    assert told["next_run"] >= since + period.total_seconds() - 1e-6


@pytest.mark.parametrize(
    "schedule",
    [
        timedelta(0),
        timedelta(seconds=-5),
        timedelta.max,
        datetime(1969, 1, 1, tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=2))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))),
        rrule.rrule(rrule.YEARLY, dtstart=NAIVE, byeaster=0),
        rrule.rruleset(),
        croniter("0 0 1 * 1", day_or=False),
        croniter("0 0 30 2 *"),
    ],
)
def test_what_no_text_can_say_is_a_bad_schedule(bike, schedule):
    assert bike.set("job:A", schedule) is False
    assert bike.tell("job:A")["status"] is None
    with pytest.raises(BadSchedule, match="bad "):
        bike.enter("job:A", schedule)
    [(_, error), (_, other)] = bike.set_many([("job:A", schedule), ("other:A", "EVERY:1h")])
    assert isinstance(error, BadSchedule)
    assert other is True


@pytest.mark.parametrize("schedule", [date(2030, 7, 1), NAIVE, MOMENT.time(), BERLIN, iter([]), rrule.MO, object()])
def test_anything_else_is_a_type_error_and_changes_nothing(bike, schedule):
    bike.set("job:A", "EVERY:1h@0")
    said = f"a schedule is a text, a datetime.* which is a {type(schedule).__name__}$|is naive"
    for call in (bike.set, bike.enter):
        with pytest.raises(TypeError, match=said):
            call("job:A", schedule)
    with pytest.raises(TypeError, match=said):
        list(bike.set_many([("first:A", "NOW"), ("job:A", schedule)]))
    assert list(bike.get_schedules()) == [("job:A", "EVERY:1h@0")]


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(0)), ZoneInfo("UTC"), tz.UTC, tz.gettz("UTC")])
def test_every_name_of_utc_is_utc(zone):
    assert read_zone(zone) == "UTC"


def test_a_zone_of_pytz_has_its_name_in_another_attribute():
    zone = tz.tzoffset("LMT", 3180)
    zone.zone = "Europe/Berlin"
    assert read_zone(zone) == "Europe/Berlin"


def test_a_naive_datetime_is_in_the_zone_that_is_given_and_only_then(bike):
    bike.set("job:A", NAIVE, tz=BERLIN)
    assert bike.tell("job:A")["schedule"] == "AT:2030-07-01T07:00:00Z"
    bike.set("job:A", datetime(2030, 10, 27, 2, 30, fold=1), tz="Europe/Berlin")
    assert bike.tell("job:A")["schedule"] == "AT:2030-10-27T01:30:00Z"


@pytest.mark.parametrize("zone", [BERLIN, "Europe/Berlin", tz.gettz("Europe/Berlin")])
def test_the_zone_of_floating_times_may_be_a_name_or_an_object(bike, zone):
    bike.set("cron:A", "0 3 * * *", tz=zone)
    bike.enter("rule:A", rrule.rrule(rrule.DAILY, dtstart=NAIVE), tz=zone)
    list(bike.set_many([("many:A", croniter("0 3 * * *"))], tz=zone))
    assert dict(bike.get_schedules()) == {
        "cron:A": "CRON_TZ=Europe/Berlin 0 3 * * *",
        "many:A": "CRON_TZ=Europe/Berlin 0 3 * * *",
        "rule:A": "DTSTART;TZID=Europe/Berlin:20300701T090000\nRRULE:FREQ=DAILY",
    }


@pytest.mark.parametrize(
    ("zone", "error"),
    [
        (timezone(timedelta(hours=2)), BadConfig),
        (timezone(timedelta(hours=2), "UTC"), BadConfig),
        (timezone(timedelta(0), "GMT"), BadConfig),
        ("Europe/Atlantis", BadConfig),
        ("localtime", BadConfig),
        ("posix/Europe/Berlin", BadConfig),
        ("", BadConfig),
        (7, TypeError),
        (b"UTC", TypeError),
        (timedelta(hours=2), TypeError),
    ],
)
def test_what_is_no_zone_is_refused_and_changes_nothing(bike, zone, error):
    said = f"bad timezone .*, which is a {type(zone).__name__}:" if error is TypeError else "bad timezone"
    for call in (bike.set, bike.enter):
        with pytest.raises(error, match=said):
            call("job:A", "0 3 * * *", tz=zone)
    with pytest.raises(error, match=said):
        list(bike.set_many([("job:A", "0 3 * * *")], tz=zone))
    assert list(bike.get_statuses()) == []


# Instants

AGO = datetime(2001, 1, 1, tzinfo=UTC)


def test_every_instant_may_be_a_datetime(bike):
    start = datetime(2029, 12, 31, 23, tzinfo=UTC)
    bike.set("job:A", "EVERY:1d@0", after=start)
    assert bike.tell("job:A")["next_run"] == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    assert bike.dispatch_due(start) == 0
    assert bike.dispatch_due(MOMENT) == 1
    assert list(bike.get_statuses(before=AGO)) == []
    assert len(list(bike.get_statuses(before=MOMENT + timedelta(seconds=2)))) == 1
    assert bike.runs(since=AGO) == []
    assert bike.why("job:A", at=datetime.now(UTC) - timedelta(hours=1))
    assert bike.agenda(after=datetime.now(UTC) + timedelta(hours=1)).jobs >= 0
    bike.pause("job:A", until=MOMENT)
    assert bike.tell("job:A")["paused"]["until"] == MOMENT.timestamp()
    bike.pause_queue("A", until=MOMENT)
    bike.pause_all(until=MOMENT)
    assert [limits.pause.until for limits in bike.queue_limits()] == [MOMENT.timestamp()] * 2


CALLS = {
    "after": [
        lambda bike, at: bike.set("job:A", "EVERY:1h", after=at),
        lambda bike, at: bike.enter("job:A", "EVERY:1h", after=at),
        lambda bike, at: list(bike.set_many([("job:A", "EVERY:1h")], after=at)),
        lambda bike, at: list(bike.load("jobs.csv", after=at)),
        lambda bike, at: bike.dispatch(after=at),
        lambda bike, at: bike.agenda(after=at),
    ],
    "until": [
        lambda bike, at: bike.pause("other:A", until=at),
        lambda bike, at: bike.pause_queue("A", until=at),
        lambda bike, at: bike.pause_all(until=at),
    ],
    "since": [lambda bike, at: bike.runs(since=at)],
    "at": [lambda bike, at: bike.why("other:A", at=at)],
    "before": [lambda bike, at: list(bike.get_statuses(before=at))],
    "now": [lambda bike, at: bike.dispatch_due(at)],
}


def test_what_is_no_instant_is_refused_by_every_call(bike):
    bike.set("other:A", "EVERY:1h@0")
    for name, call in [(name, call) for name, calls in CALLS.items() for call in calls]:
        for value, error in ((NAIVE, TypeError), (True, TypeError), (math.nan, BadConfig), (-1, BadConfig)):
            with pytest.raises(error, match=f"bad {name} {value!r}|the datetime .* is naive"):
                call(bike, value)
    assert [jobid for jobid, _ in bike.get_schedules()] == ["other:A"]
    assert list(bike.fsck()) == []
    assert bike.queue_limits() == []
    assert "paused" not in bike.tell("other:A")


@pytest.mark.parametrize("zone", ["Europe/Berlin", BERLIN])
@pytest.mark.parametrize(
    "call",
    [
        lambda bike, **given: bike.set("job:A", "EVERY:1h@0", **given),
        lambda bike, **given: bike.enter("job:A", "EVERY:1h@0", **given),
        lambda bike, **given: list(bike.set_many([("job:A", "EVERY:1h@0")], **given)),
        lambda bike, **given: bike.sync([("job:A", "EVERY:1h@0")], **given),
        lambda bike, **given: list(bike.sync_file([("job:A", "EVERY:1h@0")], **given)),
    ],
)
def test_the_instant_from_which_occurrences_count_is_in_the_zone_if_it_has_none(bike, call, zone):
    call(bike, after=NAIVE, tz=zone)
    assert bike.tell("job:A")["next_run"] == MOMENT.timestamp() + 3600
    with pytest.raises(BadConfig, match="bad timezone 'Nowhere'"):
        call(bike, after=NAIVE, tz="Nowhere")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("2030-07-01", TypeError),
        (date(2030, 7, 1), TypeError),
        (math.inf, BadConfig),
        (MOMENT.timestamp() * 1000, BadConfig),
        (253402300800, BadConfig),
        (10**400, BadConfig),
        (datetime(1969, 12, 31, tzinfo=UTC), BadConfig),
        (datetime(9999, 12, 31, 23, tzinfo=tz.tzoffset("X", -7200)), BadConfig),
    ],
)
def test_what_is_no_instant_is_quoted(value, error):
    kind = f".*, which is a {type(value).__name__}:" if error is TypeError else ""
    with pytest.raises(error, match=re.escape(f"bad after {value!r:.9}") + kind):
        read_instant("after", value)


def test_an_instant_is_exact():
    assert read_instant("after", MOMENT) == 1909119600.0
    assert read_instant("after", MOMENT.replace(microsecond=123456)) == 1909119600.123456
    assert (read_instant("after", 0), read_instant("after", None)) == (0, None)
    # An integer that Python does not write is refused in a line.
    with pytest.raises(BadConfig, match=r"bad after 0x[0-9a-f]{78}: epoch seconds"):
        read_instant("after", 10**5000)


def test_the_zone_of_the_machine_does_not_matter(monkeypatch):
    aware = rrule.rruleset()
    aware.rrule(rrule.rrule(rrule.DAILY, dtstart=MOMENT, until=MOMENT + timedelta(9)))
    aware.exdate(MOMENT + timedelta(1))
    naive = rrule.rruleset()
    naive.rrule(rrule.rrule(rrule.DAILY, dtstart=NAIVE, until=NAIVE + timedelta(9)))
    naive.exdate(NAIVE + timedelta(1))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert format_schedule(MOMENT, "UTC") == "AT:2030-07-01T07:00:00+00:00"
        assert format_schedule(aware, "UTC").endswith(";UNTIL=20300710T070000Z\nEXDATE:20300702T070000Z")
        assert format_schedule(naive, "UTC").endswith(";UNTIL=20300710T090000\nEXDATE:20300702T090000")
        assert format_instant(253402300799, "Asia/Seoul") == "Friday, 31 December 9999 at 23:59:59 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nothing_of_dateutil_or_croniter_is_imported_for_texts():
    code = (
        "import datetime, sys; from redbike.schedule.objects import check_schedule, format_schedule\n"
        "print(format_schedule(datetime.timedelta(1), 'UTC'), {'dateutil', 'croniter'} & {*sys.modules})\n"
        "try:\n    check_schedule(object(), None)\nexcept TypeError:\n    print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "EVERY:86400 set()\nrefused\n"
