"""What the agenda says of followers is what then runs."""

import math
from collections import Counter
from functools import partial

import pytest

from redbike.queries.counting import QUARTER
from redbike.queries.following.family import Family, list_due_times
from redbike.schedule.moments import AWAITED
from tests.control.test_following import HOUR, START, One
from tests.verbs import Quiet

WORLDS = {
    "cron": {"a": "0 3 * * *", "b": "AFTER:a"},
    "a chain of three": {"a": "*/50 * * * *", "b": "AFTER:a", "c": "AFTER:b any"},
    "a fan-in of two": {"a": "0 */3 * * *", "b": "15 6 * * *", "c": "AFTER:a,b", "d": "AFTER:c,a"},
    "a fan-in of the same": {"a": "0 * * * *", "b": "AFTER:a", "c": "AFTER:a", "d": "AFTER:b,c"},
    "a period of seconds": {"a": "EVERY:50s", "b": "AFTER:a"},
    "a one-off": {"a": f"AT:{START + 5 * HOUR:.0f}", "b": "AFTER:a", "c": "EVERY:2h", "d": "AFTER:a,c"},
    "never": {"a": "STOP", "b": "AFTER:a", "c": "AFTER:nobody", "d": "AFTER:e failed", "e": "EVERY:1h", "f": "AFTER:d"},
    "much": {"a": "EVERY:1h", **{f"f{n}": f"AFTER:{'a' if not n else f'f{n - 1}'}" for n in range(8)}},
}


def make(redbike, world, **settings):
    bike = redbike(One(), now=START, **settings)
    for jobid, schedule in world.items():
        assert bike.set(jobid, schedule)
    return bike


def check(bike, hours):
    """The agenda has as many runs in each quarter as there are."""
    agenda = bike.agenda(hours=hours)
    foretold = Counter[float]()
    for quarter in agenda:
        foretold[quarter.start] += quarter.runs
    runs = bike.run_due(agenda.end - 1)
    assert Counter(math.floor(run.start / QUARTER) * QUARTER for run in runs if run.start < agenda.end) == foretold
    return agenda


def hold(bike, of, jobid="a:A", **when):
    """Pause a job, the queue A or everything."""
    verbs = {"job": partial(bike.pause, jobid), "queue": partial(bike.pause_queue, "A"), "everything": bike.pause_all}
    verbs[of](**when)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_agenda_of_a_day_is_what_runs(redbike, world):
    check(make(redbike, world), 1 if world is WORLDS["a period of seconds"] else 31)


def test_one_goes_on_from_what_has_ended(redbike):
    bike = make(redbike, WORLDS["a fan-in of two"])
    bike.run_due(START + 5 * HOUR)
    check(bike, 24)
    bike.run_due(START + 32 * HOUR)
    check(bike, 24)


CHAIN = {"a": "EVERY:1h@0", "b": "AFTER:a", "c": "AFTER:b"}
ENDS = START + 5.25 * HOUR
PAUSES = {
    "of the first": lambda bike: bike.pause("a", until=ENDS),
    "of the second": lambda bike: bike.pause("b", until=ENDS),
    "of the last": lambda bike: bike.pause("c", until=ENDS),
    "of one that waited before": lambda bike: (bike.run("b"), bike.dispatch_due(), bike.pause("b", until=ENDS)),
    "of one that has to be resumed": lambda bike: bike.pause("b"),
}


@pytest.mark.parametrize("pause", PAUSES.values(), ids=PAUSES)
def test_the_agenda_knows_what_comes_of_a_pause(redbike, pause):
    bike = make(redbike, CHAIN)
    pause(bike)
    check(bike, 12)


def test_those_that_are_named_know_parents_that_are_not(redbike):
    bike = make(redbike, WORLDS["a fan-in of two"])
    assert bike.agenda("c").runs == 1
    assert [plan.share.schedule for plan in bike.agenda("c", "d").plans] == ["AFTER:a,b", "AFTER:c,a"]
    assert bike.agenda("c", queue="B").runs == 0


def test_what_follows_a_group_comes_with_the_last_of_its_jobs(redbike):
    bike = redbike(One(), now=START)
    jobs = [("one", f"AT:{START + HOUR}"), ("two", "EVERY:5h@0"), ("three", "AFTER:one")]
    bike.group("g", jobs, then="report")
    bike.set("last", "AFTER:report")
    check(bike, 24)


