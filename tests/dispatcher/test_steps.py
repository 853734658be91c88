"""The lines of log that a job leaves at each step: set, enqueued, started, ended. They cost nothing if they are off."""

import json
import logging

import pytest

from redbike.cli.messages import _JsonFormatter
from redbike.loop import steps
from redbike.store.namespace import STEP
from tests.verbs import Quiet, set_job, take_one
from tests.waiting import wait_until

BIKE = {"worker": Quiet}


@pytest.fixture
def read(caplog):
    """The objects of the lines at this level or higher, as ``log-format: json`` writes them, and only these of jobs."""

    def start(level):
        caplog.set_level(level)
        return lambda: [
            entry for record in caplog.records if "event" in (entry := json.loads(_JsonFormatter("").format(record)))
        ]

    return start


def test_each_step_has_a_line_with_job_queue_worker_and_key(bike, read):
    lines = read(logging.DEBUG)
    due = bike.store.timeline.read_clock() + 1000.25
    bike.set("a job:A", f"AT:{due:.6f}")
    assert bike.dispatch_due(due + 1) == 1
    bike.work_one()
    wait_until(lambda: len(lines()) == 4)
    told = lines()
    assert [each["event"] for each in told] == ["set", "enqueued", "started", "ended"]
    assert [each["level"] for each in told] == ["debug"] * 3 + ["info"]
    assert {(each["job"], each["queue"]) for each in told} == {("a job:A", "work-A")}
    assert {each["key"] for each in told} == {told[0]["key"]} == {f"a%20job:A@{due:.6f}".rstrip("0")}
    worker = bike.runs()[0].worker
    assert [each["worker"] for each in told] == ["", "", worker, worker]


def test_a_set_that_is_due_at_once_or_refused(bike, read):
    lines = read(logging.DEBUG)
    bike.set("now:A", "NOW")
    assert not bike.set("bad:A", "AFTER:bad:A")
    assert [(each["event"], each["job"], each["key"]) for each in lines()] == [("set", "now:A", "")]


def test_only_what_moved_is_told_and_in_the_same_round_trip(store, read, pass_at):
    now = store.timeline.read_clock()
    for number in range(2 * STEP + 10):
        set_job(store.at(now), f"{number}:A", "EVERY:10@0.0", now + 1 + number / 1000)
    set_job(store.at(now), "busy:A", "EVERY:10@0.0", now - 1)
    take_one(store.at(now), [("work-A", 500.0)], "tag")
    set_job(store.at(now), "busy:A", "EVERY:10@0.0", now + 2)
    set_job(store.at(now), "on:A", "CONTINUE", now + 0.5)
    lines = read(logging.DEBUG)
    for _ in range(2):
        pass_at(now + 100, grace=99.2)
    moved = [each["job"] for each in lines() if each["event"] == "enqueued"]
    # A job that goes on and on is never late.
    expected = [*(f"{number}:A" for number in range(2 * STEP + 10)), "on:A"]
    assert moved == expected, "each once, in order, and not the one that runs"


def test_what_is_off_makes_no_text_and_no_further_call(store, read, dispatcher, monkeypatch):
    monkeypatch.delattr(steps, "_log")  # a line would raise
    read(logging.INFO)
    now = store.timeline.read_clock()
    for number in range(STEP):
        set_job(store.at(now), f"{number}:A", "EVERY:10@0.0", now + 1)
    store.client.config_resetstat()
    assert dispatcher.dispatch_due(now + 100) == STEP
    assert store.client.info("commandstats")["cmdstat_zmscore"]["calls"] == 1, "one script for all of them"
