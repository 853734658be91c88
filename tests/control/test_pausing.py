"""Pausing and resuming by ids and patterns, in Python and on the command line."""

import os
import pwd
import time

import pytest

from redbike import BadConfig, BadJobId, NoSuchJob, Redbike, Steered
from redbike.control import operator
from tests.loops import beside, blocked
from tests.states import unchanged
from tests.verbs import Quiet, set_job
from tests.waiting import wait_until

JOBS = ["nightly:A", "nightly:B", "hourly:A"]
HOURLY = "EVERY:1h@0"


@pytest.fixture
def bike(client, prefix):
    bike = Redbike(Quiet("A:B"), prefix, client)
    for jobid in JOBS:
        set_job(bike.store, jobid, HOURLY, 4e9)
    return bike


def test_ids_and_patterns_are_paused_and_resumed_once_each(bike):
    set_job(bike.store, "stopped:A", "STOP", None)
    paused = bike.pause("nightly:A", "*:A")
    assert paused[0] == Steered("nightly:A", "held")
    assert sorted(paused) == [("hourly:A", "held"), ("nightly:A", "held"), ("stopped:A", "paused")]
    assert sorted(bike.resume("*")) == [
        ("hourly:A", "timeline"),
        ("nightly:A", "timeline"),
        ("nightly:B", "unchanged"),
        ("stopped:A", "resumed"),
    ]


def test_what_is_known_of_a_pause(bike):
    until = time.time() + 3600
    bike.pause("hourly:A", until=until, reason="moving house")
    told = bike.tell("hourly:A")
    assert (told["next_run"], told["held_for"], told["status"].partition(":")[0]) == (None, 4e9, "TML")
    assert told["paused"]["by"].startswith(f"{pwd.getpwuid(os.geteuid()).pw_name}@")
    assert told["paused"]["reason"] == "moving house"
    assert told["paused"]["until"] == pytest.approx(until, abs=1e-5)
    bike.resume("hourly:A")
    assert "paused" not in bike.tell("hourly:A")
    assert bike.tell("hourly:A")["next_run"] == 4e9


def test_pausing_what_is_paused_and_resuming_what_is_not_changes_nothing(bike):
    bike.pause("*", reason="the first")
    with unchanged(bike.store):
        assert {word for _, word in bike.pause("*", until=time.time() + 60, reason="the second")} == {"unchanged"}
    assert {word for _, word in bike.resume("*")} == {"timeline"}
    with unchanged(bike.store):
        assert {word for _, word in bike.resume("*")} == {"unchanged"}


@pytest.mark.parametrize(
    ("texts", "more", "error"),
    [
        (("nightly:A", "gone:A"), {}, NoSuchJob),
        (("nightly:A", "a\nb"), {}, BadJobId),
        (("nightly:A",), {"until": 1.0}, BadConfig),
        (("nightly:A",), {"until": float("nan")}, BadConfig),
        (("nightly:A",), {"until": "tomorrow"}, TypeError),
        (("nightly:A",), {"reason": "two\nlines"}, BadConfig),
        (("nightly:A",), {"reason": "x" * 501}, BadConfig),
        (("nightly:A",), {"reason": None}, BadConfig),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(bike, texts, more, error):
    with unchanged(bike.store), pytest.raises(error):
        bike.pause(*texts, **more)


def test_a_user_without_a_name_may_pause(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 4711123)
    assert operator.name_operator().startswith("uid 4711123@")


def test_the_command_line_pauses_and_resumes(shell, server_url):
    bike = Redbike(Quiet("A:B"), redis_config=server_url)
    assert all(ok is True for _, ok in bike.set_many((jobid, HOURLY) for jobid in JOBS))
    assert shell.run("pause", "hourly:A", "--until=2100-01-01", "--reason=moving house").stdout == ""
    told = bike.tell("hourly:A")
    assert (told["paused"]["until"], told["paused"]["reason"]) == (4102444800.0, "moving house")
    again = shell.run("pause", "hourly:A", "--until=2101-01-01")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.startswith("redbike: hourly:A: it was paused already, and stays so")
    assert bike.tell("hourly:A") == told
    _, said, *_ = shell.run("next", "hourly:A").stdout.splitlines()
    assert said.startswith("It is paused since ")
    assert said.endswith(", until 2100-01-01 00:00:00 UTC: moving house")

    done = shell.run("pause", "*")
    assert sorted(done.stdout.split()) == sorted(JOBS)
    assert done.stderr.startswith("redbike: 1 of those that match: it was paused already, and stays so")
    [said] = shell.run("next", "nightly:A").stdout.splitlines()
    assert said.endswith(", until it is resumed.")
    assert sorted(shell.run("resume", "nightly:?").stdout.split()) == ["nightly:A", "nightly:B"]
    again = shell.run("resume", "nightly:A", "nightly:*")
    assert (again.returncode, again.stderr) == (0, "redbike: nightly:A: it was not paused\n")
    assert [job.jobid for job in bike.jobs(paused=True)] == ["hourly:A"]
    assert list(bike.fsck()) == []


def test_a_dispatcher_ends_a_pause_at_its_instant_and_sleeps_until_then(bike, monkeypatch):
    # It sleeps already when somebody else sets an end, and would not look again for long.
    monkeypatch.setattr("redbike.dispatcher.dispatcher.LONGEST_SLEEP", 600.0)
    bike.pause("hourly:A")
    with beside(bike.store, bike.dispatch):
        wait_until(lambda: blocked(bike.client))
        set_job(bike.store, "soon:A", "NOW", "now", once=True)
        until = bike.store.timeline.read_clock() + 2
        # Straight at the store: a busy machine may come to it when that is over, and then the facade refuses it.
        bike.store.pauses.pause(["soon:A"], until, "somebody", "")
        wait_until(lambda: "paused" not in bike.tell("soon:A"))
        assert until <= bike.store.timeline.read_clock()
        assert "queued_for" in bike.tell("soon:A")
        assert "paused" in bike.tell("hourly:A")
