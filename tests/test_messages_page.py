"""Each message that docs/failures.rst explains is what Redbike says, as somebody comes upon it."""

import re

import pytest

from redbike import Redbike, RoundRobin
from tests.commandline import Shell
from tests.pages import find_section
from tests.servers import Node, free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

MESSAGES = re.findall(r"^``(.+)``$", find_section("failures", "What a message means"), re.MULTILINE)


class Failing(RoundRobin):
    def work(self, jobid):
        raise OSError("disk full")


def ask(shell, *arguments):
    ended = shell.run(*arguments)
    return ended.stdout + ended.stderr


def ask_in_vain(shell, client):
    return ask(Shell(shell.folder, f"redis://localhost:{free_ports(1)[0]}"), "statuses")


def ask_another(*arguments, login=":secret@", options=()):
    """Ask a server with these options and a password."""

    def ask_it(shell, client):
        [port] = free_ports(1)
        node = Node(shell.folder / "server", port, *options, password="secret")
        try:
            return ask(Shell(shell.folder, f"redis://{login}localhost:{port}"), *arguments)
        finally:
            node.kill()

    return ask_it


def let_a_job_fail(shell, client):
    with Redbike(Failing("A"), redis_config=shell.environment["REDBIKE_URL"]) as bike:
        bike.set("job:A", "NOW")
        bike.work_one()
    return ask(shell, "why", "job:A")


def leave_a_job(shell, client):
    (shell.folder / "commands.ini").write_text("[commands]\nbackup = true\n")
    shell.start("work", "redbike.commands:Commands('A', 'commands.ini')")
    shell.run("set", "job:A", "NOW")
    wait_until(lambda: "job:A: left to other workers" in shell.log())
    # A worker logs that before the server has it.
    said = list[str]()
    wait_until(lambda: said.append(ask(shell, "why", "job:A")) or "no worker of" in said[-1])
    return said[-1]


def run(*commands, files=None):
    def run_all(shell, client):
        for name, text in (files or {}).items():
            (shell.folder / name).write_text(text)
        return [ask(shell, *command) for command in commands][-1]

    return run_all


SET = ("set", "job:A", "NOW")
WAYS = [
    ask_in_vain,
    ask_another("statuses", login=""),
    ask_another(*SET, options=("--maxmemory", "1mb")),
    ask_another(*SET, options=("--save", "", "--appendonly", "no")),
    run(SET, ("why", "job:A")),
    run(("health",)),
    run(SET, ("health",)),
    leave_a_job,
    let_a_job_fail,
    run(("set", "job:A", "every day")),
    run(("set", "job:", "NOW")),
    run(("work", "nowhere:Worker('A')")),
    run(("load", "jobs.csv"), files={"jobs.csv": "job:A,0 3,4 * * *\n"}),
]


@pytest.mark.parametrize(("message", "way"), list(zip(MESSAGES, WAYS, strict=True)), ids=MESSAGES)
def test_a_message_is_what_is_said(shell, client, message, way):
    said = " ".join(way(shell, client).split())
    pattern = ".*".join(map(re.escape, message.split("…")))
    assert re.search(pattern, said), said
