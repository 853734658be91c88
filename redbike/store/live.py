"""Send what runs print to all listeners while the runs go on. Nothing of it is stored.

A listener subscribes to a channel for each job: the name of the key ``-outputs``, a colon and the job id. It also
subscribes to the channel with the name of the key alone. A worker with commands sends an empty message to that channel
with its heartbeats. The server replies how many listen. While nobody listens, the worker sends nothing else.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import redis

from redbike.connection.refusals import translate_errors
from redbike.store.entries import read_entry
from redbike.store.history import PastRun, read_run
from redbike.store.listening import Listener
from redbike.store.records import decode


@dataclass(frozen=True, slots=True)
class Printed:
    """What a run has just printed. Secrets are masked, but unprintable characters are not escaped yet."""

    jobid: str
    text: bytes
    time: float  # epoch seconds, by the listener's clock


class LiveOutput(Listener):
    """Sends and receives what runs print."""

    def is_watched(self) -> bool:
        """Tell whether somebody listens to the output of any job. Raise `Unreachable`."""
        return self._send(self._namespace.keys.outputs, b"")

    def send(self, jobid: str, text: bytes) -> bool:
        """Send what the run of a job has printed; return whether anybody received it. Raise `Unreachable`."""
        return self._send(self._name_channel(jobid), text)

    def _send(self, channel: str, message: bytes) -> bool:
        with translate_errors():
            try:
                return int(self._namespace.client.spublish(channel, message)) > 0
            except redis.exceptions.NoPermissionError:
                return False

    def _name_channel(self, jobid: str) -> str:
        return f"{self._namespace.keys.outputs}:{jobid}"

    def listen(
        self, jobids: Sequence[str], is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[Printed | PastRun | None]:
        """Listen from now on: yield what jobs print, their runs that end, and otherwise None, at least once a second.

        Raise `Unreachable` if the server is away, and `BadConfig` if the jobs have moved to other shards.
        """
        keys = self._namespace.keys
        subscription = self._subscribe(keys.outputs, keys.journal, *map(self._name_channel, jobids))
        return self._read(subscription, frozenset(jobids), is_over)

    def _read(
        self, subscription: Any, jobids: frozenset[str], is_over: Callable[[], bool]
    ) -> Iterator[Printed | PastRun | None]:
        keys = self._namespace.keys
        with closing(self._receive(subscription, is_over)) as messages:
            for message in messages:
                if not message or message["type"] != "smessage":
                    yield None
                elif (channel := decode(message["channel"])) == keys.journal:
                    runs = (run for run in read_entry(message["data"]) or () if not isinstance(run, str))
                    yield from (read_run(run.jobid, run.packed, run.worker) for run in runs if run.jobid in jobids)
                elif channel != keys.outputs:
                    yield Printed(channel[len(keys.outputs) + 1 :], message["data"], time.time())
