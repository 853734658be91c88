"""As many connections as threads need, and a limit of the user's own that is told as what it is."""

import resource
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.sentinel import Sentinel

from redbike import Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.connection.embedded_launcher import find_binary
from redbike.errors import BadConfig, ServerError, Unreachable
from tests.waiting import wait_until


def hold(client, number):
    """Take that many connections."""
    return [client.connection_pool.get_connection() for _ in range(number)]


def is_up(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


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


def test_a_unix_socket_with_a_short_backlog_is_connected_to_when_there_is_a_place(tmp_path, monkeypatch):
    naps, sleep = [], time.sleep
    monkeypatch.setattr("redbike.connection.pools.NAP", 0.0123)
    monkeypatch.setattr(time, "sleep", lambda seconds: (naps.append(seconds), sleep(seconds)))
    path = tmp_path / "redis.sock"
    options = {"port": "0", "save": "", "unixsocket": str(path), "tcp-backlog": "1", "dir": str(tmp_path)}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    with subprocess.Popen([find_binary(), *words], stdout=subprocess.DEVNULL) as server, ThreadPoolExecutor(8) as pool:
        try:
            client = connect(f"unix://{path}")
            wait_until(lambda: is_up(client))
            server.send_signal(signal.SIGSTOP)
            answers = [pool.submit(client.ping) for _ in range(8)]
            wait_until(lambda: 0.0123 in naps or any(answer.done() for answer in answers))
            server.send_signal(signal.SIGCONT)
            assert [answer.result(60) for answer in answers] == [True] * 8
        finally:
            server.send_signal(signal.SIGCONT)
            server.kill()


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


def test_one_connection_suffices_to_set_jobs_in_all_shards(client, prefix, server_url, monkeypatch):
    monkeypatch.setattr("redbike.connection.client.CONNECTION_TIMEOUT", 0.2)
    pairs = [(f"job{number}:A", "EVERY:1h") for number in range(20)]
    with Redbike(RoundRobin("A"), prefix, f"{server_url}?max_connections=1", shards=4) as bike:
        bike.sync(pairs[:10], group="rows", prune=True)
        assert all(answer is True for _, answer in bike.set_many(pairs[10:]))
        assert len(list(bike.jobs())) == 20


@pytest.mark.acceptance
def test_a_worker_that_is_given_too_few_ends_and_says_so(shell):
    (shell.folder / "jobs.py").write_text("from redbike import RoundRobin as Worker\n")
    shell.environment["REDBIKE_URL"] += "?max_connections=1"
    said = shell.run("work", "jobs:Worker('A')")
    assert said.returncode == 1
    assert "max_connections is too low" in said.stderr.splitlines()[-1]
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("limit", [0, 1.5, "0"])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(BadConfig, match="max_connections"):
        connect({"host": "h", "max_connections": limit})


def test_a_client_of_a_sentinel_has_our_settings_and_no_limit_either():
    given = Sentinel([("127.0.0.1", 1)]).master_for("service", decode_responses=True, db=3)
    assert connect("redis+sentinel://h/service").connection_pool.max_connections > 10_000
    pool = connect(given).connection_pool
    assert pool.max_connections > 10_000
    assert pool.service_name == "service"
    assert not pool.connection_kwargs["decode_responses"]
    assert pool.connection_kwargs["db"] == 3
    assert given.connection_pool.connection_kwargs["decode_responses"]


def test_an_asyncio_client_is_refused_with_what_to_give():
    with pytest.raises(BadConfig, match=r"an asyncio client cannot be used: give a redis\.Redis, a URL or a dict"):
        connect(type("Own", (redis.asyncio.Redis,), {})())
