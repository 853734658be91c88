"""The stream of events of the API: who listens hears what is for that one, and no longer than that is permitted."""

import asyncio

import pytest

from redbike import Redbike
from redbike.errors import Unreachable
from redbike.web import app
from redbike.web.api import events
from redbike.web.api.events import Hub
from tests.web.api import make_token

SECONDS = 60


@pytest.fixture
def noted(bike):
    return Redbike.from_settings(bike.worker, bike.settings, bike.client, durable=False, noted_as="me@here")


async def hear(listener, words):
    """All that it has heard when it has heard these words."""
    heard = b""
    async with asyncio.timeout(SECONDS):
        while words not in heard:
            await listener.news.wait()
            listener.news.clear()
            heard += listener.take()
    return heard


def test_each_hears_what_is_for_it_and_all_of_one_thread(bike, noted):
    calls = []

    def listen(is_over):
        calls.append(is_over)
        return bike.store.events.listen(is_over=is_over)

    hub = Hub(listen)

    async def check():
        some = hub.join(lambda jobid: jobid.startswith("etl"))
        await hear(some, b"event: listening\n")
        every = hub.join(lambda jobid: True)
        await hear(every, b"event: listening\n")
        for jobid in ("other:A", "etl:A"):
            await asyncio.to_thread(noted.set, jobid, "NOW")
        heard = await hear(some, b'"jobid":"etl:A"')
        assert b"other:A" not in heard
        assert b'"kind":"change"' in heard
        assert b"other:A" in await hear(every, b'"jobid":"etl:A"')
        hub.stop()
        assert some.is_over
        assert hub.join(lambda jobid: True) is None
        hub.leave(some)
        hub.leave(every)

    asyncio.run(check())
    assert len(calls) == 1
    assert calls[0](), "nobody listens any more"


def test_a_server_that_is_away_is_told_once_and_listened_to_again(bike, noted, monkeypatch):
    monkeypatch.setattr(events, "RETRY", 0.01)
    tries = iter(range(10))

    def listen(is_over):
        if next(tries) < 3:
            raise Unreachable("it is away")
        return bike.store.events.listen(is_over=is_over)

    hub = Hub(listen)

    async def check():
        listener = hub.join(lambda jobid: True)
        assert (await hear(listener, b"event: listening\n")).count(b'event: away\ndata: {"detail":"it is away"}') == 1
        await asyncio.to_thread(noted.set, "a:A", "NOW")
        await hear(listener, b'"jobid":"a:A"')
        hub.leave(listener)

    asyncio.run(check())


def test_what_is_not_read_in_time_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(events, "WAITING", 2)
    hub = Hub(lambda is_over: ())

    async def check():
        listener = events.Listener(lambda jobid: True)
        for number in range(5):
            listener.put(b"%d;" % number)
        assert listener.take() == b'0;1;event: missing\ndata: {"events":3}\n\n'
        assert listener.take() == b""
        monkeypatch.setattr(events, "LISTENERS", 0)
        assert hub.join(lambda jobid: True) is None

    asyncio.run(check())


def test_a_stream_ends_soon_after_its_token_was_taken_back(bike, monkeypatch):
    monkeypatch.setattr(events, "BEAT", 0.05)
    monkeypatch.setattr("redbike.web.guard.FRESH", 0.0)
    secret = make_token(bike, "ci")
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/api/events", "raw_path": b"/api/events", "query_string": b""}
    scope |= {"headers": headers, "client": ("192.0.2.1", 1), "scheme": "http", "server": ("localhost", 80)}
    sent, begun = [], asyncio.Event()

    async def send(message):
        sent.append(message)
        if b"event: listening" in message.get("body", b""):
            begun.set()

    async def check():
        stream = asyncio.create_task(app(bike, api=True)(scope, lambda: asyncio.Event().wait(), send))
        async with asyncio.timeout(SECONDS):
            await begun.wait()
            await asyncio.to_thread(bike.store.tokens.remove, "ci")
            await stream

    asyncio.run(check())
    assert sent[0]["status"] == 200
    assert dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
