"""Recurrence rules: when they occur next, and at what cost; `cases/rrule.txt` has many more."""

import functools
import random
from bisect import bisect_left
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from redbike.errors import BadSchedule
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse
from redbike.schedule.rrule.rule import LAST
from tests.cases import instant
from tests.exhaustive import compare
from tests.exhaustive.oracle import instant as local
from tests.exhaustive.oracle import random_rule, some
from tests.schedule.cost import HARD, is_short, measure, most_of_a_step
from tests.schedule.walk import runs

ZONES = ["Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "America/Havana", "Asia/Gaza"]
SIXTY = ",".join(map(str, range(60)))
HOURS = ",".join(map(str, range(24)))
PLACES = ",".join(map(str, range(1, 367)))
DTSTART = "DTSTART;TZID=America/New_York:19700101T000000\nRRULE:"
HOSTILE = [
    *(DTSTART + f"FREQ={freq};BYMONTH=2;BYMONTHDAY=30" for freq in ("SECONDLY", "YEARLY")),
    DTSTART + "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
    DTSTART + "FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
    DTSTART + "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=5",
    DTSTART + "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
    DTSTART + "FREQ=YEARLY;BYDAY=MO;BYSETPOS=366",
    DTSTART + "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3;BYMONTHDAY=10;BYSETPOS=1",
    DTSTART + "FREQ=MONTHLY;INTERVAL=10;BYSECOND=50,02;BYMONTH=2,3,9,10;BYDAY=5MO,5TH,5WE;BYSETPOS=15;COUNT=5",
    DTSTART + "FREQ=YEARLY;INTERVAL=9999999999",
    DTSTART + "FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
    DTSTART + "FREQ=SECONDLY;INTERVAL=86413;BYHOUR=3;BYMINUTE=7;BYSECOND=13",
    DTSTART + "FREQ=MINUTELY;INTERVAL=1439;BYHOUR=9;BYMINUTE=0",
    DTSTART + f"FREQ=SECONDLY;BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={SIXTY}",
    DTSTART + f"FREQ=DAILY;BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={SIXTY};BYSETPOS={PLACES};COUNT=1000000000",
    DTSTART + f"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYMINUTE={SIXTY};BYSETPOS={PLACES};COUNT=1000000000",
    *(DTSTART + f"FREQ={freq};COUNT=1000000000" for freq in ("SECONDLY", "HOURLY", "MONTHLY")),
    DTSTART + "FREQ=SECONDLY;BYMONTH=3;INTERVAL=7;COUNT=1000000000",
    DTSTART + "FREQ=SECONDLY;BYHOUR=3;INTERVAL=7919;COUNT=9999999",
    DTSTART + "FREQ=HOURLY;BYHOUR=1;COUNT=1000000000",
    DTSTART.replace("T000000", "T064006") + "FREQ=SECONDLY;BYMONTH=9,1;COUNT=100000",
    DTSTART.replace("T000000", "T104753") + "FREQ=SECONDLY;BYMONTH=9;BYMINUTE=56,37,5,2,36,54,4,31,15;COUNT=100000",
    DTSTART + "FREQ=DAILY\nEXRULE:FREQ=DAILY",
    DTSTART + "FREQ=DAILY\nEXRULE:FREQ=DAILY;UNTIL=99980101T000000Z",
    DTSTART + "FREQ=SECONDLY\nEXRULE:FREQ=SECONDLY;BYDAY=MO,TU,WE,TH,FR,SA,SU",
    DTSTART + f"FREQ=MINUTELY\nEXRULE:FREQ=SECONDLY;INTERVAL=7\nEXRULE:FREQ=HOURLY;BYMINUTE={SIXTY}",
    *(
        DTSTART + f"FREQ=SECONDLY;{part}\nEXRULE:FREQ=SECONDLY;{part}"
        for part in ("BYMONTH=1,2,3,4,5,6,7,8,9,10,11", f"BYSECOND={SIXTY.removesuffix(',59')}")
    ),
    DTSTART
    + "FREQ=MINUTELY\nEXRULE:FREQ=MINUTELY;BYDAY=MO,TU,WE,TH,FR,SA,SU\nRDATE:"
    + ",".join(f"{year}0329T013030Z" for year in range(1970, 2390)),
    DTSTART + "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1;COUNT=10000000\nRRULE:" * 15 + "FREQ=DAILY",
    DTSTART + "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO\nRRULE:" * 15 + "FREQ=DAILY",
    DTSTART + "FREQ=DAILY\nRDATE:" + ",".join(f"{year}0329T013000" for year in range(1900, 2390)),
    "DTSTART:00020101T000000Z\nRRULE:FREQ=SECONDLY;BYHOUR=3;COUNT=1000000",
    "DTSTART:99980101T000000Z\nRRULE:FREQ=MINUTELY;BYHOUR=3",
    *(
        "0 0 30 2 *",
        "CRON_TZ=Europe/Berlin * 2 * 3 L7 *",
        "CRON_TZ=Australia/Lord_Howe 0-29/1 2 * 10 sun#1 *",
        "* * 30 2 * *",
        "0 0 29 2 */7",
        "0 0 29 2 mon#5 0 2099",
        "0 0 * * " + ",".join(["mon-sun#5"] * 800),
    ),
]


def test_it_agrees_with_brute_force():
    """Of some rules; ``make exhaustive`` has 50,000."""
    assert [wrong for seed in range(25) if (wrong := compare.rule_differs(seed))] == []


@pytest.mark.parametrize("name", [*ZONES, "Pacific/Chatham", "Antarctica/Casey"])
def test_it_agrees_with_brute_force_wherever_clocks_change(name):
    # And where one block of a zone's segments ends and another begins.
    middles = [*compare.changes(name)[:2], 425 << 22]
    assert [wrong for middle in middles if (wrong := compare.rules_differ(name, middle))] == []


@pytest.mark.parametrize("positions", ["", ";BYSETPOS=1,2,3,4,5,6,7"])
@pytest.mark.parametrize("week", [1, 53, -1, -53])
def test_weeks_are_those_of_iso_8601_for_centuries(week, positions):
    def is_meant(day):
        year, number, _ = day.isocalendar()
        return week in (number, number - date(year, 12, 28).isocalendar().week - 1)

    rule = f":FREQ=YEARLY;BYWEEKNO={week};BYDAY=MO,TU,WE,TH,FR,SA,SU{positions}"
    days = [date(year, 1, 1) + timedelta(number) for year in range(1901, 2110) for number in range(-11, 11)]
    expected = [instant(str(day)) for day in days if is_meant(day)]
    assert list_until(f"DTSTART:19000601\nRRULE{rule}", instant(str(days[-1]))) == expected
    edges = [date(year, 1, day) for year in range(2000, 2028) for day in (1, 2, 3)]
    for day in edges:  # another schedule each, which has not looked at the days before
        schedule = parse(f"DTSTART:{day.year - 90}01{day.day:02}\nRRULE{rule}")
        assert schedule.next(instant(str(day)) - 1) == expected[bisect_left(expected, instant(str(day)))]
    dates = ",".join(f"{day:%Y%m%d}" for day in edges)
    left = [instant(str(day)) for day in edges if not is_meant(day)]
    assert list_until(f"DTSTART:19800101\nRDATE:{dates}\nEXRULE{rule}", LAST) == left


changes = functools.cache(compare.changes)


def pick_rule(pick):
    """A random rule, which mostly begins shortly before clocks change."""
    rule = random_rule(pick)
    if pick.random() < 0.3:
        rule.freq, rule.interval, rule.parts = pick.choice(("DAILY", "HOURLY")), 1, {}
    if changes(rule.zone) and pick.random() < 0.7:
        before = pick.choice(changes(rule.zone)) - pick.choice((1800, 7200, 86400, 3 * 86400))
        rule.start = datetime.fromtimestamp(before, ZoneInfo(rule.zone)).replace(tzinfo=None, fold=0)
        rule.until = rule.until and rule.start + timedelta(seconds=pick.randrange(10**6))
    return rule


def list_until(text, last):
    return list(parse(text).list_due(float("-inf"), last))


def write(dates):
    return ",".join(f"{datetime.fromtimestamp(due, UTC):%Y%m%dT%H%M%SZ}" for due in dates)


@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_a_rule_cancels_its_own_instants_and_none_beside_them(seed):
    pick = random.Random(seed)
    rule = pick_rule(pick)
    try:
        *own, last = runs(rule.text, float("-inf"), 50)
    except BadSchedule:
        return
    steps = (0, 1, 60, 1800, 3600, 86400, rule.interval * 3600)
    dates = sorted({int(due + sign * step) for due in own for step in steps for sign in (-1, 1)})
    dates = [due for due in dates if (last is None or due < last) and (len(dates) < 400 or pick.random() < 0.5)]
    if dates:
        text = rule.text.replace("RRULE:", f"RDATE:{write(dates)}\nEXRULE:")
        assert list_until(text, LAST) == [due for due in dates if due not in own]


@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_exceptions_leave_the_others(seed):
    pick = random.Random(seed)
    rule = pick_rule(pick)
    rule.parts = {} if pick.random() < 0.7 else rule.parts
    freq = rule.freq if pick.random() < 0.8 else pick.choice(("DAILY", "HOURLY", "MINUTELY"))
    other = replace(rule, freq=freq, count=None, until=None, interval=rule.interval * pick.choice((1, 1, 2)))
    parts = {
        "BYDAY": [(0, (rule.start.weekday() + day) % 7) for day in range(pick.choice((1, 3)))],
        "BYHOUR": some(pick, [0, rule.start.hour, (rule.start.hour + 1) % 24, 23], 3),
        "BYMINUTE": some(pick, list(range(60)), 40),
        "BYSECOND": some(pick, [0, 1, 2, 30, rule.start.second], 4),
    }
    other.parts = {name: values for name, values in parts.items() if pick.random() < 0.4}
    try:
        own = [due for due in runs(rule.text, float("-inf"), 300) if due is not None]
        other.until = datetime.fromtimestamp(pick.choice(own), UTC) if own and pick.random() < 0.4 else None
        theirs = parse(other.text)
        dropped = pick.sample(own, pick.randrange(len(own) // 2 + 1))
        added = [due + pick.choice((0, 1, 60)) for due in pick.sample(own[:-1], min(len(own) // 2, pick.randrange(9)))]
        everyone = sorted({*own, *(due for due in added if due <= own[-1])})
        expected = [due for due in everyone if due not in dropped and theirs.next(due - 1) != due]
        exceptions = f"\nEXRULE:{other.text.partition('RRULE:')[2]}" + f"\nEXDATE:{write(dropped)}" * bool(dropped)
        dates = f"\nRDATE:{write(added)}" * bool(added)
        assert not expected or list_until(rule.text + exceptions + dates, own[-1]) == expected
    except BadSchedule:
        return  # as it occurs too rarely


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[-60:].replace("\n", " "))
def test_no_text_takes_long(text):
    # Another phase each time, so that nothing of the last round helps.
    costs = (most_of_a_step(text.replace("19700101T", f"197001{number:02}T")) for number in range(1, 9))
    assert any(map(is_short, costs))


@pytest.mark.parametrize("text", HARD)
def test_to_count_takes_no_longer_however_many_rules_and_exceptions_there_are(text):
    schedule = parse(text)
    # A count may take as long as two steps: the dearest one here takes half of that on an idle machine.
    costs = (
        measure(lambda since=since: schedule.count(since, since + 1e9, 10_000)) / 2
        for since in range(10**9, 3 * 10**9, 10**8)
    )
    assert any(map(is_short, costs))
    number, has_all = schedule.count_safely(1.8e9, 2.8e9, 10_000)
    assert number == Schedule.count(schedule, 1.8e9, 2.8e9, number) > 0
    assert has_all == (number == Schedule.count(schedule, 1.8e9, 2.8e9, min(number + 1, 10_000)))


REGULAR = [f"FREQ={freq};INTERVAL={step}" for freq in ("HOURLY", "MINUTELY", "SECONDLY") for step in (1, 7, 90)]


@given(
    st.sampled_from(
        [*REGULAR, *(f"{rule};UNTIL=20270401T000000Z" for rule in REGULAR), "FREQ=MINUTELY;BYSECOND=7", "FREQ=DAILY"]
    ),
    st.sampled_from(ZONES),
    st.sampled_from(["", "\nRDATE:20270301T111111", "\nEXDATE:20270301T120000", "\nEXRULE:FREQ=HOURLY;INTERVAL=4"]),
    st.floats(-(10**6), 10**7),
    st.integers(-10, 10**7),
    st.sampled_from([1, 7, 1000]),
)
@settings(max_examples=300)
@example("FREQ=HOURLY", "Europe/Berlin", "\nEXDATE:20270301T120000", 0.0, 4_500_000, 1000)
def test_it_counts_what_next_walks(rule, zone, more, after, span, limit):
    try:
        schedule = parse(f"DTSTART;TZID={zone}:20270228T120000\nRRULE:{rule}{more}")
    except BadSchedule:
        return  # the exceptions leave nothing in a zone whose offset stays: some have abolished summer time
    after += 1.8e9
    number = Schedule.count(schedule, after, after + span, limit)
    assert schedule.count_safely(after, after + span, limit) == (number, True)


@pytest.mark.parametrize(
    "rule", ["HOURLY", "HOURLY;INTERVAL=2", "HOURLY;BYMINUTE=7", "MINUTELY", "MINUTELY;BYSECOND=7"]
)
def test_it_counts_exactly_where_clocks_change_by_half_an_hour(rule):
    schedule = parse(f"DTSTART;TZID=Australia/Lord_Howe:20270228T120000\nRRULE:FREQ={rule}")
    change = next(at for at in changes("Australia/Lord_Howe") if at > 1.8e9)
    for after, until in combinations(range(change - 7200, change + 7201, 900), 2):
        assert schedule.count(after, until, 999) == Schedule.count(schedule, after, until, 999)


@pytest.mark.parametrize("start", ["19700101T000000Z", "20131009T164510Z", "20250101T000000Z"])
def test_an_old_start_costs_no_more_than_a_new_one(start):
    schedule = parse(f"DTSTART:{start}\nRRULE:FREQ=MINUTELY")
    steps = ([1.8e9 + number * 1e5 for number in range(first, first + 1000)] for first in range(0, 8000, 1000))
    assert any(is_short(measure(lambda moments=moments: list(map(schedule.next, moments)))) for moments in steps)


@pytest.mark.parametrize(
    ("rule", "zone"),
    [
        ("FREQ=DAILY;BYDAY=MO,WE;BYHOUR=9,17", "UTC"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "Europe/Berlin"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "UTC"),
        ("FREQ=DAILY;BYHOUR=4,5,6;BYSETPOS=2,-1", "Europe/Berlin"),
        ("FREQ=HOURLY;INTERVAL=5;BYHOUR=2,9,14;BYMINUTE=0,30", "Australia/Lord_Howe"),
        ("FREQ=MINUTELY;BYDAY=SU;BYHOUR=2", "Europe/Berlin"),
        ("FREQ=SECONDLY;INTERVAL=40;BYMINUTE=7", "Australia/Lord_Howe"),
        ("FREQ=HOURLY", "Europe/Berlin"),
        # The first period counts in part; later ones are added up in days and years.
        ("FREQ=HOURLY;BYMINUTE=0,20,40", "Europe/Berlin"),
        ("FREQ=HOURLY;BYHOUR=0,1", "UTC"),
        ("FREQ=MINUTELY;BYHOUR=0;BYSECOND=0,20", "UTC"),
        ("FREQ=SECONDLY;BYHOUR=23;BYMINUTE=59", "UTC"),
        ("FREQ=SECONDLY;BYHOUR=23;BYMINUTE=58,59;BYSECOND=0,1,30", "UTC"),
        # Times of the first day that are before DTSTART do not count.
        ("FREQ=MONTHLY;BYHOUR=0;BYMINUTE=14,15;BYSECOND=0,59", "UTC"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,-1;BYHOUR=0;BYMINUTE=14,15;BYSECOND=0,59;BYSETPOS=1,2,3", "UTC"),
    ],
)
@pytest.mark.parametrize("opening", ["001500", "000000"])
def test_count_is_exact(rule, zone, opening):
    start = f"DTSTART;TZID={zone}:20130101T{opening}\nRRULE:{rule}"
    everyone = runs(start, 0, 900)
    for count in (1, 2, 7, 40, 333, 900):
        limited = parse(f"{start};COUNT={count}")
        last = everyone[count - 1]
        assert limited.next(last - 0.5) == last
        assert limited.next(last) is None


@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_count_is_exact_wherever_clocks_change(seed):
    pick = random.Random(seed)
    rule = pick_rule(pick)
    rule.count = rule.until = None
    if rule.zone == "Australia/Lord_Howe" and rule.freq == "HOURLY":
        return  # half an hour is repeated: a period that begins in it has no minute 0 of its own
    try:
        # A count that ends long after that is ignored.
        everyone = [due for due in runs(rule.text, float("-inf"), 60) if due is not None and due < 4.1e9]
        for rule.count in pick.sample(range(1, len(everyone) + 1), min(3, len(everyone))):
            assert list_until(rule.text, LAST) == everyone[: rule.count]
    except BadSchedule:
        return  # as it occurs too rarely, or its count is too high


def test_count_is_exact_after_decades():
    rule = parse("DTSTART;TZID=Europe/Berlin:19700101T090000\nRRULE:FREQ=MINUTELY;BYHOUR=9;COUNT=1234567")
    # 60 a day: 20,576 whole days and 7 minutes.
    end = local(datetime(1970, 1, 1, 9, 6) + timedelta(20576), "Europe/Berlin")
    assert rule.next(end - 1) == end
    assert rule.next(end) is None


def test_count_is_exact_or_refused():
    weekly = "DTSTART:19700101T090000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE;BYSETPOS=-1;COUNT="
    rule = weekly.partition("RRULE:")[2]
    assert parse(weekly + "3000").next(instant("2027-06-24T00:00:00")) == instant("2027-06-30T09:00:00")
    assert parse(weekly + "3000").next(instant("2027-06-30T09:00:00")) is None
    for text in (weekly, weekly.replace("1970", "2200")):
        with pytest.raises(BadSchedule, match=f"^bad rule '{rule}5000': its COUNT=5000 is too high to be counted$"):
            parse(text + "5000")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "it can never occur"),
        ("FREQ=DAILY;BYHOUR=9;BYSETPOS=2", "it can never occur"),
        ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", "it never occurs, or too rarely to find out when"),
        ("FREQ=MINUTELY;BYSETPOS=2", "it never occurs, or too rarely to find out when"),
    ],
)
@pytest.mark.parametrize("end", ["", ";COUNT=3"])
def test_what_never_occurs_is_refused(rule, why, end):
    with pytest.raises(BadSchedule, match=f"^bad rule '{rule}{end}': {why}$"):
        parse(f"DTSTART:20260101T000000Z\nRRULE:{rule}{end}")


@pytest.mark.parametrize("start", ["19700101", "99000101"])
@pytest.mark.parametrize("rule", ["RRULE:FREQ=YEARLY", "RRULE:FREQ=YEARLY;BYDAY=MO,TU;BYSETPOS=1"])
def test_a_count_that_the_calendar_does_not_reach_ends_nothing(start, rule):
    endless, late = f"DTSTART:{start}T090000Z\n{rule}", instant("9998-06-01T00:00:00")
    assert parse(f"{endless};COUNT=9000").next(late) == parse(endless).next(late) > late


def test_an_exception_is_left_in_one_jump():
    rule = parse(
        "DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY\nEXRULE:FREQ=SECONDLY;BYDAY=SA,SU\nEXRULE:FREQ=SECONDLY;BYHOUR=9"
    )
    assert rule.next(instant("2026-06-05T23:59:59")) == instant("2026-06-08T00:00:00")
    assert rule.next(instant("2026-06-08T08:59:59")) == instant("2026-06-08T10:00:00")


def test_an_exception_that_a_gap_moves_cancels_itself_only():
    # A gap from 00:01 to 03:01: 00:50 becomes 03:50, and 03:00 in the hour that begins at 03:15 becomes 06:00.
    start = "DTSTART;TZID=Antarctica/Casey:20201003T19"
    rule = parse(start + "0000\nRRULE:FREQ=HOURLY;BYMINUTE=50\nEXRULE:FREQ=HOURLY;BYMINUTE=50;BYHOUR=0")
    assert rule.next(instant("2020-10-03T15:50:00")) == instant("2020-10-03T17:50:00")
    dates = parse(start + "1500\nRDATE:20201004T050000,20201004T060000\nEXRULE:FREQ=HOURLY;BYMINUTE=0;BYHOUR=3")
    assert list_until(dates.text, LAST) == [instant("2020-10-03T18:00:00")]
    # A gap from 23:30 to 00:00: 23:59 becomes 00:29, which is not an occurrence of the exception.
    start = "DTSTART;TZID=Asia/Pyongyang:20180504T220000\n"
    rule = parse(f"{start}RRULE:FREQ=HOURLY;BYMINUTE=1,59\nEXRULE:FREQ=HOURLY;BYMINUTE=1,59;BYHOUR=0,1")
    assert rule.next(instant("2018-05-04T14:31:00")) == instant("2018-05-04T15:29:00")


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_date_in_a_long_exception_ends_nothing(seed):
    """Minute by minute, over a week and a half that begins on a Monday."""
    pick = random.Random(seed)
    start, names = int(instant("2026-11-30T00:00:00")), ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
    days, hours = pick.sample(range(7), pick.randrange(1, 6)), pick.sample(range(24), pick.randrange(1, 24))
    dates = [start + pick.randrange(15_000) * 60 + pick.choice((0, 30)) for _ in range(pick.randrange(1, 9))]
    text = f"DTSTART:20261130T000000Z\nRRULE:FREQ=MINUTELY\nRDATE:{write(dates)}"
    text += f"\nEXRULE:FREQ=MINUTELY;BYDAY={','.join(names[day] for day in days)}"
    text += f"\nEXRULE:FREQ=MINUTELY;BYHOUR={','.join(map(str, hours))}"

    def is_cancelled(due):
        minute = (due - start) // 60
        return due % 60 == 0 and (minute // 1440 % 7 in days or minute // 60 % 24 in hours)

    candidates = sorted({*range(start, start + 15_000 * 60, 60), *dates})
    assert list_until(text, start + 15_000 * 60 - 1) == [due for due in candidates if not is_cancelled(due)]
