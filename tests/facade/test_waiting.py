"""Waiting for the run of a job."""

import asyncio
import json
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from redbike import AsyncRedbike, BadConfig, Jobs, NoSuchJob, Redbike, RedbikeError, current_run
from redbike.facade.waiting import ComingRun
from redbike.store.history import MAX_ATTEMPT
from redbike.store.log import Events
from tests.loops import beside, join, start
from tests.verbs import take_many
from tests.waiting import wait_until


@pytest.fixture
def jobs():
    return Jobs(concurrency=3)


@pytest.fixture
def bike(client, prefix, jobs):
    with Redbike(jobs, prefix, client) as bike:
        yield bike


@pytest.fixture
def held(jobs):
    """The function of a job, which begins and goes on as two events say; these."""
    begun, goes_on = threading.Event(), threading.Event()

    @jobs.job("job")
    def job() -> None:
        begun.set()
        assert goes_on.wait(60)

    return job, begun, goes_on


def wait_beside(bike, wait):
    """Call `wait` in a thread, and return when it listens: that thread, and a list with what came of it."""

    def run():
        try:
            results.append(wait())
        except RedbikeError as error:
            results.append(error)

    results = []
    waiting = start(run)
    wait_until(lambda: bike.client.pubsub_shardnumsub(bike.store.keys.journal)[0][1])
    return waiting, results


def test_a_run_that_has_ended_is_returned_at_once_and_what_nobody_knows_refused(bike, jobs):
    double = jobs.job("double")(lambda number: 2 * number)
    handle = double.options(keep_result=True).enqueue(4)
    bike.work_one()
    run = handle.wait()
    assert (run.jobid, run.outcome, run.result, run.attempt) == (handle, "ok", 8, 1)
    assert bike.wait(handle) == run
    with pytest.raises(NoSuchJob, match="no run of 'double' is kept, and none will come"):
        bike.wait("double")


def test_the_end_of_a_run_is_waited_for_but_not_that_of_a_try(bike, jobs):
    @jobs.job("job", retries=2, backoff="0.01s")
    def job() -> None:
        if current_run().attempt < 3:
            raise ValueError("not yet")

    @jobs.job("failing")
    def fail() -> None:
        raise ValueError("no")

    with beside(bike.store, bike.work, bike.dispatch):
        wait_until(lambda: len(bike.workers()) == 2)
        run, failed = job.enqueue().wait(60), fail.enqueue().wait(60)
    assert (run.outcome, run.attempt, run.error) == ("ok", 3, "")
    assert (failed.outcome, failed.error, failed.has_result) == ("failed", "ValueError: no", False)


def test_a_recurring_job_is_waited_for_until_its_next_run(bike, jobs):
    jobs.job("job")(lambda: None)
    bike.set("job", "EVERY:1h")
    with pytest.raises(TimeoutError, match="no run of 'job' has ended in time"):
        bike.wait("job", timeout=0.1)
    for short in ("0.1s", timedelta(seconds=0.1), 0):
        with pytest.raises(TimeoutError):
            bike.wait("job", timeout=short)
    with pytest.raises(BadConfig, match="bad timeout 'soon': 900, 15m"):
        bike.wait("job", timeout="soon")
    with pytest.raises(BadConfig, match="bad timeout nan: seconds are needed"):
        bike.wait("job", timeout=float("nan"))
    with pytest.raises(TypeError, match="bad timeout \\[2\\]: seconds"):
        bike.wait("job", timeout=[2])
    waiting, ended = wait_beside(bike, lambda: bike.wait("job", 60))
    bike.run("job")
    bike.work_one()
    join(waiting)
    assert [run.outcome for run in ended] == ["ok"]


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_run_of_a_recurring_job_that_ends_before_anybody_listens_is_returned(bike, held, monkeypatch, has_begun):
    (_, begun, goes_on), waiting = held, []

    def begin():
        waiting.append(start(bike.work_one))
        assert begun.wait(60)

    listen = Events.listen

    def listen_late(*given, **named):
        _ = None if has_begun else begin()
        goes_on.set()
        join(*waiting)
        return listen(*given, **named)

    monkeypatch.setattr(Events, "listen", listen_late)
    bike.set("job", "EVERY:1h")
    bike.run("job")
    _ = begin() if has_begun else None
    assert bike.wait("job", timeout=1).outcome == "ok"


