"""Retries: the pauses between the tries of an occurrence."""

from hashlib import sha1
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redbike import Again, Jobs, Redbike, current_run
from redbike.config.settings import Settings
from redbike.loop.policies import decide_failed
from redbike.loop.retries import NO_RULES, ErrorRules, compute_pause, read_rules
from redbike.store.run import Run
from tests.verbs import Quiet

PAUSES = st.floats(0, 1e9) | st.sampled_from([0.0, 1.0, 3600.0])
SHARES = st.floats(0, 1) | st.sampled_from([0.0, 1.0])


def run(jobid="job:A", due=100.0, failures=0, tries=0):
    return Run(jobid, due, "tag", due, due + 10, failures, 0, "EVERY:10@0", "work-A", tries=tries)


@pytest.mark.parametrize(
    ("settings", "pauses"),
    [
        ({}, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]),
        ({"backoff": 7200}, [3600, 3600]),
        ({"backoff": 7200, "max_backoff": 86400}, [7200, 14400, 28800, 57600, 86400, 86400]),
        ({"max_backoff": 10}, [1, 2, 4, 8, 10, 10]),
        ({"max_backoff": 0}, [0, 0]),
        ({"backoff": 0, "jitter": 1}, [0, 0]),
    ],
)
def test_each_pause_is_twice_as_long_up_to_the_longest(settings, pauses):
    found = [compute_pause(run(failures=failures), Settings(**settings)) for failures in range(len(pauses))]
    assert found == pauses


@pytest.mark.parametrize("jobid", ["job:A", "größe:A", "\udcff:A"])
def test_anyone_can_compute_the_jitter(jobid):
    digest = sha1(f"{jobid} 100.250000 3".encode(errors="surrogateescape")).hexdigest()
    chance = int(digest[:12], 16) / 16**12
    found = compute_pause(run(jobid, 100.25, 2, tries=2), Settings(backoff=10, jitter=0.5))
    assert found == pytest.approx(40 * (1 - chance / 2))


@settings(max_examples=40)
@given(
    jobid=st.text(min_size=1),
    due=st.floats(0, 1e10),
    failures=st.integers(0, 2000),
    tries=st.integers(0, 2000),
    backoff=PAUSES,
    longest=PAUSES,
    jitter=SHARES,
)
def test_a_pause_is_never_longer_than_the_longest_nor_shorter_than_its_jitter_allows(
    jobid, due, failures, tries, backoff, longest, jitter
):
    tried = run(jobid.encode(errors="replace").decode(), due, failures, tries)
    exact = Settings(backoff=backoff, max_backoff=longest, retries=2001)
    with_jitter = Settings(backoff=backoff, max_backoff=longest, jitter=jitter, retries=2001)
    most, found = compute_pause(tried, exact), compute_pause(tried, with_jitter)
    assert (1 - with_jitter.jitter) * most <= found <= most <= exact.max_backoff
    assert compute_pause(tried, with_jitter) == found
    said = decide_failed(tried, ValueError("no"), with_jitter, due).due
    assert float(said) == pytest.approx(found, abs=1e-6)
    assert float(said) <= exact.max_backoff


def test_a_function_a_job_and_the_settings_may_have_them(redbike):
    jobs = Jobs()

    @jobs.job("charge", at=1000, retries=5, backoff=10, max_backoff="30s")
    @jobs.job("report", at=1000, retries=5, backoff=10)
    def fail():
        raise OSError("no luck")

    bike = redbike(jobs, now=1000, max_backoff=15)
    for jobid, schedule, options in jobs.schedules():
        bike.set(jobid, schedule, **options)
    bike.set("charge:x", "AT:1000", jitter=0.5)
    bike.run_due(until=3000, reraise=False)

    def list_pauses(jobid):
        began = [past.started for past in reversed(bike.runs(jobid))]
        return [after - before for before, after in pairwise(began)]

    assert list_pauses("charge") == pytest.approx([10, 20, 30, 30, 30], abs=0.1)
    assert list_pauses("report") == pytest.approx([10, 15, 15, 15, 15], abs=0.1)
    settings = Settings(backoff=10, max_backoff=30, jitter=0.5)
    exact = [compute_pause(run("charge:x", 1000.0, number, number), settings) for number in range(5)]
    assert list_pauses("charge:x") == pytest.approx(exact, abs=0.1)


class Nearer(ConnectionError):
    pass


@pytest.mark.parametrize(
    ("retry_on", "stop_on", "error", "stops", "retries"),
    [
        (None, None, OSError(), None, True),
        (OSError, None, ConnectionError(), None, True),
        (OSError, None, ValueError(), None, False),
        (None, OSError, ConnectionError(), OSError, True),
        (None, OSError, ValueError(), None, True),
        # The nearest base class counts, and stop_on where both name the same one.
        (ConnectionError, OSError, Nearer(), None, True),
        (OSError, ConnectionError, Nearer(), ConnectionError, True),
        (OSError, OSError, Nearer(), OSError, True),
        ([ValueError, Nearer], (OSError, TypeError), Nearer(), None, True),
        (BaseException, SystemExit, SystemExit(), SystemExit, True),
    ],
)
def test_the_nearest_base_class_of_an_error_counts(retry_on, stop_on, error, stops, retries):
    rules = read_rules(retry_on, stop_on, " of it") or NO_RULES
    assert (rules.find_stop(error), rules.allow_retry(error)) == (stops, retries)


