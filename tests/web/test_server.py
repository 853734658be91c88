"""The server of the page: its limits and its end, with a small application in place of the page."""

import contextlib
import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from redbike.errors import BadConfig, RedbikeError
from redbike.process.signals import StopFlag
from redbike.queries.metrics_server import Address
from redbike.web import app, server
from tests.waiting import wait_until


@contextmanager
def serving(page):
    """Serves an application in a thread; its port, and what ends it."""
    bound, stopping = server.listen(Address("127.0.0.1", 0)), StopFlag()
    bound.listen()
    thread = threading.Thread(target=server.serve, args=(page, bound, stopping))
    thread.start()
    try:
        yield bound.getsockname()[1], stopping
    finally:
        stopping.set()
        thread.join(20)
        assert not thread.is_alive()


def show_path(request):
    return PlainTextResponse(
        f"{request.scope['root_path']} {request.scope['path']} {request.scope['raw_path'].decode()}"
    )


async def echo(request):
    return PlainTextResponse(await request.body())


PAGE = Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/{path:path}", show_path)])


ASKED = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def talk(port, text=ASKED):
    """All that is answered to bytes on a connection, until that is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(text)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


MALFORMED = [
    b"GET /" + b"x" * 900_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 900_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01 hello\r\n\r\n",
    b"\r\n" * 20_000,
]


def test_a_malformed_or_endless_request_is_refused(capfd):
    with serving(PAGE) as (port, _):
        head = talk(port).lower()
        for text in MALFORMED:
            try:
                answer = talk(port, text)
            except (ConnectionResetError, BrokenPipeError):
                continue  # it was closed before all of it was read
            assert answer.startswith(b"HTTP/1.1 400 "), text[:50]
            assert len(answer) < 300
    # It does not tell what it is, and requests leave no line.
    assert head.startswith(b"http/1.1 200")
    assert b"server:" not in head
    assert b"uvicorn" not in head
    assert capfd.readouterr() == ("", "")


def test_a_client_that_does_not_send_its_request_is_cut_off(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_TIMEOUT", 0.5)
    monkeypatch.setattr(server, "IDLE", 60)
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    texts = [b"", whole[:-2], b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"]

    def get_status(text):
        with contextlib.suppress(ConnectionResetError):
            return talk(port, text)[9:12]

    with serving(PAGE) as (port, _), ThreadPoolExecutor(len(texts)) as pool:
        assert set(pool.map(get_status, texts)) <= {b"", None}


def test_a_client_whose_second_request_does_not_come_has_the_answer_to_the_first(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_TIMEOUT", 60.0)
    monkeypatch.setattr(server, "IDLE", 60)

    def answer(_):
        monkeypatch.setattr(server, "REQUEST_TIMEOUT", 0.5)
        return PlainTextResponse("")

    with serving(Starlette(routes=[Route("/", answer)])) as (port, _):
        assert talk(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nG")[9:12] == b"200"


def test_a_client_that_sends_nothing_keeps_nobody_from_asking(monkeypatch):
    monkeypatch.setattr(server, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(server, "REQUEST_TIMEOUT", 600.0)  # they are still there when somebody asks
    with serving(PAGE) as (port, _):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        wait_until(lambda: b" 503 " in talk(port))
        for each in silent:
            each.close()
        wait_until(lambda: b" 200 " in talk(port))


def test_open_streams_end_when_it_is_to_stop(monkeypatch):
    """And long before requests that are computed would be cut off."""
    monkeypatch.setattr(server, "GRACE", 60.0)
    ended = threading.Event()

    async def stream():
        try:
            while True:
                yield "data: x\n\n"
                await anyio.sleep(3600)
        finally:
            ended.set()

    page = Starlette(routes=[Route("/", lambda _: StreamingResponse(stream(), media_type="text/event-stream"))])
    with serving(page) as (port, stopping):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.readline() == b"data: x\n"
        began = time.monotonic()
        stopping.set()
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        wait_until(ended.is_set)
    assert time.monotonic() - began < 30


def test_a_request_that_hangs_does_not_keep_it_from_ending(monkeypatch):
    monkeypatch.setattr(server, "GRACE", 0.5)
    asked, released, threads = threading.Event(), threading.Event(), []

    def hang(_):
        threads.append(threading.current_thread())
        asked.set()
        released.wait(60)
        return PlainTextResponse("")

    with serving(Starlette(routes=[Route("/", hang)])) as (port, stopping):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert asked.wait(20)
        [thread] = threads
        assert thread.daemon, "the interpreter does not wait for it"
        stopping.set()
    assert thread.is_alive()
    released.set()
    connection.close()


def test_an_application_that_cannot_start_is_named():
    @contextmanager
    def fail(_):
        raise ValueError("no")
        yield

    bound = server.listen(Address("127.0.0.1", 0))
    bound.listen()
    with pytest.raises(RedbikeError, match="the page has ended"):
        server.serve(Starlette(lifespan=fail), bound, StopFlag())
    bound.close()


def test_the_path_of_a_proxy():
    with serving(server.RootPath(PAGE, "/red/bike")) as (port, _):
        for path in ("", "/", "/jobs", "/red", "/redbike/x", "/a%2Fb", "/bike"):
            for sent in (path or "/", f"/red/bike{path}"):  # one that has stripped it, and one that has not
                answer = talk(port, f"GET {sent} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                expected = sent.removeprefix("/red/bike")
                shown = answer.partition(b"\r\n\r\n")[2].decode()
                if expected:
                    assert shown == f"/red/bike /red/bike{expected.replace('%2F', '/')} /red/bike{expected}"


def test_a_proxy_is_known_however_its_address_is_written():
    assert server.list_proxies("127.0.0.1, ::1") == ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
    assert server.list_proxies("10.0.0.0/8,fd00::/8") == ["10.0.0.0/8", "fd00::/8", "::ffff:10.0.0.0/104"]
    assert server.list_proxies("*") == ["*"]


def test_paths_that_a_proxy_may_have():
    for text, path in (("", ""), ("/", ""), ("/red", "/red"), ("/red/bike/", "/red/bike")):
        assert server.check_root_path(text) == path
    for text in ("red", "//red", "/red//bike", "/..", "/a/../b", "/a b", "/a?b", "/%41", "/é", "/a\n", "/<b>"):
        with pytest.raises(BadConfig, match="bad --root-path"):
            server.check_root_path(text)


def test_a_page_without_an_api_may_be_below_that_name(bike):
    page = app(bike, write=True)
    assert isinstance(server.mount_below("/api", page, api=False), server.RootPath)
    for path, api in (("/api", True), ("/api/x", True), ("/jobs", False), ("/events/x", False)):
        with pytest.raises(BadConfig, match=f"bad --root-path '{path}': .* is a path of the page itself"):
            server.mount_below(path, page, api)


def test_who_can_reach_an_address():
    for host, is_local in (("127.9.9.9", True), ("localhost", True), ("0.0.0.0", False), ("", False)):
        with server.listen(Address(host, 0)) as bound:
            assert server.is_local(bound) == is_local
            assert server.get_url(bound).startswith("http://")
