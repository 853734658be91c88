"""Which jobs the server says may not be well, straight at the script."""

import pytest

from redbike.store.enums import Outcome
from redbike.store.questions import PassedJob, Triage
from tests.queries.kept import archive, remember
from tests.states import DUE, JOB, OLD, START, STATES, TIMEOUT
from tests.verbs import set_job

LATE = 4e9


def triage(store, latest=0.0, pattern="*"):
    return list(store.questions.triage(pattern, latest))


def archive_run(store, outcome, due=START - 100, **more):
    remember(store, due, outcome=outcome, **more)
    archive(store)


@pytest.mark.parametrize(
    ("state", "since"),
    [
        ("bad", 0.0),
        ("dead", 0.0),
        ("timeline", DUE),
        ("queue", START),
        ("held", DUE),
        ("waiting_to_retry", DUE),
        ("flight", START + TIMEOUT),
        ("flight_and_timeline", START + TIMEOUT),
        ("flight_and_held", DUE),
        ("flight_and_paused", START + TIMEOUT),
        ("stopped", None),
    ],
)
def test_a_job_is_not_well_if_it_has_failed_or_should_have_run_by_then(store, state, since):
    STATES[state](store)
    assert triage(store, LATE if since is None else since - 0.001) == [Triage(1, [JOB] if since == 0.0 else [], [])]
    if since is not None:
        assert triage(store, since) == [Triage(1, [JOB], [])]
    assert triage(store, LATE, "other*") == [Triage(0, [], [])]


@pytest.mark.parametrize(
    ("outcome", "is_bad", "result"), [(Outcome.OK, False, "[5]"), (Outcome.FAILED, True, ""), (Outcome.LOST, True, "")]
)
def test_its_last_run_counts(store, outcome, is_bad, result):
    STATES["timeline"](store)
    archive_run(store, Outcome.FAILED)
    archive_run(store, outcome, START, result=result)
    assert triage(store) == [Triage(1, [JOB] if is_bad else [], [])]


def test_a_failure_that_is_kept_counts_and_so_does_a_job_that_stopped_while_it_was_tried_again(store, client):
    for jobid in (JOB, "other:A"):
        set_job(store.at(START), jobid, OLD, DUE)
    client.zadd(store.keys.failure_times, {JOB: START})
    assert triage(store) == [Triage(2, [JOB], [])]
    client.delete(store.keys.failure_times)
    client.hset(store.keys.retry_states, JOB, "1 0")
    assert triage(store) == [Triage(2, [], [])]
    set_job(store.at(START), JOB, "STOP", None)
    client.hset(store.keys.retry_states, JOB, "1 0")
    assert triage(store) == [Triage(2, [JOB], [])]


@pytest.mark.parametrize(
    ("reason", "last"),
    [("missed", None), *((reason, START - 100) for reason in ("running", "late", "paused", "cancelled", "expired"))],
)
def test_a_job_of_which_occurrences_were_skipped_is_told_with_its_last_run(store, client, reason, last):
    for jobid in (JOB, "other:A"):
        set_job(store.at(START), jobid, OLD, DUE)
    client.hset(store.keys.options, JOB, '{"retries":1}')
    client.hset(store.keys.skipped, mapping={f"{reason}:{JOB}": 1, f"{reason}:": 1, "withdrawn:other:A": 1})
    if last:
        archive_run(store, Outcome.OK, last)
    assert triage(store) == [Triage(2, [], [PassedJob(JOB, OLD, '{"retries":1}', last)])]
    [late] = triage(store, LATE)
    assert (sorted(late.bad), late.passed) == ([JOB, "other:A"], [])


@pytest.mark.parametrize("waited", [0.0, 99.5, 3e5])
def test_of_a_last_run_it_is_told_when_it_began(store, client, waited):
    set_job(store.at(START), JOB, OLD, DUE)
    client.hset(store.keys.skipped, mapping={f"missed:{JOB}": 1, "missed:": 1})
    archive_run(store, Outcome.OK, START - 100, waited=waited)
    [part] = triage(store)
    assert [job.started for job in part.passed] == [START - 100 + waited]


def test_a_job_in_flight_may_skip(store, client):
    STATES["flight"](store)
    client.hset(store.keys.skipped, mapping={f"running:{JOB}": 1, "running:": 1})
    assert triage(store) == [Triage(1, [], [])]


def test_many_are_looked_at_in_parts(store, client):
    jobids = [f"{number}:A" for number in range(2001)]
    client.hset(store.keys.schedules, mapping=dict.fromkeys(jobids, OLD))
    client.hset(store.keys.statuses, mapping=dict.fromkeys(jobids, "BAD:1"))
    for parts in (triage(store), triage(store, pattern="*1:A")):
        assert len(parts) > 1
        bad = sorted(jobid for part in parts for jobid in part.bad)
        assert len(bad) == sum(part.number for part in parts) == len({*bad})
    assert sorted(jobid for part in triage(store) for jobid in part.bad) == sorted(jobids)
    # All of them at once, in looks of a thousand.
    reply = store.scripts.run(store.questions._pack_triage("0", "*", 10_000, 0.0))
    assert [reply[1].count(f'"{jobid}"'.encode()) for jobid in ("0:A", "999:A", "1000:A", "2000:A")] == [1] * 4
    assert reply[1].count(b":A") == 2001
