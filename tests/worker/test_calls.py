"""Functions that are decorated: a program calls them, and sets and enqueues jobs for them."""

import asyncio
import copy
import dataclasses
import hashlib
import inspect
import pickle
import re
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike import (
    AsyncRedbike,
    BadConfig,
    BadJobId,
    BadQueueName,
    BadSchedule,
    JobFunction,
    Jobs,
    PastRun,
    Redbike,
    RedbikeError,
)
from redbike.worker.signatures import read_signature
from tests.loops import beside

CALLS = []
jobs = Jobs()


@jobs.job("greet")
def greet(name: str, times: int = 1) -> str:
    """Greet somebody."""
    CALLS.append((name, times))
    return f"hello {name}"


@jobs.job("tell")
async def tell(name: str, **more: object) -> str:
    CALLS.append((name, more))
    return name


@jobs.job("keep")
def keep(jobid: str, data: list[int]) -> None:
    CALLS.append((jobid, data))


@jobs.job("tidy", every="1h")
def tidy() -> None:
    CALLS.append("tidy")


@jobs.job("mixed")
def mixed(jobid: str, size: int) -> None:
    CALLS.append((jobid, size))


BIKE = {"worker": lambda queues: jobs}


@pytest.fixture(autouse=True)
def calls():
    CALLS.clear()
    return CALLS


def work_all(bike):
    bike.dispatch_due()
    return list(iter(bike.work_one, None))


@pytest.fixture
def own(client, prefix):
    """Jobs that have no function yet, with their Redbike."""
    own = Jobs()
    with Redbike(own, f"{prefix}-own", client) as bike:
        yield own, bike


def test_a_function_is_called_as_before(calls):
    assert isinstance(greet, JobFunction)
    assert greet("ann", times=2) == "hello ann"
    assert asyncio.run(tell("bob")) == "bob"
    assert calls == [("ann", 2), ("bob", {})]
    assert (greet.__name__, greet.__doc__, greet.__module__) == ("greet", "Greet somebody.", __name__)
    assert str(inspect.signature(greet)) == "(name: str, times: int = 1) -> str"
    assert inspect.iscoroutinefunction(tell.__call__)
    assert not inspect.iscoroutinefunction(greet.__call__)
    assert pickle.loads(pickle.dumps(greet)) is greet  # noqa: S301
    assert repr(greet) == "<job 'greet': greet(name, times=1)>"


def test_arguments_are_kept_as_the_data_of_a_job_of_their_own(bike, calls):
    ids = [greet.enqueue("ann"), greet.enqueue("bob", 2), greet.enqueue(name="bob", times=2), tell.enqueue("cat", of=7)]
    assert len(set(ids)) == 3
    assert all(each.startswith(("greet:", "tell:")) for each in ids)
    assert bike.tell(ids[1])["data"] == {"name": "bob", "times": 2}
    assert sorted(work_all(bike)) == sorted(set(ids))
    assert sorted(calls, key=str) == sorted([("ann", 1), ("bob", 2), ("cat", {"of": 7})], key=str)
    assert greet.enqueue("ann") == ids[0]
    assert work_all(bike) == [ids[0]], "it ended, and runs once more"


def test_arguments_that_equal_their_defaults_name_the_same_job_as_without_them(bike, own):
    digest = hashlib.sha256(b'{"name":"ann"}').hexdigest()[:20]
    assert {greet.enqueue("ann"), greet.enqueue("ann", 1), greet.enqueue(times=1, name="ann")} == {f"greet:{digest}"}
    assert bike.tell(f"greet:{digest}")["data"] == {"name": "ann", "times": 1}
    others = {greet.enqueue("ann", 2), greet.enqueue("ann", True), greet.enqueue("ann", None)}
    assert len(others - {f"greet:{digest}"}) == 3

    @own[0].job("count")
    def count(first=(1, 2), *, more=frozenset(), **rest):
        pass

    assert count.enqueue() == count.enqueue([1, 2]) != count.enqueue(more=[])
    assert count.enqueue(other=1) == count.enqueue((1, 2), other=1) != count.enqueue()


