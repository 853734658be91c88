"""Text from outside, so that it can be shown: what exceptions say, and what commands print.

The exceptions are the user's own. A message may be of any size, contain half a character, or raise when it is made.
Here it becomes text of limited size that can be written anywhere, and making that never fails.
"""

import traceback

MOST_SAID = 2000  # characters of a message, or of one entry of a traceback
MOST_TRACED = 64 * 1024  # characters of a traceback


def describe(error: BaseException) -> str:
    """One line for an exception: its type and what it says."""
    said = message_of(error)
    return f"{_name(error)}: {said}" if said else _name(error)


def message_of(error: BaseException) -> str:
    """What an exception says, in one line."""
    try:
        said = str(error)
        return clip(" ".join(said[: MOST_SAID + 1].split()))
    except BaseException as another:
        return f"(its message cannot be shown: {_name(another)})"


def trace_of(error: BaseException) -> str:
    """The traceback of an exception."""
    try:
        return "".join(map(clip, traceback.format_exception(error)))[-MOST_TRACED:]
    except BaseException as another:
        return f"(its traceback cannot be shown: {_name(another)})\n"


def clip(text: str) -> str:
    """Return `text` if it is short, else its beginning; half a character is spelled out."""
    if len(text) > MOST_SAID:
        text = f"{text[:MOST_SAID]}…" + "\n" * text.endswith("\n")
    return text.encode(errors="backslashreplace").decode()


def _name(error: BaseException) -> str:
    return clip(str(type.__getattribute__(type(error), "__name__")))


def harmless(output: bytes) -> str:
    """`output` as text in which whatever could steer a terminal, or is not UTF-8, is spelled out."""
    text = output.decode(errors="backslashreplace")
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in text
    )


def harmless_lines(output: bytes) -> list[str]:
    """The lines of `output` without blank ones."""
    return [harmless(line.rstrip(b"\r")) for line in output.split(b"\n") if line.strip()]
