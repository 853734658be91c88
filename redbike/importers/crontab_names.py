"""Name the jobs of a crontab after their commands, so that a line gets the same id at each import."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from redbike.importers.crontab_lines import Entry

MAX_LENGTH = 30  # characters of the words of a name
MAX_WORDS = 2
# Words that begin a condition or a preparation, and words that only change how a program runs.
GUARDS = {"test", "[", "[[", "cd", "command", "export", "if", "set", "sleep", "source", ".", ":", "true", "umask"}
WRAPPERS = {"then", "else", "do", "exec", "env", "nice", "ionice", "nohup", "sudo", "chronic", "setsid", "time", "!"}
PARTS = re.compile(r"&&|\|\||[;|&(){}\n]")
SUBSTITUTION = re.compile(r"\$\([^()]*\)")
QUOTED = re.compile(r""" "(?:[^"\\]|\\.)*" | '[^']*' """, re.VERBOSE | re.DOTALL)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
BEGINS = re.compile(r"[A-Za-z_/.~]", re.ASCII)
PLAIN = re.compile(r"[A-Za-z_./~][A-Za-z_./~:-]*|[\w.~-]*/[\w./~:-]*", re.ASCII)  # hardly a password
SPEAKS = {"echo", "printf"}  # their arguments may be a password, for the next program
OTHERS = re.compile(r"[^a-z0-9]+")


def name_entries(entries: Sequence[Entry]) -> dict[int, str]:
    """Return the name of each line that runs a command, by line number. The order of the lines changes no name.

    A name has up to `MAX_WORDS` words of the command, and a hash of its user, the command and its input. If several
    lines have the same name, each gets a second hash, which includes the schedule. Only equal lines are numbered.
    """
    plain = {entry.number: _make_name(entry) for entry in entries}
    often = Counter(plain.values())
    names: dict[int, str] = {}
    given: set[str] = set()
    for entry in entries:
        name = plain[entry.number]
        if often[name] > 1:
            name += f"-{make_hash(entry.user, entry.command, entry.input, entry.schedule)}"
        first, number = name, 1
        while name in given:
            number += 1
            name = f"{first}-{number}"
        given.add(name)
        names[entry.number] = name
    return names


def _make_name(entry: Entry) -> str:
    words = "-".join(_find_words(entry.command))[:MAX_LENGTH].strip("-") or "job"
    return f"{words}-{make_hash(entry.user, entry.command, entry.input)}"


def make_hash(*texts: str) -> str:
    """Return a hash of `texts`, as four hexadecimal digits."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()[:4]


def _find_words(command: str) -> list[str]:
    """Return the program of a command line and its first plain argument, as words of a name.

    Perhaps only one user can read a crontab, but everybody sees ids. So whatever may contain a password is left out:
    a word after an option, a quoted phrase, a word that has digits but is not a path, and a URL.
    """
    command = QUOTED.sub(_hide_phrase, SUBSTITUTION.sub("$", command))
    bare = (part.replace('"', " ").replace("'", " ").split() for part in PARTS.split(command))
    parts = [words for each in bare if (words := list(_skip_wrappers(each)))]
    best = next((words for words in parts if words[0] not in GUARDS), parts[0] if parts else [])
    plain = (OTHERS.sub("-", PurePosixPath(word).name.lower()).strip("-") for word in _list_plain(best))
    return [word for word in plain if word][:MAX_WORDS]


def _hide_phrase(quoted: re.Match[str]) -> str:
    """Return a quoted text, or ``$``, which is never shown, if it would be split into several words or commands."""
    return " $ " if PARTS.search(quoted[0]) or len(quoted[0].split()) > 1 else quoted[0]


def _list_plain(words: list[str]) -> Iterator[str]:
    for before, word in pairwise(["", *words]):
        is_value = before.startswith("-") and not (before.startswith("--") and word.startswith("/"))
        if not before:
            is_shown = BEGINS.match(word) is not None
        else:
            is_shown = bool(PLAIN.fullmatch(word)) and "://" not in word and not is_value and words[0] not in SPEAKS
        if is_shown:
            yield word


def _skip_wrappers(words: list[str]) -> Iterator[str]:
    has_begun = False
    wrapped = False
    for word in words:
        if not has_begun and (ASSIGNMENT.match(word) or word in WRAPPERS):
            wrapped = True
        elif not has_begun and wrapped and (word.startswith("-") or word.isdecimal()):
            continue
        else:
            has_begun = True
            yield word
