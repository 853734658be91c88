"""What tests of commands share."""

import os
import signal

import pytest

from redbike.connection.embedded import EmbeddedServer
from tests.commandline import Shell


@pytest.fixture
def own(tmp_path):
    """A shell on a server of its own, `server`, which a test may suspend and stop; it does not run yet."""
    server = EmbeddedServer(tmp_path / "server")
    shell = Shell(tmp_path, server.url)
    shell.server = server
    yield shell
    if pid := server.status().get("pid"):
        os.kill(pid, signal.SIGCONT)
    shell.close()
    server.stop()
