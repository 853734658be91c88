"""Backfills of jobs that others follow: what follows an occurrence runs for the same due time, once."""

import re
from collections import Counter
from datetime import UTC, datetime
from functools import partial

import pytest

from redbike import BadConfig, BadJobId, NoResult, Settings, StopWork, UnsetJob
from redbike.control.backfilling import backfill
from redbike.queries.why.past import Reasons
from redbike.store.backfill import make_jobid
from redbike.store.inspection.fsck import fsck
from tests.control import test_backfilling
from tests.control.test_backfilling import DAY, START, fail_if, make

NIGHT = {"orders": "extract", "users": "extract", "stock": "extract", "areport": "orders,users,stock,extract"}
is_clean = partial(test_backfilling.is_clean, kept=NIGHT)


def start(bike, days=7, parents=NIGHT, **more):
    """Set a night of jobs, and begin the backfill of the days before."""
    bike.set("extract", "EVERY:1d@0")
    for job, after in parents.items():
        bike.set(job, f"AFTER:{after}")
    return bike.backfill("extract", START - days * DAY, START - DAY, **more)


def count(ran):
    """How often each (job, days from the start) has run."""
    return Counter((job, hours / 24) for job, hours in ran)


def list_nights(days, jobs=("extract", *NIGHT)):
    return Counter((job, -day) for job in jobs for day in range(1, days + 1))


def fail(jobs):
    """A work that fails for these (job, days from the start)."""
    return fail_if(lambda run: (run.base, (run.due - START) / DAY) in jobs)


def work_all(bike):
    while bike.dispatch_due(bike.now) or bike.work_one():
        pass


def forget(bike):
    """Forget one-offs that are over; return which jobs are there."""
    bike.store.at(START + 3601).timeline.forget()
    return {jobid.decode() for jobid in bike.client.hkeys(bike.store.keys.schedules)}


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_week_of_a_night_runs_each_job_once_for_each_due_time(redbike, at_once):
    bike, ran = make(redbike)
    found = start(bike, at_once=at_once)
    assert (len(found.dues), sorted(found.followers)) == (7, sorted(NIGHT))
    work_all(bike)
    assert count(ran) == list_nights(7)
    for day in range(1, 8):
        jobs = [job for job, hours in ran if hours == -24 * day]
        assert (jobs[0], jobs[-1]) == ("extract", "areport")
    assert bike.tell("extract")["last_backfill"]["done"] == 7
    assert is_clean(bike)
    assert forget(bike) == {"extract", *NIGHT}
    # The jobs themselves have not run, and wait for the schedule.
    bike.run_due(START + DAY)
    assert count(ran) - list_nights(7) == {(job, 1.0): 1 for job in ("extract", *NIGHT)}


def test_the_occurrence_of_a_follower_has_the_options_and_the_data_of_its_job(redbike):
    seen = []
    bike, _ = make(redbike, seen.append, grace=60, expires=60)
    bike.set("extract", "EVERY:1d@0")
    bike.set("a job, b", "AFTER:extract any", data={"x": 1}, timeout=77)
    bike.set("last", r"AFTER:a\ job\,\ b,other")  # of the parents, that which has an occurrence counts
    bike.backfill("extract", START - DAY, START - DAY)
    id_ = make_jobid("a job, b", START - DAY)
    assert bike.tell(id_)["backfill_of"] == "a job, b"
    assert "It waits for the end of extract@" in bike.why(id_)
    work_all(bike)
    assert [(run.base, run.jobid, run.due) for run in seen] == [
        (job, make_jobid(job, START - DAY), START - DAY) for job in ("extract", "a job, b", "last")
    ]
    assert (seen[1].data, seen[1].timeout, seen[1].key) == ({"x": 1}, 77, f"a%20job,%20b@{START - DAY:.0f}")
    assert is_clean(bike, kept={"a job, b", "last"})


def test_a_follower_reads_what_its_parent_has_returned_for_the_same_due_time(redbike):
    read = []

    def work(run):
        if run.base == "extract":
            return run.due
        return read.append((run.due, run.bike.result("extract", due=run.due), run.bike.result("extract")))

    bike, _ = make(redbike, work, keep_result=True)
    bike.set("extract", "EVERY:1d@0")
    bike.set("report", "AFTER:extract")
    bike.run_due(START + DAY)
    bike.backfill("extract", START - 2 * DAY, START)
    work_all(bike)
    assert [due for due, _, _ in read] == [START + days * DAY for days in (1, -2, -1, 0)]
    assert all((found, last) == (due, START + DAY) for due, found, last in read)
    assert bike.result("extract", due=datetime.fromtimestamp(START, UTC)) == START
    with pytest.raises(NoResult, match=r"^no result of 'extract': none of its kept runs for 2026-\S+Z has one$"):
        bike.result("extract", due=START + 2 * DAY)
    with pytest.raises(BadConfig, match=r"^bad due -1: "):
        bike.result("extract", due=-1)


