"""The stream of events of the API: who listens hears what is for that one, and no longer than that is permitted."""

import asyncio

import pytest

from redbike import Redbike
from redbike.errors import Unreachable
from redbike.web import app
from redbike.web.api import events
from redbike.web.api.events import Hub
from redbike.web.keys import TRIES
from tests.web.api import make_token
from tests.web.conftest import Giving

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

    hub = Hub(lambda: [listen])

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


def test_no_data_and_no_result_are_heard(client, prefix):
    bike = Redbike(Giving("A:B"), prefix, client, noted_as="me@here")
    hub = Hub(lambda: [bike.store.events.listen])

    async def check():
        listener = hub.join(lambda jobid: True)
        await hear(listener, b"event: listening\n")
        await asyncio.to_thread(bike.set, "a:A", "NOW", data="hush", keep_result=True)
        await asyncio.to_thread(bike.work_one)
        heard = await hear(listener, b"event: run\n")
        assert (b'"kind":"change"' in heard, b"hush" in heard) == (True, False)
        hub.leave(listener)

    asyncio.run(check())
    assert bike.tell("a:A")["runs"][0]["result"] == "hush"


def test_a_server_that_is_away_is_told_once_and_listened_to_again(bike, noted, monkeypatch):
    monkeypatch.setattr(events, "RETRY", 0.01)
    tries = iter(range(10))

    def listen(is_over):
        if next(tries) < 3:
            raise Unreachable("it is away")
        return bike.store.events.listen(is_over=is_over)

    hub = Hub(lambda: [listen])

    async def check():
        listener = hub.join(lambda jobid: True)
        assert (await hear(listener, b"event: listening\n")).count(b'event: away\ndata: {"detail":"it is away"}') == 1
        await asyncio.to_thread(noted.set, "a:A", "NOW")
        await hear(listener, b'"jobid":"a:A"')
        hub.leave(listener)

    asyncio.run(check())


def test_what_is_not_read_in_time_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(events, "WAITING", 2)
    hub = Hub(lambda: [lambda is_over: ()])

    async def check():
        listener = events.Listener(lambda jobid: True)
        for number in range(5):
            listener.put(b"%d;" % number)
        assert listener.take() == b'0;1;event: missing\ndata: {"events":3}\n\n'
        assert listener.take() == b""
        monkeypatch.setattr(events, "LISTENERS", 0)
        assert hub.join(lambda jobid: True) is None

    asyncio.run(check())


def make_scope(path, secret):
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    return scope | {"headers": headers, "client": ("192.0.2.1", 1), "scheme": "http", "server": ("localhost", 80)}


def test_streams_end_soon_after_their_token_was_taken_back_and_no_others(bike, monkeypatch):
    monkeypatch.setattr("redbike.web.stream.BEAT", 0.05)
    monkeypatch.setattr("redbike.web.guard.FRESH", 0.0)
    secret, other = make_token(bike, "ci"), make_token(bike, "other")
    sent, begun, number = [], asyncio.Semaphore(0), TRIES + 2

    async def send(message):
        sent.append(message)
        if b"event: listening" in message.get("body", b""):
            begun.release()

    async def check():
        site = app(bike, api=True)
        streams = [asyncio.create_task(site(make_scope("/api/events", secret), wait, send)) for _ in range(number)]
        async with asyncio.timeout(SECONDS):
            for _ in streams:
                await begun.acquire()
            await asyncio.to_thread(bike.store.tokens.remove, "ci")
            await asyncio.gather(*streams)
        # Nobody has guessed a token, so the address need not wait.
        assert [each["status"] for each in sent if "status" in each] == [200] * number
        await site(make_scope("/api/jobs", other), wait, send)

    asyncio.run(check())
    assert dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    ends = [each for each in sent if each == {"type": "http.response.body", "body": b"", "more_body": False}]
    assert len(ends) == number
    assert [each["status"] for each in sent if "status" in each] == [200] * (number + 1)


def wait():
    return asyncio.Event().wait()
