"""Crontab lines: how they are read, and when they run next; `cases/cron.txt` has many more."""

import random
from calendar import monthrange, weekday
from datetime import UTC, date, datetime
from functools import cache
from itertools import count, islice, product

import pytest
from croniter import croniter
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from redbike.errors import BadSchedule
from redbike.schedule.cron import Dates
from redbike.schedule.cron_fields import FIELDS, parse_expression
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse
from redbike.schedule.zones import EPOCH_DAY
from tests.cases import instant
from tests.exhaustive import compare
from tests.exhaustive.oracle import random_line
from tests.schedule.cost import measure
from tests.schedule.walk import runs

ZONES = ["Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "America/Havana", "Asia/Gaza"]
BAD = ["60 * * * *", "* * 0 * *", "*/0 * * * *", "* * * * mon#6", "R * * * *", "H(9-3) * * * *", "H(5-5) * * * *"]
BAD += ["* * 32w * *"]
NOON = instant("2026-06-01T12:00:00")
DAY = 86400
find_changes = cache(compare.changes)
SPANS = st.sampled_from([-DAY, 0, 1, 59.5, 3600, 7200.25, DAY, 3 * DAY, 200 * DAY])


def test_it_agrees_with_brute_force():
    """Of some lines; ``make exhaustive`` has 50,000."""
    assert [wrong for seed in range(15) if (wrong := compare.line_differs(seed))] == []


@pytest.mark.parametrize("name", ZONES)
def test_it_agrees_with_brute_force_wherever_clocks_change(name):
    changes = compare.changes(name)
    assert changes
    lines = [random_line(random.Random(seed)) for seed in range(400)]
    for seed, middle in enumerate(changes):
        line = next(line for line in lines[seed:] if line.zone == name)
        assert compare.window_differs(line, middle // 60 * 60, 5) == ""
    for middle in changes[:2]:
        assert compare.lines_differ(name, middle) == ""


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(-(10**5), 10**5), SPANS, st.sampled_from([1, 7, 10**4]))
@settings(max_examples=200)
def test_it_counts_day_by_day_what_next_walks(seed, place, shift, span, limit):
    line = random_line(random.Random(seed))
    changes = find_changes(line.zone) or [NOON]
    after = changes[place % len(changes)] + shift
    extra = "\nEXDATE:20260601,20260602" if seed % 4 == 0 else "\nEXDATE:20260601T120000" if seed % 4 == 1 else ""
    try:
        schedule = parse(line.text + extra)
    except BadSchedule:
        reject()  # there is no such day
    assert schedule.count(after, after + span, limit) == Schedule.count(schedule, after, after + span, limit)


@pytest.mark.parametrize(
    ("text", "after", "until", "number"),
    [
        ("0,1 9 * * * */20", "2026-06-01T00:00:00", "2026-06-04T09:01:20", 23),
        ("0 9 * * *\nEXDATE:20260602T090000", "2026-06-01T00:00", "2026-06-04T00:00", 2),
        ("0 9 * * *\nRDATE:20260602T120000", "2026-06-01T00:00", "2026-06-04T00:00", 4),
        # At the end of a gap, and in a repeated hour.
        ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T00:00", "2026-03-29T01:00", 1),
        ("CRON_TZ=America/New_York 30 1 * * *", "2026-11-01T06:00", "2026-11-01T08:00", 0),
    ],
)
def test_it_counts_what_is_due(text, after, until, number):
    assert parse(text).count(instant(after), instant(until), 100) == number


def test_to_count_a_week_of_minutes_costs_no_more_than_some_runs():
    schedule = parse("CRON_TZ=Europe/Berlin * * * * *")
    walked = measure(lambda: runs(schedule.text, NOON, 500))
    assert measure(lambda: schedule.count(NOON, NOON + 7 * DAY, 10**4)) < walked


@given(st.text(min_size=1, max_size=20), st.sampled_from(["H", "H/15", "H(30-40)", "H(5-20)/3", "H/50", "H(19-20)/9"]))
@settings(max_examples=30)
def test_h_is_croniters_hash_of_the_job_id(jobid, item):
    try:
        jobid.encode()
    except UnicodeEncodeError:
        return
    schedule = parse(f"{item} H * * *", jobid=jobid)
    expected = croniter(f"{item} H * * *", NOON, float, hash_id=jobid)
    assert runs(schedule.text, NOON, 5) == [*islice(expected, 5)]
    assert "H" not in schedule.text


def test_h_spreads_and_stays():
    minutes = {parse("H * * * *", jobid=f"job:{number}").text for number in range(300)}
    assert len(minutes) > 50
    assert parse("H H H H H H", jobid="a").text == parse("h h h h h h", jobid="a").text
    assert parse("5,H * * * *", jobid="\ud800").text == "5," + parse("H * * * *", jobid="\ud800").text


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("0 9 LW * *", "2026-01-01", ["2026-01-30T09:00", "2026-02-27T09:00", "2026-03-31T09:00"]),
        ("0 9 * * 5L", "2026-01-01", ["2026-01-30T09:00", "2026-02-27T09:00", "2026-03-27T09:00"]),
        ("0 9 * * mon-tue#1", "2026-01-01", ["2026-01-05T09:00", "2026-01-06T09:00", "2026-02-02T09:00"]),
        ("0 0 29 2 */7", "2026-01-01", ["2032-02-29", "2060-02-29", "2088-02-29"]),
        ("0 22-2/2 * * *", "2026-01-01", ["2026-01-01T02:00", "2026-01-01T22:00", "2026-01-02"]),
        ("0 0 * * 5-7", "2026-01-01", ["2026-01-02", "2026-01-03", "2026-01-04"]),
        ("0 0 * * 8-0", "2026-01-01", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05"]),
        ("0 0 1 * 8-7/3", "2026-01-01", ["2026-01-04", "2026-01-05", "2026-01-08"]),
        ("0 0 30-L 1 *", "2026-01-30", ["2026-01-31"]),
        ("0 9 1W,15W * *", "2026-01-02", ["2026-01-15T09:00", "2026-02-02T09:00", "2026-02-16T09:00"]),
        ("0 0 * * * 0 2028", "2026-01-01", ["2028-01-01", "2028-01-02"]),
        ("0 0 * * 1 0 2028", "2026-01-01", ["2028-01-03", "2028-01-10"]),
        ("0 0 1 1 * 0 1970", "1969-01-01", ["1970-01-01", None]),
        ("0 0 1 1 * 0 *", "2099-06-01", ["2100-01-01"]),
        ("CRON_TZ=Europe/Berlin 59 1 * * * 59", "2026-03-29T00:59:58", ["2026-03-29T00:59:59"]),
        # In a month that begins on a Sunday, the 28th is a Saturday, and every day matches.
        ("0 0 29-27 * 0,3,6", "2023-01-27", ["2023-01-28"]),
        ("0 0 1-27,29-31 * 0,3,6", "2023-01-27", ["2023-01-28"]),
        # 28 April 2023 is a Friday.
        ("0 0 29-27 * 0,3,6", "2023-04-27", ["2023-04-29"]),
        ("0 0 1-27,29-31 * 0,3,6", "2023-04-27", ["2023-04-29"]),
    ],
)
def test_it_reads_what_crontabs_and_their_heirs_have(text, since, expected):
    assert runs(text, instant(since), len(expected)) == [run and instant(run) for run in expected]


