"""The text of each script, as the server gets it.

It begins with the ``#!lua`` line of the script's own file. These parts follow:

1. lines that give names in Lua to its keys, to the words of `redbike.store.enums` and to the schedule ``STOP``,
2. the files of `PARTS`, in their order: each may use what those before it define,
3. the files that belong to this script alone, such as ``_take_turns.lua`` to ``take.lua``,
4. the script itself.

Of 1, 2 and 3, a script has only the words and statements that it uses, directly or through others: each call of a
script creates all of its functions again. It gets only those keys of `redbike.store.keys.GIVEN` that the line
``-- keys`` of its header lists, as the server checks each key of each call.

The scripts of `HOT` have a second, plain text for systems in which no job follows another: see ``_plain.lua``. A file
such as ``_set_first.lua`` belongs to the plain text alone. It comes first there, and may return before the functions
are created.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from redbike.schedule.kinds import Stop
from redbike.schedule.moments import AWAITED
from redbike.store.enums import MAIL, NEEDS_FULL, Event, Left, Skip
from redbike.store.keys import GIVEN
from redbike.store.lease import CLOCKS_DIFFER

PARTS = (
    "_given",  # decodes what the script is given
    "_plain",  # stands for what a plain text does not have
    "_records",  # reads and writes records
    "_ended",  # reads and writes records of ended runs
    "_options",  # reads options and other JSON
    "_batches",  # reads and writes lists of jobs
    "_notes",  # notes changes
    "_read",  # reads what several scripts need
    "_following",  # reads and notes which jobs follow which
    "_above",  # reads what a job follows
    "_occurrences",  # notes occurrences of backfills
    "_backfilled",  # reads and notes other data of backfills
    "_backfill",  # notes what is left of backfills
    "_mail",  # notes messages to other shards
    "_follow",  # notes when followers are due
    "_group",  # reads and notes what is left of groups
    "_member",  # notes which jobs belong to groups
    "_forget",  # notes that a job is gone
    "_log",  # notes an entry of the log
    "_limits",  # reads and writes limits
    "_places",  # wakes workers and dispatchers if limits let a job through
    "_room",  # computes how many jobs limits allow
    "_queues",  # notes places in queues
    "_hold",  # notes that jobs are paused
    "_flight",  # notes that runs have ended
    "_stop_backfill",  # notes that backfills have ended
    "_write",  # makes the changes
)
SAME = ("watch",)  # it is sent with `set`, and replies the same each time
HOT = ("end", "set")  # every run or job calls them, so their size matters
# Their functions for followers, groups and backfills: a plain text has `need_full` in place of each.
LEFT_OUT = (
    "make_follows", "make_groups", "make_backfills", "note_ends", "find_cycle", "set_links", "set_member",
    "forget_backfill",
)  # fmt: skip
NAMES = {key: key.rstrip("-").replace("-", "_") for key in GIVEN}  # in Lua
WORDS = {word.name: word.value for word in (*Event, *Skip, *Left)}
WORDS |= {"STOP": Stop.text, "AWAITED": AWAITED, "NEEDS_FULL": NEEDS_FULL, "MAIL": MAIL, "CLOCKS_DIFFER": CLOCKS_DIFFER}


@dataclass(frozen=True)
class Script:
    """The text of a transition, and the digest by which the server knows it.

    `keys` are those of `GIVEN` that it gets, in their order, before the keys of queues. If it `notes_changes`, and a
    person makes the change, it gets ``-log`` as its last key; a program's call is not larger. If it `is_repeatable`, a
    second identical call changes nothing and replies the same. `plain` is the same script with its plain text, if it
    has one: it gets the same, and replies the same, or the error `NEEDS_FULL`.
    """

    verb: str
    keys: tuple[str, ...]
    text: str
    notes_changes: bool
    is_repeatable: bool
    plain: "Script | None" = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


class _Scripts(dict[str, Script]):
    """The scripts by name. The text of each is built at its first use, as a command uses few scripts."""

    def __missing__(self, verb: str) -> Script:
        script = self[verb] = _make_script(verb, read_files())
        return script


def load_all() -> dict[str, Script]:
    """Return all scripts by name, with their texts."""
    texts = read_files()
    return {verb: _make_script(verb, texts) for verb in texts if not verb.startswith("_")}


@cache
def read_files() -> dict[str, str]:
    """Return the text of each file of ``lua/``, by its name."""
    folder = resources.files("redbike.store") / "lua"
    return {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in folder.iterdir()}


def _make_script(verb: str, texts: Mapping[str, str]) -> Script:
    listed = read_keys(verb, texts)
    keys = {key: name for key, name in NAMES.items() if name in listed}
    shebang = texts[verb].partition("\n")[0]
    names = f"local FIXED, {', '.join(keys.values())} = {len(keys)}, unpack(KEYS)\n"

    def make(code: str, plain: Script | None = None) -> Script:
        used = list_words(code)
        words = {name: word for name, word in WORDS.items() if name in used}
        constants = f"local {', '.join(words)} = {', '.join(map(repr, words.values()))}\n" if words else ""
        is_repeatable = "is_repeated" in used or "no-writes" in shebang or verb in SAME
        text = f"{shebang}\n{names}{constants}{code}"
        return Script(verb, tuple(keys), text, "log_change" in used, is_repeatable, plain)

    plain = make(join_parts(verb, texts, is_plain=True)) if verb in HOT else None
    return make(join_parts(verb, texts), plain)


def read_keys(name: str, texts: Mapping[str, str]) -> set[str]:
    """Return the keys that the header of a file lists, by their names in Lua.

    ``_write`` in that list stands for the keys of ``_write.lua``. The same applies to the other parts.
    """
    keys: set[str] = set()
    line = re.search(r"^-- keys +(.+(?:\n-- {3,}.+)*)", texts[name], re.MULTILINE)
    for word in re.findall(r"\w+", line[1]) if line else ():
        keys |= read_keys(word, texts) if word.startswith("_") else {word}
    return keys


def join_parts(name: str, texts: Mapping[str, str], is_plain: bool = False) -> str:
    """Return those statements of the parts that a file needs, and then its text without the ``#!lua`` line.

    A plain text has `need_full` in place of the functions of `LEFT_OUT`.
    """
    verb = name.split("_")[1] if name.startswith("_") else name
    first = f"_{verb}_first"
    own = [part for part in sorted(texts) if part.startswith(f"_{verb}_") and part < name and part != first]
    parts = PARTS[: PARTS.index(name)] if name in PARTS else [*PARTS, *own]
    if name == first:
        parts = PARTS[:1]
    elif is_plain and first in texts:
        parts = [PARTS[0], first, *parts[1:]]
    body = re.sub(r"^#!.*\n", "", texts[name])
    before = "".join(texts[part] for part in parts)
    if is_plain:
        names = rf"\b(?:{'|'.join(LEFT_OUT)})\b"
        defined = re.compile(rf"local function {names}")
        before = "".join(statement for statement in split_statements(before) if not defined.match(statement))
        before, body = (re.sub(names, "need_full", text) for text in (before, body))
    return select(before, body) + body


def split_statements(text: str) -> list[str]:
    """Return the statements that begin in the first column, each with the comments that follow it."""
    return re.split(r"^(?=local |for )", text, flags=re.MULTILINE)


def select(parts: str, body: str) -> str:
    """Return those statements of the parts that the body needs, in their order.

    A statement is left out if it is local, and nothing after it uses one of its names.
    """
    needed, selected = set(list_words(body)), []
    for statement in reversed(split_statements(parts)):
        local = re.match(r"local (?:function )?([\w, ]+)", statement)
        if local is None or needed & list_words(local[1]):
            selected.append(statement)
            needed |= list_words(statement)
    return "".join(reversed(selected))


@cache
def list_words(text: str) -> frozenset[str]:
    """Return the names that a text in Lua uses, without words in comments and strings, and without names of fields."""
    code = re.sub(r"""--.*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", "''", text)
    return frozenset(re.findall(r"(?<!\w)(?<!(?<!\.)\.)[A-Za-z_]\w*+(?! *=[^=])", code))


# Read them now: later, another version may have been installed.
read_files()
SCRIPTS = _Scripts()
