"""The kinds of schedules that follow no calendar: NOW, AT, EVERY and their like, and instants as texts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.errors import BadSchedule
from redbike.schedule.after import After
from redbike.schedule.jitter import add_jitter
from redbike.schedule.kinds import Every
from redbike.schedule.moments import END_OF_TIME, parse_timestamp
from redbike.schedule.parser import parse
from tests.cases import instant
from tests.schedule.cost import is_short, measure
from tests.schedule.walk import runs

NOON = instant("2026-06-01T12:00:00")
RULE = "RRULE:FREQ=DAILY"


def test_now_is_due_when_it_is_set_and_no_more():
    assert parse("NOW").is_immediate
    assert parse("NOW").runs_once
    assert parse("NOW").next(0) is None
    assert parse("STOP").next(0) is None
    assert parse("CONTINUE").next(NOON) == math.nextafter(NOON, math.inf)
    assert parse("CONTINUE").allows_pause
    assert parse("AT:100").runs_once
    assert (parse("AT:100").next(99.9), parse("AT:100").next(100)) == (100, None)


def test_every_counts_from_its_anchor():
    assert runs("EVERY:15m@1000", 0, 2) == [1900, 2800]
    assert runs("EVERY:1h30m@0", 5400, 1) == [10800]
    assert runs("EVERY:1.5s@0", 0, 3) == [1.5, 3.0, 4.5]
    assert runs("EVERY:1.1h@0", 0, 1) == [3960.0]
    assert runs("EVERY:0.000001d@0", 0, 1) == [0.0864]
    assert parse("EVERY:15m", anchor=NOON).next(NOON) == NOON + 900
    assert parse("EVERY:1d@0").next(END_OF_TIME - 1) is None


def test_in_counts_from_when_it_is_set_up_to_the_end_of_the_calendar():
    assert parse("IN:90m", anchor=NOON).asked == "IN:5400"
    assert parse("IN:10", anchor=END_OF_TIME - 11).next(0) == END_OF_TIME - 1
    with pytest.raises(BadSchedule, match="bad schedule 'IN:10': that is after the year 9999"):
        parse("IN:10", anchor=END_OF_TIME - 10)


@pytest.mark.parametrize("jitter", [0, 600])
def test_the_instant_it_counts_from_does_not_make_another_schedule(jitter):
    texts = ["EVERY:15m", "EVERY:25m", "EVERY:1h", "ALL:EVERY:15m", "FREQ=DAILY", "FREQ=DAILY;COUNT=9", "@daily"]
    stored = [parse(text, anchor=1.1e9).text for text in texts]
    for text in texts:
        schedule = add_jitter(parse(text, anchor=2e9 + 7), "job:A", jitter)
        assert [text for text, each in zip(texts, stored, strict=True) if schedule.is_stored_as(each)] == [text]
        head, tail = schedule.anchor_span or (0, 0)
        assert schedule.text[head : len(schedule.text) - tail] in ("2000000007", "20330518T033327Z", "@daily")
    assert not parse("EVERY:15m@0").is_stored_as("EVERY:15m@1")


@pytest.mark.parametrize("keyword", ["", "ALL:"])
def test_a_period_is_the_same_however_it_is_written(keyword):
    texts = ["1h", "60m", "3600", "3600.0", "0h60M"]
    stored = [parse(f"{keyword}EVERY:{text}").text for text in texts]
    for schedule in (parse(f"{keyword}EVERY:{text}", anchor=NOON) for text in texts):
        assert [each for each in stored if not schedule.is_stored_as(each)] == []
        assert not any(schedule.is_stored_as(f"{keyword}EVERY:{text}@0") for text in ("61m", "x", "1hh"))
    assert not parse(f"{keyword}EVERY:60m@0").is_stored_as(f"{keyword}EVERY:1h@0")


LINES = st.lists(st.sampled_from(["RRULE:FREQ=HOURLY", "RRULE:FREQ=DAILY", "EXDATE:20260601T120000Z"]), max_size=3)


@given(st.sampled_from(["", "DTSTART:20260101T000000Z\n"]), LINES, LINES)
def test_a_rule_is_another_one_by_each_of_its_lines_but_the_start(start, before, lines):
    """Never because it merely begins or ends as the other one does."""
    old = parse(start + "\n".join((*before, RULE)), anchor=NOON)
    new = parse("\n".join((*lines, RULE)))
    assert new.is_stored_as(old.text) == (new.label == old.label)


@given(st.floats(0.001, 1e6), st.floats(0, 2e9), st.floats(0, 2e9))
def test_every_next_is_the_first_multiple(period, anchor, after):
    schedule = Every("", period, anchor)
    due = schedule.next(after)
    assert due is not None
    assert due > after
    assert due - period <= max(after, anchor) + 1e-5


@given(st.integers(1, 1000), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 500))
def test_every_counts_by_arithmetic_what_next_walks(period, anchor, after, more, limit):
    schedule = parse(f"EVERY:{period}@{anchor}")
    walked, due = 0, schedule.next(after)
    while due is not None and due <= after + more and walked < limit:
        walked, due = walked + 1, schedule.next(due)
    assert schedule.count(after, after + more, limit) == walked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("1700000000.5", 1700000000.5),
        ("2026-06-01T12:00:00Z", NOON),
        ("2026-06-01T14:00:00+02:00", NOON),
        ("2026-06-01T14:00", NOON),
        ("2026-06-01", NOON - 14 * 3600),
    ],
)
def test_timestamps_are_epoch_seconds_or_iso(text, expected):
    assert parse_timestamp(text, "Europe/Berlin") == expected


@pytest.mark.parametrize(
    "text", ["nan", "inf", "", "abc", "1" * 20, "1e400", "-1", "--1", "10000-01-01", "0001-01-01", None, 5]
)
def test_a_bad_timestamp_is_quoted(text):
    with pytest.raises(BadSchedule, match=r"bad timestamp .*: (epoch seconds or ISO 8601 is needed, such as 2|it )"):
        parse_timestamp(text)


@pytest.mark.parametrize("text", ["-1", "-0.5", "1969-12-31T23:59:59Z", "253402300800", "9" * 15])
def test_a_timestamp_that_is_too_early_or_late_is_told_so(text):
    with pytest.raises(BadSchedule, match=rf"bad timestamp '{text}': it is before 1970 or after 9999"):
        parse_timestamp(text)


@given(
    period=st.sampled_from(["0.1", "0.7", "1.001", "3.3", "86400.1", "1h0.3s", "0.001", "7"]),
    anchor=st.floats(1e9, 2e9),
    steps=st.integers(0, 10**6),
)
def test_every_goes_on_from_instants_as_redis_keeps_them(period, anchor, steps):
    """With six decimals: no occurrence comes twice, none is left out, and the count agrees."""
    every = parse(f"EVERY:{period}@{anchor:.6f}")
    first = due = float(f"{every.next(every.anchor + steps * every.period):.6f}")
    for number in range(1, 6):
        later = every.next(due)
        assert 0.5 * every.period < later - due < 1.5 * every.period
        due = float(f"{later:.6f}")
        assert every.count(first, due, 100) == number
        assert every.count(first, due - 0.0001, 100) == number - 1
        assert every.next(math.nextafter(later, 0)) == later


@pytest.mark.parametrize("text", ["AT:1800000000.123456789", "AT:1800000000.1234564", "AT:1800000000.9999999"])
def test_at_comes_once_also_as_redis_keeps_it(text):
    schedule = parse(text)
    due = float(f"{schedule.next(0):.6f}")
    assert due == pytest.approx(float(text.removeprefix("AT:")), abs=1e-6)
    assert schedule.next(due) is None


def test_blanks_behind_an_id_cost_next_to_nothing():
    found = []
    costs = (measure(lambda: found.append(After.parse(f"a{' ' * 20_000}ok", "UTC", 0.0))) for _ in range(3))
    assert any(map(is_short, costs))
    assert found[0].text == "AFTER:a"
