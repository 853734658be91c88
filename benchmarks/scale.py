"""What one prefix can carry: ``python benchmarks/scale.py [--quick]``.

Prints what a run takes of the server's main thread, of the dispatcher and of the workers: when many jobs come due at
one instant, and when they come due one after the other. Then what a scheduled job, and its ended runs, take of the
server's memory, how long it takes to check, to save and to load all of them, and what an idle dispatcher and an idle
worker take of the server: connections, requests, time. The server has no durability.
"""

import sys
import time
from dataclasses import dataclass

from bench.figures import Plan
from bench.idle import cpu_seconds
from bench.ours import cron_line
from bench.recurring import cron
from bench.site import Contender, Failed, Site, ours, set_all, wait_for
from suite import described

from redbike import Redbike
from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run

TOGETHER = 60_000  # jobs that come due at one instant
SCATTERED, PERIOD = (200, 2_000, 10_000), 10  # runs a second, and seconds after which a job is due again
MEASURED = 20.0  # seconds
STORED = (10_000, 100_000, 1_000_000)  # jobs
CHECKED = 100_000  # jobs that fsck reads at the most: what it takes grows with their number
RUNS = 10  # that are kept of a job by default
TAKEN, POOL = 64, 6  # jobs that a worker takes together, and workers that take them
IDLE = 20  # workers


@dataclass(frozen=True)
class Used:
    """Seconds of a processor so far: of the server's main thread, of the dispatcher and of the workers."""

    server: float
    dispatcher: float
    workers: float

    def __sub__(self, other: "Used") -> "Used":
        return Used(self.server - other.server, self.dispatcher - other.dispatcher, self.workers - other.workers)


def main() -> None:
    quick = Plan("--quick" in sys.argv)
    redbike = described("redbike", sys.executable)
    assert redbike is not None
    for workers in (1, 2):
        report(f"due at one instant, {workers} workers", *together(redbike, workers, quick.pick(TOGETHER, 12_000)))
    for rate in SCATTERED[: quick.pick(3, 2)]:
        report(f"{rate:,} due in each second, 2 workers", *scattered(redbike, 2, rate))
    for count in STORED[: quick.pick(3, 2)]:
        store(redbike, count)
    for verb, number in (("dispatch", 1), ("dispatch", 2), ("work", 1), ("work", IDLE)):
        idle(redbike, verb, number)


def report(title: str, runs: int, seconds: float, used: Used) -> None:
    """Print what each run took."""
    each = (f"{name} {getattr(used, name) / runs * 1e6:.0f} µs" for name in ("server", "dispatcher", "workers"))
    print(f"{title}: {runs / seconds:,.0f} runs/s; of a processor for each run: {', '.join(each)}", flush=True)


def measure(site: Site) -> Used:
    """What was used so far; the dispatcher is the first of the site's processes."""
    processes = site.processes
    shares = []
    for part in (processes[:1], processes[1:]):
        site.processes = part
        shares.append(cpu_seconds(site))
    site.processes = processes
    return Used(site.server.cpu(), *shares)


def start(site: Site, workers: int) -> None:
    """Start a dispatcher and workers, and wait until they are idle."""
    for verb in ("dispatch", *["work"] * workers):
        site.start(verb)
    wait_for(lambda: site.server.client.info("clients")["blocked_clients"] > workers, "they do not start")


def together(redbike: Contender, workers: int, count: int) -> tuple[int, float, Used]:
    """Cron jobs that are all due at one instant: from then until the last of them is on the timeline again."""
    due = int(time.time() + 6 + count / 6000)
    with Site(redbike) as site:
        start(site, workers)
        set_all(ours(site), ((f"{number}:A", cron(number, due)) for number in range(count)))
        time.sleep(max(0.0, due - 0.5 - time.time()))
        before = measure(site)
        wait_for(lambda: site.count() >= count, "not all of them run", 120)
        seconds = time.time() - due
        time.sleep(0.5)
        return count, seconds, measure(site) - before


