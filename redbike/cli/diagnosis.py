"""Explain why a command line does not match the usage, and find the line of the usage that was meant.

The commands and options are read from the usage text itself, so that each is defined only once.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from redbike.serving.urls import redact
from redbike.working.loader import quote_spec

QUOTES_HINT = "; a schedule with blanks in it needs quotes"
RENAMED = {"requeue": "run"}  # commands of older versions
DASHES_HINT = "; an id that begins with a dash stands after --"


class Diagnosis(NamedTuple):
    """An explanation in one line, and the lines of the usage that help."""

    message: str
    usage: list[str]


def diagnose(text: str, arguments: Sequence[str]) -> Diagnosis:
    """Explain why `arguments` do not match the usage `text`."""
    usage = _Usage(text)
    if not arguments:
        return Diagnosis("a command is needed; redbike --help explains them", list(usage.lines.values()))
    command = ""
    try:
        words, options = usage.split(arguments)
        command = usage.find_command(words)
        usage.check_options(command, options)
        _check_alternatives(command, usage.lines[command], words[1:], options)
        _check_words(command, usage.lines[command], words[1:])
    except _UsageError as error:
        meant = command or error.meant
        return Diagnosis(str(error), [usage.lines[meant]] if meant in usage.lines else [])
    return Diagnosis(f"bad usage of {command}", [usage.lines[command]])


def quote(word: str) -> str:
    """Return an argument in quotes, without a password, and without the arguments of a worker class."""
    return repr(quote_spec(word) if re.match(r"[\w.:]+\(", word) else redact(word))


class _UsageError(Exception):
    """An error in the command line. The message suggests the one of `known` that is most similar to `word`.

    If none is similar, the message ends with `hint`. `meant` is the suggestion, or "".
    """

    def __init__(self, message: str, word: str = "", known: Iterable[str] = (), hint: str = "") -> None:
        wanted = RENAMED.get(word, word.lstrip("-").lower())
        similar = get_close_matches(wanted, [name.lstrip("-") for name in known], 1)
        self.meant = next((name for name in known if similar and name.lstrip("-") == similar[0]), "")
        super().__init__(message + (f"; is {self.meant!r} meant?" if self.meant else hint))


@dataclass
class _Usage:
    """A parsed usage text: its lines by command, and its options by name."""

    text: str
    lines: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)  # the long name of each short or long name
    valued: set[str] = field(default_factory=set)  # long names of the options that take a value

    def __post_init__(self) -> None:
        command = ""
        for line in _get_section(self.text, "Usage:"):
            if line.startswith("redbike "):
                found = re.match(r"redbike \[options\] (\w+)", line)
                command = found[1] if found else ""
            if command:
                # A line that begins otherwise goes on with the one before.
                self.lines[command] = f"{self.lines.get(command, '')} {line}".strip()
        for line in _get_section(self.text, "Options:"):
            if not line.startswith("-"):
                continue  # the line before goes on
            spelled = line.partition("  ")[0]
            names = re.findall(r"(?<![\w-])--?\w[\w-]*", spelled)
            self.options |= dict.fromkeys(names, names[-1])
            if "=" in spelled:
                self.valued.add(names[-1])

    def split(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words among `arguments`, and the long names of the options. Raise `_UsageError`."""
        words: list[str] = []
        options: list[str] = []
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                return words + rest, options
            if argument.startswith("--"):
                options.append(self._parse_long(argument, rest))
            elif argument.startswith("-") and argument != "-":
                options += self._parse_short(argument, rest)
            else:
                words.append(argument)
        return words, options

    def find_command(self, words: Sequence[str]) -> str:
        """Return the command: the first word. Raise `_UsageError` if there is none, or an unknown one."""
        if not words:
            raise _UsageError("a command is needed; redbike --help explains them")
        if words[0] not in self.lines:
            raise _UsageError(
                f"no command {quote(words[0])}", words[0], self.lines, f"; the commands are {_join(self.lines, 'and')}"
            )
        return words[0]

    def check_options(self, command: str, options: Sequence[str]) -> None:
        """Raise `_UsageError` for an option that `command` does not take, or that is given more than once."""
        common = {name for name in self.options.values() if not any(name in line for line in self.lines.values())}
        for name in options:
            if name not in common and not re.search(rf"{name}(?![\w-])", self.lines[command]):
                raise _UsageError(f"{command} takes no {name}")
            if options.count(name) > 1:
                raise _UsageError(f"{name} is given more than once")

    def _parse_long(self, argument: str, rest: list[str]) -> str:
        given, equals, _ = argument.partition("=")
        names = [name for name in self.options if name == given] or [
            name for name in self.options if name.startswith(given)
        ]
        if len(names) != 1:
            raise _UsageError(f"no option {quote(given)}", given, set(self.options.values()), DASHES_HINT)
        if equals and names[0] not in self.valued:
            raise _UsageError(f"{names[0]} takes no value")
        self._take_value(names[0], bool(equals), rest)
        return names[0]

    def _parse_short(self, argument: str, rest: list[str]) -> list[str]:
        found = []
        for index, letter in enumerate(argument[1:], 2):
            name = self.options.get(f"-{letter}")
            if name is None:
                raise _UsageError(f"no option {quote(f'-{letter}')}", hint=DASHES_HINT)
            found.append(name)
            if name in self.valued:
                self._take_value(name, bool(argument[index:]), rest)
                break
        return found

    def _take_value(self, name: str, is_attached: bool, rest: list[str]) -> None:
        if name in self.valued and not is_attached:
            if not rest:
                raise _UsageError(f"{name} needs a value")
            rest.pop(0)


def _get_section(text: str, title: str) -> list[str]:
    block = text.partition(f"\n{title}\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def _check_words(command: str, line: str, given: Sequence[str]) -> None:
    """Raise `_UsageError` if the words after `command` do not match its `line`: a choice, then single words."""
    choices = re.findall(r"\(([\w |]+)\)", line)
    if choices:
        allowed = choices[0].split(" | ")
        if not given:
            raise _UsageError(f"{command} needs {_join(allowed, 'or')}")
        if given[0] not in allowed:
            raise _UsageError(f"{command}: unexpected {quote(given[0])}", given[0], allowed)
        given = given[1:]
    names = re.findall(r"(?<!=)(\[?<\w+>(?:\.\.\.)?\]?)", line)
    needed = [name.removesuffix("...") for name in names if name[0] == "<"]
    if len(given) < len(needed):
        raise _UsageError(f"{command} needs {' and '.join(needed[len(given) :])}")
    if len(given) > len(names) and not any("..." in name for name in names):
        hint = QUOTES_HINT if "<SCHEDULE>" in names else ""
        raise _UsageError(f"{command}: unexpected {quote(given[len(names)])}{hint}")


def _check_alternatives(command: str, line: str, given: Sequence[str], options: Sequence[str]) -> None:
    """Raise `_UsageError` if not exactly one is given of what stands in parentheses: ids, or one of some options."""
    group = re.search(r"\((<[^()]*--[^()]*)\)", line)
    if group is None:
        return
    names = group[1].split(" | ")
    chosen = [name for name in names if any(name.startswith(option) for option in options)]
    if given and not any("<PATTERN>" in name for name in chosen):
        chosen = names[:1] + chosen
    if not chosen:
        raise _UsageError(f"{command} needs {_join(names, 'or')}")
    if len(chosen) > 1:
        raise _UsageError(f"{command} takes only one of {_join(chosen, 'and')}")


def _join(names: Iterable[str], conjunction: str) -> str:
    *first, last = names
    return f"{', '.join(first)} {conjunction} {last}"
