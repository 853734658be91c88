"""The transitions: each is one Lua script in ``lua/``, called by its verb; a reply begins with a word.

What the server gets as the text of a script is put together of four parts, behind its ``#!lua`` line:

1. a line that gives the keys of `redbike.state.keys.GIVEN` names in Lua,
2. ``_records.lua``, which reads and writes records,
3. ``_prelude.lua``, which decodes what the script is given, and makes its changes,
4. the script itself.

See ``docs/scripts.rst`` for how to write one.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

import redis
from redis import exceptions

from redbike.errors import NoSuchJob, ServerError, Unreachable
from redbike.serving.line import drop_idle_connections, has_room, make_line, pack, pack_word
from redbike.state.keys import GIVEN, kinds_of

Reply = list[Any]

# What a server says while it starts, fails over, saves or is full: it may be asked again later. UNBLOCKED is what
# those hear that wait on one that becomes a replica.
PASSING = (
    "LOADING",
    "READONLY",
    "UNBLOCKED",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
)
# The same by redis-py, which has classes for some of them; NOSCRIPT once more after the script was loaded: it was
# forgotten again in between.
NOT_READY = (
    exceptions.ReadOnlyError,
    exceptions.BusyLoadingError,
    exceptions.ClusterDownError,
    exceptions.NoScriptError,
)


@dataclass(frozen=True)
class Script:
    """The text of a transition as the server gets it."""

    verb: str
    text: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


def _load() -> dict[str, Script]:
    folder = resources.files("redbike.state") / "lua"
    texts = {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in folder.iterdir()}
    names = ", ".join(name.rstrip("-").replace("-", "_") for name in GIVEN)
    head = f"local FIXED, {names} = {len(GIVEN)}, unpack(KEYS)\n{texts.pop('_records')}{texts.pop('_prelude')}"
    scripts = {}
    for verb, text in texts.items():
        shebang, _, body = text.partition("\n")
        scripts[verb] = Script(verb, f"{shebang}\n{head}{body}")
    return scripts


SCRIPTS = _load()


class translated:
    """Turns what redis-py raises into `Unreachable` (worth another try) or `ServerError` (not)."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, exceptions.MaxConnectionsError):
            raise ServerError(f"max_connections is too low for what this process does: {error}") from error
        if isinstance(error, exceptions.AuthenticationError):
            raise ServerError(f"Redis refuses the login: {error}") from None
        if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
            raise Unreachable(f"cannot reach Redis: {error}") from error
        if isinstance(error, exceptions.ResponseError):
            raise refusal(error) from error


def refusal(error: Exception) -> ServerError:
    """Return our error for one that the server replied with."""
    # redis-py strips the first word of the errors that it has classes for.
    if isinstance(error, NOT_READY):
        return Unreachable(f"Redis is not ready: {error}")
    if isinstance(error, exceptions.OutOfMemoryError):
        return Unreachable(f"Redis is out of memory: {error}")
    kind = Unreachable if str(error).startswith(PASSING) else ServerError
    return kind(f"Redis refuses: {error}")


def name_wrong_key(client: "redis.Redis", asked_for: Iterable[tuple[str, str]], error: Exception) -> Exception:
    """Return an error that names the key that has a wrong type, as Redis' own does not; any other `error` as it is.

    `asked_for` has the keys of the request, each with the type that it should have.
    """
    if not str(error).startswith("WRONGTYPE"):
        return error
    kinds = dict(asked_for)
    with client.pipeline(transaction=False) as pipeline:
        for key in kinds:
            pipeline.type(key)
        found = [kind.decode() for kind in pipeline.execute()]
    for (key, kind), other in zip(kinds.items(), found, strict=True):
        if other not in (kind, "none"):
            return exceptions.ResponseError(f"WRONGTYPE {key} is a {other}, not a {kind}")
    return error


@dataclass(frozen=True, slots=True)
class Call:
    """A script with its keys and arguments, ready to be sent, alone or with others in one round trip."""

    verb: str
    keys: tuple[str, ...]
    given: str  # JSON: what the script has as `given`


