"""Groups of jobs: when what follows one is due. The clock stands still, and moves from one due time on."""

import pytest

from redbike import BadConfig, BadJobId, BadSchedule, StopWork, UnsetJob
from redbike.schedule.moments import AWAITED
from redbike.store.inspection.fsck import fsck
from tests.control.test_following import HOUR, HOURLY, START, make

NAME = "import-7"


def read(bike, name=NAME):
    return bike.store.groups.read([name])[name]


def count(bike, name=NAME):
    """How many are left, of how many, and how many of them have failed, or were given up."""
    return tuple(read(bike, name).counts)[:4]


def leftovers(bike):
    """What is kept of groups and followers."""
    keys = bike.store.keys
    return [*bike.client.hkeys(keys.following), *bike.client.zrange(keys.followers, 0, -1)]


def is_done(bike):
    """Whether the follower is due, or has been."""
    return bike.store.questions.inspect(["report"])[0].timeline != AWAITED


def behave(run):
    """Do what the id of the job says."""
    if run.jobid == "failing":
        raise OSError("it broke")
    if run.jobid == "stopping":
        raise StopWork
    if run.jobid == "leaving":
        raise UnsetJob


def test_a_thousand_jobs_make_one_due(redbike):
    bike, ran = make(redbike)
    assert bike.group(NAME, ((f"mail:{number}", "NOW") for number in range(1000)), then="report") == 1000
    assert count(bike) == (1000, 1000, 0, 0)
    bike.run_due(START)
    assert [job for job, _ in ran].count("report") == 1
    assert ran[-1] == ("report", 0)
    assert bike.tell("report")["schedule"] == "STOP"
    assert leftovers(bike) == []
    assert list(fsck(bike.store)) == []


def test_a_job_that_is_named_twice_is_counted_once(redbike):
    bike, _ = make(redbike)
    assert bike.group(NAME, [("twice", "NOW"), ("once", "NOW"), ("twice", f"AT:{START + 60}")], then="report") == 2
    assert count(bike)[:2] == (2, 2)


def test_what_waits_for_another_group_waits_for_this_one_alone_with_a_word(redbike, caplog):
    bike, _ = make(redbike)
    for _ in range(2):
        bike.group(NAME, [("first", "NOW")], then="report")
    assert not caplog.records
    bike.group("other", [("second", "NOW")], then="report")
    assert f"report waits for the group 'other' now, and not for the group '{NAME}' any more" in caplog.text
    bike.run_due(START)
    bike.group(NAME, [("third", "NOW")], then="report")
    assert len(caplog.records) == 1


def advance(bike, hours=1.0):
    bike.run_due(START + hours * HOUR, reraise=False)


# How the job "last" ends, by its schedule and options, and what is done; and what becomes of the counts.
ENDS = {
    "ok": ("last", HOURLY, {}, advance, (0, 0)),
    "failed": ("failing", HOURLY, {}, advance, (1, 0)),
    "failed for good": ("failing", HOURLY, {"on_error": "stop"}, advance, (1, 0)),
    "the last try failed": ("failing", HOURLY, {"retries": 2, "backoff": 1}, lambda bike: advance(bike, 1.5), (1, 0)),
    "a one-off": ("last", f"AT:{START + HOUR}", {}, advance, (0, 0)),
    "StopWork": ("stopping", HOURLY, {}, advance, (0, 0)),
    "UnsetJob": ("leaving", HOURLY, {}, advance, (0, 0)),
    "unset": ("last", HOURLY, {}, lambda bike: bike.unset("last"), (0, 1)),
    "stopped": ("last", HOURLY, {}, lambda bike: bike.set("last", "STOP"), (0, 1)),
    "set without it": ("last", HOURLY, {}, lambda bike: bike.set("last", HOURLY, group_of=None), (0, 1)),
    "set with another": ("last", HOURLY, {}, lambda bike: bike.set("last", HOURLY, group_of="other"), (0, 1)),
}


@pytest.mark.parametrize("case", ENDS)
def test_each_end_of_a_job_counts_once(redbike, case):
    job, schedule, options, act, expected = ENDS[case]
    told = []

    def work(run):
        if run.jobid == "report":
            told.append(bike.tell("report")["follows_group"])
        behave(run)

    bike, ran = make(redbike, work, on_error="reschedule")
    bike.group(NAME, [("first", f"AT:{START + 60}"), (job, schedule, options)], then="report")
    bike.run_due(START + HOUR / 2)
    assert count(bike) == (1, 2, 0, 0)
    assert not is_done(bike)
    act(bike)
    assert is_done(bike)
    assert count(bike) == (0, 0, 0, 0)
    bike.run_due(START + 3 * HOUR, reraise=False)
    [due] = [due for job, due in ran if job == "report"]
    assert due == (HOUR if not expected[1] else 60)
    failed, dropped = expected
    assert told == [{"name": NAME, "left": 0, "total": 2, "failed": failed, "dropped": dropped}]
    assert [each for each in leftovers(bike) if NAME.encode() in each] == []
    assert list(fsck(bike.store)) == []


