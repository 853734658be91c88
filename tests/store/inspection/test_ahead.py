"""The server's clock was ahead, and is right again: what it has put too late is named, and brought back."""

import os
import time
from pathlib import Path

import pytest

from redbike import Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.store.lease import AHEAD
from redbike.store.next_state import NextState
from redbike.store.records import RetryState
from redbike.store.schedules import find_schedule
from tests.servers import Node, free_ports
from tests.states import QUEUE
from tests.verbs import set_job, take_many, take_one
from tests.waiting import wait_until

DAY = 86400.0


def jump(bike, days=400.02):
    """Run all that is due at once when the clock is ahead; return that instant.

    It is 400 d ahead, and for some time after that.
    """
    then = bike.store.timeline.read_clock() + days * DAY
    bike.dispatch_due(then)
    store = bike.store.at(then)
    for run in take_many(store, [(QUEUE, 100.0)], [1], "tag", 10):
        schedule = find_schedule(run.jobid, run.schedule, run.options)
        store.runs.end(run, NextState("next", schedule.next(then)))
    store.timeline.advance(then)
    return then


def return_to_now(bike):
    """What a dispatcher does when the clock is right again."""
    dispatcher = Dispatcher(bike.store, Settings())
    for _ in range(2):
        dispatcher.dispatch_due()
        dispatcher.timekeeper._kept = 0.0
        dispatcher.timekeeper.keep(until=float("inf"))
    dispatcher.close()


def test_jobs_that_ran_then_are_named_and_brought_back_and_no_others(bike):
    now = bike.store.timeline.read_clock()
    for jobid, schedule in [("hourly:A", "EVERY:1h"), ("cron:A", "0 3 * * *"), ("spread:A", "@daily")]:
        assert bike.set(jobid, schedule, **({"spread": "1h"} if jobid == "spread:A" else {}))
    before = {jobid: bike.tell(jobid)["next_run"] for jobid in ("hourly:A", "cron:A", "spread:A")}
    jump(bike)
    bike.set("later:A", "EVERY:1h", after=now + 300 * DAY)
    bike.set("yearly:A", "0 0 29 2 *")
    bike.set("once:A", f"AT:{now + 500 * DAY:.0f}")
    fixed = {jobid: bike.tell(jobid) for jobid in ("later:A", "yearly:A", "once:A")}
    assert "the clock of the server was ahead by 400 d (redbike fsck --repair)" in bike.health().problems
    return_to_now(bike)
    [problem] = [text for text in bike.health().problems if "ahead" in text]
    assert problem.startswith("the clock of the server was ahead by 400 d until 20")
    late = sorted(line for line in bike.fsck() if "by a clock that was ahead" in line)
    assert [line.partition(":A")[0] for line in late] == ["'cron", "'hourly", "'spread"]
    assert "it is due in 400 d" in late[1]
    assert sum("redbike fsck --repair brings it there" in finding.text for finding in bike.check()) == 3
    assert all(is_well for _, is_well in bike.repair())
    after = {jobid: bike.tell(jobid)["next_run"] for jobid in before}
    assert after == {jobid: pytest.approx(moment, abs=0.01) for jobid, moment in before.items()}
    assert {jobid: bike.tell(jobid) for jobid in fixed} == fixed
    assert (list(bike.fsck()), list(bike.repair())) == ([], [])
    assert not [text for text in bike.health().problems if "ahead" in text]
    assert not [finding for finding in bike.check() if finding.is_problem]


def test_a_paused_job_and_another_try_are_brought_back(bike):
    bike.set("paused:A", "EVERY:1h")
    bike.set("tried:A", "EVERY:1h")
    then = jump(bike)
    bike.store.at(then).pauses.pause(["paused:A"], None, "me", "")
    bike.run("tried:A")
    run = take_one(bike.store.at(then), [(QUEUE, 100.0)], "tag")
    bike.store.at(then).runs.end(run, NextState("due", "+50", retry_state=f"1 0 1 {then:.6f} {then + 9:.6f}"))
    now = bike.store.timeline.read_clock()
    assert len([line for line in bike.fsck() if "by a clock that was ahead" in line]) == 2
    assert all(is_well for _, is_well in bike.repair())
    assert now < bike.tell("paused:A")["held_for"] < now + 3700
    assert bike.tell("paused:A")["paused"]["since"] == pytest.approx(now, abs=60)
    assert bike.tell("tried:A")["next_run"] == pytest.approx(now, abs=60)
    kept = RetryState.parse(bike.client.hget(bike.store.keys.retry_states, "tried:A").decode())
    assert (kept.tries, kept.due, kept.after) == (1, pytest.approx(then), pytest.approx(now, abs=60))


