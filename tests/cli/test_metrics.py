"""The command metrics: the figures once, and a server of HTTP that answers whatever its clients and Redis do."""

import os
import re
import signal
import socket
from pathlib import Path

import pytest

from redbike.errors import BadConfig
from redbike.queries.metrics_server import MOST_AT_ONCE, Address, parse_address
from tests import serving as serving_process
from tests.cli.refused import check_refused
from tests.commandline import Within
from tests.waiting import wait_until


@pytest.fixture
def serving(shell):
    """Serves in a process; its address."""
    return serve(shell)


def serve(shell, listen="0", host="127.0.0.1"):
    process = shell.start("metrics", f"--listen={listen}", log="metrics")
    pattern = rf"listening on http://{re.escape(host)}:(\d+)/metrics and http"
    wait_until(lambda: re.search(pattern, shell.log("metrics")))
    return process, host.strip("[]"), int(re.search(pattern, shell.log("metrics"))[1])


def get(serving, path="/metrics", method="GET"):
    _, host, port = serving
    return serving_process.get(port, path, method, host=host)


def test_the_figures_once(shell):
    shell.run("set", "job:A", "EVERY:1h")
    assert '\nredbike_jobs{prefix="redbike"} 1.0\n' in shell.read("metrics")
    done = shell.run("--url=redis://127.0.0.1:1", "metrics")
    assert (done.returncode, done.stdout.endswith('\nredbike_up{prefix="redbike"} 0.0\n')) == (1, True)
    [line] = done.stderr.splitlines()
    assert "there are no metrics: " in line


def test_it_is_served_until_it_is_told_to_stop(shell, serving):
    shell.run("set", "job:A", "EVERY:1h")
    status, text, headers = get(serving)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert '\nredbike_jobs{prefix="redbike"} 1.0\n' in text
    assert int(headers["Content-Length"]) == len(text)
    assert get(serving, method="HEAD")[:2] == (200, "")
    for path in ("/", "/metrics/", "/../etc/passwd", "//["):
        status, text, _ = get(serving, path)
        assert (status in (400, 404), len(text.splitlines())) == (True, 1), path
    for method in ("POST", "FROB"):
        assert get(serving, method=method)[0] == 501
    process, host, port = serving
    said = f"cannot listen on '{host}:{port}': Address already in use"
    check_refused(shell.run("metrics", f"--listen={host}:{port}"), 1, said)
    # A signal reaches the thread that handles it: given to another one, it would leave the main thread asleep.
    masks = {
        int(task.name): int(re.search(r"^SigBlk:\s+(\w+)", (task / "status").read_text(), re.MULTILINE)[1], 16)
        for task in Path(f"/proc/{process.pid}/task").iterdir()
    }
    assert len(masks) > 1
    assert {task for task, mask in masks.items() if mask & 1 << (signal.SIGTERM - 1)} == masks.keys() - {process.pid}
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert len(shell.log("metrics").splitlines()) == 1, "no line for each request"


def test_health_is_served(shell, serving):
    shell.run("set", "job:A", "EVERY:1h")
    status, text, headers = get(serving, "/health")
    assert (status, headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
    assert text.startswith("PROBLEM: no dispatcher is running | lag=0.000s;60 ")
    shell.start("dispatch", log="dispatch")
    wait_until(lambda: get(serving, "/health")[0] == 200)
    text = get(serving, "/health?max-lag=5m&job=job:A&job=job:*")[1]
    assert text.startswith("OK: 1 dispatcher, 0 workers, 0 waiting")
    status, text, _ = get(serving, "/health?job=none:*")
    assert (status, text.partition(" | ")[0]) == (503, "PROBLEM: no job matches 'none:*'")
    for wrong, said in (
        ("max-lag=soon", "bad --max-lag 'soon'"),
        ("job=a%00b", "bad job id"),
        ("job=", "bad job id"),
        ("job=job:A&jobs=none:A", "unexpected parameter 'jobs': job, max-lag are known"),
        ("max_lag=", "unexpected parameter 'max_lag': job, max-lag are known"),
        ("max-lag=1h&max-lag=5m", "the parameter 'max-lag' is given more than once"),
    ):
        status, text, _ = get(serving, f"/health?{wrong}")
        assert (status, text.startswith(said)) == (400, True), text


@pytest.mark.acceptance
def test_clients_that_hang_or_go_away(shell, serving):
    _, host, port = serving
    silent = [socket.create_connection((host, port)) for _ in range(2 * MOST_AT_ONCE)]
    assert get(serving)[0] == 200, "who says nothing keeps nobody from asking"
    silent[0].settimeout(60)
    assert silent.pop(0).recv(1) == b"", "it is cut off"
    for each in silent:
        each.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        each.close()
    assert get(serving)[0] in (200, 503)
    wait_until(lambda: get(serving)[0] == 200)
    assert len(shell.log("metrics").splitlines()) == 1


@pytest.mark.acceptance
def test_a_server_of_redis_that_hangs_goes_away_and_comes_back(own):
    own.server.start()
    own.answer_timeout = 5.0
    serving = serve(own)
    assert 'redbike_up{prefix="redbike"} 1.0' in get(serving)[1]
    pid = own.server.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert get(serving, "/health")[:2] == (503, f"PROBLEM: there was no answer within {own.answer_timeout:g} s\n")
    assert get(serving)[1].endswith('redbike_up{prefix="redbike"} 0.0\n')
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: 'redbike_up{prefix="redbike"} 1.0' in get(serving)[1])
    own.server.stop()
    assert get(serving)[1].endswith('redbike_up{prefix="redbike"} 0.0\n')
    assert get(serving, "/health")[0] == 503
    own.server.start()
    wait_until(lambda: 'redbike_up{prefix="redbike"} 1.0' in get(serving)[1])
    lines = own.log("metrics").splitlines()
    assert len([line for line in lines if "there are no metrics" in line]) == 2, lines


def test_it_starts_without_a_server_and_starts_none(tmp_path):
    shell = Within(tmp_path, None)
    serving = serve(shell)
    assert get(serving)[1].endswith('redbike_up{prefix="redbike"} 0.0\n')
    status, text, _ = get(serving, "/health")
    assert (status, text.startswith("PROBLEM: no server runs in ")) == (503, True)
    assert not (tmp_path / ".redbike").exists()
    shell.close()


def test_addresses():
    assert parse_address("9199") == parse_address(":9199") == Address("127.0.0.1", 9199)
    assert parse_address("localhost:0") == Address("localhost", 0)
    assert parse_address("[::1]:9199") == Address("::1", 9199)


@pytest.mark.parametrize("text", ["", "host", "host:", "1:2:3", "::1", "host:65536", "host:-1", "host:٣"])
def test_bad_addresses(text):
    with pytest.raises(
        BadConfig, match=r"bad --listen .*: (a port, or HOST:PORT, is needed|an IPv6 address needs brackets, as .*)$"
    ):
        parse_address(text)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_the_loopback_of_ipv6(shell):
    assert 'redbike_up{prefix="redbike"} 1.0' in get(serve(shell, "[::1]:0", "[::1]"))[1]
