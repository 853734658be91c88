"""The transitions: each is one Lua script in ``lua/``, called by its verb; a reply begins with a word."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import redis
from redis import exceptions

from redbike.errors import NoSuchJob, ServerError, Unreachable

Argument = str | int | float
Reply = list[Any]

# What a server says while it starts, fails over, saves or is full: it may be asked again later.
PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF", "NOREPLICAS")


@dataclass(frozen=True)
class Script:
    """The text of a transition as the server gets it, with the prelude after its ``#!lua`` line."""

    verb: str
    text: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


def _load() -> dict[str, Script]:
    folder = resources.files("redbike") / "lua"
    prelude = (folder / "_prelude.lua").read_text()
    scripts = {}
    for file in folder.iterdir():
        verb = file.name.removesuffix(".lua")
        if verb != "_prelude":
            shebang, _, body = file.read_text().partition("\n")
            scripts[verb] = Script(verb, f"{shebang}\n{prelude}{body}")
    return scripts


SCRIPTS = _load()


@contextmanager
def translated() -> Iterator[None]:
    """Turn what redis-py raises into `Unreachable` (worth repeating) or `ServerError` (not)."""
    try:
        yield
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        if isinstance(error, exceptions.AuthenticationError):
            raise ServerError(f"Redis refuses the login: {error}") from None
        raise Unreachable(f"cannot reach Redis: {error}") from error
    except exceptions.ResponseError as error:
        raise refusal(error) from error


def refusal(error: Exception) -> ServerError:
    """The error of ours for one that the server replied with."""
    # redis-py strips the first word of the errors that it has classes for.
    if isinstance(error, exceptions.ReadOnlyError | exceptions.BusyLoadingError | exceptions.ClusterDownError):
        return Unreachable(f"Redis is not ready: {error}")
    if isinstance(error, exceptions.OutOfMemoryError):
        return Unreachable(f"Redis is out of memory: {error}")
    kind = Unreachable if str(error).startswith(PASSING) else ServerError
    return kind(f"Redis refuses: {error}")


@dataclass(frozen=True, slots=True)
class Call:
    """One script with what it is given: ready to be sent, alone or with others in one round trip."""

    verb: str
    keys: Sequence[str]
    arguments: Sequence[Argument]


class Scripts:
    """Runs transitions on one server."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client = client
        # A cluster's client has none: it finds the node for each command itself.
        self._pool = getattr(client, "connection_pool", None)

    def run(self, call: Call) -> Reply:
        """Send one script and return its reply, the word in front decoded; raises `NoSuchJob` for ``missing``."""
        return self.run_all([call])[0]

    def run_all(self, calls: Iterable[Call]) -> list[Reply]:
        """Send several scripts in one round trip; an error of any is raised after all were sent."""
        with translated():
            sent, replies = self._exchange(calls)
            unknown = [i for i, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]
            if unknown:
                for verb in {sent[i].verb for i in unknown}:
                    self.client.script_load(SCRIPTS[verb].text)
                for i, reply in zip(unknown, self._exchange(sent[i] for i in unknown)[1], strict=True):
                    replies[i] = reply
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        return [_worded(reply) for reply in replies]

    def _exchange(self, calls: Iterable[Call]) -> tuple[list[Call], list[Any]]:
        sent = []
        if self._pool is None:
            pipeline = self.client.pipeline(transaction=False)
            for call in calls:
                sent.append(call)
                pipeline.evalsha(SCRIPTS[call.verb].digest, len(call.keys), *call.keys, *call.arguments)
            return sent, list(pipeline.execute(raise_on_error=False))
        connection = self._pool.get_connection()
        try:
            # The server runs one while the next is made.
            for call in calls:
                sent.append(call)
                connection.send_packed_command([_packed(call)])
            return sent, [_read(connection) for _ in sent]
        except BaseException:
            # Replies may be left in it, which no one else must read.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)


def _packed(call: Call) -> bytes:
    """The call as the server reads it: redis-py's own way, built to take anything, takes four times as long."""
    words = ["EVALSHA", SCRIPTS[call.verb].digest, str(len(call.keys)), *call.keys, *map(_spelled, call.arguments)]
    parts = [f"${len(word) if word.isascii() else _size(word)}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode("utf-8", "surrogateescape")


def _spelled(argument: Argument) -> str:
    return argument if isinstance(argument, str) else repr(argument)


def _size(word: str) -> int:
    return len(word.encode("utf-8", "surrogateescape"))


def _read(connection: Any) -> Any:
    try:
        return connection.read_response(disable_decoding=True)
    except exceptions.ResponseError as error:
        return error


def _worded(reply: list[Any]) -> Reply:
    word = reply[0].decode()
    if word == "missing":
        raise NoSuchJob("no such job")
    return [word, *reply[1:]]