def test_a_jump_that_is_over_before_the_time_is_kept_is_noted(bike):
    bike.set("hourly:A", "EVERY:1h")
    dispatcher = Dispatcher(bike.store, Settings())
    then = bike.store.timeline.read_clock() + 400 * DAY
    for dispatcher.store in (bike.store, bike.store.at(then), bike.store):
        dispatcher.dispatch_due()
    dispatcher.timekeeper.keep(until=float("inf"))
    dispatcher.close()
    [rewind] = bike.store.rewinds.list_all()
    assert rewind.is_of_clock
    assert rewind.known - rewind.back == pytest.approx(400 * DAY, abs=60)


def test_a_pass_for_a_later_instant_is_no_jump(bike):
    dispatcher = Dispatcher(bike.store, Settings())
    for now in (None, bike.store.timeline.read_clock() + 400 * DAY, None):
        dispatcher.dispatch_due(now)
        dispatcher.timekeeper.keep_at_exit()
    dispatcher.close()
    assert bike.store.rewinds.list_all() == []


def test_a_jump_that_is_soon_over_is_left_alone(bike):
    bike.set("fast:A", "EVERY:1s")
    jump(bike, days=(AHEAD - 10) / DAY)
    assert [line for line in bike.fsck() if "by a clock" in line] == []


def test_a_lease_of_that_clock_is_named_and_shortened(bike):
    then = bike.store.timeline.read_clock() + 400 * DAY
    set_job(bike.store, "job:A", "EVERY:1h", "now")
    take_one(bike.store.at(then), [(QUEUE, 100.0)], "tag")
    assert any("its lease is of a clock that was ahead" in line for line in bike.fsck())
    assert all(is_well for _, is_well in bike.repair())
    [(_, lease)] = bike.store.client.zrange(bike.store.keys.leases, 0, -1, withscores=True)
    assert lease < bike.store.timeline.read_clock() + AHEAD


LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.mark.acceptance
@pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed")
def test_a_real_server_whose_clock_jumps_and_returns(tmp_path, shell, monkeypatch):
    def shift(seconds):
        (tmp_path / "new").write_text(seconds)
        os.replace(tmp_path / "new", tmp_path / "shift")

    shift("+0")
    with monkeypatch.context() as context:
        # The embedded server: Debian's redis-server has jemalloc, and with libfaketime it may hang at its start.
        context.delenv("REDBIKE_SERVER", raising=False)
        context.setenv("LD_PRELOAD", str(LIBRARY))
        context.setenv("FAKETIME_TIMESTAMP_FILE", str(tmp_path / "shift"))
        context.setenv("FAKETIME_NO_CACHE", "1")
        context.setenv("DONT_FAKE_MONOTONIC", "1")
        node = Node(tmp_path / "server", *free_ports(1))
    try:
        shell.environment["REDBIKE_URL"] = f"redis://127.0.0.1:{node.port}"
        bike = Redbike(RoundRobin("A"), redis_config=shell.environment["REDBIKE_URL"])
        shell.start("up", "redbike:RoundRobin('A')")
        wait_until(lambda: len(bike.workers()) == 2)
        assert bike.set("job:A", "EVERY:1h", on_error="reschedule")
        right = bike.tell("job:A")["next_run"]
        shift("+400d")
        wait_until(lambda: (bike.tell("job:A")["next_run"] or 0) > time.time() + 300 * DAY, 30)
        shift("+0")
        wait_until(lambda: bike.store.rewinds.list_all(), 30)
        assert "the clock of the server was ahead by " in shell.run("health").stdout
        repaired = shell.run("fsck", "--repair")
        assert (repaired.returncode, repaired.stdout.count("by a clock that was ahead")) == (0, 1)
        assert bike.tell("job:A")["next_run"] == pytest.approx(right, abs=0.01)
        assert shell.run("fsck").stdout == ""
    finally:
        node.kill()
        node.client.close()
