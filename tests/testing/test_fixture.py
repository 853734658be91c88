"""The fixture that makes the facades of a test: they share jobs and a clock, and nothing is left of them."""

import asyncio
import gc
import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

from redbike import BadConfig, RedbikeError, RoundRobin
from redbike.testing.fixture import PREFIX, MakeRedbike, Served
from tests.testing.worker import START, Worker, times
from tests.waiting import wait_until


def test_all_facades_of_a_test_share_its_jobs_and_its_clock(redbike):
    first, second = redbike(Worker(), now=START), redbike(Worker())
    first.set("job:A", "EVERY:1h")
    third = redbike(Worker(), shards=2)  # its jobs are in one shard all the same
    assert third.tell("job:A") == second.tell("job:A")
    assert times(second.run_due(timedelta(hours=1))) == [3600]
    assert first.now == second.now == START + 3600
    assert first.run_due() == third.run_due() == []
    assert redbike(Worker(), now=datetime.fromtimestamp(START + 7200, UTC)).now == first.now == START + 7200
    with pytest.raises(BadConfig, match="only goes forward"):
        redbike(Worker(), now=START)


def test_settings_are_checked_and_loops_are_refused_as_the_clock_stands_still_at_this_second(redbike, client):
    before = client.time()[0]  # the clock stands from the first call on, even if that is refused
    for worker, settings, error, said in (
        (Worker(), {"retries": -1}, BadConfig, "bad retries"),
        (Worker(), {"prefix": "redbike"}, TypeError, "prefix"),
        (RoundRobin, {}, BadConfig, "is a class"),
    ):
        with pytest.raises(error, match=said):
            redbike(worker, **settings)
    bike = redbike(Worker())
    assert before <= bike.now <= client.time()[0]
    assert (bike.now, bike.now.is_integer()) == (bike.store.timeline.read_clock(), True)
    for loop in (bike.work, bike.dispatch):
        with pytest.raises(RedbikeError, match=r"call run_due\(\)"):
            loop()


def test_no_keys_are_deleted_but_those_of_the_test(client, server_url):
    client.set("precious", 1)
    client.set(f"{PREFIX}other-schedules", 1)
    maker = MakeRedbike(Served(server_url, client))
    bike = maker(Worker())
    bike.set("job:A", "EVERY:1h")
    bike.set("bad:A", "NOW")
    bike.dispatch_due()
    assert {key.decode().startswith(maker.prefix) for key in client.keys(f"{maker.prefix}*")} == {True}
    maker.close()
    assert sorted(client.keys("*")) == [b"precious", f"{PREFIX}other-schedules".encode()]
    client.set("redbike-schedules", 1)
    maker.prefix = "redbike"
    with pytest.raises(BadConfig, match="not one of a test"):
        maker.close()
    assert client.get("redbike-schedules") == b"1"


def test_nothing_is_left_of_a_test_in_its_process(client, server_url):
    async def work(run):
        await asyncio.sleep(0)

    def run_one():
        maker = MakeRedbike(Served(server_url, client))
        bike = maker(Worker(work))
        bike.set("job:A", "NOW")
        assert len(bike.run_due()) == 1
        maker.close()
        del maker, bike
        gc.collect()

    def count_files():
        return len(os.listdir("/proc/self/fd"))

    run_one()
    threads, files = threading.active_count(), count_files()
    for _ in range(10):
        run_one()
    wait_until(lambda: threading.active_count() <= threads)
    # Two that asked at the same moment made the pool of the suite open a connection more. It keeps that.
    wait_until(lambda: count_files() < files + 10)
