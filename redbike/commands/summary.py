"""Summarize a command line for people who may see jobs: its programs, the names of its options, and its paths.

A command line may contain a password, and its file may be readable by one user alone. Nobody can tell a password from
another word. So the summary keeps only words that are no secret by their form, and hides all others.
"""

import re
import shlex
from collections.abc import Iterable, Iterator

from redbike.commands.file import Command

HIDDEN = "…"
MOST = 160  # characters of one command
MOST_TOGETHER = 8000  # characters of all, with their names

PROGRAM = re.compile(r"[A-Za-z0-9_./+-]{1,80}", re.ASCII)
PATH = re.compile(r"(?:/|\./|\.\./|~/)[A-Za-z0-9_./*?-]*|\.\.?", re.ASCII)
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash"}
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
LONG_OPTION = re.compile(r"(--[A-Za-z][a-z-]*)(=.*)?", re.ASCII | re.DOTALL)
SHORT_OPTION = re.compile(r"(-[A-Za-z])(.*)", re.ASCII | re.DOTALL)
OPERATOR = re.compile(r"[();<>|&]+")
STARTER = re.compile(r"[(;|&]+")  # operators that a program follows; not a redirection such as >&
# What could make a part of a text look like an operator.
UNCLEAR = re.compile(r"\\|(?:^|[\s;&|()])#|'[^']*[();<>|&][^']*'|\"[^\"]*[();<>|&][^\"]*\"|\$'|`")


def summarize_all(commands: Iterable[Command]) -> dict[str, str]:
    """Return the summaries of the first commands by name, with at most `MOST_TOGETHER` characters in all."""
    found: dict[str, str] = {}
    size = 0
    for command in commands:
        text = summarize(command)
        size += len(command.name) + len(text)
        if size > MOST_TOGETHER:
            break
        found[command.name] = text
    return found


def summarize(command: Command) -> str:
    """Return the summary of a command, in one line of at most `MOST` characters."""
    argv = [word.decode(errors="replace") for word in command.argv]
    by_shell = len(argv) == 3 and argv[1] == "-c" and argv[0].rpartition("/")[2] in SHELLS
    kept: list[str] = []
    for word in _hide(_split(argv[2]) if by_shell else argv, by_shell):
        if word != HIDDEN or kept[-1:] != [HIDDEN]:
            kept.append(word)
    text = re.sub(r"\b(\d) (>[>&]?|<) ", r"\1\2", " ".join(kept)).replace(" ;", ";")
    return text if len(text) <= MOST else f"{text[: MOST - 1]}{HIDDEN}"


def _split(line: str) -> list[str]:
    """Return the words and operators of a line of a shell; only its first word if the others are not clear."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        return [*line.split()[:1], HIDDEN] if UNCLEAR.search(line) else list(words)
    except ValueError:
        return [*line.split()[:1], HIDDEN]


def _hide(words: Iterable[str], by_shell: bool) -> Iterator[str]:
    begins = True  # a program comes next
    after_option = False  # the next word may be its value, and a secret that looks like a path
    for word in words:
        if by_shell and OPERATOR.fullmatch(word):
            begins, after_option = STARTER.fullmatch(word) is not None, False
            yield word
        elif begins and (found := ASSIGNMENT.match(word)):
            yield found[0] + HIDDEN
        elif begins:
            begins = False
            yield word if PROGRAM.fullmatch(word) else HIDDEN
        else:
            is_option = word.startswith("-")
            yield HIDDEN if after_option and not is_option else _hide_word(word)
            after_option = is_option


def _hide_word(word: str) -> str:
    if PATH.fullmatch(word) or (len(word) == 1 and word in "0123456789[]{}-!"):
        return word
    for option in (LONG_OPTION, SHORT_OPTION):
        if found := option.fullmatch(word):
            return found[1] + ("" if not found[2] else f"={HIDDEN}" if found[2].startswith("=") else HIDDEN)
    return HIDDEN
