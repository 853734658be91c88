"""What it costs to look: ``python benchmarks/looking.py [--realtime] [JOBS] [WHO...]``.

First with a million scheduled jobs on a server of its own: how long each command that only looks takes in all, when its
first line comes, how much memory it needs, and for how long its longest script holds the server. With ``--realtime``,
which root may ask for, the server gets the processor whenever it wants it.

Then the jobs a second that a worker drains, in turn without anybody who looks, with each that looks, and with all. With
``tail``, ``metrics`` or ``page`` as WHO, only that is measured, beside these alone. Ten look at the page: each follows
one of its pages live. Another one opens one of them each second.
"""

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from overload import go_first, megabytes
from viewers import Counts, read_cpu
from viewers import look as look_live

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer

JOBS, PAGE = 1_000_000, 1000
DRAINED, ROUNDS = 100_000, 20  # jobs, too few for the worker to archive them, and how often each drain is repeated
SCRAPE = 5.0  # seconds between two of them; a drain takes half as long, and has none or one
PORT = 19199
VIEWERS, VISIT = 10, 1.0  # who follow the page, and seconds between two visits of another one
PAGES = ("", "queues", "workers", "jobs", "runs", "failures")
COMMANDS = (
    "health",
    "jobs --overdue",
    "jobs --limit=20 --format=csv",
    "show 1:A",
    "why 1:A",
    "queues",
    "workers",
    "metrics",
    "agenda",
    "jobs --format=csv",
    "statuses",
    "schedules",
)
WORKER = f"""
import time
from redbike import RoundRobin

class Timed(RoundRobin):
    done, began = 0, 0.0

    def work(self, jobid):
        self.done += 1
        if self.done == 1:
            self.began = time.perf_counter()
        elif self.done == {DRAINED}:
            open("took.new", "w").write(str(time.perf_counter() - self.began))
            __import__("os").rename("took.new", "took")
"""
WATCHERS = {
    "nobody": (),
    "tail": ("tail",),
    "metrics": ("metrics",),
    "tail and metrics": ("tail", "metrics"),
    "page": ("page",),
}
COMMAND = {
    "tail": ("tail",),
    "metrics": ("metrics", f"--listen={PORT}"),
    "page": ("web", f"--listen=127.0.0.1:{PORT}"),
}


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    jobs = numbers[0] if numbers else JOBS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "timed.py").write_text(WORKER)
        server = EmbeddedServer(folder / ".redbike")
        server.start()
        try:
            bike = Redbike(RoundRobin("A"), redis_config=server.url)
            bike.client.config_set("slowlog-max-len", 100_000)
            bike.client.config_set("slowlog-log-slower-than", 100)
            if "--realtime" in sys.argv:
                go_first(server.status()["pid"])
            only = [who for who in WATCHERS if who in sys.argv]
            if not only:
                schedule(bike, jobs)
                for command in COMMANDS:
                    look(bike, folder, command)
                bike.flush()
            watch(bike, folder, ["nobody", *only] if only else WATCHERS)
        finally:
            server.stop()


def schedule(bike: Redbike, jobs: int) -> None:
    """Set so many jobs with 1,440 different schedules."""
    for first in range(0, jobs, PAGE):
        rows = ((f"{n}:A", f"{n % 60} {n // 60 % 24} * * *") for n in range(first, min(jobs, first + PAGE)))
        for _ in bike.set_many(rows):
            pass


