"""What a person wants to see at a glance. What it costs does not grow with the number of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redbike.state.depths import Queue
from redbike.state.overview import Job
from redbike.state.store import Store
from redbike.state.totals import Total
from redbike.state.workers import Process


@dataclass(frozen=True, slots=True)
class Glance:
    """All queues and processes, and how many jobs are where."""

    total: Total
    processes: Sequence[Process]  # lost ones first
    queues: Sequence[Queue]
    is_paused: bool  # everything is

    @property
    def now(self) -> float:
        """Redis' clock, in epoch seconds."""
        return self.total.now


@dataclass(frozen=True, slots=True)
class View:
    """A glance, and some jobs of which one wants to know."""

    glance: Glance
    soonest: Sequence[Job]  # those that are due first; their last runs are not told
    failures: Sequence[dict[str, Any]]  # the newest ones, see `redbike.running.policies.make_failure`


def read_glance(store: Store, max_lag: float = 0.0, with_rates: bool = True) -> Glance:
    """Read all of it. Those jobs count as due that have been due for more than `max_lag` seconds."""
    total = store.totals.read(max_lag)
    processes, queues = store.workers.list_all(), store.depths.list_all(with_rates)
    is_paused = any(gate.queue == "" and gate.pause and gate.pause.holds(total.now) for gate in store.gates.list_all())
    return Glance(total, processes, queues, is_paused)


def read_view(store: Store, number: int, max_lag: float = 0.0) -> View:
    """Read a glance, the `number` jobs that are due first, and as many of the newest failures."""
    return View(
        glance=read_glance(store, max_lag),
        soonest=store.overview.list_soonest(number),
        failures=store.questions.list_newest_failures(number),
    )
