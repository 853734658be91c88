"""Which errors are retried, and which end a job: ``retry_on`` and ``stop_on`` of functions and worker classes."""

import asyncio
from contextlib import contextmanager

import pytest

from redbike import (
    Again,
    AsyncRedbike,
    BadConfig,
    BadSchedule,
    Jobs,
    Overrun,
    Redbike,
    RoundRobin,
    StopWork,
    UnsetJob,
    current_run,
)
from tests.loops import join, start
from tests.verbs import set_job
from tests.waiting import wait_until

STOPPED = "LookupError: no account (stop_on has LookupError)"


def make_work(kind, raised):
    """A function of this kind that raises the next one of `raised` each time, and then is the last run of its job."""

    def work():
        raise raised.pop(0) if raised else StopWork

    async def wait():
        await asyncio.sleep(0)
        work()

    async def run_in_thread():
        await asyncio.to_thread(work)

    return {"sync": work, "async": wait, "thread": run_in_thread}[kind]


@pytest.fixture
def work_off(client, prefix):
    """Works a job with a real worker until it has had `number` runs; returns the Redbike."""
    bikes = []

    def work_off(worker, jobid, schedule, number, concurrency=2, **settings):
        bike = Redbike(worker, prefix, client, backoff=0, **settings)
        bike.set(jobid, schedule)
        loops = [start(bike.dispatch), start(lambda: bike.work(concurrency))]
        bikes.append((bike, loops))
        wait_until(lambda: len([*bike.runs(jobid)]) >= number and not bike.is_working(jobid))
        return bike

    yield work_off
    for bike, loops in bikes:
        bike.stop()
        join(*loops)
        bike.close()


def read_outcomes(bike, jobid):
    return [run.outcome for run in bike.runs(jobid)][::-1]


@pytest.mark.parametrize(("kind", "concurrency"), [("sync", 1), ("async", 1), ("async", 2), ("thread", 2)])
def test_an_error_of_stop_on_ends_the_job_of_a_function(work_off, shell, kind, concurrency):
    jobs = Jobs()
    raised = [ConnectionError("away"), KeyError("no account")]
    jobs.job("pay", retries=5, on_error="reschedule", stop_on=(LookupError, TypeError))(make_work(kind, raised))
    bike = work_off(jobs, "pay", "EVERY:10000d@0", 0, concurrency)
    bike.run("pay")
    wait_until(lambda: bike.tell("pay")["status"].startswith("DIE"))
    assert read_outcomes(bike, "pay") == ["retry", "failed"]
    error = "KeyError: 'no account' (stop_on has LookupError)"
    assert [run.error for run in bike.runs("pay")] == [error, "ConnectionError: away"]
    [failure] = bike.failures()
    assert failure["error"] == error
    assert failure["traceback"].endswith("KeyError: 'no account'\n")
    shell.environment["REDBIKE_PREFIX"] = bike.prefix
    for command in ("show", "why", "runs"):
        assert error in shell.run(command, "pay").stdout


AWAY, SLOW, BAD = ConnectionError("away"), TimeoutError("slow"), ValueError("bad")
TIMED_OUT = "TimeoutError: slow (stop_on has TimeoutError)"
NEGATIVE = "ValueError: Again(after=-1): 0 to 1e9 seconds are allowed"


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("rules", "raised", "schedule", "outcomes", "error"),
    [
        ({"retries": 5, "retry_on": OSError}, [AWAY, SLOW, BAD], "NOW", "retry retry failed", "ValueError: bad"),
        ({"retries": 5, "retry_on": [OSError]}, [BAD], "EVERY:0.2", "failed ok", ""),
        ({"retry_on": OSError}, [AWAY], "NOW", "failed", "ConnectionError: away"),
        ({"stop_on": Exception}, [Again(), Again()], "NOW", "retry retry ok", ""),
        ({"retry_on": OSError}, [Again(), Again()], "NOW", "retry retry ok", ""),
        ({"retries": 1, "retry_on": ValueError}, [Again(-1), BAD], "NOW", "retry failed", "ValueError: bad"),
        ({"retries": 5, "retry_on": OSError}, [Again(-1)], "NOW", "failed", NEGATIVE),
        ({"retries": 5, "stop_on": ValueError}, [Again(-1)], "NOW", "failed", f"{NEGATIVE} (stop_on has ValueError)"),
        ({"retries": 3, "stop_on": TimeoutError}, [SLOW], "NOW", "failed", TIMED_OUT),
    ],
)
def test_the_rules_of_a_function_say_what_is_retried(work_off, kind, rules, raised, schedule, outcomes, error):
    jobs = Jobs()
    jobs.job("pay", on_timeout="requeue", **rules)(make_work(kind, [*raised]))
    bike = work_off(jobs, "pay", schedule, len(outcomes.split()))
    runs = [*bike.runs("pay")][::-1][: len(outcomes.split())]
    assert " ".join(run.outcome for run in runs) == outcomes
    assert runs[-1].error == error
    assert bike.tell("pay")["status"].startswith("DIE") == outcomes.endswith("failed")


def test_the_attributes_of_a_worker_class_are_for_all_of_its_jobs(work_off):
    function = make_work("async", [ConnectionError("away"), LookupError("no account")])

    class Worker(RoundRobin):
        retry_on = OSError
        stop_on = (LookupError,)

        def work(self, jobid):
            return function()

    bike = work_off(Worker("A"), "pay:A", "NOW", 2, on_error="retry")
    assert [run.error for run in bike.runs("pay:A")] == [STOPPED, "ConnectionError: away"]