def test_who_waits_without_a_timeout_hears_of_it_when_the_redbike_is_closed(client, prefix, bike, jobs):
    jobs.job("job")(lambda: None)
    bike.set("job", "EVERY:1h")
    own = Redbike(jobs, prefix, client)
    waiting, raised = wait_beside(bike, lambda: own.wait("job"))
    own.close()
    join(waiting)
    [error] = raised
    assert str(error).startswith("no run of 'job' has ended: this Redbike was closed")


def test_coroutines_wait_without_holding_up_other_calls(client, prefix, bike, jobs):
    goes_on = threading.Event()

    @jobs.job("job")
    def job(number: int) -> int:
        assert goes_on.wait(60)
        return number

    async def main():
        async with AsyncRedbike(jobs, prefix, client) as own:
            handles = [await job.options(keep_result=True, bike=own).enqueue(number) for number in range(30)]
            waits = [asyncio.create_task(handle.wait(60)) for handle in handles]
            await asyncio.sleep(0)
            assert (await own.tell(handles[0]))["status"]
            cancelled = asyncio.create_task(own.wait(handles[0]))
            await asyncio.sleep(0)
            cancelled.cancel()
            goes_on.set()
            runs = await asyncio.gather(*waits)
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            return [run.result for run in runs]

    with beside(bike.store, bike.work):
        assert asyncio.run(main()) == list(range(30))


def test_a_call_that_is_not_awaited_any_more_says_nothing_after_the_loop(client, prefix, bike, jobs, caplog):
    function, is_over = jobs.job("job")(lambda: None), threading.Event()

    def wait_long(*_):
        assert is_over.wait(60)
        raise TimeoutError("too late")

    async def main():
        own = AsyncRedbike(jobs, prefix, client)
        handle = await function.options(bike=own).enqueue()
        own._bike._queries.wait_until = wait_long  # it ends when the loop has
        with pytest.raises(TimeoutError, match=r"^$"):
            await asyncio.wait_for(handle.wait(), 0.01)

    asyncio.run(main())
    listening = [thread for thread in threading.enumerate() if thread.name == "redbike-events"]
    is_over.set()
    for thread in listening:
        thread.join(60)
    assert listening
    assert caplog.text == ""


WITHDRAW = {
    "unset": lambda bike: bike.unset("job"),
    "stop": lambda bike: bike.set("job", "STOP"),
    "cancel": lambda bike: bike.cancel("job"),
    "expire": lambda bike: wait_until(lambda: bike.dispatch_due() or bike.tell("job")["status"].startswith("STP")),
}


@pytest.mark.parametrize("withdraw", WITHDRAW)
@pytest.mark.parametrize("has_run", [False, True])
def test_who_waits_hears_of_it_when_no_run_is_to_come(bike, jobs, monkeypatch, withdraw, has_run):
    monkeypatch.setattr("redbike.facade.waiting.LOOK_AGAIN", 0.0)
    jobs.job("job")(lambda: None)
    if has_run:
        bike.set("job", "NOW")
        bike.work_one()
    bike.set("job", "NOW", expires=0.5 if withdraw == "expire" else None)
    waiting, raised = wait_beside(bike, lambda: bike.wait("job"))
    WITHDRAW[withdraw](bike)
    join(waiting)
    [error] = raised
    assert isinstance(error, NoSuchJob)
    is_known = has_run and withdraw != "unset"
    assert str(error).startswith("'job' does not run any more: " if is_known else "no run of 'job' is kept")


def test_a_call_that_has_expired_before_anybody_waits_has_no_run(bike, jobs):
    job = jobs.job("job")(lambda: None)
    job.options(key="one").enqueue()
    bike.work_one()
    handle = job.options(key="one", expires="0.1s").enqueue()
    wait_until(lambda: bike.dispatch_due() or bike.tell(handle)["status"].startswith("STP"))
    with pytest.raises(NoSuchJob, match=r"^'job:one' does not run any more: what was to come was withdrawn or "):
        handle.wait()
    assert bike.wait("job:one").outcome == "ok"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_from_before_a_call_that_was_cancelled_is_not_its_run(client, prefix, bike, jobs, monkeypatch, is_async):
    job = jobs.job("job")(lambda: None)
    job.options(key="one").enqueue()
    bike.work_one()
    # As if some seconds had passed since.
    monkeypatch.setattr("redbike.facade.waiting.CLOCKS_DIFFER", -5.0)

    async def call():
        async with AsyncRedbike(jobs, prefix, client) as own:
            handle = await job.options(key="one", bike=own).enqueue()
            await own.cancel(handle)
            await handle.wait()

    def call_here():
        handle = job.options(key="one", bike=bike).enqueue()
        bike.cancel(handle)
        handle.wait()

    with pytest.raises(NoSuchJob, match=r"^'job:one' does not run any more: "):
        asyncio.run(call()) if is_async else call_here()


