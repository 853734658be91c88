"""Every kind of schedule: what is accepted, how it is stored, and when it runs next."""

import re
from datetime import datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from redbike.errors import BadSchedule
from redbike.schedule.moments import MAX_TEXT
from redbike.schedule.parser import EveryHost, is_follower, parse, parse_stored
from redbike.schedule.zones import EPOCH_DAY
from tests.cases import instant, sections
from tests.exhaustive.compare import changes
from tests.schedule.walk import runs

NOON = instant("2026-06-01T12:00:00")
SECTIONS = [
    pytest.param(cases, id=f"{name}: {head}") for name in ("rrule", "cron", "choices") for head, cases in sections(name)
]
GOOD = [
    "NOW",
    "CONTINUE",
    "STOP",
    "AT:0",
    "AT:1700000000.25",
    "AT:2026-10-25T02:30",
    "AT:2026-10-25T02:30:00.5+02:00",
    "EVERY:900",
    "EVERY:15m",
    "EVERY:10000000000",
    "EVERY:1H30M",
    "EVERY:0.5@12.5",
    "EVERY:2d@2026-03-29T02:30",
    "*/5 9-17 * * mon-fri",
    "  0   0\t1 * ?  ",
    "H H(0-6) * * *",
    "H/15 * * * * H",
    "0 12 L,15W * 5#2,L1 0 2020-2090/7",
    "@daily",
    "0 9 * * *\nEXDATE:20200920T090000",
    "@WEEKLY",
    "CRON_TZ=Asia/Kathmandu 0 3 * * *",
    "cron_tz=UTC 0 3 * * *",
    "FREQ=DAILY",
    "rrule:freq=weekly;byday=mo,we",
    "RRULE:FREQ=MINUTELY;INTERVAL=7;BYHOUR=9",
    "DTSTART:20240101T090000\\nRRULE:FREQ=DAILY;COUNT=1000",
    "DTSTART:20240101T090000Z\r\nRRULE:FREQ=DAILY;UNTIL=20300101\r\n",
    "DTSTART;VALUE=DATE:20240101\nRRULE:FREQ=YEARLY\nEXDATE;VALUE=DATE:20270101\nRDATE:20270301",
    "RRULE:FREQ=HOURLY\nDTSTART;TZID=America/St_Johns:20240101T093000\nEXRULE:FREQ=HOURLY;INTERVAL=2",
    "DTSTART;TZID=Europe/Berlin:20240101T090000\nRDATE;TZID=Asia/Tokyo:20240105T090000,20240107T090000",
]
BAD_LINES = """
N | TOMORROW | NOW: | AT | AT: | AT:abc | AT:-1 | AT:nan | AT:inf | AT:1e400 | AT:٣ | AT:12345678901234567890
AT:1e3 | AT:2026-13-01 | AT:2026-02-30T00:00 | AT:1969-12-31T23:59:59Z | EVERY: | EVERY:0 | EVERY:-5 | EVERY:m
EVERY:15x | EVERY:1m1h | EVERY:.5s | EVERY:1.s | EVERY:0.0000001d | EVERY:0.0009s | EVERY:1.5e3s | EVERY:nan
EVERY:10000000001 | IN: | IN:soon | IN:-5 | IN:1e3 | IN:99999999999
EVERY:15m@ | EVERY:15m@nan | EVERY:99999999999999999999d | EVERY:٣m | EVERY:15m@-1 | * * * * | * * * * * * * *
60 * * * * | * 24 * * * | * * 0 * * | * * 32 * * | * * * 0 * | * * * 13 * | * * * * 9 | */0 * * * * | 5/0 * * * *
1-2-3 * * * * | -1 * * * * | 1, * * * * | , * * * * | a * * * * | * * * foo * | * * * * mon#0 | * * * * mon#6
* * * * #1 | * * 32W * * | * * W * * | ? * * * * | *-5 * * * * | R * * * * | R/5 * * * * | H(5-1) * * * *
H(0-60) * * * * | H/0 * * * * | Hi * * * * | @reboot | @often | 0 0 30 2 * | 0 0 31 4,6,9,11 * | * * 30 2 * *
0 0 * 2 mon#5 0 2021 | ٣ * * * * | CRON_TZ= | CRON_TZ=Europe/Berlin | CRON_TZ=Nowhere * * * * *
CRON_TZ=../../etc/passwd * * * * * | CRON_TZ=/etc/localtime * * * * * | CRON_TZ=localtime * * * * *
CRON_TZ=Europe * * * * * | RRULE: | FREQ= | RRULE:INTERVAL=2
FREQ=DAILY;BYHOUR= | FREQ=DAILY;BYDAY=XX | FREQ=DAILY;BYEASTER=0 | FREQ=DAILY;;
FREQ=DAILY;WKST=0 | FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30 | FREQ=DAILY;BYHOUR=9;BYSETPOS=2
FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30 | FREQ=HOURLY;INTERVAL=24;BYHOUR=5 | FREQ=SECONDLY;INTERVAL=60;BYSECOND=30
"""
BAD = [
    *re.split(r" \| |\n", BAD_LINES.strip()),
    "EVERY:1.5\u017f",
    "",
    " ",
    "\u0000",
    "* * * * *\u0000",
    "5" * 5000,
    "00000000061 * * * *",
    "0" * 9 + "9" * 5000 + " * * * *",
    "0-000000000999999999 * * * *",
    "* * * * * \u00a0",
    "DTSTART:2024\nRRULE:FREQ=DAILY",
    "DTSTART;TZID=../../../../etc/passwd:20240101T000000\nRRULE:FREQ=DAILY",
    "DTSTART;TZID=/etc/passwd:20240101T000000\nRRULE:FREQ=DAILY",
    "DTSTART:20240101T000000Z\nRRULE:FREQ=DAILY\nEXDATE:20240101",
    *(f"DTSTART:20240101\nRRULE:FREQ={rule}\nEXDATE:20240102" for rule in ("DAILY;BYHOUR=0,9", "HOURLY")),
    "FREQ=DAILY\nRDATE:never",
    "FREQ=DAILY;BYDAY=" + "MO," * 3000,
    "GROUP:Default",
    "ALL: all:0 3 * * *",
    "ALL:" * 2000 + "NOW",
]


