"""Recognise the keys of redbike 0.13.1 whose names are used no more. Its other keys are still in use.

- ``<prefix>-<queue name>-members``: a set of the ids in the queue, so that none is twice in it. Today: ``-queued``.
- ``<prefix>-<queue name>-<job id>``: the tag of a run in flight, which expires. Today: ``-inflight-<tag>``.
"""

import re
from collections.abc import Callable, Collection

from redbike.connection.refusals import translate_errors
from redbike.store.keys import Keys
from redbike.store.records import decode
from redbike.store.store import Store

MEMBERS = "-members"
TAG = re.compile(r"[0-9a-f]{30}")

QueueFor = Callable[[str], str]


def is_members(store: Store, key: str, queues: Collection[str], queue_for: QueueFor) -> bool:
    """Tell whether `key` is the set of ids that 0.13.1 kept beside a queue; nothing reads it any more."""
    name = _name(store.keys, key)
    if not name.endswith(MEMBERS) or decode(store.client.type(key)) != "set":
        return False
    queue = name.removesuffix(MEMBERS)
    first = next(store.client.sscan_iter(key, count=1), None)
    return queue in queues or (first is not None and queue_for(decode(first)) == queue)


def is_run(store: Store, key: str, queue_for: QueueFor) -> bool:
    """Tell whether `key` is the tag of a run of a worker of 0.13.1; it expires at the timeout of the run."""
    name = _name(store.keys, key)
    if not any(queue_for(name[dash.end() :]) == name[: dash.start()] for dash in re.finditer("-", name)):
        return False
    if decode(store.client.type(key)) != "string" or store.client.pttl(key) < 0:
        return False
    return TAG.fullmatch(decode(store.client.get(key))) is not None


def remove(store: Store, key: str) -> None:
    """Delete `key`."""
    with translate_errors():
        store.client.delete(key)


def _name(keys: Keys, key: str) -> str:
    return key.removeprefix(f"{keys.prefix}-")
