"""The forecast: it counts what each job will run, and tells of the densest minutes."""

import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial

import pytest

from redbike import BadConfig, BadJobId, Redbike
from redbike.loop.policies import decide_done
from redbike.queries import counting
from redbike.queries.counting import MINUTE, QUARTER
from redbike.queries.following import budget
from redbike.schedule import windows
from redbike.schedule.parser import RecurrenceSchedule
from redbike.schedule.windows import find_window
from redbike.store import coming
from redbike.store.namespace import make_tag
from redbike.store.schedules import find_schedule
from tests.verbs import Quiet, dispatch, take_one

BIKE = {"queues": "A:B"}
NOW = 2_000_000_000.25  # to come, so that all that is set is; a quarter and a minute have begun before
SCHEDULES = ["0 0 * * *", "0 0 * * *", "30 */2 * * *", "*/5 * * * *", "H H * * *", "15 3 * * 1", "*/20 * * * * *",
             "CRON_TZ=Asia/Kathmandu 0 9 * * *", "EVERY:1h", "EVERY:1h", "EVERY:5m@1000", "EVERY:7s", "EVERY:12s",
             "EVERY:90s", "EVERY:30d", "AT:2000020000.5", "AT:2100000000", "CONTINUE", "STOP", "NOW",
             "RRULE:FREQ=DAILY;BYHOUR=3,9",
             "DTSTART:20330518T040000Z\nRRULE:FREQ=MINUTELY;INTERVAL=25;COUNT=30"]  # fmt: skip


def look(bike, *patterns, now=NOW, **more):
    """The agenda as it is at `now`."""
    before = bike.store
    bike.store = before.at(now)
    try:
        return bike.agenda(*patterns, **more)
    finally:
        bike.store = before


def test_what_runs_more_often_than_it_is_asked_for_is_left_out(bike):
    for number, schedule in enumerate(("EVERY:1m", "EVERY:5m", "*/5 * * * *", "EVERY:20s", "EVERY:1h", "CONTINUE")):
        set_some(bike, 2, schedule, f"{number}.")
    for every, hidden in ((None, 0), ("1m", 2), ("5m", 4), ("10m", 8)):
        found = look(bike, hours=1, every=every)
        assert found.hidden == hidden
        assert (found.jobs, found.continuous) == (10 - hidden, 2)
    with pytest.raises(BadConfig, match="bad every"):
        look(bike, every="soon")


@pytest.mark.parametrize("waits", [0, 1])
@pytest.mark.parametrize("of", ["queue", "everything"])
@pytest.mark.parametrize("catchup", ["last", "none", "all"])
def test_what_it_counts_of_a_queue_that_is_paused_happens(redbike, of, catchup, waits):
    start = 1_790_000_000.0
    bike = redbike(Quiet("A:B"), now=start, catchup=catchup)
    for queue in "AB":
        bike.set(f"cron:{queue}", "10 * * * *")
        bike.set(f"often:{queue}", "EVERY:7m")
        bike.set(f"late:{queue}", "EVERY:20m", grace="30m")
        bike.set(f"brief:{queue}", "EVERY:20m", expires="25m")
        bike.set(f"once:{queue}", f"AT:{start + 4000:.0f}")
        bike.set(f"after:{queue}", f"AFTER:cron:{queue}")
    pause = partial(bike.pause_queue, "A") if of == "queue" else bike.pause_all
    pause(until=start + 6000)
    if waits:
        # Some of it waits already.
        list(bike.run_due(start + 2000))
    assert bike.agenda(hours=5).closed == ()
    check(bike)


