"""Metrics for Prometheus, in its text format. They name queues, outcomes and reasons, but never jobs.

Each metric has the prefix as a label: so several prefixes can be monitored side by side.

Needs the package ``prometheus-client``, which the extra ``metrics`` installs.
"""

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, product

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from redbike.config.settings import Settings
from redbike.errors import ServerError
from redbike.loop.alerts.late import find_late
from redbike.queries.glance import add_unplaced, find_unplaced, is_all_paused
from redbike.store.enums import Outcome, Skip
from redbike.store.sharded.missing import list_missing, tolerate_missing
from redbike.store.store import Store
from redbike.store.tally import BUCKETS
from redbike.store.totals import Queue, Total
from redbike.text import __version__

log = logging.getLogger("redbike")

MOST_QUEUES = 1000  # that have metrics of their own
OTHERS = "…"  # the name of all other queues together
KIND = "text/plain; version=0.0.4; charset=utf-8"  # of the text format
Family = GaugeMetricFamily | CounterMetricFamily

KINDS, STATES = ("dispatcher", "worker"), ("alive", "stopping", "lost")


class Metrics(Collector):
    """Collects the metrics of a store each time that a registry of prometheus-client asks for them.

    The first request calls `open_store`; later requests call it again as long as it has raised `ServerError`. `prefix`
    is the label of all metrics. The default is the prefix of the store, and empty until the store is open. `settings`
    decide which jobs are late.
    """

    def __init__(
        self, open_store: Callable[[], Store], prefix: str | None = None, settings: Settings | None = None
    ) -> None:
        self._open_store = open_store
        self._prefix, self._settings = prefix, settings or Settings()
        self._store: Store | None = None
        self.problem = ""  # why the server did not answer the last request
        self._asking = threading.Lock()  # one request at a time: the store keeps known counts between requests

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; if the server does not answer, only ``redbike_up``, which is 0, and the version.

        If some of several shards do not answer, the others count, without counters: they would seem to restart.
        """
        with self._asking, tolerate_missing() as missing:
            try:
                self._store = self._store or self._open_store()
                found = list(self._collect(self._store))
                self._note_problem("; ".join(map(str, missing.values())), "some shards are not in the metrics")
            except (ServerError, OSError) as error:
                found = []
                self._note_problem(str(error), "there are no metrics")
        yield self._make("redbike_build_info", "The version of Redbike that shows this.", 1, version=__version__)
        yield self._make("redbike_up", "Whether the server answers.", bool(found))
        if found:
            text = "Shards that do not answer, of which the other metrics know nothing."
            yield self._make("redbike_missing_shards", text, len(missing))
        yield from found

    def _note_problem(self, problem: str, what: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s: %s", what, problem)
        self.problem = problem

    def _find_prefix(self) -> str:
        if self._prefix is not None:
            return self._prefix
        return self._store.keys.prefix if self._store else ""

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry does not call the server when this is registered."""
        return []

    def format(self) -> str:
        """Return all metrics in the text format."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry).decode()

    def _make(self, name: str, text: str, value: float, **labels: str) -> Metric:
        """Return a metric with one value."""
        return self._add(GaugeMetricFamily(name, text, labels=["prefix", *labels]), [(labels.values(), value)])

    def _add(self, family: Family, values: Iterable[tuple[Iterable[str], float]]) -> Metric:
        """Return a metric with its values. `values` are (labels after the prefix, value)."""
        for labels, value in values:
            family.add_metric([self._find_prefix(), *labels], value)
        return family

    def _collect(self, store: Store) -> Iterator[Metric]:
        """Yield all metrics of an open store. Raise `ServerError`."""
        processes = store.workers.list_all()
        total = add_unplaced(store.totals.read(), find_unplaced(store, processes))
        text = "Whether the server refuses changes, or at least new jobs as its memory is full."
        yield self._make("redbike_server_refuses_changes", text, store.questions.find_refusal() is not None)
        yield from self._describe_jobs(store, total, len(store.past.find_dead(0).times) if total.failing else 0)
        text = "Jobs that have not begun, or not ended, in the time that their options give them."
        yield self._make("redbike_late_jobs", text, len(find_late(store, self._settings)))
        rewinds = len(store.rewinds.list_all())
        text = "Times that the server went back which nobody has acknowledged."
        yield self._make("redbike_unacknowledged_rewinds", text, rewinds)
        queues = store.depths.list_all(with_rates=False)
        # Always the same queues, as far as possible: a series with gaps cannot be read.
        shown = {queue.queue for queue in queues[:MOST_QUEUES]}
        yield from self._describe_queues(queues, shown, total.now)
        counts = store.counts.read()
        yield from self._describe_counts(counts, shown) if not list_missing() else ()
        seen = Counter[tuple[str, str]]((process.kind, process.state) for process in processes)
        text = "Dispatchers and workers; a lost one is known for a day."
        family = GaugeMetricFamily("redbike_processes", text, labels=["prefix", "kind", "state"])
        yield self._add(family, ((each, seen[each]) for each in product(KINDS, STATES)))

    def _describe_jobs(self, store: Store, total: Total, dead: int) -> Iterator[Metric]:
        # While everything is paused, no job is to be enqueued: this is no lag, as in `redbike.queries.health.judge`.
        is_lagging = total.first_due is not None and not is_all_paused(store, total.now)
        lag = max(0.0, total.now - (total.first_due or 0.0)) if is_lagging else 0.0
        for name, text, value in (
            ("redbike_jobs", "Jobs that have a schedule.", total.jobs),
            ("redbike_timeline_jobs", "Jobs that wait for their due time.", total.timeline),
            ("redbike_due_jobs", "Jobs that are due, and that no dispatcher has enqueued yet.", total.due),
            ("redbike_dispatch_lag_seconds", "How long the oldest due job has not been enqueued, 0 in a pause.", lag),
            ("redbike_paused_jobs", "Jobs that are paused.", total.paused),
            ("redbike_failing_jobs", "Jobs that have failed and not succeeded since.", total.failing),
            ("redbike_dead_jobs", "Jobs that have failed for good, though their schedules would go on.", dead),
            ("redbike_unarchived_entries", "Entries of the journal of ended runs that wait.", total.unarchived),
        ):
            yield self._make(name, text, value)

    def _describe_queues(self, queues: Iterable[Queue], shown: set[str], now: float) -> Iterator[Metric]:
        depths, lags, flights, pauses = Counter[str](), dict[str, float](), Counter[str](), dict[str, bool]()
        for queue in queues:
            name = _name(queue.queue, shown)
            depths[name] += queue.waiting
            flights[name] += queue.in_flight
            late = 0.0 if queue.since is None else max(0.0, now - queue.since)
            lags[name] = max(late, lags.get(name, 0.0))
            pauses[name] = pauses.get(name, True) and queue.paused is not None
        found: tuple[tuple[str, str, Mapping[str, float]], ...] = (
            ("waiting_jobs", "Jobs that wait in a queue.", depths),
            ("lag_seconds", "For how long the first of these has waited.", lags),
            ("in_flight_jobs", "Jobs of a queue that run.", flights),
            ("paused", "Whether a queue, or everything, is paused.", pauses),
        )
        for title, text, values in found:
            family = GaugeMetricFamily(f"redbike_queue_{title}", text, labels=["prefix", "queue"])
            yield self._add(family, (((name,), values[name]) for name in lags))

    def _describe_counts(self, counts: Counter[str], shown: set[str]) -> Iterator[Metric]:
        forgotten = "redbike_forgotten_jobs", "One-offs that were forgotten after their end.", "forgotten::"
        went_back = "redbike_rewinds", "How often the server went back in time.", "rewinds::"
        for title, text, field in (forgotten, went_back):
            yield self._add(CounterMetricFamily(title, text, labels=["prefix"]), [((), counts[field])])
        # Counts of queues beyond the limit have an empty name.
        found = Counter[tuple[str, str, str]]()
        for field, number in counts.items():
            kind, what, queue = field.split(":", 2)
            found[kind, what, _name(queue, shown)] += number
        ran = {name for kind, _, name in found if kind == "runs"}
        names = sorted({_name(queue, shown) for queue in shown} | ran)
        skipped = (((reason.value,), counts[f"skipped:{reason}:"]) for reason in Skip)
        text = "Occurrences that did not run, by reason."
        yield self._add(CounterMetricFamily("redbike_skipped", text, labels=["prefix", "reason"]), skipped)
        ended = (((name, each.value), found["runs", each, name]) for name, each in product(names, Outcome))
        text = "Runs that have ended, by outcome."
        yield self._add(CounterMetricFamily("redbike_runs", text, labels=["prefix", "queue", "outcome"]), ended)
        lasted = "redbike_run_duration_seconds", "How long runs took.", "took", "microseconds"
        waited = "redbike_start_delay_seconds", "How late occurrences began, at their first try.", "delay", "delays"
        for title, text, kind, total in (lasted, waited):
            family = HistogramMetricFamily(title, text, labels=["prefix", "queue"])
            for name in names:
                numbers = {bound: found[kind, f"{bound:g}", name] for bound in (*BUCKETS, math.inf)}
                bounds = ("+Inf" if bound == math.inf else repr(bound) for bound in numbers)
                below = zip(bounds, accumulate(numbers.values()), strict=True)
                family.add_metric([self._find_prefix(), name], list(below), sum_value=found[total, "", name] / 1e6)
            yield family


def _name(queue: str, shown: set[str]) -> str:
    """Return the name of a queue as it is shown. A name that was written to Redis by hand may be no UTF-8."""
    return queue.encode(errors="backslashreplace").decode() if queue in shown else OTHERS
