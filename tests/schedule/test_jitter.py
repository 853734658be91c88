"""Jitter: each occurrence of a job is later by its share, which a hash of its id gives, in each version the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.schedule.jitter import add_jitter, compute_jitter
from redbike.schedule.parser import parse

MIDNIGHT, DAY = 1767225600.0, 86400.0


@pytest.mark.parametrize(
    ("jobid", "seconds", "share"),
    [
        ("job:A", 600, 390.904),
        ("job:B", 600, 229.4),
        ("caf\udce9:A", 3600, 276.298),
        ("x", 86400, 6062.71),
        ("job:A", 0.0015, 0.0),
    ],
)
def test_a_job_keeps_its_share_for_ever(jobid, seconds, share):
    assert compute_jitter(jobid, seconds) == share


@pytest.mark.parametrize("text", ["EVERY:1h@0.123456", "*/7 * * * *", "DTSTART:20200101T000000Z\nRRULE:FREQ=HOURLY"])
def test_a_spread_schedule_has_each_occurrence_later_by_its_share(text):
    base = parse(text)
    shares = {f"{n}:A": compute_jitter(f"{n}:A", 600) for n in range(200)}
    assert len(set(shares.values())) > 190
    assert min(shares.values()) < 30 < 570 < max(shares.values()) < 600
    due = [*base.list_due(MIDNIGHT, MIDNIGHT + DAY)]
    for jobid, share in shares.items():
        jittered, later = add_jitter(base, jobid, 600), [each + share for each in due]
        assert [*jittered.list_due(MIDNIGHT + share, MIDNIGHT + DAY + share)] == pytest.approx(later, abs=1e-5)
        assert jittered.count(MIDNIGHT + share, MIDNIGHT + DAY + share, 10**6) == len(due)


def test_a_spread_one_off_is_later_too_and_what_follows_no_clock_is_not():
    share = compute_jitter("job:A", 600)
    assert add_jitter(parse("AT:1000"), "job:A", 600).next(float("-inf")) == 1000 + share
    assert add_jitter(parse("AT:1000"), "job:A", 600).next(1000 + share) is None
    assert add_jitter(parse("AT:253402300409.096"), "job:A", 600).next(0) is None  # in the year 10000
    for text in ("NOW", "CONTINUE", "STOP", "AFTER:job:B"):
        assert add_jitter(parse(text), "job:A", 600) is parse(text)


@given(
    st.floats(0, 2e11) | st.floats(2**34 - 600, 2**34), st.sampled_from(["0.7", "1.001", "1h"]), st.integers(0, 1000)
)
def test_an_occurrence_comes_once_and_is_as_redis_keeps_it(anchor, period, number):
    schedule = add_jitter(parse(f"EVERY:{period}", anchor=anchor), f"{number}:A", 600)
    due = schedule.next(anchor)
    for _ in range(5):
        last, due = due, schedule.next(due)
        assert due == float(f"{due:.6f}")
        assert 0.5 * schedule.period < due - last < 1.5 * schedule.period


@pytest.mark.parametrize("text", ["AT:1", "IN:2h", "EVERY:1h", "FREQ=DAILY", "CRON_TZ=Asia/Tokyo @daily"])
def test_but_for_its_instants_it_is_the_same_schedule(text):
    base = parse(text, anchor=1e9)
    jittered = add_jitter(base, "job:A", 600)
    names = ("text", "timezone", "runs_once", "is_command", "period", "anchor_span", "label")
    assert [getattr(jittered, name) for name in names] == [getattr(base, name) for name in names]


def test_without_a_share_and_with_one_it_says_when_it_runs():
    assert add_jitter(parse("@daily"), "job:A", 0.0).explain() == parse("@daily").explain()
    for text in ("@daily", "EVERY:1d@0"):
        said = f"{parse(text).explain()} Each run is 390.904 s later."
        assert add_jitter(parse(text), "job:A", 600).explain() == said
