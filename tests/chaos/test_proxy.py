"""The proxy, as the process that it is, before the suite's own server: what it passes on, and each way to fail."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import redis

from redbike.connection.client import connect
from tests.chaos.farm import ROOT
from tests.chaos.journal import entries
from tests.chaos.link import is_open
from tests.chaos.proxy import Frames, frame_end
from tests.waiting import wait_until

REPLIES = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":12\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$4\r\na\r\nb\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n",
    b"%1\r\n+a\r\n*1\r\n:1\r\n",
    b"~2\r\n+a\r\n+b\r\n",
    b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b"=5\r\ntxt:a\r\n",
]


@pytest.mark.parametrize("reply", REPLIES)
def test_the_end_of_a_frame(reply):
    assert frame_end(reply + b"+more\r\n") == len(reply)
    assert all(frame_end(reply[:size]) == -1 for size in range(len(reply)))


def test_frames_arrive_in_any_pieces():
    stream = b"".join(REPLIES)
    for size in (1, 2, 3, 7, len(stream)):
        frames, found = Frames(), []
        for at in range(0, len(stream), size):
            found += frames.feed(stream[at : at + size])
        assert found == REPLIES


class Proxied:
    """A proxy before the server, and a client of it."""

    def __init__(self, folder, socket):
        self.log = folder / "faults.log"
        self.listen = folder / "proxy.sock"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.proxy", str(self.listen), str(socket), str(self.log)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        wait_until(lambda: is_open(self.listen))
        self.client = self.connect()
        self.client.ping()

    def connect(self, **more):
        return connect({"unix_socket_path": str(self.listen), **more})

    def arm(self, kind, seconds=1.0, choice=0.0):
        self.process.stdin.write(json.dumps({"kind": kind, "choice": choice, "seconds": seconds}).encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{kind}\n".encode()

    def struck(self):
        return [(entry["name"], entry["pid"]) for entry in entries(self.log)]

    def close(self):
        self.client.close()
        self.process.communicate()


@pytest.fixture
def proxied(client, server):
    with tempfile.TemporaryDirectory() as folder:
        proxied = Proxied(Path(folder), server.socket)
        yield proxied
        proxied.close()


def test_it_passes_everything_on(proxied):
    large = os.urandom(3_000_000)
    proxied.client.set("large", large)
    assert proxied.client.get("large") == large
    with proxied.client.pipeline(transaction=False) as pipeline:
        for number in range(500):
            pipeline.rpush("list", number)
        assert pipeline.execute() == list(range(1, 501))
    assert proxied.client.blpop(["nothing"], timeout=0.1) is None


def test_the_client_may_leave_and_come_back(proxied):
    proxied.client.connection_pool.disconnect()
    assert proxied.client.ping()


@pytest.mark.parametrize(("kind", "arrives"), [("cut-before", False), ("reply-lost", True), ("cut-mid-reply", True)])
def test_a_connection_is_cut(proxied, client, kind, arrives):
    proxied.arm(kind, choice=0.5)
    with pytest.raises(redis.ConnectionError):
        proxied.client.incr("count")
    assert client.get("count") == (b"1" if arrives else None)
    assert proxied.struck() == [(kind, os.getpid())]
    assert proxied.client.ping(), "it strikes once"


def test_a_connection_is_reset(proxied):
    connection = proxied.client.connection_pool.get_connection()
    connection.send_command("BLPOP", "nothing", 10)
    proxied.arm("reset")
    with pytest.raises(redis.ConnectionError):
        connection.read_response()
    assert proxied.struck() == [("reset", os.getpid())]


@pytest.mark.parametrize(("kind", "seconds", "least"), [("delay", 3.0, 0.3), ("stall", 0.4, 0.4)])
def test_a_request_is_late(proxied, kind, seconds, least):
    proxied.arm(kind, seconds=seconds)
    began = time.monotonic()
    assert proxied.client.incr("count") == 1
    assert time.monotonic() - began >= least
    wait_until(proxied.struck)


def test_a_black_hole_swallows_what_is_sent_and_tells_no_one(proxied, client):
    impatient = proxied.connect(socket_timeout=0.2)
    impatient.ping()
    others = len(client.client_list())
    proxied.arm("black-hole", choice=0.99)
    with pytest.raises(redis.TimeoutError):
        impatient.incr("count")
    impatient.connection_pool.disconnect()
    assert client.get("count") is None
    assert len(client.client_list()) == others, "the server still believes in the client"
    assert proxied.client.ping()


def test_what_is_armed_on_a_connection_that_ends_strikes_at_another(proxied):
    proxied.arm("cut-before")
    proxied.client.connection_pool.disconnect()
    with pytest.raises(redis.ConnectionError):
        proxied.client.incr("count")
    assert proxied.struck() == [("cut-before", os.getpid())]
