"""Complete command lines. A short script for each shell calls this module, which finds in the usage what may follow.

So all shells get the same answer, and it matches the installed version. Job ids and names of queues come from the
server, if it answers in time. They may contain any characters: the scripts quote them, and evaluate nothing.
"""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from textwrap import shorten

from redbike.cli.arguments import Arguments
from redbike.cli.messages import DONE
from redbike.cli.rows import FORMATS
from redbike.cli.shells import SCRIPTS
from redbike.cli.usage import GENERAL, OR, Line, Option, Usage, UsageError, list_words
from redbike.config.definitions import OPTIONS
from redbike.config.file import load
from redbike.errors import RedbikeError
from redbike.store.enums import Event

ANSWER_TIMEOUT = 1.0  # seconds for all requests to a server
MOST = 200  # ids or names that are offered
CURRENT = "\0"  # stands for the word to complete; no argument can contain it
FILES, WORDS = "files", "words"  # the first line of an answer
FILE_NAMES = ("ARG", "CONF", "CSV", "FILE", "ICS", "PATH", "PROGRAM")  # words of the usage that stand for a file
JOBS = ("JOBID", "PATTERN")
KINDS = {"CODE": tuple(Event), "FORMAT": FORMATS, "SIGNAL": ("HALT",)}  # the words for which each may stand


def print_completion(usage: Usage, arguments: Arguments) -> int:
    """Print the script for a shell; or for "words", print each possible completion of the last word on a line."""
    for shell in SCRIPTS:
        if arguments[shell]:
            print(SCRIPTS[shell].strip())
            return DONE
    *before, current = arguments["<WORD>"] or [""]
    kind, found = complete(usage, before, current)
    print(kind)
    for word, text in found:
        print(f"{word}\t{text}" if text else word)
    return DONE


def complete(usage: Usage, before: Sequence[str], current: str) -> tuple[str, list[tuple[str, str]]]:
    """Return (`FILES`, []), or `WORDS` and each completion of `current`, with its meaning."""
    try:
        line = usage.read([*before, CURRENT])
    except UsageError:
        return WORDS, []
    pending = "" if line.words[-1:] == [CURRENT] else line.options[-1][0]  # the option whose value is completed
    if not pending:
        line.words.pop()
    attached = None if pending or line.is_literal else re.match(r"--[\w-]+=", current)
    lead = attached[0] if attached else ""
    if pending or lead:
        name = pending or usage.find_option(lead[:-1])
        option = OPTIONS.get(name[2:])
        choices = OR.join(option.choices) if option else ""
        kind = choices or (re.sub(".*=<(.*)>", r"\1", usage.options[name].spelling) if name else "")
        found = list(_list_kind(usage, kind, current[len(lead) :], line))
    elif current[:1] == "-" and not line.is_literal:
        kind, found = "", list(_list_options(usage, line))
    else:
        kind = _find_kind(usage, line.words)
        found = list(_list_kind(usage, kind, current, line))
    if kind in FILE_NAMES:
        return FILES, []
    return WORDS, [(lead + word, _shorten(text)) for word, text in found if (lead + word).startswith(current)]


def _shorten(text: str) -> str:
    """Return the first sentence of a text, cut if it is long."""
    return shorten(text.partition(". ")[0].rstrip("."), 70, placeholder=" …")


def _list_options(usage: Usage, line: Line) -> Iterator[tuple[str, str]]:
    """Yield the options of the command that are not given yet."""
    command = line.words[0] if line.words else ""
    names = usage.get_options(command) if command in usage.lines else [*GENERAL, "--version"]
    given = dict(line.options)
    for name in (*names, "--help"):
        option: Option = usage.options[name]
        if name not in given:
            yield name + "=" * option.has_value, option.text


def _find_kind(usage: Usage, words: Sequence[str]) -> str:
    """Return what the usage calls the word that follows `words`, such as JOBID; "" for nothing."""
    if not words:
        return "COMMAND"
    command, *others = words
    names = list_words(usage.lines.get(command, ""))
    if not names or (len(others) >= len(names) and "..." not in names[-1]):
        return ""
    return names[min(len(others), len(names) - 1)].strip("[]<>.")


def _list_kind(usage: Usage, kind: str, current: str, line: Line) -> Iterator[tuple[str, str]]:
    """Yield the possible values of `kind`, a word of the usage, each with its meaning or ""."""
    if kind == "COMMAND":
        yield from usage.summaries.items()
    elif kind in KINDS or OR in kind:
        yield from ((word, "") for word in KINDS.get(kind) or kind.split(OR))
    elif kind == "ZONE":
        # Imported here, as it reads many files.
        from zoneinfo import available_timezones

        yield from ((name, "") for name in sorted(available_timezones()))
    elif kind in JOBS or kind == "QUEUE":
        yield from ((name, "") for name in _ask(kind, current, line))


def _ask(kind: str, current: str, line: Line) -> list[str]:
    """Return the ids of jobs that begin with `current`, or the names of queues, as far as they arrive in time."""
    # Imported here, because this loads redis-py, which takes longer than all the rest.
    from redbike.cli.bike import list_names

    found: list[str] = []
    given = dict(line.options)

    def ask() -> None:
        # An error message would end up in the command line that a user types.
        with suppress(RedbikeError, OSError):
            config = load(given.get("--config"), os.environ, url=given.get("--url"))
            for name in islice(list_names(config, kind in JOBS, current), MOST):
                found.append(name)

    # In a thread, because a hanging server, or a slow lookup of a host, could take longer than the timeout.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_TIMEOUT)
    return sorted(found)
