"""The command line on a cluster: each command that needs a server."""

import json

import pytest

from tests.commandline import Shell
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = """
import os
import redbike


class Worker(redbike.RoundRobin):
    def work(self, jobid):
        if jobid.startswith("fails") and not os.path.exists("mended"):
            raise ValueError("not today")
"""


def test_every_command_does_its_work_on_a_cluster(tmp_path, cluster, prefix):
    shell = Shell(tmp_path, cluster.url)
    (tmp_path / ".redbike.conf").write_text(f"[redbike]\nprefix: {prefix}\nworker: jobs:Worker('A')\n")
    (tmp_path / "jobs.py").write_text(WORKER)
    (tmp_path / "jobs.csv").write_text("loaded:A,EVERY:1h\ngone:A,EVERY:1h\n")

    def output(*words: str, status: int = 0) -> str:
        done = shell.run(*words)
        assert (done.returncode, done.stderr) == (status, ""), words
        return done.stdout

    def event(jobid: str) -> str:
        return dict(line.split(",")[:2] for line in output("statuses").splitlines()).get(jobid, "")

    output("set", "job:A", "NOW")
    output("set", "fails:A", "NOW")
    assert shell.run("load", "jobs.csv").returncode == 0
    assert sorted(output("schedules").splitlines())[0].startswith("fails:A,")
    assert json.loads(output("tell", "loaded:A"))["status"].startswith("TML:")
    assert output("next", "--count=1", "loaded:A").startswith("Every hour")
    processes = [shell.start("dispatch"), shell.start("work")]
    wait_until(lambda: (event("job:A"), event("fails:A")) == ("STP", "DIE"), 30)
    assert json.loads(output("failures"))["jobid"] == "fails:A"
    (tmp_path / "mended").touch()
    done = shell.run("run", "fails:A")
    assert (done.returncode, "fails:A: a new try of the occurrence" in done.stderr) == (0, True)
    assert output("health", "job:*").startswith("OK: ")
    wait_until(lambda: event("fails:A") == "STP", 30)
    assert output("failures") == ""
    assert shell.run("unset", "gone:A").stderr.startswith("redbike: gone:A is a row of ")
    assert shell.run("unset", "gone:A").returncode == 1
    assert output("fsck") == ""
    output("control", "HALT")
    assert [process.wait(20) for process in processes] == [0, 0]
    damage_and_repair(cluster, prefix, output)
    up = shell.start("up")
    wait_until(lambda: event("job:A") == "STP", 30)
    output("control", "HALT")
    assert up.wait(20) == 0
    shell.close()


def damage_and_repair(cluster, prefix, output) -> None:
    """Lose the timeline behind Redbike's back."""
    output("set", "job:A", "NOW")
    key = f"{{{prefix}}}-timeline"
    assert cluster.master_of(key).client.delete(key) == 1
    assert "'loaded:A'" in output("fsck", status=1)
    assert "repaired: put on the timeline" in output("fsck", "--repair")
    assert output("fsck") == ""