def test_a_function_without_arguments_and_one_of_data_are_enqueued_beside_their_schedules(bike, calls):
    bike.set("tidy", "EVERY:1h")
    before = bike.tell("tidy")
    jobid, other, third = tidy.enqueue(), keep.enqueue([1, 2]), mixed.options(key="k").enqueue(size=3)
    assert jobid.startswith("tidy:")
    assert sorted(work_all(bike)) == sorted([jobid, other, third])
    assert sorted(calls, key=str) == sorted(["tidy", (other, [1, 2]), ("mixed:k", 3)], key=str)
    assert bike.tell("tidy") == before


def test_a_key_names_the_job(bike):
    key = uuid.uuid4()
    assert greet.jobid("ann") == "greet:ann"
    assert greet.options(key=key).enqueue("ann") == greet.jobid(key) == f"greet:{key}"
    assert greet.options(key=7).enqueue("ann") == "greet:7"
    greet.options(key=7).enqueue("bob")
    assert bike.tell("greet:7")["data"] == {"name": "bob"}
    assert len(work_all(bike)) == 2


class Text(str, Enum):  # noqa: UP042
    """Formatted as ``Text.JOB``, it is the text all the same."""

    JOB, KEY, QUEUE, EVERY, GROUP = "remind", "ann", "slow", "1h", "import"


class Number(int, Enum):
    """Formatted as ``Number.ONE``, it is the number all the same."""

    ONE = 1


def test_an_enum_names_a_function_its_queue_its_period_and_a_key_by_its_value(own):
    jobs, bike = own
    remind = jobs.job(Text.JOB, every=Text.EVERY)(lambda: None)
    jobs.job("other", queue=Text.QUEUE)(lambda: None)
    assert (jobs.queue_names(), jobs.schedules()[0][:2]) == (["work-remind", "work-slow"], ("remind", "EVERY:1h"))
    assert remind.options(key=Text.KEY).enqueue() == remind.jobid(Text.KEY) == "remind:ann"
    assert remind.set(Text.KEY, "@daily") == "remind:ann"
    assert remind.jobid(Number.ONE) == remind.jobid(1) == "remind:1"
    assert bike.tell("remind:ann")["schedule"] == "@daily"
    bike.group(Text.GROUP, [("other", "NOW")], then=Text.JOB)
    assert bike.tell("remind")["schedule"] == "GROUP:import"
    assert work_all(bike) == ["other"]
    assert work_all(bike) == ["remind"]


def test_a_handle_is_copied_and_pickled_as_an_id_is(bike):
    handle = greet.options(key="ann").enqueue("ann")
    work_all(bike)

    @dataclasses.dataclass
    class Order:
        jobid: str

    pickled = pickle.loads(pickle.dumps(handle))  # noqa: S301
    copies = [copy.copy(handle), copy.deepcopy([handle])[0], dataclasses.asdict(Order(handle))["jobid"]]
    assert [pickled, *copies] == ["greet:ann"] * 4
    assert [each.wait(1).outcome for each in copies] == ["ok"] * 3
    with pytest.raises(RedbikeError, match="nobody has set 'greet:ann' here"):
        pickled.wait(1)


HOUR, YEAR_2030 = 3600.0, 1893456000.0


@pytest.mark.parametrize(
    ("options", "later"),
    [
        *(({"after": after}, HOUR) for after in (3600, 3600 + 1e-8, "1h", timedelta(hours=1))),
        *(({"at": at}, YEAR_2030) for at in ("2030-01-01T00:00:00Z", 1893456000, datetime(2030, 1, 1, tzinfo=UTC))),
    ],
)
def test_a_job_is_enqueued_for_later_by_the_clock_of_the_server(bike, options, later):
    before = bike.store.timeline.read_clock()
    jobid, soon = greet.options(**options, retries=2).enqueue("ann"), greet.enqueue("bob")
    told = bike.tell(jobid)
    begin, end = (before, bike.store.timeline.read_clock()) if later == HOUR else (0.0, 0.0)
    assert begin + later <= told["next_run"] <= end + later
    assert (told["options"], told["schedule"][:3]) == ({"retries": 2}, "AT:")
    # It is taken back by unset, and not by cancel.
    assert [result.word for each in (jobid, soon) for result in bike.cancel(each)] == ["idle", "cancelled"]
    bike.unset(jobid)
    assert bike.tell(jobid)["status"] is None


