"""Listening to channels of the server, and noticing that it is away even if no connection is closed."""

import time
from collections.abc import Callable, Generator
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.errors import ServerError, Unreachable
from redbike.store.namespace import Part

ASK, PATIENCE = 10.0, 5.0  # seconds of silence after which a listener asks the server, and then waits for its answer
LOOK = 1.0  # seconds after which a listener looks whether it is over


class Silence:
    """How long a server has been silent: one that hangs, or a network that drops everything, closes no connection."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._asked: float | None = None

    def asks(self) -> bool:
        """Return whether the server is to be asked whether it is there. Raise `Unreachable` if it does not answer."""
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
        """Return a subscription that hears what happens from now on. Raise what `_receive` raises."""
        self._check_place()
        with translate_errors():
            subscription = self._namespace.client.pubsub()
            subscription.ssubscribe(*channels)
            for _ in channels:
                # Only what happens after the server has said so is heard.
                subscription.parse_response()
        return subscription

    def _receive(self, subscription: Any, is_over: Callable[[], bool]) -> Generator[dict[str, Any] | None]:
        """Yield what is heard until `is_over`, and None at least each `LOOK` seconds.

        Raise `Unreachable` where the server is away, and `BadConfig` where the jobs have left for other shards.
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
        """Raise `BadConfig` if the jobs have left for other shards: nothing is ever heard here again."""
        try:
            self._namespace.ask("hlen", self._namespace.keys.statuses)
        except Unreachable:
            raise
        except ServerError:
            pass  # who may not ask, or finds a damaged key, listens all the same
