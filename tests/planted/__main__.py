"""Plants each bug of ``bugs.txt`` into a copy of the package, and sees whether the tests catch it.

A generator makes most mutants, see ``tests.mutation``. These are some that it does not make: most of them were real
once, or break a promise in a way that is easily missed. Each is a name, the file with the arguments of pytest, and the
lines that stand once in that file (``-``) and become others (``+``).

usage: python -m tests.planted [--at-once=<N>] [<WORDS> ...]

With WORDS, only the bugs whose names contain one of them. Without a bug the tests must pass; that is tried first. Exits
1 when a bug survives, or cannot be planted any more because the text that it replaces has changed.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
NEEDED = ("redbike", "tests", "docs", "setup.cfg")
ONE_TEST = 80  # seconds after which a test counts as hanging, which is being caught
ALL_TESTS = 300  # seconds after which the whole run does
CAUGHT, PASSED = 1, 0  # exit statuses of pytest


class Bug(NamedTuple):
    """`old`, which stands once in `file` of the package, becomes `new`; `tests` are arguments of pytest."""

    name: str
    file: str
    tests: str
    old: str
    new: str


def read_bugs(text: str) -> Iterator[Bug]:
    """Yield the bugs of ``bugs.txt``."""
    for part in text.strip().split("\n\n"):
        name, place, *lines = part.split("\n")
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        yield Bug(name, *place.split(" ", 1), old, new)


BUGS = list(read_bugs(Path(__file__).with_name("bugs.txt").read_text()))


class Copy:
    """A copy of the package and its tests in a folder of its own, where a bug may be planted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in NEEDED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def plant(self, bug: Bug) -> None:
        """Make the replacement. Raises `ValueError` when there is not exactly one place for it."""
        path = self.folder / "redbike" / bug.file
        path.write_text(replaced(path.read_text(), bug))
        if path.suffix == ".py":
            compile(path.read_text(), bug.file, "exec")  # a mere error of syntax is no bug

    def test(self, tests: str) -> int:
        """The exit status of pytest; of what hangs, that of a failure."""
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not nightly", f"--timeout={ONE_TEST}"]
        with open(self.folder / "output", "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *shlex.split(tests)],
                cwd=self.folder,
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(ALL_TESTS)
            except subprocess.TimeoutExpired:
                return CAUGHT
            finally:
                self._end(process)

    def _environment(self) -> dict[str, str]:
        # Its servers are below its own folder, so that those of a run that was ended can be found.
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        return {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch)}

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for file in (self.folder / "tmp").rglob("server.pid"):
            with contextlib.suppress(OSError):
                pid = int(file.read_text())
                if str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    def last_words(self) -> str:
        """The end of what pytest said."""
        lines = (self.folder / "output").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])


def replaced(text: str, bug: Bug) -> str:
    """`text` with the bug in it. Raises `ValueError` when there is not exactly one place for it."""
    count = text.count(bug.old)
    if count != 1:
        raise ValueError(f"{bug.old!r} stands {count} times in {bug.file}, not once")
    return text.replace(bug.old, bug.new)


def verdict(tests: str, bug: Bug | None = None) -> str:
    """What became of a bug, or of no bug at all; "" when that is as it should be."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Copy(Path(folder))
        if bug is not None:
            copy.plant(bug)
        status = copy.test(tests)
        if status == (PASSED if bug is None else CAUGHT):
            return ""
        return f"SURVIVED: {bug.name}" if bug and status == PASSED else f"{tests}: exit {status}\n{copy.last_words()}"


def tried(bug: Bug) -> str:
    """The verdict on a bug, which is also printed."""
    began = time.monotonic()
    try:
        found = verdict(bug.tests, bug)
    except (ValueError, SyntaxError) as error:
        found = f"{bug.name}: {error}"
    print(f"{time.monotonic() - began:5.1f} s  {found or f'caught: {bug.name}'}", flush=True)
    return found


def chosen(words: Iterable[str]) -> list[Bug]:
    """The bugs whose names contain one of `words`; all, if there are none."""
    words = list(words)
    return [bug for bug in BUGS if not words or any(word in bug.name for word in words)]


def main() -> int:
    """0 when every bug is caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__.partition("\n")[0])
    parser.add_argument("--at-once", type=int, default=2, help="bugs that are tried at the same time")
    parser.add_argument("words", nargs="*", help="parts of the names of the bugs to try")
    given = parser.parse_args()
    bugs = chosen(given.words)
    with ThreadPoolExecutor(min(2, given.at_once)) as pool:
        tests = list(dict.fromkeys(bug.tests for bug in bugs))
        print(f"first the tests without a bug, in {len(tests)} parts", flush=True)
        clean = [found for found in pool.map(verdict, tests) if found]
        if clean:
            print("the tests fail without a bug:", *clean, sep="\n")
            return 1
        survived = [found for found in pool.map(tried, bugs) if found]
    print(f"{len(bugs)} bugs, {len(bugs) - len(survived)} caught, {len(survived)} not", *survived, sep="\n    ")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
