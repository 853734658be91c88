"""Blackouts, and pauses of queues and of everything, that hold parents when they are due."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from redbike.queries.blackouts import find_for, read_blackouts
from redbike.schedule.clock import Clock
from redbike.store.blackouts import OF_JOB, OF_QUEUE, Blackout, name_all
from redbike.store.inspected import JobState
from redbike.store.queue_limits import Pause
from redbike.store.store import Store

MOST_HELD = 1000  # jobs that are read


@dataclass(frozen=True, slots=True)
class Holds:
    """The blackouts and pauses of some jobs."""

    queues: Mapping[str, str]  # of each job
    blackouts: Mapping[str, Blackout]  # by name
    pauses: Mapping[str, Pause]  # of queues, and of everything: ""

    def describe(self, jobid: str, due: float, clock: Clock) -> str:
        """Return the part of a sentence that says until when a job is paused when it is due; "" if it is not."""
        queue = self.queues.get(jobid)
        if queue is None:
            return ""
        moment, found = max(due, clock.now), list[tuple[float, str]]()
        own = {name: self.blackouts[name] for name in name_all(jobid, queue) if name in self.blackouts}
        if falls := find_for(own, moment):
            found.append((falls.window.end, falls.name))
        for name, pause in self.pauses.items():
            if name in (queue, "") and pause.holds(moment):
                found.append((math.inf if pause.until is None else pause.until, OF_QUEUE + name))
        if not found:
            return ""
        end, name = max(found)
        what = "" if name.startswith(OF_JOB) else "its queue is " if name.removeprefix(OF_QUEUE) else "everything is "
        then = " then" if due > clock.now else ""
        return f"{what}paused{then} until {'somebody resumes it' if end == math.inf else clock.name(end)}"


def read_holds(store: Store, states: Mapping[str, JobState | None]) -> Holds:
    """Return the blackouts and pauses of the jobs of `states`, which maps job ids to states."""
    jobids = list(islice((jobid for jobid, state in states.items() if state), MOST_HELD))
    queues = {each.jobid: each.queue for each in store.overview.read_named(jobids, {})} if jobids else {}
    names = dict.fromkeys(name for jobid, queue in queues.items() for name in name_all(jobid, queue))
    pauses = {each.queue: each.pause for each in store.queue_limits.list_all() if each.pause}
    return Holds(queues, read_blackouts(store, list(names), filter(None, states.values())), pauses)
