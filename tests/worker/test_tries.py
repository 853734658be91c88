"""The tries of an occurrence: what ``raise Again(after=seconds)`` asks for, which is no failure, and the key of a run.

No other occurrence has the key, and each try of the same one does.
"""

import logging
import pickle
from datetime import timedelta

import pytest

from redbike import Again, CommandFailed, Overrun, Redbike, RoundRobin, StopWork, current_run
from tests.states import JOB
from tests.verbs import run_job, set_job
from tests.waiting import wait_until

HOUR = 3600.0
YEARS = "EVERY:10000d@0"


class Noting(RoundRobin):
    """Notes the keys of its runs, their due times and their numbers; raises what comes next in `acts`, if not None."""

    def __init__(self, *acts):
        super().__init__("A")
        self.keys, self.tries, self.acts = [], [], list(acts)

    def work(self, jobid):
        run = current_run()
        self.keys.append(run.key)
        self.tries.append((run.due, run.attempt))
        act = self.acts.pop(0) if self.acts else None
        if act is not None:
            raise act


@pytest.fixture
def make(client, prefix):
    """Makes a client whose worker raises these; it has `JOB`, which is due, if that has a schedule."""

    def make(*acts, schedule=YEARS, **settings):
        bike = Redbike(Noting(*acts), prefix, client, **settings)
        if schedule:
            set_job(bike.store, JOB, schedule, "now", schedule == "NOW")
        return bike

    return make


def work_off(bike):
    """Work until nothing is due; the keys of all runs so far."""
    while bike.work_one() or bike.dispatch_due():
        pass
    return bike.worker.keys


@pytest.mark.parametrize("schedule", [YEARS, "NOW", "0 0 1 1 *"])
def test_the_same_occurrence_comes_again_at_once_or_after_so_many_seconds(make, schedule):
    bike = make(Again(), Again, Again(after=1000), schedule=schedule, on_error="stop")
    work_off(bike)
    now = bike.store.timeline.read_clock()
    assert now + 900 < bike.tell(JOB)["next_run"] <= now + 1000
    bike.dispatch_due(now + 1001)
    work_off(bike)
    due = bike.worker.tries[0][0]
    assert bike.worker.tries == [(due, number) for number in range(1, 5)]
    told = bike.tell(JOB)
    assert told["status"].startswith("STP:" if schedule == "NOW" else "TML:")
    assert told.keys() & {"failure", "failures", "skipped"} == set()


def test_failures_in_a_row_stay_as_they_are(make):
    """Two retries are allowed: the third failure is the last, however often the job has asked for another try."""
    acts = ValueError("1"), Again(), ValueError("2"), Again(), ValueError("3"), Again()
    bike = make(*acts, on_error="retry", retries=2, backoff=0.0)
    work_off(bike)
    assert [number for _, number in bike.worker.tries] == [1, 2, 3, 4, 5]
    assert bike.tell(JOB)["status"].startswith("DIE:")


@pytest.mark.parametrize(
    ("acts", "outcomes"),
    [([ValueError("full"), ValueError("full")], ["retry", "failed"]), ([Again(), StopWork()], ["retry", "ok"])],
)
def test_what_began_in_time_does_not_expire_by_its_end_after_a_pause_of_its_queue(make, acts, outcomes):
    bike = make(schedule=None, expires="10m", default_timeout="1d", on_error="reschedule", retries=1, backoff=0)
    bike.pause_queue("work-A")
    bike.resume_queue("work-A")

    def work(jobid):
        current_run().received -= HOUR  # as if it had taken so long
        raise acts.pop(0)

    bike.worker.work = work
    bike.set(JOB, "NOW")
    work_off(bike)
    assert [run.outcome for run in bike.runs(JOB)][::-1] == outcomes
    assert "skipped" not in bike.tell(JOB)


@pytest.mark.parametrize("again", [Again(), Overrun("it gives up")])
def test_an_earlier_failure_is_kept_until_it_succeeds(make, again):
    bike = make(ValueError("no"), again, on_error="reschedule", on_timeout="requeue")
    assert bike.work_one() == JOB
    set_job(bike.store, JOB, YEARS, "now")
    assert bike.work_one() == JOB
    assert [failure["error"] for failure in bike.failures()] == ["ValueError: no"]
    assert bike.work_one() == JOB
    assert list(bike.failures()) == []


