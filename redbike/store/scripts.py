"""The transitions: each is one Lua script in ``lua/``. Its file is named after the verb. Its reply begins with a word.

See ``docs/scripts.rst`` for how to write one.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
from redis import exceptions

from redbike.connection.cluster import MOVE_TIMEOUT, MOVING, PAUSE
from redbike.connection.line import Line, drop_idle_connections, has_room, pack, pack_bytes, pack_word
from redbike.connection.refusals import make_refusal, translate_errors
from redbike.errors import BadConfig, NoSuchJob, Unreachable
from redbike.store.enums import NEEDS_FULL
from redbike.store.keys import ASIDE, FIXED, GIVEN
from redbike.store.lua_loader import SCRIPTS, Script
from redbike.store.records import decode

Reply = list[Any]
GUARD = "moved: "  # begins the text that replaces a key when its jobs have moved to other shards
FULL_FOR = 300.0  # seconds for which full texts are sent, after a plain text has replied `NEEDS_FULL`


def name_wrong_key(client: "redis.Redis", asked_for: Iterable[tuple[str, str]], error: Exception) -> Exception:
    """Return an error that names the key of a wrong type, as the error of Redis does not. Return other errors as is.

    `asked_for` has the keys of the request, each with its right type. If the jobs have moved to other shards, the error
    is a `BadConfig` that says so.
    """
    if "WRONGTYPE Operation" not in str(error):
        return error
    kinds = dict(asked_for)
    with client.pipeline(transaction=False) as pipeline:
        for key in kinds:
            pipeline.type(key)
        found = [kind.decode() for kind in pipeline.execute()]
    for (key, kind), other in zip(kinds.items(), found, strict=True):
        if other not in (kind, "none"):
            if other == "string" and (text := decode(client.get(key))).startswith(GUARD):
                return BadConfig(text.removeprefix(GUARD))
            return exceptions.ResponseError(f"WRONGTYPE {key} is a {other}, not a {kind}")
    return error


def list_kinds(given: Sequence[str], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a script, each with its right type. In-flight keys, and keys on the move, are left out."""
    prefix = keys[0].removesuffix(given[0])
    for key in keys:
        name = key.removeprefix(prefix)
        if not name.startswith((GIVEN[-1], ASIDE)):
            yield key, "set" if name.startswith("tombstones-") else FIXED.get(name, "list")


@dataclass(frozen=True, slots=True)
class Call:
    """A script with its keys and arguments, ready to be sent, alone or with others in one round trip."""

    verb: str
    keys: tuple[str, ...]
    given: str  # JSON: what the script has as `given`
    packed: tuple[bytes, ...] = ()  # further arguments, which are no texts

    def list_kinds(self) -> Iterator[tuple[str, str]]:
        """Yield its keys, each with its right type."""
        return list_kinds(SCRIPTS[self.verb].keys, self.keys)