@pytest.mark.parametrize("asked", ["never", "before", "during"])
@pytest.mark.parametrize("catchup", ["last", "none", "all"])
@pytest.mark.parametrize("lasting", [600, 9000, None])
def test_what_it_counts_of_paused_jobs_happens(redbike, lasting, catchup, asked):
    start = 1_790_000_000.0
    bike = redbike(Quiet("A"), now=start, catchup=catchup)
    options = {"spread": {"spread": "20m"}, "late": {"grace": "5m"}, "brief": {"expires": "5m"}}
    rule = "DTSTART:20260921T000000Z\nRRULE:FREQ=MINUTELY;INTERVAL=25;UNTIL=20260921T180000Z"
    schedules = {"cron": "10 * * * *", "rule": rule, "once": f"AT:{start + 4000:.0f}", "after": "AFTER:free:A"}
    bike.set("free:A", "*/20 * * * *")
    jobs = [f"{name}:A" for name in ("cron", "rule", "once", "after", *options)]
    for jobid in jobs:
        name = jobid[:-2]
        bike.set(jobid, schedules.get(name, "EVERY:20m"), **options.get(name, {}))
    if asked == "before":
        bike.run(*jobs)
    bike.pause(*jobs, until=lasting and start + lasting)
    if asked == "during":
        bike.run(*jobs)
    check(bike)


