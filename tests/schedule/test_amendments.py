"""Cron with holidays: an expression that lines of EXDATE and RDATE amend."""

import random
from binascii import crc32
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike.errors import BadSchedule
from redbike.schedule.moments import MAX_TEXT
from redbike.schedule.parser import parse
from tests.cases import instant
from tests.exhaustive import compare
from tests.exhaustive.oracle import instant as local
from tests.schedule.cost import is_short, most_of_a_step
from tests.schedule.walk import runs

BERLIN = "CRON_TZ=Europe/Berlin "
CHRISTMAS = "EXDATE;VALUE=DATE:20261225,20261226"
HASHED = crc32(b"fleet:7") % 60
ZONED = [f"\nRDATE;TZID=Etc/GMT{hours:+}:20270101T090000" for hours in range(-8, 9)]


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        # Days, in the zone of the expression.
        (f"0 9 * * *\\n{CHRISTMAS}\\n", "2026-12-24T08:00", "2026-12-24T09:00 2026-12-27T09:00"),
        (f"{BERLIN}30 0 * * *\r\n{CHRISTMAS}", "2026-12-23T23:00", "2026-12-23T23:30 2026-12-26T23:30"),
        ("* * * * * */30\nEXDATE:20261225", "2026-12-24T23:59", "2026-12-24T23:59:30 2026-12-26T00:00"),
        # Times: that run and no other.
        ("0 9 * * *\nEXDATE:20261225T090001", "2026-12-24T17:00", "2026-12-25T09:00"),
        (f"{BERLIN}0 9 * * *\nEXDATE;TZID=Asia/Tokyo:20261225T170000", "2026-12-24T17:00", "2026-12-26T08:00"),
        # Instants that are added.
        ("0 9 * * *\nRDATE:20261225T090000", "2026-12-25T00:00", "2026-12-25T09:00 2026-12-26T09:00"),
        ("0 9 * * 1\nRDATE;VALUE=PERIOD:20261225T120000Z/PT1H", "2026-12-24T00:00", "2026-12-25T12:00"),
        # EXDATE prevails.
        ("0 9 * * 1\nRDATE:20261225T120000\nEXDATE:20261225T120000", "2026-12-24T00:00", "2026-12-28T09:00"),
        ("0 9 * * 1\nRDATE:20261225T120000\nEXDATE:20261225", "2026-12-24T00:00", "2026-12-28T09:00"),
        # A gap: a time in it is the run that the expression has for it.
        (f"{BERLIN}30 2 * * *\nEXDATE:20260329T023000", "2026-03-28T12:00", "2026-03-30T00:30"),
        (f"{BERLIN}30 2 * * *\nEXDATE:20260329T030000", "2026-03-28T12:00", "2026-03-30T00:30"),
        (f"{BERLIN}30 2 * * *\nEXDATE:20260329T033000", "2026-03-28T12:00", "2026-03-29T01:00"),
        (f"{BERLIN}30 2 * * *\nEXDATE:20260329T021500", "2026-03-28T12:00", "2026-03-29T01:00"),
        (f"{BERLIN}30 2,3 * * *\nEXDATE:20260329T023000", "2026-03-28T12:00", "2026-03-29T01:30"),
        (f"{BERLIN}*/30 * * * *\nEXDATE:20260329T023000", "2026-03-29T00:59", "2026-03-29T01:00 2026-03-29T01:30"),
        (f"{BERLIN}30 2 * * *\nEXDATE:20260329", "2026-03-28T12:00", "2026-03-30T00:30"),
        (f"{BERLIN}0 9 * * *\nRDATE:20260329T023000", "2026-03-28T12:00", "2026-03-29T01:30 2026-03-29T07:00"),
        ("CRON_TZ=America/Nuuk 30 23 * * *\nEXDATE:20260328", "2026-03-28T12:00", "2026-03-30T00:30"),
        # A repeated hour: its first time. The second one needs a time in UTC.
        (f"{BERLIN}30 2 * * *\nEXDATE:20261025T023000", "2026-10-24T12:00", "2026-10-26T01:30"),
        (f"{BERLIN}*/30 * * * *\nEXDATE:20261025T023000", "2026-10-25T00:00", "2026-10-25T01:00 2026-10-25T01:30"),
        (f"{BERLIN}*/30 * * * *\nEXDATE:20261025T013000Z", "2026-10-25T00:00", "2026-10-25T00:30 2026-10-25T01:00"),
        ("CRON_TZ=America/Havana */30 0 * * *\nEXDATE:20241103", "2024-11-02T12:00", "2024-11-04T05:00"),
        # A year that ends.
        ("0 9 25 12 * 0 2026-2027\nEXDATE:20261225", "2026-01-01T00:00", "2027-12-25T09:00 end"),
    ],
)
def test_it_runs_but_for_those_dates(text, after, expected):
    wanted = [None if run == "end" else instant(run) for run in expected.split()]
    assert runs(text, instant(after), len(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (f"0 9 * * *\\n{CHRISTMAS}", f"{BERLIN}0 9 * * *\nEXDATE:20261225,20261226"),
        ("h 1 * * *\nexdate:20261225t090000z", f"{BERLIN}{HASHED} 1 * * *\nEXDATE:20261225T090000Z"),
        ("CRON_TZ=UTC @daily" + "".join(ZONED[:16]), None),
    ],
)
def test_it_is_stored_complete(text, stored):
    schedule = parse(text, "Europe/Berlin", "fleet:7")
    assert schedule.text == (stored or text)
    again = parse(schedule.text, "Asia/Tokyo", "another")
    assert again.text == schedule.text
    assert [again.next(due) for due in range(1798000000, 1800000000, 7200)] == [
        schedule.next(due) for due in range(1798000000, 1800000000, 7200)
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 9 * * *\nFOO:1", "bad schedule: 'FOO:1' is not an EXDATE or RDATE"),
        ("0 9 * * *\n0 17 * * *", "bad schedule: '0 17 * * *' is not an EXDATE or RDATE"),
        ("0 9 * * *\nEXDATE:", "'' in 'EXDATE:' is no date"),
        ("0 9 * * *\nEXDATE:20260230", "'20260230' in 'EXDATE:20260230' is no date"),
        ("0 9 * * *\nEXDATE:20261225;20261226", "is no date"),
        ("0 9 * * *\nEXDATE;FOO=1:20261225", "'FOO=1' is not allowed"),
        ("0 9 * * *\nEXDATE;TZID=Nowhere:20261225T090000", "unknown time zone 'Nowhere'"),
        ("0 9 * * *\nEXDATE;TZID=Asia/Tokyo:20261225", "a date in 'EXDATE;TZID=Asia/Tokyo:20261225' must be in"),
        ("0 9 * * *\nRDATE;VALUE=DATE:20261225", "each date in 'RDATE;VALUE=DATE:20261225' needs a time of day"),
        ("0 9 25 12 * 0 2026\nEXDATE:20261225", "bad cron '0 9 25 12 * 0 2026': its EXDATE leaves nothing"),
        ("0 9 25 12 * 0 2026\nEXDATE:20261225T090000", "its EXDATE leaves nothing, it can never run"),
        ("0 0 30 2 *\nRDATE:20261225T120000", "there is no such day"),
        ("@daily" + "".join(ZONED), "bad cron '@daily': its dates have more than 16 time zones"),
        ("EXDATE:20261225\n0 9 * * *", "no keyword, cron expression or rule"),
        ("0 9 * * *\nRRULE:FREQ=DAILY", "bad rule"),
    ],
)
def test_what_is_bad_is_refused_in_one_line_that_quotes_it(text, message):
    with pytest.raises(BadSchedule) as refused:
        parse(text)
    assert message in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 9 * * *\nEXDATE:29991225", "day, but not on Wednesday, 25 December 2999, UTC time."),
        (
            f"{BERLIN}0 9 * * *\nEXDATE:20261225T080000Z\nRDATE:20261224T120000Z",
            "every day, but not on Friday, 25 December 2026 at 09:00, "
            "and also on Thursday, 24 December 2026 at 13:00, Europe/Berlin time.",
        ),
        (
            f"0 9 * * *\nEXDATE:{','.join(f'202612{day}' for day in range(20, 32))}",
            "every day, but not on 12 dates, UTC time.",
        ),
    ],
)
def test_it_says_so_in_words(text, words):
    assert parse(text).explain().endswith(words)