@pytest.mark.parametrize(
    ("after", "error"),
    [
        (-1, "ValueError: Again(after=-1): 0 to 1e9 seconds are allowed"),
        (float("nan"), "ValueError: Again(after=nan): 0 to 1e9 seconds are allowed"),
        (1e10, "ValueError: Again(after=10000000000.0): 0 to 1e9 seconds are allowed"),
        (None, "TypeError: Again(after=None): seconds, a text such as 15m, or a timedelta is needed"),
        (True, "TypeError: Again(after=True): seconds, a text such as 15m, or a timedelta is needed"),
        ("soon", "BadConfig: bad after 'soon': 900, 15m, 1h30m, 1.5h or 2d is needed"),
        (timedelta(-1), "ValueError: Again(after=datetime.timedelta(days=-1)): 0 to 1e9 seconds are allowed"),
    ],
)
def test_what_is_no_duration_is_a_failure(make, after, error):
    bike = make(Again(after), on_error="stop")
    work_off(bike)
    assert [failure["error"] for failure in bike.failures()] == [error]
    assert bike.tell(JOB)["status"].startswith("DIE:")


class Limited(Again):
    reason = "rate limited"


@pytest.mark.parametrize(
    ("again", "reason"),
    [
        (Again(1000, "rate\nlimited"), "rate limited"),
        (Again(after=1000, reason="x" * 9999), "x" * 100),
        (Again(1000, OSError("no \ud800 luck")), "no \\ud800 luck"),
        (Limited(1000), "rate limited"),
        (pickle.loads(pickle.dumps(Again(1000, "rate limited"))), "rate limited"),  # noqa: S301
        (Again(1000), ""),
        (Again("16m40s"), ""),
        (Again(timedelta(seconds=1000)), ""),
    ],
)
def test_a_try_that_asks_for_another_one_keeps_its_reason(make, caplog, again, reason):
    caplog.set_level(logging.INFO, "redbike")
    bike = make(again)
    assert bike.work_one()
    [run] = bike.runs(JOB)
    assert (run.outcome, run.attempt, run.error[: len(reason)]) == ("retry", 1, reason)
    assert bool(run.error) == bool(reason)
    [said] = [message for message in caplog.messages if "as it asked" in message]
    assert said.startswith(f"{JOB}: it runs again in 1000 s, as it asked{reason and f': {reason}'}")
    assert list(bike.failures()) == [], "it has not failed"
    assert bike.tell(JOB)["next_run"] == pytest.approx(run.started + 1000, abs=60)


def test_runs_and_show_have_the_reason_and_the_log_a_short_number(shell, server_url, caplog):
    caplog.set_level(logging.INFO, "redbike")
    bike = Redbike(Noting(Again(1000.06399518689694159, "rate limited")), redis_config=server_url)
    bike.set(JOB, "NOW")
    assert bike.work_one()
    assert f"{JOB}: it runs again in 1000.06 s, as it asked: rate limited" in caplog.messages
    assert shell.run("runs", "--format=csv").stdout.splitlines()[1].split(",")[4:7] == ["retry", "1", "rate limited"]
    assert "rate limited" in shell.run("show", JOB).stdout


# Keys


def test_each_occurrence_has_another_key(make):
    bike = make(*[None] * 4, StopWork(), schedule="CONTINUE")
    work_off(bike)
    for _ in range(5):
        bike.set(JOB, "NOW")
        work_off(bike)
    assert len(set(bike.worker.keys)) == len(bike.worker.keys) == 10


def test_each_try_of_an_occurrence_has_the_same_key(make):
    acts = ValueError(), Again(), ValueError(), CommandFailed("no")
    bike = make(*acts, schedule="NOW", on_error="retry", retries=2, backoff=0.001)
    wait_until(lambda: len(work_off(bike)) == 4)
    assert bike.tell(JOB)["status"].startswith("DIE")
    run_job(bike.store, JOB)
    assert len(work_off(bike)) == 5
    assert len(set(bike.worker.keys)) == 1
    run_job(bike.store, JOB)
    assert len(set(work_off(bike))) == 2, "what has succeeded is over"


@pytest.mark.parametrize(
    ("jobid", "start"), [("a:A", "a:A@"), ("50% of ü:A", "50%25%20of%20%C3%BC:A@"), ("~/x@1:A", "~/x@1:A@")]
)
def test_a_key_is_ascii_and_begins_with_the_job_id(make, jobid, start):
    bike = make(schedule=None)
    bike.set(jobid, "AT:1000.25")
    (key,) = work_off(bike)
    assert key == f"{start}1000.25"
