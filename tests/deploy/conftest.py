"""What the checks share."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.machine import GIVEN, make_debian, try_bare


@pytest.fixture(scope="session")
def debian() -> Iterator[Path]:
    """A folder with a fresh Debian. The first process that needs it makes it, in a folder that all are given."""
    given = os.environ.get(GIVEN)
    with contextlib.nullcontext(given) if given else tempfile.TemporaryDirectory(prefix="redbike-debian-") as name:
        folder = Path(name)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "made").exists():
                try_bare("a fresh Debian", lambda: make_debian(folder / "root"))
                (folder / "made").touch()
        yield folder / "root"
