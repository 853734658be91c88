"""The limits that a worker class names in code."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from redbike.config.limits import Limit, parse_rate
from redbike.errors import BadConfig, RedbikeError
from redbike.loop.worker_class import find_queue
from redbike.store.keys import check_queue_name
from redbike.store.store import Store
from redbike.text.printable import describe

log = logging.getLogger("redbike.worker")


def apply_limits(store: Store, worker: Any, names: Collection[str]) -> None:
    """Set the limits of the queues `names`, as ``limits()`` of `worker` says, unless an operator has set others.

    Log those of other queues. Raise `BadConfig` if ``limits()`` fails or returns anything but limits.
    """
    wanted = _find_queues(store, worker, read_limits(worker))
    kept = {gate.queue for gate in store.gates.list_all()}
    for name in {*wanted, *kept.intersection(names)}:
        limit = wanted.get(name, Limit())
        store.gates.limit(name, limit.at_once or False, parse_rate(limit.rate) or False, by_code=True)
    for name in wanted:
        if name not in names:
            log.warning("limits() names the queue %r, which this worker does not work: %s", name, ", ".join(names))


def _find_queues(store: Store, worker: Any, limits: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return limits by the full names of their queues. Raise `BadConfig` for two of one queue."""
    used = store.gates.list_queues() if limits else []
    found: dict[str, Limit] = {}
    for given, limit in limits.items():
        name = find_queue(worker, given, used)
        if name in found:
            raise BadConfig(f"limits() returned two limits for the queue {name!r}, one of them as {given!r}")
        found[name] = limit
    return found


def read_limits(worker: Any) -> dict[str, Limit]:
    """Return the limits by the names of queues; none if `worker` has no ``limits()``. Raise `BadConfig`."""
    method = getattr(worker, "limits", None)
    if method is None:
        return {}
    try:
        found = method()
    except RedbikeError:
        raise
    except Exception as error:
        # The worker class is the user's own: it may raise anything.
        raise BadConfig(f"limits() fails: {describe(error)}") from error
    if not isinstance(found, Mapping):
        raise BadConfig(f"limits() returned {found!r:.80}: a dict of queue names and limits is needed")
    for name, limit in found.items():
        check_queue_name(name)
        if not isinstance(limit, Limit):
            raise BadConfig(f"limits() returned {limit!r:.80} for the queue {name!r}: a redbike.Limit is needed")
    return dict(found)
