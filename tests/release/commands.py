"""Run the programs of a step, and stop at the first fault."""

import subprocess
from pathlib import Path


class Fault(Exception):
    """What is wrong with the release, in one line."""


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, timeout: float = 600) -> str:
    """Return what `command` prints. Raise `Fault`, with its last line, if its exit status is not 0."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Fault(str(error)) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
        called = " ".join([Path(command[0]).name, *map(str, command[1:4])])
        raise Fault(f"'{called} ...' ended with {done.returncode}: {said[-1].strip()}")
    return done.stdout
