"""A line for each run that has ended, for which nothing waits; and which tracebacks are logged in full."""

import json
import logging
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from redbike.cli.messages import _JsonFormatter
from redbike.config.settings import Settings
from redbike.store.enums import Outcome
from redbike.store.namespace import make_tag
from redbike.store.next_state import Answer, NextState
from redbike.store.store import Store
from redbike.worker import log_lines
from redbike.worker.log_lines import INTERVAL, MOST_REMEMBERED, RunLog, Tracebacks
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, join, start
from tests.verbs import Telling, set_job, take_one
from tests.waiting import wait_until

BIKE = {"worker": Telling, "on_error": "reschedule"}


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [each for each in caplog.records if hasattr(each, "fields")]


def end(bike, number=1, jobid="job:A", outcome=Outcome.OK):
    """Ended runs of a job, and the answers to that."""
    ended = []
    for _ in range(number):
        bike.set(jobid, "NOW")
        run = take_one(bike.store, [("work-A", 10.0)], make_tag())
        bike.store.runs.end(run, NextState("stop"))
        ended.append((run, NextState("stop", outcome=outcome)))
    return ended, [Answer("ok", "stopped")] * number


def write(ended, answers):
    """Write the lines of these runs."""
    log = RunLog()
    log.add(ended, answers)
    log.stop()


def test_each_outcome_has_a_line(bike, lines):
    for jobid in ("good:A", "bad:A", "again:A"):
        bike.set(jobid, "NOW")
        assert bike.work_one() == jobid
    wait_until(lambda: len(lines()) == 3)
    good, bad, again = (record.fields for record in lines())
    assert [each["outcome"] for each in (good, bad, again)] == ["ok", "failed", "retry"]
    assert [each["attempt"] for each in (good, bad, again)] == [1, 1, 1]
    told = bike.tell("good:A")["runs"][0]
    assert good["job"] == "good:A"
    assert good["due"] == told["due"]
    assert good["took"] == pytest.approx(told["took"], abs=1e-5)
    assert good["late"] == pytest.approx(told["started"] - told["due"], abs=2e-3)
    assert lines()[0].getMessage().startswith("good:A: ok after ")
    assert lines()[0].levelname == "INFO"


def test_a_run_that_was_late_and_not_the_first_try(bike, lines):
    ended, answers = end(bike)
    run = ended[0][0]
    run.due = run.start - 90.0
    run.tries = 2
    run.over = run.received + 0.25
    more, _ = end(bike, 1, "other:A")
    write([*ended, *more], [*answers, Answer("stale")])
    [record] = lines()
    assert record.getMessage() == "job:A: ok after 250 ms, 1 min 30 s late, try 3", "what was not accepted has none"
    found = json.loads(_JsonFormatter("work-1").format(record))
    names = "attempt due event job key late level message outcome process queue runs time took worker"
    assert " ".join(sorted(found)) == names
    assert (found["job"], found["outcome"], found["attempt"], found["runs"]) == ("job:A", "ok", 3, 1)


def test_a_job_that_goes_round_has_one_line_for_all_its_runs(bike, lines):
    log = RunLog()
    for ended, _ in (end(bike, 3), end(bike, 2, outcome=Outcome.FAILED), end(bike, 1, "other:A")):
        log._waiting += ended
    log._write()
    first, second = lines()
    assert re.fullmatch(r"job:A: failed after \d+ ms \(5 runs: 3 ok, 2 failed\)", first.getMessage())
    assert (first.fields["runs"], second.fields["runs"]) == (5, 1)
    assert second.getMessage().startswith("other:A: ok after ")


def test_many_jobs_have_a_line_together(bike, lines, monkeypatch):
    monkeypatch.setattr(log_lines, "MOST", 3)
    log = RunLog()
    monkeypatch.setattr(log, "_thread", threading.current_thread())  # none is started
    ended, answers = end(bike, 1)
    for number in range(1200):
        log.add([(replace(ended[0][0], jobid=f"{number}:A"), ended[0][1])], answers)
    log._write()
    *each, last = [record.getMessage() for record in lines()]
    assert [line.partition(":")[0] for line in each] == ["0", "1", "2"]
    assert last == "1,197 more runs have ended"
    log._write()
    assert len(lines()) == 4


