"""Many jobs that are due at the same instant."""

import json
import time
from collections.abc import Iterator

from bench.figures import DISPATCHED, Plan
from bench.site import Contender, Site, ours, set_all, wait_for
from bench.wall import check_in_time, lateness


def burst(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """20,000 no-op jobs at one instant, a dispatcher and one worker process, which wait for it.

    For Redbike also 100,000 jobs, in a quick run too, without a worker: how long the dispatcher's pass takes until all
    are in their queue, and its longest script.
    """
    count = plan.pick(20_000, 4_000)
    late = started(contender, count)
    yield "burst: first start after the instant", late[0] * 1000
    yield "burst: last start after the instant", late[-1]
    yield "burst: started since the instant", count / late[-1]
    if contender.name == "redbike":
        seconds, longest = dispatched(contender, DISPATCHED)
        yield f"burst: dispatch of {DISPATCHED:,} due jobs", seconds
        yield "burst: longest script", longest


def started(contender: Contender, count: int) -> list[float]:
    """Seconds from the instant to each start."""
    # Peers set them one by one.
    due = int(time.time()) + 3 + count / (8000 if contender.name == "redbike" else 1000)
    return at(contender, dict.fromkeys(range(count), due))


def at(contender: Contender, due: dict[int, float]) -> list[float]:
    """Seconds of lateness of jobs that are due then, with processes that wait for them."""
    with Site(contender) as site:
        jobs = site.folder / "jobs.json"
        jobs.write_text(json.dumps(list(due.items())))
        for verb in ("dispatch", "work"):
            if verb in contender.abilities:
                site.start(verb)
        # One that schedules in the process that works also sets its jobs there.
        if "run_schedule" in contender.abilities:
            site.start("run_schedule", jobs)
        else:
            site.call("schedule", jobs)
            check_in_time(min(due.values()))
        return lateness(due, site.finish(due))


def dispatched(contender: Contender, count: int) -> tuple[float, float]:
    """Seconds until all jobs of an instant are in their queue, and milliseconds of the longest script."""
    due = int(time.time()) + 2 + count / 15_000
    with Site(contender) as site:
        bike = ours(site)
        set_all(bike, ((f"{number}:A", f"AT:{due:.6f}") for number in range(count)))
        check_in_time(due)
        time.sleep(due + 0.1 - time.time())
        site.server.log_scripts()
        began = time.perf_counter()
        bike.dispatch_due()
        seconds = time.perf_counter() - began
        wait_for(lambda: site.server.client.llen("redbike-work-A") == count, "not all jobs are in their queue", 1)
        return seconds, site.server.longest_script()
