"""Serve the page in this process with uvicorn, with limits for clients and a timely end."""

import ipaddress
import logging
import os
import re
import socket
import threading
from asyncio import BaseTransport, TimerHandle, Transport
from typing import Any, cast

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from redbike.errors import BadConfig, RedbikeError
from redbike.process.signals import StopFlag, leave_to_others
from redbike.queries.metrics_server import Address, make_url
from redbike.web.api.routes import PREFIX
from redbike.web.proxies import PEER
from redbike.web.requests import get_client

log = logging.getLogger("redbike")

MOST_AT_ONCE = 500  # connections; further connections are refused
REQUEST_TIMEOUT = 10.0  # seconds that a client may take to send a request
IDLE = 5  # seconds after which an idle connection is closed
MOST_HEADERS = 16_384  # bytes of a request without its body, while it is received
GRACE = 3.0  # seconds that requests may still take after the stop signal
THIS_MACHINE = "127.0.0.1, ::1"  # the proxies that are trusted by default
NAP = 5.0  # seconds after which a signal is noticed at the latest
ROOT = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")


def listen(address: Address) -> socket.socket:
    """Return a socket that is bound to an address, but does not listen yet. Raise `OSError`."""
    bound = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def is_local(bound: socket.socket) -> bool:
    """Tell whether only this machine can reach a socket."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def get_url(bound: socket.socket) -> str:
    """Return the URL of a bound socket, without a slash at the end."""
    return make_url(*bound.getsockname()[:2])


def check_root_path(text: str) -> str:
    """Return a root path without a slash at its end; "" for the root itself. Raise `BadConfig`."""
    path = text.rstrip("/")
    if not ROOT.fullmatch(path):
        raise BadConfig(f"bad --root-path {text!r:.80}: a path such as /redbike is needed")
    return path


class RootPath:
    """Serves `app` below `path`. A proxy may have stripped the path from the requests, or not."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            path, raw = scope["path"], scope["raw_path"]
            if path != self._path and not path.startswith(f"{self._path}/"):
                path, raw = self._path + path, self._path.encode() + raw
            scope = {**scope, "root_path": self._path, "path": path, "raw_path": raw}
        await self._app(scope, receive, send)


def mount_below(path: str, app: Starlette, api: bool) -> ASGIApp:
    """Return `app`, served below `path`, if this is not "". `api` tells whether it has the API.

    Raise `BadConfig` if a page begins with the same name: then it is unknown whether a proxy has stripped the path.
    """
    name = path.split("/")[1:2]
    pages = [getattr(route, "path", "/") for route in app.routes] + [PREFIX] * api
    if name in [each.split("/")[1:2] for each in pages]:
        raise BadConfig(f"bad --root-path {path!r:.80}: /{name[0]} is a path of the page itself; name another one")
    return RootPath(app, path) if path else app


class _Connection(H11Protocol):
    """Closes a connection whose request does not arrive in time, and ends streams when the server stops."""

    _timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        # The transport can read and write, which its type in asyncio does not say.
        super().connection_made(cast(Transport, transport))
        self._watch()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        # Otherwise uvicorn would wait for the end of a stream, which has no end.
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_TIMEOUT, self.transport.abort)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def list_proxies(text: str) -> list[str]:
    """Return the addresses and networks of proxies in `text`. ``*`` means any proxy.

    IPv4 ones are also there as IPv6-mapped ones, because a dual-stack socket shows them so.
    """
    proxies = [each.strip() for each in text.split(",")]
    for each in list(proxies):
        address, _, bits = each.partition("/")
        if ":" not in address and "." in address:
            proxies.append(f"::ffff:{address}" + (f"/{96 + int(bits)}" if bits.isdecimal() else ""))
    return proxies


class _Peer:
    """Notes the address of the direct sender, before X-Forwarded-For replaces it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "state": {**scope.get("state", {}), PEER: get_client(scope)}}
        await self._app(scope, receive, send)


def _make_server(app: ASGIApp) -> uvicorn.Server:
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    proxies = list_proxies(os.environ.get("FORWARDED_ALLOW_IPS", THIS_MACHINE))
    config = uvicorn.Config(
        _Peer(ProxyHeadersMiddleware(cast(Any, app), proxies)),
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,  # it would name jobs
        server_header=False,
        proxy_headers=False,  # the middleware inside `_Peer` handles them
        workers=1,
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=IDLE,
        h11_max_incomplete_event_size=MOST_HEADERS,
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, bound: socket.socket, stopping: StopFlag) -> None:
    """Serve `app` at a listening socket until `stopping` is set. Raise `RedbikeError` if the server fails."""
    server = _make_server(app)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.run([bound])
        except BaseException as error:
            failures.append(error)
        finally:
            stopping.set()

    # The server has its own thread, because this one handles the signals. Its threads are daemons as well, so a
    # hanging request does not keep the process from ending.
    with leave_to_others():
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
    while not stopping.wait(NAP):
        pass
    server.should_exit = True
    thread.join(GRACE)
    if thread.is_alive():
        log.warning("ended before all requests were answered")
    if failures:
        raise RedbikeError(f"the page has ended: {failures[0]!r:.200}")
