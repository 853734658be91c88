"""Backfills beside what the policies of a job still run, compared with what has run in the end."""

import time
from contextlib import suppress
from itertools import product

import pytest

from redbike import BadConfig
from redbike.loop.policies import decide_lost
from tests.control.test_following import HOUR, HOURLY, START, make
from tests.queries.rehearsal.test_rehearsal import end_all, live, take

# What happens to the job, and behind a bar while it runs.
STEPS = {
    "paused": "pause 16000",
    "paused in its queue": "3600 dispatch pause 12000",
    "overdue": "16000",
    "waiting": "3600 dispatch 12000",
    "asked for": "7300 run 9000",
    "queue paused": "queue 3600 dispatch 12000",
    "everything paused": "everything 16000",
    "running": "3600 dispatch | 12000",
    "running late": "3600 dispatch 8000 | 4000",
    "running, paused": "3600 dispatch 4000 | 100 pause 8000",
    "running, asked for": "3600 dispatch | 4000 run 8000",
    "running, lost": "3600 dispatch | 12000",
}


@pytest.mark.parametrize(("catchup", "overlap"), [*product(["all", "last", "none"], ["skip", "queue"])])
@pytest.mark.parametrize("name", STEPS)
def test_each_occurrence_runs_once(redbike, name, catchup, overlap):
    bike, ran = make(redbike, show=lambda run: (run.due - START) / HOUR)
    bike.set("a", HOURLY, catchup=catchup, catchup_limit=3, overlap=overlap)
    before, bar, after = STEPS[name].partition("|")
    live(bike, before, "a")
    flying = [take(bike)] if bar else []
    live(bike, after, "a")
    backfill(bike)
    bike.resume("a"), bike.resume_queue("A"), bike.resume_all()
    if "lost" in name:
        bike.store.at(bike.now).runs.end(flying[0], decide_lost(flying[0], bike.settings, bike.now))
    else:
        ran += [(run.due - START) / HOUR for run in flying]
        end_all(bike, flying)
    bike.run_due()
    # Nobody knew how the run would end.
    may_leave = flying and (catchup == "all" or overlap == "queue" or "paused" in name)
    assert backfill(bike) == 0 or may_leave
    bike.run_due()
    assert sorted(hour for hour in ran if hour.is_integer()) == [1, 2, 3, 4]
    assert list(bike.fsck()) == []


def backfill(bike):
    """Run all that is past of the job; return how many occurrences that are."""
    with suppress(BadConfig):
        return len(bike.backfill("a", START + HOUR, bike.now).dues)
    return 0


def test_a_short_range_costs_little_however_much_the_job_still_has_to_run(redbike):
    bike, _ = make(redbike)
    bike.set("a", f"EVERY:1s@{START}", catchup="all", catchup_limit=10_000, after=START)
    live(bike, "pause 5000000", "a")
    begun = time.process_time()
    found = bike.backfill("a", START - 20, START + 10, dry_run=True)
    assert len(found.dues) + found.busy == 10
    assert time.process_time() - begun < 5.0
