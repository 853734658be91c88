"""Plants mutants of the Lua scripts, and sees whether the tests catch them.

Usage:
  mutation [--sample=<N>] [--seed=<N>] [--at-once=<N>] [--] [<WORD>...]

``mutation`` is ``python -m tests.mutation``. With words, only the mutants whose names have one of them; a name begins
with its file and line. The tests are collected once. For each mutant a copy of this process runs those tests that use
its scripts until one fails: first those that caught other mutants of its file, then the fastest.

Options:
  --sample=<N>   So many of them, chosen by chance.
  --seed=<N>     Which [default: 1].
  --at-once=<N>  Mutants that are tried at the same time [default: 2].

Exit status: 0 all were caught or are known as equivalent, 1 some were not.
"""

import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from docopt import docopt

from redbike.store import scripts
from tests import surroundings
from tests.crashing import VERBS
from tests.mutation.lua import FOLDER, Mutant, list_mutants, plant

# Where scripts are run straight, in the process of the test.
TESTS = ["store", "test_crashes.py", "loop", "dispatcher", "worker", "control", "queries"]
LIMIT = 1800.0  # seconds after which a copy is ended, and its mutant not caught; a test that hangs ends before
SLOWEST = 20.0  # seconds of a test that is not tried
CAUGHT, SURVIVED, NOTHING = 1, 0, 3  # exit statuses of a copy
Known = dict[str, tuple[list[str], float]]  # of each test, the scripts that it sends, and its seconds


class Mutation:
    """A plugin of pytest that runs the collected tests once for each mutant, in place of once."""

    def __init__(self, mutants: list[Mutant], at_once: int) -> None:
        self.mutants, self.at_once = mutants, at_once
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
            if wait(fork(lambda: self._record(session.items, record)))[1]:
                raise pytest.UsageError("the tests fail without a mutant")
            known: Known = json.loads(record.read_text())
            self._try_all(items, known, Path(folder))
        return True

    def _record(self, items: list[pytest.Item], record: Path) -> int:
        """Run all tests; write down the scripts that each has sent, and how long it took."""
        sent: set[str] = set()
        pack = scripts._pack_head

        def note(digest: str, *more: Any) -> bytes:
            sent.add(VERBS[digest.encode()])
            return pack(digest, *more)

        scripts._pack_head = note
        known = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            sent.clear()
            began = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            known[item.nodeid] = (sorted(sent), time.monotonic() - began)
        record.write_text(json.dumps(known))
        return CAUGHT if self._failed else SURVIVED

    def _try(self, mutant: Mutant, items: dict[str, pytest.Item], known: Known, folder: Path) -> int:
        verbs = plant(mutant)
        if not verbs:
            return NOTHING
        chosen = [items[test] for test in choose(known, verbs, self._catches[mutant.file])]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                (folder / str(os.getpid())).write_text(item.nodeid)
                item.session._setupstate.teardown_exact(None)
                return CAUGHT
        return SURVIVED

    def _try_all(self, items: dict[str, pytest.Item], known: Known, folder: Path) -> None:
        counts = dict.fromkeys((CAUGHT, SURVIVED, NOTHING), 0)
        waiting = [mutant for mutant in self.mutants if not mutant.is_equivalent]
        running: dict[int, tuple[Mutant, int, float]] = {}
        while waiting or running:
            while waiting and len(running) < self.at_once:
                mutant = waiting.pop(0)
                pid = fork(lambda mutant=mutant: self._try(mutant, items, known, folder))
                running[os.pidfd_open(pid)] = mutant, pid, time.monotonic()
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
                if status == SURVIVED:
                    self.survivors.append(mutant.name)
                    print(f"{time.monotonic() - began:5.1f} s  SURVIVED: {mutant.name}", flush=True)
        known = len(self.mutants) - sum(counts.values())
        print(
            f"{len(self.mutants)} mutants: {counts[CAUGHT]} caught, {counts[SURVIVED]} not,"
            f" {known} known as equivalent, {counts[NOTHING]} that change no script"
        )


def choose(known: Known, verbs: set[str], catches: Counter[str]) -> list[str]:
    """The tests that send one of these scripts, those that caught most first, then the fastest."""
    found = [test for test, (sent, seconds) in known.items() if seconds < SLOWEST and verbs.intersection(sent)]
    return sorted(found, key=lambda test: (-catches[test], known[test][1]))


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
    mutants = [each for path in sorted(FOLDER.iterdir()) for each in list_mutants(path.name, path.read_text())]
    words = given["<WORD>"]
    mutants = [each for each in mutants if not words or any(word in each.name for word in words)]
    if given["--sample"]:
        mutants = random.Random(int(given["--seed"])).sample(mutants, min(int(given["--sample"]), len(mutants)))
    plugin = Mutation(mutants, int(given["--at-once"]))
    root = Path(__file__).parents[1]
    options = ["-q", "-n0", "-s", "-p", "no:cacheprovider", "-m", "not acceptance and not nightly"]
    options.append(f"--timeout={30 * surroundings.measure():.0f}")
    status = pytest.main([*options, *(str(root / name) for name in TESTS)], plugins=[plugin])
    return 1 if status or plugin.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
