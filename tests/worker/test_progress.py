"""``current_run().progress()``: how far a run is, which its heartbeats tell."""

import asyncio
import json
import math

import pytest

from redbike import BadConfig, Redbike, UnsetJob, current_run
from redbike.errors import Unreachable
from redbike.store.inspection.fsck import fsck
from redbike.store.records import Progress
from redbike.store.run import NextState
from tests.loops import Doing, raising
from tests.states import JOB
from tests.verbs import set_job, take_one
from tests.waiting import wait_until

YEARS = "EVERY:10000d@0"


@pytest.fixture
def bike(client, prefix, monkeypatch):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.02)
    return Redbike(Doing(), prefix, client)


@pytest.fixture
def run(bike):
    """A run in flight, which the test works by hand."""
    set_job(bike.store, JOB, YEARS, "now")
    run = take_one(bike.store, [("work-A", 1000.0)], "tag")
    run.saver = object()
    return run


def work(bike, act):
    bike.worker.acts[JOB] = act
    set_job(bike.store, JOB, YEARS, "now")
    assert bike.work_one() == JOB


def progress(bike):
    return bike.tell(JOB).get("progress")


def tell(bike, *runs):
    """Send the signs of life of these runs; return what has become of each."""
    return bike.store.runs.heartbeat(runs)


def kept(bike):
    return bike.client.hgetall(bike.store.keys.progress)


@pytest.mark.parametrize("error", [None, ValueError("no luck"), UnsetJob()])
def test_heartbeats_tell_it_until_the_run_ends(bike, error):
    def act():
        assert progress(bike) is None
        for share, text in ((0, ""), (0.25, "page 1"), (1, "")):
            current_run().progress(share, text)
            wait_until(lambda share=share, text=text: progress(bike) == {"share": share, "text": text})
        if error:
            raise error

    work(bike, act)
    assert progress(bike) is None
    assert kept(bike) == {}


def test_a_coroutine_and_a_thread_tell_it_too(bike):
    async def act():
        current_run().progress(0.5, "here")
        await asyncio.to_thread(wait_until, lambda: progress(bike) == {"share": 0.5, "text": "here"})
        await asyncio.to_thread(current_run().progress, 0.75)
        await asyncio.to_thread(wait_until, lambda: progress(bike) == {"share": 0.75, "text": ""})

    work(bike, act)
    assert bike.tell(JOB)["runs"][0]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        *(((share,), BadConfig, r"^bad share ") for share in (-0.1, 1.1, math.nan, math.inf, True, None, [1])),
        *((given, TypeError, r"^progress\(") for given in (("0.5",), (0.5, None), (0.5, b"x"))),
    ],
)
def test_what_cannot_be_told_is_refused_and_the_last_one_stays(run, given, error, said):
    run.progress(0.5)
    with pytest.raises(error, match=said):
        run.progress(*given)
    assert run.reported == Progress(0.5)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
        ("two\nlines\t", "two lines"),
        ("\x1b[2J\udcff", "\\x1b[2J?"),
        ("é €", "é €"),
    ],
    ids=["long", "too long", "lines", "terminal", "unicode"],
)
def test_a_text_is_one_line_that_is_safe_to_show(bike, run, text, shown):
    run.progress(0.5, text)
    tell(bike, run)
    assert progress(bike) == {"share": 0.5, "text": shown}


def test_a_heartbeat_sends_only_what_is_new(bike, run, monkeypatch):
    sent, run_all = [], bike.store.scripts.run_all

    def note(calls):
        calls = list(calls)
        sent.append([call.verb for call in calls])
        return run_all(calls)

    monkeypatch.setattr(bike.store.scripts, "run_all", note)
    for share in (None, 0.5, None, 0.5):
        if share:
            run.progress(share)
        tell(bike, run)
    assert sent == [["heartbeat"], ["heartbeat", "progress"]] * 2


def test_what_could_not_be_told_is_told_again(bike, run, monkeypatch):
    run.progress(0.5)
    with monkeypatch.context() as patched:
        patched.setattr(bike.store.scripts, "run_all", raising(Unreachable("away")))
        with pytest.raises(Unreachable):
            tell(bike, run)
    assert bike.store.keys.progress in bike.store.runs.pack_end([(run, NextState("next", 4e9))]).keys
    tell(bike, run)
    assert progress(bike) == {"share": 0.5, "text": ""}


def test_the_end_of_a_run_that_has_told_nothing_is_as_before(bike, run):
    run.progress(0.5)  # it ends before the next heartbeat
    call = bike.store.runs.pack_end([(run, NextState("next", 4e9))])
    assert (bike.store.keys.progress in call.keys, "drops" in call.given) == (False, False)


def test_a_run_that_was_lost_tells_nothing_of_the_next_one(bike, run):
    run.progress(0.5)
    assert tell(bike, run) == ["ok"]
    bike.dispatch_due(run.start + 100)
    again = take_one(bike.store, [("work-A", 1000.0)], "other")
    assert progress(bike) is None, "it is of the run before"
    run.progress(0.75)
    assert tell(bike, run, again) == ["stale", "ok"]
    assert progress(bike) is None


def test_a_job_that_was_unset_meanwhile_keeps_none(bike, run):
    run.progress(0.5)
    tell(bike, run)
    bike.unset(JOB)
    run.progress(0.75)
    assert tell(bike, run) == ["ok"]
    assert kept(bike) == {}


def test_nobody_tells_of_a_run_that_nobody_works(bike, run):
    run.saver = None
    with pytest.raises(LookupError, match="only while it is worked"):
        run.progress(0.5)


def test_after_the_end_of_the_run_it_does_nothing(bike):
    runs = []
    work(bike, lambda: runs.append(current_run()))
    runs[0].progress(0.5)
    assert kept(bike) == {}


def test_what_is_left_of_a_job_that_is_gone_is_found_and_removed(bike):
    bike.client.hset(bike.store.keys.progress, "gone:A", "tag 0.500000 ")
    assert list(fsck(bike.store)) == ["'gone:A': it has no schedule, but a saved state or progress"]
    [(line, is_well)] = bike.repair()
    assert (is_well, "its progress removed" in line) == (True, True)
    assert kept(bike) == {}


@pytest.mark.parametrize("record", ["", "tag", "tag x y", "tag 7.000000x ", "other 0.500000 x"])
def test_a_damaged_record_is_none(record):
    assert Progress.parse(record, "tag") is None


def test_show_and_tell_have_it(shell, bike, run):
    shell.environment["REDBIKE_PREFIX"] = bike.prefix
    run.progress(0.256, "page 7")
    tell(bike, run)
    assert "26% page 7\n" in shell.run("show", JOB).stdout
    assert json.loads(shell.run("tell", JOB).stdout)["progress"] == {"share": 0.256, "text": "page 7"}
