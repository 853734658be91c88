"""All that faults may strike at, in one place."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.chaos.farm import ROOT, Farm
from tests.chaos.group import Group
from tests.chaos.journal import Journal
from tests.chaos.link import is_open
from tests.chaos.server import Server
from tests.waiting import wait_until

TINY = "64k"  # the size of the file system that holds the timefile


class World:
    """The servers, the farm, the proxy, the timefile. No fault may last beyond `until` (monotonic)."""

    def __init__(self, folder: Path, server: Server | Group, farm: Farm, journal: Journal) -> None:
        self.folder = folder
        self.server = server
        self.farm = farm
        self.journal = journal
        self.until = float("inf")
        self.disk = folder / "disk"
        self.timefile = self.disk / "timefile"
        # Clients of several servers learn from these where the master is, so no proxy can stand in between.
        self.proxy = self._start_proxy() if isinstance(server, Server) else None

    @property
    def single(self) -> Server:
        """The server, where there is one."""
        assert isinstance(self.server, Server)
        return self.server

    @property
    def group(self) -> Group:
        """The servers, where there are several."""
        assert isinstance(self.server, Group)
        return self.server

    def _start_proxy(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.chaos.proxy", "proxy.sock", "redis.sock", "faults.log"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=self.folder, env=environment, **pipes)
        wait_until(lambda: is_open(self.folder / "proxy.sock"))
        return process

    def mount(self) -> None:
        """Put the timefile on a file system that is soon full; raises `CalledProcessError` if that is not allowed."""
        self.disk.mkdir(exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={TINY}", "tmpfs", self.disk], check=True, capture_output=True
        )

    def close(self) -> None:
        """End the proxy, and give the file system back."""
        if self.proxy and self.proxy.stdin:
            self.proxy.stdin.close()
            self.proxy.wait()
        if os.path.ismount(self.disk):
            subprocess.run(["umount", "--lazy", self.disk], check=True)

    def tell_proxy(self, **command: Any) -> None:
        """Give the proxy one command."""
        assert self.proxy
        assert self.proxy.stdin
        self.proxy.stdin.write((json.dumps(command) + "\n").encode())
        self.proxy.stdin.flush()

    def rest(self, seconds: float) -> None:
        """Wait, but not beyond the end of all faults."""
        time.sleep(max(0.0, min(seconds, self.until - time.monotonic())))
