"""Parse the lines of a crontab as Debian's cron does. The source is crontab(5), or else the behaviour of cron.

A line sets a variable, or runs a command, or is a comment. A variable applies to the commands below it.

Cron ignores the rest of an item after the part that it understands: it reads ``5#2`` as ``5``, and ``1-5-7`` as
``1-5``. In Redbike, such an item means something else, or is invalid. So each field is rebuilt from what cron reads.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from redbike.schedule.cron_fields import ALIASES, Field
from redbike.schedule.cron_fields import FIELDS as SCHEDULE_FIELDS

MAX_COMMAND = 998  # bytes: cron refuses a longer one
MAX_VARIABLE = 997  # bytes: cron reads only the beginning of a longer line
BLANKS = " \t"
# Cron only asks the system for the user, so accounts of a domain are valid. No system allows these characters in the
# name of a user. A backslash at the end would break the systemd unit. A script or an assignment is not a user either.
USER = re.compile(r"""(?!-)[^\s:/*()`;|&<>'"=]{1,64}(?<!\\)(?<!\.sh)(?<!\.py)""")
SPLIT = re.compile(r"[ \t]+")
# A line that cron reads as ``NAME = value``. The name and the value may be in quotes, which must match.
VARIABLE = re.compile(
    r"""(?:(?P<quote>['"])(?P<quoted>(?:(?!(?P=quote))[^=])*)(?P=quote)|(?!['"])(?P<name>[^\s=]*))\s*=\s*"""
    r"""(?:(?P<mark>['"])(?P<text>(?:(?!(?P=mark)).)*)(?P=mark)\s*|(?P<value>[^\s'"].*))""",
    re.ASCII | re.DOTALL,
)
# The fields of a schedule, with the names that cron uses for them. Cron does not accept 8 as Monday.
FIELDS = [each._replace(name=each.name.replace(" ", "-")) for each in SCHEDULE_FIELDS[:5]]
FIELDS[4] = FIELDS[4]._replace(high=7)
ITEM = re.compile(r"(\*|[0-9a-z]+(?:-[0-9a-z]+)?)(/[0-9a-z]*)?", re.ASCII | re.IGNORECASE)


class BadTime(ValueError):
    """Cron refuses the time, or it never comes. The message has cron's own words if there are some."""


class BadUser(BadTime):
    """The word in the column for the user cannot be the name of a user."""


def read_schedule(texts: list[str]) -> str:
    """Return the schedule that cron reads in five fields, or in a word such as ``@daily``. Raise `BadTime`."""
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
            # The items before this star are left out. A star at the beginning of a field changes its meaning.
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
    """Return the value of a name or a number. Return -1, which no field allows, for any other word."""
    if word.lower() in field.names:
        return field.low + field.names.index(word.lower())
    return int(word[:9]) if word.isdecimal() else -1


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, or an empty line. `text` is unchanged, with its ``#``; "" for an empty line."""

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
    """A line that runs a command. Cron passes `command`, `input` and `variables` to the shell.

    `time` is the text in the line; `schedule` is how cron reads this text.
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
    """A line that is not imported, and the reason.

    `is_wrong` tells whether somebody must change the line: cron refuses it, or a file of commands cannot contain its
    command. `names_user` is false if its column for the user cannot be a user.
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
            # A new dict, because each entry keeps the variables that hold at its line.
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
    """Return the name and the value that a line sets; None if the line sets no variable."""
    found = VARIABLE.fullmatch(line)
    if found is None:
        return None
    name = found["quoted"] if found["name"] is None else found["name"]
    value = found["text"] if found["value"] is None else found["value"]
    value = value.rstrip(" \t\n\v\f\r")
    # Cron removes a second pair of quotes. It also removes blanks at the end, even if they are in quotes.
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
    """Return why an INI file cannot contain a command and its input unchanged; None if it can."""
    text = command.strip(BLANKS)
    if not is_unicode(text + data) or "\0" in text + data:
        return "it is not UTF-8, or has a NUL in it"
    if text.endswith("\r"):
        return "it ends in a carriage return, which cron gives to the shell: save the file with the line ends of Unix"
    # A shell ignores a blank at the end, unless a backslash is before it.
    if not is_plain(text) or (text.endswith("\\") and command.endswith(tuple(BLANKS))):
        return "a line of an INI file cannot have such a command: put it into a script"
    return None


def is_plain(text: str) -> bool:
    """Tell whether an INI file can contain `text` as a value without quotes."""
    return text == text.strip() and len(text.splitlines()) <= 1 and is_unicode(text)


def is_unicode(text: str) -> bool:
    """Tell whether `text` was valid UTF-8 in the file."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


def split_input(text: str) -> tuple[str, str]:
    """Split the end of a line as cron does; return the command and its standard input.

    The input begins after the first ``%``, and each further ``%`` is a line end. A backslash before ``%`` is removed.
    In the command, a backslash before a backslash is removed too.
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
    # Cron adds a line end to the last line. In this check, it ignores backslashes at the end.
    last = found.rstrip("\\")
    return found if not last or last.endswith("\n") else f"{found}\n"
