"""The command run with --wait: a script learns how the runs end that it has asked for."""

import re
import signal
import threading
from contextlib import contextmanager

import pytest

from redbike import Jobs, Redbike, UnsetJob, current_run
from redbike.cli import asked
from redbike.store.enums import Left
from redbike.store.patterns import Steered
from tests.loops import beside, join, start
from tests.waiting import wait_until

ENDED = re.compile(r"\S+ \S+  (\S+): (\w+) after [^,:]*?(, try \d+)? on \S+?:\d+:[\w-]+(: .*)?")
CANCELLED = "it is not known to have run: it was withdrawn or cancelled, or has expired, or its history is not kept"


@pytest.fixture
def jobs():
    """Functions of which one goes well, one fails, one does so once, and one lasts until its test lets it end."""
    jobs = Jobs(concurrency=4)
    jobs.ends_by, jobs.fails = None, True

    @jobs.job("quick", schedule="EVERY:1h")
    def be_quick():
        if jobs.ends_by:
            raise jobs.ends_by

    jobs.goes_on, jobs.ran = threading.Event(), []

    @jobs.job("bad", schedule="EVERY:1h", on_error="reschedule")
    def fail():
        if jobs.fails:
            raise ValueError("no \x1b luck")

    @jobs.job("again", schedule="EVERY:1h", retries=1, backoff="0.1s")
    def fail_once():
        if current_run().attempt == 1:
            raise ValueError("not yet")

    @jobs.job("long", schedule="EVERY:1h", on_error="reschedule")
    def last():
        jobs.ran.append(current_run())
        if len(jobs.ran) == 1:
            jobs.goes_on.wait(60)
            raise ValueError("the run before")

    return jobs


@pytest.fixture(params=[1, 4])
def bike(client, server_url, jobs, request, tmp_path):
    (tmp_path / ".redbike.conf").write_text(f"[redbike]\nshards: {request.param}\n")
    with Redbike(jobs, redis_config=server_url, shards=request.param) as bike:
        bike.sync(jobs.schedules())
        yield bike


def run(shell, *arguments, act=lambda: None):
    """Return its exit status, its lines without times and workers, and its complaints; `act` goes on beside it."""
    acting = start(act)
    done = shell.run("run", "--wait", *arguments)
    join(acting)
    lines = [re.sub(ENDED, r"\1: \2\3\4", line) for line in done.stdout.splitlines()]
    return done.returncode, lines, re.findall("^redbike: (.*)$", done.stderr, re.MULTILINE)


@contextmanager
def working(bike):
    """A dispatcher and a worker, which are known."""
    with beside(bike.store, bike.work, bike.dispatch):
        wait_until(lambda: len(bike.workers()) == 2)
        yield


def test_it_tells_how_each_run_ends(shell, bike, jobs):
    with working(bike):
        before = bike.tell("quick")["next_run"]
        assert run(shell, "quick") == (0, ["quick: ok"], [])
        assert run(shell, "again") == (0, ["again: ok, try 2"], [])
        assert run(shell, "bad") == (1, [r"bad: failed: ValueError: no \x1b luck"], [])
        status, lines, _ = run(shell, "[abq]*")
        assert (status, sorted(lines[:3])) == (1, ["again", "bad", "quick"])
        assert sorted(lines[3:]) == ["again: ok, try 2", r"bad: failed, try 2: ValueError: no \x1b luck", "quick: ok"]
    assert before == bike.tell("quick")["next_run"]


def test_a_run_in_flight_is_not_the_one_that_was_asked_for(shell, bike, jobs):
    def end_the_first():
        wait_until(lambda: bike.store.questions.inspect(["long"])[0].run.next.startswith(Left.OWED))
        jobs.goes_on.set()

    with working(bike):
        bike.run("long")
        wait_until(lambda: jobs.ran)
        assert run(shell, "long", act=end_the_first) == (0, ["long: ok"], [])
    assert [ended.outcome for ended in bike.runs("long")] == ["ok", "failed"]


def test_a_run_that_somebody_asks_for_meanwhile_is_another(shell, bike, jobs):
    def ask_again():
        wait_until(lambda: jobs.ran)
        assert bike.run("long") == [Steered("long", "owed")]
        jobs.goes_on.set()

    with working(bike):
        assert run(shell, "long", act=ask_again) == (1, ["long: failed: ValueError: the run before"], [])
        wait_until(lambda: len(bike.runs("long")) == 2)


def test_jobs_that_have_failed_for_good(shell, bike):
    bike.set("bad", "EVERY:1h", on_error="stop")
    with working(bike):
        assert run(shell, "--failed") == (0, [], [])
        run(shell, "bad")
        status, lines, _ = run(shell, "--failed")
    assert (status, lines) == (1, ["bad", r"bad: failed, try 2: ValueError: no \x1b luck"])


@pytest.mark.parametrize("who", [None, "ada@here"])
def test_one_that_is_cancelled_or_unset_while_no_worker_is_there(shell, bike, jobs, monkeypatch, who):
    """The log tells of that, or else another look."""
    monkeypatch.setattr(asked, "LOOK_AGAIN", 3600.0 if who else 0.1)

    def withdraw():
        wait_until(lambda: all("queued_for" in bike.tell(each) for each in ("quick", "bad")))
        with Redbike(
            jobs, redis_config=shell.environment["REDBIKE_URL"], shards=len(bike.store.shards), noted_as=who
        ) as other:
            other.cancel("quick")
            other.unset("bad")

    status, lines, complaints = run(shell, "quick", "bad", act=withdraw)
    unworked = {f"{name}: no worker works its queue work-{name}, so it waits for one" for name in ("bad", "quick")}
    assert (status, lines, set(complaints) - unworked) == (1, [], {f"bad: {CANCELLED}", f"quick: {CANCELLED}"})
    assert unworked < set(complaints)


