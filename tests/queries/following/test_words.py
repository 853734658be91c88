"""What `why` says of a follower: for which parents it waits, and what each of them does."""

from datetime import UTC, datetime

import pytest

from tests.loops import raising
from tests.queries.following.test_coming import HOUR, START, One, make

TODAY = datetime.fromtimestamp(START, UTC).date().isoformat()
ETL = {"extract:etl": "0 3 * * *", "load:etl": "AFTER:extract:etl"}


@pytest.mark.parametrize(
    ("world", "prepare", "jobid", "said"),
    [
        (ETL, None, "load:etl", "It waits for extract:etl, which is due at {} 03:00:00 UTC, in 3 h."),
        (ETL, lambda bike: bike.pause("extract:etl"), "load:etl",
         "It waits for extract:etl, which is paused until somebody resumes it."),
        (ETL, lambda bike: bike.run("extract:etl"), "load:etl",
         "It waits for extract:etl, which is due since {} 00:00:00 UTC and waits in work-A."),
        (ETL, lambda bike: bike.unset("extract:etl"), "load:etl", "It waits for extract:etl, which is no job."),
        (ETL, lambda bike: bike.set("extract:etl", "STOP"), "load:etl",
         "It waits for extract:etl, which is stopped or has run out, so it never succeeds."),
        (ETL | {"end": "AFTER:load:etl any"}, None, "end",
         "It waits for the end of load:etl, which waits for extract:etl, which is due at {} 03:00:00 UTC, in 3 h."),
        ({"a": "0 3 * * *", "b": "0 1 * * *", "c": "AFTER:a,b"}, None, "c",
         "waits for a, which is due at {} 03:00:00 UTC, in 3 h, and for b, which is due at {} 01:00:00 UTC, in 1 h."),
        ({"a": "0 9 * * *", "b": "0 1 * * *", "c": "AFTER:a,b"}, lambda bike: bike.run_due(START + 2 * HOUR), "c",
         "It waits for a, which is due at {} 09:00:00 UTC, in 7 h; b has ended already."),
        ({f"p{n}": "STOP" for n in range(9)} | {"c": "AFTER:" + ",".join(f"p{n}" for n in range(9))}, None, "c",
         "It waits for p0, p1, p2, p3, p4 and 4 more, each of which is stopped or has run out, so it never succeeds."),
        ({f"p{n}": f"{n} 3 * * *" for n in range(9)} | {"c": "AFTER:" + ",".join(f"p{n}" for n in range(9))}, None, "c",
         ", which is due at {} 03:04:00 UTC, in 3 h 4 min, and 4 more."),
        ({"r": "0 3 * * *", "a": "AFTER:r", "b": "AFTER:r", "c": "AFTER:r", "d": "AFTER:a,b,c any"}, None, "d",
         "It waits for the end of a, b and c, each of which waits for r, which is due at {} 03:00:00 UTC, in 3 h."),
    ],
)  # fmt: skip
def test_why_says_what_each_parent_does(redbike, world, prepare, jobid, said):
    bike = make(redbike, world)
    if prepare:
        prepare(bike)
    assert bike.why(jobid).endswith(said.replace("{}", TODAY))


@pytest.mark.parametrize(
    ("hold", "said"),
    [
        (lambda bike: bike.pause("extract:etl", every="0 2 * * *", lasting="2h"), "paused then until {} 04:00:00 UTC."),
        (lambda bike: bike.pause_queue("A"), "its queue is paused then until somebody resumes it."),
        (lambda bike: bike.pause_all(until=START + 4 * HOUR), "everything is paused then until {} 04:00:00 UTC."),
        (lambda bike: bike.pause("extract:etl", every="0 1 * * *", lasting="2h"), None),
        (lambda bike: bike.pause_queue("A", until=START + 3 * HOUR), None),
        (lambda bike: bike.pause_queue("B"), None),
    ],
)  # fmt: skip
def test_why_says_that_a_parent_is_held_when_it_is_due(redbike, hold, said):
    bike = make(redbike, ETL | {"end": "AFTER:load:etl"})
    hold(bike)
    due = f"extract:etl, which is due at {TODAY} 03:00:00 UTC, in 3 h"
    held = f", and {said.replace('{}', TODAY)}" if said else "."
    assert bike.why("load:etl") == f"It waits for {due}{held}"
    assert bike.why("end") == f"It waits for load:etl, which waits for {due}{held}"


def test_why_says_that_a_parent_waits_in_a_queue_that_is_paused(redbike):
    bike = make(redbike, ETL)
    bike.run("extract:etl")
    bike.pause_queue("A", until=START + HOUR)
    waits = f"extract:etl, which is due since {TODAY} 00:00:00 UTC and waits in work-A"
    assert bike.why("load:etl") == f"It waits for {waits}, and its queue is paused until {TODAY} 01:00:00 UTC."


def test_a_parent_that_failed_for_good_is_told_of(redbike):
    bike = redbike(One(raising(OSError("it broke"))), now=START, on_error="stop")
    for jobid, schedule in (ETL | {"rescue": "AFTER:extract:etl failed"}).items():
        bike.set(jobid, schedule)
    bike.run_due(START + 4 * HOUR, reraise=False)
    assert bike.why("load:etl") == "It waits for extract:etl, which has failed for good, so it never succeeds."


def test_a_parent_that_is_to_be_retried_is_tried_again(redbike):
    bike = redbike(One(raising(OSError("it broke"))), now=START, retries=3, backoff=3600.0)
    for jobid, schedule in ETL.items():
        bike.set(jobid, schedule)
    bike.run_due(START + 3.5 * HOUR, reraise=False)
    assert bike.why("load:etl").startswith("It waits for extract:etl, which is tried again at ")


def test_an_instant_that_is_past_is_told_by_the_runs(redbike):
    bike = make(redbike, ETL)
    bike.run_due(START + 4 * HOUR)
    assert "It follows other jobs, and Redbike keeps no run of it" in bike.why("load:etl", at=START + HOUR)
    assert bike.why("load:etl", at=START + 4 * HOUR).startswith("It ran: due")


def test_a_follower_that_waits_in_its_queue_or_is_paused_says_that(redbike):
    bike = make(redbike, ETL)
    bike.run("load:etl")
    assert "waits in work-A" in bike.why("load:etl")
    bike.pause("load:etl")
    assert bike.why("load:etl").startswith("It is paused")
