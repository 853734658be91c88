"""Makes mutants of the scripts in ``store/lua/``: each is one small change, of the kinds that a slip makes."""

import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from redbike.store import lua_loader as texts
from redbike.store import scripts
from tests.crashing import VERBS
from tests.mutation.equivalent import EQUIVALENT

# Where scripts are run straight, in the process of the test.
TESTS = ["store", "test_crashes.py", "loop", "dispatcher", "worker", "control", "queries"]

FOLDER = Path(texts.__file__).parent / "lua"
# What is not code: a comment, a string. Neither is changed.
OPAQUE = re.compile(r"--.*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
SWAPPED = {
    r"==": "~=",
    r"~=": "==",
    r"<(?![=])": "<=",
    r"<=": "<",
    r"(?<![-~=<>])>(?![=])": ">=",
    r">=": ">",
    r"(?<=\w) \+ ": " - ",
    r"(?<=\w) - ": " + ",
    r" \* ": " + ",
    r"\band\b": "or",
    r"\bor\b": "and",
    r"\bnot ": "",
    r"\btrue\b": "false",
    r"\bfalse\b": "true",
    r"(?<![\w.%])0(?![\w.])": "1",
    r"(?<![\w.%])1(?![\w.])": "2",
}
# A statement that stands alone in its line, and may be left out: a call or an assignment.
STATEMENT = re.compile(
    r"^\s*+(?!(?:local|if|for|while|end|return|else|elseif|function|until|repeat)\b)[\w.,\[\]:# +]+(?:\(.*\)| = .*)$"
)
GUARDED = re.compile(r"^(\s*if .* then )(?!return\b)(.+)( end)$")
LEAVING = re.compile(r"^(\s*)(if .* then return.* end)$")
ARGUMENTS = re.compile(r"\((?P<first>[\w.]+), (?P<second>[\w.]+)(?=[,)])")


@dataclass(frozen=True)
class Mutant:
    """A file of ``lua/`` with one of its lines changed."""

    file: str
    line: int
    old: str
    new: str
    text: str  # of the whole file

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.change}"

    @property
    def change(self) -> str:
        """What it does, wherever the line stands in its file."""
        return f"{self.old.strip()} → {self.new.strip() or 'nothing'}"

    @property
    def is_equivalent(self) -> bool:
        return f"{self.file}: {self.change}" in EQUIVALENT


def list_all(is_meant: Callable[[str], bool]) -> Iterator[Mutant]:
    """Yield the mutants of such files."""
    for path in sorted(FOLDER.iterdir()):
        if is_meant(path.name):
            yield from list_mutants(path.name, path.read_text())


def list_mutants(file: str, text: str) -> Iterator[Mutant]:
    """Yield the mutants of a file."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("#!"):
            continue
        for new in dict.fromkeys(change(line)):
            changed = [*lines[:number], new, *lines[number + 1 :]]
            yield Mutant(file, number + 1, line, new, "\n".join(changed))


def change(line: str) -> Iterator[str]:
    """Yield the line with one change each."""
    opaque = [found.span() for found in OPAQUE.finditer(line)]

    def is_code(found: re.Match[str]) -> bool:
        return not any(begin < found.end() and found.start() < end for begin, end in opaque)

    code = OPAQUE.sub(lambda found: "" if found.group().startswith("--") else found.group(), line).rstrip()
    if not code.strip():
        return
    for pattern, new in SWAPPED.items():
        for found in filter(is_code, re.finditer(pattern, line)):
            yield line[: found.start()] + new + line[found.end() :]
    for found in filter(is_code, ARGUMENTS.finditer(line)):
        swapped = f"({found['second']}, {found['first']}"
        if found["first"] != found["second"]:
            yield line[: found.start()] + swapped + line[found.end() :]
    if STATEMENT.match(code) and code.count("(") == code.count(")") and code.count("{") == code.count("}"):
        yield ""
    if guarded := GUARDED.match(code):
        yield f"{guarded[1]}{guarded[3].strip()}"
    if LEAVING.match(code):
        yield ""


def plant(mutant: Mutant) -> set[str]:
    """Make this process send the scripts as the mutant has them; return the verbs of those that differ."""
    known = texts.load_all()
    texts.read_files.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(FOLDER, Path(folder) / "lua")
        (Path(folder) / "lua" / mutant.file).write_text(mutant.text)
        with mock.patch.object(texts.resources, "files", return_value=Path(folder)):
            planted = texts.load_all()
    differing = {verb for verb, script in planted.items() if script.text != known[verb].text}
    texts.SCRIPTS.update(planted)
    return differing


class Recorder:
    """Tells which tests send which scripts from this process."""

    def __init__(self) -> None:
        self._test = ""
        self._users: dict[str, set[str]] = defaultdict(set)
        pack = scripts._pack_head

        def note(digest: str, *more: Any) -> bytes:
            self._users[VERBS[digest.encode()]].add(self._test)
            return pack(digest, *more)

        scripts._pack_head = note

    def begin(self, test: str) -> None:
        """What is sent from now on, is sent by this test."""
        self._test = test

    def list_users(self) -> dict[str, list[str]]:
        """Of each script, the tests that send it."""
        return {verb: sorted(tests) for verb, tests in self._users.items()}
