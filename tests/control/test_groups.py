"""Groups of jobs: when what follows one is due. The clock stands still, and moves from one due time on."""

import pytest

from redbike import BadConfig, BadJobId, BadSchedule, Redbike, UnsetJob
from redbike.schedule.moments import AWAITED
from redbike.store.inspection.fsck import fsck
from tests.control.test_following import HOUR, HOURLY, START, One, make
from tests.states import unchanged

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
    if run.jobid == "leaving":
        raise UnsetJob


def test_hundreds_of_jobs_make_one_due(redbike):
    bike, ran = make(redbike)
    assert bike.group(NAME, ((f"mail:{number}", "NOW") for number in range(250)), then="report") == 250
    assert count(bike) == (250, 250, 0, 0)
    bike.run_due(START)
    assert [job for job, _ in ran].count("report") == 1
    assert ran[-1] == ("report", 0)
    assert bike.tell("report")["schedule"] == "STOP"
    assert leftovers(bike) == []
    assert list(fsck(bike.store)) == []


def test_what_waits_for_another_group_waits_for_this_one_alone_with_a_word(redbike, caplog):
    bike, _ = make(redbike)
    for _ in range(2):
        bike.group(NAME, [("first", "NOW")], then="report")
    assert not caplog.records
    bike.group("other", [("second", "NOW")], then="report")
    assert f"report now waits for the group 'other', and no longer for the group '{NAME}'" in caplog.text
    bike.run_due(START)
    bike.group(NAME, [("third", "NOW")], then="report")
    assert len(caplog.records) == 1


def advance(bike, hours=1.0):
    bike.run_due(START + hours * HOUR, reraise=False)


