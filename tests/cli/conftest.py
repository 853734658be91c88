"""What tests of commands share."""

import os
import signal

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from tests.commandline import Shell, Within


class Failing(RoundRobin):
    """What it works fails with `error`, if its id says so."""

    error = 'no "host",\tno luck'

    def work(self, jobid):
        if jobid.startswith("bad"):
            raise ValueError(self.error)


@pytest.fixture
def shell(tmp_path, client, server_url):
    """The command line, on the suite's own server, which is empty; what it runs is called in this process."""
    shell = Within(tmp_path, server_url)
    yield shell
    shell.close()


@pytest.fixture
def bike(client, server_url):
    """Jobs on the server of `shell`, which a program changes."""
    return Redbike(Failing("A"), redis_config=server_url)


@pytest.fixture
def noted(client, server_url):
    """The same, which somebody changes."""
    return Redbike(Failing("A"), redis_config=server_url, noted_as="ada@here")


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
