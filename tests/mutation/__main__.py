"""Plants mutants of the Lua scripts or of the Python, and sees whether the tests catch them.

Usage:
  mutation (lua | python) [options] [--] [<WORD>...]

``mutation`` is ``python -m tests.mutation``. A word is a part of a file's name, or of ``file:line: change`` from the
file on, as survivors are shown: only such mutants are tried. The tests are collected once. For each mutant a copy of
this process runs those tests that use its scripts or run its lines until one fails: first those that caught other
mutants of its file, then the fastest.

Options:
  --tests=<WHERE> Folders and files below ``tests/``, by commas, in place of all that use scripts or those rooms.
  --sample=<N>    So many of them, chosen by chance.
  --seed=<N>      Which [default: 1].
  --at-once=<N>   Mutants that are tried at the same time [default: 2].
  --budget=<S>    Seconds of the tests that are tried on a mutant, as long as they take without it [default: 300].
  --done=<FILE>   Write each name and what came of it there, and leave out what it has from before.

Exit status: 0 all were caught or are known as equivalent, 1 some were not.
"""

import importlib
import itertools
import json
import math
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docopt import docopt
from hypothesis import Phase

from tests import chance, surroundings

PATIENCE = 5.0  # seconds of the processor that a test may take, beside ten times those that it takes without a mutant
LIMIT = 1800.0  # seconds after which a copy is ended, and its mutant not caught; a test that hangs ends before
MEMORY = 4 << 30  # bytes of a copy, which would else take all if its mutant appends for ever
CAUGHT, SURVIVED, NOTHING = 1, 0, 3  # exit statuses of a copy
WORDS = {CAUGHT: "caught", SURVIVED: "not caught", NOTHING: "of what no test runs"}
Known = dict[str, Any]  # "seconds" of each test; "users": of each script or line, the tests that use it


class Mutation:
    """A plugin of pytest that runs the collected tests once for each mutant, in place of once.

    `kind` is a module that makes mutants of one language, and plants them.
    """

    def __init__(self, kind: ModuleType, mutants: list[Any], options: dict[str, Any]) -> None:
        self._kind, self.mutants = kind, mutants
        self._at_once, self._budget = int(options["--at-once"]), float(options["--budget"])
        self._done = Path(options["--done"]) if options["--done"] else None
        self.survivors: list[str] = []
        self._catches: dict[str, Counter[str]] = defaultdict(Counter)  # of each file, the tests that caught a mutant
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "record"
            print(f"first {len(items)} tests without a mutant", flush=True)
            wait(fork(lambda: self._record(session.items, record)))
            known: Known = json.loads(record.read_text())
            for test in items.keys() - known["seconds"].keys():
                print(f"fails without a mutant, and is left out: {test}", flush=True)
            self._try_all(items, known, Path(folder))
        return True

    def _record(self, items: list[pytest.Item], record: Path) -> int:
        """Run all tests; write down what uses what, and how long each took."""
        recorder = self._kind.Recorder()
        seconds = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            recorder.begin(item.nodeid)
            began = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if not self._failed:
                seconds[item.nodeid] = time.monotonic() - began
            self._failed = False
        users = {use: [test for test in tests if test in seconds] for use, tests in recorder.list_users().items()}
        record.write_text(json.dumps({"seconds": seconds, "users": users}))
        return SURVIVED

    def _try(self, mutant: Any, items: dict[str, pytest.Item], known: Known, folder: Path) -> int:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        uses = self._kind.plant(mutant)
        chosen = [items[test] for test in choose(known, uses, self._catches[mutant.file], self._budget)]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            most = used + PATIENCE + 10 * known["seconds"][item.nodeid]
            # Whatever catches the error of a timeout goes on; the kernel ends the process.
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(most), resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                (folder / str(os.getpid())).write_text(item.nodeid)
                item.session._setupstate.teardown_exact(None)
                return CAUGHT
        return SURVIVED if chosen else NOTHING

    def _try_all(self, items: dict[str, pytest.Item], known: Known, folder: Path) -> None:
        counts = dict.fromkeys(WORDS, 0)
        waiting = self._list_waiting()
        running: dict[int, tuple[Any, int, float]] = {}
        while True:
            for mutant in itertools.islice(waiting, self._at_once - len(running)):
                pid = fork(lambda mutant=mutant: self._try(mutant, items, known, folder))
                running[os.pidfd_open(pid)] = mutant, pid, time.monotonic()
            if not running:
                break
            first = min(began for _, _, began in running.values()) + LIMIT - time.monotonic()
            ended, _, _ = select.select([*running], [], [], max(0.0, first))
            late = [each for each, (_, _, began) in running.items() if time.monotonic() - began > LIMIT]
            for each in dict.fromkeys([*ended, *late]):
                mutant, pid, began = running.pop(each)
                os.close(each)
                status = wait(pid, kill=each not in ended)[1]
                counts[status] += 1
                if (catch := folder / str(pid)).exists():
                    self._catches[mutant.file][catch.read_text()] += 1
                    catch.unlink()
                self._note(mutant, status, time.monotonic() - began)
        print(f"{sum(counts.values())} mutants: " + ", ".join(f"{counts[each]} {word}" for each, word in WORDS.items()))

    def _list_waiting(self) -> Iterator[Any]:
        """Yield those that are not known as equivalent, and of which nothing has come before."""
        before = self._done.read_text().splitlines() if self._done and self._done.exists() else []
        done = {line.partition(": ")[2] for line in before}
        return (each for each in self.mutants if not each.is_equivalent and not (done and each.name in done))

    def _note(self, mutant: Any, status: int, seconds: float) -> None:
        """Say what came of it."""
        if status == SURVIVED:
            self.survivors.append(mutant.name)
            print(f"{seconds:5.1f} s  SURVIVED: {mutant.name}", flush=True)
        if self._done:
            with self._done.open("a") as file:
                print(f"{WORDS[status]}: {mutant.name}", file=file)