@pytest.mark.parametrize(
    "drop",
    [
        lambda bike: bike.cancel("last"),
        lambda bike: advance(bike, 9),
        lambda bike: bike.unset("last"),
        lambda bike: bike.set("last", "STOP"),
    ],
    ids=["cancelled", "expired", "unset", "stopped"],
)
def test_what_waits_in_a_queue_and_never_runs_counts_too(redbike, drop):
    bike, ran = make(redbike)
    bike.group(NAME, [("first", "NOW"), ("last", "NOW", {"expires": "2h"})], then="report")
    bike.dispatch_due(START)
    bike.pause_queue("work-A")
    drop(bike)
    bike.resume_queue("work-A")
    bike.run_due(START + 10 * HOUR)
    assert [job for job, _ in ran].count("report") == 1
    assert leftovers(bike) == []


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_job_that_is_cancelled_before_a_retry_is_not_waited_for(redbike, is_paused):
    bike, ran = make(redbike, behave)
    bike.group(NAME, [("failing", "NOW", {"on_error": "retry", "retries": 2, "backoff": 3600})], then="report")
    bike.run_due(START, reraise=False)
    if is_paused:
        bike.pause("failing")
    bike.cancel("failing")
    assert bike.tell("report")["next_run"] == START
    bike.run_due(START)
    assert ran == [("failing", 0), ("report", 0)]


def test_a_job_that_is_set_again_is_waited_for_again(redbike):
    bike, ran = make(redbike)
    bike.group(NAME, [("first", "NOW"), ("last", f"AT:{START + HOUR}")], then="report")
    bike.run_due(START)
    assert count(bike) == (1, 2, 0, 0)
    bike.set("first", f"AT:{START + 2 * HOUR}")  # it keeps its group, as its other options
    assert count(bike) == (2, 3, 0, 0)
    bike.run_due(START + 3 * HOUR)
    assert ran == [("first", 0), ("last", HOUR), ("first", 2 * HOUR), ("report", 2 * HOUR)]


def test_a_paused_job_is_waited_for(redbike):
    bike, ran = make(redbike)
    bike.group(NAME, [("first", "NOW"), ("last", f"AT:{START + HOUR}")], then="report")
    bike.pause("last")
    bike.run_due(START + 2 * HOUR)
    assert count(bike) == (1, 2, 0, 0)
    assert read(bike).jobids == ("last",)
    bike.resume("last")
    bike.run_due(START + 3 * HOUR)
    assert ran == [("first", 0), ("last", HOUR), ("report", HOUR)]


def test_a_group_may_be_set_step_by_step(redbike):
    bike, ran = make(redbike)
    bike.set("one", "NOW", group_of=NAME)
    bike.run_due(START)
    assert leftovers(bike) == [], "nothing waits for it"
    bike.set("two", f"AT:{START + HOUR}", group_of=NAME)
    bike.set("report", f"GROUP:{NAME}")
    bike.set("three", f"AT:{START + 2 * HOUR}", group_of=NAME)
    assert bike.set("two", f"AT:{START + HOUR}", group_of=NAME), "it counts once"
    assert count(bike) == (2, 2, 0, 0)
    bike.run_due(START + 3 * HOUR)
    assert ran == [("one", 0), ("two", HOUR), ("three", 2 * HOUR), ("report", 2 * HOUR)]


def test_a_group_of_no_jobs_has_ended(redbike):
    bike, ran = make(redbike)
    assert bike.group(NAME, [], then="report") == 0
    bike.set("other", "GROUP:nothing")
    bike.run_due(START)
    assert sorted(ran) == [("other", 0), ("report", 0)]
    assert leftovers(bike) == []


def test_one_group_after_another_makes_the_same_job_due(redbike):
    bike, ran = make(redbike)
    for night in range(3):
        now = START + night * HOUR
        bike.group(NAME, [("one", f"AT:{now}"), ("two", "NOW")], then="report")
        bike.run_due(now)
    assert [due for job, due in ran if job == "report"] == [0, HOUR, 2 * HOUR]


def test_a_group_that_still_runs_is_opened_again_and_its_jobs_count_once(redbike):
    bike, ran = make(redbike)
    bike.group(NAME, [("one", "NOW"), ("two", f"AT:{START + 5 * HOUR}")], then="report")
    bike.run_due(START)
    bike.group(NAME, [("one", "NOW"), ("two", f"AT:{START + 5 * HOUR}")], then="report")
    assert count(bike) == (2, 2, 0, 0)
    bike.run_due(START + 6 * HOUR)
    assert [job for job, _ in ran] == ["one", "one", "two", "report"]


def test_a_job_that_joins_in_flight_counts_with_the_run_that_it_is_to_have(redbike):
    bike, ran = make(redbike, lambda run: None)

    def work(run):
        ran.append(run.jobid)
        if ran == ["one"]:
            bike.group(NAME, [("one", "NOW"), ("two", f"AT:{START + 60}")], then="report")
        elif ran == ["one", "one"]:
            assert count(bike) == (2, 2, 0, 0)

    bike.worker.action, ran[:] = work, []
    bike.set("one", "NOW")
    bike.run_due(START + 30)
    assert ran == ["one", "one"]
    assert count(bike) == (1, 2, 0, 0)
    bike.run_due(START + HOUR)
    assert ran[2:] == ["two", "report"]


