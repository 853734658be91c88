"""The value of the fixture ``redbike``, which makes the facades of one test, and the server of a test session.

An embedded server ends with the process that started it, even if ``kill -9`` ends this process. For that, a child
process waits until the process sends a byte or ends. Then the child stops the server, and removes the server's folder.
The child is started before the server, so that the server is never without it.
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

PREFIX = "redbike-test-"  # the prefix of each test begins with this; no other keys are ever deleted
TEST_URL = "REDBIKE_TEST_URL"
STOP_TIMEOUT = 30.0  # seconds for the child to stop the server

# The child imports the package that this process uses, and no other package of the same name.
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from redbike.testing.fixture import reap; reap(sys.argv[2])"


@dataclass(frozen=True)
class Served:
    """A server, and a client of it. The URL may contain a password, so no traceback must show it."""

    url: str = field(repr=False)
    client: "redis.Redis" = field(repr=False)


@contextmanager
def serve() -> Iterator[Served]:
    """Yield the server that REDBIKE_TEST_URL names, or an embedded one in a new folder. Raise `RedbikeError`."""
    with ExitStack() as stack:
        url = os.environ.get(TEST_URL) or stack.enter_context(_start())
        client = stack.enter_context(connect(url))
        check_server(client, False)
        yield Served(url, client)


@lru_cache
def find_server(pid: int) -> Served:
    """Return the server of this process, whose id is `pid`. An embedded one is started once, and ends with it."""
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
        start_new_session=True,  # so that Ctrl-C in the terminal does not end it
    )
    try:
        yield
    finally:
        # A fork that ends leaves the server to this process.
        if os.getpid() == owner:
            # Closing the pipe is not enough: a child that a test has forked may keep it open.
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
    """Makes the facades of one test. They share the prefix of the test, and so its jobs, and the clock of the test.

    Until `close`, each other `Redbike` and `AsyncRedbike` of this process uses these jobs and this clock, too. Another
    process finds the jobs of the test at `url`, under `prefix`.
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
        # The simulation has one shard, as has the override for the facades that a program makes itself.
        given = replace(Settings(prefix=self.prefix, **settings), shards=1)
        bike = SimulatedRedbike.from_settings(worker, given, self._client, durable=False)
        bike.follow(clock)
        self._bikes.append(bike)
        return bike

    def _find_clock(self) -> Clock:
        # Not before the first use: until then, the test may still set where the clock starts.
        self._clock = self._clock or Clock(float(self._client.time()[0]))
        return self._clock

    def close(self) -> None:
        """Close the facades, end the override, and delete the keys of the test."""
        self._overriding.close()
        for bike in self._bikes:
            bike.finish()
        if not self.prefix.removeprefix("{").startswith(PREFIX):
            raise BadConfig(f"no keys are deleted: the prefix {self.prefix!r} is not one of a test")
        Store(self._client, self.prefix, RoundRobin("A").queue_for).upkeep.flush()


@contextmanager
def isolate() -> Iterator[MakeRedbike]:
    """Yield a `MakeRedbike`, for a test without fixtures of pytest, and close it at the end of the block.

    The first call in a process finds the server, as REDBIKE_TEST_URL names it, or starts one that ends with the
    process. Of two blocks, the one that began last must end first. Raise `RedbikeError` if there is no usable server.
    """
    maker = MakeRedbike(find_server(os.getpid()))
    try:
        yield maker
    finally:
        maker.close()
