"""What it costs when there is nothing to do."""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Plan
from bench.site import Contender, Site, ours, set_all, wait_for

FAR = 10_000  # jobs that are due in months
SETTLE = 2.0  # seconds


def idle(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """A dispatcher and ten workers, then one of each, with 10,000 jobs for later: CPU of all our processes in % of a
    core, and commands a second on the server, those within scripts included."""
    for number, title in ((10, "dispatcher and ten workers"), (1, "dispatcher and one worker")):
        share, commands = idled(contender, number, plan.pick(20, 6))
        yield f"idle: {title}", share
        yield f"idle: {title}, commands", commands


def idled(contender: Contender, workers: int, seconds: float) -> tuple[float, float]:
    """Per cent of a core, and commands a second."""
    with Site(contender) as site:
        far = time.time() + 10**7
        set_all(ours(site), ((f"{number}:A", f"AT:{far + number:.0f}") for number in range(FAR)))
        for verb in ("dispatch", *["work"] * workers):
            site.start(verb)
        # All are there when as many clients wait.
        wait_for(lambda: site.server.client.info("clients")["blocked_clients"] >= workers + 1, "they do not start")
        time.sleep(SETTLE)
        used, called, began = cpu_seconds(site), calls(site), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        return 100 * (cpu_seconds(site) - used) / passed, (calls(site) - called) / passed


def calls(site: Site) -> int:
    """Commands so far, without the question for them."""
    return sum(number for name, number in site.server.calls().items() if name != "info")


def cpu_seconds(site: Site) -> float:
    """What the site's processes have used."""
    # In nanoseconds, by thread; /proc/<pid>/stat counts in ticks of 10 ms, which is more than some use in all.
    tasks = [path for process in site.processes for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9
