"""The policies: where a job goes when a run of it has ended."""

from dataclasses import replace

import pytest

from redbike.config import Settings
from redbike.keeping.fsck import fsck
from redbike.running.occurrences import JUST_BEFORE, place_next
from redbike.running.policies import (
    MAX_ERROR,
    MAX_TRACEBACK,
    place_again,
    place_done,
    place_failed,
    place_lost,
    place_overrun,
    place_owed,
    place_suspect,
)
from redbike.schedule.parser import parse
from redbike.state.records import Streak
from redbike.state.run import Answer, Placement, Run
from redbike.state.store import Store
from redbike.words import Outcome
from redbike.working.ends import commit
from tests.states import JOB, LATER, NEW, NOW, OLD, START, queue_for, take
from tests.verbs import run_job, set_job


def run(schedule="EVERY:10@0", due=100.0, start=100.0, failures=0, losses=0):
    return Run("job:A", due, "tag", start, start + 10, failures, losses, parse(schedule).text, "work-A")


def test_the_next_occurrence_is_after_both_now_and_the_one_that_was_run():
    assert place_done(run(), None, Settings(), 101.0) == Placement("next", 110.0)
    assert place_done(run(due=120.0), None, Settings(), 101.0) == Placement("next", 130.0)


@pytest.mark.parametrize("schedule", ["NOW", "AT:100"])
def test_a_one_off_has_run_out(schedule):
    assert place_done(run(schedule), None, Settings(), 101.0) == Placement("next", None)


@pytest.mark.parametrize(
    ("result", "due"),
    [
        (None, "+0.000000"),
        (3, "+3.000000"),
        (2.5, "+2.500000"),
        (0, "+0.000000"),
        (-0.0, "+0.000000"),
    ],
)
def test_continue_goes_on_at_once_or_after_the_pause_that_the_worker_returns(result, due):
    assert place_done(run("CONTINUE"), result, Settings(), 101.0) == Placement("next", due)


@pytest.mark.parametrize("result", [True, "soon", float("nan"), float("inf"), -1, 10**12])
def test_a_pause_that_is_none_is_refused(result):
    with pytest.raises((TypeError, ValueError), match="work\\(\\) returned"):
        place_done(run("CONTINUE"), result, Settings(), 101.0)


def test_what_is_returned_means_nothing_without_continue():
    assert place_done(run(), "a result", Settings(), 101.0) == Placement("next", 110.0)


def test_occurrences_that_are_skipped_are_counted_by_reason():
    # Due at 100, started at 125 (110 and 120 were missed), done at 155 (130, 140 and 150 came while it ran).
    outcome = place_done(run(start=125.0), None, Settings(), 155.0)
    assert outcome == Placement("next", 160.0, missed=2, overlapped=3)


def test_catchup_all_runs_each_missed_occurrence_in_turn():
    settings = Settings(catchup="all")
    assert place_done(run(start=125.0), None, settings, 126.0) == Placement("next", 110.0)
    assert place_done(run(due=110.0, start=126.0), None, settings, 127.0) == Placement("next", 120.0)
    assert place_done(run(due=120.0, start=127.0), None, settings, 128.0) == Placement("next", 130.0)


def test_catchup_all_goes_back_as_far_as_its_limit():
    settings = Settings(catchup="all", catchup_limit=3)
    # 110 … 200 were missed; the last three are 180, 190 and 200.
    assert place_done(run(start=205.0), None, settings, 205.0) == Placement("next", 180.0, missed=7)


def test_an_error_stops_the_job_by_default_and_is_kept():
    outcome = place_failed(run(), ValueError("broken\npipe"), Settings(), 101.0)
    assert (outcome.place, outcome.due) == ("die", None)
    assert outcome.failure["error"] == "ValueError: broken pipe"
    assert outcome.failure | {"traceback": ""} == {
        "jobid": "job:A",
        "due": 100.0,
        "attempt": 1,
        "failed": 101.0,
        "error": "ValueError: broken pipe",
        "traceback": "",
    }


