"""``current_run().save()`` and ``saved``: what a run keeps for the next try of its occurrence, and for no other run."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from redbike import Again, AsyncRedbike, BadConfig, LostRun, Redbike, RoundRobin, StopWork, UnsetJob, current_run
from redbike.errors import ServerError
from redbike.store.inspection.fsck import fsck
from redbike.store.next_state import NextState
from redbike.worker.saving import MAX_SAVED
from tests.loops import Doing, raising
from tests.states import JOB
from tests.verbs import set_job, take_one

YEARS = "EVERY:10000d@0"
QUEUES = [("work-A", 1000.0)]
BIKE = {"worker": Doing}


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


VALUES = [0, "é\n", [1, {"a": None}], "x" * (MAX_SAVED - 2)]


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


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_it_is_gone_when_the_occurrence_is_over_also_if_the_last_try_does_not_look_at_it(client, prefix, is_cancelled):
    bike, steps = Redbike(Doing(), prefix, client, retries=1, backoff=0.0), [saves(1), raising(ValueError())]
    bike.worker.acts[JOB] = lambda: [steps.pop(0)() for _ in tuple(steps)]
    set_job(bike.store, JOB, YEARS, "now")
    assert bike.work_one() == JOB
    assert kept(bike) != {}
    if is_cancelled:
        assert [each.word for each in bike.cancel(JOB)] == ["cancelled"]
    else:
        bike.dispatch_due()
        assert bike.work_one() == JOB
    assert kept(bike) == {}
    assert list(fsck(bike.store)) == []


def test_what_is_left_of_a_job_that_is_gone_is_found_and_removed(bike):
    bike.client.hset(bike.store.keys.saved, "gone:A", "key 1")
    bike.client.hset(bike.store.keys.progress, "gone:A", "tag 0.500000 ")
    assert list(fsck(bike.store)) == ["'gone:A': it has no schedule, but a saved state or progress"]
    [(line, is_well)] = bike.repair()
    assert (is_well, "its saved state" in line, "progress" in line) == (True, True, True)
    assert bike.client.exists(bike.store.keys.saved, bike.store.keys.progress) == 0


def test_another_occurrence_does_not_find_it(client, prefix):
    bike = Redbike(Doing(), prefix, client, on_error="reschedule")
    assert work(bike, saves("half", ValueError("no luck"))) == [None]
    bike.run(JOB)
    assert work(bike, lambda: ValueError("no luck"), schedule="") == ["half"], "what has failed is run again"
    bike.dispatch_due(bike.tell(JOB)["next_run"])
    assert work(bike, schedule="") == [None]
    assert kept(bike) == {}, "it has seen the one of before, which is of no use any more"


def test_a_run_that_is_over_or_that_nobody_works_saves_nothing(bike):
    set_job(bike.store, JOB, YEARS, "now")
    lost = take_one(bike.store, QUEUES, "tag")
    bike.store.runs.save(lost, '"half"')
    bike.dispatch_due(lost.start + 100)
    again = take_one(bike.store, QUEUES, "other")
    assert bike.store.runs.read_saved(again) == '"half"', "the next try finds it after a loss, too"
    with pytest.raises(LookupError, match="a run can save data and report progress only while a worker runs it"):
        again.save(1)
    for name in ("saved", "scheduled_by", "bike"):
        with pytest.raises(LookupError):
            getattr(again, name)
    bike.store.runs.save(again, "2")
    with pytest.raises(LostRun, match=f"^{JOB}: its run is no longer this worker's, so nothing was saved$"):
        bike.store.runs.save(lost, "1")
    assert bike.store.runs.read_saved(again) == "2"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * (MAX_SAVED - 1), r"bad saved state '\"x{39}'…: it has 65537 bytes, 65536 are allowed"),
        ({1, 2}, "bad saved state {1, 2}: it cannot be written as JSON: .*"),
        (float("nan"), "bad saved state nan: it cannot be written as JSON: .*"),
    ],
    ids=["large", "set", "nan"],
)
def test_what_cannot_be_kept_is_refused_and_the_last_one_stays(bike, value, message):
    def act():
        # In a thread of the job as well.
        with ThreadPoolExecutor(1) as threads:
            threads.submit(current_run().save, given := ["good"]).result()
        given.append("changed later")
        assert current_run().saved is not current_run().saved
        with pytest.raises(BadConfig, match=f"^{message}$"):
            current_run().save(value)
        return Again()

    assert work(bike, act) == [None, ["good"]]


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


@pytest.mark.parametrize("is_in_its_own_loop", [False, True])
def test_a_coroutine_awaits_it(client, prefix, is_in_its_own_loop):
    worker = Coroutines("A")

    async def main():
        async with AsyncRedbike(worker, prefix, client) as bike:
            await bike.set(JOB, "NOW")
            while await bike.work_one() or await bike.dispatch_due():
                pass

    if is_in_its_own_loop:
        asyncio.run(main())
    else:
        bike = Redbike(worker, prefix, client)
        set_job(bike.store, JOB, "NOW", "now", once=True)
        while bike.work_one() or bike.dispatch_due():
            pass
        assert kept(bike) == {}
    assert worker.found == (None, 1, 1, 2, 2, 3)


@pytest.mark.parametrize(("uses", "tries"), [(False, 0), (True, 0), (False, 1)])
def test_only_the_end_of_a_run_that_may_have_used_it_has_its_key_and_its_flag(bike, uses, tries):
    """A key more costs the server something at each call."""
    set_job(bike.store, JOB, YEARS, "now")
    run = take_one(bike.store, QUEUES, "tag")
    run.uses_saved, run.tries = uses, tries
    call = bike.store.runs.pack_end([(run, NextState("next", 4e9))])
    assert (bike.store.keys.saved in call.keys, "drops" in call.given) == (uses or tries > 0,) * 2


def test_a_key_of_a_wrong_type_is_named(bike):
    def act():
        current_run().save(1)
        bike.client.delete(bike.store.keys.saved)
        bike.client.lpush(bike.store.keys.saved, "wrong")

    with pytest.raises(ServerError, match=r"WRONGTYPE .*-saved is a list, not a hash"):
        work(bike, act)


@pytest.mark.parametrize("record", [b"\xff damaged", b"", b"KEY {damaged", b"KEY"])
def test_a_damaged_record_is_none(bike, record):
    set_job(bike.store, JOB, "AT:1000", "now", once=True)
    key = take_one(bike.store, QUEUES, "tag").key
    bike.client.hset(bike.store.keys.saved, JOB, record.replace(b"KEY", key.encode()))
    bike.dispatch_due(4e9)  # its worker is lost
    assert work(bike, schedule="") == [None]
    assert kept(bike) in ({}, {JOB.encode(): b""})
