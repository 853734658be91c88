"""Spans of OpenTelemetry: one for each run, with how it ends, linked to the span in which its job was set."""

import asyncio
import subprocess
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
    BadSchedule,
    Jobs,
    Overrun,
    Redbike,
    RoundRobin,
    StopWork,
    Tracing,
    UnsetJob,
    current_run,
)
from tests.commandline import ROOT
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
    bikes = []

    def make(worker, **settings):
        bikes.append(Redbike(worker, prefix, client, **settings))
        return bikes[-1]

    yield make
    for bike in bikes:
        bike.close()


@asynccontextmanager
async def wrap(run):
    await asyncio.sleep(0)
    yield


BEGUN = []


async def sleep() -> None:
    BEGUN.append(current_run().jobid)
    await asyncio.sleep(60)


def add(jobs, kind, act, **options):
    """Add a function of a kind, which is the job ``job``."""

    async def act_in_loop():
        await asyncio.sleep(0)
        act()

    jobs.job("job", **options)(act if kind == "sync" else act_in_loop)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("others", [[], [wrap]])
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


def test_a_job_without_the_option_has_no_link(traced, make):
    add(traced.jobs, "sync", lambda: None)
    bike = make(traced.jobs)
    for options in ({}, {"retries": 1}):
        bike.set("job", "NOW", **options)
        bike.work_one()
    assert [len(span.links) for span in traced.spans] == [0, 0]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("others", [[], [wrap]])
