"""The end of a stream of events: when its reader leaves, does not read any more, or may not."""

import asyncio
import time

import pytest

from redbike.web import stream
from redbike.web.stream import Reader, Stream


@pytest.fixture
def run(monkeypatch):
    """Run a stream with nothing new, which `receive` and `send` have; how often it was left."""

    def run(receive, send, may_go_on, news_after=None):
        async def main():
            reader = Reader()
            given = [reader, b"first", bytes, bytes, lambda: left.append(1), may_go_on]
            if news_after is not None:
                asyncio.get_running_loop().call_later(news_after, reader.wake)
            async with asyncio.timeout(60):
                await Stream(*given)({"type": "http"}, receive, send)

        left = []
        asyncio.run(main())
        return len(left)

    monkeypatch.setattr(stream, "BEAT", 0.0)
    return run


def test_it_ends_although_its_reader_leaves_while_somebody_asks_whether_it_may_go_on(run):
    asked, has_left = asyncio.Event(), asyncio.Event()

    async def receive():
        await asked.wait()
        has_left.set()
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    async def may_go_on():
        asked.set()
        await has_left.wait()
        await asyncio.sleep(0)
        return True

    assert run(receive, send, may_go_on) == 1


def test_its_end_does_not_wait_for_a_reader_that_takes_nothing(run, monkeypatch):
    monkeypatch.setattr(stream, "SEND_TIMEOUT", 0.1)

    async def send(message):
        if not message.get("more_body", True):
            await asyncio.Event().wait()

    async def may_go_on():
        return False

    assert run(lambda: asyncio.Event().wait(), send, may_go_on) == 1


def test_whether_it_may_go_on_is_asked_in_time_although_there_was_something_new(run, monkeypatch):
    monkeypatch.setattr(stream, "BEAT", 1.0)

    async def send(message):
        pass

    async def may_go_on():
        asked.append(time.monotonic() - begun)
        return False

    asked, begun = [], time.monotonic()
    assert run(lambda: asyncio.Event().wait(), send, may_go_on, news_after=0.9) == 1
    assert asked[0] < 1.9
