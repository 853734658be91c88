"""The limits that a worker class names in code."""

from collections.abc import Iterable, Mapping
from typing import Any

from redbike.errors import BadConfig, RedbikeError
from redbike.limits import Limit, parse_rate
from redbike.state.keys import check_queue_name
from redbike.state.store import Store
from redbike.texts import describe


def apply_limits(store: Store, worker: Any, names: Iterable[str]) -> None:
    """Set the limits of the queues `names`, as ``limits()`` of `worker` says, unless an operator has set others.

    Raise `BadConfig` if ``limits()`` fails or returns anything but limits.
    """
    wanted = read_limits(worker)
    kept = {gate.queue for gate in store.gates.list_all()}
    for name in {*wanted, *kept.intersection(names)}:
        limit = wanted.get(name, Limit())
        store.gates.limit(name, limit.at_once or False, parse_rate(limit.rate) or False, by_code=True)


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