def test_what_is_kept_of_an_error_is_bounded():
    try:
        raise ValueError("x" * 100_000)
    except ValueError as error:
        kept = place_failed(run(), error, Settings(), 101.0).failure
    assert len(kept["error"]) == MAX_ERROR
    # The message is cut, so that the lines before it stay.
    assert len(kept["traceback"]) <= MAX_TRACEBACK
    assert kept["traceback"].startswith("Traceback")
    assert kept["traceback"].endswith("x…\n")


def test_on_error_reschedule_goes_on_to_the_next_occurrence():
    outcome = place_failed(run(), ValueError(), Settings(on_error="reschedule"), 101.0)
    assert (outcome.place, outcome.due) == ("next", 110.0)
    assert outcome.failure is not None


def test_on_error_reschedule_does_not_let_continue_spin():
    outcome = place_failed(run("CONTINUE"), ValueError(), Settings(on_error="reschedule", backoff=4.0), 101.0)
    assert outcome.due == "+4.000000"


def test_on_error_retry_pauses_longer_each_time_and_then_stops():
    settings = Settings(on_error="retry", retries=3, backoff=2.0)
    outcomes = [place_failed(run(failures=n), ValueError(), settings, 101.0) for n in range(4)]
    assert [outcome.due for outcome in outcomes] == ["+2.000000", "+4.000000", "+8.000000", None]
    kept = [f"{n} 0 1 100.000000 -" for n in (1, 2, 3)]
    assert [outcome.streak for outcome in outcomes] == [*kept, ""]
    assert [outcome.place for outcome in outcomes] == ["due", "due", "due", "die"]
    assert [outcome.failure is None for outcome in outcomes] == [True, True, True, False]
    assert (
        place_failed(run(failures=500), ValueError(), Settings(on_error="retry", retries=1000), 1.0).due
        == "+3600.000000"
    )


@pytest.mark.parametrize("catchup", ["last", "all"])
def test_a_retry_is_the_same_occurrence_and_drops_no_other(catchup):
    # Due at 100, failed at 101 and tried again at 135: 110, 120 and 130 have come due since.
    settings = Settings(on_error="retry", backoff=34.0, catchup=catchup)
    outcome = place_failed(run(), ValueError(), settings, 101.0)
    told = {"outcome": Outcome.RETRY, "error": "ValueError"}
    assert outcome == Placement("due", "+34.000000", streak="1 0 1 100.000000 -", retried=True, **told)
    again = replace(run(start=135.0, failures=1), tries=1)
    assert again.attempt == 2
    expected = Placement("next", 140.0, missed=3) if catchup == "last" else Placement("next", 110.0)
    assert place_done(again, None, settings, 136.0) == expected


def test_what_was_asked_for_in_between_lets_the_schedule_go_on_where_it_was():
    settings = Settings(catchup="all")
    between = replace(run(due=125.0, start=125.0), after=109.999999)
    assert place_done(between, None, settings, 126.0) == Placement("next", 110.0)
    assert (
        place_failed(between, ValueError(), Settings(on_error="retry"), 126.0).streak == "1 0 1 125.000000 109.999999"
    )


@pytest.mark.parametrize(
    ("end", "settings"),
    [
        (lambda run, settings: place_failed(run, ValueError(), settings, 101.0), Settings(on_error="retry")),
        (lambda run, settings: place_overrun(run, settings, 115.0), Settings(on_timeout="requeue")),
    ],
)
def test_what_is_tried_again_is_no_success(end, settings):
    assert end(run(), settings).retried
    assert not place_done(run(), None, settings, 101.0).retried


def test_every_kind_of_try_counts_as_an_attempt():
    tried = replace(run(), tries=4, failures=1, losses=2)
    assert place_lost(replace(tried, losses=1), Settings(), 115.0).streak == "1 2 5 100.000000 -"
    assert place_overrun(tried, Settings(on_timeout="requeue"), 115.0).streak == "1 0 5 100.000000 -"
    assert place_failed(tried, ValueError(), Settings(on_error="retry"), 101.0).streak == "2 0 5 100.000000 -"
    assert place_lost(tried, Settings(), 115.0).failure["attempt"] == 5