def test_the_complete_text_is_no_longer_than_a_text_may_be():
    dates = ",".join(f"{date(2026, 1, 1) + timedelta(day):%Y%m%d}" for day in range(908))
    text = f"0 9 * * *\nEXDATE:{dates}"
    assert MAX_TEXT - 12 < len(text) <= MAX_TEXT
    with pytest.raises(BadSchedule, match="8192 are allowed"):
        parse(text, "Europe/Berlin")
    with pytest.raises(BadSchedule, match="8192 are allowed"):
        parse(text).with_zone()


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Asia/Gaza"]
EXPRESSIONS = ["30 2 * * *", "0,30 0-3 * * *", "*/30 * * * *", "0 */3 * * *", "15 1 * * * 0,30", "0 0 * * 6,0"]
WEEK = 7 * 86400


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 100), marks=pytest.mark.nightly)])
def test_it_is_the_plain_expression_without_and_with_these_instants(name, seeds):
    """Also in the week of a clock change; dates in a gap are in the table above."""
    for seed in seeds:
        compare_with_the_plain_expression(name, EXPRESSIONS[seed % len(EXPRESSIONS)], random.Random(f"{name} {seed}"))


def compare_with_the_plain_expression(name: str, expression: str, pick: random.Random) -> None:
    zone = ZoneInfo(name)
    middle = pick.choice(compare.changes(name) or [1_790_000_000])
    start = middle // 60 * 60 - WEEK // 2
    plain = runs(f"CRON_TZ={name} {expression}", start - 1, 700)
    plain = [due for due in plain if due is not None and due < start + WEEK]
    days = {datetime.fromtimestamp(start + pick.randrange(WEEK), zone).date() for _ in range(pick.randrange(3))}
    dropped = set(pick.sample(plain, pick.randrange(min(9, len(plain)))))
    added = {start + pick.randrange(WEEK // 900) * 900 for _ in range(pick.randrange(4))} - dropped
    lines = [f"EXDATE;VALUE=DATE:{day:%Y%m%d}" for day in days]
    lines += [f"EXDATE:{write(due, zone, pick)}" for due in dropped]
    lines += [f"RDATE:{write(due, zone, pick)}" for due in added]
    pick.shuffle(lines)
    expected = [
        due
        for due in sorted({*plain, *added})
        if due not in dropped and datetime.fromtimestamp(due, zone).date() not in days
    ]
    text = "\n".join((f"CRON_TZ={name} {expression}", *lines))
    found = [due for due in runs(text, start - 1, len(expected) + 1) if due is not None and due < start + WEEK]
    assert found == expected, text


def write(due: float, zone: ZoneInfo, pick: random.Random) -> str:
    """The text of an instant, in UTC, or on the wall clock if that means it."""
    wall = datetime.fromtimestamp(due, zone).replace(tzinfo=None, fold=0)
    if pick.random() < 0.5 and local(wall, str(zone)) == due:
        return f"{wall:%Y%m%dT%H%M%S}"
    return f"{datetime.fromtimestamp(due, UTC):%Y%m%dT%H%M%SZ}"


def list_dates(expression: str, number: int, form: str) -> str:
    """The next runs of an expression, as EXDATE has them."""
    found = runs(expression, 1.79e9, number)
    return ",".join(datetime.fromtimestamp(due, UTC).strftime(form) for due in found if due is not None)


HOSTILE = [
    *(
        f"CRON_TZ={zone} {expression}\n{name}:{list_dates(expression, number, form)}"
        for zone in ("Europe/Berlin", "Africa/Casablanca")
        for expression in ("0 12 29 2 *", "0 12 * 3 sun#5", "* * * * * *")
        for name, form, number in (
            ("EXDATE", "%Y%m%d", 880),
            ("EXDATE", "%Y%m%dT%H%M%S", 495),
            ("RDATE", "%Y%m%dT%H%M%SZ", 460),
        )
    ),
    "0 12 * * *\n" + "EXDATE:20261225\n" * 500,
    "0 12 * * *\nEXDATE:" + "20261225,20261227," * 440 + "20261225",
    "0 12 * * *\n" + "".join(f"EXDATE;TZID=Etc/GMT+{n % 12}:202612{10 + n}T120000\n" for n in range(20)),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:60].replace("\n", " "))
def test_no_text_takes_long(text):
    assert len(text) <= MAX_TEXT
    # The first round also finds out when clocks change in a zone, which is kept for all other schedules in it.
    assert any(is_short(most_of_a_step(text)) for _ in range(8))