class Scripts:
    """Runs scripts on one server, from any thread."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client = client
        self._keeps = has_room(client)
        self._idle: list[Pipeline] = []  # as many as threads have run scripts at the same time

    def run(self, call: Call) -> Reply:
        """Run one script and return its reply, whose first word is decoded. Raise `NoSuchJob` for ``missing``."""
        return self.run_all([call])[0]

    def run_all(self, calls: Iterable[Call]) -> list[Reply]:
        """Run several scripts in one round trip. If one fails, raise its error after all were sent."""
        try:
            pipeline = self._idle.pop()
        except IndexError:
            pipeline = Pipeline(self.client)
        try:
            return pipeline.run(calls)
        finally:
            if self._keeps:
                self._idle.append(pipeline)
            else:
                pipeline.close()

    def drop_idle_connections(self) -> None:
        """Disconnect what nobody uses: after a failover it may lead to a server that is only a replica now."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
        drop_idle_connections(self.client)


class Pipeline:
    """A connection that one thread keeps. Scripts may be sent over it before earlier ones have been answered.

    After an error the next call gets a new connection. Then nobody knows whether the unanswered scripts have run.
    """

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._line = make_line(client)
        self._sent: list[Call] = []  # those without an answer

    @property
    def unanswered(self) -> int:
        """The number of scripts whose reply has not been read."""
        return len(self._sent)

    def send(self, call: Call) -> None:
        """Send a script; the next `run` returns its reply."""
        with translated():
            try:
                self._send(call)
            except BaseException:
                self._drop()
                raise

    def run(self, calls: Iterable[Call]) -> list[Reply]:
        """Run scripts in one round trip; return the replies to those that were sent before, and then to these.

        If one fails, raise its error after all were sent.
        """
        with translated():
            try:
                # The server runs one while the next is made.
                for call in calls:
                    self._send(call)
                sent, replies = self._received()
                if [reply for reply in replies if isinstance(reply, Exception)]:
                    replies = self._repeated(sent, replies)
            except exceptions.ResponseError as error:
                if self._sent or isinstance(refusal(error), Unreachable):
                    # Replies may be left in it; or the server may be a replica now, and the name lead to another one.
                    self._drop()
                raise
            except BaseException:
                # Nobody else must read the replies that may be left in it.
                self._drop()
                raise
        return [worded(reply) for reply in replies]

    def close(self) -> None:
        """Give the connection back."""
        if self._line is not None:
            self._line.close()
        self._sent = []

    def _drop(self) -> None:
        if self._line is not None:
            self._line.drop()
        self._sent = []

    def _repeated(self, sent: list[Call], replies: list[Any]) -> list[Any]:
        """Send those again that the server did not know, and return all replies. Raise any other error."""
        unknown = [i for i, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]
        for verb in {sent[i].verb for i in unknown}:
            self._client.script_load(SCRIPTS[verb].text)
        for i in unknown:
            self._send(sent[i])
        for i, reply in zip(unknown, self._received()[1], strict=True):
            replies[i] = reply
        for call, reply in zip(sent, replies, strict=True):
            if isinstance(reply, Exception):
                raise name_wrong_key(self._client, kinds_of(call.keys), reply)
        return replies

    def _send(self, call: Call) -> None:
        if self._line is not None:
            self._line.send(packed(call))
        self._sent.append(call)

    def _received(self) -> tuple[list[Call], list[Any]]:
        sent = self._sent
        if self._line is not None:
            replies = [self._line.receive() for _ in sent]
        else:
            pipeline = self._client.pipeline(transaction=False)
            for call in sent:
                pipeline.evalsha(SCRIPTS[call.verb].digest, len(call.keys), *call.keys, call.given)
            replies = list(pipeline.execute(raise_on_error=False))
        self._sent = []
        return sent, replies


def packed(call: Call) -> bytes:
    """Return the call as the server reads it."""
    return _head(call.verb, call.keys) + pack_word(call.given)


@lru_cache(1024)
def _head(verb: str, keys: tuple[str, ...]) -> bytes:
    # The keys are most of a request, and mostly those of the last one.
    return pack(["EVALSHA", SCRIPTS[verb].digest, str(len(keys)), *keys], further=1)


def worded(reply: list[Any]) -> Reply:
    """Decode the first word of a script's reply. Raise `NoSuchJob` for ``missing``."""
    word = reply[0].decode()
    if word == "missing":
        raise NoSuchJob("no such job")
    return [word, *reply[1:]]
