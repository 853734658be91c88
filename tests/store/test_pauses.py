"""Pauses of jobs, straight at the scripts: what is held, what goes on all the same, and what ends a pause."""

import pytest

from redbike.config.settings import Settings
from redbike.loop.resuming import resume
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.pauses import Resumption
from redbike.store.records import Pause
from redbike.store.run import LEASE, NextState
from redbike.store.store import Store
from tests.states import DUE, JOB, LATER, NEW, NOW, OLD, QUEUE, START, STATES, TIMEOUT, dump, end, pause, place, take
from tests.states import queue_for as name_queue
from tests.verbs import set_job, set_one, survey


def inspect(store, jobid=JOB):
    return store.questions.inspect([jobid])[0]


@pytest.mark.parametrize(
    ("state", "word", "due", "event"),
    [
        ("timeline", "held", DUE, "TML"),
        ("queue", "held", START, "ENQ"),
        ("waiting_to_retry", "held", DUE, "TML"),
        ("flight", "paused", None, "WRK"),
        ("stopped", "paused", None, "STP"),
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
    ("state", "word"),
    [("unknown", "missing"), ("bad", "missing"), ("flight_of_unset", "missing"), ("held", "unchanged")],
)
def test_a_job_that_is_paused_already_or_has_no_schedule_stays_as_it_is(store, state, word):
    STATES[state](store)
    before = dump(store)
    assert pause(store, NOW, LATER) == word
    assert dump(store) == before


def test_what_was_held_from_a_queue_is_there_again_with_its_due_time(store, client):
    STATES["queue"](store)
    pause(store, NOW)
    assert take(store, "other", now=NOW) == "empty"
    assert resume(store.at(NOW), Settings(), [JOB]) == ["queue"]
    assert client.lrange(store.keys.queue(QUEUE), 0, -1) == [JOB.encode()]
    run = take(store, "other", now=NOW)
    assert (run.jobid, run.due) == (JOB, START)


@pytest.mark.parametrize(
    ("state", "now", "catchup", "status"),
    [
        ("timeline", DUE - 1, "last", f"TML:{START:.0f}"),
        ("timeline", NOW, "last", f"ENQ:{NOW:.0f}"),
        ("timeline", NOW, "none", f"TML:{START:.0f}"),
        ("queue", NOW, "last", f"ENQ:{START:.0f}"),
        ("waiting_to_retry", DUE - 1, "last", f"TML:{START + 1:.0f}"),
        ("flight", NOW, "last", f"WRK:{START:.0f}"),
        ("stopped", NOW, "last", f"STP:{START:.0f}"),
    ],
)
def test_a_status_stays_when_a_job_is_resumed_where_it_was(store, state, now, catchup, status):
    STATES[state](store)
    pause(store, START + 1)
    resume(store.at(now), Settings(catchup=catchup), [JOB])
    assert inspect(store).status == status
    assert list(fsck(store)) == []


def test_a_job_that_waits_elsewhere_is_paused_there(client, prefix, store):
    STATES["queue"](Store(client, prefix, lambda jobid: "elsewhere"))
    set_job(store.at(START), "other:A", OLD, START)
    assert store.at(NOW).pauses.pause([JOB, "other:A"], None, "me", "") == ["held", "held"]
    assert list(fsck(store)) == []


def test_any_number_of_jobs_is_paused_and_resumed(store):
    jobids = [f"{number}:{number % 7}" for number in range(250)]
    store.at(START).jobs.set([JobToSet(jobid, OLD, DUE, False, name_queue(jobid)) for jobid in jobids])
    assert store.at(START).pauses.pause([*jobids, "nobody:A"], LATER, "me", "") == ["held"] * 250 + ["missing"]
    assert store.client.zcard(store.keys.timeline) == 0
    assert resume(store.at(START), Settings(), jobids) == ["timeline"] * 250
    assert store.client.exists(store.keys.pauses, store.keys.timers) == 0


@pytest.mark.parametrize(("again", "word"), [(False, "held"), (True, "queue")])
def test_a_lost_run_is_held_unless_somebody_wanted_it_all_the_same(store, again, word):
    STATES["queue"](store)
    if again:
        pause(store)
        store.at(START + 1).jobs.run([JOB])
    run = take(store, now=START + 2)
    pause(store, START + 3)
    lost = NextState("due", run.due, "lost", f"0 1 1 {run.due:.6f} -")
    assert end(store, run, lost, now=START + 2 + LEASE)[:2] == ("ok", word)
    found = inspect(store)
    assert (found.held if word == "held" else found.waiting.due) == START


@pytest.mark.parametrize(("paused", "word"), [(START - 1, "queue"), (START, "queue"), (START + 1, "held")])
def test_what_was_asked_for_before_the_pause_is_held_and_what_since_is_run(store, paused, word):
    run = STATES["flight"](store)
    store.at(START + 0.5).jobs.run([JOB])
    pause(store, paused)
    assert end(store, run, NextState("next", LATER))[:2] == ("ok", word)


def test_a_retry_of_a_paused_job_is_held_for_its_own_time_also_if_it_was_asked_for(store):
    for run, after in ((STATES["flight"](store), "-"), (None, f"{DUE:.6f}")):
        if run is None:
            store.jobs.unset(JOB)
            STATES["queue_and_paused"](store)
            run = take(store, now=START + 2)
        pause(store, START + 1)
        retry = NextState("due", "+50", retry_state=f"1 0 1 {run.due:.6f} {after}", retried=True)
        assert end(store, run, retry, now=NOW)[:2] == ("ok", "held")
        assert inspect(store).held == NOW + 50
    assert resume(store.at(NOW), Settings(), [JOB]) == ["timeline"]
    assert inspect(store).timeline == NOW + 50


def test_an_explicit_run_leaves_the_pause_and_the_place_of_the_schedule(store):
    STATES["held"](store)
    store.at(START + 1).jobs.run([JOB])
    run = take(store, now=START + 2)
    assert run.due == START + 1
    assert end(store, run, NextState("next", LATER), now=START + 3)[:2] == ("ok", "held")
    assert inspect(store).held == pytest.approx(1100.0), "the first occurrence of EVERY:100 after that which was held"
    assert inspect(store).skipped == {}


def test_an_explicit_run_of_what_is_due_already_is_that_occurrence(store):
    set_job(store.at(START), JOB, f"AT:{DUE}", DUE, once=True)
    pause(store)
    store.at(NOW).jobs.run([JOB])
    run = take(store, now=NOW)
    assert run.due == DUE
    assert end(store, run, NextState("next"), now=NOW)[:2] == ("ok", "stopped")
    assert resume(store.at(NOW), Settings(), [JOB]) == ["resumed"]
    assert place(inspect(store)) == "STP"


def test_an_explicit_run_of_what_was_held_keeps_where_its_schedule_goes_on(store):
    set_job(store.at(START), JOB, OLD, LATER)
    store.at(START).jobs.run([JOB])
    pause(store, START + 1)
    store.at(NOW).jobs.run([JOB])
    run = take(store, now=NOW)
    assert (run.due, run.after) == (START, pytest.approx(LATER, abs=1e-5))


def test_a_run_that_is_given_back_is_held_unless_it_was_asked_for_since(store):
    run = STATES["flight"](store)
    pause(store, START + 1)
    assert store.at(NOW).runs.release([run]) == ["held"]
    assert (inspect(store).held, inspect(store).has_event("ENQ")) == (START, True)
    store.at(NOW).jobs.run([JOB])
    again = take(store, "again", now=NOW)
    assert store.at(NOW).runs.release([again]) == ["queue"]


def test_occurrences_before_the_pause_count_when_the_run_ends_and_later_ones_are_left(store):
    set_job(store.at(START), JOB, NEW, START)
    run = take(store)
    pause(store, START + 20)
    assert end(store, run, NextState("next", LATER), now=NOW)[:2] == ("ok", "held")
    found = inspect(store)
    # EVERY:7 after 1000: 1001, 1008, 1015 before the pause.
    assert (found.skipped, found.held) == ({"running": 3}, 1022.0)


def test_a_schedule_that_is_set_during_a_run_and_a_pause_goes_on_from_there(store):
    run = STATES["flight"](store)
    pause(store, START + 1)
    set_job(store.at(START + 2), JOB, NEW, START + 2)
    assert place(inspect(store)) == "flight+missed"
    assert end(store, run, NextState("next", LATER), now=NOW)[:2] == ("ok", "held")
    assert (inspect(store).held, inspect(store).skipped) == (START + 2, {})


def test_what_is_set_unchanged_while_it_is_paused_keeps_its_place(store):
    STATES["held"](store)
    before = inspect(store)
    set_one(store.at(NOW), JobToSet(JOB, OLD, LATER, False, QUEUE, SetMode.KEEP_PLACE))
    assert inspect(store) == before


@pytest.mark.parametrize(
    ("state", "paused", "now", "counted"),
    [
        ("queue", START, NOW, True),
        ("timeline", START, NOW, True),
        ("timeline", NOW, NOW, True),
        ("timeline", START, START + 1, False),
        ("stopped", START, NOW, False),
    ],
)
def test_what_is_held_and_due_counts_when_another_schedule_is_set(store, state, paused, now, counted):
    STATES[state](store)
    pause(store, paused)
    set_job(store.at(now), JOB, NEW, LATER)
    assert inspect(store).skipped == ({"withdrawn": 1} if counted else {})
    assert (inspect(store).held, inspect(store).has_event("TML")) == (LATER, True)


@pytest.mark.parametrize("state", ["queue", "timeline", "stopped"])
def test_what_is_held_goes_on_from_the_first_occurrence_of_another_schedule_if_that_is_past_too(store, state):
    STATES[state](store)
    pause(store, START)
    set_job(store.at(NOW), JOB, NEW, NOW - 10)
    assert inspect(store).held == NOW - 10
    assert resume(store.at(NOW), Settings(), [JOB]) == ["queue"]
    assert inspect(store).waiting.due == NOW - 10


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(
    ("schedule", "due", "expected"),
    [(NEW, NOW - 10, NOW - 10), ("AT:1090", NOW - 10, NOW - 10), ("NOW", "now", NOW), (OLD, NOW - 10, START)],
)
def test_what_waits_or_was_held_from_a_queue_takes_the_due_time_of_another_schedule(
    store, schedule, due, expected, is_paused
):
    STATES["queue"](store)
    if is_paused:
        pause(store, START)
    set_job(store.at(NOW), JOB, schedule, due, once=schedule not in (OLD, NEW))
    found = inspect(store)
    assert (found.held if is_paused else found.waiting.due) == expected
    assert found.skipped == ({} if schedule == OLD else {"withdrawn": 1})


@pytest.mark.parametrize("verb", ["now", "run"])
def test_what_was_missed_gives_way_to_a_run_at_once(store, verb):
    STATES["flight"](store)
    set_job(store.at(NOW), JOB, NEW, NOW - 10)
    if verb == "run":
        store.at(NOW).jobs.run([JOB])
    else:
        set_job(store.at(NOW), JOB, "NOW", "now", once=True)
    assert (place(inspect(store)), inspect(store).skipped) == ("flight+owed", {"withdrawn": 1})


def test_what_was_missed_is_held_though_the_last_run_was_asked_for(store):
    STATES["held"](store)
    store.at(NOW).jobs.run([JOB])
    run = take(store, now=NOW)
    set_job(store.at(NOW + 1), JOB, NEW, NOW - 10)
    assert end(store, run, NextState("next", LATER), now=NOW + 2)[:2] == ("ok", "held")
    assert inspect(store).held == NOW - 10


def test_continue_that_is_set_during_a_run_owes_nothing(store):
    run = STATES["flight"](store)
    set_job(store.at(NOW), JOB, "CONTINUE", "now")
    assert inspect(store).run.next == "set"
    assert end(store, run, NextState("die"))[:2] == ("ok", "queue")


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_schedule_that_is_due_already_when_it_is_set_during_a_run_comes_when_that_ends(store, is_paused, is_asked):
    run = STATES["flight"](store)
    if is_paused:
        pause(store, START + 1)
    if is_asked:
        store.at(START + 2).jobs.run([JOB])
    set_job(store.at(NOW), JOB, NEW, NOW - 10)
    assert inspect(store).skipped == ({"withdrawn": 1} if is_asked else {})
    if is_paused:
        assert resume(store.at(NOW + 1), Settings(), [JOB]) == ["resumed"]
    failed = NextState("due", NOW + 50, retry_state="1 0 1 1000.000000 -", retried=True)
    assert end(store, run, failed)[:2] == ("ok", "queue")
    assert inspect(store).waiting.due == NOW - 10
    assert inspect(store).retry_state == ""


@pytest.mark.parametrize("is_asked", [False, True])
def test_now_is_held_for_a_paused_job_in_flight_and_owed_when_it_is_resumed(store, is_asked):
    run = STATES["flight_and_paused"](store)
    if is_asked:
        store.at(NOW).jobs.run([JOB])
    set_job(store.at(NOW), JOB, "NOW", "now", once=True)
    assert (inspect(store).held, inspect(store).skipped) == (NOW, {"withdrawn": 1} if is_asked else {})
    assert inspect(store).run.next == "once"
    assert resume(store.at(NOW), Settings(), [JOB]) == ["flight"]
    assert end(store, run, NextState("next", LATER))[:2] == ("ok", "queue")


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


def test_a_resumption_that_is_repeated_counts_nothing_twice(store):
    STATES["held"](store)
    found = inspect(store)
    given = [(found, Resumption(LATER, skipped={"paused": 3}))]
    assert store.at(NOW).pauses.resume(given) == ["timeline"]
    assert store.at(NOW).pauses.resume(given) == ["unchanged"]
    assert inspect(store).skipped == {"paused": 3}


def test_unset_forgets_a_pause_and_so_does_a_run_that_unsets_its_job(store, client):
    for state in ("timeline", "flight"):
        run = STATES[state](store)
        pause(store, START, LATER)
        if run:
            assert end(store, run, NextState("unset"))[:2] == ("ok", "unset")
        else:
            store.jobs.unset(JOB)
        assert client.exists(store.keys.pauses, store.keys.timers) == 0


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


def test_a_run_that_is_over_its_deadline_is_held_if_it_is_to_happen_again(store):
    run = STATES["flight"](store)
    pause(store, START + 1)
    over = NextState("due", run.due, "overrun", f"0 0 1 {run.due:.6f} -", retried=True)
    assert end(store, run, over, now=START + TIMEOUT)[:2] == ("ok", "held")
    assert resume(store.at(START + TIMEOUT), Settings(), [JOB]) == ["queue"]
    again = take(store, "again", now=START + TIMEOUT)
    assert (again.due, again.attempt) == (START, 2)
