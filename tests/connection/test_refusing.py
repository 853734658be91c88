"""A server that refuses to write: who is asked says so, and not that nobody is there; and nothing vanishes."""

import contextlib
import os
import subprocess

import pytest

from redbike import Redbike, RoundRobin, Unreachable
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from tests.cli.refused import check_refused
from tests.commandline import Shell
from tests.connection.embedded import make_binary
from tests.pages import find_block
from tests.waiting import wait_until

BLOCKS, SIZE = 32, 65536  # of 512 bytes that a file may have; bytes that the server has before


@pytest.fixture
def shell(node, tmp_path):
    """The command line, on a server whose settings a test may change."""
    return Shell(tmp_path, f"redis://127.0.0.1:{node.port}")


def ask(shell, jobid):
    """What health says of the server, and why the job does not run."""
    health, why = shell.run("health"), shell.run("why", jobid)
    assert (health.returncode, why.returncode) == (1, 0)
    return health.stdout.partition(" | ")[0], why.stdout


def test_a_master_without_its_replicas_refuses_what_they_would_not_hear_of(node, shell):
    assert shell.run("set", "job:A", "NOW").returncode == 0
    for line in find_block("durability", "min-replicas-to-write").splitlines():
        node.client.config_set(*line.split())
    bike = Redbike(RoundRobin("A"), redis_config=shell.environment["REDBIKE_URL"])
    with pytest.raises(Unreachable, match="NOREPLICAS"):
        bike.set("other:A", "NOW")
    health, why = ask(shell, "job:A")
    assert health.startswith("PROBLEM: the server refuses all changes, so no job runs: Redis refuses: NOREPLICAS")
    assert "dispatcher" not in health
    assert "but the server takes no changes: Redis refuses: NOREPLICAS" in why


def test_a_server_whose_memory_is_full_refuses_new_jobs(node, shell):
    assert shell.run("set", "job:A", "NOW").returncode == 0
    node.client.config_set("maxmemory", 1)
    # Redis queues no command of a transaction then, not even one that reads.
    for command in ("jobs", "schedules", "agenda", "queues", "metrics", "tell job:A", "log", "fsck"):
        done = shell.run(*command.split())
        assert (done.returncode, done.stderr) == (0, ""), command
    health, why = ask(shell, "job:A")
    assert health.startswith("PROBLEM: the server refuses new jobs: Redis is out of memory: ")
    assert "no dispatcher is running" in health
    assert "no worker works this queue" in why


def is_written(client):
    return client.info("persistence")["aof_last_write_status"] == "ok"


@pytest.fixture
def here(tmp_path):
    """The embedded server of a folder, and a shell there."""
    server = EmbeddedServer(tmp_path / "files" / ".redbike")
    (tmp_path / "files").mkdir()
    yield server, Shell(tmp_path / "files", None)
    server.stop()


def test_a_server_that_finds_room_for_another_file_is_stopped_and_nothing_is_lost(here, monkeypatch):
    """A limit for the size of files is like a disk that has room again."""
    server, shell = here
    server.start()
    with connect(server.url) as client:
        client.set("large", os.urandom(SIZE))
    server.stop()
    monkeypatch.setenv("REDBIKE_SERVER", make_binary(shell.folder, before=f'trap "" XFSZ\nulimit -f {BLOCKS}\n'))
    server.start()
    monkeypatch.undo()
    assert shell.run("set", "job:A", "NOW").returncode == 0
    with connect(server.url) as client:
        wait_until(lambda: not is_written(client))
    health, why = ask(shell, "job:A")
    assert health.startswith("PROBLEM: the server refuses all changes, so no job runs: Redis refuses: MISCONF")
    assert "dispatcher" not in health
    assert "but the server takes no changes: Redis refuses: MISCONF" in why
    for command in (("set", "b:A", "@hourly"), ("unset", "job:A")):
        check_refused(shell.run(*command), 1, "MISCONF")
    assert shell.run("tell", "job:A").returncode == 0
    assert shell.run("server", "stop").stdout == "stopped\n"
    server.start()
    assert shell.run("tell", "job:A").returncode == 0


@pytest.fixture
def disk(here):
    """A small disk, on which the server has its folder; what fills it."""
    server, shell = here
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", shell.folder], capture_output=True).returncode:
        pytest.skip("no file system can be mounted")
    yield shell.folder / "filler"
    (shell.folder / "filler").unlink(missing_ok=True)
    server.stop()
    subprocess.run(["umount", "--lazy", shell.folder], check=True)


def fill(path, client, shell):
    """Fill the disk, until a change is acknowledged that cannot be written; return the jobs."""
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    with Redbike(RoundRobin("A"), redis_config=shell.environment["REDBIKE_URL"]) as bike:
        with contextlib.suppress(Unreachable):
            while is_written(client):
                bike.set(f"{client.hlen('redbike-schedules')}:A", "@hourly")
        wait_until(lambda: client.info("persistence")["aof_buffer_length"])
        return [jobid for jobid, _ in bike.get_schedules()]


@pytest.mark.acceptance
@pytest.mark.parametrize("stopped_by", ["server stop", "up"])
def test_a_server_whose_disk_is_full_is_not_stopped_and_nothing_is_lost(here, disk, stopped_by):
    server, shell = here
    shell.environment["REDBIKE_URL"] = f"embedded:{server.folder}"
    up = shell.start("up", "redbike:RoundRobin('A')") if stopped_by == "up" else server.start()
    wait_until(lambda: "version" in server.status())  # before, it has no socket
    with connect(server.url) as client:
        wait_until(lambda: up is True or len(client.keys("redbike-workers")))
        jobs = fill(disk, client, shell)
    if stopped_by == "up":
        up.terminate()
        assert up.wait(60) == 1
        said = shell.log()
    else:
        stopped = shell.run("server", "stop")
        assert (stopped.returncode, stopped.stdout, stopped.stderr.count("\n")) == (1, "", 1)
        said = stopped.stderr
    assert "is not stopped: it cannot write its append-only file, so the last changes would be lost" in said
    assert f"kill {server.status()['pid']}" in said
    disk.unlink()
    assert shell.run("server", "stop").stdout == "stopped\n"
    server.start()
    assert {line.partition(",")[0] for line in shell.run("schedules").stdout.splitlines()} == set(jobs)