def check(bike, hours=5):
    """What is foretold of each job, and of each queue, happens."""
    agendas = {jobid: bike.agenda(jobid, hours=hours) for jobid, _ in bike.get_schedules()}
    agenda = bike.agenda(hours=hours)
    runs = bike.run_due(agenda.end - 0.001)
    for jobid, found in agendas.items():
        happened = Counter(run.start // QUARTER * QUARTER for run in runs if run.jobid == jobid)
        assert (jobid, Counter({each.start: each.runs for each in found})) == (jobid, happened)
    happened = Counter((run.start // QUARTER * QUARTER, f"work-{run.jobid[-1]}") for run in runs)
    assert Counter({(each.start, each.queue): each.runs for each in agenda}) == happened


def hold(bike, holds):
    """Pause a job, its queue or everything: until so many seconds from now, or from a time on for so long."""
    verbs = {"j": partial(bike.pause, "late:A"), "q": partial(bike.pause_queue, "A"), "e": bike.pause_all}
    for of, until, lasting in holds:
        verbs[of](**({"every": until, "lasting": lasting} if lasting else {"until": bike.now + until}))


@pytest.mark.parametrize("catchup", ["last", "none", "all"])
@pytest.mark.parametrize("holds", [[], [("q", 1349, "")], [("e", 1349, ""), ("j", "0 16 * * *", "1h")]])
def test_it_counts_a_run_that_somebody_has_asked_for_and_that_waits_beside_what_comes_due(redbike, holds, catchup):
    bike = redbike(Quiet("A"), now=1_790_000_000.0, catchup=catchup)
    for name, schedule in (("late", "AT:1790007200"), ("once", "AT:1790001000"), ("cron", "50 * * * *")):
        bike.set(f"{name}:A", schedule)
    bike.set("after:A", "AFTER:cron:A")
    hold(bike, holds)
    bike.run("late:A", "once:A", "cron:A")
    check(bike)


@pytest.mark.parametrize("holds", [[], [("q", 1349, "")], [("e", 1349, "")], [("q", "0 16 * * *", "1h")]])
@pytest.mark.parametrize("is_enqueued", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"catchup": "all"},
        {"catchup": "all", "catchup_limit": 2},
        {"catchup": "all", "expires": "2h"},
        {"catchup": "none"},
        {"catchup": "none", "grace": "30s"},
        {"grace": "10m"},
        {"expires": "1h"},
        {"expires": "5m"},
    ],
    ids=str,
)
def test_what_it_counts_of_jobs_that_are_due_already_happens(redbike, options, is_enqueued, holds):
    """No worker, or no dispatcher, was there for hours."""
    bike = redbike(Quiet("A"), now=1_790_000_000.0, **options)
    for name, schedule in (("every", "EVERY:1h@0"), ("cron", "50 * * * *"), ("once", "AT:1790001000")):
        bike.set(f"{name}:A", schedule)
    bike.set("after:A", "AFTER:cron:A")
    if is_enqueued:
        redbike(Quiet("A"), now=1_790_003_000.0, **options).dispatch_due()
    bike = redbike(Quiet("A"), now=1_790_014_600.0, **options)
    hold(bike, holds)
    check(bike)


@pytest.mark.parametrize("page", [1, 2, 1000])
@pytest.mark.parametrize(("steps", "runs"), [(1000, 12), (600, 9), (300, 6), (200, 3)])
def test_of_very_many_jobs_that_are_due_already_each_counts_once(redbike, monkeypatch, steps, runs, page):
    bike = redbike(Quiet("A"), now=1_790_000_000.0, catchup="all")
    for number in range(3):
        bike.set(f"{number}:A", "0 * * * *")
    bike = redbike(Quiet("A"), now=1_790_014_600.0, catchup="all")
    monkeypatch.setattr(coming, "PAGE", page)
    monkeypatch.setattr(budget, "MOST_STEPS", steps)
    assert next(iter(bike.agenda(hours=5))).runs == runs


def test_all_runs_of_a_job_that_missed_many_count_if_a_division_finds_them(redbike):
    given = {"catchup": "all", "catchup_limit": 1000}
    bike = redbike(Quiet("A"), now=1_790_000_000.0, **given)
    bike.set("hourly:A", "EVERY:1h@0")
    for number in range(3):
        bike.set(f"{number}:B", "EVERY:1s@0")
    bike = redbike(Quiet("A"), now=1_790_000_000.0 + 900 * 3600, **given)
    for hours in (1, 24):
        assert next(count.runs for count in bike.agenda(hours=hours) if count.queue == "work-A") == 900


@pytest.mark.parametrize("catchup", ["all", "none"])
@pytest.mark.parametrize("is_followed", [False, True])
def test_what_it_computes_for_jobs_that_are_due_already_is_limited(redbike, monkeypatch, is_followed, catchup):
    bike = redbike(Quiet("A"), now=1_790_000_000.0, catchup=catchup)
    for number in range(20):
        bike.set(f"{number}:A", "DTSTART:20260101T000000Z\nRRULE:FREQ=MINUTELY")  # which is counted one by one
    if is_followed:
        bike.set("after:A", f"AFTER:{','.join(f'{number}:A' for number in range(20))}")
    bike = redbike(Quiet("A"), now=1_790_259_200.0, catchup=catchup)
    monkeypatch.setattr(budget, "MOST_STEPS", 40_000)
    computed = []
    compute = RecurrenceSchedule.next
    monkeypatch.setattr(RecurrenceSchedule, "next", lambda *each: computed.append(each) or compute(*each))
    bike.agenda(hours=1)
    assert len(computed) < budget.MOST_STEPS


def test_a_paused_job_that_somebody_has_asked_for_runs_once_when_its_queue_is_resumed(redbike):
    bike = redbike(Quiet("A"), now=1_790_000_000.0)
    bike.set("late:A", "EVERY:20m")
    bike.pause("late:A")
    bike.run("late:A")
    hold(bike, [("q", 3700, "")])
    check(bike)


@pytest.mark.parametrize("catchup", ["last", "all"])
@pytest.mark.parametrize(
    ("holds", "waits"),
    [
        ([("q", 3700, ""), ("j", "0 17 * * *", "30m")], 0),
        ([("q", 3700, ""), ("e", "0 17 * * *", "30m")], 0),
        ([("q", 3700, ""), ("e", 1700, "")], 0),
        ([("q", 3700, ""), ("e", 1700, "")], 700),
        ([("q", "0 14 * * *", "30m"), ("e", 3700, "")], 0),
        ([("q", 3700, ""), ("j", "30 14 * * *", "20m")], 0),
        ([("q", "0 14 * * *", "1h"), ("e", "30 14 * * *", "30m")], 0),
        ([("q", 1700, ""), ("e", "30 14 * * *", "1h")], 0),
    ],
)
def test_what_a_queue_holds_is_not_late_beside_other_pauses(redbike, holds, waits, catchup):
    bike = redbike(Quiet("A"), now=1_790_000_000.0, catchup=catchup)
    for jobid, schedule, grace in (
        ("late:A", "EVERY:20m@0", "5m"),
        ("some:A", "EVERY:20m@0", "25m"),
        ("hourly:A", "50 * * * *", "40m"),
        ("once:A", "AT:1790001000", "5m"),
    ):
        bike.set(jobid, schedule, grace=grace)
    bike.set("after:A", "AFTER:late:A")
    hold(bike, holds[:1] if waits else holds)
    bike.run_due(bike.now + waits)
    hold(bike, holds[1:] if waits else ())
    check(bike)


def test_far_ahead_it_does_not_look_at_all_windows_until_then(bike, monkeypatch):
    asked = []
    monkeypatch.setattr(windows, "find_window", lambda *given: asked.append(given) or find_window(*given))
    bike.set("cron:A", "10 * * * *")
    bike.pause_queue("A", every="@hourly", lasting="40m")
    found = look(bike, hours=5, after=NOW + 3650 * 86400)
    assert (found.runs, len(asked) < 500) == (6, True)


def test_a_queue_that_somebody_has_to_resume_is_not_counted_and_named(bike):
    for queue in "AB":
        set_some(bike, 2, "0 * * * *", queue=queue)
    bike.pause_queue("A")
    found = look(bike, hours=6)
    assert (found.jobs, found.closed) == (2, ("work-A",))
    assert found.explain_closed() == "Paused for longer, and not counted: work-A."
    assert look(bike, hours=6, queue="B").closed == ()
    # A blackout that goes on at the end is not all of the time.
    bike.pause_queue("B", every="0 6 * * *", lasting="6h")
    start = NOW // 86400 * 86400 + 3 * 3600
    assert look(bike, hours=6, now=start, after=start).closed == ("work-A",)
    bike.pause_all(until=NOW + 10 * 86400)
    found = look(bike, hours=6)
    assert (found.jobs, found.closed) == (0, ("", "work-A"))
    assert found.explain_closed() == "Everything is paused for longer, so nothing of it is counted."


def set_some(bike, number, schedule, name="", queue="A", **more):
    """Set jobs alike."""
    for n in range(number):
        bike.set(f"{name}{n}:{queue}", schedule, after=NOW, **more)


def count_one_by_one(bike, start, end, now):
    """Runs by (quarter, queue), and by minute, each job for itself; from what `tell` says of it."""
    quarters, minutes = Counter(), Counter()
    for jobid, text in bike.get_schedules():
        told = bike.tell(jobid)
        state = bike.store.questions.inspect([jobid])[0]
        schedule = find_schedule(jobid, text, state.options)
        if schedule.allows_pause:
            continue
        moments, after = [], None
        if "paused" in told:
            if told["paused"]["until"] is None:
                continue
            after = max(now, told["paused"]["until"], told.get("held_for", now))
            # What comes due while it is paused runs then, also if it runs now.
            next_due = schedule.next(told["working_for"]) if told["working"] and not schedule.runs_once else None
            moments += [after] if "held_for" in told or (next_due is not None and next_due < after) else []
        elif told["next_run"] is not None:
            after = max(told["next_run"], now)
            moments.append(after)
        elif "queued_for" in told:
            after = max(now, told["queued_for"])
            moments.append(now)
        elif told["working"]:
            after = max(now, told["working_for"])
        else:
            continue
        while not schedule.runs_once and (after := schedule.next(after)) is not None and after < end:
            moments.append(after)
        for moment in moments:
            if start <= moment < end:
                quarters[math.floor(moment / QUARTER) * QUARTER, bike.worker.queue_for(jobid)] += 1
                minutes[math.floor(moment / MINUTE) * MINUTE] += 1
    return quarters, minutes


def fill(bike, number, seed):
    """Jobs in all places, whose clock stands at `NOW`."""
    chance = random.Random(seed)
    for n in range(number):
        options = chance.choice([{}, {}, {}, {"timeout": 5}, {"spread": "20m"}])
        after = chance.choice([NOW, NOW - 7000, NOW - 100_000])
        bike.set(f"{n}:{chance.choice('AB')}", chance.choice(SCHEDULES), after=after, **options)
    store = bike.store.at(NOW)
    bike.dispatch_due(NOW - 3000)
    for _ in range(5):
        take_one(store, [("work-A", 10.0), ("work-B", 10.0)], make_tag())
    jobids = [jobid for jobid, _ in bike.get_schedules()]
    for jobid in chance.sample(jobids, len(jobids) // 5):
        bike.pause(jobid, until=chance.choice([None, NOW + 10_000, NOW + 1e8]))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.acceptance) for seed in (1, 2))])
