"""Serves the metrics and the health of jobs over HTTP: ``/metrics`` for Prometheus, ``/health`` for other monitors."""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from redbike.errors import BadConfig, RedbikeError, ServerError
from redbike.text.parsing import parse_whole

log = logging.getLogger("redbike")

LOOPBACK = "127.0.0.1"
CLIENT_TIMEOUT = 5.0  # seconds that a client may take to send its request, or to read the response
MOST_AT_ONCE = 20  # requests; further ones are refused
TEXT = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """A response: its HTTP status, its body, and its content type."""

    status: int
    text: str
    kind: str = TEXT


Answer = Callable[[dict[str, list[str]]], Page]  # from the parameters of a request


class Address(NamedTuple):
    """The host and port to listen on."""

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Return the address of a text such as 9199, :9199, 0.0.0.0:9199 or [::1]:9199. Raise `BadConfig`.

    The default host is the loopback interface.
    """
    host, _, port = text.rpartition(":")
    if (number := parse_whole(port, 65535)) is None:
        raise BadConfig(f"bad --listen {text!r:.80}: a port, or HOST:PORT, is needed")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadConfig(f"bad --listen {text!r:.80}: an IPv6 address needs brackets, as [::1]:9000")
    return Address(host or LOOPBACK, number)


def make_url(host: str, port: int) -> str:
    """Return the URL of a server at an address, without a slash at the end."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(ThreadingHTTPServer):
    """Answers requests for `pages`, by their paths, each in a thread of its own. Use it in a ``with``.

    Raise `OSError` if it cannot listen on the address.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: Address, pages: dict[str, Answer]) -> None:
        self.pages = pages
        self.free = threading.BoundedSemaphore(MOST_AT_ONCE)
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """The URL of the server, without a slash at the end."""
        host, port = self.server_address[:2]
        return make_url(str(host), port)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error in a request, unless the client has disconnected."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            log.exception("a request failed")


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = CLIENT_TIMEOUT
    server_version, sys_version = "redbike", ""

    def do_GET(self) -> None:
        self._answer(with_text=True)

    def do_HEAD(self) -> None:
        self._answer(with_text=False)

    def _answer(self, with_text: bool) -> None:
        page = self._find_page()
        body = page.text.encode(errors="replace")
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_text:
            self.wfile.write(body)

    def _find_page(self) -> Page:
        try:
            url = urlsplit(self.path)
            given = parse_qs(url.query, keep_blank_values=True)
        except ValueError:
            return Page(400, "that is no URL\n")
        answer = self.server.pages.get(url.path)
        if answer is None:
            return Page(404, f"there are only the paths {' and '.join(self.server.pages)}\n")
        if not self.server.free.acquire(blocking=False):
            return Page(503, "there are too many requests\n")
        try:
            return answer(given)
        except RedbikeError as error:
            return Page(503 if isinstance(error, ServerError) else 400, f"{error}\n")
        finally:
            self.server.free.release()

    def log_message(self, *_: object) -> None:
        """Log nothing: requests come every few seconds."""
