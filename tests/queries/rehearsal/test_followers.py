"""The rehearsal of an action on jobs that follow others, or are followed, says what really happens."""

from collections import Counter
from itertools import product

import pytest

from redbike import BadSchedule
from tests.queries.following.test_coming import One
from tests.queries.rehearsal.test_rehearsal import (
    QUEUE,
    START,
    Worker,
    count,
    count_real,
    do,
    end_all,
    live,
    rehearse,
    skip_to,
    some_of,
)
from tests.verbs import take_one

HOURS = 8.97
HOUR = 3600
WORLD = {
    "a": f"EVERY:1h@{START - 600:.0f}",
    "b": f"EVERY:3h@{START - 1200:.0f}",
    "child": "AFTER:a",
    "last": "AFTER:child any",
    "both": "AFTER:a,b",
    "alarm": "AFTER:a failed",
}
ACTIONS = [
    ("", {}),
    ("pause", {}),
    ("pause", {"until": START + 5.5 * HOUR}),
    ("resume", {}),
    ("run", {}),
    ("cancel", {}),
    ("unset", {}),
    ("set", {"schedule": "EVERY:2h"}),
    ("set", {"schedule": "AFTER:b"}),
    ("set", {"schedule": "STOP"}),
]


def make(redbike, **settings):
    bike = redbike(One(), now=START, **settings)
    for jobid, schedule in WORLD.items():
        assert bike.set(jobid, schedule)
    return bike


def check(bike, action, jobids, **how):
    """What is rehearsed is what happens; jobs that are not chosen count too."""
    found = rehearse(bike, action or "resume", jobids, HOURS, **how)
    if action:
        do(bike, action, jobids, **how)
    side = found.changed if action else found.without
    assert count_real(bike, found) == count(side) + Counter(count(found.others))
    return found


CASES = [
    (steps, action, how, jobids)
    for (action, how), jobids, steps in product(
        ACTIONS,
        (["a"], ["child"], ["both"], ["a", "child"]),
        ("", "run 60 dispatch", "pause", "pause@20000", "12000"),
    )
    if how.get("schedule") != "AFTER:b" or jobids in (["child"], ["both"])
]


@pytest.mark.parametrize(("steps", "action", "how", "jobids"), some_of(9, CASES))
def test_what_is_rehearsed_happens(redbike, steps, action, how, jobids):
    bike = make(redbike)
    if steps == "12000":
        bike.run_due(START + 12000)
    else:
        live(bike, steps, jobids[0])
    check(bike, action, jobids, **how)


@pytest.mark.parametrize(
    ("catchup", "queue", "before", "action"),
    [
        ("none", "work-A", "", "pause"),
        ("none", "work-A", "pause", "resume"),
        ("last", "", "pause", "resume"),
        ("last", "work-A", "pause", "pause"),
    ],
)
def test_what_is_rehearsed_of_a_queue_happens(redbike, catchup, queue, before, action):
    bike = make(redbike, catchup=catchup)
    if before:
        do(bike, before, limits=queue)
    until = {"until": START + 5.5 * HOUR} if action == "pause" else {}
    check(bike, action, list(WORLD), limits=queue, **until)


@pytest.mark.parametrize(("catchup", "jobid"), [("none", "child"), ("all", "both")])
def test_a_pause_of_a_follower_ends_by_catchup(redbike, catchup, jobid):
    bike = make(redbike, catchup=catchup)
    check(bike, "pause", [jobid], until=START + 5.5 * HOUR)


def test_a_pause_of_a_follower_goes_on_after_a_blackout_that_is_on(redbike):
    bike = make(redbike)
    bike.pause("child", every=f"EVERY:1d@{START - 86400:.0f}", lasting="2h")
    found = check(bike, "pause", ["child"], until=START + 5.5 * HOUR)
    assert found.changed.runs < found.without.runs


@pytest.mark.parametrize("schedule", ["AFTER:b,a", "AFTER:b,a any"])
def test_other_parents_have_not_ended_and_the_same_in_another_order_have(redbike, schedule):
    bike = make(redbike)
    bike.run_due(START + 1.9 * HOUR)
    assert bike.tell("both")["waits_for"] == ["b"]
    check(bike, "set", ["both"], schedule=schedule)