def test_what_follows_a_failure_waits_until_that_has_run_again(redbike):
    broken = {("orders", -2), ("extract", -1)}
    bike, ran = make(redbike, fail(broken))
    start(bike, 3)
    work_all(bike)
    assert count(ran) == list_nights(3) - Counter([("areport", -2), *((job, -1) for job in NIGHT)])
    waiting = make_jobid("areport", START - 2 * DAY)
    assert f"waits for {make_jobid('orders', START - 2 * DAY)}, which has failed" in bike.why(waiting)
    assert (bike.tell("extract")["last_backfill"]["failed"], list(fsck(bike.store))) == (1, [])
    broken.clear()
    ran.clear()
    bike.run(make_jobid("orders", START - 2 * DAY))
    bike.run(make_jobid("extract", START - DAY))
    work_all(bike)
    assert count(ran) == Counter([("orders", -2), ("areport", -2), *((job, -1) for job in ("extract", *NIGHT))])
    assert is_clean(bike)


@pytest.mark.parametrize(
    ("when", "fails", "runs"),
    [("ok", False, 1), ("ok", True, 0), ("failed", False, 0), ("failed", True, 1), ("any", False, 1), ("any", True, 1)],
)
def test_a_follower_runs_if_its_parent_has_ended_that_way_and_goes_if_it_never_does(redbike, when, fails, runs):
    bike, ran = make(redbike, fail({("extract", -1)} if fails else ()))
    start(bike, 1, {"a": f"extract {when}", "b": "a"})
    work_all(bike)
    assert count(ran) == Counter([("extract", -1)] + [("a", -1), ("b", -1)] * runs)
    left = {name for name in forget(bike) if "@" in name}
    kept = {make_jobid("extract", START - DAY)} if fails else set()
    waits = {make_jobid(job, START - DAY) for job in "ab"} if fails and not runs else set()
    assert (left, list(fsck(bike.store))) == (kept | waits, [])


@pytest.mark.parametrize(("verb", "steps"), [("cancel", 0), ("cancel", 3), ("cancel", 5), ("unset", 4)])
def test_cancel_and_unset_drop_all_that_has_not_run(redbike, verb, steps):
    bike, ran = make(redbike, fail({("orders", -3)}))
    start(bike, 3)
    for _ in range(steps):
        bike.dispatch_due(bike.now)
        bike.work_one()
    before = list(ran)
    getattr(bike, verb)("extract")
    work_all(bike)
    assert ran == before
    assert is_clean(bike)
    assert {each for each in forget(bike) if "@" in each} <= {make_jobid("orders", START - 3 * DAY)}


def test_an_occurrence_that_is_cancelled_or_unset_takes_with_it_what_waits_for_it(redbike):
    bike, ran = make(redbike)
    start(bike, 3)
    bike.dispatch_due(bike.now)
    bike.cancel(make_jobid("extract", START - 3 * DAY))
    bike.unset(make_jobid("orders", START - 2 * DAY))
    work_all(bike)
    assert count(ran) == list_nights(2) - Counter([("orders", -2), ("areport", -2)])
    assert is_clean(bike)


def test_the_log_has_each_job_of_a_chain_once_however_it_is_reached(redbike):
    bike, _ = make(redbike)
    start(bike, 1, dry_run=True)
    backfill(bike.store.noted_as("ada"), "extract", START - DAY, START - DAY, 1, False, Settings(), False)
    assert sorted(entry.jobid for entry in bike.log() if entry.action == "backfill") == sorted(["extract", *NIGHT])


GOES_ON = {
    "resume": lambda bike: bike.resume("areport"),
    "unset": lambda bike: bike.unset("areport"),
    "set": lambda bike: bike.set("areport", "STOP"),
}


@pytest.mark.parametrize("go_on", GOES_ON.values(), ids=GOES_ON)
def test_while_a_follower_is_paused_nothing_further_begins(redbike, go_on):
    bike, ran = make(redbike)
    bike.set("areport", "AFTER:orders")
    bike.pause("areport")
    start(bike, 2)
    work_all(bike)
    assert (ran, list(fsck(bike.store))) == ([], [])
    assert " Its backfill waits, as areport, which follows it, is paused since " in bike.why("extract")
    go_on(bike)
    assert " Its backfill goes on beside that: 0 of 2 done" in bike.why("extract")
    work_all(bike)
    assert count(ran) == list_nights(2, [jobid for jobid, text in bike.get_schedules() if text != "STOP"])
    assert is_clean(bike)


