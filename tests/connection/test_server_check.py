"""What is said of a server before it is used: each warning in a line, and none that is wrong."""

import logging
import threading

import pytest
import redis

from redbike import Redbike, RoundRobin
from redbike.connection.check import check_server
from redbike.connection.client import connect
from redbike.errors import Unreachable
from tests.commandline import Shell
from tests.waiting import wait_until

NOTHING = "keeps nothing on disk"


@pytest.fixture
def forgetful(client):
    """The server, without an append-only file."""
    client.config_set("appendonly", "no")
    yield client
    client.config_set("save", "")
    client.config_set("appendonly", "yes")
    # Until then it would not stop.
    wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])


def test_one_that_keeps_nothing_is_warned_of_unless_it_has_snapshots(forgetful):
    (warning,) = check_server(forgetful)
    assert NOTHING in warning
    assert "'appendonly' to 'yes'" in warning
    assert check_server(forgetful, needs_durability=False) == []
    forgetful.config_set("save", "3600 1")
    assert check_server(forgetful) == []


def test_a_replica_and_a_policy_that_may_evict_are_warned_of(client):
    assert check_server(client) == []
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert "allkeys-lru" in check_server(client)[0]
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    client.replicaof("127.0.0.1", "1")
    try:
        assert check_server(client) == [
            "the server is a replica of 127.0.0.1:1: it takes no jobs; give the url of its master"
        ]
    finally:
        client.replicaof("NO", "ONE")


def find_outage(client):
    """What is waited for; "" if it is nothing."""
    try:
        check_server(client)
    except Unreachable as error:
        return str(error)
    return ""


def test_one_that_refuses_for_a_while_is_waited_for(client):
    def run_script():
        with pytest.raises(redis.ResponseError, match="killed"):
            client.eval("local began = redis.call('TIME')[1]; while redis.call('TIME')[1] - began < 10 do end", 0)

    busy = threading.Thread(target=run_script)
    client.config_set("busy-reply-threshold", 1)
    busy.start()
    try:
        wait_until(lambda: "refuses: BUSY " in find_outage(client), 5)
        client.script_kill()
    finally:
        busy.join()
        client.config_set("busy-reply-threshold", 5000)
    client.config_set("replica-serve-stale-data", "no")
    client.replicaof("127.0.0.1", "1")
    try:
        assert "refuses: Link with MASTER is down" in find_outage(client)
    finally:
        client.replicaof("NO", "ONE")
        client.config_set("replica-serve-stale-data", "yes")


def test_nothing_is_said_where_it_may_not_be_asked(forgetful, server_url):
    forgetful.acl_setuser("guest", enabled=True, nopass=True, categories=["+@all"], commands=["-config"], keys=["*"])
    try:
        assert check_server(connect(server_url.replace("unix://", "unix://guest:any@"))) == []
    finally:
        forgetful.acl_deluser("guest")


def test_redbike_warns_once_in_python(forgetful, prefix, caplog):
    with caplog.at_level(logging.WARNING):
        Redbike(RoundRobin("A"), prefix=prefix, redis_config=forgetful)
    assert caplog.text.count(NOTHING) == 1


@pytest.mark.parametrize(
    ("command", "warned"),
    [(("set", "a:A", "@hourly"), 1), (("tell", "a:A"), 0), (("statuses",), 0), (("schedules",), 0), (("fsck",), 0)],
)
def test_commands_that_enter_jobs_warn_and_those_that_look_do_not(tmp_path, forgetful, server_url, command, warned):
    said = Shell(tmp_path, server_url).run(*command)
    assert said.stderr.count(NOTHING) == warned


def test_all_is_asked_in_one_round_trip(client, server_url):
    """One more only where something is to be feared."""
    sent = []

    class Connection(redis.UnixDomainSocketConnection):
        """Notes what is sent."""

        def send_packed_command(self, command, check_health=True):
            sent.append(b"".join(command))
            super().send_packed_command(command, check_health)

    path = connect(server_url).connection_pool.connection_kwargs["path"]
    watched = redis.Redis.from_pool(redis.ConnectionPool(Connection, path=path))
    watched.ping()
    sent.clear()
    assert check_server(watched) == []
    assert len(sent) == 1
