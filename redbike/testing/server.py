"""The server of a test session. It ends with the process that asked for it, however that ends.

A child waits for a word of that process, or for its end, even by ``kill -9``. Then it stops the server, and removes its
folder. It is started first, so that there is no instant at which nobody would do that.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from redbike.connection.check import check_server
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer

if TYPE_CHECKING:
    import redis

TEST_URL = "REDBIKE_TEST_URL"
PATIENCE = 30.0  # seconds for the child to stop the server

# The package from which this process has it, and not another one of that name.
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from redbike.testing.server import reap; reap(sys.argv[2])"


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
    package = str(Path(__file__).parents[2])
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
        # A word: a child that a test has forked may keep the pipe open.
        process.communicate(b"\n", timeout=PATIENCE)


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