def test_what_runs_now_makes_its_followers_due(redbike):
    bike = make(redbike, {"a": "0 3 * * *", "b": "AFTER:a"})
    bike.run("a")
    check(bike, 4)


def test_a_cycle_of_damaged_records_ends(redbike):
    bike = make(redbike, {"a": "EVERY:1h", "b": "AFTER:a", "c": "AFTER:b"})
    store = bike.store
    store.client.hset(store.keys.schedules, "a", "AFTER:c")
    store.client.zadd(store.keys.timeline, {"a": AWAITED})
    family = Family(store)
    family.read_parents(["c"])
    assert family.find_stream("c").next(START) is None


def test_a_chain_of_very_many_is_known_to_its_64th(redbike):
    bike = make(redbike, {"a": "EVERY:1h", **{f"f{n}": f"AFTER:{f'f{n - 1}' if n else 'a'}" for n in range(150)}})
    assert 60 <= bike.agenda(hours=1.5).jobs <= 70


def test_jobs_that_follow_none_cost_no_round_trip(redbike, monkeypatch):
    bike = make(redbike, {"a": "EVERY:1h", "b": "0 3 * * *"})
    monkeypatch.setattr(Family, "__init__", lambda *given: pytest.fail("there are no followers"))
    bike.agenda()
    bike.agenda("a")


@pytest.mark.parametrize("world", ["a chain of three", "a fan-in of two", "a fan-in of the same", "a one-off", "never"])
def test_the_due_times_that_next_lists_are_those_that_run(redbike, world):
    bike = make(redbike, WORLDS[world])
    bike.run_due(START + 4 * HOUR)
    start, end = bike.now, START + 31 * HOUR
    foreseen = {}
    for jobid in WORLDS[world]:
        family = Family(bike.store)
        family.read_parents([jobid])
        if family.list_parents(jobid):
            foreseen[jobid] = list(list_due_times(family, family.states[jobid]).list_due(start, end))
    ran = {jobid: [] for jobid in foreseen}
    for run in bike.run_due(end):
        ran.get(run.jobid, []).append(run.due)
    assert foreseen == ran


@pytest.mark.parametrize(("catchup", "jobid"), [("last", "a"), ("none", "b"), ("last", "c"), ("none", "c")])
def test_what_a_blackout_holds_makes_followers_due_when_it_is_over(redbike, catchup, jobid):
    bike = make(redbike, CHAIN, catchup=catchup)
    bike.pause(jobid, every="30 2 * * *", lasting="3h")
    check(bike, 30)


@pytest.mark.parametrize(("of", "asked"), [("job", 75), ("queue", 0), ("everything", 75)])
@pytest.mark.parametrize("schedule", ["0 * * * *", "*/10 * * * *", f"AT:{START + 2 * HOUR + 60:.0f}"])
@pytest.mark.parametrize("options", [{"expires": "6m"}, {"grace": "6m"}, {"catchup": "none"}, {"catchup": "all"}])
def test_followers_know_what_a_blackout_leaves_of_their_parents(redbike, options, schedule, of, asked):
    bike = redbike(Quiet("A:B"), now=START)
    bike.set("a:A", schedule, **options)
    for jobid, parent in (("b:B", "a:A"), ("c:B", "b:B")):
        bike.set(jobid, f"AFTER:{parent}")
    hold(bike, of, every="0 * * * *", lasting="25m")
    bike.run_due(START + asked * 60)
    check(bike, 3)


@pytest.mark.parametrize("of", ["job", "queue", "everything"])
@pytest.mark.parametrize(("option", "catchup"), [("expires", "last"), ("expires", "all"), ("grace", "all")])
def test_what_is_just_as_old_as_it_may_be_when_a_blackout_ends_is_counted_as_it_runs(redbike, option, catchup, of):
    bike = redbike(Quiet("A"), now=START, catchup=catchup)
    bike.set("a:A", "*/10 * * * *", **{option: "5m"})
    hold(bike, of, every="0 * * * *", lasting="25m")
    check(bike, 3)


