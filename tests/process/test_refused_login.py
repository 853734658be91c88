"""A server refuses the login for a while, as after a failover to a replica without the users: nothing is done twice."""

import pytest

from tests.commandline import Shell, make_module
from tests.servers import Node, free_ports
from tests.waiting import wait_until

WORKER = make_module(
    "print('begins', jobid, flush=True)",
    "while jobid[0] == 's' and not os.path.exists('go'): time.sleep(0.01)",
    head="import os, time\n",
)
LOOPS = {
    "dispatch": ["dispatch"],
    "one": ["work", "jobs:Worker('A')"],
    "two": ["work", "--concurrency=2", "jobs:Worker('B')"],
    "tail": ["tail"],
}


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path / "node", *free_ports(1))
    yield node
    node.kill()


@pytest.fixture
def jobs(tmp_path, node):
    (tmp_path / "jobs.py").write_text(WORKER)
    jobs = Shell(tmp_path, f"redis://127.0.0.1:{node.port}")
    yield jobs
    jobs.close()


@pytest.mark.acceptance
@pytest.mark.parametrize("shards", [1, 2])
def test_processes_wait_and_keep_the_ends_of_their_runs(jobs, node, shards):
    (jobs.folder / ".redbike.conf").write_text(f"[redbike]\nshards: {shards}\n")
    for log, command in LOOPS.items():
        jobs.start(*command, log=log)
    wait_until(lambda: len(jobs.list_rows("workers")) == 3)
    for queue, log in (("A", "one"), ("B", "two")):
        assert jobs.run("set", f"slow:{queue}", "NOW").returncode == 0
        wait_until(lambda queue=queue, log=log: f"begins slow:{queue}" in jobs.log(log))
    node.client.config_set("requirepass", "secret")
    node.client.client_kill_filter(_type="normal")
    (jobs.folder / "go").touch()
    for log in LOOPS:
        wait_until(lambda log=log: "Redis refuses the login: it needs a password" in jobs.log(log))
    assert jobs.run("work", "jobs:Worker('A')").returncode == 1, "at its start it does not wait"
    node.client.config_set("requirepass", "")
    for queue, log in (("A", "one"), ("B", "two")):
        wait_until(lambda queue=queue: any("ok" in row for row in jobs.list_rows("runs", f"slow:{queue}")))
        assert jobs.log(log).count("begins slow") == 1
    for queue, log in (("A", "one"), ("B", "two")):
        assert jobs.run("set", f"next:{queue}", "NOW").returncode == 0
        wait_until(lambda queue=queue, log=log: f"begins next:{queue}" in jobs.log(log))
    assert [process.poll() for process in jobs.started] == [None] * len(LOOPS)