@pytest.mark.parametrize("after", [0, "0s", 1e-5, timedelta(microseconds=5)])
def test_no_time_at_all_is_at_once(bike, calls, after):
    assert greet.options(after=after).enqueue("ann") == greet.enqueue("ann")
    work_all(bike)
    assert calls == [("ann", 1)]


def test_a_job_is_set_with_any_schedule(bike, calls):
    jobid = greet.options(timeout="5s").set("ann", timedelta(hours=1), "ann", times=3)
    assert jobid == "greet:ann"
    told = bike.tell(jobid)
    assert (told["data"], told["options"]) == ({"name": "ann", "times": 3}, {"timeout": 5.0})
    bike.run(jobid)
    work_all(bike)
    assert calls == [("ann", 3)]
    with pytest.raises(BadSchedule, match="never"):
        greet.set("bob", "never", "bob")
    with pytest.raises(TypeError, match=r"key, after: only enqueue\(\) takes that"):
        greet.options(after=5, key="x").set("bob", "NOW", "bob")
    assert bike.tell("greet:bob")["status"] is None


def test_options_of_a_function_with_a_schedule_hold_for_the_jobs_that_it_sets(own):
    own, bike = own
    held = {"expires": "1h", "output": "1k", "tags": "money", "owner": "Ann", "start_within": "5m"}
    of_schedule = {"spread": "10m", "catchup": "all", "grace": "1h", "finish_by": "6:00"}

    @own.job("charge", cron="0 3 * * *", **{"on-lost": "stop"}, **held, **of_schedule, retries=2, data={"name": "all"})
    def charge(name: str) -> None:
        pass

    stored = {"on-lost": "stop", "expires": 3600, "output": 1024, "tags": "money", "owner": "Ann", "start-within": 300}
    assert bike.tell(charge.enqueue("ann"))["options"] == stored
    later = charge.options(key="x", after="1h", retries=1).enqueue("cat")
    assert bike.tell(later)["options"] == stored | {"retries": 1}
    assert bike.tell(charge.set("bob", "@daily", "bob"))["options"] == stored
    changed = charge.options(on_lost=None, expires="2h")
    left = {name: value for name, value in stored.items() if name != "on-lost"}
    assert bike.tell(changed.set("bob", "@daily", "bob"))["options"] == left | {"expires": 7200}
    # Each decorator has its own, and a function without a schedule has none that are stored.
    assert "options" not in bike.tell(own.job("plain", retries=2)(charge).enqueue("ann"))


