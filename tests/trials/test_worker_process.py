"""A worker process with middleware of a house and rules for errors: jobs of both kinds, all in flight at once."""

import json
from collections import defaultdict

import pytest

from redbike import Jobs, Redbike
from tests.pages import write
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

PROGRAM = '''
import asyncio
import builtins
import json
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from redbike import Jobs, current_run

parent = ContextVar("parent", default="")
all_begun = threading.Barrier(6)


@contextmanager
def span(name):
    """Write what began within which span, how long it took, and what it raised."""
    before, began, error = parent.get(), time.monotonic(), ""
    token = parent.set(name)
    try:
        yield
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        parent.reset(token)
        with open("spans", "a") as file:
            print(json.dumps([name, before, time.monotonic() - began, error]), file=file)


def trace(run):
    return span(f"{run.jobid} {run.attempt}")


@asynccontextmanager
async def connect(run):
    await asyncio.sleep(0)
    with span(f"{run.jobid} {run.attempt} connect"):
        yield
        await asyncio.sleep(0)


jobs = Jobs(middleware=[trace, connect])
rules = {"retries": 3, "backoff": 0, "retry_on": OSError, "stop_on": LookupError}


def fail(errors):
    run = current_run()
    with span(f"{run.jobid} {run.attempt} query"):
        if len(errors) >= run.attempt:
            raise getattr(builtins, errors[run.attempt - 1])


@jobs.job("sync", **rules)
def sync(errors):
    if current_run().attempt == 1:
        all_begun.wait(60)
    fail(errors)


@jobs.job("async", **rules)
async def asynchronous(errors):
    if current_run().attempt == 1:
        await asyncio.to_thread(all_begun.wait, 60)
    fail(errors)
'''
# What the tries of a job raise, how they end, and the status then.
ERRORS = {
    "retried": (["ConnectionError", "FileNotFoundError"], ["retry", "retry", "ok"], "STP"),
    "stopped": (["OSError", "KeyError"], ["retry", "failed"], "DIE"),
    "other": (["ValueError"], ["failed"], "DIE"),
}
JOBS = {f"{kind}:{name}": given for kind in ("sync", "async") for name, given in ERRORS.items()}


def test_each_span_has_its_parent_its_duration_and_its_error_and_each_error_its_rule(shell):
    write(shell, "app.py", PROGRAM)
    known = Jobs()
    for name in ("sync", "async"):
        known.job(name)(lambda errors: None)
    bike = Redbike(known, redis_config=shell.environment["REDBIKE_URL"])
    for jobid, (errors, *_) in JOBS.items():
        bike.set(jobid, "NOW", data={"errors": errors})
    up = shell.start("up", "app:jobs", "--concurrency=6")
    number = sum(len(outcomes) for _, outcomes, _ in JOBS.values())
    wait_until(lambda: len(bike.runs()) == number, 60)
    up.terminate()
    assert up.wait(60) == 0
    runs = defaultdict(list)
    for run in bike.runs():
        runs[run.jobid].insert(0, run)
    assert {jobid: [run.outcome for run in each] for jobid, each in runs.items()} == {
        jobid: outcomes for jobid, (_, outcomes, _) in JOBS.items()
    }
    assert {job.jobid: job.status for job in bike.jobs()} == {jobid: status for jobid, (*_, status) in JOBS.items()}
    spans = {name: rest for name, *rest in map(json.loads, shell.log("spans").splitlines())}
    assert len(spans) == 3 * number
    for jobid, (errors, *_) in JOBS.items():
        for run, error in zip(runs[jobid], [*errors, ""], strict=False):
            own = f"{jobid} {run.attempt}"
            (_, outer, _), (_, middle, _), (_, inner, _) = found = [
                spans[name] for name in (own, f"{own} connect", f"{own} query")
            ]
            assert [parent for parent, *_ in found] == ["", own, f"{own} connect"]
            assert [raised for *_, raised in found] == [error] * 3
            assert 0 <= inner <= middle <= outer <= run.took + 0.001