class Scripts:
    """Runs scripts on one server, from any thread."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client = client
        self.is_stopping: Callable[[], bool] = lambda: False  # of the loop that runs them, if there is one
        self.pipeline_class: type[Pipeline] = Pipeline
        self._keeps = has_room(client)
        self._idle: list[Pipeline] = []  # as many as threads have run scripts at the same time

    def run(self, call: Call) -> Reply:
        """Run one script and return its reply, whose first word is decoded. Raise `NoSuchJob` for ``missing``."""
        return self.run_all([call])[0]

    def run_all(self, calls: Iterable[Call]) -> list[Reply]:
        """Run several scripts in one round trip. If one fails, raise its error after all were sent."""
        with self.run_meanwhile(calls) as replies:
            pass
        return replies

    @contextmanager
    def run_meanwhile(self, calls: Iterable[Call]) -> Iterator[list[Reply]]:
        """Run several scripts while the caller's block runs; their replies are in the list after the block.

        If the block fails, it is unknown whether they have run. If a script fails, raise its error after the block.
        """
        try:
            pipeline = self._idle.pop()
        except IndexError:
            pipeline = self.pipeline_class(self.client, lambda: self.is_stopping())
        replies: list[Reply] = []
        try:
            pipeline.send_all(calls)
            yield replies
            replies += pipeline.run([])
        except BaseException:
            if pipeline.unanswered:
                pipeline.drop()
            raise
        finally:
            self._idle.append(pipeline)
            # After that line: another thread may call `close` at any instant.
            if not self._keeps:
                self._release_idle()

    def close(self) -> None:
        """Release the idle connections, and from now on each connection after its script."""
        self._keeps = False
        self._release_idle()

    def drop_idle_connections(self) -> None:
        """Close the idle connections: after a failover they may lead to a server that is only a replica now."""
        self._release_idle()
        drop_idle_connections(self.client)

    def _release_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class Pipeline:
    """A connection that one thread keeps. Scripts may be sent over it before earlier ones have been answered.

    If the connection ends, it sends repeatable scripts again. After an error the next call gets a new connection,
    and it is unknown whether the unanswered scripts have run. While `is_stopping()`, it does not wait for a slot of a
    cluster that moves. It sends the plain texts of scripts that have one, until one replies `NEEDS_FULL`.
    """

    def __init__(self, client: "redis.Redis", is_stopping: Callable[[], bool] = lambda: False) -> None:
        self._client = client
        self._is_stopping = is_stopping
        self.line = Line(client)
        self._sent: list[Call] = []  # calls without a reply
        self._full_until = 0.0  # until when full texts are sent, by the monotonic clock

    @property
    def unanswered(self) -> int:
        """The number of scripts whose reply has not been read."""
        return len(self._sent)

    def send_all(self, calls: Iterable[Call]) -> None:
        """Send several scripts; the next `run` returns their replies."""
        with translate_errors():
            try:
                # The server runs a script while the caller makes the next call.
                for call in calls:
                    self._send(call)
            except BaseException:
                self.drop()
                raise

    def run(self, calls: Iterable[Call]) -> list[Reply]:
        """Run scripts in one round trip; return the replies to those that were sent before, and then to these.

        If one fails, raise its error after all were sent.
        """
        self.send_all(calls)
        with translate_errors():
            try:
                sent, replies = self._receive_all()
                if [reply for reply in replies if isinstance(reply, Exception)]:
                    self._repeat_refused(sent, replies)
            except BaseException as error:
                refusal = isinstance(error, exceptions.ResponseError) and make_refusal(error)
                if self._sent or not refusal or isinstance(refusal, Unreachable):
                    # Replies may be left in it. Or the server is a replica now, and its name leads to another one.
                    self.drop()
                raise
        return [decode_word(reply) for reply in replies]

    def close(self) -> None:
        """Release the connection."""
        self.line.close()
        self._sent = []

    def drop(self) -> None:
        """Close the connection, as replies that nobody must read may be left in it."""
        self.line.drop()
        self._sent = []

    def _repeat_refused(self, sent: list[Call], replies: list[Any]) -> None:
        """Send those calls again that the server has not run, and fill in their replies. Raise any other error.

        The server may not know a script. Or the slot of the keys moves to another server.
        """
        patience = time.monotonic() + MOVE_TIMEOUT
        self._repeat_unserved(sent, replies)
        while any(isinstance(reply, MOVING) for reply in replies) and time.monotonic() < patience:
            # The next request connects again, to the new master. It may not know the scripts either.
            self.line.drop()
            time.sleep(PAUSE)
            self._repeat(sent, replies, lambda reply: isinstance(reply, MOVING))
            self._repeat_unserved(sent, replies)
            if self._is_stopping():
                break
        for call, reply in zip(sent, replies, strict=True):
            if isinstance(reply, Exception):
                raise name_wrong_key(self._client, call.list_kinds(), reply)

    def _repeat_unserved(self, sent: list[Call], replies: list[Any]) -> None:
        self._repeat_unknown(sent, replies)
        if any(map(needs_full, replies)):
            self._full_until = time.monotonic() + FULL_FOR
            self._repeat(sent, replies, needs_full)
            self._repeat_unknown(sent, replies)

    def _repeat_unknown(self, sent: list[Call], replies: list[Any]) -> None:
        if unknown := {call.verb for call, reply in zip(sent, replies, strict=True) if is_unknown(reply)}:
            self._load(unknown)
            self._repeat(sent, replies, is_unknown)

    def _repeat(self, sent: list[Call], replies: list[Any], is_meant: Callable[[Any], bool]) -> None:
        """Send those calls again whose reply `is_meant`, and fill in the new replies."""
        again = [i for i, reply in enumerate(replies) if is_meant(reply)]
        for i in again:
            self._send(sent[i])
        for i, reply in zip(again, self._receive_all()[1], strict=True):
            replies[i] = reply

    def _load(self, verbs: Iterable[str]) -> None:
        """Load these scripts on the server of this connection, and on no other."""
        self.line.send(*(pack(["SCRIPT", "LOAD", self._choose_text(verb).text]) for verb in verbs))
        for reply in [self.line.receive() for _ in range(self.line.pending)]:
            if isinstance(reply, Exception):
                raise reply

    def _choose_text(self, verb: str) -> Script:
        full = SCRIPTS[verb]
        return full.plain if full.plain and time.monotonic() > self._full_until else full

    def _send(self, call: Call) -> None:
        self._sent.append(call)
        try:
            self.line.send(pack_call(call, self._choose_text(call.verb)))
        except exceptions.ConnectionError as error:
            self._send_again(error)

    def _send_again(self, error: Exception) -> None:
        # If no reply is pending, connecting failed: do not wait twice for a server that is away.
        if not (self.line.pending and all(SCRIPTS[call.verb].is_repeatable for call in self._sent)):
            raise error
        self.line.drop()
        self.line.send(*(pack_call(call, self._choose_text(call.verb)) for call in self._sent))

    def _receive_all(self) -> tuple[list[Call], list[Any]]:
        try:
            replies = [self.line.receive() for _ in self._sent]
        except exceptions.ConnectionError as error:
            self._send_again(error)
            replies = [self.line.receive() for _ in self._sent]
        sent, self._sent = self._sent, []
        return sent, replies


def is_unknown(reply: Any) -> bool:
    """Tell whether the server did not know the script."""
    return isinstance(reply, exceptions.NoScriptError)


def needs_full(reply: Any) -> bool:
    """Tell whether the plain text of a script replied `NEEDS_FULL`."""
    return isinstance(reply, exceptions.ResponseError) and str(reply).startswith(NEEDS_FULL)


def pack_call(call: Call, script: Script | None = None) -> bytes:
    """Return the request for a call, with the digest of `script`, or of the full text."""
    head = _pack_head((script or SCRIPTS[call.verb]).digest, call.keys, 1 + len(call.packed)) + pack_word(call.given)
    return b"".join([head, *map(pack_bytes, call.packed)]) if call.packed else head


@lru_cache(1024)
def _pack_head(digest: str, keys: tuple[str, ...], further: int) -> bytes:
    # Keys are most of a request, and mostly the same as in the last one.
    return pack(["EVALSHA", digest, str(len(keys)), *keys], further)


def decode_word(reply: list[Any]) -> Reply:
    """Decode the first word of a script's reply. Raise `NoSuchJob` for ``missing``."""
    word = reply[0].decode()
    if word == "missing":
        raise NoSuchJob("no such job")
    return [word, *reply[1:]]
