"""The fixtures: a real server for each process of the suite, the embedded one, and a prefix for each test."""

import functools
import gc
import itertools
import logging
import os
import re
import signal
import tempfile
from contextlib import closing

import pytest
import redis
import redis.utils

from redbike import Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.process import command_log
from redbike.store.store import Store
from tests import chance, surroundings
from tests.commandline import FORK_SERVER, Shell
from tests.servers import DATA, Cluster, Node, free_ports

surroundings.reset()
chance.choose()
# Each connection reads the metadata of the package again, for a millisecond.
redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)

TIER = re.compile(r"^pytestmark = .*pytest\.mark\.(acceptance|nightly)\b", re.MULTILINE)
_numbers = itertools.count()
LEVEL = logging.getLogger().level  # of what is logged, before any test


def pytest_ignore_collect(collection_path, config):
    """Do not even import a module of a tier that is not asked for: its packages may not be installed."""
    if collection_path.suffix == ".py" and (found := TIER.search(collection_path.read_text())):
        return f"not {found[1]}" in config.option.markexpr or None
    return None


def pytest_collection_finish():
    """Look no more for garbage in what has been imported and collected: each look would take half a second."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _processes(request):
    """Each test's processes, and the servers that they have started, end with it."""
    with surroundings.processes_of(request.node.nodeid, lambda: request.node.funcargs.get("tmp_path")):
        yield
        FORK_SERVER.end_all()
    surroundings.end_run_logs()
    # A command that ran in this process has left its handler, whose stream has a descriptor that is soon another's, and
    # its level, by which the tests that follow would log what nobody reads.
    root = logging.getLogger()
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:
        root.removeHandler(handler)
    root.setLevel(LEVEL)
    command_log._handler = None


@pytest.fixture(scope="session")
def server():
    """The embedded server of this process, in a private folder. REDBIKE_SERVER names another program for it."""
    with tempfile.TemporaryDirectory(prefix="redbike-tests-") as folder:
        server = EmbeddedServer(folder)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def server_url(client, server):
    """The URL of an empty server: what another test has left may be no good for a program with the same prefix."""
    return server.url


@pytest.fixture(scope="session")
def _client(server):
    with connect(server.url) as client:
        yield client


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Three masters, each with a replica."""
    with surroundings.unmarked():
        cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def own_server(tmp_path):
    """An embedded server that a test may suspend and stop."""
    server = EmbeddedServer(tmp_path / "server")
    server.start()
    yield server
    if pid := server.status().get("pid"):
        os.kill(pid, signal.SIGCONT)
    server.stop()


@pytest.fixture
def node(tmp_path):
    """A server that a test may kill and start again, and whose settings it may change."""
    node = Node(tmp_path / "node", *free_ports(1), *DATA)
    yield node
    node.kill()
    node.client.close()


@pytest.fixture
def client(_client: "redis.Redis", server):
    """A client of an empty server, which is started again if a test has left it dead or suspended."""
    try:
        _client.flushall()
    except redis.RedisError:
        if pid := server.status().get("pid"):
            os.kill(pid, signal.SIGCONT)
        server.start()
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


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, RoundRobin("A").queue_for)


@pytest.fixture
def dispatcher(store):
    dispatcher = Dispatcher(store, Settings())
    yield dispatcher
    dispatcher.close()


@pytest.fixture
def pass_at(store):
    """One pass of a dispatcher at an instant, with these settings."""

    def dispatch(now, **settings):
        with closing(Dispatcher(store, Settings(**settings))) as dispatcher:
            return dispatcher.dispatch_due(now)

    return dispatch


@pytest.fixture
def bike(request, client, prefix):
    """A Redbike of a worker that does nothing, for the jobs under the prefix of the test.

    A module may have another worker class, other queues and settings in `BIKE`.
    """
    given = {"worker": RoundRobin, "queues": "A"} | getattr(request.module, "BIKE", {})
    with Redbike(given.pop("worker")(given.pop("queues")), prefix, client, **given) as bike:
        yield bike
