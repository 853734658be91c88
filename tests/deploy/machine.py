"""A machine of its own for the checks: a fresh Debian in a folder, and systemd as its process 1.

Needs root, and Debian's packages debootstrap and systemd-container.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import ROOT
from tests.waiting import SLOWNESS, wait_until

DEBIAN = "trixie"  # its Python is that of the image: 3.13
PACKAGES = "ca-certificates,dbus,procps,python3,python3-venv,systemd,systemd-sysv,valkey-server"
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"  # pip in there trusts whom this machine trusts
GIVEN = "CHECK_DEBIAN"  # the environment variable with the folder for the Debian of all checks
CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
FAST = os.environ | {"DPKG_FORCE": "unsafe-io"}  # nobody needs what a crash of this machine would lose
COMPOSE = str(Path(sys.executable).with_name("docker-compose"))  # of the extra "deploy"
SOURCES = ("redbike", "deploy", ".dockerignore", "pyproject.toml", "setup.cfg", "setup.py", "README.rst", "LICENSE")


def run(*command: str | Path, check: bool = True, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command; print what it says, which pytest shows if the check fails."""
    done = subprocess.run(
        list(map(str, command)),
        text=True,
        capture_output=True,
        check=False,
        timeout=300 * SLOWNESS,
        **more,
    )
    print("+", *command, f"-> {done.returncode}\n{done.stdout}{done.stderr}")
    assert not check or done.returncode == 0, done.stderr or done.stdout
    return done


def try_bare(what: str, attempt: Callable[[], None]) -> None:
    """Skip the checks if this machine cannot do what they need, even without a file of Redbike."""
    try:
        attempt()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"NOT CHECKED on {what}: this machine cannot do it: {error}")


def make_debian(folder: Path) -> None:
    """Install a small Debian with Python, systemd and Valkey."""
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, folder, env=FAST)
    shutil.copyfile(f"/{AUTHORITIES}", folder / AUTHORITIES)


def copy_sources(folder: Path) -> Path:
    """Copy what a user has of Redbike before it is installed."""
    copy = folder / "src"
    copy.mkdir(parents=True)
    for name in SOURCES:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, copy / name)
    return copy


class Machine:
    """Boots the Debian in `folder`. It has no network but its loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = ["systemd-nspawn", "--directory", str(folder), "--boot", "--private-network", "--register=no"]
        command += ["--keep-unit", "--link-journal=no", "--console=pipe"]
        # This systemd needs the second version of control groups.
        environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        with open(folder.with_name("console"), "wb") as log:
            self._outer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            wait_until(self._has_booted, timeout=60)
        except AssertionError:
            self.close()
            raise AssertionError(folder.with_name("console").read_text()) from None

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command in the machine, and return what it prints."""
        return run("nsenter", "--target", self._leader(), "--all", "--", *command, check=check, env=CLEAN).stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the machine."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).strip()

    def journal(self, unit: str) -> str:
        """Return what the processes of the unit have printed."""
        return self.run("journalctl", "--unit", unit, "--output=cat", "--no-pager")

    def close(self) -> None:
        """End it with all its processes."""
        with contextlib.suppress(AssertionError):
            self.run("systemctl", "poweroff", "--force", "--force", check=False)
        try:
            self._outer.wait(10)
        except subprocess.TimeoutExpired:
            self._outer.kill()
            self._outer.wait()

    def _leader(self) -> str:
        """Return the process id of its process 1."""
        pid = self._outer.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert children, "it does not run"
        return children[-1]

    def _has_booted(self) -> bool:
        assert self._outer.poll() is None
        try:
            return self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded")
        except AssertionError:
            return False
