"""Jobs that raise what nothing expects, or end their event loop: their run fails, and the worker goes on."""

import logging
import signal

import pytest

from redbike import Redbike, RoundRobin, StopWork, UnsetJob
from redbike.config.settings import Settings
from redbike.text.printable import MAX_MESSAGE, describe, format_traceback
from redbike.worker.worker import Worker
from tests.loops import Acting, raising
from tests.verbs import run_job, set_job
from tests.waiting import wait_until


class Nameless(Exception):
    def __str__(self):
        raise ValueError("no text")


class Textless(Exception):
    def __str__(self):
        return 17


class Fatal(Exception):
    def __str__(self):
        raise SystemExit(3)


class Closed(Exception):
    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}")


class Base(BaseException):
    pass


class Silent(StopWork):
    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("half \ud800 a character"), r"ValueError: half \ud800 a character"),
        (ValueError("a byte \udcff"), r"ValueError: a byte \udcff"),
        (Nameless(), "Nameless: (its message cannot be shown: ValueError)"),
        (Textless(), "Textless: (its message cannot be shown: TypeError)"),
        (Fatal(), "Fatal: (its message cannot be shown: SystemExit)"),
        (Closed(), "it raised what cannot be looked at"),
        (Base("out"), "Base: out"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ExceptionGroup("several", [Nameless(), ValueError("\ud800")]), "ExceptionGroup: several (2 sub-exceptions)"),
    ],
    ids=lambda value: value if type(value) is str else type(value).__name__,
)
def test_whatever_a_job_raises_is_kept_and_its_worker_goes_on(store, monkeypatch, error, said):
    # What pytest keeps of the log must be UTF-8; the next test reads the log.
    monkeypatch.setattr(logging.getLogger("redbike.worker"), "disabled", True)
    acts = iter([raising(error), lambda _: None])
    worker = Worker(store, Acting(lambda jobid: next(acts)(jobid)), Settings())
    set_job(store, "job:A", "CONTINUE", "now")
    # As in a worker: without a handler of ours, Ctrl-C is for the caller.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert worker.work_one() == "job:A"
    finally:
        signal.signal(signal.SIGINT, before)
    state = store.questions.inspect(["job:A"])[0]
    assert state.status.startswith("DIE")
    assert said in state.failure["error"]
    run_job(store, "job:A")
    assert worker.work_one() == "job:A"


@pytest.fixture
def raises(shell, server_url):
    """Starts a worker whose jobs raise what an expression gives; sets jobs, and waits until they have failed."""

    def raises(expression, jobids, helpers=""):
        work = f"class Worker(RoundRobin):\n    def work(self, jobid):\n        raise {expression}\n"
        (shell.folder / "jobs.py").write_text(f"from redbike import RoundRobin\n{helpers}\n{work}")
        bike = Redbike(RoundRobin("A"), redis_config=server_url)
        worker = shell.start("work", "jobs:Worker('A')")
        for jobid in jobids:
            bike.set(jobid, "NOW")
        wait_until(lambda: len(list(bike.failures())) == len(jobids), timeout=30)
        return worker, list(bike.failures())

    return raises


def test_what_cannot_be_shown_is_logged_somehow(shell, raises):
    nameless = "class Nameless(Exception):\n    def __str__(self):\n        raise ValueError('no text')\n"
    expression = "Nameless if jobid == 'nameless:A' else ValueError('half \\ud800')"
    worker, _ = raises(expression, ["nameless:A", "half:A"], nameless)
    failures = shell.run("failures")
    assert failures.returncode == 0
    assert r"half \\ud800" in failures.stdout
    worker.terminate()
    assert worker.wait(timeout=60) == 0
    assert "ERROR nameless:A: Nameless: (its message cannot be shown: ValueError)" in shell.log()
    assert r"ERROR half:A: ValueError: half \ud800" in shell.log()
    assert "Logging error" not in shell.log()


def test_a_message_of_fifty_megabytes_is_cut(shell, raises):
    _, [failure] = raises("ValueError('much ' * 10_000_000 + 'end')", ["job:A"])
    assert len(str(failure)) < 10_000
    assert "in work" in failure["traceback"]
    assert len(shell.log()) < 20_000
    assert "in work" in shell.log()


