"""Read the file of variables of a command, ``env-file``, as systemd reads an ``EnvironmentFile``.

Nothing in it is evaluated. No message quotes a value: it may be secret.
"""

import logging
import os
import re
import stat

from redbike.config.file import OF_RUN
from redbike.errors import CommandFailed

log = logging.getLogger("redbike.commands")

MAX_SIZE = 256 * 1024  # bytes of a file

SKIPPED = re.compile(r"(?:\s+|[#;][^\n]*)+")
NAME = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*|\'([^\']*)\'[ \t]*', re.DOTALL)
PLAIN = re.compile(r"(?:[^\\\n]|\\.)*", re.DOTALL)
ESCAPED_IN_QUOTES = re.compile(r'\\(?:(["\\`$])|\n)')
ESCAPED = re.compile(r"\\(?:([^\n])|\n)")

_told: set[str] = set()  # the files that others may read, after a warning


def read_variables(path: str | None) -> dict[bytes, bytes]:
    """Return the variables of the file at `path`; none for None. Raise `CommandFailed`.

    Log a warning, once, if every user may read the file.
    """
    if path is None:
        return {}
    text, mode = _read(path)
    if mode & stat.S_IROTH and path not in _told:
        _told.add(path)
        log.warning("every user can read env-file %r: chmod o= prevents that", path)
    try:
        found = parse_variables(text)
    except ValueError as error:
        raise CommandFailed(f"bad env-file {path!r}: {error}") from None
    return {name.encode(): value.encode(errors="surrogateescape") for name, value in found.items()}


def find_problem(path: str) -> str:
    """Return what is wrong with the file at `path`; "" for nothing."""
    try:
        text, mode = _read(path)
        parse_variables(text)
    except CommandFailed as error:
        return str(error)
    except ValueError as error:
        return f"bad env-file {path!r}: {error}"
    return f"every user can read env-file {path!r}: chmod o= prevents that" if mode & stat.S_IROTH else ""


def _read(path: str) -> tuple[str, int]:
    """Return the text of a file, and its mode. Raise `CommandFailed`."""
    try:
        # Do not block: a pipe may have no writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise CommandFailed(f"cannot read env-file {path!r}: it is no file")
            text = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise CommandFailed(f"cannot read env-file {path!r}: {error.strerror}") from None
    if len(text) > MAX_SIZE:
        raise CommandFailed(f"cannot read env-file {path!r}: it has more than {MAX_SIZE} bytes")
    return text.decode("utf-8-sig", errors="surrogateescape").replace("\r\n", "\n"), mode


def parse_variables(text: str) -> dict[str, str]:
    """Return the variables of a text. Raise `ValueError`, with the number of the line."""
    found, position = dict[str, str](), 0
    while True:
        if skipped := SKIPPED.match(text, position):
            position = skipped.end()
        if position == len(text):
            return found
        number = text.count("\n", 0, position) + 1
        name = NAME.match(text, position)
        if name is None:
            raise ValueError(f"line {number}: NAME=VALUE is needed")
        if name[1] in OF_RUN:
            raise ValueError(f"line {number}: {name[1]!r} cannot be set here: Redbike sets it for each job")
        found[name[1]], position = _parse_value(text, name.end())
        if position < 0:
            raise ValueError(f"line {number}: a quote is not closed")
        if "\0" in found[name[1]]:
            raise ValueError(f"line {number}: a value contains a NUL byte")


def _parse_value(text: str, position: int) -> tuple[str, int]:
    """Return a value, and where it ends; -1 if a quote is not closed."""
    value = ""
    while quoted := QUOTED.match(text, position):
        value += quoted[2] if quoted[1] is None else ESCAPED_IN_QUOTES.sub(lambda each: each[1] or "", quoted[1])
        position = quoted.end()
    if text[position : position + 1] in ('"', "'") and text[position:]:
        return value, -1
    plain = PLAIN.match(text, position)
    assert plain is not None
    kept = plain[0].rstrip()
    if (len(kept) - len(kept.rstrip("\\"))) % 2:
        kept = plain[0][: len(kept) + 1]  # the first blank at the end belongs to a backslash
    return value + ESCAPED.sub(lambda each: each[1] or "", kept), plain.end()
