"""Tries the files of deploy/ on all that this machine can run, and says what it cannot run, and why.

A machine may not allow to boot a systemd, or to run containers. So a bare Debian is tried first, without a file of
Redbike: only if that fails, a check is left out. The files themselves are checked everywhere.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.deploy.containers import BASE, import_base, run_daemon
from tests.deploy.machine import GIVEN, Machine, make_debian, run

HERE = Path(__file__).parent


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="redbike-debian-") as name:
        bare = Path(name) / "root"
        checks = ["check_files.py"]
        if is_able("a fresh Debian", lambda: make_debian(bare)):
            checks += ["check_systemd.py"] if is_able("a booted systemd", lambda: boot(bare)) else []
            checks += ["check_docker.py"] if is_able("containers", lambda: run_container(bare)) else []
        # The files share nothing, and mostly wait.
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--timeout", "600"]
        command += [str(HERE / file) for file in checks]
        return subprocess.run(command, env=os.environ | {GIVEN: str(bare)}).returncode


def is_able(what: str, attempt: Callable[[], None]) -> bool:
    """Tell whether this machine can do it; say so, and why not."""
    details = io.StringIO()
    try:
        with contextlib.redirect_stdout(details):
            attempt()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f"{details.getvalue()}NOT CHECKED on {what}: this machine cannot do it: {error}", flush=True)
        return False
    print(f"checked on {what}", flush=True)
    return True


def boot(bare: Path) -> None:
    """Boot a copy of a Debian."""
    copy = bare.with_name("bare")
    run("cp", "--archive", bare, copy)
    Machine(copy).close()


def run_container(bare: Path) -> None:
    """Run a program in a container."""
    with run_daemon():
        import_base(bare)
        run("docker", "run", "--rm", "--network=host", BASE, "true")


if __name__ == "__main__":
    sys.exit(main())
