"""Read the usage text: the commands, the options of each, and what is said of them. Each is defined there only once."""

import re
from collections.abc import Sequence
from typing import NamedTuple

GENERAL = ("--config", "--url")  # what every command takes
DASHES_HINT = "; an id that begins with a dash stands after --"
_NAME = re.compile(r"(?<![\w-])--?\w[\w-]*")


class UsageError(Exception):
    """A command line that does not match the usage.

    In `message`, {} stands for `word`, which may be a secret. If one of `known` is similar to it, that is meant;
    otherwise `hint` helps.
    """

    def __init__(self, message: str, word: str = "", known: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message, self.word, self.known, self.hint = message, word, known, hint


class Option(NamedTuple):
    """An option: how the usage spells it, such as ``-a --after=<TIMESTAMP>``, and what it says of it."""

    spelling: str
    text: str

    @property
    def names(self) -> list[str]:
        """Its short name, if it has one, and its long one."""
        return _NAME.findall(self.spelling)

    @property
    def has_value(self) -> bool:
        """Whether it takes a value."""
        return "=" in self.spelling


class Usage:
    """A parsed usage text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = self._read_lines()
        self.summaries = dict(self._read_table("Commands:"))
        self.words = dict(self._read_table("Words:"))
        self.options = {option.names[-1]: option for option in map(Option._make, self._read_table("Options:"))}

    def _read_lines(self) -> dict[str, str]:
        """Return the line of each command; a long one goes on in further lines."""
        lines: dict[str, str] = {}
        command = ""
        for line in self._get_section("Usage:"):
            if line.startswith("  redbike "):
                found = re.match(r"  redbike (?:\[options\] )?(\w[\w-]*)", line)
                command = found[1] if found else ""
            if command:
                lines[command] = f"{lines.get(command, '')} {line.strip()}".strip()
        return lines

    def _read_table(self, title: str) -> list[tuple[str, str]]:
        """Return the rows of a section: a name, two blanks, and a text that may go on in further lines."""
        rows: list[tuple[str, str]] = []
        for line in self._get_section(title):
            if line.startswith("   "):
                name, text = rows.pop()
                rows.append((name, f"{text} {line.strip()}"))
            else:
                name, _, text = line.strip().partition("  ")
                rows.append((name, text.strip()))
        return rows

    def _get_section(self, title: str) -> list[str]:
        return self.text.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()

    def split(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words among `arguments`, and the long names of the options. Raise `UsageError`."""
        words: list[str] = []
        options: list[str] = []
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                return words + rest, options
            if argument.startswith("--"):
                options.append(self._parse_long(argument, rest))
            elif argument.startswith("-") and argument != "-" and not _is_number(argument):
                options += self._parse_short(argument, rest)
            else:
                words.append(argument)
        return words, options

    def find_command(self, words: Sequence[str]) -> str:
        """Return the command: the first word. Raise `UsageError` if there is none, or an unknown one."""
        if not words:
            raise UsageError("a command is needed")
        if words[0] not in self.lines:
            *first, last = self.lines
            hint = f"; the commands are {', '.join(first)} and {last}"
            raise UsageError("no command {}", words[0], [*self.lines], hint)
        return words[0]

    def get_options(self, command: str) -> list[str]:
        """Return the long names of the options that `command` takes; the general ones come last."""
        line = self.lines[command]
        own = [name for name in self.options if re.search(rf"{name}(?![\w-])", line)]
        return own + [name for name in GENERAL if "[options]" in line]

    def reduce(self, command: str) -> str:
        """Return the part of the usage that is about `command`, for docopt, which takes longer for longer texts."""
        options = [f"  {self.options[name].spelling}" for name in self.get_options(command)]
        return "\n".join(["Usage:", f"  {self.lines[command]}", "", "Options:", *options])

    def _parse_long(self, argument: str, rest: list[str]) -> str:
        given, equals, _ = argument.partition("=")
        names = [name for name in self.options if name == given] or [
            name for name in self.options if name.startswith(given)
        ]
        if len(names) != 1:
            raise UsageError("no option {}", given, [*self.options], DASHES_HINT)
        if equals and not self.options[names[0]].has_value:
            raise UsageError(f"{names[0]} takes no value")
        self._take_value(names[0], bool(equals), rest)
        return names[0]

    def _parse_short(self, argument: str, rest: list[str]) -> list[str]:
        found = []
        for index, letter in enumerate(argument[1:], 2):
            name = next((name for name, option in self.options.items() if f"-{letter}" in option.names), None)
            if name is None:
                raise UsageError("no option {}", f"-{letter}", hint=DASHES_HINT)
            found.append(name)
            if self.options[name].has_value:
                self._take_value(name, bool(argument[index:]), rest)
                break
        return found

    def _take_value(self, name: str, is_attached: bool, rest: list[str]) -> None:
        if self.options[name].has_value and not is_attached:
            if not rest:
                raise UsageError(f"{name} needs a value")
            rest.pop(0)


def list_choices(line: str) -> list[str]:
    """Return the words of which a command needs one, by the `line` of its usage; none if it needs no such word."""
    if found := re.search(r"\(([\w |]+)\)", line):
        return found[1].split(" | ")
    # A command with several forms has a word of its own in each.
    return re.findall(r"redbike \[options\] [\w-]+ (\w+) ", line)


def list_words(line: str) -> list[str]:
    """Return the words that may follow a command, as the `line` of its usage has them: ``<JOBID>``, ``[<CSV>]``."""
    return re.findall(r"(?<!=)(\[?<\w+>(?:\.\.\.)?\]?)", line)


def _is_number(argument: str) -> bool:
    """Return True for what begins with a dash, but is no option for docopt."""
    try:
        float(argument)
    except ValueError:
        return False
    return True