def test_options_that_a_call_does_not_give_any_more_are_reset(client, prefix, own):
    own, bike = own
    of_yesterday = Jobs()
    before = of_yesterday.job("sync", every="1h", expires="5m", overlap="queue")(lambda a=0: None)
    with Redbike(of_yesterday, bike.prefix, client):
        before.set("daily", "@daily", 2)
        once = before.options(timeout="1m", catchup="all", tags="x", group_of="g").enqueue(3)
    assert bike.tell(once)["options"].keys() == {"expires", "overlap", "timeout", "catchup", "tags", "group-of"}
    sync = own.job("sync", every="1h", history=3)(lambda a=0: None)
    assert sync.enqueue(3) == once
    assert bike.tell(once)["options"] == {"history": 3, "group-of": "g"}
    assert bike.tell(sync.options(**{"on-lost": "stop"}).set("daily", "@daily", 2))["options"] == {
        "history": 3,
        "on-lost": "stop",
    }


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: greet.enqueue(), TypeError, r"greet\(name, times=1\): missing a required argument: 'name'"),
        (lambda: greet.set("k", "NOW"), TypeError, "missing a required argument: 'name'"),
        (lambda: mixed.enqueue("an id", 3), TypeError, r"mixed\(size\): too many positional arguments"),
        (lambda: tell.enqueue("a", jobid="x"), TypeError, "'jobid' is the id of its job, not an argument"),
        (lambda: keep.enqueue(), TypeError, "missing a required argument: 'data'"),
        (lambda: greet.enqueue({1, 2}), BadConfig, "cannot be written as JSON"),
        (lambda: greet.jobid(None), TypeError, "bad key None of a job of greet"),
        (lambda: greet.jobid("a\nb"), BadJobId, "bad job id"),
        (lambda: greet.options(key=["a"]), TypeError, r"bad key \['a'\]"),
        (lambda: greet.options(after="soon"), BadSchedule, "bad duration 'soon'"),
        (lambda: greet.options(after=timedelta(microseconds=-5)), BadSchedule, "bad duration '-5e-06'"),
        (lambda: greet.options(after=float("inf")), BadSchedule, "bad duration 'inf'"),
        (lambda: greet.options(after=False), BadSchedule, "bad duration 'False'"),
        (lambda: greet.options(after=0, at=5), TypeError, "after and at are given"),
        (lambda: greet.options(at="then"), BadSchedule, "then"),
        (lambda: greet.options(data=5), TypeError, "the data of a job of greet are its arguments"),
        (lambda: greet.options(retires=5), TypeError, "unexpected option 'retires'"),
        (lambda: greet.options(retries=-5), BadConfig, "-5"),
        (lambda: greet.options(bike="x"), TypeError, "bad bike 'x': a Redbike or an AsyncRedbike is needed"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_set(bike, call, error, said):
    with pytest.raises(error, match=said):
        call()
    assert list(bike.get_statuses()) == []


def test_no_argument_is_passed_to_another_parameter_than_a_call_passes_it_to(own):
    own, bike = own

    @own.job("unnamed")
    def unnamed(x: int = 1, /, y: int = 2) -> None:
        CALLS.append(("unnamed", x, y))

    @own.job("whole")
    def whole(x: int = 1, data: int | None = None) -> None:
        CALLS.append(("whole", x, data))

    for function, shown in ((unnamed, "unnamed(y=2)"), (whole, "whole(data=None)")):
        for args in ((5,), (5, 6)):
            with pytest.raises(TypeError, match=re.escape(f"{shown}: a job cannot pass anything to 'x'")):
                function.enqueue(*args)
            with pytest.raises(TypeError, match="to 'x'"):
                function.set("k", "NOW", *args)
    assert list(bike.get_statuses()) == []
    unnamed.enqueue(y=5)
    whole.enqueue(data=5)
    work_all(bike)
    assert sorted(CALLS) == [("unnamed", 1, 5), ("whole", 1, 5)]


def test_an_id_that_no_function_takes_is_refused_when_it_is_set(bike):
    said = "no queue for 'gret:ann': no function takes it: there are functions for 'greet', 'keep'"
    with pytest.raises(BadQueueName, match=said):
        bike.set("gret:ann", "NOW")
    changes = bike.sync([("gret:ann", "NOW"), ("greet:ann", "NOW")], group="g")
    assert [str(error)[: len(said)] for error in changes.bad.values()] == [said]
    assert bike.tell("gret:ann")["status"] is None


def test_a_function_takes_its_jobs_though_the_id_of_another_one_begins_its_own(own):
    own, bike = own
    ran = []

    @own.job("mail")
    def mail(user: str = "?") -> None:
        ran.append(("mail", user))

    @own.job("mail:welcome")
    def welcome(user: str) -> None:
        ran.append(("welcome", user))

    own.job("mail:0")(lambda: None)

    @own.job("only:colon")
    def colon(user: str) -> None:
        ran.append(("colon", user))

    welcome.enqueue("ann")
    welcome.options(key="a:b").enqueue("bob")
    welcome.set("k", "NOW", "cat")
    mail.set("welcom", "NOW", "dan")
    colon.enqueue("eve")
    for key, taker in (("welcome", "welcome"), ("welcome:k", "welcome"), (0, "0")):
        said = f"bad key {key!r} of a job of .*mail: 'mail:{key}' is a job of the function 'mail:{taker}'"
        with pytest.raises(BadJobId, match=said):
            mail.set(key, "NOW", "fay")
        with pytest.raises(BadJobId, match=said):
            mail.options(key=key)
    work_all(bike)
    assert sorted(ran) == [("colon", "eve"), ("mail", "dan"), *(("welcome", name) for name in ("ann", "bob", "cat"))]
    assert list(bike.failures()) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "missing a required argument: 'name'"),
        (["ann"], r"needs an object with its arguments, not \['ann'\]"),
        ({"name": "ann", "size": 3}, "unexpected keyword argument 'size'"),
    ],
)
def test_data_that_do_not_fit_fail_with_one_line(bike, data, said):
    bike.set("greet:ann", "NOW", data=data)
    work_all(bike)
    [failure] = bike.failures()
    assert failure["error"].startswith("bad data of the job 'greet:ann': greet(name, times=1)")
    assert failure["traceback"] == ""
    assert re.search(said, failure["error"])