@pytest.mark.parametrize("cases", SECTIONS)
def test_it_runs_when_independent_authorities_say(cases):
    wrong = []
    for case in cases:
        if case.bad:
            with pytest.raises(BadSchedule):
                parse(case.schedule)
            continue
        found = runs(case.schedule, case.after, len(case.expected))
        if found != list(case.expected):
            wrong.append((case.schedule, case.after, found, case.expected))
    assert wrong == []


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("timezone", ["UTC", "America/St_Johns"])
def test_what_is_stored_means_the_same_anywhere(text, timezone):
    schedule = parse(text, timezone, "fleet:7", NOON)
    # What is in UTC, the default, says so no more than it has to.
    again = parse(schedule.text, "UTC" if timezone == "UTC" else "Asia/Tokyo", "another", 3.0)
    zoned = schedule.with_zone()
    others = [again, parse_stored(schedule.text), zoned, parse(zoned.text, "Asia/Tokyo"), zoned.with_zone()]
    assert [each.text for each in others] == [schedule.text] * 2 + [zoned.text] * 3
    for name in ("is_immediate", "runs_once", "allows_pause", "timezone"):
        assert {getattr(each, name) for each in others} == {getattr(schedule, name)}
    after = 1_600_000_000.0
    for _ in range(20):
        due = schedule.next(after)
        assert {each.next(after) for each in others} == {due}
        assert due is None or due > after
        after = due if due is not None else after + 1e7


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("now", "NOW"),
        ("at:2026-06-01T12:00", "AT:2026-06-01T10:00:00Z"),
        ("at:1780000000", "AT:1780000000"),
        ("in:1h30M", "AT:1780320600"),
        ("IN: 0.5", "AT:1780315200.5"),
        ("every:15M", "EVERY:15m@1780315200"),
        ("EVERY:1.5S", "EVERY:1.5s@1780315200"),
        ("EVERY:1d0.5h", "EVERY:1d0.5h@1780315200"),
        ("every:15m@2026-06-01T12:00", "EVERY:15m@1780308000"),
        ("EVERY:15m@1000.50", "EVERY:15m@1000.50"),
        ("EVERY:15m@-0", "EVERY:15m@0"),
        ("0  3 * * MON", "CRON_TZ=Europe/Berlin 0 3 * * MON"),
        ("CRON_TZ=UTC 0 3 * * *", "CRON_TZ=UTC 0 3 * * *"),
        ("freq=daily", "DTSTART;TZID=Europe/Berlin:20260601T140000\nRRULE:FREQ=DAILY"),
        ("DTSTART:04760904T140000Z\\nfreq=daily", "DTSTART:04760904T140000Z\nRRULE:FREQ=DAILY"),
    ],
)
def test_it_is_stored_complete(text, stored):
    assert parse(text, "Europe/Berlin", "job", NOON).text == stored


@pytest.mark.parametrize("text", BAD)
def test_what_is_bad_is_refused_in_one_line_that_quotes_it(text):
    with pytest.raises(BadSchedule) as refused:
        parse(text)
    message = str(refused.value)
    assert message.startswith(("bad ", "unknown time zone"))
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize("text", [None, 5, b"NOW", ["NOW"], "\ud800", "* * * * *\udfff", "x" * (MAX_TEXT + 1)])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(BadSchedule, match="bad schedule"):
        parse(text)
    with pytest.raises(BadSchedule, match=r"bad schedule|unknown time zone"):
        parse("0 0 * * *", text)


def test_what_each_host_has_leaves_room_for_the_keyword():
    longest = "10,20 0 * * *" + "\nEXDATE:20260101" * 511
    with pytest.raises(BadSchedule, match=f"it has {MAX_TEXT + 1} bytes"):
        EveryHost.wrap(parse(longest))
    assert parse("NOW".ljust(MAX_TEXT)).text == "NOW"


