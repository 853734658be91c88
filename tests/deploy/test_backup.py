"""What docs/deployment.rst says of backups: its commands, on real servers."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commandline import Shell
from tests.pages import find_section, list_commands, run_line
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
        done = run_line(self.shell, command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def is_saved(self) -> bool:
        """The server has saved what it was to save."""
        state = self.server.client.info("persistence")
        assert state["rdb_last_bgsave_status"] == state["aof_last_bgrewrite_status"] == "ok"
        names = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled")
        return not any(state[name] for name in names)

    def status(self, jobid: str) -> str:
        """The event in the status of a job."""
        return str((self.server.client.hget("redbike-statuses", jobid) or b"").decode().partition(":")[0])

    def set(self, jobid: str, schedule: str) -> None:
        self.shell.read("set", jobid, schedule)

    def stop(self, *processes) -> None:
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
    assert [farm.status(jobid) for jobid in ("done:A", "later:A", "every:A")] == ["STP", "TML", "TML"]
    assert farm.run("redbike fsck") == ""
    due = due_times(farm)
    # A file that is loaded again changes nothing.
    farm.run(load)
    assert due_times(farm) == due


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
    farm.server.kill()
    shutil.rmtree(farm.folder / "appendonlydir")
    (farm.folder / "dump.rdb").unlink(missing_ok=True)
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


def due_times(farm: Farm) -> list[tuple[bytes, float]]:
    return list(farm.server.client.zrange("redbike-timeline", 0, -1, withscores=True))


def dues(farm: Farm, log: str, jobid: str) -> list[int]:
    """The due times for which the job ran, as the worker with this log has printed them."""
    # The last line may not be complete.
    lines = farm.shell.log(log).rpartition("\n")[0].splitlines()
    return [int(line.split()[2]) for line in lines if line.startswith(f"worked {jobid} ")]
