"""As many connections as threads need, and a limit of the user's own that is told as what it is."""

import asyncio
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.sentinel import Sentinel

from redbike import Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.errors import BadConfig, ServerError, Unreachable
from tests.waiting import wait_until

CROWD = """\
import threading
import time
from redbike import RoundRobin

together = threading.Barrier(300)

class Worker(RoundRobin):
    def work(self, jobid):
        together.wait(60)
        print("all are here", flush=True)
"""


def hold(client, number):
    """Take that many connections."""
    return [client.connection_pool.get_connection() for _ in range(number)]


@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.acceptance)])
def test_many_threads_set_jobs_with_one_redbike(client, prefix, server_url, number):
    # Many systems allow only 1,024 files at first.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bike = Redbike(RoundRobin("A"), prefix=prefix, redis_config=server_url)
    together = threading.Barrier(number)

    def set_job(each):
        together.wait(60)
        return bike.set(f"job{each}:A", "@hourly")

    with ThreadPoolExecutor(number) as pool:
        assert all(pool.map(set_job, range(number)))
    assert len(list(bike.get_schedules())) == number
    # At one instant, too.
    kept = hold(bike.client, number)
    bike.client.close()
    assert len(kept) == number


def test_300_jobs_run_at_once(shell):
    (shell.folder / "crowd.py").write_text(CROWD)
    bike = Redbike(RoundRobin("A"), redis_config=shell.environment["REDBIKE_URL"])
    assert all(result is True for _, result in bike.set_many((f"job{number}:A", "NOW") for number in range(300)))
    process = shell.start("work", "crowd:Worker('A')", "--concurrency=300")
    wait_until(lambda: shell.log().count("all are here") == 300, 60)
    process.terminate()
    assert process.wait(60) == 0
    assert "Too many" not in shell.log()
    assert "waiting for it" not in shell.log()


@pytest.mark.parametrize(
    "limited",
    [
        lambda url: f"{url}?max_connections=2",
        lambda url: {"unix_socket_path": url.removeprefix("unix://"), "max_connections": "2"},
        lambda url: redis.Redis.from_url(url, max_connections=2),
        lambda url: redis.Redis.from_pool(redis.BlockingConnectionPool.from_url(url, max_connections=2)),
    ],
    ids=["url", "arguments", "client", "blocking pool"],
)
def test_a_limit_is_kept_and_told_as_what_it_is(client, prefix, server_url, limited, monkeypatch):
    monkeypatch.setattr("redbike.connection.client.CONNECTION_TIMEOUT", 0.2)
    bike = Redbike(RoundRobin("A"), prefix=prefix, redis_config=limited(server_url))
    held = hold(bike.client, 2)
    with pytest.raises(ServerError, match=r"max_connections .*all 2 connections") as refused:
        bike.set("a:A", "@hourly")
    assert not isinstance(refused.value, Unreachable)
    for connection in held:
        bike.client.connection_pool.release(connection)
    assert bike.set("a:A", "@hourly")


def test_a_thread_waits_for_its_turn_when_there_is_a_limit(client, prefix, server_url):
    bike = Redbike(RoundRobin("A"), prefix=prefix, redis_config=f"{server_url}?max_connections=3")
    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(lambda number: bike.set(f"job{number}:A", "@hourly"), range(200)))


@pytest.mark.acceptance
def test_a_worker_that_is_given_too_few_ends_and_says_so(shell):
    (shell.folder / "jobs.py").write_text("from redbike import RoundRobin as Worker\n")
    shell.environment["REDBIKE_URL"] += "?max_connections=1"
    said = shell.run("work", "jobs:Worker('A')")
    assert said.returncode == 1
    assert "max_connections is too low" in said.stderr.splitlines()[-1]
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("limit", [0, -1, 1.5, "0"])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(BadConfig, match="max_connections"):
        connect({"host": "h", "max_connections": limit})


def test_a_limit_beyond_all_threads_costs_nothing():
    assert connect({"host": "h", "max_connections": 2**31}).connection_pool.max_connections == 2**31


def test_a_client_of_a_sentinel_has_our_settings_and_no_limit_either():
    given = Sentinel([("127.0.0.1", 1)]).master_for("service", decode_responses=True, db=3)
    pool = connect(given).connection_pool
    assert pool.max_connections > 10_000
    assert pool.service_name == "service"
    assert not pool.connection_kwargs["decode_responses"]
    assert pool.connection_kwargs["db"] == 3
    assert given.connection_pool.connection_kwargs["decode_responses"]


@pytest.mark.parametrize("url", ["redis+sentinel://h/service", "redis://h", "unix:///r.sock"])
def test_no_url_has_a_limit_by_itself(url):
    assert connect(url).connection_pool.max_connections > 10_000


def test_an_asyncio_client_is_refused_with_what_to_give():
    with pytest.raises(BadConfig, match=r"an asyncio client cannot be used: give a redis\.Redis, a URL or a dict"):
        connect(redis.asyncio.Redis())

    class Own(redis.asyncio.Redis):
        """A user's own."""

    async def make():
        return Own()

    with pytest.raises(BadConfig, match="an asyncio client cannot be used"):
        connect(asyncio.run(make()))
