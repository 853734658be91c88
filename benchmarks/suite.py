"""How fast Redbike is, beside raw Redis and beside others: ``python benchmarks/suite.py --help``.

Each measurement starts a server of its own, without durability, and real processes for workers and dispatchers. The
contenders take turns in every round, the medians of the rounds count, and every job has to have run exactly once. See
the modules in ``bench/`` for what each benchmark measures and how, and ``peers/`` for the settings of the others.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.burst import burst
from bench.drain import drain
from bench.drive import OWN
from bench.enqueue import enqueue
from bench.figures import Plan
from bench.floor import floor
from bench.idle import idle
from bench.install import install, interpreter
from bench.memory import memory
from bench.pool import pool
from bench.punctuality import punctuality
from bench.raw import raw
from bench.recurring import recurring
from bench.report import plain, rst
from bench.results import Results
from bench.server import Server
from bench.site import Contender, Failed, environment
from bench.size import size
from bench.wakeup import wakeup

HERE = Path(__file__).parent
PEERS = sorted(path.stem for path in (HERE / "peers").glob("*.py") if path.stem != "__init__")


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, who takes part besides Redbike, and what a peer must be able to do for it.

    It yields figures with their values, and the name of whose value it is if that is not the contender.
    """

    run: Callable[[Plan, Contender], Iterator[tuple[str, float] | tuple[str, float, str]]]
    ours: tuple[str, ...] = ("redbike",)
    needs: tuple[str, ...] | None = None


BOTH, SCHEDULES = ("redbike", "raw"), ("schedule", "schedule_many", "run_schedule")
BENCHMARKS = {
    "raw": Benchmark(raw, ("raw",)),
    "drain": Benchmark(drain, needs=("enqueue",)),
    "pool": Benchmark(pool, ("redbike, coroutines", "redbike, threads"), needs=("enqueue",)),
    "floor": Benchmark(floor),
    "recurring": Benchmark(recurring),
    "burst": Benchmark(burst, needs=SCHEDULES),
    "enqueue": Benchmark(enqueue, BOTH, needs=("enqueue",)),
    "wakeup": Benchmark(wakeup, BOTH, needs=("enqueue",)),
    "punctuality": Benchmark(punctuality, needs=SCHEDULES),
    "idle": Benchmark(idle),
    "memory": Benchmark(memory, BOTH),
    "size": Benchmark(size),
}


def main() -> None:
    options = parser().parse_args()
    if options.install_peers:
        install(options.peers_folder, options.peers)
    results = Results.load(options.load) if options.load else measured(options)
    print(rst(results) if options.rst else plain(results))
    if options.json:
        results.save(options.json)
    if options.charts:
        # Only here is matplotlib needed.
        from bench.charts import draw

        for path in draw(results, options.charts):
            say(str(path))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="fewer jobs, one round: to see where one stands")
    options.add_argument("--full", action="store_true", help="also with ten million scheduled jobs")
    options.add_argument("--only", type=names(list(BENCHMARKS)), metavar="NAMES", help=", ".join(BENCHMARKS))
    options.add_argument("--peers", type=names(PEERS), default=PEERS, metavar="NAMES", help=", ".join(PEERS))
    options.add_argument("--no-peers", dest="peers", action="store_const", const=[], help="Redbike and raw alone")
    options.add_argument("--install-peers", action="store_true", help="install them first, with pip and npm")
    options.add_argument(
        "--peers-folder",
        type=Path,
        metavar="FOLDER",
        default=HERE.parent / ".venv" / "peers",
        help="where their virtual environments are; default: .venv/peers",
    )
    options.add_argument("--rounds", type=int, metavar="N", help="default: 3, with --quick 1")
    options.add_argument("--json", metavar="FILE", help="write the results there")
    options.add_argument("--load", metavar="FILE", help="show the results of an earlier run, and measure nothing")
    options.add_argument("--charts", metavar="FOLDER", help="draw SVG files there; needs matplotlib")
    options.add_argument("--rst", action="store_true", help="print the table as reStructuredText")
    return options


def names(known: list[str]) -> Callable[[str], list[str]]:
    """What reads names with commas between them."""

    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no such name: {name!r}; there are {', '.join(known)}")
        return chosen

    return read


def measured(options: argparse.Namespace) -> Results:
    """Run the benchmarks: in each round everyone in turn."""
    plan = Plan(options.quick, options.full)
    present = contenders(options.peers, options.peers_folder)
    results = Results(surroundings(present))
    rounds = options.rounds or plan.pick(3, 1)
    # Everything is a ratio to the raw figures, so they are always there.
    for name in dict.fromkeys(["raw", *(options.only or BENCHMARKS)]):
        benchmark = BENCHMARKS[name]
        left = [each for each in present if takes_part(each, benchmark)]
        for number in range(rounds):
            for contender in list(left):
                say(f"{name}, round {number + 1} of {rounds}: {contender.name}")
                try:
                    for key, value, *other in benchmark.run(plan, contender):
                        results.add(key, *other or [contender.name], value)
                except Failed as error:
                    say(f"{name} without {contender.name}: {error}")
                    left.remove(contender)
    return results


def takes_part(contender: Contender, benchmark: Benchmark) -> bool:
    """Whether the contender is one for that benchmark."""
    if not contender.is_peer:
        return contender.name in benchmark.ours
    return benchmark.needs is not None and not contender.abilities.isdisjoint(benchmark.needs)


def contenders(peers: list[str], folder: Path) -> list[Contender]:
    """Redbike, raw Redis, and those of the peers that are installed."""
    found = [described(name, sys.executable) for name in OWN]
    for name in peers:
        python = interpreter(folder, name)
        found.append(described(name, str(python) if python.exists() else sys.executable))
    return [contender for contender in found if contender is not None]


def described(name: str, python: str) -> Contender | None:
    """What its adapter says of itself; None, and a line, if it is not installed."""
    command = [python, "-m", "bench.drive", name, "describe"]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if told.returncode:
        reason = (told.stderr.strip().splitlines() or ["it says nothing"])[-1]
        say(f"without {name}: {reason} (--install-peers installs it)")
        return None
    said = json.loads(told.stdout.splitlines()[-1])
    return Contender(name, python, frozenset(said["abilities"]), said["versions"], said["settings"], said["jobs"])


def surroundings(present: list[Contender]) -> dict[str, str]:
    """What the results depend on besides the speed of the machine."""
    with Server() as server:
        version = server.version()
    facts = {"cores": f"{os.cpu_count()} cores", "server": version, "python": f"Python {platform.python_version()}"}
    for contender in present:
        versions = ", ".join(f"{package} {version}" for package, version in contender.versions.items())
        facts[contender.name] = f"{versions}; {contender.settings}"
    return facts


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
