"""Pipelines of one of several shards."""

import math
from collections.abc import Iterable
from typing import Any

from redis import exceptions

from redbike.connection.line import pack
from redbike.connection.refusals import translate_errors
from redbike.store.scripts import Call, Pipeline, Reply


class SharedPipeline(Pipeline):
    """Releases its connection as soon as all scripts are answered, so that other shards of its master may use it."""

    def run(self, calls: Iterable[Call]) -> list[Reply]:
        """Run scripts in one round trip, see `Pipeline.run`."""
        try:
            return super().run(calls)
        finally:
            # After an error too: a connection with replies left in it is not used again.
            if not self.unanswered:
                self.close()


class ReplicatedPipeline(Pipeline):
    """Keeps its connection until it is closed, and can wait for a replica of the server."""

    _generation = 0  # of the connection over which the last script was run

    def run(self, calls: Iterable[Call]) -> list[Reply]:
        """Run scripts in one round trip, see `Pipeline.run`."""
        replies = super().run(calls)
        self._generation = self.line.generation
        return replies

    def is_alone(self) -> bool:
        """Tell whether the server that ran the last script is a master without a replica, or the user may not ask."""
        found = self._ask("INFO", "replication")
        if isinstance(found, exceptions.NoPermissionError):
            return True
        is_master = isinstance(found, bytes) and b"role:master" in found and b"state=online" not in found
        return is_master and self.line.generation == self._generation

    def is_replicated(self, patience: float) -> bool:
        """Wait up to `patience` seconds until a replica has what the last script has changed; tell whether it has.

        True if the user may not run WAIT.
        """
        # The reply must come before the connection times out.
        timeout = self._client.connection_pool.connection_kwargs.get("socket_timeout") or math.inf
        reply = self._ask("WAIT", "1", str(max(1, int(1000 * min(patience, timeout / 2)))))
        if isinstance(reply, exceptions.NoPermissionError):
            return True
        # Over a new connection, the server does not know what was changed over the old one.
        return isinstance(reply, int) and reply > 0 and self.line.generation == self._generation

    def _ask(self, *words: str) -> Any:
        with translate_errors():
            self.line.send(pack(words))
            return self.line.receive()
