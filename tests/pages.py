"""The literal blocks of the pages, and what of the lines that a page shows differs each time."""

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
    (r"[\w.-]+:\d+:[\w-]{8}\b", "PROCESS"),
    (r"[\w.-]+@[\w.-]+", "SOMEBODY"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?", "INSTANT"),
    (r"[\d.]+ (d|h|min|s|ms|us|µs)\b( \d+ (h|min|s)\b)?", "LENGTH"),
    (r"█+", "BAR"),
    (r"\d[\d,.]*", "NUMBER"),
    (r"–+", "-"),
    (r"\s+", " "),
]
ON_A_TERMINAL = {"agenda", "jobs", "tail"}  # what a page shows of them is what they show there


@dataclass(frozen=True)
class Block:
    """A literal block of `page`."""

    page: str
    text: str

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command, and what it is said to print. Without dollars, each line is a command."""
        text = re.sub(r" *\\\n +", " ", self.text)
        if "$ " not in text:
            text = re.sub(r"^(?=.)", "$ ", text, flags=re.MULTILINE)
        yield from re.findall(r"^\$ (.+)\n?((?:(?!\$ ).*(?:\n|\Z))*)", text, re.MULTILINE)


def list_blocks(page: str) -> list[Block]:
    """What stands indented below a line that ends in ``::``, or below ``.. code-block::``."""
    text = PAGES[page].read_text()
    found = re.findall(r"^(?: *\.\. code-block:: \w+|(?! *\.\.).*::)\n\n((?: {3,}.*\n|\n)+)", text, re.MULTILINE)
    return [Block(page, textwrap.dedent(block).strip("\n")) for block in found]


def find_block(page: str, first: str) -> str:
    """The text of the block that begins like that."""
    [found] = [block.text for block in list_blocks(page) if block.text.startswith(first)]
    return f"{found}\n"


def mask(text: str) -> str:
    for pattern, word in DIFFERS:
        text = re.sub(pattern, word, text)
    return text.strip()


def is_like(printed: str, shown: str) -> bool:
    """Whether this may be printed where a page shows that; ``…`` on a page stands for anything."""
    parts = [re.escape(part.strip()) for part in mask(shown).split("…")]
    return re.fullmatch(r".*".join(parts), mask(printed), re.DOTALL) is not None


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
        timeout=60,
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
