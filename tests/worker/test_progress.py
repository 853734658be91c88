"""``current_run().progress()``: how far a run is, which its heartbeats tell."""

import asyncio
import json
import math

import pytest

from redbike import BadConfig, Redbike, UnsetJob, current_run
from redbike.errors import Unreachable
from redbike.store.next_state import NextState
from redbike.store.records import Progress
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


def progress(bike):
    return bike.tell(JOB).get("progress")


def tell(bike, *runs):
    """Send the signs of life of these runs; return what has become of each."""
    return bike.store.runs.heartbeat(runs)


def kept(bike):
    return bike.client.hgetall(bike.store.keys.progress)


@pytest.mark.parametrize("error", [None, ValueError("no luck"), UnsetJob()])
def test_heartbeats_tell_it_until_the_run_ends(bike, error):
    runs = []

    async def act():
        runs.append(current_run())
        assert progress(bike) is None
        # In a coroutine, and in a thread of it.
        for share, text in ((0, ""), (0.25, "page 1")):
            current_run().progress(share, text)
            await asyncio.to_thread(wait_for, share, text)
        await asyncio.to_thread(current_run().progress, 1)
        await asyncio.to_thread(wait_for, 1, "")
        if error:
            raise error

    def wait_for(share, text):
        wait_until(lambda: progress(bike) == {"share": share, "text": text})

    bike.worker.acts[JOB] = act
    set_job(bike.store, JOB, YEARS, "now")
    assert bike.work_one() == JOB
    assert progress(bike) is None
    runs[0].progress(0.5)
    assert kept(bike) == {}


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        *(((share,), BadConfig, r"^bad share ") for share in (-0.1, 1.1, math.nan, True, None)),
        *((given, TypeError, r"^progress\(") for given in (("0.5",), (0.5, b"x"))),
    ],
)
def test_what_cannot_be_told_is_refused_and_the_last_one_stays(run, given, error, said):
    run.progress(0.5)
    with pytest.raises(error, match=said):
        run.progress(*given)
    assert run.reported == Progress(0.5)
    run.saver = None
    with pytest.raises(LookupError, match="only while a worker runs it"):
        run.progress(0.5)


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
    end = NextState("next", 4e9)
    assert bike.store.keys.progress not in bike.store.runs.pack_end([(run, end)]).keys, "it has told nothing yet"
    with monkeypatch.context() as patched:
        patched.setattr(bike.store.scripts, "run_all", raising(Unreachable("away")))
        with pytest.raises(Unreachable):
            tell(bike, run)
    assert bike.store.keys.progress in bike.store.runs.pack_end([(run, end)]).keys
    tell(bike, run)
    assert progress(bike) == {"share": 0.5, "text": ""}


@pytest.mark.parametrize("record", ["", "tag", "tag x y", "tag 7.000000x ", "other 0.500000 x"])
def test_a_damaged_record_is_none(record):
    assert Progress.parse(record, "tag") is None


def test_show_and_tell_have_it(shell, bike, run):
    shell.environment["REDBIKE_PREFIX"] = bike.prefix
    run.progress(0.256, "page 7")
    tell(bike, run)
    assert "26% page 7\n" in shell.run("show", JOB).stdout
    assert json.loads(shell.run("tell", JOB).stdout)["progress"] == {"share": 0.256, "text": "page 7"}
