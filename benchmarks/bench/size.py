"""Whether the cost of a job grows with anything."""

import time
from collections.abc import Callable, Iterator
from statistics import median

from bench.drain import together
from bench.figures import Figure, Plan, sized
from bench.site import Contender, Failed, Site, ours, set_all, wait_for
from redbike import Redbike

DUE, ASKED = 1_000, 200  # jobs that are dispatched, calls of which the median counts
SCHEDULED, MOST = [1_000, 100_000, 1_000_000], 10_000_000
DEPTHS = [1_000, 10_000, 100_000]
QUEUES = [1, 10, 100, 1_000]
CONNECTIONS = [1, 200]

SIZES: list[Figure] = [
    *sized("setting them; jobs scheduled", [*SCHEDULED, MOST], "s"),
    *sized(f"dispatch of {DUE:,} due jobs; jobs scheduled", [*SCHEDULED, MOST], "ms"),
    *sized("tell; jobs scheduled", [*SCHEDULED, MOST], "ms"),
    *sized("set; jobs scheduled", [*SCHEDULED, MOST], "ms"),
    *sized("drain; jobs in the queue", DEPTHS, "jobs/s", more=True),
    *sized("drain; queues", QUEUES, "jobs/s", more=True),
    *sized("drain; workers' connections", CONNECTIONS, "jobs/s", more=True),
]


def size(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """With ever more jobs scheduled for later: a dispatcher's pass over 1,000 due jobs, `tell`, `set`.

    Then the drain by one worker: from short and deep queues, from many queues, and beside many idle workers.
    """
    yield from scheduled(plan, contender)
    for depth in DEPTHS[: plan.pick(3, 2)]:
        yield f"size: drain; jobs in the queue, {depth:,}", drained(contender, depth, 1, 0)
    count = plan.pick(20_000, 4_000)
    for queues in QUEUES:
        yield f"size: drain; queues, {queues:,}", drained(contender, count, queues, 0)
    for connections in CONNECTIONS:
        yield f"size: drain; workers' connections, {connections:,}", drained(contender, count, 1, connections - 1)


def scheduled(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """Seconds in which they are set (the whole number of them), and milliseconds of each call then."""
    there, took, far = 0, 0.0, time.time() + 10**7
    with Site(contender) as site:
        bike = ours(site)
        for count in SCHEDULED[: plan.pick(3, 2)] + [MOST] * plan.full:
            began = time.perf_counter()
            set_all(bike, ((f"{number}:A", f"AT:{far + number % 10**7}") for number in range(there, count)))
            there, took = count, took + time.perf_counter() - began
            yield f"size: setting them; jobs scheduled, {count:,}", took
            yield f"size: dispatch of {DUE:,} due jobs; jobs scheduled, {count:,}", dispatch(bike, count)
            asked = [number * (count // ASKED) for number in range(ASKED)]
            yield f"size: tell; jobs scheduled, {count:,}", each(lambda n: bike.tell(f"{n}:A"), asked)
            yield f"size: set; jobs scheduled, {count:,}", each(lambda n: bike.set(f"{n}:A", f"AT:{far + 1}"), asked)


def each(call: Callable[[int], object], numbers: list[int]) -> float:
    """The median of so many calls, in milliseconds."""
    costs = []
    for number in numbers:
        began = time.perf_counter()
        call(number)
        costs.append(time.perf_counter() - began)
    return median(costs) * 1000


def dispatch(bike: Redbike, count: int) -> float:
    """Milliseconds for a pass over due jobs, the median of some."""
    costs = []
    for turn in range(5):
        due = time.time() + 0.5
        set_all(bike, ((f"due{turn}-{number}:{count}-{turn}", f"AT:{due:.6f}") for number in range(DUE)))
        time.sleep(max(0.0, due + 0.01 - time.time()))
        began = time.perf_counter()
        moved = bike.dispatch_due()
        costs.append(time.perf_counter() - began)
        if moved != DUE:
            raise Failed(f"{moved} of {DUE} due jobs were dispatched")
    return median(costs) * 1000


def drained(contender: Contender, count: int, queues: int, others: int) -> float:
    """Jobs a second of one worker of so many queues, with other, idle workers connected."""
    names = [f"Q{number}" for number in range(queues)] if queues > 1 else ["A"]
    with Site(contender) as site:
        set_all(ours(site), ((f"{number}:{names[number % queues]}", "NOW") for number in range(count)))
        if others:
            site.start("idle_workers", others)
            wait_for(lambda: site.server.client.info("clients")["blocked_clients"] >= others, "they do not start")
        site.start("work", ":".join(names))
        return together(site.finish(range(count)))
