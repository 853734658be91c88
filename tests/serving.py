"""The page and the metrics as real processes serve them, and a client that asks them."""

import contextlib
import http.client
import re
import subprocess
from email.message import Message

from tests.commandline import Shell
from tests.forkserver import Process
from tests.waiting import wait_until


def start_page(shell: Shell, *arguments: str) -> "tuple[Process | subprocess.Popen[bytes], str]":
    """Start ``redbike web``; the process, and where it says that it listens."""
    process, pattern = shell.start("web", *arguments, log="web"), r"^redbike: listening on (http://\S+)$"
    wait_until(lambda: re.search(pattern, shell.log("web"), re.MULTILINE) or process.poll() is not None, timeout=60)
    found = re.search(pattern, shell.log("web"), re.MULTILINE)
    assert found, shell.log("web")
    return process, found[1]


def get_port(url: str) -> int:
    return int(url.split("/")[2].rpartition(":")[2])


def answers(port: int, path: str = "/") -> bool:
    """Whether it does by now, and has the page."""
    with contextlib.suppress(ConnectionError):
        return get(port, path)[0] == 200
    return False


def get(
    port: int, path: str = "/", method: str = "GET", body: str | None = None, host: str = "127.0.0.1", **headers: str
) -> tuple[int, str, Message]:
    """The status, the text, and the headers."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers
