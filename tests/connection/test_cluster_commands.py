"""The command line on a cluster."""

import pytest

from tests.commandline import Shell, make_module
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

FAILS = "if jobid.startswith('fails') and not os.path.exists('mended'): raise ValueError('not today')"
WORKER = make_module(FAILS, head="import os")


def test_every_command_does_its_work_on_a_cluster(tmp_path, cluster, prefix):
    shell = Shell(tmp_path, cluster.url)
    (tmp_path / ".redbike.conf").write_text(f"[redbike]\nprefix: {prefix}\nworker: jobs:Worker('A')\n")
    (tmp_path / "jobs.py").write_text(WORKER)
    (tmp_path / "jobs.csv").write_text("loaded:A,EVERY:1h\n")

    def output(line: str, status: int = 0) -> str:
        done = shell.run(*line.split())
        assert done.returncode == status, done.stderr
        return done.stdout

    def events() -> dict[str, str]:
        return dict(line.split(",")[:2] for line in output("statuses").splitlines())

    up = shell.start("up")
    output("set job:A NOW")
    output("set fails:A NOW")
    output("load jobs.csv")
    wait_until(lambda: events() == {"job:A": "STP", "fails:A": "DIE", "loaded:A": "TML"}, 30)
    assert '"jobid": "fails:A"' in output("failures")
    (tmp_path / "mended").touch()
    output("run fails:A")
    wait_until(lambda: events()["fails:A"] == "STP", 30)
    assert output("health job:*").startswith("OK: ")
    assert output("next --count=1 loaded:A").startswith("Every hour")
    output("unset fails:A")
    assert sorted(output("schedules").splitlines())[0].startswith("job:A,")
    output("control HALT")
    assert up.wait(60) == 0
    # The timeline is lost behind Redbike's back.
    key = f"{{{prefix}}}-timeline"
    assert cluster.master_of(key).client.delete(key) == 1
    assert "'loaded:A'" in output("fsck", status=1)
    assert "repaired: put on the timeline" in output("fsck --repair")
    assert output("fsck") == ""
    shell.close()
