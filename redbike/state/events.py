"""Events as they happen: runs that end, and what people change. The scripts publish them, and keep nothing of them.

The channels have the names of the keys of the journal and the log, and their messages are entries of these. They are
sharded: in a cluster, an event goes to no other shard.
"""

from collections.abc import Iterator
from typing import Any

from redbike.serving.refusals import translate_errors
from redbike.state.entries import read_entry
from redbike.state.history import PastRun, read_run
from redbike.state.log import LogEntry, parse_entry
from redbike.state.namespace import Namespace
from redbike.state.records import decode

LOOK = 1.0  # seconds after which a listener looks whether it was closed


class Events:
    """Listens to what happens under the prefix."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def listen(self) -> Iterator[PastRun | LogEntry]:
        """Listen from now on; yield what happens, without end. Raise `Unreachable` where the server is away."""
        client: Any = self._namespace.client  # redis-py gives no types for this
        keys = self._namespace.keys
        channels = [keys.journal, keys.log]
        with translate_errors():
            subscription = client.pubsub()
            subscription.ssubscribe(*channels)
            for _ in channels:
                # Only what happens after the server has said so is heard.
                subscription.parse_response()
        return self._receive(subscription)

    def _receive(self, subscription: Any) -> Iterator[PastRun | LogEntry]:
        try:
            with translate_errors():
                while True:
                    message = subscription.get_message(timeout=LOOK)
                    if message and message["type"] == "smessage":
                        yield from self._read(decode(message["channel"]), message["data"])
        finally:
            subscription.close()

    def _read(self, channel: str, data: bytes) -> Iterator[PastRun | LogEntry]:
        if channel == self._namespace.keys.log:
            yield from reversed(list(parse_entry(data) or ()))
        else:
            runs = read_entry(data) or ()
            yield from (read_run(run.jobid, run.packed, run.worker) for run in runs if not isinstance(run, str))