def scattered(redbike: Contender, workers: int, rate: int) -> tuple[int, float, Used]:
    """Jobs that come due evenly spread over time, so many a second, each again after `PERIOD`."""
    count = rate * PERIOD
    with Site(redbike) as site:
        start(site, workers)
        anchor = time.time()
        schedules = (f"EVERY:{PERIOD}s@{anchor + number / rate:.6f}" for number in range(count))
        set_all(ours(site), ((f"{number}:A", schedule) for number, schedule in enumerate(schedules)))
        site.await_runs(2 * count)
        runs, before, began = site.count(), measure(site), time.monotonic()
        time.sleep(MEASURED)
        return site.count() - runs, time.monotonic() - began, measure(site) - before


def store(redbike: Contender, count: int) -> None:
    """Print what so many cron jobs take of the server's memory, and how long all of them take to check and to load."""
    with Site(redbike) as site:
        bike, before = ours(site), site.server.memory()
        set_all(bike, ((f"{number}:A", cron_line(number)) for number in range(count)))
        memory = (site.server.memory() - before) / count
        said = f"{count:,} cron jobs: {memory:.0f} bytes of memory each"
        began = time.monotonic()
        size = site.server.snapshot_size() / count
        said += f", {size:.0f} in a snapshot; save {time.monotonic() - began:.2f} s"
        site.server.client.bgsave()
        fork = site.server.client.info("stats")["latest_fork_usec"] / 1000
        wait_for(lambda: not site.server.client.info("persistence")["rdb_bgsave_in_progress"], "it is not saved")
        said += f", fork {fork:.1f} ms"
        site.server.kill()
        began = time.monotonic()
        site.server.start()
        said += f", load {time.monotonic() - began:.2f} s"
        if count <= CHECKED:
            began = time.monotonic()
            if problems := list(bike.fsck()):
                raise Failed(problems[0])
            said += f"; fsck {time.monotonic() - began:.2f} s"
        if count <= CHECKED:
            before = site.server.memory()
            remember(bike, count)
            said += f"; {RUNS} ended runs: {(site.server.memory() - before) / count:.0f} bytes of memory more"
        print(said, flush=True)


def remember(bike: Redbike, count: int) -> None:
    """Put as many ended runs of each job into its history as are kept of it, by several workers in turn."""
    for turn in range(RUNS):
        for first in range(0, count, TAKEN):
            number = (first // TAKEN + turn) % POOL
            ended = [
                (f"{job}:A", "work-A", RUNS, pack_run(3600.0 * turn + job, 0.01, 1.5, Outcome.OK, 1, ""))
                for job in range(first, min(count, first + TAKEN))
            ]
            entry = pack_entry(f"worker-{number}:12345:OwnerOf{number}", ended)
            bike.client.rpush(bike.store.keys.journal, entry)
        while bike.client.llen(bike.store.keys.journal):
            for _ in bike.store.archiver.archive():
                pass


def idle(redbike: Contender, verb: str, number: int) -> None:
    """Print what so many idle processes take of the server."""
    with Site(redbike) as site:
        info = site.server.client.info
        for _ in range(number):
            site.start(verb)
        wait_for(lambda: info("clients")["blocked_clients"] >= number, "they do not start")
        time.sleep(2)
        commands, cpu, began = info("stats")["total_commands_processed"], site.server.cpu(), time.monotonic()
        time.sleep(MEASURED)
        passed = time.monotonic() - began
        share = (site.server.cpu() - cpu) / passed / number * 100
        calls = (info("stats")["total_commands_processed"] - commands) / passed / number
        connections = (info("clients")["connected_clients"] - 1) / number
        print(
            f"idle, {number} × {verb}: each has {connections:g} connections, sends {calls:.1f} requests/s and takes "
            f"{share:.3f} % of the server's core",
            flush=True,
        )


if __name__ == "__main__":
    main()
