"""How many jobs are where, at one instant; the cost does not grow with their number."""

from dataclasses import dataclass
from typing import Any

from redbike.store.namespace import Namespace


@dataclass(frozen=True, slots=True)
class Total:
    """Numbers of jobs, and the instant in epoch seconds by Redis' clock."""

    now: float
    jobs: int  # that have a schedule
    timeline: int
    due: int  # of those on the timeline
    first_due: float | None  # the due time of the first of these
    paused: int
    failing: int  # those that have failed and not succeeded since, as far as that is kept
    unarchived: int  # entries of the journal
    dispatched: float | None = None  # the instant up to which all is; None if there was no dispatcher yet


class Totals:
    """Counts jobs."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def read(self, max_lag: float = 0.0) -> Total:
        """Return all of them. Those count as due that have been due for more than `max_lag` seconds."""
        client, keys, now = self._namespace.client, self._namespace.keys, self._namespace.now
        kinds = (
            *((key, "hash") for key in (keys.schedules, keys.pauses)),
            *((key, "zset") for key in (keys.timeline, keys.failure_times, keys.dispatched)),
            (keys.journal, "list"),
        )
        with self._namespace.translate(*kinds):
            if now is None:
                seconds, micros = client.time()
                now = seconds + micros / 1e6
            with client.pipeline(transaction=True) as pipeline:
                commands: Any = pipeline
                commands.hlen(keys.schedules)
                commands.zcard(keys.timeline)
                commands.zcount(keys.timeline, "-inf", f"({now - max_lag!r}" if max_lag else now)
                commands.zrange(keys.timeline, 0, 0, withscores=True)
                commands.hlen(keys.pauses)
                commands.zcard(keys.failure_times)
                commands.llen(keys.journal)
                commands.zscore(keys.dispatched, "until")
                jobs, timeline, due, first, paused, failing, unarchived, dispatched = commands.execute()
        # Somebody may have put a job before the beginning of time.
        first_due = max(0.0, float(first[0][1])) if due else None
        return Total(now, jobs, timeline, due, first_due, paused, failing, unarchived, dispatched)
