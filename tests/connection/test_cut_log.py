"""A log that ends in the middle of a transaction: what docs/durability.rst says to do about it."""

import os
import signal

from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from tests.waiting import wait_until


def test_after_a_rewrite_nothing_comes_back_of_half_a_transaction(tmp_path):
    server = EmbeddedServer(tmp_path / "server")
    server.start()
    try:
        with connect(server.url).pipeline(transaction=True) as both:
            both.set("half", 1).set("other half", 1).execute()
        pid = server.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        [log] = (server.folder / "appendonlydir").glob("*.incr.aof")
        os.truncate(log, log.read_bytes().rindex(b"other half") + 1)
        server.start()
        client = connect(server.url)
        client.bgrewriteaof()
        wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        with client.pipeline(transaction=True) as both:
            both.set("later", 1).set("too", 1).execute()
        client.close()
        server.stop()
        server.start()
        assert sorted(connect(server.url).keys()) == [b"later", b"too"]
    finally:
        server.stop()
