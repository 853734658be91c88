"""A stream of server-sent events, to a page or to a program."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.types import Receive, Scope, Send

BEAT = 10.0  # seconds after which an idle stream shows that it is alive
RETRY = 2000  # the least milliseconds after which a browser that lost the stream reconnects
SEND_TIMEOUT = 20.0  # seconds after which the stream of a reader that receives nothing ends
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class Reader:
    """A client that reads a stream. Use it only in the event loop in which it was made, except for `wake`."""

    def __init__(self) -> None:
        self.is_over = False
        self.news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wake(self, is_over: bool = False) -> None:
        """Wake the stream, which then sends what is new, or ends if it `is_over`. Any thread may call this."""
        if is_over:
            self.is_over = True  # not |=, because another thread may set it meanwhile
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self.news.set)


class Stream:
    """An answer that sends news to a reader until the reader leaves, loses its permission, or the server stops.

    `first` is sent at once. `take` returns what is new, or b"". `beat` returns a sign of life for an idle stream.
    `leave` is called at the end. `may_go_on` tells, every `BEAT` seconds, whether the reader still has permission.
    """

    def __init__(
        self,
        reader: Reader,
        first: bytes,
        take: Callable[[], bytes],
        beat: Callable[[], bytes],
        leave: Callable[[], None],
        may_go_on: Callable[[], Awaitable[bool]],
    ) -> None:
        self._reader, self._first = reader, first
        self._take, self._beat, self._leave, self._may_go_on = take, beat, leave, may_go_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        leaving = asyncio.create_task(self._wait_for_end(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._send(send, self._first)
            checked = time.monotonic()
            while not self._reader.is_over:
                await self._send_news(send, checked + BEAT)
                if time.monotonic() - checked >= BEAT:
                    checked = time.monotonic()
                    if not await self._may_go_on():
                        self._reader.is_over = True  # not |=, because the reader may have left meanwhile
            await self._send(send, b"", more_body=False)
        except (OSError, TimeoutError):
            pass  # the reader has left, or does not read
        finally:
            leaving.cancel()
            self._leave()

    async def _send_news(self, send: Send, until: float) -> None:
        self._reader.news.clear()
        if message := self._take():
            await self._send(send, message)
            return
        try:
            async with asyncio.timeout(until - time.monotonic()):
                await self._reader.news.wait()
        except TimeoutError:
            await self._send(send, self._beat())

    async def _send(self, send: Send, text: bytes, more_body: bool = True) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": text, "more_body": more_body})

    async def _wait_for_end(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._reader.wake(is_over=True)


def write_retry() -> bytes:
    """Return an event that sets a random delay for reconnects, so that browsers do not come back all at once."""
    return f"retry: {RETRY + random.randrange(RETRY)}\n\n".encode()
