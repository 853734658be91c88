"""What docs/deployment.rst says of backups and upgrades: its commands, on real servers."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redbike import Redbike, RoundRobin
from tests.commandline import Shell
from tests.pages import find_section, list_commands
from tests.servers import Node, free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

CONFIG = "[redbike]\nworker: jobs:Worker('A:slow')\n"
JOBS = """
import time
from pathlib import Path
from redbike import RoundRobin, current_run

class Worker(RoundRobin):
    def timeout(self, queue_name):
        return 60

    def work(self, jobid):
        print(f"worked {jobid} {current_run().due:.0f}", flush=True)
        while jobid == "flying:slow" and not Path("release").exists():
            time.sleep(0.05)
"""


def part(title: str) -> list[str]:
    """The commands of a subsection about backups."""
    text = find_section("deployment", "Backup and restore")
    return list_commands("deployment", text.split(f"\n{title}\n~~~")[1].split("\n~~~")[0])


class Farm:
    """A server that keeps a log, a worker class and a config file, all in one folder; commands run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (port,) = free_ports(1)
        self.server = Node(folder, port, "--save", "", "--appendonly", "yes")
        self.shell = Shell(folder, f"redis://127.0.0.1:{port}/0")
        (folder / ".redbike.conf").write_text(CONFIG)
        (folder / "jobs.py").write_text(JOBS)
        (folder / "bin").mkdir()
        (folder / "bin" / "redbike").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m redbike "$@"\n')
        (folder / "bin" / "redbike").chmod(0o755)
        self.shell.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(self, command: str) -> str:
        """Run a command of the page, with the server of this folder."""
        words = shlex.split(command)
        match words[0]:
            case "valkey-cli":
                self.server.client.execute_command(*words[1:])
                wait_until(self.is_saved, timeout=30)
                return ""
            case "valkey-server":
                kept = self.server.options[: self.server.options.index("--appendonly")]
                self.server.options = [*kept, *words[1:]]
                self.server.start()
                return ""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.shell.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def is_saved(self) -> bool:
        """The server has saved what it was to save."""
        state = self.server.client.info("persistence")
        assert state["rdb_last_bgsave_status"] == state["aof_last_bgrewrite_status"] == "ok"
        names = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled")
        return not any(state[name] for name in names)

    def lose_data(self) -> None:
        """Kill the server, and remove its data but for the backup."""
        self.server.kill()
        shutil.rmtree(self.folder / "appendonlydir")
        (self.folder / "dump.rdb").unlink(missing_ok=True)

    def status(self, jobid: str) -> str:
        """The event in the status of a job."""
        return str((self.server.client.hget("redbike-statuses", jobid) or b"").decode().partition(":")[0])

    def set(self, jobid: str, schedule: str, *more: str) -> None:
        done = self.shell.run("set", jobid, schedule, *more)
        assert done.returncode == 0, done.stderr

    def stop(self, *processes: "subprocess.Popen[bytes]") -> None:
        for process in processes:
            process.terminate()
            assert process.wait(timeout=30) == 0

    def close(self) -> None:
        self.shell.close()
        self.server.kill()
        self.server.client.close()


@pytest.fixture
def farm(tmp_path) -> Iterator[Farm]:
    farm = Farm(tmp_path / "farm")
    yield farm
    farm.close()


def test_schedules_are_restored_to_an_empty_server_and_nothing_runs_again(farm):
    [save], [load] = [[each for each in part("Schedules") if name in each] for name in ("schedules --full >", "load")]
    assert part("Schedules") == [save, load]
    farm.set("done:A", "NOW")
    farm.set("later:A", "@yearly")
    farm.set("every:A", "EVERY:1h")
    worker = farm.shell.start("work")
    dispatcher = farm.shell.start("dispatch")
    wait_until(lambda: farm.status("done:A") == "STP", timeout=30)
    farm.run(save)
    before = farm.run("redbike schedules")
    farm.stop(worker, dispatcher)
    farm.server.client.flushall()
    farm.run(load)
    assert farm.run("redbike schedules") == before
    assert {jobid: farm.status(jobid) for jobid in ("done:A", "later:A", "every:A")} == {
        "done:A": "STP",
        "later:A": "TML",
        "every:A": "TML",
    }
    assert farm.run("redbike fsck") == ""
    due = farm.server.client.zrange("redbike-timeline", 0, -1, withscores=True)
    # A file that is loaded again changes nothing.
    farm.run(load)
    assert farm.server.client.zrange("redbike-timeline", 0, -1, withscores=True) == due


