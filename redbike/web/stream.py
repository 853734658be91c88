"""The stream of server-sent events that a page listens to."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.types import Receive, Scope, Send

from redbike.web.live import Live, Viewer

BEAT = 10.0  # seconds after which an idle stream shows that it is alive
RETRY = 2000  # milliseconds, about, after which a browser that lost the stream comes back
SEND_TIMEOUT = 20.0  # seconds for which a browser that takes nothing is waited for
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class Stream:
    """The answer that sends a viewer what is new, until it leaves, or may not look any more, or the server stops."""

    def __init__(self, live: Live, viewer: Viewer, may_go_on: Callable[[], Awaitable[bool]]) -> None:
        self._live = live
        self._viewer = viewer
        self._may_go_on = may_go_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        leaving = asyncio.create_task(self._wait_for_end(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._send(send, f"retry: {RETRY + random.randrange(RETRY)}\n\n".encode())
            checked = time.monotonic()
            while not self._viewer.is_over:
                await self._send_news(send)
                if time.monotonic() - checked >= BEAT:
                    checked = time.monotonic()
                    self._viewer.is_over |= not await self._may_go_on()
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):
            pass  # the browser has left, or does not read
        finally:
            leaving.cancel()
            self._live.leave(self._viewer)

    async def _send_news(self, send: Send) -> None:
        self._viewer.news.clear()
        message = self._live.take_message(self._viewer)
        if message:
            await self._send(send, message)
            return
        try:
            async with asyncio.timeout(BEAT):
                await self._viewer.news.wait()
        except TimeoutError:
            await self._send(send, self._live.write_beat(self._viewer))

    async def _send(self, send: Send, text: bytes) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": text, "more_body": True})

    async def _wait_for_end(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._viewer.wake(is_over=True)
