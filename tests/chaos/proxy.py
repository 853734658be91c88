"""The proxy that all of Redbike's traffic passes through; it fails on command.

usage: python -m tests.chaos.proxy LISTEN TARGET JOURNAL

It listens on the Unix socket LISTEN and leads to the one at TARGET. It knows where a request and a reply begin and end
(see `resp`), so that it can cut a connection before a request, after it, or in the midst of a reply. A fault is a
line of JSON on standard input, ``{"kind": "reply-lost", "choice": 0.3, "seconds": 1.5}``: it is armed on one of the
connections, which `choice` picks, its kind is printed then, and it strikes at the next request or reply. What has
struck is noted in JOURNAL, with the process at the other end.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.chaos.journal import Journal
from tests.chaos.link import ON_REPLY, ON_REQUEST, Fault, Link, peer

CHUNK = 65536  # bytes


class Proxy:
    """Serves all connections."""

    def __init__(self, target: str, journal: Journal) -> None:
        self.target = target
        self.journal = journal
        self.links: list[Link] = []
        self.left_over: list[Fault] = []  # what was armed on a connection that ended before

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the client at the other end of `writer` sends, until one side closes."""
        try:
            from_server, to_server = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(peer(writer), writer, to_server)
        self.links.append(link)
        self._arm_left_over()
        pumps = [self._pump(link, reader, self._request), self._pump(link, from_server, self._reply)]
        tasks = [asyncio.ensure_future(pump) for pump in pumps]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        link.close()
        self.links.remove(link)
        if link.armed:
            self.left_over.append(link.armed)
            self._arm_left_over()

    def arm(self, fault: Fault) -> None:
        """Let `fault` strike at one of the connections."""
        free = [link for link in self.links if link.armed is None and link.open.is_set()]
        if not free:
            self.left_over.append(fault)
            return
        link = free[int(fault.choice * len(free))]
        if fault.kind == "reset":
            self._note(fault, link, time.monotonic())
            link.close()
        else:
            link.armed = fault

    def _arm_left_over(self) -> None:
        faults, self.left_over = self.left_over, []
        for fault in faults:
            self.arm(fault)

    async def _pump(
        self, link: Link, reader: asyncio.StreamReader, handle: Callable[[Link, bytes], Awaitable[None]]
    ) -> None:
        frames = Frames()
        try:
            while chunk := await reader.read(CHUNK):
                for frame in frames.feed(chunk):
                    await link.open.wait()
                    await handle(link, frame)
        except OSError:
            return

    async def _request(self, link: Link, frame: bytes) -> None:
        if link.armed and link.armed.kind in ON_REQUEST:
            fault, link.armed = link.armed, None
            began = time.monotonic()
            try:
                await ON_REQUEST[fault.kind](link, frame, fault)
            finally:
                # Also when the server went away meanwhile.
                self._note(fault, link, began)
        else:
            link.server.write(frame)

    async def _reply(self, link: Link, frame: bytes) -> None:
        if link.armed and link.armed.kind in ON_REPLY:
            fault, link.armed = link.armed, None
            self._note(fault, link, time.monotonic())
            await ON_REPLY[fault.kind](link, frame, fault)
        else:
            link.client.write(frame)

    def _note(self, fault: Fault, link: Link, began: float) -> None:
        self.journal.note("fault", name=fault.kind, pid=link.pid, began=began, ended=time.monotonic())


async def main(listen: str, target: str, journal: str) -> None:
    """Serve until standard input ends."""
    # It warns of each write to a connection that was just cut.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    proxy = Proxy(target, Journal(Path(journal)))
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with await asyncio.start_unix_server(proxy.serve, listen):
        while line := await commands.readline():
            fault = Fault(**json.loads(line))
            proxy.arm(fault)
            print(fault.kind, flush=True)


# RESP, the protocol of Redis, as far as it has to be known here: where a request and a reply begin and end.


def frame_end(data: bytes, at: int = 0) -> int:
    """Where the request or reply that begins at `at` ends; -1 if that is not in `data` yet."""
    pending = 1
    while pending:
        line = data.find(b"\r\n", at)
        if line < 0:
            return -1
        kind, number = data[at : at + 1], data[at + 1 : line]
        at, pending = line + 2, pending - 1
        if kind in b"$=!":
            at += int(number) + 2 if number != b"-1" else 0
        elif kind in b"*~>":
            pending += max(0, int(number))
        elif kind in b"%|":
            # Attributes stand before what they belong to.
            pending += 2 * int(number) + (kind == b"|")
    return at if at <= len(data) else -1


class Frames:
    """Cuts a stream into requests or replies."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Those that are complete now."""
        data, at, found = self._rest + chunk, 0, []
        while at < len(data) and (end := frame_end(data, at)) > 0:
            found.append(data[at:end])
            at = end
        self._rest = data[at:]
        return found


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