def test_without_a_redbike_of_these_jobs_nothing_is_set(client, prefix):
    own = Jobs()
    function = own.job("greet")(lambda name: None)
    with pytest.raises(RedbikeError, match="no Redbike was made with the Jobs of"):
        function.enqueue("ann")
    with Redbike(own, prefix, client):
        assert function.enqueue("ann").startswith("greet:")
    with pytest.raises(RedbikeError, match="or it is closed"):
        function.enqueue("ann")


def test_of_two_redbikes_with_other_jobs_one_must_be_named(client, prefix, bike):
    with Redbike(jobs, prefix, client):
        greet.enqueue("ann")  # it has the same jobs
    assert len(work_all(bike)) == 1
    with Redbike(jobs, f"{prefix}-other", client) as other:
        with pytest.raises(RedbikeError, match=r"several Redbikes .* say which, by options\(bike="):
            greet.enqueue("ann")
        greet.options(bike=other).enqueue("ann")
        assert (work_all(bike), len(work_all(other))) == ([], 1)
        other.flush()


def test_within_a_job_the_redbike_that_runs_it_sets_others(client, prefix, own):
    (own, bike), seen = own, []

    @own.job("first")
    def first(number: int) -> None:
        second.enqueue(number + 1)

    @own.job("second")
    async def second(number: int) -> None:
        seen.append(number)
        if number < 3:
            assert (await second.enqueue(number + 1)).startswith("second:")
        elif len(seen) == 2:
            await second.enqueue(number)  # while it runs: it runs once more
            await second.enqueue(number)

    with Redbike(own, f"{prefix}-other", client) as other:
        first.options(bike=bike).enqueue(1)
        assert len(work_all(bike)) == 4
        assert (work_all(other), seen) == ([], [2, 3, 3])


def test_an_async_redbike_sets_jobs_in_its_loop(client, prefix, bike, calls):
    async def main():
        async with AsyncRedbike(jobs, prefix, client) as awaited:
            jobid = await greet.enqueue("ann")
            assert (await awaited.tell(jobid))["data"] == {"name": "ann"}
            handle = greet.set("cat", "never", "cat")
            with pytest.raises(BadSchedule, match="never"):
                await handle
            # Begun, though nobody awaits them: they are stored before it is closed.
            return [jobid, *(greet.enqueue(f"user {number}") for number in range(30))]

    jobids = asyncio.run(main())
    assert sorted(work_all(bike)) == sorted(jobids)
    assert len(calls) == 31


