"""Explain one command: what it does, its usage, its options, and examples."""

import re
import shutil
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import TextIO

from redbike.cli.examples import EXAMPLES
from redbike.cli.usage import Usage

NARROWEST, WIDEST = 40, 100  # columns of text


def explain(usage: Usage, command: str) -> str:
    """Return the help for `command`, as wide as the terminal permits."""
    width = _measure(sys.stdout)
    options = [usage.options[name] for name in usage.get_options(command)]
    words = _find_words(usage, " ".join([usage.lines[command], *(option.spelling for option in options)]))
    sections = [
        _fold(usage.summaries[command], width, "", ""),
        show_usage(usage, [command], sys.stdout),
        ["Options:", *_align([(option.spelling, option.text) for option in options], width)] if options else [],
        ["Words:", *_align([(word, usage.words[word]) for word in words], width)] if words else [],
        ["Examples:", *_show_examples(command, width)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def show_usage(usage: Usage, commands: list[str], stream: TextIO) -> list[str]:
    """Return the lines of the usage of `commands`, as wide as `stream` permits."""
    width = _measure(stream)
    # A command may have several forms.
    forms = (form for command in commands for form in re.split(" (?=redbike )", usage.lines[command]))
    return ["Usage:", *(line for form in forms for line in _fold(form, width, "  ", "      "))]


def _measure(stream: TextIO) -> int:
    """Return how many columns a text may have: those of the terminal, but no more than are easy to read."""
    columns = shutil.get_terminal_size((WIDEST, 24)).columns if stream.isatty() else WIDEST
    return max(NARROWEST, min(WIDEST, columns))


def _find_words(usage: Usage, text: str) -> list[str]:
    """Return what the usage explains of the words <…> in `text`, and of those in the explanations."""
    found: set[str] = set()
    while new := {word for word in re.findall(r"<(\w+)>", text) if word in usage.words} - found:
        found |= new
        text = " ".join(usage.words[word] for word in new)
    return [word for word in usage.words if word in found]


def _show_examples(command: str, width: int) -> Iterator[str]:
    for line, text in EXAMPLES[command]:
        yield f"  {line}"
        yield from _fold(text, width, "      ", "      ")


def _align(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the lines of two columns; the first is never broken."""
    first = max(len(name) for name, _ in rows) + 4
    for name, text in rows:
        yield from _fold(text, width, f"  {name}".ljust(first), " " * first)


def _fold(text: str, width: int, first: str, others: str) -> list[str]:
    return wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
