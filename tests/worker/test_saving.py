"""``current_run().save()`` and ``saved``: what a run keeps for the next try of its occurrence, and for no other run."""

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from redbike import Again, AsyncRedbike, BadConfig, LostRun, Redbike, RoundRobin, StopWork, UnsetJob, current_run
from redbike.errors import ServerError
from redbike.store.inspection.fsck import fsck
from redbike.store.run import NextState
from redbike.worker.saving import MAX_SAVED
from tests.loops import Doing, raising
from tests.states import JOB
from tests.verbs import set_job, take_many, take_one
from tests.waiting import wait_until

YEARS = "EVERY:10000d@0"
QUEUES = [("work-A", 1000.0)]


@pytest.fixture
def bike(client, prefix):
    return Redbike(Doing(), prefix, client)


def work(bike, *acts, schedule=YEARS):
    """Set a job that is due, and let each of its tries do the next of these; return what each has found as saved."""
    found, left = [], list(acts)

    def act():
        found.append(current_run().saved)
        step = left.pop(0) if left else None
        error = step() if callable(step) and not isinstance(step, type) else step
        if isinstance(error, BaseException | type):
            raise error

    bike.worker.acts[JOB] = act
    if schedule:
        set_job(bike.store, JOB, schedule, "now", schedule == "NOW")
    while bike.work_one() or bike.dispatch_due():
        pass
    return found


def saves(value, error=None):
    def act():
        current_run().save(value)
        return error

    return act


def kept(bike):
    return bike.client.hgetall(bike.store.keys.saved)


def lose(bike, *jobids):
    """Let a worker take these together, save "half" for each, and be lost; return the runs."""
    for jobid in jobids:
        set_job(bike.store, jobid, YEARS, "now")
    runs = take_many(bike.store, QUEUES, [1], "tag", len(jobids))
    for run in runs:
        bike.store.runs.save(run, '"half"')
    bike.dispatch_due(runs[0].start + 100)
    return runs


VALUES = [7, 0, False, "é\n", [1, {"a": None}], {}, "x" * (MAX_SAVED - 2)]


@pytest.mark.parametrize(
    ("acts", "found"),
    [
        *(pytest.param([saves(each, Again())], [None, each], id=f"finds {each!r:.20}") for each in VALUES),
        pytest.param([saves(1, Again()), saves(None, Again())], [None, 1, None], id="none takes it back"),
        pytest.param([saves(1, Again()), Again(), saves(2, Again()), Again()], [None, 1, 1, 2, 2], id="the last one"),
        pytest.param([saves("half", ValueError("no luck"))], [None, "half"], id="a retry"),
        *(pytest.param([saves(1, error)], [None], id=f"ends by {error}") for error in (None, StopWork, UnsetJob)),
    ],
)
def test_each_try_of_an_occurrence_finds_what_was_saved_last_and_the_end_leaves_nothing(client, prefix, acts, found):
    bike = Redbike(Doing(), prefix, client, retries=1, backoff=0.0)
    assert work(bike, *acts) == found
    assert kept(bike) == {}, "the occurrence is over"


def test_the_run_itself_has_it_at_once_as_a_copy(bike):
    seen = []

    def act():
        run, value = current_run(), [1]
        run.save(value)
        value.append(2)
        seen.append(run.saved)
        assert run.saved is not run.saved

    work(bike, act)
    assert seen == [[1]]


def test_after_a_loss_the_next_worker_finds_it(bike):
    lose(bike, JOB)
    assert work(bike, schedule="") == ["half"]


def test_after_a_loss_of_several_runs_it_is_found_and_the_attempt_is_the_same(bike):
    lose(bike, JOB, "other:A")
    attempts = []
    bike.worker.acts["other:A"] = lambda: attempts.append((current_run().attempt, current_run().saved))
    assert work(bike, schedule="") == ["half"]
    assert attempts == [(1, "half")]


