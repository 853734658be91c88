"""Cancelling: what waits or runs is dropped and counted, the schedule goes on, and nothing has failed."""

import pytest

from redbike import Redbike
from redbike.config.settings import Settings
from redbike.control.jobs import cancel_jobs
from redbike.loop.policies import decide_failed, decide_lost, decide_overrun
from redbike.loop.requests import compute_cancellation
from redbike.store.inspection.fsck import fsck
from redbike.store.lease import LEASE
from tests.states import DUE, JOB, LATER, NEW, NOW, OLD, QUEUE, START, STATES, TIMEOUT, dump, end, place, take
from tests.store.test_transitions import VERBS
from tests.verbs import Quiet, run_job, set_job

DEFAULT = Settings()


def cancel(store, now=NOW, settings=DEFAULT):
    """The word for it, and what is kept of the job then."""
    [(jobid, word)] = cancel_jobs(store.at(now), [JOB], settings)
    assert jobid == JOB
    assert list(fsck(store)) == []
    return word, store.questions.inspect([JOB])[0]


@pytest.mark.parametrize(
    ("state", "word", "next_run"),
    [
        ("unknown", "missing", None),
        ("bad", "missing", None),
        ("timeline", "cancelled", 1200.0),
        ("queue", "cancelled", 1200.0),
        ("flight", "cancelled", None),
        ("flight_and_timeline", "cancelled", DUE),
        ("flight_of_unset", "missing", None),
        ("stopped", "idle", None),
        ("dead", "idle", None),
        ("waiting_to_retry", "cancelled", 1200.0),
    ],
)
def test_what_waits_or_runs_is_cancelled(store, state, word, next_run):
    STATES[state](store)
    said, after = cancel(store)
    assert (said, after.timeline) == (word, next_run)
    assert after.skipped.get("cancelled", 0) == (word == "cancelled")
    assert after.retry_state == ""


@pytest.mark.parametrize(("now", "word"), [(DUE - 0.001, "idle"), (DUE, "cancelled")])
def test_what_is_not_due_yet_is_not_cancelled(store, now, word):
    STATES["timeline"](store)
    before = dump(store)
    assert cancel(store, now)[0] == word
    assert (dump(store) == before) is (word == "idle")


@pytest.mark.parametrize(
    ("schedule", "now", "settings", "skipped", "next_run"),
    [
        # What came due since is counted as after a run.
        (OLD, START + 350, {}, {"cancelled": 1, "missed": 3}, START + 400),
        (OLD, START + 350, {"catchup": "all"}, {"cancelled": 1}, START + 100),
        (OLD, START + 350, {"catchup": "all", "grace": 50.0}, {"cancelled": 1, "late": 2}, START + 300),
        (OLD, START + 350, {"catchup": "all", "expires": 50.0}, {"cancelled": 1, "expired": 2}, START + 300),
        # It goes on at once.
        ("CONTINUE", NOW, {}, {"cancelled": 1}, NOW),
    ],
)
def test_the_schedule_goes_on_as_after_a_run(store, schedule, now, settings, skipped, next_run):
    set_job(store.at(START), JOB, schedule, START)
    word, after = cancel(store, now, Settings(**settings))
    assert (word, after.skipped, after.timeline) == ("cancelled", skipped, next_run)


@pytest.mark.parametrize(
    ("until", "is_resumed", "missed", "paused"),
    [(None, False, 1, 2), (START + 250, False, 2, 1), (START + 1000, False, 1, 2), (None, True, 1, 2)],
)
@pytest.mark.parametrize(("set_at", "where"), [(START, "queue"), (START - 1, "timeline")])
@pytest.mark.parametrize("name", [QUEUE, ""])
def test_what_came_due_while_its_queue_was_paused_is_counted_as_paused(
    store, name, set_at, where, until, is_resumed, missed, paused
):
    set_job(store.at(set_at), JOB, OLD, START)
    assert place(store.questions.inspect([JOB])[0]) == where
    store.at(START + 150).queue_limits.pause(name, until, "me", "")
    if is_resumed:
        store.at(START + 320).queue_limits.open(name, resume=True)
    _, after = cancel(store, START + 350)
    assert (after.skipped, after.timeline) == ({"cancelled": 1, "missed": missed, "paused": paused}, START + 400)


@pytest.mark.parametrize("names", [(QUEUE, ""), ("", QUEUE)])
def test_of_two_pauses_that_are_on_the_first_one_counts(store, names):
    set_job(store.at(START), JOB, OLD, START)
    for name, since in zip(names, (START + 50, START + 250), strict=True):
        store.at(since).queue_limits.pause(name, None, "me", "")
    assert cancel(store, START + 350)[1].skipped == {"cancelled": 1, "paused": 3}


def test_a_retry_that_is_cancelled_while_its_queue_is_paused(store):
    STATES["waiting_to_retry"](store)
    store.at(START + 150).queue_limits.pause(QUEUE, None, "me", "")
    assert cancel(store, START + 350)[1].skipped == {"cancelled": 1, "missed": 1, "paused": 2}


