"""A croniter means the same instants as the expression that is made of it."""

import random
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, CroniterError, croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from redbike import BadSchedule
from redbike.schedule.objects import format_schedule
from redbike.schedule.parser import parse

START = datetime(2030, 1, 15, 9, 37, 15, tzinfo=UTC)
VALUES = (
    ("*", "*/7", "0", "5,35", "*,5", "10-50/15", "h", "h/15", "r(0-29)"),
    ("*", "*/6", "3", "8-17", "22-2", "h(0-3)"),
    ("*", "?", "1", "*/10", "13,27", "l", "15w", "1,l", "h"),
    ("*", "*/3", "2", "jan-mar", "nov-feb"),
    ("*", "?", "1", "mon-fri", "*/2", "0,7", "5#2", "l3", "sat-mon", "h", "mon,*"),
    ("*/20", "0", "7,8"),
    ("*", "2030-2035", "2031/2"),
)


@st.composite
def crons(draw):
    chosen = random.Random(draw(st.integers(0, 10**9)))
    texts = [chosen.choice(field) for field in VALUES[: chosen.choice([5, 5, 5, 6, 7])]]
    options = {
        "day_or": chosen.random() < 0.8,
        "implement_cron_bug": chosen.random() < 0.3,
        "second_at_beginning": chosen.random() < 0.3,
        "expand_from_start_time": chosen.random() < 0.3,
        "hash_id": "job:A",
        "max_years_between_matches": 20,
    }
    if options["second_at_beginning"] and len(texts) > 5:
        texts.insert(0, texts.pop(5))
    return " ".join(texts), options


@given(crons())
@settings(max_examples=100)
def test_it_is_stored_with_the_same_instants_or_refused(given_):
    expression, options = given_
    try:
        cron = croniter(expression, START, **options)
        text = format_schedule(cron, "UTC")
        schedule = parse(text)
    except (CroniterError, BadSchedule):
        return
    due = START.timestamp()
    for _ in range(25):
        try:
            expected = cron.get_next(float)
        except CroniterBadDateError:
            return
        due = schedule.next(due)
        assert due == expected, text


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        (croniter("*/15 8-17 * * mon-fri"), "*/15 8-17 * * mon-fri"),
        (croniter("@daily"), "0 0 * * *"),
        (croniter("0 0 15w * *"), "0 0 15w * *"),
        (croniter("0 0 1,l * *"), "0 0 1,l * *"),
        (croniter("0 0 * * 5#2,l3"), "0 0 * * 5#2,l3"),
        (croniter("0 0 * * * 0 2030-2035"), "0 0 * * * 0 2030-2035"),
        # Values that are those of another job's id are listed.
        (croniter("h 0 15w * *", hash_id="x"), "3 0 15w * *"),
        (croniter("h 0 * * 5#2,l3,1#1", hash_id="x"), "3 0 * * 1#1,l3,5#2"),
        (croniter("30 0 3 * * *", second_at_beginning=True), "0 3 * * * 30"),
        (croniter("0 0 1 * */2"), "0 0 1 * 0,2,4,6"),
        (croniter("0 0 1 * */2", implement_cron_bug=True), "0 0 1 * */2"),
        (croniter("0 0 */2 * 1", day_or=False), "0 0 */2 * 1"),
        (croniter("*/20 * * * *", START, expand_from_start_time=True), "CRON_TZ=UTC 17,37,57 * * * *"),
        (croniter("0 3 * * *", START.astimezone(ZoneInfo("Europe/Berlin"))), "CRON_TZ=Europe/Berlin 0 3 * * *"),
        (croniter("0 3 * * *", datetime(2030, 1, 1)), "0 3 * * *"),
        (croniter("0 3 * * *", 1e9), "0 3 * * *"),
    ],
)
def test_it_is_stored_as_it_was_written_where_that_means_the_same(cron, text):
    assert format_schedule(cron, "UTC") == text


def test_hashed_values_are_those_of_its_hash_id_not_of_the_job():
    cron = croniter("H H * * *", START, hash_id="report")
    schedule = parse(format_schedule(cron, "UTC"), jobid="job:A")
    assert schedule.next(START.timestamp()) == cron.get_next(float)
    assert format_schedule(croniter("r(7-8) 0 * * *"), "UTC") in ("7 0 * * *", "8 0 * * *")


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        (croniter("0 0 1 * 1", day_or=False), r"bad schedule '0 0 1 \* 1' of a croniter: no cron expression has"),
        (croniter("0 0 1 * 5#2"), "no cron expression has the same days"),
        (croniter("0 0 15w * 1"), "no cron expression has the same days"),
        (croniter("0 0 * * *", START.astimezone(timezone(timedelta(hours=2)))), "has no IANA name"),
        (croniter("*,5 3 * * *"), r"bad schedule '\*,5 3 \* \* \*' of a croniter: '\*' must stand alone"),
        (croniter("0 3 1 * mon,*"), r"'\*' must stand alone in its field"),
    ],
)
def test_what_no_expression_says_is_refused(cron, said):
    with pytest.raises(BadSchedule, match=said):
        format_schedule(cron, "UTC")
