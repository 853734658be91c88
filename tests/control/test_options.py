"""Changing the options of a job."""

import pytest

from redbike import BadJobId, NoSuchJob
from redbike.control.options import change_options
from redbike.schedule.jitter import compute_jitter
from redbike.store.processes import ProcessRecord
from tests.states import unchanged

JOB = "job:A"


@pytest.mark.parametrize("changes", [{"note": "new"}, {"data": 1}, {"jitter": 0.5}])
def test_a_job_that_is_unset_while_its_options_change_is_not_set_anew(bike, changes):
    bike.sync([(JOB, "EVERY:1h")], group="my.csv")
    with pytest.raises(NoSuchJob, match=f"no such job: '{JOB}'"):
        # Whoever hears that it is a row unsets it.
        change_options(bike.store, bike.settings, JOB, lambda _: bike.unset(JOB), **changes)
    assert bike.tell(JOB)["schedule"] is None
    assert list(bike.fsck()) == []


def test_a_job_that_redbike_sets_keeps_its_options(bike):
    entry = ProcessRecord(0.0, "worker", "web1", 1, ("work-A",), "1", for_host=True).format_entry()
    bike.store.workers.register("owner-web1", entry)
    bike.set("a:A@all", "@daily")
    bike.set(JOB, "@daily")
    bike.backfill(JOB, 1, 86400)
    for jobid in ("a:A@web1", f"{JOB}@1970-01-02T00:00:00Z"):
        with unchanged(bike.store), pytest.raises(BadJobId, match=f"bad job id '{jobid}'"):
            change_options(bike.store, bike.settings, jobid, print, note="new")


@pytest.mark.timeout(10)
def test_an_empty_record_of_options_counts_as_none(bike):
    bike.set(JOB, "EVERY:1h@0")
    bike.client.hset(bike.store.keys.options, JOB, "")
    assert bike.set(JOB, "EVERY:2h@0")
    assert bike.backfill(JOB, 1, 7200).dues == [7200]
    assert bike.set(JOB, "EVERY:2h@0", retries=3)
    assert bike.tell(JOB)["options"] == {"retries": 3}


@pytest.mark.parametrize("changes", [{"spread": "10m"}, {"retries": 3}])
def test_a_schedule_that_is_set_while_options_change_stays(bike, changes):
    bike.sync([(JOB, "0 3 * * *")], group="my.csv")
    change_options(bike.store, bike.settings, JOB, lambda _: bike.set(JOB, "30 5 * * *"), **changes)
    told = bike.tell(JOB)
    assert (told["schedule"], list(told["options"])) == ("30 5 * * *", list(changes))
    jitter = compute_jitter(JOB, 600) if "spread" in changes else 0
    assert told["next_run"] % 86400 == pytest.approx(5.5 * 3600 + jitter)
