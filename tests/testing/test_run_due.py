"""Tests of jobs as users write them: the clock stands still, and moves from one due time to the next."""

import asyncio
import time
from datetime import datetime, timedelta

import pytest

from redbike import (
    Again,
    BadConfig,
    Jobs,
    Limit,
    RedbikeError,
    StopWork,
    TooManyRuns,
    UnsetJob,
    current_run,
)
from redbike.errors import Overrun
from redbike.store.namespace import make_tag
from redbike.text.printable import name_host
from tests.pinged import serve
from tests.testing.worker import START, Worker, times
from tests.verbs import take_one
from tests.waiting import wait_until


def starts(runs):
    return [run.start - START for run in runs]


def fails(run):
    raise OSError(f"try {run.attempt}")


def test_what_fails_is_raised_and_tried_again_at_its_time(redbike):
    bike = redbike(Worker(fails), now=START, on_error="retry", retries=2, backoff=10)
    bike.set("upload:A", "EVERY:1h")
    for number, at in ((1, 3600), (2, 3610), (3, 3630)):
        with pytest.raises(OSError, match=f"try {number}") as raised:
            bike.run_due(timedelta(days=1))
        assert bike.now == START + at
        assert raised.value.__notes__ == ["in the run of the job 'upload:A' that was due at 2026-09-21T15:13:20Z"]
    assert bike.tell("upload:A")["status"].startswith("DIE:")
    assert bike.run_due(timedelta(days=1)) == []
    # Without raising, the policies are all that counts.
    bike.set("once:A", "NOW")
    runs, began = bike.run_due(timedelta(days=1), reraise=False), bike.now - 86400
    assert [(run.attempt, run.start - began) for run in runs] == [(1, 0), (2, 10), (3, 30)]
    assert [run.outcome for run in bike.runs("once:A")] == ["failed", "retry", "retry"]


def test_no_ping_url_is_called(redbike):
    bike = redbike(Worker(), now=START)
    with serve() as pinged:
        bike.set("often:A", f"EVERY:20m@{START}", ping_url=pinged.url)
        assert len(bike.run_due(timedelta(hours=1))) == 3
        bike.finish()  # it sends what is left
        assert pinged.called == []


def test_the_ping_url_of_a_lost_run_is_called(redbike):
    bike = redbike(Worker(), now=START, on_lost="stop")
    with serve() as pinged:
        bike.set("gone:A", "NOW", ping_url=f"{pinged.url}/gone")
        take_one(bike.store, [("work-A", 10.0)], make_tag())
        bike.set("next:A", "IN:1m")
        assert [run.jobid for run in bike.run_due(timedelta(minutes=1))] == ["next:A"]
        wait_until(lambda: pinged.called == ["/gone/fail"])


def test_each_job_runs_at_its_due_time_in_order(redbike):
    began = []
    bike = redbike(Worker(lambda run: began.append((run.start - START, run.jobid))), now=START)
    bike.set("often:A", f"EVERY:20m@{START}")
    bike.set("seldom:A", f"EVERY:30m@{START}")
    assert times(bike.run_due(timedelta(hours=1))) == [1200, 1800, 2400, 3600, 3600]
    assert began[:3] == [(1200, "often:A"), (1800, "seldom:A"), (2400, "often:A")]
    assert sorted(began[3:]) == [(3600, "often:A"), (3600, "seldom:A")]


def test_what_is_set_counts_from_where_the_clock_stands(redbike):
    bike = redbike(Worker(lambda run: run.jobid == "first:A" and bike.set("second:A", "EVERY:10m")), now=START)
    bike.set("first:A", "AT:5")
    assert times(bike.run_due(timedelta(hours=1)))[1:] == [600, 1200, 1800, 2400, 3000, 3600]
    bike.unset("second:A")
    for jobid in ("third:A", "fourth:A"):
        bike.set(jobid, "EVERY:10m")
    assert times(bike.run_due(timedelta(minutes=20))) == [4200, 4200, 4800, 4800]


def test_jobs_of_the_host_and_of_every_host_run_on_the_one_that_there_is(redbike):
    bike = redbike(Worker(), now=START, host="web1")
    bike.set("own:A@web1", f"EVERY:1h@{START}")
    bike.set("other:A@web2", f"EVERY:1h@{START}")
    bike.set("all:A@all", f"EVERY:2d@{START}")
    assert [run.jobid for run in bike.run_due(timedelta(hours=2))] == ["own:A@web1", "own:A@web1"]
    bike.unset("own:A@web1")
    days = 86400.0
    assert times(bike.run_due(timedelta(days=5))) == [2 * days, 4 * days]
    assert [run.outcome for run in bike.runs("all:A@web1")] == ["ok", "ok"]
    # Though its worker is idle for days, the host is there whenever a program looks.
    bike.set("all:A@all", f"EVERY:3d@{START}")
    bike.set("once:A@all", "NOW")
    assert bike.tell("all:A@web1").get("paused") is None
    runs = bike.run_due(timedelta(days=2))
    assert [run.jobid for run in runs] == ["once:A@web1", "all:A@web1"]
    assert times(runs)[1:] == [6 * days]
    bike.unset("all:A@all")
    assert bike.run_due(timedelta(days=9)) == []


