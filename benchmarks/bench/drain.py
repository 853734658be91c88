"""How many jobs workers do when there are always more."""

import time
from collections.abc import Iterator

from bench.figures import Plan
from bench.record import Runs
from bench.site import Contender, Failed, Site, ours, set_all

ROUND = 1000  # CONTINUE jobs
QUICK = 5  # a quick run has that part of the jobs


def drain(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """No-op jobs that are due are set, then one worker process starts; from its first job to its last one.

    Redbike also with two worker processes, counted while both work, and with CONTINUE jobs.
    """
    one = drained(plan, contender, 1)
    yield "drain: one worker process", one
    if contender.name == "redbike":
        two = drained(plan, contender, 2)
        yield "drain: two worker processes", two
        yield "drain: two, of one", two / one
        yield "drain: CONTINUE jobs going round, two workers", going_round(plan, contender)


def drained(plan: Plan, contender: Contender, workers: int, kind: str = "socket") -> float:
    """Jobs a second, with that kind of server."""
    count = contender.jobs // (QUICK if plan.quick else 1)
    with Site(contender, kind) as site:
        site.call("enqueue_many" if "enqueue_many" in contender.abilities else "enqueue", 0, count)
        for _ in range(workers):
            site.start("work")
        return together(site.finish(range(count)))


def together(runs: list[Runs]) -> float:
    """Jobs a second of several processes while all of them work."""
    begin, end = max(each[0][1] for each in runs), min(each[-1][1] for each in runs)
    if end <= begin:
        raise Failed("one worker had finished before another one started")
    number = sum(begin < moment <= end for each in runs for _, moment in each)
    return number / (end - begin) * 1e9


def going_round(plan: Plan, contender: Contender) -> float:
    """Runs a second of jobs that are due again as soon as they are done, with a dispatcher and two workers."""
    with Site(contender) as site:
        set_all(ours(site), ((f"{number}:A", "CONTINUE") for number in range(ROUND)))
        for verb in ("dispatch", "work", "work"):
            site.start(verb)
        site.await_runs(2 * ROUND)
        time.sleep(plan.pick(4, 2))
        site.stop()
        runs = site.runs()
    missing = ROUND - len({number for each in runs for number, _ in each})
    if missing:
        raise Failed(f"{missing} of {ROUND} CONTINUE jobs never ran")
    return together(runs)
