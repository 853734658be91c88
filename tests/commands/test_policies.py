"""What becomes of a job whose command fails or takes long, with a real server."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redbike.commands.worker import Commands
from redbike.config import Settings
from redbike.running.policies import count_retries
from redbike.state.inspected import JobState
from redbike.state.run import Run
from redbike.state.store import Store
from redbike.working.worker import Worker
from redbike.working.worker_class import RoundRobin
from tests.verbs import set_job

HOURLY = "EVERY:3600@0.0"

Works = Callable[..., JobState]


def a_run(schedule: str = HOURLY, failures: int = 0) -> Run:
    return Run("x:A", 1e9, "tag", 5.0, 10.0, failures, 0, schedule, "work-A")


@pytest.fixture
def works(client, prefix: str, tmp_path: Path) -> Works:
    """Sets x:A with a schedule, works it once by the command `line` with `options`, and says how it stands then."""

    def working(line: str, options: str = "", schedule: str = HOURLY, settings: Settings | None = None) -> JobState:
        (tmp_path / "commands.ini").write_text(f"[commands]\nx = {line}\n[x]\n{options}\n")
        handler = Commands("A", str(tmp_path / "commands.ini"))
        store = Store(client, prefix, handler.queue_for)
        set_job(store, "x:A", schedule, "now", once=schedule == "NOW")
        assert Worker(store, handler, settings or Settings()).work_one() == "x:A"
        return store.questions.inspect(["x:A"])[0]

    return working


def event(state: JobState) -> str:
    return (state.status or "").partition(":")[0]


# Failures


@pytest.mark.parametrize("line", ["false", "sh -c 'kill -9 $$'", "/no/such/program", "sh -c 'exit 75'"])
def test_a_failure_is_kept_while_the_schedule_goes_on(works: Works, line: str) -> None:
    state = works(line)
    assert event(state) == "TML"
    assert state.timeline is not None
    assert state.timeline > state.now
    assert state.failure is not None


def test_a_command_that_runs_once_and_fails_is_dead(works: Works) -> None:
    assert event(works("false", schedule="NOW")) == "DIE"
    assert event(works("sleep 300", "timeout = 0.1", schedule="NOW")) == "DIE"


def test_a_command_that_takes_too_long_is_ended_while_the_schedule_goes_on(works: Works) -> None:
    assert event(works("sleep 300", "timeout = 0.1")) == "TML"


@pytest.mark.parametrize(
    ("options", "given", "retries", "policy"),
    [
        ("", {}, 0, "reschedule"),
        ("", {"on_error": "stop"}, 0, "stop"),
        ("", {"on_error": "retry"}, 3, "retry"),
        ("", {"retries": 5}, 5, "reschedule"),
        ("on-error = stop", {}, 0, "stop"),
        ("on-error = stop", {"retries": 5}, 0, "stop"),
        ("on-error = reschedule", {"on_error": "stop"}, 0, "reschedule"),
        ("on-error = retry", {"retries": 5}, 5, "retry"),
        ("on-error = Retry", {}, 3, "retry"),
        ("retries = 2", {}, 2, "reschedule"),
        ("retries = 2", {"on_error": "stop"}, 2, "stop"),
        ("retries = 0", {"on_error": "retry"}, 0, "retry"),
    ],
)
def test_the_section_of_a_command_counts_before_the_config_file(
    tmp_path: Path, options: str, given: dict[str, Any], retries: int, policy: str
) -> None:
    (tmp_path / "commands.ini").write_text(f"[commands]\nx = true\n[x]\n{options}\n")
    handler = Commands("A", str(tmp_path / "commands.ini"))
    found = handler.settings_for(a_run(), Settings(**given))
    assert (count_retries(found), found.on_error) == (retries, policy)


def test_the_section_says_what_a_timeout_does(tmp_path: Path) -> None:
    (tmp_path / "commands.ini").write_text("[commands]\nx = true\n[x]\non-timeout = requeue\n")
    handler = Commands("A", str(tmp_path / "commands.ini"))
    assert handler.settings_for(a_run(), Settings(on_timeout="stop")).on_timeout == "requeue"


def test_a_run_is_tried_again_as_often_as_its_section_says_and_then_the_schedule_goes_on(
    client, prefix: str, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    (tmp_path / "commands.ini").write_text(f"[commands]\nx = sh -c 'echo >> {count}; exit 3'\n[x]\nretries = 2\n")
    handler = Commands("A", str(tmp_path / "commands.ini"))
    store = Store(client, prefix, handler.queue_for)
    set_job(store, "x:A", HOURLY, "now")
    worker = Worker(store, handler, Settings(backoff=0.0))
    while worker.work_one():
        pass
    assert count.read_text() == "\n" * 3
    state = store.questions.inspect(["x:A"])[0]
    assert event(state) == "TML"
    assert state.timeline is not None
    assert state.timeline % 3600 == 0
    assert "exit status 3" in state.failure["error"]


def test_exit_status_75_is_a_failure_without_continue(works: Works) -> None:
    state = works("sh -c 'echo later; exit 75'", schedule="NOW")
    assert event(state) == "DIE"
    assert state.failure["error"] == "exit status 75: later"


def test_exit_status_75_backs_off_with_continue(works: Works) -> None:
    state = works("sh -c 'exit 75'", "backoff = 500", schedule="CONTINUE")
    assert event(state) == "TML"
    assert state.failure is None
    assert state.timeline == pytest.approx(state.now + 500, abs=60)


def test_a_failure_is_one_line_of_log_and_keeps_the_output(works: Works, caplog: pytest.LogCaptureFixture) -> None:
    state = works("sh -c 'echo one; echo two; exit 1'")
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == "x:A: exit status 1: two"
    assert record.exc_info is None
    assert state.failure["error"] == "exit status 1: two"
    assert state.failure["output"] == "one\ntwo"
    assert state.failure["traceback"] == ""


def test_the_output_of_a_command_whose_time_is_over_is_kept(works: Works) -> None:
    state = works("sh -c 'echo half way; exec sleep 300'", "timeout = 0.5\non-timeout = stop")
    assert state.failure["output"] == "half way"


def test_output_that_is_no_text_is_kept_readable(works: Works) -> None:
    state = works(r"sh -c 'printf \\377\\000\\033[31m; exit 1'")
    assert state.failure["output"] == r"\xff\x00\x1b[31m"


# Timeouts


def test_a_command_without_a_timeout_has_none(works: Works, tmp_path: Path) -> None:
    # Longer than the default timeout of the settings, which is for other worker classes.
    state = works("sleep 0.5", settings=Settings(default_timeout=0.1))
    assert (event(state), state.failure) == ("TML", None)


def test_a_queue_may_mix_commands_with_and_without_a_timeout(client, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "commands.ini").write_text("[commands]\nshort = sleep 300\nlong = sleep 0.5\n[short]\ntimeout = 0.1\n")
    handler = Commands("A", str(tmp_path / "commands.ini"))
    store = Store(client, prefix, handler.queue_for)
    worker = Worker(store, handler, Settings())
    for jobid in ("short:A", "long:A"):
        set_job(store, jobid, "NOW", "now", once=True)
        worker.work_one()
    short, long = store.questions.inspect(["short:A", "long:A"])
    assert (event(short), event(long)) == ("DIE", "STP")


# The seam


class Moody(RoundRobin):
    """Raises in `work`, and has settings of its own."""

    def __init__(self, answer: Callable[[Settings], object]) -> None:
        super().__init__("A")
        self.answer = answer

    def settings_for(self, run: Run, settings: Settings) -> object:
        return self.answer(settings)

    def work(self, jobid: str) -> None:
        raise ValueError("no luck")


def broken(_: Settings) -> object:
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(lambda _: Settings(on_error="reschedule"), "TML"), (lambda _: None, "DIE"), (broken, "DIE")],
)
def test_any_worker_class_may_choose_the_settings_of_a_run(
    client, prefix: str, answer: Callable[[Settings], object], expected: str
) -> None:
    handler = Moody(answer)
    store = Store(client, prefix, handler.queue_for)
    set_job(store, "x:A", HOURLY, "now")
    Worker(store, handler, Settings()).work_one()
    assert event(store.questions.inspect(["x:A"])[0]) == expected