def test_the_rules_of_a_function_come_before_those_of_its_class(work_off):
    class Own(Jobs):
        stop_on = ConnectionError

    jobs = Own()
    jobs.job("first", retries=1, retry_on=OSError)(make_work("sync", [ConnectionError("away")]))
    jobs.job("second", retries=1)(make_work("sync", [ConnectionError("away")]))
    assert read_outcomes(work_off(jobs, "first", "NOW", 2), "first") == ["retry", "ok"]
    assert read_outcomes(work_off(jobs, "second", "NOW", 1), "second") == ["failed"]


@pytest.mark.parametrize("name", ["retry_on", "stop_on"])
@pytest.mark.parametrize("given", ["OSError", OSError("away"), (), (OSError, "ValueError"), int, 7])
def test_anything_but_exception_types_is_refused(client, prefix, name, given):
    said = f"bad {name} {given!r} of the job 'pay': an exception type is needed, or a tuple of them"
    with pytest.raises(BadConfig) as raised:
        Jobs().job("pay", **{name: given})
    assert str(raised.value) == said
    with pytest.raises(BadConfig) as raised:
        Redbike(type("Worker", (RoundRobin,), {name: given})("A"), prefix, client)
    assert str(raised.value) == said.replace("the job 'pay'", "Worker")


def tell_retries(told):
    """Return a middleware that adds to `told` whether what a run raises lets it run again."""

    @contextmanager
    def tell(run):
        try:
            yield
        except BaseException as raised:
            told.append(run.will_retry(raised))
            raise

    return tell


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("error", "options", "retried"),
    [
        (OSError("full"), {}, False),
        (OSError("full"), {"retries": 1}, True),
        (ValueError("bad"), {"retries": 1}, False),
        (PermissionError("no"), {"retries": 1}, False),
        (Again(), {}, True),
        (Again(-1), {"retries": 1}, False),
        (StopWork(), {"retries": 1}, False),
        (UnsetJob(), {"retries": 1}, False),
        (BadSchedule("bad"), {"retries": 1}, False),
        (Overrun("late"), {"on_timeout": "requeue"}, True),
        (Overrun("late"), {"on_timeout": "requeue", "stop_after": 1}, False),
        (Overrun("late"), {"on_timeout": "stop", "retries": 1}, False),
    ],
)
def test_a_middleware_can_tell_whether_there_is_another_try(client, prefix, kind, error, options, retried):
    told = []
    jobs = Jobs(middleware=[tell_retries(told)])
    jobs.job("job", retry_on=OSError, stop_on=(PermissionError, Overrun))(make_work(kind, [error]))
    with Redbike(jobs, prefix, client, backoff=0) as bike:
        bike.set("job", "NOW", **options)
        assert bike.work_one() == "job"
        assert told == [retried]
        waiting = [job.jobid for job in bike.jobs() if job.status in ("TML", "ENQ")]
    assert waiting == ["job"] * retried


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("on_timeout", ["requeue", "stop"])
def test_what_is_raised_after_the_deadline_is_tried_again_by_on_timeout(client, prefix, kind, on_timeout):
    told = []
    jobs = Jobs(middleware=[tell_retries(told)])

    def work():
        wait_until(lambda: current_run().now() > current_run().deadline)
        raise OSError("full")

    async def wait():
        work()

    jobs.job("job", timeout=0.1, on_timeout=on_timeout)(work if kind == "sync" else wait)
    with Redbike(jobs, prefix, client) as bike:
        bike.set("job", "NOW")
        bike.work_one()
        is_requeued = on_timeout == "requeue"
        assert (told, bike.tell("job")["status"][:3]) == ([is_requeued], "ENQ" if is_requeued else "DIE")


@pytest.mark.parametrize("concurrency", [None, 1])
def test_a_run_that_its_program_ends_is_tried_again(client, prefix, concurrency):
    told, begun, kept = [], asyncio.Event(), []
    jobs = Jobs(middleware=[tell_retries(told)])

    @jobs.job("job", timeout=60)
    async def job() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def main():
        bike = AsyncRedbike(jobs, prefix, client)
        await bike.set("job", "NOW")
        kept.append(asyncio.create_task(bike.work(concurrency)))
        await begun.wait()
        # asyncio.run() cancels all.

    asyncio.run(main())
    assert told == [True]


@pytest.mark.parametrize(
    ("stored", "outcomes", "told", "status"),
    [("EVERY:1h@0", ["retry", "failed"], [True, False], "TML"), ("garbage", ["failed"], [False], "DIE")],
)
def test_a_bad_schedule_of_another_job_is_an_error_like_others(client, prefix, stored, outcomes, told, status):
    found = []
    jobs = Jobs(middleware=[tell_retries(found)])
    jobs.job("other")(lambda: None)
    jobs.job("job")(lambda: current_run().bike.enter("other", "every tuesday"))
    with Redbike(jobs, prefix, client, backoff=0, retries=1, on_error="reschedule") as bike:
        set_job(bike.store, "job", stored, "now")
        for _ in outcomes:
            assert bike.work_one() == "job"
            bike.dispatch_due()
        assert [run.outcome for run in bike.runs("job")][::-1] == outcomes
        assert (found, bike.tell("job")["status"][:3]) == (told, status)
        assert "every tuesday" in bike.tell("job")["failure"]["error"]