# How the job "last" ends, by its schedule and options, and what is done; and what becomes of the counts.
ENDS = {
    "failed": ("failing", HOURLY, {}, advance, (1, 0)),
    "the last try failed": ("failing", HOURLY, {"retries": 2, "backoff": 1}, lambda bike: advance(bike, 1.5), (1, 0)),
    "a one-off": ("last", f"AT:{START + HOUR}", {}, advance, (0, 0)),
    "UnsetJob": ("leaving", HOURLY, {}, advance, (0, 0)),
    "unset": ("last", HOURLY, {}, lambda bike: bike.unset("last"), (0, 1)),
    "stopped": ("last", HOURLY, {}, lambda bike: bike.set("last", "STOP"), (0, 1)),
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


# How the one run of what follows a group comes to nothing.
NEVER_RUN = {
    "cancelled": lambda bike: bike.cancel("report"),
    "skipped": lambda bike: bike.dispatch_due(START),
    "expired": lambda bike: (bike.dispatch_due(START - HOUR), bike.dispatch_due(START)),
    "resumed": lambda bike: (bike.pause("report"), bike.resume("report")),
}


@pytest.mark.parametrize("case", NEVER_RUN)
def test_what_never_runs_any_more_follows_no_group(redbike, case):
    bike, ran = make(redbike)
    bike.enter("first", HOURLY, group_of=NAME)
    bike.set("report", f"GROUP:{NAME}", expires="30m")
    bike.store.client.zadd(bike.store.keys.timeline, {"report": START - HOUR})
    NEVER_RUN[case](bike)
    assert (bike.tell("report")["schedule"], ran) == ("STOP", [])
    assert list(fsck(bike.store)) == []
    # That would be a cycle if it followed the group.
    bike.enter("first", "AFTER:report", group_of=NAME)


def enqueue(bike):
    bike.dispatch_due(START + 2 * HOUR)


def cancel(bike):
    bike.pause("last")
    advance(bike, 3)
    bike.cancel("last")


def be_late(bike):
    bike.pause("last")
    advance(bike, 3)
    bike.resume("last")


def expire(bike):
    bike.pause_queue("work-A")
    enqueue(bike)
    bike.dispatch_due(START + 3 * HOUR)
    bike.resume_queue("work-A")


def expire_unseen(bike):
    """Only the worker that takes it finds that out."""
    bike.pause_queue("work-A")
    enqueue(bike)
    assert bike.client.zrem(bike.store.keys.timers, "expires:last") == 1
    advance(bike, 3)
    bike.resume_queue("work-A")
    advance(bike, 3)


# How the job "last", which is due two hours later, comes to nothing.
NEVER_RAN = {
    "cancelled": cancel,
    "cancelled in its queue": lambda bike: (enqueue(bike), bike.cancel("last")),
    "expired": expire,
    "expired unseen": expire_unseen,
    "late": lambda bike: bike.dispatch_due(START + 3 * HOUR),
    "late after a pause": be_late,
}


@pytest.mark.parametrize("case", NEVER_RAN)
def test_what_follows_a_group_is_due_for_the_latest_of_those_that_ran(redbike, case):
    bike, ran = make(redbike)
    options = {"expires": "10m"} if "expired" in case else {"grace": "10m"} if "late" in case else {}
    bike.group(NAME, [("first", f"AT:{START + 60}"), ("last", f"AT:{START + 2 * HOUR}", options)], then="report")
    advance(bike, 0.5)
    NEVER_RAN[case](bike)
    advance(bike, 3)
    assert ran == [("first", 60), ("report", 60)]
    assert bike.tell("last")["skipped"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_job_that_is_cancelled_before_a_retry_is_not_waited_for(redbike, is_paused):
    bike, ran = make(redbike, behave)
    bike.group(NAME, [("failing", "NOW", {"on_error": "retry", "retries": 2, "backoff": 3600})], then="report")
    bike.set("clean", "AFTER:failing any")
    bike.run_due(START, reraise=False)
    if is_paused:
        bike.pause("failing")
    bike.cancel("failing")
    assert [bike.tell(name)["next_run"] for name in ("report", "clean")] == [START, START]
    bike.run_due(START)
    assert (ran[0], sorted(ran[1:])) == (("failing", 0), [("clean", 0), ("report", 0)])


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


def test_a_run_that_somebody_asked_for_before_does_not_end_the_wait(redbike):
    bike, ran = make(redbike)
    bike.group(NAME, [("one", f"AT:{START + HOUR}")], then="report")
    bike.run("report")
    bike.run_due(START)
    assert [job for job, _ in ran] == ["report"]
    bike.run_due(START + HOUR)
    assert [job for job, _ in ran] == ["report", "one", "report"]
    assert bike.tell("report")["schedule"] == "STOP"


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("jobs", "path"),
    [
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
        (
            [("a", HOURLY, {"group_of": "g"}), ("b", "GROUP:g", {"group_of": "h"}), ("a", "GROUP:h", {})],
            "a after group h after b after group g after a",
        ),
        (
            [(f"job{here}", f"GROUP:g{here}", {"group_of": f"g{there}"}) for here, there in ((1, 2), (2, 3), (3, 1))],
            "job3 after group g3 after job2 after group g2 after job1 after group g1 after job3",
        ),
    ],
)
def test_a_cycle_is_refused_and_named(client, prefix, caplog, jobs, path, shards):
    bike = Redbike(One(), prefix, client, shards=shards)
    for group in ("g", "h", "g1", "g2", "g3"):
        bike.set(f"other:{group}", HOURLY, group_of=group)
    *before, (job, schedule, options) = jobs
    assert [bike.set(each, text, **more) for each, text, more in before] == [True] * len(before)
    with unchanged(bike.store):
        assert path in str(bike.sync([(job, schedule, options)], dry_run=True).bad[job])
        caplog.clear()
        assert bike.set(job, schedule, **options) is False
    assert path in caplog.text


@pytest.mark.parametrize("shards", [1, 4])
def test_what_leaves_a_group_may_wait_for_it(client, prefix, shards):
    bike = Redbike(One(), prefix, client, shards=shards)
    bike.set("one", HOURLY, group_of="g")
    bike.set("report", "GROUP:g")
    wanted = [("one", "AFTER:report", {"group_of": "h"})]
    assert [list(bike.sync(wanted, dry_run=is_dry).changed) for is_dry in (True, False)] == [["one"]] * 2
    bike.set("other", "GROUP:i", group_of="j")
    swapped = [("other", "GROUP:j", {"group_of": "i"})]
    assert [list(bike.sync(swapped, dry_run=is_dry).changed) for is_dry in (True, False)] == [["other"]] * 2


@pytest.mark.parametrize("shards", [1, 4])
def test_what_is_refused_stays_in_its_group_for_the_others(client, prefix, shards):
    bike = Redbike(One(), prefix, client, shards=shards)
    bike.set("one", "GROUP:h", group_of="g")
    others = [f"other{number}" for number in range(4)]
    wanted = [("one", "AFTER:one", {"group_of": "i"}), *((each, "GROUP:g", {"group_of": "h"}) for each in others)]
    assert [sorted(bike.sync(wanted, dry_run=is_dry).bad) for is_dry in (True, False)] == [["one", *others]] * 2


@pytest.mark.parametrize("shards", [1, 4])
def test_a_preview_counts_the_parents_that_a_row_leaves_no_more(client, prefix, shards):
    bike = Redbike(One(), prefix, client, shards=shards)
    bike.set("a", "AFTER:b", group_of="g")
    wanted = [("a", HOURLY, {"group_of": "h"}), ("b", "GROUP:g", {})]
    assert [bike.sync(wanted, dry_run=is_dry).bad for is_dry in (True, False)] == [{}] * 2


@pytest.mark.parametrize(
    ("name", "jobs", "then", "error", "why"),
    [
        ("", [], "report", BadConfig, "bad group '': the name of a group is missing"),
        ("x" * 201, [], "report", BadConfig, "200 bytes at most, and this one 201"),
        ("a\nb", [], "report", BadConfig, "control characters"),
        (" a", [], "report", BadConfig, "spaces at its ends"),
        (7, [], "report", BadConfig, "bad group 7: the name of a group is a text"),
        ("DEFAULT", [], "report", BadConfig, "bad group 'DEFAULT': 'default' takes a job out of its group"),
        (NAME, [("one", "NOW"), ("report", "NOW")], "report", BadConfig, "'report' cannot belong to the group"),
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
