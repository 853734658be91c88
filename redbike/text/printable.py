"""Make text from outside safe to print: the messages of exceptions, and the output of commands.

The exceptions are the user's own. A message may have any size, contain half of a surrogate pair, or raise when it is
formatted. The functions here return text of limited size that can be written anywhere, and they never fail.
"""

import os
import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_MESSAGE = 2000  # characters of a message, or of one entry of a traceback
MAX_TRACEBACK = 64 * 1024  # characters of a traceback
MAX_HOST = 40  # characters
# C0, DEL and C1: characters that would break a line of CSV or log, or steer a terminal.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def describe(error: BaseException) -> str:
    """Return the type and the message of an exception, in one line."""
    message = get_message(error)
    return f"{_get_name(error)}: {message}" if message else _get_name(error)


def get_message(error: BaseException) -> str:
    """Return the message of an exception, in one line."""
    try:
        message = str(error)
        return clip(" ".join(message[: MAX_MESSAGE + 1].split()))
    except BaseException as another:
        return f"(its message cannot be shown: {_get_name(another)})"


def format_traceback(error: BaseException) -> str:
    """Return the traceback of an exception; of a long one, its end."""
    try:
        return "".join(map(clip, traceback.format_exception(error)))[-MAX_TRACEBACK:]
    except BaseException as another:
        return f"(its traceback cannot be shown: {_get_name(another)})\n"


def clip(text: str) -> str:
    """Return `text`, cut after `MAX_MESSAGE` characters; half of a surrogate pair becomes an escape."""
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]}…" + "\n" * text.endswith("\n")
    return text.encode(errors="backslashreplace").decode()


def quote(value: object) -> str:
    """Return the first 80 characters of what Python writes for `value`, for a message."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        # Python writes no integer of more than 4,300 digits, except in hexadecimal.
        return f"{value:#x}"[:80]


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the `known` word most similar to `word`; "" if none is similar."""
    similar = get_close_matches(word, known, 1)
    return f"; is {similar[0]!r} meant?" if similar else ""


def name_number(number: float, noun: str) -> str:
    """Return how many there are of something: ``1 job``, ``1,200 jobs``."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def cut(names: Sequence[str], most: int) -> list[str]:
    """Return the first `most` names; if there are more, a last entry says how many."""
    return [*names[:most], f"{len(names) - most:,} more"] if len(names) > most else [*names]


def name_some(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def format_size(size: float) -> str:
    """Return a number of bytes as a text in MiB."""
    return f"{size / 2**20:,.1f} MiB"


def _get_name(error: BaseException) -> str:
    return clip(str(type.__getattribute__(type(error), "__name__")))


def escape(output: bytes) -> str:
    """Return `output` as text; escape bytes that are not UTF-8, and characters that could control a terminal."""
    text = output.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in text
    )


def escape_lines(output: bytes) -> list[str]:
    """Return the lines of `output` that are not blank, each by `escape`."""
    return [escape(line.rstrip(b"\r")) for line in output.split(b"\n") if line.strip()]


def name_host() -> str:
    """Return the name of this host, without blanks, of limited length."""
    return re.sub(r"[^!-~]", "_", os.uname().nodename)[:MAX_HOST] or "_"
