"""The image and the compose file of deploy/docker, on a real Docker daemon.

No registry is asked for an image. The base of the image and of the server is the Debian of the checks.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import ROOT, make_module
from tests.deploy.machine import AUTHORITIES, COMPOSE, copy_sources, run, try_bare
from tests.pages import find_section, list_commands
from tests.waiting import wait_until

BUILD, PASSWORD, UP, SET, LOGS = list_commands("deployment", find_section("deployment", "Containers"))
IMAGE, PROJECT, BASE = "redbike-check", "redbike-check", "redbike-check-base"
# The classic builder needs no further program.
ENVIRONMENT = {
    "DOCKER_BUILDKIT": "0",
    "COMPOSE_PROJECT_NAME": PROJECT,
    "REDBIKE_IMAGE": IMAGE,
    "VALKEY_IMAGE": BASE,
}
UID = "10001"
JOBS = make_module(
    "print('begins', jobid, flush=True)",
    "time.sleep(3 if jobid == 'long:A' else 0)",
    "print('ends', jobid, flush=True)",
    head="import time",
)


class Stack:
    """The services of compose.yaml, in a copy of its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def shell(self, command: str) -> str:
        """Run a command of the page, with the names of the checks."""
        command = command.replace("docker compose ", f"{COMPOSE} ")
        return run("sh", "-c", command, cwd=self.folder, env={**os.environ, **ENVIRONMENT}).stdout

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Run a command of Compose."""
        environment = {**os.environ, **ENVIRONMENT}
        return run(COMPOSE, *arguments, check=check, cwd=self.folder, env=environment).stdout

    def redbike(self, *arguments: str) -> str:
        return self.compose("run", "--rm", "--quiet", "client", *arguments)

    def containers(self, service: str) -> list[dict[str, Any]]:
        names = self.compose("ps", "--all", "--quiet", service).split()
        found: list[dict[str, Any]] = json.loads(run("docker", "inspect", *names).stdout)
        return found

    def states(self, service: str) -> list[dict[str, Any]]:
        return [each["State"] for each in self.containers(service)]


@contextmanager
def run_daemon() -> Iterator[None]:
    """Use the Docker daemon of this machine; if there is none, run one."""
    if is_there():
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="redbike-docker-"))
    address = f"unix://{folder}/socket"
    command = ["dockerd", "--host", address, "--pidfile", f"{folder}/pid"]
    command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    os.environ["DOCKER_HOST"] = address
    try:
        wait_until(lambda: process.poll() is not None or is_there(), timeout=60)
        assert is_there(), (folder / "log").read_text()[-1000:]
        yield
    finally:
        del os.environ["DOCKER_HOST"]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        print((folder / "log").read_text()[-5000:])
        # It leaves its network namespace mounted.
        run("umount", folder / "exec" / "netns" / "default", check=False)
        shutil.rmtree(folder)


def is_there() -> bool:
    return run("docker", "info", check=False).returncode == 0


def run_bare(stack: ExitStack, debian: Path) -> None:
    """Run a daemon until the stack is closed, and a program in a container with that Debian."""
    stack.enter_context(run_daemon())
    with subprocess.Popen(["tar", "-C", str(debian), "--one-file-system", "-c", "."], stdout=subprocess.PIPE) as tar:
        run("docker", "import", "--change", f"ENV PIP_CERT=/{AUTHORITIES}", "-", BASE, stdin=tar.stdout)
    run("docker", "run", "--rm", "--network=host", BASE, "true")


@pytest.fixture(scope="module")
def image(debian) -> Iterator[str]:
    """The image that the Dockerfile describes."""
    run("chroot", debian, "install", "--directory", "--owner=valkey", "/data")
    with ExitStack() as stack:
        try_bare("containers", lambda: run_bare(stack, debian))
        yield build_image(debian)


def build_image(debian: Path) -> str:
    options = f"--network=host --build-arg=PYTHON={BASE} -t {IMAGE} "
    assert "-t redbike " in BUILD
    sources = copy_sources(debian.with_name("image"))
    run("sh", "-c", BUILD.replace("-t redbike ", options), cwd=sources, env={**os.environ, **ENVIRONMENT})
    return IMAGE


@pytest.fixture(scope="module")
def stack(image, tmp_path_factory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("compose") / "docker"
    shutil.copytree(ROOT / "deploy" / "docker", folder)
    (folder / "app" / "jobs.py").write_text(JOBS)
    stack = Stack(folder)
    try:
        stack.shell(PASSWORD)
        stack.shell(UP)
        yield stack
        stack.compose("logs")
    finally:
        stack.compose("down", "--volumes", "--timeout", "10", check=False)


def docker(*arguments: str, check: bool = True) -> str:
    return run("docker", *arguments, check=check).stdout


def test_without_a_command_the_image_prints_the_help(image):
    assert docker("run", "--rm", "--read-only", image).startswith("Redbike runs jobs")


def test_the_image_runs_as_nobody_and_has_nothing_of_the_sources(image):
    options = ("run", "--rm", "--read-only", "--cap-drop=ALL", "--entrypoint=sh", image, "-c")
    assert docker(*options, "id -u").strip() == UID
    assert docker(*options, "ls /src /app 2>/dev/null; redbike --version >&2").strip() == "/app:"


def test_a_container_that_completes_no_loop_is_unhealthy(image):
    container = docker(
        "run", "--detach", "--health-interval=1s", "--health-start-period=1s", "--entrypoint=sleep", image, "600"
    ).strip()
    try:
        inspect = ("inspect", "--format", "{{.State.Health.Status}}", container)
        wait_until(lambda: docker(*inspect).strip() == "unhealthy", timeout=60)
    finally:
        docker("rm", "--force", container)


def test_all_services_are_healthy_and_work(stack):
    assert len(stack.containers("dispatcher")) == 2
    assert len(stack.containers("worker")) == 3
    for service in ("valkey", "dispatcher", "worker", "monitor"):
        for state in stack.states(service):
            assert state["Health"]["Status"] == "healthy"
    ask = "import urllib.request; print(urllib.request.urlopen('http://monitor:9199/metrics').read().decode())"
    figures = stack.compose("exec", "worker", "/opt/redbike/bin/python", "-c", ask)
    assert 'redbike_processes{kind="worker",prefix="redbike",state="alive"} 3.0' in figures
    stack.shell(SET)
    wait_until(lambda: stack.shell(LOGS).count("ends hello:A") >= 2, timeout=60)
    stack.redbike("unset", "hello:A")
    assert stack.redbike("fsck") == ""


def test_the_server_is_as_the_page_says(stack):
    expected = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "dir": "/data"}
    for name, value in expected.items():
        assert stack.compose("exec", "valkey", "valkey-cli", "config", "get", name).split() == [name, value]
    assert "NOAUTH" in stack.compose("exec", "valkey", "env", "-u", "REDISCLI_AUTH", "valkey-cli", "get", "x")
    [container] = stack.containers("valkey")
    password = (stack.folder / ".env").read_text().partition("=")[2].strip()
    assert len(password) == 48
    assert password not in docker("top", str(container["Id"]))


def test_the_containers_can_write_nothing_but_tmp(stack):
    for service in ("dispatcher", "worker"):
        write = "for path in /app/x /opt/redbike/x /x /tmp/x; do touch $path 2>/dev/null && echo $path; done; id -u"
        assert stack.compose("exec", service, "sh", "-c", write).split() == ["/tmp/x", UID]
        assert int(stack.compose("exec", service, "grep", "CapEff", "/proc/1/status").split()[1], 16) == 0


def test_what_a_command_leaves_behind_is_reaped(stack):
    stack.compose("exec", "worker", "sh", "-c", "sleep 0.1 &")
    # A zombie still has its name.
    wait_until(lambda: "(sleep)" not in stack.compose("exec", "worker", "sh", "-c", "cat /proc/[0-9]*/stat"), 30)


def test_a_worker_ends_its_job_on_sigterm(stack):
    stack.redbike("set", "long:A", "NOW")
    wait_until(lambda: "begins long:A" in stack.compose("logs", "worker"), timeout=60)
    stack.compose("stop", "worker")
    assert "ends long:A" in stack.compose("logs", "worker")
    assert [state["ExitCode"] for state in stack.states("worker")] == [0, 0, 0]
    stack.compose("start", "worker")


def test_it_ends_on_sigterm_also_while_it_starts(image):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"REDBIKE_URL=redis://127.0.0.1:{silent.getsockname()[1]}?socket_timeout=60"
        container = docker("run", "--detach", "--network=host", "--env", url, image, "dispatch").strip()
        try:
            # It waits for the reply of a server that says nothing.
            silent.settimeout(30)
            connection, _ = silent.accept()
            with connection:
                docker("stop", "--time=30", container)
            assert docker("inspect", "--format", "{{.State.ExitCode}}", container).strip() == str(128 + signal.SIGTERM)
        finally:
            docker("rm", "--force", container)


def test_a_dispatcher_that_dies_starts_again_and_the_other_goes_on(stack):
    first, _ = stack.containers("dispatcher")
    os.kill(int(first["State"]["Pid"]), signal.SIGKILL)
    stack.redbike("set", "after:A", "NOW")
    wait_until(lambda: "ends after:A" in stack.compose("logs", "worker"), timeout=60)
    wait_until(lambda: [state["Status"] for state in stack.states("dispatcher")] == ["running"] * 2, timeout=60)
    assert sorted(each["RestartCount"] for each in stack.containers("dispatcher")) == [0, 1]


def test_data_outlive_the_server(stack):
    stack.redbike("set", "yearly:A", "@yearly")
    [server] = stack.states("valkey")
    os.kill(int(server["Pid"]), signal.SIGKILL)
    wait_until(lambda: stack.states("valkey")[0]["Health"]["Status"] == "healthy", timeout=120)
    assert "yearly:A" in stack.redbike("schedules")
    assert stack.redbike("fsck") == ""


def test_a_halt_restarts_all_and_stop_stops_them(stack):
    services = ("dispatcher", "worker")
    before = {each["Id"]: each["RestartCount"] for name in services for each in stack.containers(name)}
    stack.redbike("control", "HALT")

    def have_restarted():
        found = [each for name in services for each in stack.containers(name)]
        return all(each["RestartCount"] > before[each["Id"]] and each["State"]["Running"] for each in found)

    wait_until(have_restarted, timeout=60)
    wait_until(
        lambda: {each["Health"]["Status"] for name in services for each in stack.states(name)} == {"healthy"}, 90
    )
    stack.compose("stop", *services)
    assert {state["Status"] for each in services for state in stack.states(each)} == {"exited"}
    assert {state["ExitCode"] for each in services for state in stack.states(each)} == {0}
