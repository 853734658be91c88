"""The command line as a user types it: real processes, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class Shell:
    """Runs ``redbike`` in `folder`; `url` is the server, None for the embedded one of the folder."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
        if url:
            self.environment["REDBIKE_URL"] = url
        self.started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        return subprocess.run(
            self.command(arguments),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            errors="surrogateescape",
            **more,
        )

    def start(self, *arguments: str, log: str = "log") -> "subprocess.Popen[str]":
        """Run it beside the test; what it prints goes to the file `log`."""
        with open(self.folder / log, "a") as file:
            process = subprocess.Popen(
                self.command(arguments), cwd=self.folder, env=self.environment, stdout=file, stderr=file, text=True
            )
        self.started.append(process)
        return process

    def log(self, log: str = "log") -> str:
        """What was printed there so far."""
        path = self.folder / log
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()

    def command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "redbike", *arguments]
