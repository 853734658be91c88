"""Read the lines of a crontab as Debian's cron does: crontab(5), and where that is silent, what cron itself does.

A line sets a variable, or runs a command, or is a comment. Variables hold for the commands below them.

Cron skips what follows an item that it has understood: for cron, ``5#2`` and ``1-5-7`` are ``5`` and ``1-5``. Redbike
knows more kinds of items, or refuses these. So each field is put together again from what cron has read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from redbike.schedule.cron_fields import ALIASES, Field
from redbike.schedule.cron_fields import FIELDS as SCHEDULE_FIELDS

MAX_COMMAND = 998  # bytes: cron refuses a longer one
MAX_VARIABLE = 997  # bytes: of a longer line, cron reads only the beginning
BLANKS = " \t"
# Cron only asks the system for the user, so accounts of a domain are valid. No system has a user with one of these
# characters in his name; a backslash at its end would break his unit of systemd. Nor is a script or an assignment one.
USER = re.compile(r"""(?!-)[^\s:/*()`;|&<>'"=]{1,64}(?<!\\)(?<!\.sh)(?<!\.py)""")
SPLIT = re.compile(r"[ \t]+")
# What cron takes for ``NAME = value``. Both may be in quotes, which must match.
VARIABLE = re.compile(
    r"""(?:(?P<quote>['"])(?P<quoted>(?:(?!(?P=quote))[^=])*)(?P=quote)|(?!['"])(?P<name>[^\s=]*))\s*=\s*"""
    r"""(?:(?P<mark>['"])(?P<text>(?:(?!(?P=mark)).)*)(?P=mark)\s*|(?P<value>[^\s'"].*))""",
    re.ASCII | re.DOTALL,
)
# The fields of a schedule, by cron's own words for them. Cron takes no 8 for Monday.
FIELDS = [each._replace(name=each.name.replace(" ", "-")) for each in SCHEDULE_FIELDS[:5]]
FIELDS[4] = FIELDS[4]._replace(high=7)
ITEM = re.compile(r"(\*|[0-9a-z]+(?:-[0-9a-z]+)?)(/[0-9a-z]*)?", re.ASCII | re.IGNORECASE)


class BadTime(ValueError):
    """A time that cron refuses, with cron's own words for it; or one that means no instant at all."""


class BadUser(BadTime):
    """What stands where the user should is no name of one."""


def read_schedule(texts: list[str]) -> str:
    """Return the schedule of five fields, or of a word such as ``@daily``. Raise `BadTime`."""
    if texts[0].startswith("@"):
        if texts[0] not in ALIASES:
            raise BadTime(f"cron refuses {texts[0]!r:.80}: bad time specifier")
        return texts[0]
    fields = [_read_field(text, field) for text, field in zip(texts, FIELDS, strict=False)]
    if len(fields) < len(FIELDS):
        raise BadTime(f"cron refuses it: it has no {FIELDS[len(fields)].name}")
    return " ".join(fields)


def _read_field(text: str, field: Field) -> str:
    items, position = list[str](), 0
    while True:
        found = ITEM.match(text, position)
        if found is None or (found[1].isalnum() and text[found.end() : found.end() + 1] == "-"):
            raise BadTime(f"cron refuses {text!r:.80}: bad {field.name}")
        if not _is_empty(found[1], found[2], text, field):
            # If an item before it is left out, a star would begin the field, which changes what the field means.
            is_first = found[1] == "*" and position and not items
            items.append(f"{field.low}-{field.high}{found[2] or ''}" if is_first else found[0])
        position = found.end() + 1
        if text[found.end() : position] != ",":
            break
    if not items:
        raise BadTime(f"cron never runs it: no {field.name} is in {text!r:.80}")
    return ",".join(items)


def _is_empty(values: str, step: str | None, text: str, field: Field) -> bool:
    """Tell whether an item is a range that ends before it begins, such as ``22-2``. Raise `BadTime`."""
    numbers = [] if values == "*" else [_read_value(word, field) for word in values.split("-")]
    is_bad_step = step is not None and (len(numbers) == 1 or not step[1:].isdecimal() or not int(step[1:]))
    if is_bad_step or any(not field.low <= number <= field.high for number in numbers):
        raise BadTime(f"cron refuses {text!r:.80}: bad {field.name}")
    return len(numbers) == 2 and numbers[0] > numbers[1]


def _read_value(word: str, field: Field) -> int:
    """Return the value of a name or a number; -1, which no field has, for any other word."""
    if word.lower() in field.names:
        return field.low + field.names.index(word.lower())
    return int(word[:9]) if word.isdecimal() else -1


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as it is, with its ``#``, or "" for an empty line."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A line that sets a variable for the commands below it."""

    number: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A line that runs a command. Its command, its input and its variables are what cron gives to the shell.

    `time` is what the line has; `schedule` is what cron reads there.
    """

    number: int
    time: str
    schedule: str
    user: str  # "" if the lines have no column for it
    command: str
    input: str = ""
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that becomes no job, and why.

    `is_wrong` tells whether it must be changed: cron refuses it, or runs a command that no file of commands can have.
    `names_user` tells whether it may name one, if it should.
    """

    number: int
    text: str
    reason: str
    is_wrong: bool = True
    names_user: bool = True


Line = Comment | Variable | Entry | Refused


def read_lines(text: str, has_users: bool = False) -> Iterator[Line]:
    """Yield the lines of a crontab, numbered from 1. `has_users` tells whether they have a column for the user."""
    variables: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        read = _read_line(number, line.lstrip(BLANKS), has_users, variables)
        if isinstance(read, Variable):
            # A new one, as entries have those of their line.
            variables = {**variables, read.name: read.value}
        yield read


def _read_line(number: int, line: str, has_users: bool, variables: dict[str, str]) -> Line:
    if not line or line.startswith("#"):
        return Comment(number, line.rstrip())
    if _count_bytes(line) > MAX_VARIABLE and VARIABLE.fullmatch(line):
        return Refused(number, line, f"cron cuts it off: a variable may have {MAX_VARIABLE} bytes")
    if found := read_variable(line):
        return Variable(number, *found)
    try:
        return _read_entry(number, line, has_users, variables)
    except BadTime as error:
        return Refused(number, line, str(error), names_user=not isinstance(error, BadUser))


def read_variable(line: str) -> tuple[str, str] | None:
    """Return the name and the value that a line sets; None for a line that sets none."""
    found = VARIABLE.fullmatch(line)
    if found is None:
        return None
    name = found["quoted"] if found["name"] is None else found["name"]
    value = found["text"] if found["value"] is None else found["value"]
    value = value.rstrip(" \t\n\v\f\r")
    # Cron takes away a second pair of quotes, and blanks at the end, also if they are in quotes.
    if len(value) >= 2 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    return name, value


def _read_entry(number: int, line: str, has_users: bool, variables: dict[str, str]) -> Line:
    size = 1 if line.startswith("@") else 5
    words = SPLIT.split(line, size)
    if words[0] == "@reboot":
        why = "cron runs it when the machine starts, which is no time: it needs a systemd unit"
        return Refused(number, line, why, is_wrong=False)
    time, schedule = " ".join(words[:size]), read_schedule(words[:size])
    rest = words[size] if len(words) > size else ""
    user, command = _split_user(rest) if has_users else ("", rest)
    if not has_users and command.startswith("*"):
        raise BadTime("cron refuses it: bad command, one that begins with '*'")
    if _count_bytes(command) > MAX_COMMAND:
        raise BadTime(f"cron refuses it: a command may have {MAX_COMMAND} bytes")
    command, data = split_input(command)
    if not command.strip(BLANKS):
        return Refused(number, line, "there is no command to run", is_wrong=False)
    if reason := _find_obstacle(command, data):
        return Refused(number, line, reason)
    return Entry(number, time, schedule, user, command.strip(BLANKS), data, variables)


def _split_user(rest: str) -> tuple[str, str]:
    user, *command = SPLIT.split(rest, 1)
    if not command:
        raise BadTime("cron refuses it: in this style, a user and a command follow the time")
    if not USER.fullmatch(user) or not user.isprintable():
        raise BadUser(f"cron refuses it: {user!r:.80} cannot be a user")
    return user, command[0]


def _find_obstacle(command: str, data: str) -> str | None:
    """Return why a command and its input cannot be kept as they are in an INI file; None if they can."""
    text = command.strip(BLANKS)
    if not is_unicode(text + data) or "\0" in text + data:
        return "it is not UTF-8, or has a NUL in it"
    if text.endswith("\r"):
        return "it ends in a carriage return, which cron gives to the shell: save the file with the line ends of Unix"
    # A blank at the end means nothing to a shell, unless a backslash is before it.
    if not is_plain(text) or (text.endswith("\\") and command.endswith(tuple(BLANKS))):
        return "a line of an INI file cannot have such a command: put it into a script"
    return None


def is_plain(text: str) -> bool:
    """Tell whether an INI file can have `text` as a value, without quotes."""
    return text == text.strip() and len(text.splitlines()) <= 1 and is_unicode(text)


def is_unicode(text: str) -> bool:
    """Tell whether the file had `text` in UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


def split_input(text: str) -> tuple[str, str]:
    """Return the command and its standard input, as cron makes them of the end of a line.

    The input begins after the first ``%``, and each further one is a line end. A backslash before ``%`` is removed. In
    the command, so is one before a backslash.
    """
    command: list[str] = []
    is_escaped = False
    for position, char in enumerate(text):
        if is_escaped and char in "%\\":
            command[-1] = char
        elif char == "%":
            return "".join(command), _read_input(text[position + 1 :])
        else:
            command.append(char)
        is_escaped = char == "\\" and not is_escaped
    return "".join(command), ""


def _read_input(text: str) -> str:
    found = re.sub(r"\\%|%|[^%]", lambda part: {"\\%": "%", "%": "\n"}.get(part[0], part[0]), text)
    # Cron ends the last line, but it does not look at backslashes there.
    last = found.rstrip("\\")
    return found if not last or last.endswith("\n") else f"{found}\n"
