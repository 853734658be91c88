"""Virtual environments for the peers, one each: they do not agree on a version of redis-py."""

import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from bench.site import HERE

REQUIREMENTS = HERE / "requirements-peers.txt"
NPM = "npm:"


def install(folder: Path, names: list[str]) -> None:
    """Make or update the environment of each peer. One that cannot be installed is left out; pip or npm says why."""
    for name in names:
        if not interpreter(folder, name).exists():
            venv.create(folder / name, with_pip=True)
        done = all(succeeds(command) for command in commands(folder, name))
        print(f"{name}: {'installed' if done else 'not installed'}", file=sys.stderr, flush=True)


def commands(folder: Path, name: str) -> Iterator[list[str]]:
    """What installs that peer: by pip, and those with ``npm:`` in front by npm, in the same environment."""
    wanted = requirements(name)
    modules = [each.removeprefix(NPM) for each in wanted if each.startswith(NPM)]
    packages = [each for each in wanted if not each.startswith(NPM)]
    if packages:
        yield [str(interpreter(folder, name)), "-m", "pip", "install", "--quiet", "--upgrade", *packages]
    if modules:
        yield ["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", f"--prefix={folder / name}", *modules]


def succeeds(command: list[str]) -> bool:
    """Whether it is there, and does what it should."""
    return shutil.which(command[0]) is not None and subprocess.run(command).returncode == 0


def requirements(name: str) -> list[str]:
    """What is to be installed for that peer."""
    lines = (line.split("#") for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#"))
    return [wanted.strip() for wanted, peer in lines if peer.strip() == name]


def interpreter(folder: Path, name: str) -> Path:
    """The one of that peer."""
    return folder / name / "bin" / "python"