def test_without_a_name_the_host_has_that_of_the_system(redbike):
    bike = redbike(Worker(), now=START)
    bike.set(f"own:A@{name_host()}", f"EVERY:1h@{START}")
    assert times(bike.run_due(timedelta(hours=2))) == [3600, 7200]


def test_a_job_that_runs_for_ever_is_an_error_and_names_it(redbike):
    bike = redbike(Worker(), now=START)
    bike.set("poll:A", "CONTINUE")
    bike.set("other:A", "AT:5")
    said = r"more than 20 runs were due by 2026-09-21T14:13:20Z: the job 'poll:A' alone .* give a higher limit"
    with pytest.raises(TooManyRuns, match=said):
        bike.run_due(limit=20)
    # A pause lets it run from one to the next.
    bike.worker.action = lambda run: 60
    bike.run_due()
    assert times(bike.run_due(timedelta(minutes=3)))[-3:] == [60, 120, 180]
    with pytest.raises(TooManyRuns):
        bike.run_due(timedelta(minutes=3), limit=2)
    assert len(bike.run_due(timedelta(minutes=3), limit=3)) == 3


def test_rates_of_queues_and_pauses_take_their_time(redbike):
    jobs = Jobs(limits={"mail": Limit(rate="2/m")})
    jobs.job("mail")(lambda: None)
    bike = redbike(jobs, now=START)
    for number in range(5):
        bike.set(f"mail:{number}", "NOW")
    runs = bike.run_due(timedelta(hours=1))
    assert starts(runs) == [0, 0, 30, 60, 90]
    bike.set("mail:late", "EVERY:1h")
    bike.pause("mail:late", until=bike.now + 5400)
    [run] = bike.run_due(timedelta(minutes=100))
    assert (run.due, run.start) == (START + 7200, START + 9000)
    bike.pause_queue("mail", until=bike.now + 86400)
    [run] = bike.run_due(timedelta(days=1))
    assert run.start == bike.now


@pytest.mark.parametrize(
    ("error", "raises", "said"),
    [(None, Overrun, r"it overran its timeout of 0\.05 s"), (OSError("full"), OSError, "full")],
)
def test_a_run_that_takes_too_long_is_raised_unless_it_raises_something_itself(redbike, error, raises, said):
    def sleep(run):
        wait_until(lambda: time.monotonic() > run.received + run.timeout + 0.05)
        if error:
            raise error

    bike = redbike(Worker(sleep), default_timeout=0.05)
    bike.set("slow:A", "NOW")
    with pytest.raises(raises, match=said):
        bike.run_due()
    assert bike.tell("slow:A")["status"].startswith("DIE:")
    assert [run.outcome for run in bike.runs()] == ["overrun"]


def test_a_coroutine_that_ends_its_event_loop_is_raised(redbike):
    jobs = Jobs()

    @jobs.job("stops")
    async def stops():
        asyncio.get_running_loop().stop()

    bike = redbike(jobs)
    bike.set("stops", "NOW")
    with pytest.raises(RedbikeError, match="the event loop was stopped by a job"):
        bike.run_due()
    assert [run.outcome for run in bike.runs()] == ["lost"]


def test_coroutines_run_and_are_cancelled_at_their_deadline(redbike):
    jobs, loops = Jobs(), []

    @jobs.job("quick", every="1h")
    async def quick():
        loops.append(asyncio.get_running_loop())

    @jobs.job("slow", at=0, timeout=0.05)
    async def slow():
        await asyncio.sleep(60)

    bike = redbike(jobs)
    for jobid, schedule, options in jobs.schedules():
        bike.set(jobid, schedule, **options)
    with pytest.raises(Overrun, match="cancelled at its deadline"):
        bike.run_due()
    bike.run_due(timedelta(hours=3))
    # What is kept between runs, such as a connection, is bound to its loop.
    assert len(loops) == 3
    assert len(set(loops)) == 1


@pytest.mark.parametrize(
    ("error", "began"),
    [(StopWork("enough"), [3600]), (UnsetJob("gone"), [3600]), (Again(after=60), [3600, 3660, 3720])],
)
def test_what_is_no_failure_is_not_raised(redbike, error, began):
    def end(run):
        if run.attempt < 3:
            raise error
        bike.unset(run.jobid)

    bike = redbike(Worker(end), now=START)
    bike.set("job:A", "EVERY:1h")
    assert starts(bike.run_due(timedelta(days=1))) == began


def test_a_failed_assertion_in_a_job_fails_the_test(redbike):
    bike = redbike(Worker(lambda run: pytest.fail("not today")))
    bike.set("job:A", "NOW")
    with pytest.raises(pytest.fail.Exception, match="not today"):
        bike.run_due()