@pytest.mark.parametrize("schedule", ["NOW", "AT:100", "RRULE:FREQ=DAILY;COUNT=1"])
def test_what_fails_at_its_last_occurrence_has_failed_for_good(schedule):
    settings = Settings(on_error="reschedule", on_timeout="reschedule", on_lost="reschedule")
    last = run(schedule)
    for outcome in (
        place_failed(last, ValueError(), settings, 101.0),
        place_overrun(last, settings, 115.0),
        place_lost(last, settings, 115.0),
    ):
        assert (outcome.place, outcome.due) == ("die", None)
        assert outcome.failure is not None


def test_a_timeout_that_is_rescheduled_is_kept_as_a_failure():
    outcome = place_overrun(run(), Settings(on_timeout="reschedule"), 115.0)
    assert "overran" in outcome.failure["error"]


@pytest.mark.parametrize(
    ("why", "policy", "place", "due"),
    [
        ("overrun", "stop", "die", None),
        ("overrun", "reschedule", "next", 110.0),
        ("overrun", "requeue", "due", 100.0),
        ("lost", "stop", "die", None),
        ("lost", "reschedule", "next", 120.0),
        ("lost", "requeue", "due", 100.0),
    ],
)
def test_an_overrun_and_a_lost_run_end_by_their_policies(why, policy, place, due):
    if why == "overrun":
        outcome = place_overrun(run(), Settings(on_timeout=policy), 109.9)
    else:
        outcome = place_lost(run(), Settings(on_lost=policy), 115.0)
    assert (outcome.place, outcome.due, outcome.why) == (place, due, why)


@pytest.mark.parametrize("policy", ["requeue", "reschedule"])
def test_the_third_loss_in_a_row_is_the_last(policy):
    settings = Settings(on_lost=policy)
    outcomes = [place_lost(run(losses=n), settings, 115.0) for n in range(3)]
    place = "due" if policy == "requeue" else "next"
    assert [outcome.place for outcome in outcomes] == [place, place, "die"]
    tried = " 1 100.000000 -" if policy == "requeue" else ""
    assert [outcome.streak for outcome in outcomes[:2]] == [f"0 1{tried}", f"0 2{tried}"]
    assert "3 times in a row" in outcomes[2].failure["error"]


def test_a_raise_breaks_a_row_of_losses():
    assert place_failed(run(losses=2), ValueError(), Settings(on_error="retry"), 101.0).streak == "1 0 1 100.000000 -"


def changed(left, schedule="EVERY:7@0"):
    """What is answered to the end of a run during which something was set."""
    return Answer("changed", parse(schedule).text, left)


def test_what_was_set_during_the_run_counts():
    for outcome in (
        Placement("stop"),
        Placement("unset"),
        Placement("next", 110.0),
        Placement("due", "+5", streak="1 0"),
    ):
        assert place_again(run(), outcome, changed("set"), Settings(), 101.0) == Placement("next", 105.0, left="set")
    assert place_again(run(), Placement("die"), changed("set", "CONTINUE"), Settings(), 101.0).due == "+0"
    assert place_again(run(), Placement("die"), changed("set", "STOP"), Settings(), 101.0) == Placement(
        "next", None, left="set"
    )


@pytest.mark.parametrize("why", ["", "overrun", "lost"])
def test_how_the_run_ended_is_kept_all_the_same(why):
    failure = {"error": "it broke"}
    outcome = place_again(run(), Placement("die", why=why, failure=failure), changed("set"), Settings(), 101.0)
    assert outcome == Placement("next", 105.0, why, failure=failure, left="set")
    tried = Placement("due", "+5", why, streak="1 0 1 100.000000 -", retried=True)
    assert place_again(run(), tried, changed("set"), Settings(), 101.0) == Placement(
        "next", 105.0, why, retried=True, left="set"
    )


@pytest.mark.parametrize("catchup", ["last", "all", "none"])
def test_a_schedule_that_was_set_during_the_run_has_no_occurrence_before(catchup):
    settings = Settings(catchup=catchup)
    assert place_again(run(due=0.0), Placement("next"), changed("set"), settings, 101.0) == Placement(
        "next", 105.0, left="set"
    )
    # Those that came due while the run went on were overtaken by it.
    after = place_again(run(due=0.0), Placement("next"), changed("set"), settings, 120.0)
    assert after == Placement("next", 126.0, overlapped=3, left="set")