@pytest.mark.parametrize("schedule", ["*/10 * * * *", "EVERY:10m"])
def test_one_that_is_paused_by_a_blackout_makes_up_for_all_of_a_later_one_too(redbike, schedule):
    bike = make(redbike, {"a": schedule, "b": "AFTER:a"}, catchup="all")
    bike.pause("a", every="0 * * * *", lasting="25m")
    assert bike.agenda("a", hours=2).runs == 11
    check(bike, 5)


def test_a_blackout_holds_a_follower_whose_parents_end_before_it_and_in_it(redbike):
    world = {"a": f"EVERY:1h@{START + 600:.0f}", "b": "0 3 * * *", "c": f"EVERY:7h@{START:.0f}", "d": "AFTER:a,b,c"}
    bike = make(redbike, world, catchup="last")
    bike.pause("d", every="30 2 * * *", lasting="2h")
    held = [day * 24 + 4.5 for day in (1, 2, 3)]
    assert [(quarter.start - START) / HOUR for quarter in bike.agenda("d", hours=96)] == [7, *held]
    check(bike, 96)


def test_a_blackout_of_who_follows_what_is_very_often_due_takes_no_long_time(redbike):
    bike = make(redbike, {"a": "EVERY:0.3s", "b": "EVERY:0.5s", "d": "AFTER:a,b"})
    bike.pause("d", every="30 2 * * *", lasting="2h")
    assert bike.agenda("d", hours=6).runs > 20_000


@pytest.mark.parametrize("jobid", ["a", "b"])
@pytest.mark.parametrize("catchup", ["last", "none", "all"])
def test_a_run_that_somebody_asks_for_does_not_wait_for_the_end_of_the_blackout_that_is_on(redbike, catchup, jobid):
    bike = make(redbike, {"a": "*/10 * * * *", "b": "AFTER:a"}, catchup=catchup)
    bike.pause(jobid, every="0 * * * *", lasting="35m")
    bike.run(jobid)
    assert bike.agenda(jobid, hours=0.25).runs == 1
    check(bike, 3)


class Two(One):
    """The same, but what follows is in another one."""

    def queue_for(self, jobid):
        return "work-A" if jobid == "a" else "work-B"

    def queue_names(self):
        return ["work-A", "work-B"]


HELD = {
    "up to a due time": ("30 1 * * *", "90m", {}),
    "up to a due time, for longer": ("30 0 * * *", "150m", {}),
    "expires at once": ("30 1 * * *", "2h15m", {"expires": "30m"}),
    "expires but the last": ("30 1 * * *", "2h15m", {"expires": "90m"}),
}


@pytest.mark.parametrize("of", ["job", "queue"])
@pytest.mark.parametrize("catchup", ["last", "all", "none"])
@pytest.mark.parametrize(("every", "lasting", "options"), HELD.values(), ids=HELD)
def test_the_agenda_knows_what_a_blackout_of_a_follower_leaves(redbike, every, lasting, options, catchup, of):
    bike = redbike(Two(), now=START)
    bike.set("a", "0 * * * *")
    bike.set("b", "AFTER:a", catchup=catchup, **options)
    if of == "job":
        bike.pause("b", every=every, lasting=lasting)
    else:
        bike.pause_queue("work-B", every=every, lasting=lasting)
    check(bike, 12)


@pytest.mark.parametrize("of", ["", "job", "queue"])
@pytest.mark.parametrize("catchup", ["last", "all", "none"])
@pytest.mark.parametrize("backoff", ["10m", "2h30m"])
def test_the_agenda_knows_what_comes_due_until_a_further_try(redbike, backoff, catchup, of):
    tries = iter([OSError("it broke")])

    def work(run):
        if run.jobid == "a" and (error := next(tries, None)):
            raise error

    bike = redbike(One(work), now=START, max_backoff=4 * HOUR)
    bike.set("a", "0 * * * *", on_error="retry", retries=3, backoff=backoff, catchup=catchup)
    bike.set("b", "AFTER:a")
    bike.run_due(START + HOUR, reraise=False)
    if of:
        hold(bike, of, "a", every="10 1 * * *", lasting="3h")
    assert bike.agenda("a", hours=6).runs + bike.agenda("b", hours=6).runs == bike.agenda(hours=6).runs
    check(bike, 12)
