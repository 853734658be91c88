"""A program's own `Redbike` and `AsyncRedbike` follow the server and the clock of a test, wherever they would lead."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

from redbike import AsyncRedbike, BadConfig, Jobs, Redbike, RedbikeError, Unreachable
from redbike.facade import override
from redbike.testing.fixture import MakeRedbike, Served
from tests.commandline import ROOT
from tests.loops import join, start
from tests.testing.worker import START, Worker, times
from tests.waiting import wait_until

PROGRAM = """
import redis

from redbike import AsyncRedbike, Jobs, Redbike

jobs = Jobs()
ran = []

@jobs.job("remind", retries=1, backoff="1m")
def remind(jobid, data):
    ran.append((jobid, data))

@jobs.job("chain")
def chain():
    with Redbike(jobs) as own:
        own.set("remind:chained", "NOW")

bike = Redbike(jobs)
configured = Redbike.from_config(worker=jobs)
named = Redbike(jobs, "production", URL)
given = Redbike(jobs, redis_config=redis.Redis.from_url(URL))
later = AsyncRedbike(jobs)
later_configured = AsyncRedbike.from_config(worker=jobs)

@jobs.job("greet")
def greet(name):
    ran.append(name)

def remind_with(bike, name):
    bike.set(f"remind:{name}", "EVERY:1h", data=name)

def make():
    return [Redbike(jobs), Redbike.from_config(worker=jobs), Redbike(jobs, "production", URL)]

def make_later():
    return [AsyncRedbike(jobs), AsyncRedbike.from_config(worker=jobs), AsyncRedbike(jobs, "production", URL)]
"""

SUITE = """
import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import program

START = datetime(2031, 5, 1, 12, tzinfo=UTC)
MADE = [getattr(program, name) for name in ("bike", "configured", "given", "named")]

@pytest.fixture
def tested(redbike):
    program.ran.clear()
    return redbike(program.jobs, now=START)

@pytest.mark.parametrize("number", range(2))
def test_those_that_are_made_at_import_or_in_a_function(tested, redbike, number):
    for own in [*MADE, *program.make()]:
        assert list(own.get_schedules()) == []
        program.remind_with(own, "anna")
        assert own.prefix == redbike.prefix
        assert own.tell("remind:anna")["next_run"] == tested.now + 3600
        assert len(tested.run_due(timedelta(hours=1))) == 1
        assert [run.due for run in own.runs("remind:anna")][0] == tested.now
        own.unset("remind:anna")
    assert program.ran == [("remind:anna", "anna")] * 7

@pytest.mark.parametrize("number", range(2))
def test_asynchronous_ones(tested, number):
    async def remind():
        for own in [program.later, program.later_configured, *program.make_later()]:
            async with own as bike:
                assert [row async for row in bike.get_schedules()] == []
                await bike.set("remind:anna", "EVERY:1h", data="anna")
                assert (await bike.tell("remind:anna"))["next_run"] == START.timestamp() + 3600
                await bike.unset("remind:anna")
    asyncio.run(remind())
    assert tested.run_due(timedelta(hours=3)) == []

@pytest.mark.parametrize("number", range(2))
def test_the_functions_of_a_program_set_their_jobs(redbike, number):
    program.ran.clear()
    program.greet.enqueue("anna")
    redbike(program.jobs).run_due()
    program.chain.enqueue()
    redbike(program.jobs).run_due()
    assert program.ran == ["anna", ("remind:chained", None)]
