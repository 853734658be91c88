"""Functions and coroutines of `Jobs`, beside the same of others: as fast as they go, woken up, and waiting."""

import os
from collections.abc import Iterator
from pathlib import Path

from bench.drain import drained
from bench.figures import Plan
from bench.site import Contender, Site
from bench.wakeup import lateness
from bench.wall import quantile

WAITING = 1000  # coroutines


def pool(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """No-op jobs with one argument: their drain by one worker process, and how soon an idle worker begins.

    A contender whose adapter has `enqueue_waiting_many` runs coroutines, the others threads. Of coroutines also what a
    worker process takes for 1,000 that wait at the same time.
    """
    has_coroutines = "enqueue_waiting_many" in contender.abilities
    kind = "coroutines" if has_coroutines else "threads"
    yield f"pool: {kind}, drain", drained(plan, contender, 1)
    late = lateness(plan.pick(200, 60), contender)
    yield f"pool: {kind}, wake-up, median", quantile(late, 0.5)
    yield f"pool: {kind}, wake-up, p99", quantile(late, 0.99)
    if has_coroutines:
        yield f"pool: memory for {WAITING:,} coroutines that wait", waiting(contender)


def waiting(contender: Contender) -> float:
    """MB that a worker grows by when so many jobs begin, none of which ends."""
    with Site(contender) as site:
        worker = site.start("work_waiting", WAITING)
        site.call("enqueue_waiting_many", 0, 1)
        site.await_runs(1)
        before = measure_memory(worker.pid)
        site.call("enqueue_waiting_many", 1, WAITING - 1)
        site.await_runs(WAITING)
        return (measure_memory(worker.pid) - before) / 1e6


def measure_memory(session: int) -> float:
    """Bytes of all processes of a session; what some of them share counts once."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (ProcessLookupError, FileNotFoundError):
            continue  # it has ended meanwhile
    return total
