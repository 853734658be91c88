"""One connection through the proxy, and what can happen to it."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

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


def is_open(path: Path) -> bool:
    """Whether somebody listens on the Unix socket at `path`; the file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