def test_the_end_of_a_run_is_not_that_of_a_call_which_was_withdrawn_during_it(bike, held, monkeypatch):
    monkeypatch.setattr("redbike.facade.waiting.LOOK_AGAIN", 0.0)
    job, begun, goes_on = held
    with beside(bike.store, bike.work):
        job.options(key="one").enqueue()
        assert begun.wait(60)
        handle = job.options(key="one").enqueue()
        waiting, raised = wait_beside(bike, lambda: handle.wait(60))
        bike.set("job:one", "STOP")
        goes_on.set()
        join(waiting)
    [error] = raised
    assert isinstance(error, NoSuchJob)
    assert str(error).startswith("'job:one' does not run any more")


@pytest.mark.parametrize("after", [None, "0.3s"])
def test_a_run_that_somebody_asked_for_during_another_one_is_waited_for(bike, jobs, after):
    begun, goes_on = threading.Semaphore(0), threading.Event()

    @jobs.job("job", keep_result="yes")
    def job(number: int) -> int:
        begun.release()
        assert goes_on.wait(60)
        return number

    with beside(bike.store, bike.work, bike.dispatch):
        job.options(key="one").enqueue(1)
        assert begun.acquire(timeout=60)
        handle = job.options(key="one", after=after).enqueue(2)
        waiting, results = wait_beside(bike, lambda: handle.wait(60).result)
        wait_until(lambda: bike.tell("job:one")["working"])
        goes_on.set()
        join(waiting)
    assert results == [2]


@pytest.mark.parametrize("failures", [1, 2])
def test_the_try_that_somebody_asked_for_during_the_one_before_is_waited_for(bike, jobs, failures):
    begun, goes_on = threading.Event(), threading.Event()

    @jobs.job("job", retries=3, backoff="0.01s")
    def job() -> None:
        attempt = current_run().attempt
        if attempt == failures:
            begun.set()
            assert goes_on.wait(60)
        if attempt <= failures:
            raise ValueError("not yet")

    with beside(bike.store, bike.work, bike.dispatch):
        bike.set("job", "EVERY:1h")
        bike.run("job")
        assert begun.wait(60)
        assert bike.run("job") == [("job", "owed")]
        waiting, results = wait_beside(bike, lambda: bike.wait("job", 60))
        goes_on.set()
        join(waiting)
    assert [(run.outcome, run.attempt) for run in results] == [("ok", failures + 1)]


def test_a_try_that_overran_is_not_the_end_of_a_run_that_is_requeued(bike, jobs):
    overran = threading.Event()

    @jobs.job("job", timeout="0.3s", on_timeout="requeue", keep_result=True)
    def job() -> int:
        # The tries that follow take no time, but on a busy machine the first of them may still be late.
        if current_run().attempt < 3:
            overran.wait(60)
        return current_run().attempt

    with beside(bike.store, bike.work, bike.dispatch):
        run = job.enqueue().wait(60)
        overran.set()
    assert (run.outcome, run.result, run.attempt >= 3) == ("ok", run.attempt, True)


def ask(bike, jobid):
    """Ask for a run, and return what waits for it."""
    coming = ComingRun(lambda: bike.store.questions.inspect([jobid])[0])
    [state], [(word, since)] = bike.store.questions.inspect([jobid]), bike.store.jobs.run_timed([jobid])
    coming.begin_asked(state, since)
    return coming, word


def test_of_an_old_occurrence_the_try_that_was_asked_for_is_told_from_the_one_before(bike, jobs):
    """When they began is kept in whole seconds, and both may have begun in the same one."""
    jobs.job("bad", timeout=100)(lambda: 1 / 0)
    bike.set("bad", f"AT:{bike.store.timeline.read_clock() - 4 * 86400}")
    assert bike.work_one()
    for _ in range(2):
        before = bike.runs("bad")[0]
        coming, word = ask(bike, "bad")
        assert (word, coming.awaits(before)) == ("queued", False)
        assert bike.work_one()
        assert coming.awaits(bike.runs("bad")[0])
    # In flight, it is known by its record.
    bike.run("bad")
    take_many(bike.store, [("work-bad", 60.0)], [1], "tag", 1)
    coming, word = ask(bike, "bad")
    run = bike.runs("bad")[0]
    assert word == "owed"
    assert [coming.awaits(replace(run, attempt=attempt)) for attempt in (3, 4, 5)] == [False, False, True]


