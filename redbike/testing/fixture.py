"""The value of the fixture ``redbike``, which makes the facades of one test, and the server of a test session.

That server ends with the process that asked for it, however that ends. A child waits for a word of that process, or for
its end, even by ``kill -9``. Then it stops the server, and removes its folder. It is started first, so that there is no
instant at which nobody would do that.
"""

import atexit
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from redbike.config.settings import Settings
from redbike.connection.check import check_server
from redbike.connection.client import aim_at, connect
from redbike.connection.embedded import EmbeddedServer
from redbike.errors import BadConfig
from redbike.facade.override import Override, use
from redbike.loop.worker_class import RoundRobin, WorkerClass
from redbike.store.store import Store
from redbike.testing.simulated import BikeSettings, Clock, SimulatedRedbike, read_instant

if TYPE_CHECKING:
    import redis

PREFIX = "redbike-test-"  # what the prefix of each test begins with: no other keys are ever deleted
TEST_URL = "REDBIKE_TEST_URL"
STOP_TIMEOUT = 30.0  # seconds for the child to stop the server

# The package from which this process has it, and not another one of that name.
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from redbike.testing.fixture import reap; reap(sys.argv[2])"


@dataclass(frozen=True)
class Served:
    """A server, and a client of it. The URL may have a password in it, which no traceback must show."""

    url: str = field(repr=False)
    client: "redis.Redis" = field(repr=False)


@contextmanager
def serve() -> Iterator[Served]:
    """Give a server: the one in REDBIKE_TEST_URL, or an embedded one in a folder of its own. Raise `RedbikeError`."""
    with ExitStack() as stack:
        url = os.environ.get(TEST_URL) or stack.enter_context(_start())
        client = stack.enter_context(connect(url))
        check_server(client, False)
        yield Served(url, client)


@lru_cache
def find_server(pid: int) -> Served:
    """Return the server of this process, which has the id `pid`. It is started once, and ends with the process."""
    stack = ExitStack()
    served = stack.enter_context(serve())
    atexit.register(stack.close)
    return served


@contextmanager
def _start() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="redbike-test-")
    with _remove_at_the_end(folder):
        server = EmbeddedServer(folder)
        server.start()
        yield server.url


@contextmanager
def _remove_at_the_end(folder: str) -> Iterator[None]:
    """Stop the server of `folder` and remove the folder at the end, or when this process is gone."""
    package, owner = str(Path(__file__).parents[2]), os.getpid()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, package, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in the terminal is not for it
    )
    try:
        yield
    finally:
        # A fork that ends leaves the server to this process.
        if os.getpid() == owner:
            # A word: a child that a test has forked may keep the pipe open.
            process.communicate(b"\n", timeout=STOP_TIMEOUT)


def reap(folder: str) -> None:
    """Wait until the standard input has a byte or ends; then stop the server of `folder`, and remove the folder."""
    sys.stdin.buffer.read(1)
    server = EmbeddedServer(folder)
    try:
        server.stop()
    finally:
        if server.socket.parent.is_symlink():
            server.socket.parent.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


class MakeRedbike:
    """Makes facades of one test. They share its prefix, so its jobs, and its clock.

    Until `close`, each `Redbike` and `AsyncRedbike` of this process has these jobs and this clock, too. A program of
    another process finds the jobs of the test at `url`, under `prefix`.
    """

    def __init__(self, server: Served) -> None:
        self._server = server
        self._client = server.client
        self.prefix = aim_at(self._client, f"{PREFIX}{secrets.token_hex(8)}")
        self._clock: Clock | None = None
        self._bikes: list[SimulatedRedbike] = []
        self._overriding = ExitStack()
        self._overriding.enter_context(use(Override(self._client, self.prefix, lambda: self._find_clock().read())))

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._server.url

    def __call__(
        self, worker: WorkerClass, *, now: float | datetime | None = None, **settings: Unpack[BikeSettings]
    ) -> SimulatedRedbike:
        """Return a `Redbike` with this worker and these settings.

        Its clock stands at `now` (epoch seconds or an aware datetime), or at this whole second. Raise `BadConfig`.
        """
        if self._clock is None and now is not None:
            self._clock = Clock(read_instant(now, 0.0))
        clock = self._find_clock()
        if now is not None:
            clock.move(read_instant(now, clock.now))
        # Time is simulated in one shard, as for what a program makes itself.
        given = replace(Settings(prefix=self.prefix, **settings), shards=1)
        bike = SimulatedRedbike.from_settings(worker, given, self._client, durable=False)
        bike.follow(clock)
        self._bikes.append(bike)
        return bike

    def _find_clock(self) -> Clock:
        # At the first use: the test may still say where the clock starts.
        self._clock = self._clock or Clock(float(self._client.time()[0]))
        return self._clock

    def close(self) -> None:
        """End what the facades have started, and delete the keys of the test."""
        self._overriding.close()
        for bike in self._bikes:
            bike.finish()
        if not self.prefix.removeprefix("{").startswith(PREFIX):
            raise BadConfig(f"no keys are deleted: the prefix {self.prefix!r} is not one of a test")
        Store(self._client, self.prefix, RoundRobin("A").queue_for).upkeep.flush()


@contextmanager
def isolate() -> Iterator[MakeRedbike]:
    """Make what the fixture `redbike` gives, for a test that has no fixtures of pytest, and end it with the block.

    The first call in a process starts its server, which ends with the process. Of two blocks, the one that began last
    ends first. Raise `RedbikeError` if there can be no server.
    """
    maker = MakeRedbike(find_server(os.getpid()))
    try:
        yield maker
    finally:
        maker.close()