@given(st.text(max_size=60) | st.text("NOWAT:EVRY0123456789*/,-#LWH@ \n;=DFREQ", max_size=60))
@settings(max_examples=300)
@example("EVERY:1e5")
@example("\x85FREQ=DAILY")
@example("\\N")
def test_no_text_raises_anything_else(text):
    try:
        schedule = parse(text)
    except BadSchedule:
        return
    assert parse(schedule.text).text == schedule.text
    due = schedule.next(NOON)
    assert due is None or due > NOON


DOCUMENTED = re.findall(
    r"^   \* - ``(.+)``\n     - (\S+)\n     - .+\n     - (.+(?:\n       .+)*)$",
    (Path(__file__).parents[2] / "docs" / "schedules.rst").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("text", "after", "expected"), DOCUMENTED)
def test_it_runs_where_clocks_change_as_documented(text, after, expected):
    wanted = [datetime.fromisoformat(run).timestamp() for run in expected.split()]
    assert runs(text, datetime.fromisoformat(after).timestamp(), len(wanted)) == wanted


def test_only_what_others_make_due_is_a_follower():
    texts = ("AFTER:a", "GROUP:a", "EVERY:1h@0", "@daily", "", None)
    assert [is_follower(text) for text in texts] == [True, True, False, False, False, False]


def test_parsed_schedules_are_kept():
    assert parse("*/5 * * * *", jobid="a", anchor=1.0) is parse("*/5 * * * *", jobid="b", anchor=2.0)
    for text in ("H * * * *", "ALL:H * * * *", "\\nH * * * *", "all:\\NH * * * *"):
        assert parse(text, jobid="a").text != parse(text, jobid="c").text


@pytest.mark.parametrize(
    ("text", "excluded"),
    [
        ("CRON_TZ=Asia/Tokyo 0 3,22 * * *", "\nEXDATE:20260601,20260602"),
        (
            "DTSTART;TZID=Asia/Tokyo:20260101T030000\nRRULE:FREQ=DAILY;BYHOUR=3,22",
            "\nEXDATE:20260601T030000,20260601T220000,20260602T030000,20260602T220000",
        ),
        ("DTSTART;TZID=Asia/Tokyo:20260101T030000\nRRULE:FREQ=YEARLY", ""),
        ("ALL:0 9 * * *", "\nEXDATE:20260601,20260602"),
    ],
)
def test_days_are_excluded_in_the_zone_of_the_schedule(text, excluded):
    days = [int(instant(f"2026-06-0{day}") // 86400) for day in (1, 2)]
    assert parse(text).exclude(days) == text + excluded
    assert parse(text + excluded).text == text + excluded


CHANGES = {name: changes(name)[:8] for name in ("Europe/Berlin", "America/Havana", "Asia/Gaza", "Africa/Cairo")}


@given(st.sampled_from(list(CHANGES)), st.data())
@settings(max_examples=30)
def test_excluded_days_lose_their_runs_and_no_other_day_does(name, data):
    zone = ZoneInfo(name)
    middle = datetime.fromtimestamp(data.draw(st.sampled_from(CHANGES[name])), zone).replace(tzinfo=None)
    first, around = (middle - timedelta(3)).date(), st.integers(1, 5)
    closed = data.draw(st.sets(around, min_size=1, max_size=3))
    rule = f"DTSTART;TZID={name}:{first:%Y%m%d}T000000\nRRULE:FREQ="
    for text in (
        f"CRON_TZ={name} 0,59 0,1,2,23 * * * 0,59",
        f"{rule}DAILY;BYHOUR=0,1,2,23;BYMINUTE=0,59;BYSECOND=0,59",
        f"{rule}HOURLY;BYMINUTE=0,59;BYSECOND=0,59",
    ):
        left = parse(parse(text).exclude((first + timedelta(day)).toordinal() - EPOCH_DAY for day in sorted(closed)))
        span = [datetime.combine(first + timedelta(day), time(), zone).timestamp() for day in (0, 6)]
        days = {due: (datetime.fromtimestamp(due, zone).date() - first).days for due in parse(text).list_due(*span)}
        assert [*left.list_due(*span)] == [due for due, day in days.items() if day not in closed]


def test_more_runs_cannot_be_excluded_than_a_text_holds():
    with pytest.raises(BadSchedule, match=r"bad schedule .*FREQ=MINUTELY': it has too many runs on these days"):
        parse("FREQ=MINUTELY").exclude([20000])


@pytest.mark.parametrize("text", ["NOW", "AT:0", "CONTINUE", "STOP", "EVERY:1d@0"])
def test_days_cannot_be_excluded_from_what_follows_no_calendar(text):
    with pytest.raises(BadSchedule, match=f"bad schedule '{text}': only cron and rules can leave out days"):
        parse(text).exclude([20000])