def test_a_try_that_was_to_be_tried_again_and_is_not(shell, bike, jobs):
    bike.set("again", "EVERY:1h", backoff="1h")
    number, url = len(bike.store.shards), shell.environment["REDBIKE_URL"]

    def cancel():
        wait_until(lambda: "failures" in bike.tell("again"))
        with Redbike(jobs, redis_config=url, shards=number, noted_as="ada@here") as other:
            other.cancel("again")

    with working(bike):
        status, lines, complaints = run(shell, "again", act=cancel)
    said = "again: it is not tried again: somebody has cancelled it, or set or unset the job"
    assert (status, lines, complaints) == (1, ["again: retry: ValueError: not yet"], [said])


def test_a_job_that_is_paused_while_it_waits_is_waited_for(shell, bike, monkeypatch):
    looked, look = [], asked._Part._look
    monkeypatch.setattr(asked, "LOOK_AGAIN", 0.1)
    monkeypatch.setattr(asked._Part, "_look", lambda *given: looked.append(given) or look(*given))

    def resume():
        wait_until(lambda: looked)
        assert bike.pause("quick") == [Steered("quick", "held")]
        number = len(looked)
        wait_until(lambda: len(looked) > number + 2)
        bike.resume("quick")
        bike.work_one()

    held = "{}: it is paused, and its {} is held until it is resumed"
    status, lines, complaints = run(shell, "quick", act=resume)
    assert (status, lines, complaints[1:]) == (0, ["quick: ok"], [held.format("quick", "run")])
    # A job that is paused already runs all the same.
    bike.pause("quick", "again")

    def resume_what_has_failed():
        wait_until(lambda: "held_for" in bike.tell("again"))
        number = len(looked)
        wait_until(lambda: len(looked) > number + 2)
        bike.resume("again")

    with working(bike):
        assert run(shell, "quick") == (0, ["quick: ok"], [])
        said = [held.format("again", "next try")]
        assert run(shell, "again", act=resume_what_has_failed) == (0, ["again: ok, try 2"], said)


@pytest.mark.parametrize("end", ["ok", "unset"])
@pytest.mark.parametrize("bike", [1], indirect=True)
def test_a_run_of_which_nothing_is_kept_and_that_ends_at_once_is_heard(shell, bike, jobs, monkeypatch, end):
    jobs.ends_by, jobs.fails = UnsetJob if end == "unset" else None, False
    begin = asked.AskedRuns.wait

    def wait_after_the_end(runs):
        while other.work_one():
            pass
        return begin(runs)

    monkeypatch.setattr(asked.AskedRuns, "wait", wait_after_the_end)
    with Redbike(jobs, redis_config=shell.environment["REDBIKE_URL"], history=0) as other:
        status, lines, _ = run(shell, "quick", "bad")
    assert (status, sorted(lines)) == (0, ["bad: ok", "quick: ok"])


def test_the_first_of_several_runs_is_told_though_only_the_last_is_kept(shell, bike, jobs, monkeypatch):
    begin = asked.AskedRuns.wait

    def wait_after_two(runs):
        while other.work_one():
            pass
        other.set("bad", "NOW", on_error="reschedule")
        jobs.fails = False
        other.work_one()
        return begin(runs)

    monkeypatch.setattr(asked.AskedRuns, "wait", wait_after_two)
    number, url = len(bike.store.shards), shell.environment["REDBIKE_URL"]
    with Redbike(jobs, redis_config=url, shards=number, history=1) as other:
        status, lines, _ = run(shell, "bad")
        [kept] = other.runs("bad")
    assert (status, lines, kept.outcome) == (1, [r"bad: failed: ValueError: no \x1b luck"], "ok")


@pytest.mark.parametrize("bike", [1], indirect=True)
def test_an_interrupt_ends_the_waiting_and_leaves_the_job(shell, bike):
    process = shell.start("run", "--wait", "quick")
    wait_until(lambda: "queued_for" in bike.tell("quick"))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "Traceback" not in shell.log()
    assert bike.tell("quick")["queued_for"]
    assert bike.work_one()


def test_a_job_for_every_host_of_which_none_is_there_has_not_succeeded(shell):
    shell.bike.set("job:A@all", "EVERY:1h")
    status, lines, [said] = run(shell, "job:A@all")
    assert (status, lines) == (1, [])
    assert said.startswith("job:A@all: ")


def test_a_dry_run_has_nothing_to_wait_for(shell, bike):
    assert run(shell, "--dry-run", "quick") == (2, [], ["--dry-run runs nothing, so there is nothing to --wait for"])
    assert "queued_for" not in bike.tell("quick")


def test_a_server_that_goes_away_is_waited_for(own, jobs):
    """What has ended meanwhile is told when it is back."""
    own.server.start()
    with Redbike(jobs, redis_config=own.server.url) as bike:
        bike.sync(jobs.schedules())
        process = own.start("run", "--wait", "quick", "bad")
        wait_until(lambda: "queued_for" in bike.tell("bad"))
        own.server.stop()
        wait_until(lambda: "waiting for it" in own.log())
        own.server.start()
        while bike.work_one():
            pass
        assert process.wait(60) == 1
    assert sorted(re.findall(r"  (\w+): (\w+)", own.log())) == [("bad", "failed"), ("quick", "ok")]
