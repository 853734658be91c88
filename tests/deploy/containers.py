"""A Docker daemon for the checks, and the image that they begin with. No registry is asked for one."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.machine import AUTHORITIES, run
from tests.waiting import wait_until

BASE = "redbike-check-base"


@contextlib.contextmanager
def run_daemon() -> Iterator[None]:
    """Use the Docker daemon of this machine; if there is none, run one."""
    if run("docker", "info", check=False).returncode == 0:
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="redbike-docker-"))
    socket = f"unix://{folder}/socket"
    command = ["dockerd", "--host", socket, "--pidfile", f"{folder}/pid"]
    command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    os.environ["DOCKER_HOST"] = socket
    try:
        wait_until(lambda: process.poll() is not None or _answers(), timeout=60)
        assert _answers(), (folder / "log").read_text()[-1000:]
        yield
    finally:
        del os.environ["DOCKER_HOST"]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        print((folder / "log").read_text()[-5000:])
        # It leaves its network namespace mounted.
        run("umount", folder / "exec" / "netns" / "default", check=False)
        shutil.rmtree(folder)


def _answers() -> bool:
    return run("docker", "info", check=False).returncode == 0


def import_base(debian: Path) -> None:
    """Make an image of the Debian in a folder."""
    with subprocess.Popen(["tar", "-C", str(debian), "--one-file-system", "-c", "."], stdout=subprocess.PIPE) as tar:
        run("docker", "import", "--change", f"ENV PIP_CERT=/{AUTHORITIES}", "-", BASE, stdin=tar.stdout)
