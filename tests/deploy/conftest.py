"""What the checks share."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.machine import GIVEN, make_debian


@pytest.fixture(scope="session")
def debian() -> Iterator[Path]:
    """A folder with a fresh Debian, which no check changes. The environment may name one that is there already."""
    if GIVEN in os.environ:
        yield Path(os.environ[GIVEN])
        return
    with tempfile.TemporaryDirectory(prefix="redbike-debian-") as folder:
        make_debian(Path(folder) / "root")
        yield Path(folder) / "root"
