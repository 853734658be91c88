"""How the workers of a prefix name queues. Each says so when it starts, so that everybody else names them alike."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from redbike.serving.refusals import translate_errors
from redbike.state.keys import Keys
from redbike.state.records import decode

STOCK, FUNCTIONS = "stock", "functions"  # rules: that of the stock workers, and the names of functions
RULES, FUNCTION = "rules", "job:"  # fields of the key: the rules, and what stands before the id of a function
REREAD = 1.0  # seconds for which what was read counts


@dataclass(frozen=True, slots=True)
class Naming:
    """By which rules queues are named. A class of its own makes a rule of its own: ``package.module:Class``."""

    rules: frozenset[str] = frozenset()
    functions: Mapping[str, str] = field(default_factory=dict)  # the queue of each function, by its job id

    def find_queue(self, jobid: str) -> str | None:
        """Return the queue of the function that takes `jobid`; None if no function does."""
        return self.functions.get(jobid) or self.functions.get(jobid.partition(":")[0])


def make_reader(client: "redis.Redis", keys: Keys) -> Callable[[], Naming]:
    """Return a function that reads the naming, once in `REREAD` seconds at most."""
    known, read_at = Naming(), float("-inf")

    def read() -> Naming:
        nonlocal known, read_at
        if (now := time.monotonic()) - read_at >= REREAD:
            with translate_errors():
                known, read_at = _parse(client.hgetall(keys.naming)), now
        return known

    return read


def _parse(stored: Any) -> Naming:
    texts = {decode(name): decode(value) for name, value in stored.items()}
    try:
        rules = json.loads(texts.get(RULES, "{}"))
    except ValueError:
        rules = {}  # somebody has damaged it; the next worker writes it anew
    functions = {name.removeprefix(FUNCTION): queue for name, queue in texts.items() if name.startswith(FUNCTION)}
    return Naming(frozenset(rules if isinstance(rules, dict) else ()), functions)
