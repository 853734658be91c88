"""Spans of OpenTelemetry: one for each run, with how it ends, linked to the span in which its job was set."""

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from unittest.mock import Mock

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from redbike import (
    Again,
    AsyncRedbike,
    BadConfig,
    Jobs,
    Overrun,
    Redbike,
    RoundRobin,
    StopWork,
    Tracing,
    UnsetJob,
    current_run,
)
from tests.loops import beside, raising
from tests.waiting import wait_until

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Traced:
    """A provider of its own, for each test; `spans` are those that have ended."""

    def __init__(self):
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")
        self.jobs = Jobs(middleware=[Tracing(self.provider)])

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def find(self, name):
        [span] = [span for span in self.spans if span.name == name]
        return span

    def check_end(self, status, outcome):
        """There is one span, which has ended so; return it."""
        [span] = self.spans
        assert (span.status.status_code, span.attributes["messaging.redbike.outcome"]) == (status, outcome)
        return span


@pytest.fixture
def traced():
    return Traced()


@pytest.fixture
def make(client, prefix):
    return lambda worker: Redbike(worker, prefix, client)


@asynccontextmanager
async def wrap(run):
    await asyncio.sleep(0)
    yield


def add(jobs, kind, act, **options):
    """Add a function of a kind, which is the job ``job``."""

    async def act_in_loop():
        await asyncio.sleep(0)
        act()

    jobs.job("job", **options)(act if kind == "sync" else act_in_loop)


@pytest.mark.parametrize(("kind", "others"), [("sync", []), ("sync", [wrap]), ("async", [wrap])])
def test_a_run_is_a_span_of_a_consumer_with_its_link_and_its_children(traced, make, kind, others):
    jobs = Jobs(middleware=[Tracing(traced.provider), *others])

    def act():
        with traced.tracer.start_as_current_span("inside"):
            time.sleep(0.01)

    add(jobs, kind, act)
    bike = make(jobs)
    bike.set("job:7", "NOW", traceparent=PARENT)
    assert bike.work_one() == "job:7"
    span, child = traced.find("process work-job"), traced.find("inside")
    assert (span.kind, span.parent, span.status.status_code) == (SpanKind.CONSUMER, None, StatusCode.UNSET)
    [due] = [run.due for run in bike.runs("job:7")]
    assert dict(span.attributes) == {
        "messaging.system": "redbike",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "work-job",
        "messaging.message.id": f"job:7@{due:.6f}".rstrip("0").rstrip("."),
        "messaging.client.id": span.attributes["messaging.client.id"],
        "messaging.redbike.job.id": "job:7",
        "messaging.redbike.message.delivery_attempt": 1,
        "messaging.redbike.outcome": "ok",
    }
    [link] = span.links
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == tuple(PARENT.split("-")[1:3])
    assert (link.context.is_remote, link.context.trace_flags) == (True, 1)
    assert child.parent.span_id == span.context.span_id
    assert span.end_time - span.start_time > 10_000_000
    assert not trace.get_current_span().get_span_context().is_valid
    # Without the option there is no link. A worker class may have it, too.
    worker = type("Worker", (RoundRobin,), {"middleware": [Tracing(traced.provider)], "work": lambda self, jobid: None})
    bike = make(worker("A"))
    bike.set("job:A", "NOW", retries=1)
    bike.work_one()
    assert not traced.find("process work-A").links


@pytest.mark.parametrize(("kind", "others"), [("sync", []), ("sync", [wrap]), ("async", [wrap])])
@pytest.mark.parametrize(
    ("error", "options", "outcome", "is_error"),
    [
        (OSError("full"), {}, "failed", True),
        (OSError("full"), {"retries": 1}, "retry", True),
        (Overrun("gave up"), {}, "overrun", True),
        (SystemExit(3), {}, "failed", True),
        (Again(reason="not yet"), {}, "retry", False),
        (StopWork("enough"), {}, "ok", False),
        (UnsetJob(), {}, "ok", False),
    ],
)
def test_a_span_ends_as_its_run_does(traced, make, kind, others, error, options, outcome, is_error):
    jobs = Jobs(middleware=[Tracing(traced.provider), *others])
    add(jobs, kind, raising(error))
    bike = make(jobs)
    bike.set("job", "NOW", **options)
    bike.work_one()
    assert {run.outcome for run in bike.runs("job")} <= {outcome}
    [span] = traced.spans
    assert span.attributes["messaging.redbike.outcome"] == outcome
    assert (span.status.status_code == StatusCode.ERROR) == is_error == ("error.type" in span.attributes)
    assert [event.name for event in span.events] == ["exception"] * is_error
    if is_error:
        assert span.attributes["error.type"].endswith(type(error).__name__)
        assert span.status.description == f"{type(error).__name__}: {error}"