@pytest.mark.parametrize("catchup", ["last", "none"])
@pytest.mark.parametrize(("jobid", "steps"), [("child", "run 60 dispatch"), ("both", "run 60 dispatch pause@19800")])
def test_a_follower_that_waited_before_its_pause_runs_once_more_for_what_ended_in_it(redbike, catchup, jobid, steps):
    bike = make(redbike, catchup=catchup)
    live(bike, steps, jobid)
    check(bike, "pause", [jobid], until=START + 5.5 * HOUR)


def make_failing(redbike, backoff):
    """A follower whose first try has failed."""
    bike = redbike(Worker(), now=START)
    bike.set("a:A", WORLD["a"])
    bike.set("bad:A", "AFTER:a:A", retries=1, backoff=backoff)
    bike.run("bad:A")
    bike.run_due(START, reraise=False)
    return bike


def test_a_follower_that_is_tried_again_after_its_pause_runs_once_more_for_what_ended_in_it(redbike):
    bike = make_failing(redbike, "1h")
    check(bike, "pause", ["bad:A"], until=START + 5.5 * HOUR)


def test_a_run_that_is_owed_when_a_pause_begins_is_replaced_by_what_ended_in_it(redbike):
    bike = make_failing(redbike, "5m")
    skip_to(bike, 300)
    bike.dispatch_due(bike.now)
    run = take_one(bike.store.at(bike.now), [(QUEUE, 1e6)], "elsewhere0")
    bike.run("bad:A")
    found = rehearse(bike, "pause", ["bad:A"], HOURS, until=START + 5.5 * HOUR)
    bike.pause("bad:A", until=START + 5.5 * HOUR)
    end_all(bike, [run])
    assert count_real(bike, found) == count(found.changed) + Counter(count(found.others))


@pytest.mark.parametrize(("jobid", "action"), [("a:A", "run"), ("bad:A", "run"), ("bad:A", "pause")])
def test_a_follower_that_has_failed_for_good_runs_only_if_somebody_runs_it(redbike, jobid, action):
    bike = redbike(Worker(), now=START)
    bike.set("a:A", WORLD["a"])
    bike.set("bad:A", "AFTER:a:A")
    bike.run_due(START + HOUR, reraise=False)
    check(bike, action, [jobid], **({"until": START + 2 * HOUR} if action == "pause" else {}))


def test_followers_are_counted_with_their_parents(redbike):
    found = rehearse(make(redbike), "unset", ["a"], HOURS)
    assert (found.jobs, found.followers) == (1, 4)
    assert found.without.runs == 9 + 9 + 9 + 3
    assert found.changed.runs == 0


def test_a_bad_schedule_is_refused(redbike):
    with pytest.raises(BadSchedule, match="a job id is missing"):
        rehearse(make(redbike), "set", ["a"], schedule="AFTER:")


@pytest.mark.parametrize("length", [0, 80, 150])
def test_a_job_that_would_wait_for_itself_is_refused_as_by_set(redbike, caplog, length):
    bike = redbike(One(), now=START)
    for number in range(length + 1):
        assert bike.set(f"c{number}", f"AFTER:c{number - 1}" if number else "EVERY:1h")
    change = {"schedule": f"AFTER:c{length}"}
    assert not bike.set("c0", change["schedule"])
    with pytest.raises(BadSchedule) as rehearsed:
        rehearse(bike, "set", ["c0"], 2, **change)
    assert caplog.messages[-1] == f"c0: {rehearsed.value}"
    assert rehearse(bike, "set", ["other"], 2, **change).jobs == 1


@pytest.mark.parametrize(
    ("jobids", "action", "how"),
    [
        (["a"], "", {}),
        (["last"], "pause", {"until": START + 5.5 * HOUR}),
        (["a"], "unset", {}),
        (["report"], "pause", {}),
        (["a", "b"], "set", {"schedule": "EVERY:2h"}),
        (["report"], "run", {}),
    ],
)
def test_what_is_rehearsed_of_a_group_happens(redbike, jobids, action, how):
    bike = make(redbike)
    bike.group("g", [(jobid, WORLD[jobid]) for jobid in ("a", "b", "last")], then="report")
    bike.set("after", "AFTER:report")
    check(bike, action, jobids, **how)


def test_a_cycle_by_way_of_a_group_is_refused_as_by_set(redbike, caplog):
    bike = make(redbike)
    bike.set("last", WORLD["last"], group_of="g")
    assert not bike.set("a", "GROUP:g")
    with pytest.raises(BadSchedule) as rehearsed:
        rehearse(bike, "set", ["a"], 2, schedule="GROUP:g")
    assert caplog.messages[-1] == f"a: {rehearsed.value}"