def test_what_has_failed_finds_it_when_it_is_run_again(bike):
    assert work(bike, saves("half", ValueError("no luck"))) == [None]
    assert bike.tell(JOB)["status"].startswith("DIE")
    bike.run(JOB)
    assert work(bike, schedule="") == ["half"]
    assert kept(bike) == {}


def test_a_job_that_unsets_itself_leaves_nothing_of_an_earlier_try(bike):
    lose(bike, JOB)
    bike.worker.acts[JOB] = raising(UnsetJob())  # it looks at nothing
    assert bike.work_one() == JOB
    assert kept(bike) == {}


def test_another_occurrence_does_not_find_it(client, prefix):
    bike = Redbike(Doing(), prefix, client, on_error="reschedule")
    assert work(bike, saves("half", ValueError("no luck")), schedule="EVERY:1h") == [None]
    assert kept(bike) != {}
    bike.dispatch_due(bike.tell(JOB)["next_run"])
    assert work(bike, schedule="") == [None]
    assert kept(bike) == {}, "it has seen the one of before, which is of no use any more"


def test_unset_and_forget_leave_nothing(client, prefix):
    bike = Redbike(Doing(), prefix, client, forget_after=1.0)
    work(bike, saves(1, ValueError("no luck")))
    bike.unset(JOB)
    assert kept(bike) == {}
    work(bike, schedule="NOW")
    client.hset(bike.store.keys.saved, JOB, "key 1")
    bike.store.at(4e9).timeline.forget()
    assert kept(bike) == {}


def test_a_job_that_was_unset_meanwhile_keeps_nothing(bike):
    def act():
        bike.unset(JOB)
        current_run().save(1)

    assert work(bike, act) == [None]
    assert kept(bike) == {}


def test_a_run_that_was_lost_saves_nothing(bike):
    [lost] = lose(bike, JOB)
    again = take_one(bike.store, QUEUES, "other")
    bike.store.runs.save(again, "2")
    with pytest.raises(LostRun, match=f"^{JOB}: its run is no longer this worker's, so nothing was saved$"):
        bike.store.runs.save(lost, "1")
    assert bike.store.runs.read_saved(again) == "2"


def test_nobody_saves_for_a_run_that_nobody_works(bike):
    set_job(bike.store, JOB, YEARS, "now")
    run = take_one(bike.store, QUEUES, "tag")
    with pytest.raises(LookupError, match="only while it is worked, a run can save something or say how far it is"):
        run.save(1)
    with pytest.raises(LookupError):
        print(run.saved)


def test_a_run_that_has_ended_saves_nothing(bike):
    runs = []
    work(bike, lambda: runs.append(current_run()))
    with pytest.raises(LostRun):
        runs[0].save(1)
    assert kept(bike) == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * (MAX_SAVED - 1), r"bad saved state '\"x{39}'…: it has 65537 bytes, 65536 are allowed"),
        ({1, 2}, "bad saved state {1, 2}: it cannot be written as JSON: .*"),
        (float("nan"), "bad saved state nan: it cannot be written as JSON: .*"),
        (b"x", "bad saved state b'x': it cannot be written as JSON: .*"),
    ],
    ids=["large", "set", "nan", "bytes"],
)
def test_what_cannot_be_kept_is_refused_and_the_last_one_stays(bike, value, message):
    def act():
        current_run().save("good")
        with pytest.raises(BadConfig, match=f"^{message}$"):
            current_run().save(value)
        return Again()

    assert work(bike, act) == [None, "good"]


class Coroutines(RoundRobin):
    """Its three tries note in `found` what they find and save, in their task and in a thread."""

    found = ()

    async def work(self, jobid):
        run = current_run()
        self.found += (await run.saved,)
        with pytest.raises(BadConfig):
            run.save({1})
        await run.save(run.attempt)
        self.found += (await asyncio.to_thread(lambda: current_run().saved),)
        if run.attempt < 3:
            raise Again