@pytest.mark.parametrize(("ahead", "hours"), [(0, 24), (5000.0, 3), (90_061.5, 30)])
def test_it_counts_what_each_job_will_run(bike, seed, ahead, hours):
    fill(bike, 60, seed)
    found = look(bike, hours=hours, after=NOW + ahead if ahead else None)
    start = max(NOW, math.floor((NOW + ahead) / MINUTE) * MINUTE)
    assert (found.start, found.end) == (start, math.ceil((start + hours * 3600) / QUARTER) * QUARTER)
    quarters, minutes = count_one_by_one(bike, found.start, found.end, NOW)
    assert {(each.start, each.queue): each.runs for each in found} == quarters
    assert found.runs == quarters.total()
    most = sorted(minutes.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert [(each.start, each.runs) for each in found.densest] == most
    assert [each.start for each in found] == sorted(each.start for each in found)


def test_with_very_many_groups_it_counts_the_same(bike, monkeypatch):
    def count():
        found = look(bike)
        # Of very many groups, some have other samples.
        quarters = [replace(quarter, jobs=()) for quarter in found.quarters]
        return quarters, found.jobs, found.runs, found.continuous, [(e.start, e.runs) for e in found.densest]

    fill(bike, 150, 7)
    before = count()
    monkeypatch.setattr(counting, "MOST_GROUPS", 10)
    monkeypatch.setattr(counting, "KEPT_GROUPS", 3)
    monkeypatch.setattr(counting, "MOST_MINUTES", 3000)
    assert count() == before


@pytest.mark.parametrize("options", [{}, {"spread": "1s"}])
def test_a_period_of_a_millisecond_is_counted_and_not_gone_through(bike, options):
    bike.set("fast:A", "EVERY:0.001s@0", after=NOW, **options)
    for now in (NOW, NOW + 60):  # due and overdue
        found = look(bike, now=now, hours=168)
        assert found.runs == pytest.approx((found.end - now) * 1000, abs=1001)
        assert found.densest[1].runs == 60_000


def test_pages_leave_out_no_job_and_no_job_comes_twice(bike, monkeypatch):
    monkeypatch.setattr("redbike.store.coming.PAGE", 7)
    for n in range(50):
        # Also at the very same instant.
        bike.set(f"{n}:A", "AT:2000003600" if n % 2 else f"AT:{2000003600 + n}")
    heard = []
    found = look(bike, report=lambda done, number: heard.append((done, number)))
    assert found.jobs == found.runs == 50
    assert heard == [(min(50, 7 * (n + 1)), 50) for n in range(8)]


@pytest.mark.parametrize("apart", [0, 1])
@pytest.mark.parametrize(
    ("jobid", "schedule"),
    [("new{}:A", "AT:2000000100"), ("new{}:A", "AT:2000003800"), ("{}:A", "AT:2000003800"), ("{}:A", None)],
)
def test_what_changes_while_it_is_read_hides_nothing_and_comes_once(bike, monkeypatch, jobid, schedule, apart):
    monkeypatch.setattr("redbike.store.coming.PAGE", 10)
    for n in range(30):
        bike.set(f"{n}:A", f"AT:{2000003600 + n * apart}")
    seen = []
    for page in bike.store.coming.list_pages(NOW, NOW + 86400):
        seen += [job.jobid for job in page]
        if page[0].jobid[0].isdigit():
            # Before and behind what was read, and that itself.
            changed = jobid.format(page[0].jobid.partition(":")[0])
            _ = bike.set(changed, schedule) if schedule else bike.unset(changed)
    old = [jobid for jobid in seen if jobid[0].isdigit()]
    assert sorted(old) == sorted(f"{n}:A" for n in range(30))


def test_what_runs_while_it_is_read_comes_once(client, prefix, monkeypatch):
    class Reading(Quiet):
        def work(self, jobid):
            seen.extend(job.jobid for job in next(pages))

    monkeypatch.setattr("redbike.store.coming.PAGE", 10)
    bike, seen = Redbike(Reading("A:B"), prefix, client), []
    jobids = [*(f"{n}:A" for n in range(30)), "soon:B", "runs:A"]
    for jobid in jobids:
        bike.set(jobid, "EVERY:1h@2000003600", after=NOW)
    bike.set("soon:B", "AT:2000000030")
    bike.run("runs:A")
    pages = bike.store.coming.list_pages(NOW, NOW + 86400)
    assert bike.work_one() == "runs:A", "it is read meanwhile, and then it is on the timeline"
    for page in pages:
        seen += [job.jobid for job in page]
        bike.run("soon:B")
    assert sorted(seen) == sorted(jobids)


def test_patterns_and_single_jobs(bike):
    for jobid in ("one:A", "two:A", "other:B"):
        bike.set(jobid, "EVERY:1h@2000000000", after=NOW)
    found = look(bike, hours=2)
    assert (found.jobs, found.runs, look(bike, "*:A", hours=2).jobs) == (3, 6, 2)
    assert {each.queue for each in look(bike, "other:B", hours=2)} == {"work-B"}
    assert (look(bike, "nobody:A", "no*").jobs, look(bike, "nobody:A", "one:A").jobs) == (0, 1)
    with pytest.raises(BadJobId):
        look(bike, "[")


def test_jobs_that_run_all_the_time_and_paused_ones_are_only_named(bike):
    found = look(bike)
    assert (found.jobs, found.runs, list(found), found.relief) == (0, 0, [], None), "nothing is there"
    bike.set("on:A", "CONTINUE")
    bike.set("held:A", "EVERY:1h")
    bike.pause("held:A")
    found = look(bike)
    assert (found.jobs, found.continuous, found.paused, found.quarters, found.densest) == (0, 1, 1, (), ())


PAST = r"bad after \d+.*: \d{4}-\d\d-\d\d .* UTC is past; redbike runs and why show the past"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        *(
            ({"hours": hours}, BadConfig, "bad hours ")
            for hours in (0, -1, 168.01, math.nan, math.inf, True, "24", None)
        ),
        *(({"after": after}, BadConfig, "bad after ") for after in (-1, math.nan, math.inf)),
        *(({"after": after}, TypeError, "bad after ") for after in (True, "1800000000")),
        *(({"after": after}, BadConfig, PAST) for after in (NOW - 1, 0)),
    ],
)
def test_what_is_bad_is_quoted(bike, given, error, said):
    with pytest.raises(error, match=said):
        look(bike, **given)