def test_a_schedule_that_was_set_during_the_run_does_not_wait_for_the_old_one():
    between = replace(run(), after=499.999999)
    assert place_again(between, Placement("next", 500.0), changed("set"), Settings(), 101.0).due == 105.0


def test_a_schedule_that_was_set_and_cannot_be_read_is_given_up():
    outcome = place_again(run(), Placement("next", 110.0), Answer("changed", "garbage", "set"), Settings(), 101.0)
    assert (outcome.place, outcome.left) == ("die", "set")
    assert "garbage" in outcome.failure["error"]


@pytest.mark.parametrize("left", ["set+timeline", "once+timeline"])
@pytest.mark.parametrize(
    "outcome",
    [
        Placement("next", 110.0, missed=3),
        Placement("next", 110.0, streak="0 1"),
        Placement("due", "+5", streak="1 0 1 100.000000 -", retried=True),
        Placement("due", 100.0, "lost", streak="0 0 alone"),
        Placement("die", why="overrun", failure={"error": "it overran"}),
        Placement("stop"),
        Placement("unset"),
    ],
)
def test_what_is_on_the_timeline_stays_there(left, outcome):
    stays = replace(outcome, place="stay", due=None, streak="", left=left)
    assert place_again(run(), outcome, changed(left), Settings(), 101.0) == stays


@pytest.mark.parametrize("schedule", ["NOW", "AT:100", "AT:101.5"])
@pytest.mark.parametrize(
    "outcome",
    [
        Placement("next", 110.0),
        Placement("next", None),
        Placement("die", failure={"error": "it broke"}),
        Placement("due", "+5", streak="1 0 1 100.000000 -", retried=True),
        Placement("unset"),
    ],
)
def test_a_one_off_that_is_owed_runs_next_and_that_is_all(schedule, outcome):
    owes = replace(outcome, place="due", due=101.5, streak="", left="due:101.500000")
    assert place_again(run(), outcome, changed("due:101.500000", schedule), Settings(), 102.0) == owes


@pytest.mark.parametrize(
    "outcome",
    [
        Placement("due", "+5", streak="1 0 1 100.000000 -", retried=True),
        Placement("due", 100.0, "overrun", streak="0 0 1 100.000000 -", retried=True),
        Placement("due", 100.0, "lost", streak="0 1 1 100.000000 -"),
        Placement("due", 100.0, "lost", streak="0 0 alone"),
    ],
)
def test_a_run_that_happens_again_is_the_one_that_is_owed(outcome):
    """At once, and for its own due time."""
    again = replace(outcome, due=100.0, left="due:101.500000")
    assert place_again(run(), outcome, changed("due:101.500000", "EVERY:10@0"), Settings(), 102.0) == again


@pytest.mark.parametrize(
    ("outcome", "after"),
    [
        (Placement("next", 110.0), 110.0 - JUST_BEFORE),
        (Placement("next", 70.0), 70.0 - JUST_BEFORE),  # with catchup = all
        (Placement("die"), 100.0),
        (Placement("stop"), 100.0),
        (Placement("unset"), 100.0),
        (Placement("die", why="lost"), 100.0),
    ],
)
def test_a_run_that_is_owed_in_between_leaves_the_place_of_the_schedule(outcome, after):
    found = place_again(run(), outcome, changed("due:101.500000", "EVERY:10@0"), Settings(), 102.0)
    streak = Streak(after=after).format()
    assert found == replace(outcome, place="due", due=101.5, streak=streak, left="due:101.500000")
    kept = Streak.parse(streak)
    assert (kept.tries, kept.due) == (0, None), "it is another occurrence"


@pytest.mark.parametrize("outcome", [Placement("die"), Placement("due", 300.0, streak="1 0 1 100.000000 -")])
def test_a_one_off_that_is_asked_for_during_its_run_runs_once_more_and_that_is_all(outcome):
    found = place_again(run("AT:100"), outcome, changed("due:101.500000", "AT:100"), Settings(), 102.0)
    assert found == replace(outcome, place="due", due=101.5, streak="", left="due:101.500000")


@pytest.mark.parametrize("due", [None, "+0.000000"])
def test_where_there_is_no_next_occurrence_no_place_is_left(due):
    """The rule has run out, or it continues whenever it is done."""
    found = place_again(run(), Placement("next", due), changed("due:101.500000", "EVERY:10@0"), Settings(), 102.0)
    assert found == Placement("due", 101.5, left="due:101.500000")