def test_a_coroutine_awaits_it(client, prefix):
    bike = Redbike(Coroutines("A"), prefix, client)
    set_job(bike.store, JOB, YEARS, "now")
    while bike.work_one() or bike.dispatch_due():
        pass
    assert bike.worker.found == (None, 1, 1, 2, 2, 3)
    assert kept(bike) == {}


def test_a_coroutine_in_the_loop_of_its_program_awaits_it(client, prefix):
    worker = Coroutines("A")

    async def main():
        async with AsyncRedbike(worker, prefix, client) as bike:
            await bike.set(JOB, "NOW")
            while await bike.work_one() or await bike.dispatch_due():
                pass

    asyncio.run(main())
    assert worker.found == (None, 1, 1, 2, 2, 3)


def test_a_thread_of_the_job_saves_too(bike):
    def act():
        run = current_run()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(run.save, "half").result()
        return Again()

    assert work(bike, act) == [None, "half"]


@pytest.mark.parametrize("uses", [False, True])
def test_only_the_end_of_a_run_that_uses_it_has_its_key_and_its_flag(bike, uses):
    """A key more costs the server something at each call."""
    set_job(bike.store, JOB, YEARS, "now")
    run = take_one(bike.store, QUEUES, "tag")
    run.uses_saved = uses
    call = bike.store.runs.pack_end([(run, NextState("next", 4e9))])
    assert (bike.store.keys.saved in call.keys, "drops" in call.given) == (uses, uses)


def test_a_key_of_a_wrong_type_is_named(bike):
    def act():
        current_run().save(1)
        bike.client.delete(bike.store.keys.saved)
        bike.client.lpush(bike.store.keys.saved, "wrong")

    with pytest.raises(ServerError, match=r"WRONGTYPE .*-saved is a list, not a hash"):
        work(bike, act)


def test_what_is_left_of_a_job_that_is_gone_is_found_and_removed(bike):
    bike.client.hset(bike.store.keys.saved, "gone:A", "key 1")
    assert list(fsck(bike.store)) == ["'gone:A': it has no schedule, but a saved state or progress"]
    [(line, is_well)] = bike.repair()
    assert (is_well, "its saved state removed" in line) == (True, True)
    assert kept(bike) == {}


@pytest.mark.parametrize("record", [b"\xff damaged", b"", b"KEY {damaged", b"KEY \xff", b"KEY"])
def test_a_damaged_record_is_none(bike, record):
    set_job(bike.store, JOB, "AT:1000", "now", once=True)
    key = take_one(bike.store, QUEUES, "tag").key
    bike.client.hset(bike.store.keys.saved, JOB, record.replace(b"KEY", key.encode()))
    bike.dispatch_due(4e9)  # its worker is lost
    assert work(bike, schedule="") == [None]
    assert kept(bike) in ({}, {JOB.encode(): b""})


WORKER = """
import os
import signal

from redbike import Jobs, current_run

jobs = Jobs(concurrency=1)

@jobs.job("import", timeout="60s")
def import_rows() -> None:
    run = current_run()
    first = run.saved or 0
    for row in range(first, 40):
        with open("rows", "a") as file:
            file.write(f"{row}\\n")
        run.save(row + 1)
        if row in (9, 19, 29) and run.attempt == row // 10 + 1:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.acceptance
def test_an_import_that_is_killed_three_times_has_each_row_once(jobs):
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:jobs\nmax-losses: 5\n")
    assert jobs.run("set", "import", "NOW").returncode == 0
    jobs.start("dispatch", log="dispatch")
    for number in range(4):
        worker = jobs.start("work", log=f"work{number}")
        if number < 3:
            assert worker.wait(timeout=120) == -signal.SIGKILL
    wait_until(lambda: '"STP:' in jobs.run("tell", "import").stdout, 60)
    assert (jobs.folder / "rows").read_text() == "".join(f"{row}\n" for row in range(40))
    assert [run.attempt for run in jobs.bike.runs("import")] == [4, 3, 2, 1]
    jobs.run("control", "HALT")