def test_the_reason_of_a_stop_is_kept_also_behind_a_long_message():
    decided = decide_failed(run(), OSError("x" * 1000), Settings(), 100.0, ErrorRules(stop_on=(OSError,)))
    assert decided.error.endswith("x (stop_on has OSError)")
    assert decided.failure["error"] == decided.error


@pytest.mark.parametrize("text", ["EVERY:2h", "STOP", "NOW", "AT:4102444800"])
@pytest.mark.parametrize(
    ("error", "outcome", "when"), [(ValueError("it broke"), "failed", "failed"), (Again(after=1.0), "cancelled", "any")]
)
def test_a_try_that_is_not_tried_again_as_its_job_was_set_meanwhile_has_ended(
    client, prefix, text, error, outcome, when
):
    class Setting(Quiet):
        def work(self, jobid):
            super().work(jobid)
            if jobid == "job:A" and len(self.worked) == 1:
                other.set("job:A", text)
                raise error

    bike, other = (Redbike(worker, prefix, client) for worker in (Setting("A"), Quiet("A")))
    bike.set("job:A", "EVERY:1h", retries=2)
    bike.set("after:A", f"AFTER:job:A {when}")
    bike.run("job:A")
    bike.work_one()
    assert [run["outcome"] for run in bike.tell("job:A")["runs"]] == [outcome]
    assert [failure["error"] for failure in bike.failures()] == ["ValueError: it broke"] * (outcome == "failed")
    bike.dispatch_due()
    assert "after:A" in [bike.work_one() for _ in range(2)]
    assert list(bike.fsck()) == []


class Asking(Quiet):
    """Fails with `errors`, one after the other, and calls `ask` before; notes each try, and what that finds saved."""

    def __init__(self, ask, *errors):
        super().__init__("A")
        self.ask, self.errors, self.tries = ask, list(errors), []

    def work(self, jobid):
        run = current_run()
        self.tries.append((run.attempt, run.due, run.saved))
        if self.errors:
            run.save("page 2")
            self.ask(run.bike)
            raise self.errors.pop(0)


ASKS = {
    "run": lambda bike: bike.run("job:A"),
    "set": lambda bike: bike.set("job:A", "NOW"),
    "set with the same data": lambda bike: bike.set("job:A", "NOW", data=1),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("error", [ValueError("it broke"), Again(after=60.0)])
def test_the_next_try_of_a_one_off_is_the_run_that_was_asked_for_during_the_try_before(client, prefix, ask, error):
    bike = Redbike(worker := Asking(ask, error), prefix, client)
    bike.set("job:A", "NOW", retries=2, data=1)
    assert [bike.work_one() for _ in range(3)] == ["job:A", "job:A", None]
    due = worker.tries[0][1]
    assert worker.tries == [(1, due, None), (2, due, "page 2")]
    assert [(run["outcome"], run["attempt"]) for run in bike.tell("job:A")["runs"]] == [("ok", 2), ("retry", 1)]
    assert list(bike.failures()) == list(bike.fsck()) == []


def test_a_one_off_that_is_asked_for_in_each_try_has_failed_after_its_retries(client, prefix):
    errors = [ValueError(f"try {number}") for number in range(3)]
    bike = Redbike(worker := Asking(ASKS["run"], *errors), prefix, client)
    bike.set("job:A", "NOW", retries=1)
    bike.work_one()
    bike.work_one()
    assert [failure["error"] for failure in bike.failures()] == ["ValueError: try 1"]
    bike.work_one()
    assert [attempt for attempt, _, _ in worker.tries] == [1, 2, 1]
    assert [run["outcome"] for run in bike.tell("job:A")["runs"]] == ["retry", "failed", "retry"]


@pytest.mark.parametrize(("error", "outcome"), [(ValueError("it broke"), "failed"), (Again(), "cancelled")])
def test_a_one_off_that_is_set_with_other_data_during_a_try_is_no_further_try_of_that(client, prefix, error, outcome):
    def ask(bike):
        bike.set("job:A", "NOW", data=2)
        bike.set("job:A", "NOW", data=2)

    bike = Redbike(worker := Asking(ask, error), prefix, client)
    bike.set("job:A", "NOW", retries=2, data=1)
    bike.work_one()
    assert [failure["error"] for failure in bike.failures()] == ["ValueError: it broke"] * (outcome == "failed")
    assert [bike.work_one() for _ in range(2)] == ["job:A", None]
    (_, due, _), (attempt, other_due, saved) = worker.tries
    assert (attempt, saved) == (1, None)
    assert other_due > due
    assert [run["outcome"] for run in bike.tell("job:A")["runs"]] == ["ok", outcome]
    assert "skipped" not in bike.tell("job:A")
