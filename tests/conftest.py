"""The fixtures: a real server for each process of the suite, the embedded one, and a prefix for each test."""

import itertools
import os
import tempfile

import pytest
import redis

from redbike import Redbike, RoundRobin
from redbike.serving.connection import connect
from redbike.serving.embedded import EmbeddedServer
from tests.commandline import Shell
from tests.servers import Cluster

# Nothing of the user's own environment may steer the tests. Without a buffer, a line that a job prints is written in
# two parts, and what a signal handler logs may come between them.
for name in ("REDBIKE_URL", "REDIS_URL", "REDBIKE_DISPATCHER_PING_URL", "REDBIKE_WEB_TOKEN", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    """The embedded server of this process, in a private folder. REDBIKE_SERVER names another program for it."""
    with tempfile.TemporaryDirectory(prefix="redbike-tests-") as folder:
        server = EmbeddedServer(folder)
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def server_url(server):
    return server.url


@pytest.fixture(scope="session")
def _client(server_url):
    with connect(server_url) as client:
        yield client


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Three masters, each with a replica."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def client(_client: "redis.Redis"):
    """A client of an empty server."""
    _client.flushall()
    return _client


@pytest.fixture
def prefix():
    """A prefix that no other test has."""
    return f"test{next(_numbers)}"


@pytest.fixture
def shell(tmp_path, client, server_url):
    """The command line, on the suite's own server, which is empty."""
    shell = Shell(tmp_path, server_url)
    yield shell
    shell.close()


@pytest.fixture
def jobs(request, shell, server_url):
    """The same, with the worker class that the test's own module has as `WORKER`, and as `bike` what sets its jobs."""
    (shell.folder / "jobs.py").write_text(request.module.WORKER)
    shell.bike = Redbike(RoundRobin("A"), redis_config=server_url)
    return shell
