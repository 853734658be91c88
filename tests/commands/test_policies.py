"""What becomes of a job whose command fails or takes long, with a real server."""

import logging

import pytest

from redbike.config.settings import Settings
from redbike.loop.policies import count_retries
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.worker.worker import Worker
from tests.commands.conftest import HOURLY, over_when_ready
from tests.loops import Acting, raising
from tests.verbs import set_job


def event(state):
    return state.status.partition(":")[0]


@pytest.mark.parametrize(
    ("line", "options", "error"),
    [
        ("sh -c 'echo later; exit 75'", "", "exit status 75: later"),
        ("sleep 300", "timeout = 0.1", "Overrun: not done after 0.1 s"),
    ],
)
def test_a_failure_is_kept_while_the_schedule_goes_on_and_a_one_off_is_dead(works, line, options, error):
    state = works(line, options)
    assert (event(state), state.failure["error"]) == ("TML", error)
    assert state.timeline > state.now
    state = works(line, options, "NOW")
    assert (event(state), state.failure["error"]) == ("DIE", error)


@pytest.mark.parametrize(
    ("options", "given", "retries", "policy"),
    [
        ("", {}, 0, "reschedule"),
        ("", {"on_error": "retry"}, 3, "retry"),
        ("on-error = stop", {"retries": 5}, 0, "stop"),
        ("on-error = reschedule", {"on_error": "stop", "retries": 5}, 0, "reschedule"),
        ("on-error = Retry", {}, 3, "retry"),
        ("retries = 2", {"on_error": "stop"}, 2, "stop"),
        ("retries = 0", {"on_error": "retry"}, 0, "retry"),
    ],
)
def test_the_section_of_a_command_counts_before_the_config_file(commands, options, given, retries, policy):
    handler = commands(f"[commands]\nx = true\n[x]\non-timeout = requeue\n{options}\n")
    run = Run("x:A", 1e9, "tag", 5.0, 10.0, 0, 0, HOURLY, "work-A")
    found = handler.settings_for(run, Settings(on_timeout="stop", **given))
    assert (count_retries(found), found.on_error, found.on_timeout) == (retries, policy, "requeue")


def test_a_run_is_tried_again_as_often_as_its_section_says_and_then_the_schedule_goes_on(works, tmp_path):
    state = works(f"sh -c 'echo >> {tmp_path}/count; exit 3'", "retries = 2", settings=Settings(backoff=0.0))
    assert (tmp_path / "count").read_text() == "\n" * 3
    assert (event(state), state.timeline % 3600, state.failure["error"]) == ("TML", 0, "exit status 3")


def test_a_failure_is_one_line_of_log_and_keeps_the_output(works, caplog):
    failure = works("sh -c 'echo one; echo two; exit 1'").failure
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.getMessage(), record.exc_info) == ("x:A: exit status 1: two", None)
    assert (failure["error"], failure["output"], failure["traceback"]) == ("exit status 1: two", "one\ntwo", "")
    with over_when_ready():
        late = works("sh -c 'echo half way; exec sleep 300'", "timeout = 60\non-timeout = stop")
    assert late.failure["output"] == "half way"
    assert works(r"sh -c 'printf \\377\\000\\033[31m; exit 1'").failure["output"] == r"\xff\x00\x1b[31m"


def test_a_command_without_a_timeout_has_none(works):
    # Longer than the default timeout of the settings, which is for other worker classes; and beside one that has one.
    more = "other = true\n[other]\ntimeout = 0.1"
    for state in works("sleep 0.5", settings=Settings(default_timeout=0.1)), works("sleep 0.5", more=more):
        assert (event(state), state.failure) == ("TML", None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(lambda _: Settings(on_error="reschedule"), "TML"), (lambda _: None, "DIE"), (lambda _: {}["mine"], "DIE")],
)
def test_any_worker_class_may_choose_the_settings_of_a_run(client, prefix, answer, expected):
    handler = Acting(raising(ValueError("no luck")))
    handler.settings_for = lambda run, settings: answer(settings)
    store = Store(client, prefix, handler.queue_for)
    set_job(store, "x:A", HOURLY, "now")
    Worker(store, handler, Settings()).work_one()
    assert event(store.questions.inspect(["x:A"])[0]) == expected
