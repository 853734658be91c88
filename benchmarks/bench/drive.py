"""One process of a contender: ``python -m bench.drive <CONTENDER> <VERB> [<ARGUMENT>...]``.

``describe`` prints JSON of what its adapter can; ``enqueue``, ``enqueue_many`` and the like print the seconds that so
many jobs took; ``wakeups`` sets one job after the other, each when the one before has run, and prints the lateness of
each; ``schedule`` sets jobs at the instants of a file; ``work`` and ``dispatch`` run until they are stopped.
"""

import asyncio
import importlib
import importlib.metadata
import inspect
import json
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import record

OWN = {
    "redbike": "bench.ours",
    "redbike, coroutines": "bench.coroutines",
    "redbike, threads": "bench.functions",
    "raw": "bench.bare",
}


def main(name: str, verb: str, *arguments: str) -> None:
    adapter = importlib.import_module(OWN.get(name, f"peers.{name}"))
    if hasattr(adapter, "run"):
        adapter.run(verb, *arguments)
    elif verb in VERBS:
        asyncio.run(VERBS[verb](adapter, *arguments))
    elif verb in TIMED:
        print(asyncio.run(timed(getattr(adapter, verb), verb.endswith("_many"), *map(int, arguments))))
    else:
        getattr(adapter, verb)(*arguments)


async def call(function: Any, *arguments: Any) -> None:
    """Call it, whether it is a coroutine function or not."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        await result


async def describe(adapter: ModuleType) -> None:
    print(
        json.dumps(
            {
                "abilities": [name for name, value in vars(adapter).items() if inspect.isfunction(value)],
                "versions": {package: importlib.metadata.version(package) for package in adapter.PACKAGES},
                "settings": adapter.SETTINGS,
                "jobs": getattr(adapter, "JOBS", 0),
            }
        )
    )


async def timed(function: Any, bulk: bool, first: int, count: int) -> float:
    """Seconds for `count` jobs after a first one, which opens the connection."""
    await call(function, [first] if bulk else first)
    if count == 1:
        return 0.0
    numbers = range(first + 1, first + count)
    began = time.perf_counter()
    if bulk:
        await call(function, numbers)
    elif inspect.iscoroutinefunction(function):
        for number in numbers:
            await function(number)
    else:
        for number in numbers:
            function(number)
    return (time.perf_counter() - began) * count / (count - 1)


async def wakeups(adapter: ModuleType, count: str) -> None:
    folder, generator = Path(os.environ[record.FOLDER]), random.Random(1)
    late = []
    for number in range(int(count)):
        # It has to be waiting again, and not always at the same moment of its rounds.
        time.sleep(0.01 + 0.02 * generator.random())
        began = time.monotonic_ns()
        await call(adapter.enqueue, number)
        # Looking for it earlier could take the processor from the worker.
        time.sleep(0.005)
        while record.total(folder) <= number:
            if time.monotonic_ns() - began > 60e9:
                raise SystemExit("it does not run")
            time.sleep(0.002)
        late.append(began)
    started = {number: moment for runs in record.read(folder) for number, moment in runs}
    print(json.dumps([(started[number] - began) / 1e6 for number, began in enumerate(late)]))


async def schedule(adapter: ModuleType, path: str) -> None:
    jobs: list[tuple[int, float]] = [(number, moment) for number, moment in json.loads(Path(path).read_text())]
    if hasattr(adapter, "schedule_many"):
        await call(adapter.schedule_many, jobs)
    else:
        for number, moment in jobs:
            await call(adapter.schedule, number, moment)
    print(len(jobs))


TIMED = ("enqueue", "enqueue_many", "enqueue_waiting_many", "cron", "cron_many")
VERBS: dict[str, Any] = {"describe": describe, "wakeups": wakeups, "schedule": schedule}

if __name__ == "__main__":
    main(*sys.argv[1:])
