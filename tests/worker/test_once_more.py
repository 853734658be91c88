"""``raise Again(after=seconds)``: the same occurrence once more, which is no failure."""

import pytest

from redbike import Again, Redbike, RoundRobin, current_run
from tests.states import JOB
from tests.verbs import set_job


class Handler(RoundRobin):
    """Its work raises or calls what comes next in `acts`, and notes its due time and its number."""

    def __init__(self, *acts):
        super().__init__("A")
        self.acts = list(acts)
        self.tries = []

    def work(self, jobid):
        self.tries.append((current_run().due, current_run().attempt))
        act = self.acts.pop(0) if self.acts else None
        if act is not None:
            raise act


def make(client, prefix, handler, schedule="EVERY:10000d@0", **settings):
    bike = Redbike(handler, prefix, client, **settings)
    set_job(bike.store, JOB, schedule, "now", schedule == "NOW")
    return bike


def work_off(bike):
    while bike.work_one() or bike.dispatch_due():
        pass


@pytest.mark.parametrize(
    "schedule", ["EVERY:10000d@0", "NOW", "0 0 1 1 *", "DTSTART:20200101T000000Z\nRRULE:FREQ=YEARLY"]
)
def test_the_same_occurrence_comes_again_at_once(client, prefix, schedule):
    handler = Handler(Again(), Again, Again(after=0))
    bike = make(client, prefix, handler, schedule, on_error="stop")
    work_off(bike)
    due = handler.tries[0][0]
    assert handler.tries == [(due, number) for number in range(1, 5)]
    told = bike.tell(JOB)
    assert told["status"].startswith("STP:" if schedule == "NOW" else "TML:")
    assert told.keys() & {"failure", "failures", "skipped"} == set()


def test_it_comes_after_so_many_seconds_for_its_own_due_time(client, prefix):
    handler = Handler(Again(after=1000))
    bike = make(client, prefix, handler)
    work_off(bike)
    now, _ = bike.store.timeline.read_dispatched()
    assert now + 990 < bike.tell(JOB)["next_run"] <= now + 1000
    bike.dispatch_due(now + 1001)
    work_off(bike)
    assert handler.tries == [(handler.tries[0][0], 1), (handler.tries[0][0], 2)]


def test_failures_in_a_row_stay_as_they_are(client, prefix):
    """Two retries are allowed: the third failure is the last, however often the job has asked for another try."""
    handler = Handler(ValueError("1"), Again(), ValueError("2"), Again(), ValueError("3"), Again())
    bike = make(client, prefix, handler, on_error="retry", retries=2, backoff=0.0)
    work_off(bike)
    assert [number for _, number in handler.tries] == [1, 2, 3, 4, 5]
    assert bike.tell(JOB)["status"].startswith("DIE:")


def test_an_earlier_failure_is_kept_until_it_succeeds(client, prefix):
    handler = Handler(ValueError("no"), Again())
    bike = make(client, prefix, handler, on_error="reschedule")
    assert bike.work_one() == JOB
    set_job(bike.store, JOB, "EVERY:10000d@0", "now")
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
        ("soon", "TypeError: Again(after='soon'): a number of seconds is needed"),
        (None, "TypeError: Again(after=None): a number of seconds is needed"),
        (True, "TypeError: Again(after=True): a number of seconds is needed"),
    ],
)
def test_what_is_no_number_of_seconds_is_a_failure(client, prefix, after, error):
    bike = make(client, prefix, Handler(Again(after)), on_error="stop")
    work_off(bike)
    assert [failure["error"] for failure in bike.failures()] == [error]
    assert bike.tell(JOB)["status"].startswith("DIE:")
