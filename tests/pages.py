"""The literal blocks of the pages, and what of the lines that a page shows differs each time."""

import ast
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.commandline import ROOT, Shell
from tests.terminal import plain, run_on_terminal

PAGES = {path.stem: path for path in (*ROOT.glob("*.rst"), *ROOT.glob("docs/*.rst")) if path.stem != "CHANGELOG"}
# What differs each time, and the word for it. A page and the program are compared by the words.
DIFFERS = [
    (r"[\w.-]+:\d+:[\w-]{8}(?![\w-])", "PROCESS"),
    (r"\bonce/\w+-[a-z2-7]{8}:shell\b", "ONE-OFF"),
    (r"\b\d{10}(\.\d+)?\b|\d{4}-\d\d-\d\dT\S+Z(?= INFO)", "INSTANT"),
    (r"\bin \d+ \w+( \d+ \w+)?$|\d+ \w+( \d+ \w+)? ago$|\b\d+ ms\b|\b\d+\.\d{3,6}\b", "LENGTH"),
    (r"\s+", " "),
]
# What differs too where a test has only brought about something like what the page presumes.
PRESUMED = [
    *DIFFERS[:2],
    (r"[\w.-]+@[\w.-]+", "SOMEBODY"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?", "INSTANT"),
    (r"[\d.]+ (d|h|min|s|ms|us|µs)\b( \d+ (h|min|s)\b)?", "LENGTH"),
    (r"\bLENGTH ago\b|\bnow\b", "EARLIER"),
    (r"█+", "BAR"),
    (r"\d[\d,.]*", "NUMBER"),
    (r"–+", "-"),
    DIFFERS[-1],
]
ON_A_TERMINAL = {"agenda", "backfill", "jobs", "tail"}  # what a page shows of them is what they show there


@dataclass(frozen=True)
class Block:
    """A literal block of `page`."""

    page: str
    text: str
    language: str = ""

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command, and what it is said to print. Without dollars, each line is a command."""
        text = re.sub(r" *\\\n +", " ", self.text)
        if "$ " not in text:
            text = re.sub(r"^(?=.)", "$ ", text, flags=re.MULTILINE)
        yield from re.findall(r"^\$ (.+)\n?((?:(?!\$ ).*(?:\n|\Z))*)", text, re.MULTILINE)


def list_blocks(page: str, text: str | None = None) -> list[Block]:
    """What stands indented below a line that ends in ``::``, or below ``.. code-block::``; in a page or its `text`."""
    begin = r"^(?: *\.\. code-block:: (\w+)|(?! *\.\.).*::)\n\n((?: {3,}.*\n|\n)+)"
    found = re.findall(begin, PAGES[page].read_text() if text is None else text, re.MULTILINE)
    return [Block(page, textwrap.dedent(block).strip("\n"), language) for language, block in found]


def find_section(page: str, title: str) -> str:
    """The text below a heading."""
    begin = rf"^{re.escape(title)}\n-+\n(.*?)(?=^[^\n]+\n-+\n|\Z)"
    [found] = re.findall(begin, PAGES[page].read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def list_commands(page: str, text: str) -> list[str]:
    """The commands that a text of a page shows behind dollars."""
    blocks = [block for block in list_blocks(page, text) if "$ " in block.text]
    return [command for block in blocks for command, _ in block.commands()]


def list_programs(page: str) -> dict[str, list[Block]]:
    """The files of Python that a reader makes of a page: by the name in the first line, or else one, ``app.py``.

    A block that imports one of them is a program of its own, and what follows is another file.
    """
    files: dict[str, list[Block]] = {}
    for block in list_blocks(page):
        if block.language == "python":
            modules = "|".join({name.removesuffix(".py").replace("/", r"\.") for name in (*files, "app.py")})
            if named := re.match(r"# ([\w/]+\.py)\n", block.text):
                name = named[1]
            elif re.search(rf"^from ({modules}) import", block.text, re.MULTILINE):
                name = f"test_own{len(files)}.py" if "def test_" in block.text else f"own{len(files)}.py"
            else:
                name = "app.py" if "app.py" in files or not files else "rest.py"
            files.setdefault(name, []).append(block)
    return files


def list_fetched() -> set[tuple[str, str]]:
    """Each page and beginning with which a test calls `find_block`: such a block presumes what that test has."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        if "find_block(" in (text := path.read_text()):
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            named = [call.args for call in calls if isinstance(call.func, ast.Name) and call.func.id == "find_block"]
            found |= {(page.value, first.value) for page, first in named if isinstance(first, ast.Constant)}
    return found


def find_block(page: str, first: str) -> str:
    """The text of the block that begins like that."""
    [found] = [block.text for block in list_blocks(page) if block.text.startswith(first)]
    return f"{found}\n"


def mask(text: str, differs: list[tuple[str, str]]) -> str:
    for pattern, word in differs:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text.strip()


def is_like(printed: str, shown: str, differs: list[tuple[str, str]] = PRESUMED) -> bool:
    """Whether this may be printed where a page shows that; ``…`` on a page stands for anything."""
    parts = [re.escape(part.strip()) for part in mask(shown, differs).split("…")]
    return re.fullmatch(r".*".join(parts), mask(printed, differs), re.DOTALL) is not None


def run_line(shell: Shell, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a line as a user types it, with the interpreter of the tests."""
    if words := find_words(line):
        return shell.run(*words[1:])
    return subprocess.run(
        ["bash", "-c", line],
        cwd=shell.folder,
        env=find_programs(shell),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def find_words(line: str) -> list[str]:
    """The words of a line that only calls ``redbike``; nothing if a shell is needed to understand it."""
    words = shlex.split(line)
    plain = re.sub(r"'[^']*'", "", line)
    return words if words[:1] == ["redbike"] and not re.search(r"[]|&;<>()$`\\*?[{}~\n]", plain) else []


def show(shell: Shell, *words: str, **more: str) -> str:
    """What a command shows on a terminal that is wide enough."""
    return "\n".join(plain(run_on_terminal(shell, *words, columns=100, lines=50, **more)))


def write(shell: Shell, name: str, text: str) -> Path:
    path = shell.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    return path


def start_line(shell: Shell, line: str, log: str = "log") -> "subprocess.Popen[str]":
    """Run a line that does not end by itself, beside the test; what it prints goes to the file `log`."""
    with open(shell.folder / log, "a") as file:
        process = subprocess.Popen(
            ["bash", "-c", line], cwd=shell.folder, env=find_programs(shell), stdout=file, stderr=file, text=True
        )
    shell.started.append(process)
    return process


def find_programs(shell: Shell) -> dict[str, str]:
    """The environment, with the programs of the folder ``bin`` and of the tests in front."""
    path = f"{shell.folder}/bin:{Path(sys.executable).parent}:{shell.environment['PATH']}"
    return {**shell.environment, "PATH": path}