async def sleep() -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_run_that_is_too_late_is_an_error_and_one_that_is_cancelled_is_none(
    traced, make, monkeypatch, kind, is_cancelled
):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)

    begun = []

    def act() -> None:
        begun.append(True)
        wait_until(lambda: current_run().cancelled)
        raise OSError("cut off")

    async def await_it() -> None:
        begun.append(True)
        await sleep()

    waits = act if is_cancelled else lambda: time.sleep(1.2)
    traced.jobs.job("job", timeout=60 if is_cancelled else 1)(waits if kind == "sync" else await_it)
    bike = make(traced.jobs)
    bike.set("job", "NOW")
    with beside(bike.store, bike.work):
        wait_until(lambda: begun or traced.spans)
        if is_cancelled:
            bike.cancel("job")
        wait_until(lambda: traced.spans)
    if is_cancelled:
        traced.check_end(StatusCode.UNSET, "cancelled")
        return
    span = traced.check_end(StatusCode.ERROR, "overrun")
    assert span.status.description.startswith("Overrun: ")
    assert span.attributes["error.type"] == "redbike.errors.Overrun"


@pytest.mark.parametrize("concurrency", [None, 1])
def test_a_program_that_ends_has_its_jobs_handed_back_which_is_no_error(traced, make, client, prefix, concurrency):
    kept, begun = [], asyncio.Event()

    @traced.jobs.job("job", timeout=60)
    async def job() -> None:
        begun.set()
        await sleep()

    async def main() -> None:
        bike = AsyncRedbike(traced.jobs, prefix, client)
        await bike.set("job", "NOW")
        kept.append(asyncio.create_task(bike.work(concurrency)))
        await begun.wait()  # to be taken is not enough: what begins when all are cancelled runs to its end
        # It does not wait for the task: asyncio.run() cancels all.

    asyncio.run(main())
    traced.check_end(StatusCode.UNSET, "retry")
    bike = make(traced.jobs)
    [run] = bike.runs("job")
    assert (run.outcome, run.error) == ("retry", "its worker was stopped, and has handed it back")
    assert bike.tell("job").get("failures") is None


async def cancel_own_task():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def await_cancelled_child():
    child = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(child.cancel)
    await child


@pytest.mark.parametrize(
    ("act", "retries", "others", "is_in_program"),
    [
        (cancel_own_task, 0, [], False),
        (cancel_own_task, 1, [wrap], False),
        (await_cancelled_child, 0, [wrap], False),
        (cancel_own_task, 0, [], True),
        (await_cancelled_child, 0, [], True),
    ],
)
def test_a_coroutine_that_cancels_itself_has_failed(traced, make, client, prefix, act, retries, others, is_in_program):
    jobs = Jobs(middleware=[Tracing(traced.provider), *others])
    jobs.job("job", timeout=60, retries=retries)(act)
    bike = make(jobs)
    bike.set("job", "NOW")

    async def main():
        async with AsyncRedbike(jobs, prefix, client) as program:
            await program.work_one()

    asyncio.run(main()) if is_in_program else bike.work_one()
    [run] = bike.runs("job")
    assert run.outcome == ("retry" if retries else "failed")
    span = traced.check_end(StatusCode.ERROR, run.outcome)
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    assert span.status.description == run.error


# The side that sets jobs


def test_typed_calls_give_the_current_span(traced, make, client, prefix):
    @traced.jobs.job("remind")
    def remind(name: str) -> None:
        pass

    bike = make(traced.jobs)
    with traced.tracer.start_as_current_span("request") as span:
        own = Tracing.traceparent()
        jobid = remind.enqueue("anna")
        every = remind.set("bob", "@daily", "bob")
        given = remind.options(traceparent=PARENT, key="carl").enqueue("carl")
        without = remind.options(traceparent=None, key="dora").enqueue("dora")
    assert own == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"

    def read(jobid):
        return bike.tell(jobid).get("options", {}).get("traceparent")

    assert [read(each) for each in (jobid, every, given, without)] == [own, own, PARENT, None]

    async def enqueue():
        async with AsyncRedbike(traced.jobs, prefix, client):
            with traced.tracer.start_as_current_span("request"):
                return await remind.enqueue("erna"), Tracing.traceparent()

    awaited, current = asyncio.run(enqueue())
    assert read(awaited) == current
    assert remind.enqueue("anna") == jobid
    assert read(jobid) is None, "a later call does not belong to that request"
    assert Jobs(middleware=[Mock()])._bikes.find_traceparent is None, "it has every attribute"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_a_run_enqueues_is_linked_to_it(traced, make, kind):
    @traced.jobs.job("next")
    def follow() -> None:
        pass

    add(traced.jobs, kind, lambda: follow.options(key="one").enqueue())
    bike = make(traced.jobs)
    bike.set("job", "NOW")
    assert bike.work_one() == "job"
    wait_until(lambda: bike.tell("next:one")["status"])
    assert bike.work_one() == "next:one"
    first, second = (traced.find(f"process work-{name}") for name in ("job", "next"))
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert second.context.trace_id != first.context.trace_id


# What others pay


@pytest.mark.parametrize("call", [Tracing, Tracing.traceparent])
def test_without_the_package_one_line_says_what_to_install(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(BadConfig, match=r"^Tracing needs a package \(.*\): pip install 'redbike\[opentelemetry\]'$"):
        call()