"""


@pytest.mark.parametrize(
    ("named_by", "is_there"), [("environment", True), pytest.param("config", False, marks=pytest.mark.acceptance)]
)
def test_a_program_never_reaches_the_server_that_its_surroundings_name(
    tmp_path, client, server_url, is_there, named_by
):
    client.set("precious", 1)
    url = server_url if is_there else "redis://127.0.0.1:1"
    (tmp_path / "program.py").write_text(PROGRAM.replace("URL", repr(url)))
    (tmp_path / "test_program.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {name: each for name, each in os.environ.items() if not name.startswith(("PYTEST", "COV", "REDBIKE"))}
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    config = "[redbike]\nprefix: mine\nretries: 3\n"
    if named_by == "config":
        config += f"[redbike-redis]\nurl: {url}\n"
    else:
        environment |= {"REDBIKE_URL": url, "REDBIKE_PREFIX": "production"}
    (tmp_path / ".redbike.conf").write_text(config)
    command = [sys.executable, "-m", "pytest", "-p", "redbike.testing", "-p", "no:cacheprovider", "-q"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert result.returncode == 0, result.stdout
    assert "6 passed" in result.stdout
    assert client.keys("*") == [b"precious"]
    # Without a named server, a Redbike would start one here.
    assert not (tmp_path / ".redbike").exists()


@pytest.fixture
def own(client, prefix):
    """One that was made before the fixture, and has a job of its own."""
    own = Redbike(Worker(), prefix, client)
    own.set("own:A", "STOP")
    yield own
    own.close()


@pytest.fixture
def make(client, server_url):
    """Makes what the fixture of the plugin gives, while a test lasts."""
    return lambda: MakeRedbike(Served(server_url, client))


def test_it_has_its_own_server_and_state_again_afterwards(own, make, prefix):
    store = own.store
    for _ in range(2):
        maker = make()
        tested = maker(Worker(), now=START)
        assert own.prefix == maker.prefix
        assert list(own.get_schedules()) == []
        own.set("job:A", "EVERY:1h")
        assert times(tested.run_due(timedelta(hours=1))) == [3600]
        own.close()
        with pytest.raises(RedbikeError, match="closed"):
            own.tell("job:A")
        maker.close()
        assert own.store is store
        assert (own.prefix, [jobid for jobid, _ in own.get_schedules()]) == (prefix, ["own:A"])


def test_one_that_was_made_in_a_test_is_closed_afterwards_and_follows_the_next_one_unless_it_was_closed(
    make, prefix, client
):
    first, others = make(), threading.enumerate()
    bike, later = Redbike(Worker(), prefix, client), AsyncRedbike(Worker(), prefix, client)
    asyncio.run(later.set("job:A", "STOP"))
    with Redbike(Worker(), prefix, client) as closed:
        closed.set("job:A", "STOP")
    closed_later = AsyncRedbike(Worker(), prefix, client)
    asyncio.run(closed_later.set("job:A", "STOP"))
    asyncio.run(closed_later.close())
    first.close()
    own = [thread for thread in threading.enumerate() if thread not in others]
    wait_until(lambda: not any(thread.is_alive() for thread in own if thread.name.startswith("redbike-call")))

    def check_closed(one, asynchronous):
        with pytest.raises(RedbikeError, match="closed"):
            one.set("job:A", "STOP")
        with pytest.raises(RedbikeError, match="closed"):
            asyncio.run(asynchronous.set("job:A", "STOP"))

    check_closed(bike, later)
    second = make()
    bike.set("first:A", "STOP")
    asyncio.run(later.set("second:A", "STOP"))
    assert sorted(jobid for jobid, _ in second(Worker()).get_schedules()) == ["first:A", "second:A"]
    check_closed(closed, closed_later)
    second.close()
    assert client.keys("*") == []


def test_loops_of_a_program_wait_until_they_are_stopped_and_run_nothing(redbike, prefix, client):
    bike = Redbike(Worker(), prefix, client)
    for loop in (bike.work, bike.dispatch):
        with pytest.raises(BadConfig, match="call run_due"):
            loop()
    threads = [start(bike.work), start(bike.dispatch)]
    bike.set("job:A", "NOW")
    time.sleep(0.2)
    assert all(thread.is_alive() for thread in threads)
    assert len(redbike(Worker()).run_due()) == 1
    bike.stop()
    join(*threads)


def test_loops_that_nobody_stops_end_with_the_test(make, prefix, client):
    maker = make()
    bike = Redbike(Worker(), prefix, client)
    threads = [start(bike.work), start(bike.dispatch)]
    wait_until(lambda: len(bike._loops.calls._stays) == 2)
    maker.close()
    join(*threads)


def test_a_program_that_embeds_loops_starts_and_ends(redbike, prefix, client):
    async def main():
        async with AsyncRedbike(Worker(), prefix, client) as bike:
            loops = [asyncio.create_task(each) for each in (bike.work(), bike.dispatch())]
            await bike.set("job:A", "NOW")
            bike.stop()
            await asyncio.gather(*loops)

    asyncio.run(main())
    assert len(redbike(Worker()).run_due()) == 1


def test_work_one_and_dispatch_due_of_a_program_follow_the_clock(redbike, prefix, client):
    tested, bike = redbike(Worker(), now=START), Redbike(Worker(), prefix, client)
    bike.set("job:A", "EVERY:1h")
    assert (bike.dispatch_due(), bike.work_one()) == (0, None)
    tested.run_due(timedelta(minutes=59))
    tested._clock.move(START + 3600)
    assert (bike.dispatch_due(), bike.work_one()) == (1, "job:A")


def test_while_tests_are_imported_one_connects_when_it_is_used_first(monkeypatch, make, prefix, client):
    monkeypatch.setattr(override, "_is_importing", True)
    nowhere = Redbike(Worker(), prefix, "redis://127.0.0.1:1")
    with pytest.raises(BadConfig):
        Redbike(Worker, prefix, client)
    used = Redbike(Worker(), prefix, client)
    override.stop_waiting()
    with pytest.raises(Unreachable):
        Redbike(Worker(), prefix, "redis://127.0.0.1:1")
    with pytest.raises(Unreachable):
        nowhere.set("job:A", "STOP")
    assert used.set("job:A", "STOP")
    maker = make()
    assert (nowhere.set("job:A", "STOP"), nowhere.prefix) == (True, maker.prefix)
    maker.close()
    with pytest.raises(Unreachable):
        nowhere.tell("job:A")
    assert used.prefix == prefix


def test_other_attributes_are_none_of_it(own):
    with pytest.raises(AttributeError, match="'Redbike' object has no attribute 'nothing'"):
        own.nothing  # noqa: B018
    assert not hasattr(Redbike.__new__(Redbike), "store")
    assert not hasattr(AsyncRedbike(Jobs()), "nothing")
