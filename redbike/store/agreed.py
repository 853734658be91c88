"""What all processes of a prefix must agree on: the protocol, and how its workers name queues.

Dispatchers and workers store it when they start. All other processes read it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from redbike.connection.refusals import translate_errors
from redbike.errors import OtherProtocol
from redbike.store.keys import Keys
from redbike.store.names import find_function
from redbike.store.records import decode
from redbike.store.scripts import name_wrong_key
from redbike.text.parsing import load_object

# The version of the keys, records and scripts. Raise it when old and new processes under one prefix would damage each
# other's data. Processes before version 2 did not store it.
PROTOCOL = 5
STOCK, FUNCTIONS = "stock", "functions"  # rules: of the stock workers, and of functions
RULES, FUNCTION, NUMBER = "rules", "job:", "protocol"  # fields; the second one is followed by the id of a function
REREAD = 1.0  # seconds for which the naming that was read is reused


def check_protocol(number: int) -> None:
    """Raise `OtherProtocol` if `number` is not the protocol of this process."""
    if number > PROTOCOL:
        raise OtherProtocol(
            f"a newer version of redbike has worked under this prefix (protocol {number}, this one has {PROTOCOL}): "
            "upgrade this one"
        )
    if number < PROTOCOL:
        raise OtherProtocol(
            f"an older version of redbike works under this prefix (protocol {number}, this one has {PROTOCOL}): stop "
            "its dispatchers and workers (redbike control HALT does), then start a worker of this version"
        )


def refuse_newer(client: "redis.Redis", keys: Keys) -> None:
    """Raise `OtherProtocol` if a newer version has worked under the prefix: its data could look damaged here."""
    with translate_errors():
        number = decode(client.hget(keys.agreed, NUMBER))
    if number.isdecimal():
        check_protocol(max(int(number), PROTOCOL))


@dataclass(frozen=True, slots=True)
class Naming:
    """The rules by which workers name queues. A user's worker class is a rule of its own: ``package.module:Class``."""

    rules: frozenset[str] = frozenset()
    functions: Mapping[str, str] = field(default_factory=dict)  # the queue of each function, by its job id
    commands: frozenset[str] = frozenset()  # their names, if a worker has commands

    def find_function(self, jobid: str) -> str | None:
        """Return the id of the function that takes `jobid`; None if no function does."""
        return find_function(jobid, self.functions) if self.functions else None


def make_reader(client: "redis.Redis", keys: Keys) -> Callable[[], Naming]:
    """Return a function that returns the naming, read at most once in `REREAD` seconds. It raises `OtherProtocol`."""
    known, read_at = Naming(), float("-inf")

    def read() -> Naming:
        nonlocal known, read_at
        if (now := time.monotonic()) - read_at >= REREAD:
            with translate_errors():
                try:
                    stored = client.hgetall(keys.agreed)
                except redis.ResponseError as error:
                    raise name_wrong_key(client, [(keys.agreed, "hash")], error) from error
            known, read_at = _parse(stored), now
        return known

    return read


def _parse(stored: Any) -> Naming:
    texts = {decode(name): decode(value) for name, value in stored.items()}
    if (number := texts.get(NUMBER, "")).isdecimal():
        check_protocol(int(number))
    rules = load_object(texts.get(RULES, "{}")) or ()  # if somebody has damaged it, the next worker writes it anew
    functions = {name.removeprefix(FUNCTION): queue for name, queue in texts.items() if name.startswith(FUNCTION)}
    return Naming(frozenset(rules), functions)
