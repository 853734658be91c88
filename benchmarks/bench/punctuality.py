"""How late jobs start that are due at instants of their own."""

import random
import time
from collections.abc import Iterator

from bench.burst import at
from bench.figures import Plan
from bench.site import Contender
from bench.wall import quantile


def punctuality(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """200 no-op jobs at random instants, with a dispatcher and a worker process; APScheduler runs them in process."""
    count, seconds = 200, plan.pick(10, 4)
    generator, begin = random.Random(1), time.time() + 3
    late = at(contender, {number: round(begin + generator.random() * seconds, 6) for number in range(count)})
    yield "punctuality: earliest, below 0 is too early", late[0] * 1000
    yield "punctuality: median", quantile(late, 0.5) * 1000
    yield "punctuality: p99", quantile(late, 0.99) * 1000