@pytest.mark.parametrize("wish", [UnsetJob, StopWork])
def test_it_goes_on_if_the_run_of_a_paused_follower_ends_that(redbike, wish):
    def work(run):
        if run.base == "areport":
            bike.pause("areport")
            assert bike.backfill("extract", START - 2 * DAY, START - DAY).dues
            assert not bike.dispatch_due(bike.now)
            raise wish

    bike, ran = make(redbike, work)
    bike.set("extract", "EVERY:1d@0")
    bike.set("areport", "AFTER:extract")
    bike.run("areport")
    work_all(bike)
    assert count(ran[1:]) == list_nights(2, ["extract"])
    assert list(fsck(bike.store)) == []


def test_why_names_what_holds_a_backfill(redbike):
    bike, ran = make(redbike)
    bike.set("areport", "AFTER:orders")
    bike.pause("areport", reason="secret")
    start(bike, 2)
    said = Reasons(bike.store, bike.settings, lambda jobid: jobid != "areport").explain("extract")
    assert " Its backfill waits, as another job, which follows it, is paused since " in said
    bike.pause_queue(bike.store.name_queue("extract"), reason="disk")
    assert re.search(r" Its backfill waits, as its queue .* is paused since .* \(disk\): 0 of 2", bike.why("extract"))
    bike.resume_queue(bike.store.name_queue("extract"))
    bike.pause("extract")
    assert " Its backfill waits, as the job is paused: 0 of 2 done" in bike.why("extract")
    bike.resume("extract")
    bike.cancel("extract")
    bike.resume("extract")
    assert start(bike, 2, alone=True).followers == []
    assert " Its backfill goes on beside that: " in bike.why("extract")
    work_all(bike)
    assert count(ran) == list_nights(2, ["extract"])
    assert is_clean(bike)


@pytest.mark.parametrize(("name", "given"), [("range", {"days": 1000}), ("at_once", {"days": 200, "at_once": 100})])
def test_so_many_runs_that_a_step_would_take_long_are_refused(redbike, name, given):
    bike, _ = make(redbike)
    with pytest.raises(BadConfig, match=f"bad {name}: 'extract' has .* with 150 followers, over 10"):
        start(bike, parents={f"f{number}": "extract" for number in range(150)}, **given)
    assert "backfill" not in bike.tell("extract")


def test_fsck_finds_what_is_damaged_and_repairs_it(redbike):
    bike, ran = make(redbike)
    start(bike, 1)
    ids, keys = {job: make_jobid(job, START - DAY) for job in ("extract", *NIGHT)}, bike.store.keys
    assert list(fsck(bike.store)) == []
    bike.client.zrem(keys.timeline, ids["orders"])
    bike.client.hdel(keys.following, ids["users"])
    bike.client.zrem(keys.followers, f"{ids['extract']}\n{ids['stock']}")
    problems = "\n".join(fsck(bike.store))
    assert all(f"{ids[job]!r}: " in problems for job in ("orders", "users", "stock"))
    assert f"the backfill of 'extract': it has {ids['users']!r}, which does not follow it" in problems
    for _ in range(2):
        list(bike.repair())
    work_all(bike)
    assert count(ran) == list_nights(1)
    assert is_clean(bike)


@pytest.mark.parametrize(
    ("followers", "error", "said"),
    [
        ({"a": ",".join(["extract", *(f"{number:0118}" for number in range(63))])}, BadConfig, "'a' follows too many"),
        ({f"f{number}": "extract" for number in range(1001)}, BadConfig, "more than 1,000 followers: --alone"),
        ({"a": "extract", "b" * 500: "a"}, BadJobId, "521 bytes"),
    ],
)
def test_too_many_and_too_long_ones_are_refused(redbike, followers, error, said):
    bike, ran = make(redbike)
    with pytest.raises(error, match=said):
        start(bike, 1, followers)
    assert "backfill" not in bike.tell("extract")
    start(bike, 1, {}, alone=True)
    work_all(bike)
    assert count(ran) == {("extract", -1): 1}


def test_the_id_of_another_job_is_refused_and_later_stays_that_of_its_user(redbike):
    bike, ran = make(redbike)
    own = make_jobid("orders", START - DAY)
    bike.set(own, "EVERY:1d@0")
    with pytest.raises(BadJobId, match="another job has it"):
        start(bike, 2)
    bike.unset(own)
    start(bike, 2)
    bike.set(own, "EVERY:1d@0")  # before the second night
    work_all(bike)
    assert count(ran) == list_nights(2) - Counter([("orders", -1)])
    assert is_clean(bike)
