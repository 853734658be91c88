"""Parse the usage text, which alone defines the commands, the options of each, and their descriptions."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

# The parser of docopt for command lines, which types-docopt does not declare.
from docopt import Argument, DocoptExit, Tokens, parse_argv  # type: ignore[attr-defined]
from docopt import Option as ParsedOption  # type: ignore[attr-defined]

GENERAL = ("--config", "--url")  # options of every command
OR = " | "  # separates words, or options, of which exactly one is needed
DASHES_HINT = "; put -- before an id that begins with a dash"
COMMAND_HINT = "; put -- before the command"


class UsageError(Exception):
    """A command line that does not match the usage.

    In `message`, {} stands for `word`, which may be a secret. The error suggests a name in `known` that is similar to
    `word`, or else prints `hint`.
    """

    def __init__(self, message: str, word: str = "", known: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message, self.word, self.known, self.hint = message, word, known, hint


class Option(NamedTuple):
    """An option: its spelling in the usage, such as ``-a --after=<TIMESTAMP>``, and its description."""

    spelling: str
    text: str

    @property
    def names(self) -> list[str]:
        """The short name, if there is one, and the long name."""
        return [name.partition("=")[0] for name in self.spelling.split()]

    @property
    def has_value(self) -> bool:
        """Whether the option takes a value."""
        return "=" in self.spelling


class Line(NamedTuple):
    """A command line as docopt splits it. It may not match the usage."""

    words: list[str]  # without options, and without --
    options: list[tuple[str, Any]]  # long names and values
    is_literal: bool  # whether there is a --, after which there are no options


class Usage:
    """A parsed usage text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = self._read_lines()
        self.summaries = dict(self._read_table("Commands:"))
        self.words = dict(self._read_table("Words:"))
        self.options = {option.names[-1]: option for option in map(Option._make, self._read_table("Options:"))}

    def _read_lines(self) -> dict[str, str]:
        """Return the line of each command, with all its forms."""
        lines: dict[str, str] = {}
        for form in split_forms(" ".join(map(str.strip, self._get_section("Usage:")))):
            if found := re.match(r"redbike (?:\[options\] )?(\w+)", form):
                lines[found[1]] = f"{lines.get(found[1], '')} {form}".strip()
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

    def read(self, arguments: Sequence[str]) -> Line:
        """Return the parts of a command line. Raise `UsageError` for a missing or unexpected value of an option."""
        command = next((word for word in arguments if word in self.lines), "")
        own = (self.get_option(name, command) for name in self.options)
        options = [ParsedOption(*[None, *each.names][-2:], each.has_value) for each in own]
        try:
            parsed = parse_argv(Tokens(list(arguments)), options)
        except DocoptExit as error:
            # docopt has added unknown options before the error to `options`. Report an unknown option first.
            self._check_names((option.name for option in options), command)
            name, verb, *_ = str(error).split()
            ending = "needs a value" if verb == "requires" else "takes no value"
            raise UsageError(f"{self.find_option(name)} {ending}") from None
        words = [each.value for each in parsed if isinstance(each, Argument)]
        is_literal = "--" in words
        if is_literal:
            words.remove("--")
        return Line(words, [(each.name, each.value) for each in parsed if isinstance(each, ParsedOption)], is_literal)

    def get_option(self, name: str, command: str) -> Option:
        """Return an option as `command` takes it: with the value that its line has, or without one."""
        option, found = self.options[name], re.search(rf"{name}(?![\w-])(=<[^>]+>)?", self.lines.get(command, ""))
        if found is None:
            return option
        return option._replace(spelling=option.spelling.partition("=")[0] + (found[1] or ""))

    def split(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words among `arguments`, and the long names of the options. Raise `UsageError`."""
        line = self.read(arguments)
        names = [name for name, _ in line.options]
        self._check_names(names, line.words[0] if line.words else "")
        return line.words, names

    def _check_names(self, names: Iterable[str], command: str) -> None:
        """Raise `UsageError` for the first unknown option. The error suggests options of the command."""
        takes = self.lines.get(command, "<JOBID>")
        hint = COMMAND_HINT if "<PROGRAM>" in takes else DASHES_HINT if re.search("<JOBID>|<PATTERN>", takes) else ""
        for name in names:
            if name not in self.options:
                known = self.get_options(command) if command in self.lines else [*self.options]
                raise UsageError("no option {}", name, known if name[:2] == "--" else [], hint)

    def find_option(self, name: str) -> str:
        """Return the long name of an option from its short or long name; "" if it is unknown."""
        return next((long for long, option in self.options.items() if name in option.names), "")

    def find_command(self, words: Sequence[str]) -> str:
        """Return the command, which is the first word. Raise `UsageError` if it is missing or unknown."""
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
        """Return the part of the usage for `command`. docopt parses this faster than the whole text."""
        options = [f"  {self.get_option(name, command).spelling}" for name in self.get_options(command)]
        return "\n".join(["Usage:", f"  {self.lines[command]}", "", "Options:", *options])


def split_forms(text: str) -> list[str]:
    """Return the forms in a usage; a command may have several."""
    return re.split(" (?=redbike )", text)


def list_words(line: str) -> list[str]:
    """Return the words that may follow a command, as in the `line` of its usage: ``<JOBID>``, ``[<CSV>]``.

    If the command needs one of several fixed words, these come first, as one text with `OR`: ``start | stop``.
    """
    found = re.search(r"\(([\w |]+)\)", line)
    # A command with several forms has a different first word in each form.
    choice = found[1] if found else OR.join(re.findall(r"redbike \[options\] [\w-]+ (\w+) ", line))
    return [choice] * bool(choice) + re.findall(r"(?<!=)(\[?<\w+>(?:\.\.\.)?\]?)", line)
