"""Jitter: each occurrence of a job is later by its share, which a hash of its id gives, in each version the same."""

import pytest

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
    for jobid, share in shares.items():
        jittered, due, after = add_jitter(base, jobid, 600), MIDNIGHT, MIDNIGHT
        for _ in range(5):
            due, after = base.next(due), jittered.next(after) if after != MIDNIGHT else jittered.next(due + share - 1)
            if after < due + share - 1:
                continue
            # As Redis keeps it, and never the same again.
            after = float(f"{after:.6f}")
            assert after == pytest.approx(due + share, abs=1e-5)
        assert jittered.count(MIDNIGHT + share, MIDNIGHT + DAY + share, 10**6) == base.count(
            MIDNIGHT, MIDNIGHT + DAY, 10**6
        )


def test_a_spread_one_off_is_later_too_and_what_follows_no_clock_is_not():
    share = compute_jitter("job:A", 600)
    assert add_jitter(parse("AT:1000"), "job:A", 600).next(float("-inf")) == 1000 + share
    assert add_jitter(parse("AT:1000"), "job:A", 600).next(1000 + share) is None
    for text in ("NOW", "CONTINUE", "STOP"):
        assert add_jitter(parse(text), "job:A", 600).next(5.0) == parse(text).next(5.0)


def test_without_a_share_and_with_one_it_says_when_it_runs():
    assert add_jitter(parse("@daily"), "job:A", 0.0).explain() == parse("@daily").explain()
    assert add_jitter(parse("@daily"), "job:A", 600).explain().endswith("Each run is 390.904 s later.")
