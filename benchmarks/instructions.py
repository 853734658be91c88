"""How many instructions the server executes: ``python benchmarks/instructions.py [<CHECKOUT>]``, with valgrind.

Prints them for each verb and job, and with another checkout of Redbike also those of that one, and the ratio. Unlike
seconds they hardly depend on what else the machine does. Jobs have no options, and no queue has limits.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from redbike import Redbike, RoundRobin
from redbike.connection.embedded_launcher import find_binary
from redbike.store.namespace import make_tag
from redbike.store.runs import NextState, Poll  # older versions have no other place for them

HERE = Path(__file__).parents[1]
TOGETHER = 64  # jobs that are taken and ended in one call each
LATER = "EVERY:1h@1000"
BEFORE, TURNS = 12, 8  # runs of each job before what is measured, and in that
ARCHIVED = 4  # runs of each job that are archived together: as many as with 16,000 jobs, 64 at a time
AFTERWARDS = 7200  # seconds until all of these are due
SETTINGS = ("--port", "0", "--save", "", "--hz", "1", "--loglevel", "warning")
FORGETTING = "the same, with history 0"
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class Idle(RoundRobin):
    """A worker that does nothing."""

    def work(self, jobid: str) -> None:
        pass


def main() -> None:
    if sys.argv[1:2] == ["--count"]:
        print(count(sys.argv[2]))
        return
    trees = [*map(Path, sys.argv[1:2]), HERE]
    for verb, (number, _) in VERBS.items():
        found = [counted(tree, verb) / number for tree in trees]
        ratio = f", ratio {found[1] / found[0]:.3f}" if found[1:] else ""
        print(f"{verb:<40} {' → '.join(f'{each:10,.0f}' for each in found)} instructions a job{ratio}", flush=True)


def counted(tree: Path, verb: str) -> int:
    """Return what `count` returns with the code of another checkout."""
    command = [sys.executable, __file__, "--count", verb]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def count(verb: str) -> int:
    """Return the instructions of the server from before a verb until after it."""
    number, work = VERBS[verb]
    with server() as (client, url, measured):
        bike = Redbike(Idle("A"), redis_config=url)
        if verb == FORGETTING:
            bike.store.runs._history = 0  # older versions have no setting for it
        fill(bike, 20, "NOW", "warm")
        while bike.work_one():
            pass
        return measured(lambda run: work(bike, client, number, run))


@contextmanager
def server() -> Iterator[tuple["redis.Redis", str, Callable[[Callable[..., None]], int]]]:
    """Start a server under callgrind; yield a client, its URL, and what measures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path, out = Path(folder, "s"), Path(folder, "callgrind")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "-q", find_binary(), *SETTINGS]
        process = subprocess.Popen(
            [*command, "--unixsocket", path, "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def control(what: str) -> None:
            subprocess.run(["callgrind_control", what, str(process.pid)], check=True, capture_output=True)

        def measured(work: Callable[..., None]) -> int:
            work(lambda: control("--zero"))
            control("--dump")
            dump = max(Path(folder).glob("callgrind*"), key=lambda file: file.stat().st_mtime)
            return int(TOTAL.findall(dump.read_text())[0])

        client = redis.Redis(unix_socket_path=str(path))
        try:
            while not path.exists():
                time.sleep(0.1)
            yield client, f"unix://{path}", measured
        finally:
            client.close()
            process.kill()
            process.wait()


def fill(bike: Redbike, number: int, schedule: str, name: str = "job") -> None:
    for _ in bike.set_many((f"{name}-{each}:A", schedule) for each in range(number)):
        pass


def set_many(bike: Redbike, client: "redis.Redis", number: int, begin: Callable[[], None]) -> None:
    begin()
    fill(bike, number, LATER)


def set_alone(bike: Redbike, client: "redis.Redis", number: int, begin: Callable[[], None]) -> None:
    """Set jobs that are due now, one by one, beside others of this kind that have run."""
    bike.set("first:A", "NOW")
    begin()
    for each in range(number):
        bike.set(f"job-{each}:A", "NOW")


def dispatch(bike: Redbike, client: "redis.Redis", number: int, begin: Callable[[], None]) -> None:
    fill(bike, number, LATER)
    begin()
    bike.dispatch_due(time.time() + AFTERWARDS)


def work_alone(bike: Redbike, client: "redis.Redis", number: int, begin: Callable[[], None]) -> None:
    fill(bike, number, "NOW")
    begin()
    for _ in range(number):
        bike.work_one()


def drain(bike: Redbike, client: "redis.Redis", number: int, begin: Callable[[], None]) -> None:
    fill(bike, number, "NOW")
    runs, look = bike.store.runs, Poll([("work-A", 10.0)], [1])
    begin()
    for _ in range(number // TOGETHER):
        taken = runs.take(look, make_tag(), TOGETHER)
        bike.store.scripts.run(runs.pack_end([(run, NextState("next")) for run in taken]))


def go_round(bike: Redbike, client: "redis.Redis", number: int, begin: Callable[[], None]) -> None:
    """Run each of some jobs over and over, after as many runs as are kept of a job."""
    fill(bike, number // TURNS, "CONTINUE")
    runs, look = bike.store.runs, Poll([("work-A", 10.0)], [1])
    for turn in range(BEFORE + TURNS):
        if turn == BEFORE:
            begin()
        for _ in range(number // TURNS // TOGETHER):
            taken = runs.take(look, make_tag("Owner001"), TOGETHER)
            bike.store.scripts.run(runs.pack_end([(run, NextState("next", "+0.000000")) for run in taken]))
        if turn % ARCHIVED == ARCHIVED - 1 and hasattr(bike.store, "archiver"):  # older versions have none
            for _ in bike.store.archiver.archive():
                pass


VERBS = {
    "set, many at once": (1000, set_many),
    "set, one by one": (200, set_alone),
    "dispatch, many at once": (1000, dispatch),
    "take and end, one by one": (200, work_alone),
    "take and end, 64 at a time": (6400, drain),
    "take and end, over and over": (5120, go_round),
    FORGETTING: (5120, go_round),
}

if __name__ == "__main__":
    main()