# The schedules


def test_each_schedule_says_when_it_runs_first_and_how_often(bike):
    # NOW is at a minute of no hour.
    for n in range(30):
        bike.set(f"{n}:A", f"{n} * * * *", after=NOW)
    set_some(bike, 4, "0 2,3 * * *", "more")
    found = look(bike)
    assert found.schedules == 31
    assert len(found.plans) == 20
    assert sorted(plan.first for plan in found.plans) == [plan.first for plan in found.plans]
    [plan] = [plan for plan in found.plans if plan.share.schedule == "0 2,3 * * *"]
    assert (plan.share.jobs, plan.runs) == (4, 8)
    assert plan.first == min(each.next_run for each in bike.jobs("more*"))
    assert all(plan.runs == 24 for plan in found.plans if plan.share.jobs == 1)


def test_jobs_with_the_same_period_are_one_schedule_from_their_first_run_on(bike):
    for n in (5, 3, 9):
        bike.set(f"{n}:A", f"EVERY:2h@{NOW + 60 * n}", after=NOW)
    [plan] = look(bike).plans
    assert (plan.share.schedule, plan.share.jobs, plan.runs) == ("EVERY:2h", 3, 36)
    # What is due at NOW + 180 comes after its whole period.
    assert plan.first == (NOW + 7200 + 180) // 60 * 60