@pytest.mark.parametrize("day", range(1, 32))
def test_the_nearest_weekday_is_in_the_same_month(day):
    found = list(parse(f"0 0 {day}W * *").list_due(instant("2021-01-01") - 1, instant("2033-01-01") - 1))
    for due, (year, month) in zip(found, product(range(2021, 2033), range(1, 13)), strict=True):
        days = [number for number in range(1, monthrange(year, month)[1] + 1) if weekday(year, month, number) < 5]
        nearest = min(days, key=lambda each: abs(each - min(day, monthrange(year, month)[1])))
        assert due == datetime(year, month, nearest, tzinfo=UTC).timestamp()


def test_a_day_is_found_whatever_was_looked_for_before():
    dates = Dates(parse_expression("0 0 13 * fri", "").days, None)
    for day in (day // part for day in range(0, 50_000, 61) for part in (1, 2, 4096)):
        days = (each for each in count(day) if each % 7 == 1 or date.fromordinal(each + EPOCH_DAY).day == 13)
        assert dates.find_day(day) == next(days)


@pytest.mark.parametrize("text", BAD)
def test_a_bad_field_is_named_and_quoted(text):
    with pytest.raises(BadSchedule) as refused:
        parse(text)
    place = next(place for place, field in enumerate(text.split()) if field != "*")
    assert FIELDS[place].name in str(refused.value)
    assert text.split()[place].lower() in str(refused.value).lower()


def test_it_stops_at_the_end_of_the_calendar():
    assert parse("0 0 1 1 *").next(instant("9999-06-01")) is None
    assert parse("* * * * *").next(float("inf")) is None
    assert parse("* * * * *").next(float("nan")) is None
    assert parse("0 0 2 1 *").next(float("-inf")) == instant("0002-01-02")
    assert max(parse("0 0 L * *").list_due(instant("9999-11-01"), float("inf"))) == instant("9999-12-31")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0 0 L-3 * *", "bad day of month 'l-3' in the cron expression: 1 to 31 are possible"),
        ("*/0 * * * *", "bad minute '*/0' in the cron expression: a step is 1 or more"),
        ("R/5 * * * *", "bad minute 'r/5' in the cron expression: R would give another value each time, so use H"),
        ("61 * * * *", "bad minute '61' in the cron expression: 0 to 59 are possible"),
        ("* * * * mon#6", "bad day of week 'mon#6' in the cron expression: 1#1 to 7#5 are possible"),
        ("* * * *", "bad cron '* * * *': 5 to 7 fields are needed, it has 4"),
        ("in half hours", "bad cron 'in half hours': 5 to 7 fields are needed, it has 3; is one like IN:2h meant?"),
        ("0 0 30 2 *", "bad cron '0 0 30 2 *': there is no such day, it can never run"),
        ("@reboot", "bad cron '@reboot': it names no time; NOW runs a job right away"),
        ("\u017ftop", "bad schedule '\u017ftop': no keyword, cron expression or rule"),
        ("0 9 * * *\x7f", "bad schedule '0 9 * * *\\x7f': no keyword, cron expression or rule"),
    ],
)
def test_it_says_why_a_line_is_refused(line, said):
    with pytest.raises(BadSchedule) as refused:
        parse(line)
    assert str(refused.value) == said
