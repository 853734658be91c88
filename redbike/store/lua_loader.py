"""The text of each script, as the server gets it.

It is put together of these parts, behind the ``#!lua`` line of the script's own file:

1. lines that give its keys and the words of `redbike.store.enums` names in Lua,
2. ``_given.lua``, which decodes what the script is given,
3. ``_records.lua``, which reads and writes records,
4. ``_notes.lua``, which notes changes,
5. ``_limits.lua``, which tells what stands before a queue,
6. ``_write.lua``, which makes the changes,
7. the script itself.

A script has only those statements of 2 to 6 that it names, or that these name: each call of a script makes each of its
functions anew. It gets only those keys of `redbike.store.keys.GIVEN` that its text names then: the server looks at each
key of each call.
"""

import hashlib
import re
from dataclasses import dataclass, field
from importlib import resources

from redbike.store.enums import Event, Skip
from redbike.store.keys import GIVEN

PARTS = ("_given", "_records", "_notes", "_limits", "_write")
NAMES = {key: key.rstrip("-").replace("-", "_") for key in GIVEN}  # in Lua


@dataclass(frozen=True)
class Script:
    """The text of a transition, and the digest by which the server knows it.

    `keys` are those of `GIVEN` that it is given, in their order, before the keys of queues. If it `notes_changes`, and
    a person asks for the change, it is given ``-log`` as its last key. Programs pay nothing for that.
    """

    verb: str
    keys: tuple[str, ...]
    text: str
    notes_changes: bool
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


def _load() -> dict[str, Script]:
    folder = resources.files("redbike.store") / "lua"
    texts = {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in folder.iterdir()}
    words = [*Event, *Skip]
    constants = f"local {', '.join(word.name for word in words)} = {', '.join(map(repr, map(str, words)))}\n"
    parts = "".join(texts.pop(part) for part in PARTS)
    scripts = {}
    for verb, own in texts.items():
        shebang, _, body = own.partition("\n")
        code = select(parts, body) + body
        used = _list_words(code)
        keys = {key: name for key, name in NAMES.items() if name in used}
        names = f"local FIXED, {', '.join(keys.values())} = {len(keys)}, unpack(KEYS)\n"
        text = f"{shebang}\n{names}{constants}{code}"
        scripts[verb] = Script(verb, tuple(keys), text, "log_change" in used)
    return scripts


def select(parts: str, body: str) -> str:
    """Return those statements of the parts that the body needs, in their order.

    A statement begins in the first column. It is left out if it is local, and nothing behind it has one of its names.
    """
    needed, selected = _list_words(body), []
    for statement in reversed(re.split(r"^(?=local |for )", parts, flags=re.MULTILINE)):
        local = re.match(r"local (?:function )?([\w, ]+)", statement)
        if local is None or needed & _list_words(local[1]):
            selected.append(statement)
            needed |= _list_words(statement)
    return "".join(reversed(selected))


def _list_words(text: str) -> set[str]:
    """Return the words of a text in Lua, but for those of lines that are comments."""
    return set(re.findall(r"\w+", re.sub(r"^ *--.*", "", text, flags=re.MULTILINE)))


SCRIPTS = _load()
