"""Virtual environments for the peers, one each: they do not agree on a version of redis-py."""

import subprocess
import sys
import venv
from pathlib import Path

from bench.site import HERE

REQUIREMENTS = HERE / "requirements-peers.txt"


def install(folder: Path, names: list[str]) -> None:
    """Make or update the environment of each peer. One that cannot be installed is left out, and pip says why."""
    for name in names:
        home = folder / name
        if not interpreter(folder, name).exists():
            venv.create(home, with_pip=True)
        command = [str(interpreter(folder, name)), "-m", "pip", "install", "--quiet", "--upgrade"]
        done = subprocess.run([*command, *requirements(name)])
        print(f"{name}: {'installed' if done.returncode == 0 else 'not installed'}", file=sys.stderr, flush=True)


def requirements(name: str) -> list[str]:
    """What is to be installed for that peer."""
    lines = (line.split("#") for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#"))
    return [wanted.strip() for wanted, peer in lines if peer.strip() == name]


def interpreter(folder: Path, name: str) -> Path:
    """The one of that peer."""
    return folder / name / "bin" / "python"
