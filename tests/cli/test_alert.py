"""``redbike alert --test`` says what has become of a test; and what people are told, by real processes."""

import json
import re

import pytest

from tests.pinged import serve
from tests.waiting import wait_until

# Minutes are seconds here. `told` has what was sent, a line for each alert.
WORKER = """
import os, time
from redbike import RoundRobin
from redbike.loop.alerts import thread

thread.LOOK, thread.GATHER, thread.SPACING = 0.05, 0.1, 0.2
thread.WORKER_LOOK, thread.NO_DISPATCHER, thread.CLAIM_TIMEOUT = 0.1, 1.0, 2.0


class Worker(RoundRobin):
    def work(self, jobid):
        name = jobid.partition("-")[0]
        if name == "bad" and not os.path.exists("fixed"):
            raise OSError("disk full")
        while name == "slow" and not os.path.exists("fixed"):
            time.sleep(0.02)
"""
TELL = """#!/bin/sh
cat > "new.$$"
cat "new.$$" >> told
"""
COMMAND = ("jobs:Worker('A')",)


def configure(shell, alert, **more):
    settings = {"alert": alert, "on-error": "reschedule", **more}
    text = "".join(f"{name}: {value}\n" for name, value in settings.items())
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\n{text}")


@pytest.mark.parametrize(
    ("alert", "status", "said"),
    [
        ("true secret", 0, "the test was sent to 'true': exit status 0"),
        ("sh -c 'echo no luck; exit 4'", 1, "redbike: the test could not be sent to 'sh': exit status 4: no luck"),
        ("http://127.0.0.1:1/secret", 1, r"redbike: the test could not be sent to http://127.0.0.1:1/…: .*"),
        ("", 2, "redbike: no alert is set: .*"),
        ("ftp://host/secret", 2, r"redbike: bad alert 'ftp://host/…': https://, .* are needed"),
    ],
)
def test_a_test_says_what_has_become_of_it(shell, alert, status, said):
    configure(shell, alert)
    done = shell.run("alert", "--test")
    assert done.returncode == status
    assert re.fullmatch(said, (done.stdout + done.stderr).strip())
    assert "secret" not in done.stdout + done.stderr


def test_it_needs_no_server_and_takes_the_environment(shell):
    with serve() as pinged:
        shell.environment |= {"REDBIKE_ALERT": f"slack+{pinged.url}/x", "REDBIKE_URL": "redis://127.0.0.1:1"}
        assert shell.run("alert", "--test").returncode == 0
    assert "this is a test from" in json.loads(pinged.posted[0][1])["text"]


def read_told(shell):
    """What was told, in order: the alert, and the job. A message that was sent twice, by one that died, counts once."""
    path = shell.folder / "told"
    lines = map(json.loads, dict.fromkeys(path.read_text().splitlines())) if path.exists() else ()
    return [(line["alert"], line.get("jobid", "")) for line in lines]


@pytest.mark.acceptance
def test_of_a_world_whose_dispatchers_are_killed_each_alert_is_told_once(jobs):
    (jobs.folder / "tell").write_text(TELL)
    (jobs.folder / "tell").chmod(0o755)
    configure(jobs, "./tell")
    bad, slow = [f"bad-{n}:A" for n in range(20)], [f"slow-{n}:A" for n in range(3)]
    # Nobody misses an occurrence that comes once an hour, however long no dispatcher is there.
    for jobid in bad:
        jobs.bike.set(jobid, "EVERY:1h")
        jobs.bike.run(jobid)
    for jobid in slow:
        jobs.bike.set(jobid, "NOW", finish_within="0.5s")
    jobs.bike.set("well:A", "NOW", start_within="10m")
    dispatchers = [jobs.start("dispatch", *COMMAND) for _ in range(2)]
    jobs.start("work", *COMMAND, "--concurrency=8")
    expected = sorted([*(("failed", jobid) for jobid in bad), *(("late", jobid) for jobid in slow)])
    for number in range(6):
        if number == 3:
            wait_until(lambda: read_told(jobs), 60)
        dispatchers[number % 2].kill()
        dispatchers[number % 2].wait()
        dispatchers[number % 2] = jobs.start("dispatch", *COMMAND)
    wait_until(lambda: {*expected} <= {*read_told(jobs)}, 60)
    assert sorted(read_told(jobs)) == expected
    (jobs.folder / "fixed").touch()
    for jobid in bad:
        jobs.bike.run(jobid)
    well = [("recovered", jobid) for jobid in [*bad, *slow]]
    wait_until(lambda: {*well} <= {*read_told(jobs)}, 60)
    assert sorted(read_told(jobs)) == sorted([*expected, *well])
