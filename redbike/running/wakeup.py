"""How an idle process waits: by a blocking pop that stays pending, so that waiting costs no command."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from redbike.processes.signals import StopFlag
from redbike.serving.line import Line, make_line, pack
from redbike.state.keys import kinds_of
from redbike.state.records import text
from redbike.state.scripts import Call, Reply, name_wrong_key, packed, translated, worded

BLOCK = 5  # seconds for which the server holds a blocking pop
SILENCE = BLOCK + 4  # seconds without a reply after which the server counts as gone


class Wakeup:
    """A blocking pop on lists of tokens, pending on a line of its own.

    The server's own timeouts are late by up to 0.1 s. So the pop stays pending, and the client decides how long it
    waits for the reply. That is exact, and costs no command. A script may be sent behind the pop: the server runs it
    when the pop is over, so the process that is woken has the script's reply at once.
    """

    def __init__(self, client: "redis.Redis", keys: Sequence[str], stopping: StopFlag) -> None:
        self._client = client
        self._stopping = stopping
        self._keys = keys
        self._line = make_line(client)
        self._pop = pack(["BLPOP", *keys, str(BLOCK)])
        self._call: Call | None = None  # the script behind the pending pop
        self._sent = 0.0  # when, by the monotonic clock

    def wait(self, seconds: float, script: Callable[[], Call] | None) -> tuple[str | None, Reply | None]:
        """Wait for up to `seconds`, or until the process is to stop; it may return earlier.

        Return the key of a list that had a token, or None, and the reply of the script, or None.
        """
        with translated():
            if self._line is None:
                popped: Any = self._client.blpop(list(self._keys), timeout=max(0.01, min(seconds, 1.0)))
                return (None if popped is None else text(popped[0])), None
            try:
                return self._wait_pending(self._line, max(0.0, seconds), script)
            except BaseException:
                # A reply may be left in the line, or half of one.
                self._line.drop()
                raise

    def _wait_pending(
        self, line: Line, seconds: float, script: Callable[[], Call] | None
    ) -> tuple[str | None, Reply | None]:
        if not line.pending:
            self._sent = time.monotonic()
            self._call = script() if script else None
            line.send(self._pop, *([packed(self._call)] if self._call else []))
        if line.has_reply(seconds, self._stopping.fileno()):
            popped = line.receive()
            reply = line.receive() if line.pending else None
            if isinstance(reply, redis.exceptions.NoScriptError):
                # Whoever waits runs it again without a pop, and loads it then.
                reply = None
            if isinstance(popped, Exception):
                raise name_wrong_key(self._client, ((key, "list") for key in self._keys), popped)
            if isinstance(reply, Exception):
                assert self._call is not None
                raise name_wrong_key(self._client, kinds_of(self._call.keys), reply)
            return popped and text(popped[0]), reply and worded(reply)
        if time.monotonic() - self._sent > SILENCE:
            raise redis.exceptions.ConnectionError("the server has not answered in time")
        return None, None

    def close(self) -> None:
        """Give up the pop."""
        if self._line is not None:
            self._line.drop()