@pytest.mark.parametrize("outcome", [Placement("next", 110.0), Placement("die"), Placement("stop")])
def test_a_new_schedule_does_not_go_on_from_the_place_of_the_old_one(outcome):
    """It was set during the run, and then a run was asked for too."""
    found = place_again(run(), outcome, changed("due:101.500000", "EVERY:7@0"), Settings(), 102.0)
    assert found == replace(outcome, place="due", due=101.5, streak="", left="due:101.500000")


def test_what_is_owed_is_found_beside_what_another_hand_has_put_on_the_timeline():
    found = place_owed(run(), Placement("next", None, left="due:101.500000+timeline"), "EVERY:10@0")
    assert (found.due, found.left) == (101.5, "due:101.500000+timeline")


def test_a_place_is_computed_again_from_how_the_run_ended_and_not_from_the_last_time(client, prefix, monkeypatch):
    """First a new schedule is set, and while the place is computed by that a run is asked for too."""
    store = Store(client, prefix, queue_for)
    set_job(store.at(START), JOB, OLD, START)
    begun = take(store)
    set_job(store.at(NOW), JOB, NEW, LATER)

    def clock(_):
        run_job(store.at(NOW), JOB)
        return NOW

    monkeypatch.setattr(Run, "now", clock)

    broken = Placement("die", failure={"jobid": JOB, "due": START, "attempt": 1})
    assert commit(store.at(NOW), begun, broken, Settings())[0] == Answer("ok", "queue")
    again = take(store, "again", now=NOW)
    assert (again.due, again.after, again.schedule) == (NOW, None, NEW)
    assert store.questions.inspect([JOB])[0].failure == broken.failure
    assert list(fsck(store)) == []


def test_of_two_runs_that_are_asked_for_one_after_the_other_the_last_is_owed(client, prefix, monkeypatch):
    """The second while the place is computed by the first, which is not how the run ended."""
    store = Store(client, prefix, queue_for)
    set_job(store.at(START), JOB, OLD, START)
    begun = take(store)
    run_job(store.at(NOW - 1), JOB)

    def clock(_):
        run_job(store.at(NOW), JOB)
        return NOW

    monkeypatch.setattr(Run, "now", clock)

    assert commit(store.at(NOW), begun, Placement("next", LATER), Settings())[0] == Answer("ok", "queue")
    again = take(store, "again", now=NOW)
    assert again.due == NOW
    assert again.after == pytest.approx(LATER)


def test_no_loss_is_counted_for_those_that_were_lost_together():
    tried = replace(run(failures=1, losses=2), tries=3, after=120.0)
    outcome = place_suspect(tried)
    assert (outcome.place, outcome.due, outcome.why) == ("due", 100.0, "lost")
    assert Streak.parse(outcome.streak) == Streak(1, 2, 3, 100.0, 120.0, alone=True)
    assert Streak.parse(place_suspect(run()).streak) == Streak(alone=True), "it was not tried yet"


def test_counting_is_bounded():
    outcome = place_next(run("EVERY:1@0", due=0.0, start=10**9), parse("EVERY:1@0"), Settings(), 10.0**9)
    assert outcome.missed == 10_000
    assert outcome.due == 10**9 + 1


@pytest.mark.parametrize("policy", ["stop", "reschedule", "retry"])
def test_a_job_whose_schedule_cannot_be_read_is_given_up_with_its_error(policy):
    damaged = replace(run(), schedule="garbage")
    outcome = place_failed(damaged, ValueError("broken"), Settings(on_error=policy), 101.0)
    assert (outcome.place, outcome.failure["error"]) == ("die", "ValueError: broken")


@pytest.mark.parametrize(("why", "place"), [("lost", place_lost), ("overrun", place_overrun)])
def test_nor_does_such_a_job_end_who_looks_after_it(why, place):
    damaged = replace(run(), schedule="garbage")
    outcome = place(damaged, Settings(on_lost="reschedule", on_timeout="reschedule"), 115.0)
    assert (outcome.place, outcome.why) == ("die", why)
    assert "garbage" in outcome.failure["error"]