def look(bike: Redbike, folder: Path, command: str) -> None:
    """Print what one command takes."""
    bike.client.slowlog_reset()
    began = time.perf_counter()
    with start(bike, folder, *command.split(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first, peak = process.stdout.readline(), 0.0
        heard = time.perf_counter()
        lines = bool(first)
        while block := process.stdout.read1(1 << 20):
            lines += block.count(b"\n")
            peak = max(peak, megabytes(process.pid))
        took = time.perf_counter() - began
    slow = (entry for entry in bike.client.slowlog_get(100_000) if not entry["command"].startswith(b"SLOWLOG"))
    slowest = max((entry["duration"] for entry in slow), default=0)
    script = f"{slowest / 1000:.1f} ms" if slowest else "below 0.1 ms"
    print(f"{command:32} {took:6.2f} s, first line after {heard - began:5.2f} s, {lines:9,} lines, "
          f"{peak:4.0f} MB, longest command {script}", flush=True)  # fmt: skip


class Drain(NamedTuple):
    """What was measured while a worker drained."""

    rate: float  # jobs a second
    server: float  # seconds of the processor that the server took for a job
    watchers: float  # share of a core that those who look took


def watch(bike: Redbike, folder: Path, watchers: Iterable[str]) -> None:
    """Print how fast a worker drains beside those who look."""
    found = {who: list[Drain]() for who in watchers}
    for _ in range(ROUNDS):
        for who, drains in found.items():
            drains.append(drain(bike, folder, WATCHERS[who]))
    alone = found["nobody"]
    for who, drains in found.items():
        pairs = list(zip(drains, alone, strict=True))
        ratio = statistics.median(each.rate / before.rate for each, before in pairs)
        server = statistics.median(each.server / before.server for each, before in pairs)
        rate, spent, share = map(statistics.median, zip(*drains, strict=True))
        each = ", ".join(f"{drain.rate:,.0f}" for drain in drains)
        print(
            f"drain beside {who:17} {rate:9,.0f} jobs/s, {ratio:.3f} of that alone ({each}); server "
            f"{spent * 1e6:.2f} us a job, {server:.3f} of that alone; {who} {share:.1%} of a core"
        )


def drain(bike: Redbike, folder: Path, watchers: Sequence[str]) -> Drain:
    """Measure one worker."""
    bike.flush()
    for first in range(0, DRAINED, PAGE):
        for _ in bike.set_many((f"{n}:A", "NOW") for n in range(first, first + PAGE)):
            pass
    (folder / "took").unlink(missing_ok=True)
    with contextlib.ExitStack() as running:
        looking = [running.enter_context(start(bike, folder, *COMMAND[who])) for who in watchers]
        if "metrics" in watchers:
            running.enter_context(scrapes())
        if "page" in watchers:
            running.enter_context(viewers())
        time.sleep(2.0)  # all of them have started
        began, server, before = time.monotonic(), read_server_cpu(bike), sum(read_cpu(each.pid) for each in looking)
        running.enter_context(start(bike, folder, "work", "timed:Timed('A')"))
        while not (folder / "took").exists():
            time.sleep(0.05)
        server = read_server_cpu(bike) - server
        share = (sum(read_cpu(each.pid) for each in looking) - before) / (time.monotonic() - began)
    return Drain((DRAINED - 1) / float((folder / "took").read_text()), server / DRAINED, share)


def read_server_cpu(bike: Redbike) -> float:
    """Return the seconds of processor time that the server has had."""
    found = bike.client.info("cpu")
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


@contextlib.contextmanager
def scrapes() -> Iterator[None]:
    """Scrape the figures each five seconds meanwhile, first of all after half of that."""
    over = Event()

    def scrape() -> None:
        pause = SCRAPE / 2
        while not over.wait(pause):
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as answer:
                answer.read()
            pause = SCRAPE

    thread = Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def viewers() -> Iterator[None]:
    """Follow the page with several viewers meanwhile, and visit it with another one."""
    over = Event()

    async def follow() -> None:
        counts = Counts()
        watched = [asyncio.create_task(look_live(PORT, PAGES[n % len(PAGES)], counts)) for n in range(VIEWERS)]
        while not await asyncio.to_thread(over.wait, VISIT):
            await asyncio.to_thread(visit, PAGES[counts.events % len(PAGES)])
        for each in watched:
            each.cancel()
        assert counts.events, "nobody was told of anything"

    wait_until_served()
    thread = Thread(target=asyncio.run, args=(follow(),))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def visit(page: str) -> None:
    """Open one page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{page}") as answer:
        answer.read()


def wait_until_served() -> None:
    """Wait until the page answers."""
    while True:
        try:
            return visit("")
        except urllib.error.URLError:
            time.sleep(0.1)


@contextlib.contextmanager
def start(bike: Redbike, folder: Path, *arguments: str, stdout: int = subprocess.DEVNULL) -> "Iterator[Process]":
    """A command of the shell, which is ended afterwards if it goes on."""
    url = f"unix://{bike.client.connection_pool.connection_kwargs['path']}"
    process = subprocess.Popen(
        (sys.executable, "-m", "redbike", f"--url={url}", *arguments),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])},
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


Process = subprocess.Popen[bytes]

if __name__ == "__main__":
    main()
