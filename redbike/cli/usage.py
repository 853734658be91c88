"""What is wrong with a command line that does not match the usage, and which line of that was meant.

All is read from the usage text itself, so that nothing is said twice.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from redbike.serving.connection import redact
from redbike.working.worker_class import shown

QUOTES_HINT = "; a schedule with blanks in it needs quotes"
DASHES_HINT = "; an id that begins with a dash stands after --"


class Diagnosis(NamedTuple):
    """What is wrong, in one line, and the lines of the usage that help."""

    message: str
    usage: list[str]


def diagnose(text: str, arguments: Sequence[str]) -> Diagnosis:
    """Return what is wrong with `arguments` by the usage `text`, which they do not match."""
    usage = _Usage(text)
    if not arguments:
        return Diagnosis("a command is needed; redbike --help explains them", list(usage.lines.values()))
    command = ""
    try:
        words, options = usage.split(arguments)
        command = usage.command(words)
        usage.check_options(command, options)
        _check_words(command, usage.lines[command], words[1:])
    except _Wrong as wrong:
        meant = command or wrong.meant
        return Diagnosis(str(wrong), [usage.lines[meant]] if meant in usage.lines else [])
    return Diagnosis(f"bad usage of {command}", [usage.lines[command]])


def quote(word: str) -> str:
    """Return an argument as messages quote it: without a password, and without the arguments of a worker class."""
    return repr(shown(word) if re.match(r"[\w.:]+\(", word) else redact(word))


class _Wrong(Exception):
    """What is wrong with the command line; with a `word` among the `known` ones, the nearest of these is named."""

    def __init__(self, message: str, word: str = "", known: Iterable[str] = (), otherwise: str = "") -> None:
        near = get_close_matches(word.lstrip("-").lower(), [name.lstrip("-") for name in known], 1)
        self.meant = next((name for name in known if near and name.lstrip("-") == near[0]), "")
        super().__init__(message + (f"; is {self.meant!r} meant?" if self.meant else otherwise))


@dataclass
class _Usage:
    """The lines of a usage text by their command, and its options by each of their names."""

    text: str
    lines: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)  # of each short and long name the long one
    valued: set[str] = field(default_factory=set)  # long names of those that take a value

    def __post_init__(self) -> None:
        for line in _section(self.text, "Usage:"):
            found = re.match(r"redbike \[options\] (\w+)", line)
            if found:
                self.lines[found[1]] = line
        for line in _section(self.text, "Options:"):
            spelled = line.partition("  ")[0]
            names = re.findall(r"(?<![\w-])--?\w[\w-]*", spelled)
            self.options |= dict.fromkeys(names, names[-1])
            if "=" in spelled:
                self.valued.add(names[-1])

    def split(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words and the long names of the options among `arguments`."""
        words: list[str] = []
        options: list[str] = []
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                return words + rest, options
            if argument.startswith("--"):
                options.append(self._long(argument, rest))
            elif argument.startswith("-") and argument != "-":
                options += self._short(argument, rest)
            else:
                words.append(argument)
        return words, options

    def command(self, words: Sequence[str]) -> str:
        """Return the command that the first word names."""
        if not words:
            raise _Wrong("a command is needed; redbike --help explains them")
        if words[0] not in self.lines:
            raise _Wrong(
                f"no command {quote(words[0])}", words[0], self.lines, f"; the commands are {_list(self.lines, 'and')}"
            )
        return words[0]

    def check_options(self, command: str, options: Sequence[str]) -> None:
        """Check that `command` takes these options, and each is given once."""
        everywhere = {name for name in self.options.values() if not any(name in line for line in self.lines.values())}
        for name in options:
            if name not in everywhere and not re.search(rf"{name}(?![\w-])", self.lines[command]):
                raise _Wrong(f"{command} takes no {name}")
            if options.count(name) > 1:
                raise _Wrong(f"{name} is given more than once")

    def _long(self, argument: str, rest: list[str]) -> str:
        given, equals, _ = argument.partition("=")
        names = [name for name in self.options if name == given] or [
            name for name in self.options if name.startswith(given)
        ]
        if len(names) != 1:
            raise _Wrong(f"no option {quote(given)}", given, set(self.options.values()), DASHES_HINT)
        if equals and names[0] not in self.valued:
            raise _Wrong(f"{names[0]} takes no value")
        self._take_value(names[0], bool(equals), rest)
        return names[0]

    def _short(self, argument: str, rest: list[str]) -> list[str]:
        found = []
        for place, letter in enumerate(argument[1:], 2):
            name = self.options.get(f"-{letter}")
            if name is None:
                raise _Wrong(f"no option {quote(f'-{letter}')}", otherwise=DASHES_HINT)
            found.append(name)
            if name in self.valued:
                self._take_value(name, bool(argument[place:]), rest)
                break
        return found

    def _take_value(self, name: str, attached: bool, rest: list[str]) -> None:
        if name in self.valued and not attached:
            if not rest:
                raise _Wrong(f"{name} needs a value")
            rest.pop(0)


def _section(text: str, title: str) -> list[str]:
    block = text.partition(f"\n{title}\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def _check_words(command: str, line: str, given: Sequence[str]) -> None:
    """Check that `command` is given as many words as its `line` names, and of a choice one."""
    choices = re.findall(r"\(([\w |]+)\)", line)
    if choices:
        allowed = choices[0].split(" | ")
        if not given:
            raise _Wrong(f"{command} needs {_list(allowed, 'or')}")
        if given[0] not in allowed:
            raise _Wrong(f"{command}: unexpected {quote(given[0])}", given[0], allowed)
        given = given[1:]
    names = re.findall(r"(?<!=)(\[?<\w+>\]?)", line)
    needed = [name for name in names if name[0] == "<"]
    if len(given) < len(needed):
        raise _Wrong(f"{command} needs {' and '.join(needed[len(given) :])}")
    if len(given) > len(names):
        hint = QUOTES_HINT if "<SCHEDULE>" in names else ""
        raise _Wrong(f"{command}: unexpected {quote(given[len(names)])}{hint}")


def _list(names: Iterable[str], conjunction: str) -> str:
    *first, last = names
    return f"{', '.join(first)} {conjunction} {last}"
