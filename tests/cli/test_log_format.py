"""The log: text for people, or an object a line; and a failed run that is tried again is a warning that says when."""

import json
import logging
import time

import pytest

from redbike.cli.messages import _JsonFormatter
from tests.commandline import make_module
from tests.waiting import wait_until

WORKER = make_module('print("prints", jobid, flush=True)', r'raise ValueError("it broke\n\x1b[31m\ud800")')


@pytest.fixture
def jobs(shell):
    (shell.folder / "jobs.py").write_text(WORKER)
    (shell.folder / ".redbike.conf").write_text(
        "[redbike]\nworker: jobs:Worker('A')\nlog-format: JSON\non-error: retry\nretries: 1\nbackoff: 0.25\n"
    )
    return shell


def read(log):
    """The objects of a log, and its other lines."""
    lines = log.splitlines()
    return [json.loads(line) for line in lines if line[:1] == "{"], [line for line in lines if line[:1] != "{"]


@pytest.mark.acceptance
def test_up_logs_objects_which_name_the_process(jobs):
    began = time.time()
    jobs.run("set", "bad:A", "NOW")
    up = jobs.start("up", "--processes=2")
    # One worker may have ended both runs before the other one has started.
    wait_until(lambda: all(f'"{word}"' in jobs.log() for word in ("error", "work-1", "work-2")))
    up.terminate()
    assert up.wait(60) == 0
    entries, others = read(jobs.log())
    assert others == ["prints bad:A", "prints bad:A", "redbike: the dispatcher and 2 workers have ended"]
    first, second = [entry for entry in entries if "it broke" in entry["message"]]
    assert first["message"] == "bad:A: ValueError: it broke \x1b[31m\\ud800; it is tried again in 0.25 s"
    assert second["message"] == "bad:A: ValueError: it broke \x1b[31m\\ud800"
    assert (first["level"], second["level"]) == ("warning", "error")
    assert first["traceback"].startswith("Traceback (most recent call last):\n")
    # Each process has it once a minute.
    assert ("traceback" in second) == (first["process"] != second["process"])
    assert {first["process"], second["process"]} <= {"work-1", "work-2"}
    assert {entry.get("process") for entry in entries} >= {"work-1", "work-2", "dispatch"}
    for entry in entries:
        assert [*entry][0:2] == ["time", "level"]
        assert began <= entry["time"] <= time.time()


def test_text_is_the_default_a_retry_is_a_warning_and_no_traceback_controls_a_terminal(jobs):
    jobs.start("work", log="json")  # a process alone has no name
    jobs.run("set", "bad:A", "NOW")
    wait_until(lambda: '"warning"' in jobs.log("json"))
    assert all("process" not in entry for entry in read(jobs.log("json"))[0])
    jobs.close()
    config = (jobs.folder / ".redbike.conf").read_text()
    (jobs.folder / ".redbike.conf").write_text(config.replace("log-format: JSON\n", ""))
    jobs.run("set", "worse:A", "NOW")
    jobs.start("work")
    wait_until(lambda: jobs.log().count("ValueError: it broke") >= 2)
    assert "Z WARNING worse:A: ValueError: it broke \\x1b[31m\\ud800; it is tried again in 0.25 s\n" in jobs.log()
    assert "Traceback (most recent call last):\n" in jobs.log()
    assert "\x1b" not in jobs.log()


@pytest.mark.parametrize("message", ["\ud800", "a\nb\u2028c", '"\\', "ü 🚲"])
def test_any_message_is_one_line_that_can_be_read_back(message):
    record = logging.LogRecord("redis.client", logging.WARNING, "", 1, "%s", (message,), None)
    line = _JsonFormatter("").format(record)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == message
    assert json.loads(line)["logger"] == "redis.client"
