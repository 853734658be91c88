"""Measure what live updates of the page cost: the CPU time of its process while many look and a worker ends runs.

usage: python benchmarks/viewers.py [--viewers=<N>] [--rate=<N>] [--seconds=<N>] [--jobs=<N>] [--pages=<LIST>]

It starts a server, the page in a process of its own, and as many viewers as asked for. It prints the share of a core
that the process of the page takes, and what the viewers were sent.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer

PAGES = ",queues,workers,jobs"
SERVE = """
import sys, uvicorn
from redbike import Redbike, RoundRobin
from redbike.web import app
class Told(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)
page = app(Redbike(RoundRobin("A"), redis_config=sys.argv[1]))
Told(uvicorn.Config(page, port=0, log_level="warning", access_log=False)).run()
"""


class Worker(RoundRobin):
    """Does nothing, and succeeds."""

    def work(self, jobid: str) -> None:
        """Do nothing."""


class Counts:
    """What the viewers have got."""

    events = 0
    characters = 0


async def look(port: int, page: str, counts: Counts) -> None:
    """Read the stream of a page until cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(f"GET /events?page={page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async for line in reader:
        counts.events += line.startswith(b"event: parts")
        counts.characters += len(line)


def read_cpu(pid: int) -> float:
    """Return the CPU time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def work(bike: Redbike, rate: float, is_over: threading.Event) -> None:
    """End `rate` runs a second."""
    number = 0
    while not is_over.wait(1 / rate):
        number += 1
        bike.set(f"job{number % 100}:A", "NOW")
        bike.work_one()


async def measure(port: int, pid: int, given: argparse.Namespace) -> tuple[float, Counts]:
    """Return the share of a core that the page takes, and what was sent."""
    counts, pages = Counts(), given.pages.split(",")
    viewers = [asyncio.create_task(look(port, pages[each % len(pages)], counts)) for each in range(given.viewers)]
    await asyncio.sleep(5)  # until all have the whole page
    began, before = time.monotonic(), read_cpu(pid)
    counts.events = counts.characters = 0
    await asyncio.sleep(given.seconds)
    share = (read_cpu(pid) - before) / (time.monotonic() - began)
    for viewer in viewers:
        viewer.cancel()
    return share, counts


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for name, default in (("viewers", 50), ("rate", 5), ("seconds", 30), ("jobs", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--pages", default=PAGES, help="separated by commas; the first of these names is empty")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server, is_over = EmbeddedServer(folder), threading.Event()
        server.start()
        page = subprocess.Popen([sys.executable, "-c", SERVE, server.url], stdout=subprocess.PIPE, text=True)
        try:
            with Redbike(Worker("A"), redis_config=server.url) as bike:
                for _ in bike.set_many((f"steady{number}:B", "0 3 * * *") for number in range(given.jobs)):
                    pass
                worker = threading.Thread(target=work, args=(bike, given.rate, is_over))
                worker.start()
                port = int(page.stdout.readline()) if page.stdout else 0
                share, counts = asyncio.run(measure(port, page.pid, given))
                is_over.set()
                worker.join()
        finally:
            page.kill()
            page.wait()
            server.stop()
    print(f"{given.viewers} viewers, {given.rate} runs a second, {given.jobs:,} jobs: {share:.1%} of a core")
    print(f"{counts.events / given.seconds:.1f} events and {counts.characters / given.seconds / 1000:.1f} kB a second")


if __name__ == "__main__":
    main()