def test_a_run_that_was_not_to_begin_is_not_among_the_runs_and_hooks_are_called_for_those(redbike):
    heard = []

    class Told(Worker):
        def ended(self, run, end):
            heard.append((run.jobid, end.event, end.next_run - START))

    bike = redbike(Told(), now=START, catchup="none")
    bike.set("job:A", f"EVERY:1h@{START}")
    bike.pause_queue("A", until=START + 4000)
    assert times(bike.run_due(timedelta(hours=2))) == [7200]
    assert bike.tell("job:A")["skipped"] == {"paused": 1}
    assert heard == [("job:A", "ok", 10800)]


def test_queues_that_come_and_go_are_worked(redbike):
    tenants = ["A", "B"]

    class Tenants(Worker):
        def queue_names(self):
            return [f"work-{tenant}" for tenant in tenants]

    bike = redbike(Tenants())
    for tenant in "AC":
        bike.set(f"job:{tenant}", "EVERY:1h")
    # One is left of the round, so that the names are not read again because a new one begins.
    assert [run.jobid for run in bike.run_due(timedelta(hours=1))] == ["job:A"]
    tenants[:] = ["C", "D", "E"]
    assert [run.jobid for run in bike.run_due()] == ["job:C"]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        *(
            ({"limit": limit}, BadConfig, f"bad limit {limit!r}: a whole number is needed")
            for limit in (None, -1, 1.5, True)
        ),
        ({"until": datetime(2026, 1, 1)}, TypeError, "has no zone"),
        ({"until": "tomorrow"}, TypeError, "'tomorrow' is no instant"),
        ({"until": START - 1}, BadConfig, "only goes forward: 2026-09-21T14:13:19Z is before 2026-09-21T14:13:20Z"),
        ({"until": 1e15}, BadConfig, "before 1970 or after 9999"),
        ({"until": 10**400}, BadConfig, "bad instant 1000.*before 1970 or after 9999"),
    ],
)
def test_what_is_bad_is_refused_before_anything_runs(redbike, given, error, said):
    bike = redbike(Worker(), now=START)
    bike.set("job:A", "NOW")
    with pytest.raises(error, match=said):
        bike.run_due(**given)
    assert (bike.now, len(bike.run_due(limit=1))) == (START, 1)


def test_a_job_sets_another_one_with_what_runs_it_and_hooks_are_called(redbike):
    notes = []
    jobs = Jobs(startup=lambda: notes.append("startup"), shutdown=lambda: notes.append("shutdown"))

    @jobs.job("first")
    async def first():
        await current_run().bike.set("second", "IN:1h")

    @jobs.job("second")
    def second():
        notes.append(current_run().bike.now)

    bike = redbike(jobs, now=START)
    bike.set("first", "NOW")
    assert times(bike.run_due(timedelta(hours=2))) == [0, 3600]
    bike.finish()
    assert notes == ["startup", START + 3600, "shutdown"]


def test_a_run_saves_something_for_its_next_try_and_its_result_is_kept(redbike):
    jobs = Jobs()

    @jobs.job("import", keep_result=True)
    def work_page():
        run = current_run()
        if run.attempt < 3:
            run.save([*(run.saved or ()), run.attempt])
            raise Again(after=60)
        return run.saved

    bike = redbike(jobs)
    bike.set("import", "NOW")
    assert len(bike.run_due(until=timedelta(hours=1))) == 3
    assert bike.result("import") == [1, 2]


@pytest.mark.parametrize("how", ["pause", "pause_queue", "cancel", "cancel_run"])
def test_what_neither_failed_nor_succeeded_leaves_the_count_of_failed_occurrences(redbike, how):
    def work(run):
        if how == "cancel_run" and run.due == START + 200:
            bike.cancel("job:A")
        raise ValueError

    options = {"stop_after": 2, "on_error": "reschedule", "catchup": "none"}
    bike = redbike(Worker(work), now=START)
    bike.set("job:A", f"EVERY:100@{START}", after=START, **options)
    bike.run_due(START + 150, reraise=False)
    if how == "cancel":
        bike.run_due(START + 199)
        bike.pause_all(until=START + 201)
        bike.run_due(START + 200.5)
        bike.cancel("job:A")
    elif how != "cancel_run":
        getattr(bike, how)("job:A" if how == "pause" else "A", until=START + 250)
    runs = [run for run in bike.run_due(START + 1000, reraise=False) if run.due != START + 200]
    assert times(runs) == [300]
    assert bike.tell("job:A")["status"].startswith("DIE:")


@pytest.mark.parametrize("error", [StopWork, UnsetJob])
def test_what_its_worker_has_stopped_runs_once_more_if_somebody_asked_for_that(redbike, error):
    def work(run):
        if run.attempt == 1 and not bike.runs("job:A"):
            bike.run("job:A")
            raise error

    bike = redbike(Worker(work), now=START)
    bike.set("job:A", "EVERY:1h")
    assert len(bike.run_due(timedelta(days=1))) == 2
    assert bike.tell("job:A")["schedule"] == "STOP"
