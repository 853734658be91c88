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
from tests.chaos.proxy import Frames
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


def test_frames_arrive_in_any_pieces():
    stream = b"".join(REPLIES)
    for size in (1, 2, 7, len(stream)):
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


def test_connections_are_cut_as_the_fault_says(proxied, client):
    kinds = {"cut-before": 0, "reply-lost": 1, "cut-mid-reply": 2}
    for kind, arrived in kinds.items():
        proxied.arm(kind, choice=0.5)
        with pytest.raises(redis.ConnectionError):
            proxied.client.incr("count")
        assert int(client.get("count") or 0) == arrived
        assert proxied.client.ping(), "it strikes once"
    connection = proxied.client.connection_pool.get_connection()
    connection.send_command("BLPOP", "nothing", 10)
    proxied.arm("reset")
    with pytest.raises(redis.ConnectionError):
        connection.read_response()
    # What is armed on a connection that ends strikes at another one.
    proxied.arm("cut-before")
    proxied.client.connection_pool.disconnect()
    with pytest.raises(redis.ConnectionError):
        proxied.client.incr("count")
    assert proxied.struck() == [(kind, os.getpid()) for kind in (*kinds, "reset", "cut-before")]


def test_requests_are_late_or_swallowed(proxied, client):
    for kind, seconds, least in (("delay", 3.0, 0.3), ("stall", 0.4, 0.4)):
        proxied.arm(kind, seconds=seconds)
        began = time.monotonic()
        assert proxied.client.ping()
        assert time.monotonic() - began >= least
    wait_until(lambda: len(proxied.struck()) == 2)
    connection = proxied.connect(client_name="swallowed").connection_pool.get_connection()
    proxied.arm("black-hole", choice=0.99)
    connection.send_command("INCR", "count")
    assert not connection.can_read(0.2), "nobody answers"
    connection.disconnect()
    assert client.get("count") is None
    names = [each["name"] for each in client.client_list()]
    assert names.count("swallowed") == 1, "the server still believes in the client"
    assert proxied.client.ping()
