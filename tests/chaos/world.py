"""All that faults may strike at, in one place."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.chaos.farm import ROOT, Farm
from tests.chaos.journal import Journal
from tests.chaos.server import Server

TINY = "64k"  # the size of the file system that holds the timefile


class World:
    """The server, the farm, the proxy, the timefile. No fault may last beyond `until` (monotonic)."""

    def __init__(self, folder: Path, server: Server, farm: Farm, journal: Journal) -> None:
        self.folder = folder
        self.server = server
        self.farm = farm
        self.journal = journal
        self.until = float("inf")
        self.disk = folder / "disk"
        self.timefile = self.disk / "timefile"
        command = [sys.executable, "-m", "tests.chaos.proxy", "proxy.sock", "redis.sock", "faults.log"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        self.proxy = subprocess.Popen(command, cwd=folder, env=environment, **pipes)

    def mount(self) -> None:
        """Put the timefile on a file system that is soon full; raises `CalledProcessError` if that is not allowed."""
        self.disk.mkdir(exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={TINY}", "tmpfs", self.disk], check=True, capture_output=True
        )

    def close(self) -> None:
        """End the proxy, and give the file system back."""
        assert self.proxy.stdin
        self.proxy.stdin.close()
        self.proxy.wait()
        if os.path.ismount(self.disk):
            subprocess.run(["umount", "--lazy", self.disk], check=True)

    def tell_proxy(self, **command: Any) -> None:
        """Give the proxy one command."""
        assert self.proxy.stdin
        self.proxy.stdin.write((json.dumps(command) + "\n").encode())
        self.proxy.stdin.flush()

    def rest(self, seconds: float) -> None:
        """Wait, but not beyond the end of all faults."""
        time.sleep(max(0.0, min(seconds, self.until - time.monotonic())))
