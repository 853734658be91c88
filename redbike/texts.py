"""What exceptions say, as text that is bounded in size, that can be written anywhere, and whose making never fails.

The exceptions are the user's own: a message may be of any size, have half a character in it, or raise when it is made.
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