@pytest.mark.parametrize("schedule", [HOURLY, f"AT:{START + 2 * HOUR}"], ids=["unchanged", "later"])
def test_a_job_that_joins_in_flight_counts_with_that_run_if_no_other_was_asked_for(redbike, schedule):
    def work(run):
        if run.jobid == "one":
            bike.group(NAME, [("one", schedule), ("two", f"AT:{START + 3 * HOUR}")], then="report")
            bike.worker.action = ran.append

    bike, ran = make(redbike)
    bike.worker.action = work
    bike.set("one", HOURLY)
    bike.run_due(START + HOUR)
    left = 1 if schedule == HOURLY else 2
    assert count(bike) == (left, 2, 0, 0)
    bike.run_due(START + 2 * HOUR)
    assert count(bike) == (1, 2, 0, 0)


def test_a_run_that_somebody_asked_for_before_does_not_end_the_wait(redbike):
    bike, ran = make(redbike)
    bike.group(NAME, [("one", f"AT:{START + HOUR}")], then="report")
    bike.run("report")
    bike.run_due(START)
    assert [job for job, _ in ran] == ["report"]
    bike.run_due(START + HOUR)
    assert [job for job, _ in ran] == ["report", "one", "report"]
    assert bike.tell("report")["schedule"] == "STOP"


@pytest.mark.parametrize("job", ["report", "one"])
def test_unset_leaves_nothing_behind(redbike, job):
    bike, _ = make(redbike)
    bike.set("one", f"AT:{START + HOUR}", group_of=NAME)
    bike.set("report", f"GROUP:{NAME}")
    bike.unset(job)
    bike.run_due(START + HOUR)
    assert leftovers(bike) == []


CYCLES = [
    ([("report", "GROUP:g", {"group_of": "g"})], "report after group g after report"),
    (
        [("a", "AFTER:report", {"group_of": "g"}), ("report", "GROUP:g", {})],
        "report after group g after a after report",
    ),
    (
        [("report", "GROUP:g", {}), ("a", "AFTER:b", {"group_of": "g"}), ("b", "AFTER:report", {})],
        "b after report after group g after a after b",
    ),
    (
        [("a", "GROUP:h", {"group_of": "g"}), ("b", "GROUP:g", {"group_of": "h"})],
        "b after group g after a after group h after b",
    ),
]


@pytest.mark.parametrize(("jobs", "path"), CYCLES)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_cycle_is_refused_and_named(redbike, caplog, jobs, path, at_once):
    bike, _ = make(redbike)
    for group in "gh":
        bike.set(f"other:{group}", f"AT:{START + HOUR}", group_of=group)
    if at_once:
        results = dict(bike.set_many(jobs))
        [error] = [each for each in results.values() if each is not True]
        assert "the job would wait for itself: " in str(error)
        return
    done = [bike.set(job, schedule, **options) for job, schedule, options in jobs]
    assert done == [True] * (len(jobs) - 1) + [False]
    assert path in caplog.text
    assert bike.tell(jobs[-1][0])["status"] is None


@pytest.mark.parametrize(
    ("name", "jobs", "then", "error", "why"),
    [
        ("", [], "report", BadConfig, "bad group '': the name of a group is missing"),
        ("x" * 201, [], "report", BadConfig, "200 bytes at most, and this one 201"),
        ("a\nb", [], "report", BadConfig, "control characters"),
        (" a", [], "report", BadConfig, "blanks at its ends"),
        (7, [], "report", BadConfig, "bad group 7: the name of a group is a text"),
        (NAME, [("one", "NOW"), ("report", "NOW")], "report", BadConfig, "'report' cannot be one of those"),
        (NAME, [("one", "NOW")], "re\nport", BadJobId, "bad job id"),
        (NAME, [("one", None)], "report", BadConfig, "'one' has no schedule"),
        (NAME, ["ab"], "report", TypeError, "bad pair 'ab'"),
        (NAME, "ab", "report", TypeError, "bad jobs 'ab'"),
        (NAME, [("one", "NOW", 5)], "report", TypeError, "bad options 5"),
    ],
)
def test_bad_input_changes_nothing(redbike, name, jobs, then, error, why):
    bike, _ = make(redbike)
    with pytest.raises(error, match=why):
        bike.group(name, jobs, then=then)
    assert bike.client.keys(f"{bike.prefix}-*") in ([], [f"{bike.prefix}-agreed".encode()])


def test_a_job_that_is_refused_leaves_the_group_open_until_it_is_called_again(redbike):
    bike, ran = make(redbike)
    with pytest.raises(BadSchedule, match=r"two: bad schedule 'x'.*so 'report' is not set"):
        bike.group(NAME, [("one", "NOW"), ("two", "x")], then="report")
    bike.run_due(START)
    assert read(bike).counts.is_open
    bike.group(NAME, [("one", "NOW"), ("two", "NOW")], then="report")
    bike.run_due(START)
    assert [job for job, _ in ran][-1] == "report"
    assert leftovers(bike) == []
