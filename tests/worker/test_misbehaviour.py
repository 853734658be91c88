"""Jobs that raise what nothing expects, or end their event loop: their run fails, and the worker goes on."""

import asyncio
import logging
import signal
import sys

import pytest

from redbike import Jobs, Redbike, RoundRobin, StopWork, UnsetJob
from redbike.config.settings import Settings
from redbike.text.printable import MAX_MESSAGE, describe
from redbike.worker.worker import Worker
from tests.commandline import make_module
from tests.loops import Acting, beside, raising
from tests.verbs import run_job, set_job
from tests.waiting import wait_until


class Nameless(Exception):
    def __str__(self):
        raise ValueError("no text")


class Textless(Exception):
    def __str__(self):
        return 17


class Closed(Exception):
    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}")


class Silent(StopWork):
    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a byte \udcff"), r"ValueError: a byte \udcff"),
        (Nameless(), "Nameless: (its message cannot be shown: ValueError)"),
        (Textless(), "Textless: (its message cannot be shown: TypeError)"),
        (Closed(), "it raised an exception that cannot be shown"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
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


def test_a_function_that_raises_the_error_of_a_cancelled_task_fails_also_while_its_worker_stops(client, prefix):
    def act(jobid):
        bike.stop()
        raise asyncio.CancelledError

    with Redbike(Acting(act), prefix, client) as bike:
        bike.set("job:A", "NOW")
        bike.work()
        assert bike.tell("job:A")["status"].startswith("DIE")


def test_ctrl_c_is_for_the_caller_of_work_one(store):
    set_job(store, "job:A", "NOW", "now", once=True)
    with pytest.raises(KeyboardInterrupt):
        Worker(store, Acting(raising(KeyboardInterrupt())), Settings()).work_one()


RAISING = make_module(
    "if jobid == 'nameless:A': raise Nameless",
    "raise ValueError('half \\ud800' if jobid == 'half:A' else 'much ' * 10_000_000 + 'end')",
    head="class Nameless(Exception):\n    def __str__(self): raise ValueError('no text')\n",
)


def test_what_cannot_be_shown_or_has_fifty_megabytes_is_kept_and_logged_somehow(shell, server_url):
    (shell.folder / "jobs.py").write_text(RAISING)
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    worker = shell.start("work", "jobs:Worker('A')")
    for name in ("nameless", "half", "much"):
        bike.set(f"{name}:A", "NOW")
    wait_until(lambda: len(list(bike.failures())) == 3, timeout=30)
    failures = {each["jobid"]: each for each in bike.failures()}
    assert len(str(failures["much:A"])) < 10_000
    assert "in work" in failures["much:A"]["traceback"]
    assert r"half \\ud800" in shell.run("failures").stdout
    worker.terminate()
    assert worker.wait(timeout=60) == 0
    assert len(shell.log()) < 20_000
    assert "in work" in shell.log()
    assert "ERROR nameless:A: Nameless: (its message cannot be shown: ValueError)" in shell.log()
    assert r"ERROR half:A: ValueError: half \ud800" in shell.log()
    assert "Logging error" not in shell.log()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StopWork(""), "stopped by its worker"),
        (Silent(), "stopped by its worker: (its message cannot be shown: ValueError)"),
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
    described = describe(ValueError("x" * 1_000_000))
    assert (len(described) < MAX_MESSAGE + 20, described[-1]) == (True, "…")


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


def test_a_coroutine_that_ends_its_loop_is_lost_and_the_others_in_it_run_again(shell, server_url):
    (shell.folder / "jobs.py").write_text(ASYNCHRONOUS)
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    worker = shell.start("work", "jobs:Worker('A')", "--concurrency=2")

    def run(jobid):
        bike.set(jobid, "NOW")
        wait_until(lambda: (bike.tell(jobid)["status"] or "")[:3] not in ("", "TML", "ENQ", "WRK"))
        return bike.tell(jobid)["status"][:3]

    for name in ("exit", "interrupt", "cancel", "stop", "callback", "task"):
        assert [run(f"good:{name}:A"), run(f"{name}:A"), run(f"{name}:again:A")] == ["STP", "DIE", "DIE"]
    bike.set("long:A", "NOW")
    wait_until(lambda: bike.is_working("long:A"))
    for name in ("callback", "task"):
        assert run(f"{name}:last:A") == "DIE", "after three losses"
        wait_until(lambda: bike.is_working("long:A"))
    errors = {failure["jobid"]: failure["error"] for failure in bike.failures()}
    assert [errors["exit:A"], errors["interrupt:A"]] == ["SystemExit: 3", "KeyboardInterrupt"], "their loop goes on"
    assert errors["stop:A"] == "the event loop was stopped by a job, 3 times in a row"
    assert errors["task:A"] == "the event loop was ended by task:A: SystemExit: 3, 3 times in a row"
    assert {(past.outcome, past.error) for past in bike.runs("long:A")} == {
        ("lost", f"the event loop was ended by {name}:last:A: SystemExit: 3") for name in ("callback", "task")
    }
    assert "long:A" not in errors, "no loss counts for it"
    bike.cancel("long:A")
    assert run("good:A") == "STP"
    worker.terminate()
    assert worker.wait(timeout=60) == 0


def test_where_the_event_loop_ends_on_lost_decides_for_the_others(client, prefix, caplog):
    began, jobs = set(), Jobs(concurrency=9)

    @jobs.job("stays")
    @jobs.job("again")
    @jobs.job("poison")
    async def work(jobid: str) -> None:
        if jobid == "poison":
            asyncio.get_running_loop().call_soon(sys.exit, 4)
        if jobid not in began:
            began.add(jobid)
            await asyncio.sleep(1000)

    with Redbike(jobs, prefix, client, max_losses=1) as bike, beside(bike.store, bike.work):
        bike.set("stays", "NOW", on_lost="stop")
        bike.set("again", "NOW")
        wait_until(lambda: began == {"stays", "again"})
        bike.set("poison", "NOW")
        wait_until(lambda: len(list(bike.failures())) == 2 and len(bike.runs("again")) == 2)
        errors = {failure["jobid"]: failure["error"] for failure in bike.failures()}
        assert [past.outcome for past in bike.runs("again")] == ["ok", "lost"]
    how = "the event loop was ended by poison: SystemExit: 4"
    assert errors == {"stays": how, "poison": f"{how}, 1 times in a row"}
    assert f"{how}, while these jobs ran: again, poison, stays" in caplog.messages
