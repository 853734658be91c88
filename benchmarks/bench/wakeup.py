"""How soon an idle worker begins."""

import json
from collections.abc import Iterator

from bench.figures import Plan
from bench.site import Contender, Site
from bench.wall import quantile

WARM_UP = 5  # jobs that are not counted: the worker has just started


def wakeup(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """From the call that sets a job, in one process, to the job's first line in a worker process that was idle.

    Raw is LPUSH in one process and BRPOP in another.
    """
    late = lateness(plan.pick(200, 60), contender)
    yield "wakeup: median", quantile(late, 0.5)
    yield "wakeup: p99", quantile(late, 0.99)


def lateness(jobs: int, contender: Contender, kind: str = "socket") -> list[float]:
    """Milliseconds from set to begin of so many jobs, the least first, with that kind of server."""
    count = jobs + WARM_UP
    with Site(contender, kind) as site:
        for verb in ("dispatch", "work"):
            if verb in contender.abilities:
                site.start(verb)
        late = sorted(json.loads(site.call("wakeups", count))[WARM_UP:])
        site.finish(range(count))
    return late
