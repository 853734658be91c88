"""Events as they happen: runs that end, and what people change. The scripts publish them, and keep nothing of them.

The channels have the names of the keys of the journal and the log, and their messages are entries of these. They are
sharded: in a cluster, an event goes to no other shard.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.store.entries import read_entry
from redbike.store.history import PastRun, read_run
from redbike.store.log import LogEntry, parse_entry
from redbike.store.namespace import Namespace
from redbike.store.records import decode

LOOK = 1.0  # seconds after which a listener looks whether it is over
REST = 0.1  # seconds for which it does not listen to runs that nobody wants


class Events:
    """Listens to what happens under the prefix."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def listen(
        self, wants: Callable[[], bool] | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[PastRun | LogEntry]:
        """Listen from now on; yield what happens, until `is_over`, which is asked each `LOOK` seconds at least.

        Raise `Unreachable` where the server is away.

        `wants` is asked before it reads runs that have ended together. After a no, it does not listen to runs for
        `REST` seconds. Those that end meanwhile are not heard, and cost nobody anything.
        """
        client: Any = self._namespace.client  # redis-py gives no types for this
        keys = self._namespace.keys
        channels = [keys.journal, keys.log]
        with translate_errors():
            subscription = client.pubsub()
            subscription.ssubscribe(*channels)
            for _ in channels:
                # Only what happens after the server has said so is heard.
                subscription.parse_response()
        return self._receive(subscription, wants, is_over)

    def _receive(
        self, subscription: Any, wants: Callable[[], bool] | None, is_over: Callable[[], bool]
    ) -> Iterator[PastRun | LogEntry]:
        journal, is_resting = self._namespace.keys.journal, False
        try:
            with translate_errors():
                while not is_over():
                    message = subscription.get_message(timeout=LOOK)
                    if not message:
                        continue
                    if message["type"] == "ssubscribe":
                        is_resting = False
                    if message["type"] != "smessage":
                        continue
                    if decode(message["channel"]) != journal:
                        yield from reversed(list(parse_entry(message["data"]) or ()))
                    elif is_resting:
                        pass
                    elif wants is None or wants():
                        yield from _read_runs(message["data"])
                    else:
                        is_resting = True
                        subscription.sunsubscribe(journal)
                        time.sleep(REST)
                        subscription.ssubscribe(journal)
        finally:
            subscription.close()


def _read_runs(entry: bytes) -> Iterator[PastRun]:
    for run in read_entry(entry) or ():
        if not isinstance(run, str):
            yield read_run(run.jobid, run.packed, run.worker)