def test_of_two_calls_for_one_job_that_nobody_awaits_the_later_one_counts(client, prefix, bike):
    async def main():
        async with AsyncRedbike(jobs, prefix, client):
            for number in range(100):
                greet.set(number, "EVERY:1h", "ann")
                greet.options(key=number).enqueue("bob")
                greet.set(number, "EVERY:1h", "cat")

    asyncio.run(main())
    assert [bike.tell(f"greet:{number}")["data"] for number in range(100)] == [{"name": "cat"}] * 100


def test_the_end_of_the_loop_does_not_take_back_what_was_begun(client, prefix, bike):
    awaited = AsyncRedbike(jobs, prefix, client)

    async def main():
        return [greet.options(bike=awaited).enqueue(f"user {number}") for number in range(50)]

    jobids = asyncio.run(main())
    asyncio.run(awaited.close())
    assert sorted(work_all(bike)) == sorted(jobids)


def test_a_run_is_waited_for_in_another_loop_than_that_which_has_set_its_job(client, prefix, bike):
    awaited = AsyncRedbike(jobs, prefix, client)

    async def begin():
        return greet.options(bike=awaited).enqueue("ann")

    async def wait(handle):
        with pytest.raises(RedbikeError, match=f"'{handle}' is set in another event loop: await it there, or wait"):
            await handle
        waiting = asyncio.create_task(handle.wait(60))
        await asyncio.sleep(0)
        held.close()
        run = await waiting
        await awaited.close()
        return run

    with beside(bike.store, bike.work), ExitStack() as held:
        held.enter_context(awaited._opening)  # the job is not stored before somebody waits for it
        assert asyncio.run(wait(asyncio.run(begin()))).outcome == "ok"


def test_what_fails_after_the_end_of_the_loop_is_logged_with_its_job(client, prefix, caplog):
    awaited = AsyncRedbike(jobs, prefix, client)

    async def main():
        greet.options(bike=awaited).set("cat", "never", "cat")

    with awaited._opening:  # it cannot go on before the end of the loop
        asyncio.run(main())
    asyncio.run(awaited.close())
    assert "storing the job 'greet:cat' failed after the end of the event loop: BadSchedule: " in caplog.text


def test_an_async_redbike_is_known_before_its_first_call(client, prefix):
    own = Jobs()
    function = own.job("greet")(lambda name: None)

    async def main():
        bike = AsyncRedbike(own, prefix, client)
        try:
            jobid = await function.enqueue("ann")
            # In a thread, when it has connected.
            assert await asyncio.to_thread(function.enqueue, "ann") == jobid
            return jobid
        finally:
            await bike.close()

    assert asyncio.run(main()).startswith("greet:")
    bike = AsyncRedbike(own, prefix, client)
    with pytest.raises(RedbikeError, match="has an AsyncRedbike: set its jobs in a coroutine"):
        function.enqueue("ann")
    with pytest.raises(RedbikeError, match="sets jobs only in a coroutine"):
        function.options(bike=bike).enqueue("ann")


def test_of_two_async_redbikes_with_the_same_jobs_none_need_be_named(client, prefix, bike):
    one, two = (AsyncRedbike(jobs, prefix, client) for _ in range(2))

    async def main():
        jobids = [await greet.enqueue("ann")]
        await one.tell(jobids[0])
        jobids.append(await greet.enqueue("bob"))
        other = AsyncRedbike(jobs, f"{prefix}-other", client)
        with pytest.raises(RedbikeError, match=r"several Redbikes .* say which, by options\(bike="):
            greet.enqueue("cat")
        for each in (one, two, other):
            await each.close()
        return jobids

    assert sorted(asyncio.run(main())) == sorted(work_all(bike))


@pytest.mark.parametrize("data", [None, [1]])
def test_a_schedule_needs_the_data_of_its_function(data):
    with pytest.raises(TypeError, match=r"job 'greet' has a schedule, but not the data that it needs: .*name"):
        Jobs().job("greet", every="1h", data=data)(lambda name: None)
    Jobs().job("greet", every="1h", data={"name": "ann"})(lambda name: None)


VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)


@given(st.lists(VALUES, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), VALUES))
def test_a_worker_calls_a_function_as_the_program_has(args, kwargs):
    """Whatever Python itself would refuse is refused, and all else arrives as it was given."""

    def function(a, b=2, *, c=3, **rest):
        return a, b, c, rest

    signature = read_signature(function)
    try:
        expected = function(*args, **kwargs)
    except TypeError:
        with pytest.raises(TypeError):
            signature.bind(args, kwargs)
    else:
        data = signature.bind(args, kwargs)
        assert signature.check(data) == ""
        assert function(**signature.make_arguments("x", data)) == expected


def wrap_plainly(function):
    """What a decorator returns that does without `functools.wraps`."""

    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("data", [{"a": 1}, [1]])
def test_a_function_of_positions_alone_loses_no_data(own, calls, data):
    jobs, bike = own
    said = r"(*rest) gets arguments by their names, and names none: "
    with pytest.raises(TypeError, match=re.escape(f"{said}{data!r} would be lost")):
        jobs.job("other", every="1h", data=data)(lambda jobid, *rest: None)
    function = jobs.job("any", every="1h")(lambda *rest: calls.append(rest))
    with pytest.raises(TypeError, match="too many positional arguments"):
        function.enqueue(1)
    bike.set("any:lost", "NOW", data=data)
    assert bike.work_one() == "any:lost"
    assert (calls, said in bike.tell("any:lost")["failure"]["error"]) == ([], True)
    function.enqueue()
    bike.work_one()
    assert calls == [()]


@pytest.mark.parametrize(
    ("make", "has_id"),
    [
        (lambda note: lambda **fields: note(fields), False),
        (lambda note: lambda jobid, **fields: note(fields | {"jobid": jobid}), True),
        (lambda note: wrap_plainly(lambda a: note({"a": a})), False),
    ],
)
def test_a_function_of_any_keywords_gets_all_data_or_fails(own, calls, make, has_id):
    jobs, bike = own
    function = jobs.job("any", every="1h", data={"a": 1})(make(calls.append))
    bike.sync(jobs.schedules())
    bike.run("any")
    ids = ["any", function.enqueue(a=1), function.set("set", "NOW", a=1)]
    bike.set("any:lost", "NOW", data=[1])
    with pytest.raises(TypeError, match="too many positional arguments"):
        function.enqueue(1)
    with pytest.raises(TypeError, match="needs an object with its arguments"):
        jobs.job("other", every="1h", data=[1])(make(calls.append))
    work_all(bike)
    assert sorted(calls, key=repr) == sorted(({"a": 1} | ({"jobid": each} if has_id else {}) for each in ids), key=repr)
    [failure] = bike.failures()
    assert failure["jobid"] == "any:lost"
    assert failure["error"].endswith("needs an object with its arguments, not [1]")


def test_a_function_may_have_parameters_of_any_name(own, calls):
    @own[0].job("job")
    def job(*, key: int, schedule: int, self: int) -> None:
        calls.append((key, schedule, self))

    class Holder:
        kept = job

    job.set("a", "NOW", key=1, schedule=2, self=3)
    assert work_all(own[1]) == ["job:a"]
    assert calls == [(1, 2, 3)]
    assert Holder.kept is job


def test_what_a_coroutine_calls_is_not_who_sets_jobs_outside_of_it(own):
    own, bike = own
    later = own.job("later")(lambda: None)

    @own.job("first")
    async def first() -> None:
        await later.options(key="by the coroutine").enqueue()

    async def ask() -> object:
        return later.options(key="by the program").enqueue().wait()

    first.enqueue()
    assert bike.work_one()
    assert [bike.work_one(), bike.work_one()] == ["later:by the coroutine", None]
    bike.set("later:by the program", "NOW")
    bike.work_one()
    with beside(bike.store, bike.work):
        # In an event loop, too, it is this Redbike that sets the job, and so wait() waits.
        assert isinstance(asyncio.run(ask()), PastRun)
