"""What goes on waits at its start for a server that cannot be reached; what waiting cannot mend ends it at once."""

import signal

import pytest

from tests.commandline import make_module
from tests.servers import Node, free_ports
from tests.waiting import wait_until

WORKER = make_module("print('worked', jobid, flush=True)")
DISPATCH, WORK = ("dispatch",), ("work", "jobs:Worker('A')")
UP = ("up", "jobs:Worker('A')", "--schedules=jobs.csv")


@pytest.fixture
def port(jobs):
    (port,) = free_ports(1)
    jobs.environment["REDBIKE_URL"] = f"redis://127.0.0.1:{port}"
    (jobs.folder / "jobs.csv").write_text("often:A,EVERY:1s\n")
    return port


@pytest.mark.parametrize("command", [DISPATCH, WORK, UP], ids=" ".join)
def test_it_waits_for_the_server_and_then_works(jobs, port, command):
    process = jobs.start(*command)
    wait_until(lambda: "waiting for it" in jobs.log())
    assert jobs.run("set", "a:A", "NOW").returncode == 1, "a command that ends does not wait"
    node = Node(jobs.folder / "node", port)
    try:
        wait_until(lambda: "Redis is up" in jobs.log())
        wait_until(lambda: jobs.list_rows("workers"))
        if command[0] != "dispatch":
            assert jobs.run("set", "a:A", "NOW").returncode == 0
            wait_until(lambda: "worked a:A" in jobs.log())
        process.terminate()
        assert process.wait(60) == 0
        assert jobs.log().count("waiting for it") == 1
    finally:
        node.kill()


@pytest.mark.parametrize("command", [WORK, UP], ids=" ".join)
def test_a_signal_ends_the_wait(jobs, port, command):
    process = jobs.start(*command)
    wait_until(lambda: "waiting for it" in jobs.log())
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "url", "said"),
    [
        (DISPATCH, "redis://:wrong@{place}", "refuses the login"),
        (WORK, "redis://nowhere!", "cannot reach Redis at nowhere!"),
        (UP, "redis://127.0.0.1:1/x", "bad url"),
    ],
)
def test_what_waiting_cannot_mend_ends_it_at_once(jobs, port, command, url, said):
    node = Node(jobs.folder / "node", port, password="right")
    try:
        jobs.environment["REDBIKE_URL"] = url.format(place=f"127.0.0.1:{port}")
        done = jobs.run(*command)
        assert done.returncode in (1, 2)
        assert said in done.stderr
        assert "wrong" not in done.stderr
        assert "waiting" not in done.stderr
    finally:
        node.kill()