# The densest minutes


def test_the_densest_minutes_name_their_schedules_and_some_jobs(bike):
    set_some(bike, 20, "0 0 * * *", "night")
    set_some(bike, 3, "EVERY:1h@0", "each", "B")
    first, second, *_ = densest = look(bike).densest
    assert len(densest) == 5
    assert (first.start, first.runs) == (2000073600, 23)
    assert [(share.schedule, share.jobs) for share in first.shares] == [("0 0 * * *", 20), ("EVERY:1h", 3)]
    assert len(first.shares[0].samples) == 3
    assert set(first.shares[1].samples) == {f"each{n}:B" for n in range(3)}
    assert second.runs == 3


@pytest.mark.parametrize(
    ("schedule", "hashed", "seconds", "left"),
    [
        ("0 0 * * *", "H 0 * * *", 3600, 1),
        ("CRON_TZ=Europe/Berlin 0 0 * * *", "CRON_TZ=Europe/Berlin H 0 * * *", 3600, 1),
        ("*/5 * * * *", "", 300, 12),
        ("0,30 * * * *", "", 1800, 2),
        ("EVERY:1h@0", "", 3600, 1),
    ],
)
def test_what_it_would_be_if_they_were_spread(bike, schedule, hashed, seconds, left):
    set_some(bike, 60, schedule)
    relief = look(bike).relief
    assert (relief.hashed, relief.seconds, relief.runs, relief.most) == (hashed, seconds, left, left)
    assert relief.share.jobs == 60