def test_a_copy_of_the_data_is_restored_and_jobs_go_on_where_they_were(farm):
    shown = part("Data")
    middle = next(number for number, command in enumerate(shown) if command.startswith("cp backup.rdb"))
    farm.set("done:A", "NOW")
    dispatcher, worker = farm.shell.start("dispatch"), farm.shell.start("work")
    wait_until(lambda: farm.status("done:A") == "STP", timeout=30)
    for jobid, event in (("flying:slow", "WRK"), ("waiting:A", "ENQ")):
        farm.set(jobid, "NOW")
        wait_until(lambda jobid=jobid, event=event: farm.status(jobid) == event, timeout=30)
    for jobid, schedule in (("later:A", "@yearly"), ("hourly:A", "EVERY:1h"), ("tick:slow", "EVERY:1s")):
        farm.set(jobid, schedule)
    [(_, score)] = [pair for pair in due_times(farm) if pair[0] == b"hourly:A"]
    for command in shown[:middle]:
        farm.run(command)
    # After the backup these jobs end, and one is set.
    (farm.folder / "release").touch()
    wait_until(lambda: farm.status("waiting:A") == "STP" and len(dues(farm, "log", "tick:slow")) >= 2, timeout=30)
    farm.set("new:A", "@yearly")
    farm.stop(dispatcher, worker)
    farm.lose_data()
    for command in shown[middle:]:
        # Among them is fsck, which finds no problem.
        assert farm.run(command) == ""
    events = {jobid: farm.status(jobid) for jobid in ("done:A", "later:A", "flying:slow", "waiting:A", "new:A")}
    assert events == {"done:A": "STP", "later:A": "TML", "flying:slow": "WRK", "waiting:A": "ENQ", "new:A": ""}
    assert (b"hourly:A", score) in due_times(farm)
    farm.shell.start("dispatch")
    farm.shell.start("work", log="again")
    wait_until(lambda: farm.status("waiting:A") == farm.status("flying:slow") == "STP", timeout=60)
    assert [len(dues(farm, "again", jobid)) for jobid in ("flying:slow", "waiting:A", "done:A")] == [1, 1, 0]
    # It came due after the backup: one of these occurrences runs again, and the others count as skipped.
    wait_until(lambda: len(dues(farm, "again", "tick:slow")) >= 2, timeout=30)
    before, (first, second, *_) = dues(farm, "log", "tick:slow"), dues(farm, "again", "tick:slow")
    assert first in before
    assert second > before[-1]
    assert farm.run("redbike fsck") == ""
    check_log_is_on(farm)


def check_log_is_on(farm: Farm) -> None:
    """What was done since the restore outlives the server."""
    farm.server.client.config_set("appendfsync", "always")
    farm.set("last:A", "@yearly")
    farm.server.kill()
    farm.server.options += ["--appendonly", "yes"]
    farm.server.start()
    assert farm.status("last:A") == "TML"


def test_a_server_with_a_log_does_not_read_the_snapshot(farm):
    farm.set("later:A", "@yearly")
    for command in part("Data")[:3]:
        farm.run(command)
    farm.lose_data()
    farm.run("cp backup.rdb dump.rdb")
    farm.server.start()
    assert farm.status("later:A") == ""


def test_processes_are_replaced_while_jobs_come_due_and_each_job_runs_once(farm):
    bike = Redbike(RoundRobin("A"), redis_config=farm.shell.environment["REDBIKE_URL"])
    jobs: list[str] = []

    def wait(condition: Callable[[], object]) -> None:
        """Wait for it, and set jobs meanwhile that are due in a moment."""

        def holds() -> object:
            jobs.append(f"job{len(jobs)}:A")
            bike.set(jobs[-1], f"AT:{time.time() + 0.1}")
            return condition()

        wait_until(holds, timeout=60)

    def worked() -> list[str]:
        lines = (farm.shell.log("old") + farm.shell.log("new")).splitlines()
        return [line.split()[1] for line in lines if line.startswith("worked ") and len(line.split()) == 3]

    dispatcher, worker = farm.shell.start("dispatch"), farm.shell.start("work", log="old")
    wait(lambda: len(worked()) >= 10)
    clients = len(farm.server.client.client_list())
    farm.shell.start("dispatch")
    wait(lambda: len(farm.server.client.client_list()) > clients)
    dispatcher.terminate()
    wait(lambda: dispatcher.poll() == 0)
    farm.shell.start("work", log="new")
    wait(lambda: "worked" in farm.shell.log("new"))
    worker.terminate()
    wait(lambda: worker.poll() == 0)
    wait_until(lambda: len(worked()) >= len(jobs), timeout=60)
    assert sorted(worked()) == sorted(jobs)
    bike.client.close()


def due_times(farm: Farm) -> list[tuple[bytes, float]]:
    return list(farm.server.client.zrange("redbike-timeline", 0, -1, withscores=True))


def dues(farm: Farm, log: str, jobid: str) -> list[int]:
    """The due times for which the job ran, as the worker with this log has printed them."""
    # The last line may not be complete.
    lines = farm.shell.log(log).rpartition("\n")[0].splitlines()
    return [int(line.split()[2]) for line in lines if line.startswith(f"worked {jobid} ")]