def choose(known: Known, uses: set[str], catches: Counter[str], budget: float) -> list[str]:
    """The tests that use any of these, those that caught most first, then the fastest, for so many seconds."""
    seconds = known["seconds"]
    found = {test for use in uses for test in known["users"].get(use, ())}
    chosen = []
    for test in sorted(found, key=lambda test: (-catches[test], seconds[test])):
        if (budget := budget - seconds[test]) > 0:
            chosen.append(test)
    return chosen


def fork(act: Callable[[], int]) -> int:
    """Start a copy of this process, which ends with the status that `act` returns; return its id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # What it prints is of no interest.
        null = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(null, number)
        os.environ[OF_MUTANT] = str(os.getpid())
        status = act()
    finally:
        os._exit(status)


OF_MUTANT = "REDBIKE_OF_MUTANT"


def wait(pid: int, kill: bool = False) -> tuple[int, int]:
    """Return the id of a copy and its status, once it has ended; end it now if it is to be killed."""
    if kill:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    surroundings.kill_marked(f"{OF_MUTANT}={pid}")
    return pid, SURVIVED if kill else os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else CAUGHT


def main() -> int:
    given = docopt(__doc__)
    kind = importlib.import_module("tests.mutation." + ("lua" if given["lua"] else "python"))
    words = [word.partition(":") for word in given["<WORD>"]]
    mutants = list(kind.list_all(lambda file: not words or any(part in file for part, _, _ in words)))
    if any(colon for _, colon, _ in words):
        mutants = [each for each in mutants if any("".join(word) in each.name for word in words)]
    if given["--sample"]:
        mutants = random.Random(int(given["--seed"])).sample(mutants, min(int(given["--sample"]), len(mutants)))
    plugin = Mutation(kind, mutants, given)
    # A mutant is caught by any example: none has to be made small.
    chance.PHASES = tuple(each for each in Phase if each is not Phase.shrink)
    root = Path(__file__).parents[1]
    tests = given["--tests"].split(",") if given["--tests"] else kind.TESTS
    options = ["-q", "-n0", "-s", "-p", "no:cacheprovider", "-m", "not acceptance and not nightly"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options.append(f"--timeout={30 * surroundings.measure():.0f}")
    status = pytest.main([*options, *(str(root / name) for name in tests)], plugins=[plugin])
    return 1 if status or plugin.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