def test_a_try_with_a_number_too_high_to_be_kept_is_known_by_its_time(bike, jobs):
    jobs.job("bad")(lambda: 1 / 0)
    bike.set("bad", "NOW")
    bike.work_one()
    failure = json.loads(bike.client.hget(bike.store.keys.failures, "bad")) | {"attempt": 300}
    bike.client.hset(bike.store.keys.failures, "bad", json.dumps(failure))
    before = replace(bike.runs("bad")[0], attempt=MAX_ATTEMPT)
    coming, _ = ask(bike, "bad")
    bike.work_one()
    assert not coming.awaits(before)
    assert coming.awaits(bike.runs("bad")[0])
    assert bike.runs("bad")[0].attempt == MAX_ATTEMPT


def test_a_run_that_is_asked_for_twice_as_an_answer_was_lost_is_asked_for_since_the_first_time(bike, jobs):
    jobs.job("job")(lambda: None)
    bike.set("job", "EVERY:1h")
    call = bike.store.jobs._pack_run("job", "work-job")
    before = bike.store.timeline.read_clock()
    (word, first), (again, second) = (bike.store.scripts.run(call)[1:] for _ in range(2))
    assert (word, float(first)) == (again, float(second))
    assert before <= float(first) <= bike.store.timeline.read_clock()


LOST = [
    # on_lost, how many runs are lost together, and how the one that is waited for has ended
    ("requeue", 1, ("ok", 2)),
    ("requeue", 2, ("ok", 1)),
    ("stop", 1, ("lost", 1)),
    ("reschedule", 1, ("lost", 1)),
]


@pytest.mark.parametrize("schedule", ["NOW", "EVERY:1h"])
@pytest.mark.parametrize(("on_lost", "number", "ended"), LOST)
@pytest.mark.parametrize("ends_first", [False, True])
def test_a_lost_run_is_not_the_end_of_an_occurrence_that_is_tried_again(
    bike, jobs, monkeypatch, schedule, on_lost, number, ended, ends_first
):
    jobs.job("job")(lambda: None)
    for jobid in ("job:a", "job:b")[:number]:
        bike.set(jobid, schedule, on_lost=on_lost)
        bike.run(jobid)
    assert len(take_many(bike.store, [("work-job", 60.0)], [1], "tag", number)) == number
    if ends_first:
        # The next try has ended when the end of the lost one is heard.
        is_tried_again = ComingRun.is_tried_again

        def work_first(*given):
            bike.work_one()
            return is_tried_again(*given)

        monkeypatch.setattr(ComingRun, "is_tried_again", work_first)
    waiting, results = wait_beside(bike, lambda: bike.wait("job:a", 60))
    bike.client.zadd(bike.store.keys.leases, {"tag": 1.0})
    bike.dispatch_due()
    if not ends_first:
        bike.work_one()
    join(waiting)
    assert [(run.outcome, run.attempt) for run in results] == [ended]


def test_a_run_that_ends_when_somebody_has_just_begun_to_listen_is_not_the_one_that_was_asked_for(
    bike, jobs, monkeypatch
):
    listens, goes_on, waiting, results = threading.Event(), threading.Event(), [], []
    listen = Events.listen

    def listen_and_rest(*given, **named):
        events = listen(*given, **named)
        listens.set()
        assert goes_on.wait(60)
        return events

    monkeypatch.setattr(Events, "listen", listen_and_rest)

    @jobs.job("job", keep_result="yes")
    def job(number: int) -> int:
        if number == 1:
            handle = job.options(key="one").enqueue(2)
            waiting.append(start(lambda: results.append(handle.wait(60).result)))
            assert listens.wait(60)
        return number

    job.options(key="one").enqueue(1)
    assert bike.work_one() == "job:one"
    goes_on.set()
    assert bike.work_one() == "job:one"
    join(*waiting)
    assert results == [2]


def test_a_recurring_job_that_is_set_anew_during_its_run_is_waited_for_until_that_ends(bike, held):
    _, begun, goes_on = held
    with beside(bike.store, bike.work):
        bike.set("job", "NOW")
        assert begun.wait(60)
        bike.set("job", "EVERY:1h")
        waiting, ended = wait_beside(bike, lambda: bike.wait("job", 60))
        goes_on.set()
        join(waiting)
    assert [run.outcome for run in ended] == ["ok"]
