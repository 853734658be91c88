"""A job that is overdue on the timeline, as no dispatcher has enqueued it: what another schedule drops is counted."""

import time

import pytest

from redbike import Redbike, RoundRobin
from tests.verbs import set_job

JOB = "job:A"


@pytest.fixture(params=[1, 4])
def bike(request, client, prefix):
    with Redbike(RoundRobin("A"), prefix, client, shards=request.param) as bike:
        first = int(time.time()) - 2500
        set_job(bike.store.find_shard(JOB).at(first - 1), JOB, f"EVERY:1000s@{first}", first)
        yield bike


@pytest.mark.parametrize("schedule", ["EVERY:1h", "STOP", "AT:2100-01-01", "AFTER:other:A"])
def test_what_another_schedule_drops_is_withdrawn(bike, schedule):
    bike.set(JOB, schedule)
    assert bike.tell(JOB)["skipped"] == {"withdrawn": 1}
    assert list(bike.fsck()) == []
    bike.set(JOB, "EVERY:2h")
    assert bike.tell(JOB)["skipped"] == {"withdrawn": 1}, "it is not overdue any more"


@pytest.mark.parametrize("schedule", ["NOW", "AT:1000", "CONTINUE"])
def test_nothing_is_withdrawn_if_the_job_is_due_by_its_new_schedule(bike, schedule):
    bike.set(JOB, schedule)
    assert "skipped" not in bike.tell(JOB)


def test_what_is_counted_as_missed_is_not_withdrawn_too(bike):
    [(_, text)] = bike.get_schedules()
    bike.set(JOB, text, after=time.time() - 2600, catchup="none")
    assert list(bike.tell(JOB)["skipped"]) == ["missed"]