def test_a_retry_that_is_cancelled_drops_nothing_that_overlap_remembers(store):
    STATES["waiting_to_retry"](store)
    _, after = cancel(store, START + 350, Settings(overlap="queue"))
    assert (after.skipped, after.timeline) == ({"cancelled": 1, "running": 2}, START + 100)


def test_a_request_that_is_repeated_does_not_cancel_the_next_occurrence(store):
    set_job(store.at(START), JOB, OLD, START)
    late = store.at(START + 350)
    plan = compute_cancellation(late.questions.inspect([JOB])[0], Settings(catchup="all"), lambda state: None)
    call = late.jobs._pack_cancel(plan)
    replies = [store.scripts.run(call) for _ in range(2)]
    assert replies[0] == replies[1] == ["ok", b"cancelled"]
    assert store.questions.inspect([JOB])[0].skipped == {"cancelled": 1}


@pytest.mark.parametrize("schedule", ["NOW", f"AT:{START}"])
@pytest.mark.parametrize("where", ["queue", "flight"])
def test_a_one_off_that_is_cancelled_is_over(store, schedule, where):
    set_job(store.at(START), JOB, schedule, START, once=True)
    run = take(store) if where == "flight" else None
    cancel(store)
    if run:
        end(store, run, decide_failed(run, ValueError("no"), DEFAULT, NOW))
    after = store.questions.inspect([JOB])[0]
    assert (place(after), after.schedule, after.failure) == ("STP", "STOP", None)


@pytest.mark.parametrize("happens", ["take", "set", "run", "unset", "dispatch"])
@pytest.mark.parametrize("state", ["queue", "timeline"])
def test_what_has_moved_on_meanwhile_is_looked_at_again(store, state, happens):
    STATES[state](store)
    inspect, moves = (
        type(store.questions).inspect,
        {
            "take": lambda: take(store, now=NOW),
            "set": lambda: set_job(store.at(NOW), JOB, NEW, LATER),
            "run": lambda: run_job(store.at(NOW), JOB),
            "unset": lambda: store.jobs.unset(JOB),
            "dispatch": lambda: VERBS["dispatch"](store, None),
        },
    )
    moving = store.at(NOW)

    def look(jobids):
        found = inspect(moving.questions, jobids)
        if happens in moves:
            moves.pop(happens)()
        return found

    moving.questions.inspect = look
    [(_, word)] = cancel_jobs(moving, [JOB], DEFAULT)
    after = store.questions.inspect([JOB])[0]
    assert word == {"set": "idle", "unset": "missing"}.get(happens, "cancelled")
    assert after.skipped.get("cancelled", 0) == (word == "cancelled")
    assert (after.run is not None and after.run.cancelled) == (state == "queue" and happens == "take")
    assert list(fsck(store)) == []


HOW = {
    "failed": lambda run, now: decide_failed(run, ValueError("no"), Settings(on_error="stop"), now),
    "retried": lambda run, now: decide_failed(run, ValueError("no"), Settings(on_error="retry", retries=3), now),
    "overrun": lambda run, now: decide_overrun(run, DEFAULT, now),
    "overrun again": lambda run, now: decide_overrun(run, Settings(on_timeout="requeue"), now),
    "lost": lambda run, now: decide_lost(run, DEFAULT, now),
}


@pytest.mark.parametrize("how", HOW)
def test_however_a_cancelled_run_ends_it_has_not_failed(store, how):
    """What was kept of an earlier failure stays: it has not succeeded either."""
    run = STATES["flight"](store)
    kept = '{"jobid": "job:A", "error": "earlier"}'
    store.client.hset(store.keys.failures, JOB, kept)
    store.client.zadd(store.keys.failure_times, {JOB: 1.0})
    cancel(store, START)
    now = START + (TIMEOUT if "overrun" in how else LEASE + 0.5)
    assert end(store, run, HOW[how](run, now), now)[:2] == ("ok", "timeline")
    after = store.questions.inspect([JOB])[0]
    assert after.timeline == {START + TIMEOUT: START + 600}.get(now, START + 100)
    assert after.failure["error"] == "earlier"
    assert (after.retry_state, after.status.partition(":")[0]) == ("", "TML")


def test_several_jobs_are_cancelled_each_once_in_their_order(store):
    jobids = [f"{number}:A" for number in range(250)]
    for jobid in jobids:
        set_job(store.at(START), jobid, OLD, START)
    steered = cancel_jobs(store.at(NOW), jobids, DEFAULT)
    assert steered == [(jobid, "cancelled") for jobid in jobids]
    assert store.client.hlen(store.keys.queued) == 0
    assert list(fsck(store)) == []


def test_the_command_line_cancels_what_ids_and_patterns_name(shell, server_url):
    bike = Redbike(Quiet("A:B"), redis_config=server_url)
    for jobid in ("nightly:A", "nightly:B", "later:A"):
        bike.set(jobid, "EVERY:1h")
    bike.run("nightly:*")
    done = shell.run("cancel", "later:A")
    said = "redbike: later:A: no occurrence of it waits or runs\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)
    done = shell.run("cancel", "*:?", "nightly:B")
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["later:A", "nightly:A", "nightly:B"], "")
    assert [event for _, event, _ in bike.get_statuses()] == ["TML"] * 3