def test_a_reader_that_hangs_holds_up_nobody(bike, monkeypatch, caplog):
    monkeypatch.setattr(log_lines, "MOST", 5)
    nobody, ended = RunLog(), end(bike)
    nobody.add(*ended)
    assert not nobody._waiting, "nobody reads it"
    hangs, free = threading.Event(), threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record):
            hangs.set()
            free.wait(20)

    handler = Hanging()
    logger = logging.getLogger("redbike.worker")
    caplog.set_level(logging.INFO, logger.name)
    logger.addHandler(handler)
    try:
        log = RunLog()
        log.add(*ended)
        assert hangs.wait(20)
        began = time.monotonic()
        for _ in range(99):
            log.add(*ended)
        assert time.monotonic() - began < 15
        assert (len(log._waiting), log._more) == (5, 94)
        free.set()
        log.stop()
    finally:
        free.set()
        logger.removeHandler(handler)


def test_one_that_ends_while_its_thread_is_started(bike, monkeypatch, caplog):
    begun, ended, log = threading.Event(), end(bike), RunLog()
    caplog.set_level(logging.INFO, "redbike.worker")

    class Slow(threading.Thread):
        def start(self):
            begun.set()
            threading.Event().wait(0.2)
            super().start()

    with ThreadPoolExecutor() as threads:
        stopped = threads.submit(lambda: begun.wait(20) and log.stop())
        with monkeypatch.context() as patch:
            patch.setattr(threading, "Thread", Slow)
            log.add(*ended)
        stopped.result(20)
    assert not log._thread.is_alive()


def test_a_program_that_ends_writes_what_is_left(server_url, tmp_path):
    program = f"""
import logging
from redbike import Jobs, Redbike
jobs = Jobs()
jobs.job("job")(lambda: None)
logging.basicConfig(level=logging.INFO)
bike = Redbike(jobs, redis_config={server_url!r})
for jobid in ("job:first", "job:last"):
    bike.set(jobid, "NOW")
    bike.work_one()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, cwd=tmp_path, timeout=30, capture_output=True, text=True)
    lines = [line.partition(" after ")[0] for line in done.stderr.splitlines() if line.startswith("INFO:")]
    assert lines == ["INFO:redbike.worker:job:first: ok", "INFO:redbike.worker:job:last: ok"]


# Tracebacks


def raised(text, deeper=False, kind=ValueError):
    """An exception that was raised here, or in one call more."""
    try:
        raise raised(text, kind=kind) if deeper else kind(text)
    except kind as error:
        return error


def test_the_same_one_is_logged_once_a_minute():
    now = [0.0]
    tracebacks = Tracebacks(lambda: now[0])
    first = raised("one")
    assert tracebacks.keep_if_new(first, "work-A") is first
    now[0] = INTERVAL - 1
    assert tracebacks.keep_if_new(raised("another text"), "work-A") is None
    now[0] = INTERVAL
    later = raised("later")
    assert tracebacks.keep_if_new(later, "work-A") is later


def test_one_of_another_place_kind_or_queue_is_logged():
    tracebacks = Tracebacks(lambda: 0.0)
    errors = [raised("one"), raised("one", deeper=True), raised("one", kind=TypeError)]
    assert [tracebacks.keep_if_new(error, "work-A") for error in errors] == errors
    assert tracebacks.keep_if_new(errors[0], "work-B") is errors[0]
    assert tracebacks.keep_if_new(ValueError("never raised"), "work-A") is not None


def test_no_more_are_remembered_than_there_is_room_for():
    tracebacks = Tracebacks(lambda: 0.0)
    error = raised("one")
    for number in range(MOST_REMEMBERED + 1):
        assert tracebacks.keep_if_new(error, f"work-{number}") is error
    assert tracebacks.keep_if_new(error, f"work-{MOST_REMEMBERED}") is None
    assert tracebacks.keep_if_new(error, "work-1") is None
    # The oldest had to go.
    assert tracebacks.keep_if_new(error, "work-0") is error


def test_of_many_threads_one_logs():
    tracebacks, found, barrier = Tracebacks(), [], threading.Barrier(8)
    error = raised("one")

    def work():
        barrier.wait()
        found.append(tracebacks.keep_if_new(error, "work-A"))

    join(*[start(work) for _ in range(8)])
    assert sorted(each is error for each in found) == [False] * 7 + [True]


def test_a_worker_that_idles_between_failures_remembers_what_it_logged(client, prefix, caplog):
    # With so many queues it looks into them in several requests.
    handler = Acting(lambda jobid: 1 / 0, ":".join(f"q{number}" for number in range(99)) + ":A")
    store = Store(client, prefix, handler.queue_for)
    with beside(store, Worker(store, handler, Settings()).work):
        for number in range(5):
            set_job(store, f"{number}:A", "NOW", "now", once=True)
            wait_until(lambda n=number: (store.questions.inspect([f"{n}:A"])[0].status or "").startswith("DIE"))
    failures = [record for record in caplog.records if "division by zero" in record.getMessage()]
    assert len(failures) == 5
    assert [bool(record.exc_info) for record in failures] == [True, False, False, False, False]
