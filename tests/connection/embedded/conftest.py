"""The embedded server of a test, and threads beside it."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from redbike.connection.embedded import EmbeddedServer
from tests.connection.embedded import pids


@pytest.fixture
def server(tmp_path):
    server = EmbeddedServer(tmp_path / ".redbike")
    yield server
    for pid in pids(server.folder):
        os.kill(pid, signal.SIGCONT)
    server.stop()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(20) as pool:
        yield pool
