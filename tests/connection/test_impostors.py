"""Something else answers where the server should be: while it is away, or in place of a node or a Sentinel."""

import contextlib
import socket
import socketserver
import threading

import pytest
import redis

from redbike import Redbike
from redbike.connection.check import _check_version
from redbike.connection.client import aim_at_each, connect
from redbike.errors import ServerError
from tests.commandline import make_module
from tests.servers import free_ports
from tests.verbs import Quiet
from tests.waiting import wait_until


@contextlib.contextmanager
def impostor(port):
    """A program that speaks HTTP."""
    with socket.create_server(("127.0.0.1", port)) as listening:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with listening.accept()[0] as client:
                        client.recv(1000)
                        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.acceptance
def test_loops_wait_until_the_server_is_back_in_its_place(node, shell):
    (shell.folder / "jobs.py").write_text(make_module("print('done', jobid, flush=True)"))
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A')\n")
    shell.environment["REDBIKE_URL"] = f"redis://127.0.0.1:{node.port}"
    processes = [shell.start("dispatch", log="dispatch"), shell.start("work", log="work")]
    assert shell.run("set", "first:A", "NOW").returncode == 0
    wait_until(lambda: "done first:A" in shell.log("work"))
    # The dispatcher goes round, too.
    wait_until(lambda: node.client.exists("redbike-dispatched"))
    node.kill()
    with impostor(node.port):
        for log in ("dispatch", "work"):
            wait_until(lambda log=log: "waiting for it" in shell.log(log), 20)
        done = shell.run("tell", "first:A")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    node.start()
    for log in ("dispatch", "work"):
        wait_until(lambda log=log: "Redis is back" in shell.log(log), 20)
    assert shell.run("set", "second:A", "NOW").returncode == 0
    wait_until(lambda: "done second:A" in shell.log("work"))
    for process in processes:
        process.terminate()
        assert process.wait(60) == 0
    assert "Traceback" not in shell.log("dispatch") + shell.log("work")


@pytest.mark.acceptance
def test_other_nodes_of_a_cluster_are_asked(cluster, prefix):
    with impostor(*free_ports(1)) as place:
        bike = Redbike(Quiet(), prefix=prefix, redis_config=cluster.url.replace("://", f"://{place},"))
        assert bike.set("job:A", "NOW")
        bike.redis.close()


def test_a_single_server_that_is_given_as_a_cluster_is_said(node):
    with pytest.raises(ServerError, match=r"cluster support disabled.*the url of a single server is redis://"):
        Redbike(Quiet(), redis_config=f"redis+cluster://127.0.0.1:{node.port}")


@pytest.mark.acceptance
def test_a_cluster_whose_nodes_have_no_host_names_though_they_prefer_them(cluster, prefix):
    for node in cluster.nodes:
        node.client.config_set("cluster-preferred-endpoint-type", "hostname")
    try:
        for protocol in (2, 3):
            bike = Redbike(Quiet(), prefix=prefix, redis_config=f"{cluster.url}?protocol={protocol}")
            assert bike.set("job:A", "EVERY:1h")
            bike.redis.close()
    finally:
        for node in cluster.nodes:
            node.client.config_set("cluster-preferred-endpoint-type", "ip")


@pytest.mark.parametrize("version", ["7.2-rc1", "v7.2", "unstable", "8", "8.0-M03"])
def test_a_version_that_is_spelled_otherwise_is_read_as_far_as_it_goes(version):
    _check_version({"redis_version": version})


@pytest.mark.parametrize("version", ["6.2.7", "v6.9-rc1", "5"])
def test_an_old_version_is_refused_however_it_is_spelled(version):
    with pytest.raises(ServerError, match=r"needs redis 7\.0 or later"):
        _check_version({"redis_version": version})


@contextlib.contextmanager
def vanished():
    """The address of a host that no longer answers, not even to say that nobody listens."""
    with socket.socket() as listening, contextlib.ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        while True:
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.2)
            try:
                waiting.connect(listening.getsockname())
            except TimeoutError:
                break
        yield listening.getsockname()


@contextlib.contextmanager
def node_that_names(master):
    """The address of what says to every question that this is the master of all slots."""
    host, port = master
    reply = f"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${len(host)}\r\n{host}\r\n:{port}\r\n".encode()

    class Node(socketserver.BaseRequestHandler):
        def handle(self):
            while request := self.request.recv(10_000):
                self.request.sendall(reply if b"SLOTS" in request else b"+OK\r\n" * request.count(b"*"))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Node) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address
        finally:
            server.shutdown()
            thread.join()


def test_a_master_whose_host_vanished_costs_a_second_once_where_there_are_several(monkeypatch):
    waits, plain = [], socket.socket.connect

    def note_wait(own, address):
        # Another thread asks again and again whether it is back.
        if address == master and threading.current_thread() is threading.main_thread():
            waits.append(own.gettimeout())
        plain(own, address)

    with vanished() as master, node_that_names(master) as (host, port):
        client = connect(f"redis+cluster://{host}:{port}?protocol=2")
        [shard] = aim_at_each(client, ["{app:00}"])
        monkeypatch.setattr(socket.socket, "connect", note_wait)
        for _ in range(2):
            with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
                shard.ping()
            assert waits == [1.0], "the second one does not even try"
        for each in (client, shard):
            each.close()
