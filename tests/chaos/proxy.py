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
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.journal import Journal
from tests.chaos.resp import Frames

CHUNK = 65536  # bytes
BLACK_HOLE = 12.0  # seconds; whoever waits for an answer gives up before


@dataclass
class Fault:
    """What is to happen to some connection."""

    kind: str
    choice: float
    seconds: float


class Link:
    """One connection of a process `pid`, and the connection to the server that belongs to it."""

    def __init__(self, pid: int, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.client = client
        self.server = server
        self.armed: Fault | None = None
        self.open = asyncio.Event()
        self.open.set()

    def close(self) -> None:
        """Cut it at once, with what is still unsent."""
        self.open.set()
        for writer in (self.client, self.server):
            writer.transport.abort()


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


async def delay(link: Link, frame: bytes, fault: Fault) -> None:
    """The request arrives late."""
    await asyncio.sleep(fault.seconds / 10)
    link.server.write(frame)


async def cut_before(link: Link, frame: bytes, fault: Fault) -> None:
    """The request never arrives."""
    link.close()


async def stall(link: Link, frame: bytes, fault: Fault) -> None:
    """Nothing gets through for a while, in either direction."""
    link.open.clear()
    await asyncio.sleep(fault.seconds)
    link.open.set()
    link.server.write(frame)


async def black_hole(link: Link, frame: bytes, fault: Fault) -> None:
    """The request and all that follows vanish, and neither side is told; for the server the client is still there."""
    link.open.clear()
    await asyncio.sleep(BLACK_HOLE)
    link.close()


async def lose_reply(link: Link, frame: bytes, fault: Fault) -> None:
    """The server has done what it was asked to, but does not get to say so."""
    link.close()


async def cut_reply(link: Link, frame: bytes, fault: Fault) -> None:
    """A part of the reply arrives."""
    link.client.write(frame[: max(1, int(fault.choice * len(frame)))])
    await asyncio.sleep(0)
    link.client.write_eof()
    await asyncio.sleep(0.05)
    link.close()


Strike = Callable[[Link, bytes, Fault], Awaitable[None]]
ON_REQUEST: dict[str, Strike] = {"delay": delay, "cut-before": cut_before, "stall": stall, "black-hole": black_hole}
ON_REPLY: dict[str, Strike] = {"reply-lost": lose_reply, "cut-mid-reply": cut_reply}


def peer(writer: asyncio.StreamWriter) -> int:
    """The process at the other end of a Unix socket."""
    size = struct.calcsize("3i")
    found = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", found)[0])


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


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
