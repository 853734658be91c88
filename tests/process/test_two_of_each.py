"""Two hosts with two versions of a file of commands, and a command line without a config: nothing waits unseen."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.commandline import ROOT, Shell
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

# What Python reads when it starts: the name of the host, and shorter durations.
HOST = """
import os
found = os.uname()
os.uname = lambda: os.uname_result((found[0], os.environ["TEST_HOST"], *found[2:]))
from redbike.loop import registration as presence
from redbike.worker import missing_commands
missing_commands.SHORT, missing_commands.FIRST, missing_commands.LONGEST = 0.05, 0.05, 0.2
presence.INTERVAL = 0.6
"""
MINUTE = 60.0


@pytest.fixture
def host(shell: Shell, tmp_path_factory: pytest.TempPathFactory):
    """Make the shell of another host, which has these commands and works the queue ``pool`` and one of its own."""
    url, made = shell.environment["REDBIKE_URL"], []

    def make(name: str, *commands: str) -> Shell:
        folder = tmp_path_factory.mktemp(name)
        (folder / "sitecustomize.py").write_text(HOST)
        (folder / ".redbike.conf").write_text(
            f"[redbike]\nworker: redbike.commands:Commands('pool:cron-{name}', 'commands.ini')\n"
        )
        write_commands(folder, *commands)
        own = Shell(folder, url)
        own.environment |= {"PYTHONPATH": f"{folder}:{ROOT}", "TEST_HOST": name}
        made.append(own)
        return own

    yield make
    for own in made:
        own.close()


def write_commands(folder: Path, *names: str) -> None:
    text = "[commands]\n" + "".join(f"{name} = sh -c 'echo $REDBIKE_JOBID >>{folder}/ran'\n" for name in names)
    (folder / "next").write_text(text)
    os.replace(folder / "next", folder / "commands.ini")


def ran(own: Shell) -> list[str]:
    path = own.folder / "ran"
    return sorted(path.read_text().split()) if path.exists() else []


def health(shell: Shell) -> list[str]:
    line = shell.run("health", "--max-lag=30s").stdout.partition(" | ")[0]
    return [] if line.startswith("OK") else line.strip().removeprefix("PROBLEM: ").split("; ")


def test_what_nobody_takes_is_named_within_a_minute(shell: Shell, host) -> None:
    """`shell` has no config."""

    def is_named(*problems: str) -> None:
        wait_until(lambda: health(shell) == [*problems], MINUTE)

    one, two = host("one", "both", "old"), host("two", "both", "new")
    one.start("up")
    worker = two.start("work")
    wait_until(
        lambda: {"one", "two"} <= {each["host"] for each in json.loads(shell.run("workers", "--format=json").stdout)}
    )
    is_named()
    # Whoever takes a job, it runs where its command is.
    jobs = [f"{name}:{number}:pool" for name in ("old", "new") for number in range(5)]
    for jobid in jobs:
        assert shell.run("set", jobid, "NOW").returncode == 0
    wait_until(lambda: (ran(one), ran(two)) == (jobs[:5], jobs[5:]), MINUTE)
    assert shell.run("failures").stdout == ""
    # A queue that nobody works, and a command that nobody has.
    stuck = ("both:cron-three", "typo:pool", "new:cron-one")
    for jobid in stuck:
        shell.run("set", jobid, "NOW")
    is_named(
        "work-cron-three has 1 job and no worker (first both:cron-three)",
        "new:cron-one waits, but no worker of work-cron-one has a command or function for 'new'",
        "typo:pool waits, but no worker of work-pool has a command or function for 'typo'",
    )
    wait_until(
        lambda: "has a command or function for 'typo'" in shell.run("why", "typo:pool").stdout
    )  # but for a moment each time
    for jobid in stuck:
        shell.run("unset", jobid)
    is_named()
    # The only host with a command goes away, and comes back with the other version of the file.
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(MINUTE) == 0
    shell.run("set", "new:pool", "NOW")
    is_named("new:pool waits, but no worker of work-pool has a command or function for 'new'")
    write_commands(one.folder, "both", "new")
    wait_until(lambda: "new:pool" in ran(one) and health(shell) == [], MINUTE)