def test_ctrl_c_is_for_the_caller_of_work_one(store):
    set_job(store, "job:A", "NOW", "now", once=True)
    with pytest.raises(KeyboardInterrupt):
        Worker(store, Acting(raising(KeyboardInterrupt())), Settings()).work_one()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StopWork(""), "stopped by its worker"),
        (StopWork("no more"), "stopped by its worker: no more"),
        (Silent(), "stopped by its worker: (its message cannot be shown: ValueError)"),
        (UnsetJob(""), "unset by its worker"),
        (UnsetJob("no more"), "unset by its worker: no more"),
    ],
)
def test_the_reason_to_stop_a_job_is_logged_if_there_is_one(store, caplog, error, said):
    caplog.set_level(logging.INFO)
    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Acting(raising(error)), Settings()).work_one()
    assert store.questions.inspect(["job:A"])[0].schedule in ("STOP", None)
    assert f"job:A: {said}" in caplog.messages


def test_descriptions_are_bounded_lines():
    assert describe(ValueError("one\n two")) == "ValueError: one two"
    assert describe(ValueError()) == "ValueError"
    assert len(describe(ValueError("x" * 1_000_000))) < MAX_MESSAGE + 20
    assert describe(ValueError("x" * 1_000_000)).endswith("…")
    with pytest.raises(ValueError, match="x") as caught:
        raise ValueError("x" * 1_000_000)
    trace = format_traceback(caught.value)
    assert len(trace) < MAX_MESSAGE + 1000
    assert trace.endswith("…\n")


ASYNCHRONOUS = """
import asyncio, sys
from redbike import RoundRobin

async def leave():
    sys.exit(3)

class Worker(RoundRobin):
    async def work(self, jobid):
        name = jobid.partition(":")[0]
        if name == "exit":
            sys.exit(3)
        if name == "interrupt":
            raise KeyboardInterrupt
        if name == "generator":
            raise GeneratorExit
        if name == "cancel":
            raise asyncio.CancelledError
        if name == "stop":
            asyncio.get_running_loop().stop()
        if name == "callback":
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await asyncio.sleep(1000)
        if name == "task":
            await asyncio.create_task(leave())
        if name == "long":
            await asyncio.sleep(1000)

    def timeout(self, queue_name):
        return 2000.0
"""


@pytest.mark.parametrize("name", ["exit", "interrupt", "generator", "cancel", "stop", "callback", "task"])
def test_a_coroutine_that_ends_its_loop_fails_and_the_worker_goes_on(shell, server_url, name):
    (shell.folder / "jobs.py").write_text(ASYNCHRONOUS)
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    worker = shell.start("work", "jobs:Worker('A')")

    def run(jobid):
        bike.set(jobid, "NOW")
        wait_until(lambda: (bike.tell(jobid)["status"] or "")[:3] not in ("TML", "ENQ", "WRK"))
        return bike.tell(jobid)["status"][:3]

    assert [run("good:1:A"), run(f"{name}:A"), run("good:2:A"), run(f"{name}:again:A"), run("good:3:A")] == [
        *("STP", "DIE", "STP", "DIE", "STP")
    ]
    assert worker.poll() is None
    worker.terminate()
    assert worker.wait(timeout=60) == 0


def test_the_others_in_a_loop_that_is_ended_fail_too(shell, server_url):
    (shell.folder / "jobs.py").write_text(ASYNCHRONOUS)
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    worker = shell.start("work", "jobs:Worker('A')", "--concurrency=2")
    bike.set("long:A", "NOW")
    wait_until(lambda: bike.is_working("long:A"))
    bike.set("stop:A", "NOW")
    wait_until(lambda: [bike.tell(jobid)["status"][:3] for jobid in ("long:A", "stop:A")] == ["DIE", "DIE"])
    assert {failure["error"] for failure in bike.failures()} == {
        "RedbikeError: the event loop of its worker was stopped by a job"
    }
    bike.set("good:A", "NOW")
    wait_until(lambda: (bike.tell("good:A")["status"] or "").startswith("STP"))
    worker.terminate()
    assert worker.wait(timeout=60) == 0
