"""Read the values of the keys in a file of commands. Raise `BadConfig` for an invalid value, in one line."""

import re
import shlex
import signal
from collections.abc import Mapping

from redbike.config.definitions import MAX_SECONDS, OPTIONS, read_choice, read_number
from redbike.config.file import OF_RUN
from redbike.errors import BadConfig

MAX_STATUS = 255
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "ABRT", "KILL")  # those that programs end by

STATUSES = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A word of a command line, with its quotes and backslashes.
RAW_WORD = re.compile(r"""(?:[^ \t\r\n'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+""", re.DOTALL)
REDIRECTION = re.compile(r"[\d&]?>>?(?!=)|<$", re.ASCII)
CONTROL = ("|", "||", "&", "&&", ";")
# After one of these, an operator is for a shell elsewhere, or ends the words of another command.
READERS = {"ssh", "parallel", "watch", "-exec", "-execdir", "-ok", "-okdir"}


def parse_statuses(key: str, text: str) -> frozenset[int]:
    """Return the exit statuses of a text such as ``0 1 3-5``. Raise `BadConfig`."""
    found = set[int]()
    for word in text.replace(",", " ").split():
        match = STATUSES.fullmatch(word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= MAX_STATUS:
            break
        found.update(range(first, last + 1))
    else:
        if found:
            return frozenset(found)
    raise BadConfig(f"bad {key} {text!r:.80}: exit statuses from 0 to {MAX_STATUS} are needed, such as '0 1 3-5'")


def parse_signal(key: str, text: str) -> signal.Signals:
    """Return the signal of a name such as ``INT`` or ``SIGINT``. Raise `BadConfig`."""
    name = text.upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise BadConfig(f"bad {key} {text!r:.80}: {', '.join(SIGNALS)} are allowed")
    return signal.Signals[f"SIG{name}"]


def make_argv(line: str, shell: str | None) -> tuple[bytes, ...]:
    """Return the words to run: those of the line, or those that give the line to a shell. Raise `BadConfig`."""
    if shell is None:
        return split_command_line(line)
    if "/" not in shell:
        raise BadConfig(f"bad shell {shell!r:.80}: a path such as /bin/sh is needed")
    if not line:
        raise BadConfig("bad command line '': it is empty")
    return encode(shell), b"-c", encode(line)


def split_command_line(line: str) -> tuple[bytes, ...]:
    """Return the words of a command line; the first is the program. Raise `BadConfig`."""
    try:
        argv = shlex.split(line)
    except ValueError:
        what = "nothing follows its last backslash" if line.endswith("\\") else "a quotation mark is not closed"
        raise BadConfig(f"bad command line: {what}") from None
    if not argv or not argv[0]:
        raise BadConfig("bad command line: it names no program")
    return tuple(encode(word) for word in argv)


def find_operator(line: str) -> str:
    """Return the first operator of a shell, such as ``>``, among the words of a command line; "" if it has none.

    A word in quotes is no operator. Nor is the last word, unless it is ``&``: a shell would expect another word.
    """
    words = RAW_WORD.findall(line)
    for number, word in enumerate(words, 1):
        if word.rpartition("/")[2] in READERS:
            return ""
        redirection = REDIRECTION.match(word)
        operator: str = redirection[0] if redirection else word if word in CONTROL else ""
        if operator and (operator != word or number < len(words) or word == "&"):
            return operator
    return ""


def get_seconds(key: str, options: Mapping[str, str], least: float = 0) -> float | None:
    """Return the seconds of `key`, such as ``90`` or ``1h30m``; None if it is not given. Raise `BadConfig`."""
    return read_number(key, options[key], least, MAX_SECONDS, float) if key in options else None


def get_choice(key: str, options: Mapping[str, str]) -> str | None:
    """Return the value of `key`; None if it is not given.

    The setting of the same name has the allowed values. Raise `BadConfig` for another value.
    """
    return read_choice(key, options[key], OPTIONS[key].choices) if key in options else None


def parse_variable(key: str, value: str) -> tuple[bytes, bytes]:
    """Return the name and the value of an environment variable; `key` is ``env.NAME``. Raise `BadConfig`."""
    name = key.removeprefix("env.")
    if not VARIABLE.fullmatch(name):
        raise BadConfig(f"bad name of a variable {key!r:.80}: letters, digits and '_' are allowed")
    if name in OF_RUN:
        raise BadConfig(f"{key!r} cannot be set here: Redbike sets it for each job")
    return name.encode(), encode(value)


def get_path(key: str, options: Mapping[str, str]) -> str:
    """Return the value of `key`, which must name a file. Raise `BadConfig`."""
    if not options[key] or "\0" in options[key]:
        raise BadConfig(f"bad {key} {options[key]!r:.80}: the path of a file is needed")
    return options[key]


def encode(text: str) -> bytes:
    """Return `text` in UTF-8. Raise `BadConfig` for a NUL: the system would take that for the end of the text."""
    index = text.find("\0")
    if index >= 0:
        raise BadConfig(f"a NUL in {text[max(0, index - 40) : index + 40]!r}")
    return text.encode(errors="surrogateescape")
