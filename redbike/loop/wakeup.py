"""A blocking pop that stays pending: an idle process waits for tokens with it, and so waiting costs no command."""

import time
from collections.abc import Callable, Sequence

import redis

from redbike.connection.cluster import MOVING, PAUSE
from redbike.connection.line import Line, pack
from redbike.connection.refusals import translate_errors
from redbike.process.signals import StopFlag
from redbike.store.lua_loader import SCRIPTS
from redbike.store.records import decode
from redbike.store.scripts import Call, Reply, decode_word, name_wrong_key, pack_call

_ASK_ID = pack(["CLIENT", "ID"])
BLOCK = 6  # seconds for which the server holds a blocking pop
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
        self.token = ""  # the last one that it has had
        self.line = Line(client)
        self._keys: Sequence[str] = ()
        self.aim_at(keys)
        self._call: Call | None = None  # the script behind the pending pop
        self._sent = 0.0  # when the pop was sent, by the monotonic clock
        self._id, self._known = 0, 0  # the id of the connection at the server, and its generation

    def aim_at(self, keys: Sequence[str]) -> None:
        """Wait for tokens of these lists from now on; a pop on others that is pending is given up."""
        if keys != self._keys:
            if self.line.pending:
                self.close()
            self._keys, self._pop = keys, pack(["BLPOP", *keys, str(BLOCK)])

    def wait(self, seconds: float, script: Callable[[], Call] | None) -> tuple[str | None, Reply | None]:
        """Wait for up to `seconds`, or until the process is to stop; it may return earlier.

        Return the key of a list that had a token, or None, and the reply of the script, or None.
        """
        with translate_errors():
            try:
                return self._wait_pending(max(0.0, seconds), script)
            except BaseException:
                # A reply may be left in the line, or half of one.
                self.line.drop()
                raise

    def _wait_pending(self, seconds: float, script: Callable[[], Call] | None) -> tuple[str | None, Reply | None]:
        line = self.line
        if not line.pending:
            self._call = script() if script else None
            line.send(self._pop, *([pack_call(self._call)] if self._call else []))
            # Only now, as it may have had to connect before, and the process may have been suspended meanwhile.
            self._sent = time.monotonic()
        if line.has_reply(seconds, self._stopping.fileno()):
            popped = line.receive()
            reply = line.receive() if line.pending else None
            if self._call and popped is None and isinstance(reply, redis.exceptions.NoScriptError):
                # There was no token: the caller sends the same again.
                line.send(pack(["SCRIPT", "LOAD", SCRIPTS[self._call.verb].text]))
                line.receive()
            if isinstance(reply, (redis.exceptions.NoScriptError, *MOVING)):
                # If there was a token, the caller runs it again without a pop, and loads it then.
                reply = None
            if isinstance(popped, Exception):
                if isinstance(popped, MOVING) or str(popped).startswith("UNBLOCKED"):
                    # The caller looks for itself now, and finds the new master.
                    line.drop()
                    self._stopping.wait(PAUSE)
                    return None, None
                raise name_wrong_key(self._client, ((key, "list") for key in self._keys), popped)
            if isinstance(reply, Exception):
                assert self._call is not None
                raise name_wrong_key(self._client, self._call.list_kinds(), reply)
            self.token = decode(popped[1]) if popped else ""
            return popped and decode(popped[0]), reply and decode_word(reply)
        if time.monotonic() - self._sent > SILENCE:
            raise redis.exceptions.ConnectionError("the server has not answered in time")
        return None, None

    def begin(self) -> int:
        """Send the pop, unless it is pending; return a descriptor that is readable when there is a reply."""
        with translate_errors():
            try:
                if not self.line.pending:
                    self._call = None
                    self.line.make_ready()
                    if self._known != self.line.generation:
                        self.line.send(_ASK_ID)
                        self._id, self._known = int(self.line.receive()), self.line.generation
                    self.line.send(self._pop)
                    self._sent = time.monotonic()
                return self.line.fileno()
            except BaseException:
                self.line.drop()
                raise

    def call_off(self) -> str | None:
        """End a pop that is pending; return the key of a list that has had a token meanwhile, or None."""
        if not self.line.pending:
            return None
        with translate_errors():
            try:
                self._unblock()
                popped = self.line.receive()
            except BaseException:
                self.line.drop()
                raise
        return decode(popped[0]) if isinstance(popped, list) else None

    def _unblock(self) -> None:
        line = Line(self._client)
        line.patience = self.line.patience
        try:
            line.send(pack(["CLIENT", "UNBLOCK", str(self._id)]))
            if isinstance(reply := line.receive(), Exception):
                raise reply
        finally:
            line.close()

    def close(self) -> None:
        """Give up the pop."""
        self.line.drop()
