"""Pauses of jobs, straight at the scripts: what is held, what goes on all the same, and what ends a pause."""

import pytest

from redbike.config.settings import Settings
from redbike.loop.policies import decide_handed_back
from redbike.loop.resuming import resume
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.pauses import Resumption
from redbike.store.records import Pause
from tests.states import DUE, JOB, LATER, NEW, NOW, OLD, QUEUE, START, STATES, dump, end, inspect, pause, take
from tests.states import queue_for as name_queue
from tests.verbs import set_job, survey


@pytest.mark.parametrize(
    ("state", "word", "due", "event"),
    [
        ("waiting_to_retry", "held", DUE, "TML"),
        ("queue", "held", START, "ENQ"),
        ("flight", "paused", None, "WRK"),
        ("dead", "paused", None, "DIE"),
    ],
)
def test_what_waits_is_held_and_the_status_stays(store, state, word, due, event):
    STATES[state](store)
    before = inspect(store)
    assert pause(store, NOW, LATER) == word
    found = inspect(store)
    assert (found.held, found.pause.since, found.pause.until, found.timer) == (due, NOW, LATER, LATER)
    assert (found.status, found.retry_state, found.skipped) == (before.status, before.retry_state, before.skipped)
    assert found.status.startswith(event)
    shown = {"since": NOW, "until": LATER, "by": "somebody@somewhere", "reason": "a reason"}
    assert found.to_dict()["paused"] == shown
    assert found.to_dict().get("held_for") == due


@pytest.mark.parametrize(
    ("state", "now", "catchup", "status"),
    [
        ("timeline", DUE - 1, "last", f"TML:{START:.0f}"),
        ("timeline", NOW, "last", f"ENQ:{NOW:.0f}"),
        ("timeline", NOW, "none", f"TML:{START:.0f}"),
        ("queue", NOW, "last", f"ENQ:{START:.0f}"),
        ("flight", NOW, "last", f"WRK:{START:.0f}"),
    ],
)
def test_a_status_stays_when_a_job_is_resumed_where_it_was(store, state, now, catchup, status):
    STATES[state](store)
    pause(store, START + 1)
    resume(store.at(now), Settings(catchup=catchup), [JOB])
    assert inspect(store).status == status
    assert list(fsck(store)) == []


@pytest.mark.parametrize(
    ("started", "paused", "place"),
    [
        pytest.param(START, NOW, "held", id="it began before"),
        pytest.param(LATER, NOW, "held", id="by a clock that was ahead"),
        pytest.param(LATER, LATER - 10, "queue", id="the pause is of that clock, too"),
    ],
)
@pytest.mark.parametrize("is_released", [True, False])
def test_a_run_that_was_to_go_on_is_held_unless_it_began_in_the_pause(store, started, paused, place, is_released):
    set_job(store.at(START), JOB, OLD, "now")
    run = take(store, now=started)
    assert pause(store, paused) == "paused"
    if is_released:
        assert store.at(NOW).runs.release([run]) == [place]
    else:
        assert end(store, run, decide_handed_back(run)).detail == place
    due = START if is_released else NOW
    assert inspect(store).held == (due if place == "held" else None)


def test_any_number_of_jobs_is_paused_and_resumed(store):
    jobids = [f"{number}:{number % 7}" for number in range(250)]
    store.at(START).jobs.set([JobToSet(jobid, OLD, DUE, False, name_queue(jobid)) for jobid in jobids])
    assert store.at(START).pauses.pause([*jobids, "nobody:A"], LATER, "me", "") == ["held"] * 250 + ["missing"]
    assert store.client.zcard(store.keys.timeline) == 0
    assert resume(store.at(START), Settings(), jobids) == ["timeline"] * 250
    assert store.client.exists(store.keys.pauses, store.keys.timers) == 0


def test_an_entry_that_somebody_pushed_is_not_taken_while_the_job_is_paused(store, client):
    STATES["held"](store)
    client.lpush(store.keys.queue(QUEUE), JOB)
    assert take(store, "other", now=NOW) == "empty"
    assert inspect(store).held == DUE
    assert list(fsck(store)) == []


@pytest.mark.parametrize("change", ["set", "paused again", "taken"])
def test_a_resumption_that_was_computed_from_an_earlier_state_changes_nothing(store, change):
    STATES["queue_and_paused" if change == "taken" else "held"](store)
    found = inspect(store)
    if change == "set":
        set_job(store.at(NOW), JOB, NEW, DUE)
    elif change == "taken":
        take(store, "other", now=NOW)
    else:
        resume(store.at(START + 1), Settings(), [JOB])
        pause(store, START + 2)
    before = dump(store)
    assert store.at(NOW).pauses.resume([(found, Resumption(DUE))]) == ["stale"]
    assert dump(store) == before


def test_a_dispatcher_is_woken_by_the_first_timer_alone(store, client):
    set_job(store.at(START), "first:A", OLD, LATER)
    set_job(store.at(START), "second:A", OLD, LATER)
    set_job(store.at(START), "third:A", OLD, LATER)
    for jobid, until, tokens in (("first:A", LATER, 1), ("second:A", LATER + 1, 0), ("third:A", NOW, 1)):
        client.delete(store.keys.wakeup)
        store.at(START).pauses.pause([jobid], until, "me", "")
        assert client.llen(store.keys.wakeup) == tokens
    found = survey(store.at(START))
    assert (found.timers, found.next_timer) == ([], NOW)
    found = survey(store.at(LATER))
    assert (found.timers, found.next_timer) == (["job:third:A", "job:first:A"], LATER + 1)


@pytest.mark.parametrize("record", ["", "garbage", "- x - {}", "soon 1000.000000 - {}", "1050.000000 1000.000000"])
def test_a_damaged_pause_counts_as_none(store, client, record):
    assert Pause.parse(record) is None
    STATES["timeline"](store)
    client.hset(store.keys.pauses, JOB, record)
    assert inspect(store).unreadable == ("pause",)
    set_job(store.at(NOW), JOB, NEW, LATER)
    assert inspect(store).timeline == LATER
    assert pause(store, NOW) == "held"


def test_a_pause_by_nobody_knows_who_is_one_all_the_same():
    assert Pause(None, 1.0, None, "garbage").to_dict() == {"since": 1.0, "until": None, "by": None, "reason": None}
    assert Pause(None, 1.0, None, "[1]").to_dict()["by"] is None