@pytest.mark.parametrize(
    ("error", "options", "outcome", "is_error"),
    [
        (OSError("full"), {}, "failed", True),
        (OSError("full"), {"retries": 1}, "retry", True),
        (BadSchedule("bad"), {}, "failed", True),
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


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_run_that_is_too_late_is_an_error(traced, make, kind):
    traced.jobs.job("sync", timeout=0.1)(lambda: time.sleep(0.2))
    traced.jobs.job("async", timeout=0.1)(sleep)
    bike = make(traced.jobs)
    bike.set(kind, "NOW")
    bike.work_one()
    span = traced.check_end(StatusCode.ERROR, "overrun")
    assert span.status.description.startswith("Overrun: ")
    assert span.attributes["error.type"] == "redbike.errors.Overrun"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_run_that_is_cancelled_is_no_error(traced, make, monkeypatch, kind):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)

    @traced.jobs.job("sync", timeout=60)
    def act() -> None:
        wait_until(lambda: current_run().cancelled)
        raise OSError("cut off")

    traced.jobs.job("async", timeout=60)(sleep)
    bike = make(traced.jobs)
    bike.set(kind, "NOW")
    with beside(bike.store, bike.work):
        wait_until(lambda: bike.is_working(kind))
        bike.cancel(kind)
        wait_until(lambda: traced.spans)
    traced.check_end(StatusCode.UNSET, "cancelled")


def test_a_run_that_is_handed_back_is_no_error(traced, client, prefix):
    traced.jobs.job("job", timeout=60)(sleep)

    async def main() -> None:
        bike = AsyncRedbike(traced.jobs, prefix, client)
        await bike.set("job", "NOW")
        kept.append(asyncio.create_task(bike.work()))
        while not BEGUN:
            await asyncio.sleep(0.01)

    kept = []
    BEGUN.clear()
    asyncio.run(main())
    traced.check_end(StatusCode.UNSET, "retry")


async def cancel_own_task():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def raise_cancelled():
    raise asyncio.CancelledError


async def await_cancelled_child():
    child = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(child.cancel)
    await child


@pytest.mark.parametrize("act", [cancel_own_task, raise_cancelled, await_cancelled_child])
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("others", [[], [wrap]])
def test_a_coroutine_that_cancels_itself_has_failed(traced, make, act, retries, others):
    jobs = Jobs(middleware=[Tracing(traced.provider), *others])
    jobs.job("job", timeout=60, retries=retries)(act)
    bike = make(jobs)
    bike.set("job", "NOW")
    bike.work_one()
    check_failed(traced, bike.runs("job"), retries)


@pytest.mark.parametrize("act", [cancel_own_task, raise_cancelled, await_cancelled_child])
def test_so_has_one_in_the_loop_of_a_program(traced, client, prefix, act):
    traced.jobs.job("job", timeout=60)(act)

    async def main():
        async with AsyncRedbike(traced.jobs, prefix, client) as bike:
            await bike.set("job", "NOW")
            work = asyncio.create_task(bike.work())
            while not (runs := await bike.runs("job")):
                await asyncio.sleep(0.01)
            work.cancel()
            return runs

    check_failed(traced, asyncio.run(main()), 0)


def check_failed(traced, runs, retries):
    [run] = runs
    assert run.outcome == ("retry" if retries else "failed")
    span = traced.check_end(StatusCode.ERROR, run.outcome)
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    assert span.status.description == run.error


# The side that sets jobs


def read_traceparent(bike, jobid):
    return bike.tell(jobid).get("options", {}).get("traceparent")


def test_typed_calls_give_the_current_span(traced, make):
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
    found = [read_traceparent(bike, each) for each in (jobid, every, given, without)]
    assert found == [own, own, PARENT, None]
    assert remind.enqueue("anna") == jobid
    assert read_traceparent(bike, jobid) is None, "a later call does not belong to that request"


def test_another_middleware_gives_no_span(traced, make):
    jobs = Jobs(middleware=[Mock()])  # it has every attribute
    function = jobs.job("remind")(lambda: None)
    bike = make(jobs)
    with traced.tracer.start_as_current_span("request"):
        assert "options" not in bike.tell(function.options(key="anna").enqueue())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_a_run_enqueues_is_linked_to_it(traced, make, kind):
    @traced.jobs.job("next")
    def follow() -> None:
        pass

    add(traced.jobs, kind, lambda: follow.options(key="one").enqueue())
    bike = make(traced.jobs)
    bike.set("job", "NOW")
    assert [bike.work_one(), wait_until(lambda: bike.tell("next:one")), bike.work_one()] == ["job", None, "next:one"]
    first, second = (traced.find(f"process work-{name}") for name in ("job", "next"))
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert second.context.trace_id != first.context.trace_id


def test_a_coroutine_of_a_program_gives_its_span(traced, client, prefix):
    @traced.jobs.job("remind")
    async def remind(name: str) -> None:
        pass

    async def main():
        async with AsyncRedbike(traced.jobs, prefix, client) as bike:
            with traced.tracer.start_as_current_span("request"):
                jobid = await remind.enqueue("anna")
                return Tracing.traceparent(), (await bike.tell(jobid))["options"]["traceparent"]

    own, stored = asyncio.run(main())
    assert stored == own


def count_calls(client):
    """How often any command was called, but for this one."""
    return sum(each["calls"] for name, each in client.info("commandstats").items() if name != "cmdstat_info")


def test_without_a_span_a_call_asks_the_server_no_more_than_without_tracing(traced, make):
    plain = Jobs()
    asked = []
    for jobs in (plain, traced.jobs):
        function = jobs.job("remind")(lambda name: None)
        bike = make(jobs)
        bike.set("remind:bob", "NOW")
        before = count_calls(bike.client)
        function.options(bike=bike, key="anna").enqueue("anna")
        asked.append(count_calls(bike.client) - before)
        assert not bike.client.exists(bike.store.keys.options)
        bike.flush()
    assert asked[0] == asked[1] > 0


# What others pay


LOADS = """
import builtins, redbike
load, importers = builtins.__import__, set()

def note(name, globals=None, *more):
    if name.startswith("opentelemetry"):
        importers.add(globals["__name__"])
    return load(name, globals, *more)

builtins.__import__ = note
jobs = redbike.Jobs()
jobs.job("a")(lambda: None)
redbike.Redbike, redbike.Tracing
print([name for name in importers if name.startswith("redbike")])
redbike.Tracing()
print([name for name in importers if name.startswith("redbike")])
"""


def test_nobody_else_loads_opentelemetry():
    # Redis-py does, where it is installed.
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n['redbike.worker.tracing']\n"


@pytest.mark.parametrize("call", [Tracing, Tracing.traceparent])
def test_without_the_package_one_line_says_what_to_install(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(BadConfig) as refused:
        call()
    assert str(refused.value).startswith("Tracing needs a package (")
    assert str(refused.value).endswith("): pip install 'redbike[opentelemetry]'")


def test_a_worker_without_the_package_ends_with_that_line(shell):
    lines = ("import sys", "sys.modules['opentelemetry'] = None", "from redbike import Jobs, Tracing")
    (shell.folder / "jobs.py").write_text("\n".join((*lines, "jobs = Jobs(middleware=[Tracing()])")))
    done = shell.run("work", "jobs:jobs")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "pip install 'redbike[opentelemetry]'" in line


def test_a_worker_class_may_have_it_too(traced, make):
    worker = type("Worker", (RoundRobin,), {"middleware": [Tracing(traced.provider)], "work": lambda self, jobid: None})
    bike = make(worker("A"))
    bike.set("job:A", "NOW", traceparent=PARENT)
    bike.work_one()
    assert [(span.name, len(span.links)) for span in traced.spans] == [("process work-A", 1)]
