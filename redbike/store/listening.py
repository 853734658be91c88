"""Listening to channels of the server, with a check that it still answers: a broken connection may stay open."""

import time
from collections.abc import Callable, Generator
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.errors import ServerError, Unreachable
from redbike.store.namespace import Part

ASK, PATIENCE = 10.0, 5.0  # seconds of silence until a listener sends a PING, and seconds that it waits for the reply
LOOK = 1.0  # seconds after which a listener checks whether it is over


class Silence:
    """How long a server has been silent. A server that hangs, or a network that drops packets, closes no connection."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._asked: float | None = None

    def asks(self) -> bool:
        """Return whether to send a PING now. Raise `Unreachable` if the server has not answered the last one."""
        now = time.monotonic()
        if self._asked is not None and now - self._asked > PATIENCE:
            raise Unreachable("the server does not answer")
        if self._asked is None and now - self._since > ASK:
            self._asked = now
            return True
        return False


class Listener(Part):
    """Listens to channels."""

    def _subscribe(self, *channels: str) -> Any:
        """Return a subscription to everything that is sent from now on. Raise what `_receive` raises."""
        self._check_place()
        with translate_errors():
            subscription = self._namespace.client.pubsub()
            subscription.ssubscribe(*channels)
            for _ in channels:
                # Messages are received only from this reply on.
                subscription.parse_response()
        return subscription

    def _receive(self, subscription: Any, is_over: Callable[[], bool]) -> Generator[dict[str, Any] | None]:
        """Yield messages until `is_over`, and None after `LOOK` seconds without one.

        Raise `Unreachable` if the server is away, and `BadConfig` if the jobs have moved to other shards.
        """
        silence = Silence()
        try:
            with translate_errors():
                while not is_over():
                    message = subscription.get_message(timeout=LOOK)
                    if message:
                        silence = Silence()
                    elif silence.asks():
                        subscription.ping()
                        self._check_place()
                    yield message
        finally:
            subscription.close()

    def _check_place(self) -> None:
        """Raise `BadConfig` if the jobs have moved to other shards: nothing is sent here any more."""
        try:
            self._namespace.ask("hlen", self._namespace.keys.statuses)
        except Unreachable:
            raise
        except ServerError:
            pass  # without the right for this command, or with a damaged key, it listens all the same