def test_what_it_says_of_a_spread_comes_true(bike):
    set_some(bike, 600, "0 0 * * *")
    relief = look(bike).relief
    set_some(bike, 600, "0 0 * * *", spread=relief.seconds)
    assert relief.most == 10
    assert look(bike).densest[0].runs < 3 * relief.most


@pytest.mark.parametrize(("number", "schedule"), [(60, "* * * * *"), (60, "EVERY:30s"), (9, "0 0 * * *")])
def test_what_runs_each_minute_and_a_few_jobs_are_not_worth_spreading(bike, number, schedule):
    set_some(bike, number, schedule)
    assert look(bike).relief is None


# How busy workers are


def test_the_load_is_that_of_the_runs_that_are_kept(bike):
    lengths = {"long:A": 450.0, "short:A": 90.0, "other:B": 9.0}
    for jobid in (*lengths, "new:A", "new:B"):
        bike.set(jobid, "EVERY:15m@0", after=NOW, timeout=1000)
    assert {each.busy for each in look(bike)} == {None}, "no run is kept"
    keep(bike, lengths)
    busy = defaultdict(set)
    for each in look(bike, "*", hours=2, after=NOW + 7200):
        busy[each.queue].add(round(each.busy, 6))
    # Of new:A nothing is known: as much as the others of its queue take on average.
    assert busy == {"work-A": {0.9}, "work-B": {0.02}}


def keep(bike, lengths):
    """Let a run be kept of each job, which has taken so long."""
    for jobid, seconds in lengths.items():
        due = bike.tell(jobid)["next_run"]
        assert dispatch(bike.store.at(due), [(jobid, f"{due:.0f}", "work-own")]) == 1
        run = take_one(bike.store.at(due), [("work-own", 1000.0)], make_tag())
        run.began, run.over = run.received, run.received + seconds
        bike.store.at(due + 1).runs.end(run, decide_done(run, None, bike.settings, due + 1))
    list(bike.store.archiver.archive())
