"""Labels that people give a job: tags, an owner, a note; and the reason of a pause. No run depends on them.

A tag has letters, digits and a few signs, so that it needs no quotes in a shell, and no escapes in a CSV file.
"""

import re
import unicodedata
from collections.abc import Collection
from typing import Any, TypeGuard

from redbike.errors import BadConfig
from redbike.text.parsing import DEFAULT
from redbike.text.printable import quote

TAGS, OWNER, NOTE = "tags", "owner", "note"
LABELS = (TAGS, OWNER, NOTE)
LONGEST_TAG = 50  # characters
MOST_TAGS = 20  # of a job, and in a filter
MAX_REASON = 500  # characters of the reason of a pause, and, in a file, of the name of the person who paused

TagLike = str | Collection[str]
"""A tag, or several: a text with blanks or commas between them, or a list, a tuple or a set."""

_TAG = re.compile(r"\w[\w.:/@+-]*")
_BETWEEN = re.compile(r"[\s,]+")
_ALLOWED = "letters, digits and any of _.:/@+- are allowed, and the first one is a letter, a digit or _"


def read_tags(name: str, value: Any) -> str:
    """Return tags as they are stored: in lower case, each once, sorted, with a blank between two; "" for none.

    `value` is a text with blanks or commas between the tags, or a list, a tuple or a set of such texts. Raise
    `BadConfig`, whose message calls them `name`.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple | set | frozenset) or not all(isinstance(text, str) for text in texts):
        raise BadConfig(f"bad {name} {quote(value)}: a text such as 'billing,nightly' is needed, or a list of texts")
    words = {_read_tag(name, word) for text in texts for word in _BETWEEN.split(text) if word}
    if words == {DEFAULT} and name == TAGS:
        raise BadConfig(f"bad {name} {quote(value)}: {DEFAULT!r} takes back all tags, so it cannot be the only tag")
    if len(words) > MOST_TAGS:
        raise BadConfig(f"bad {name} {quote(value)}: {len(words)} tags, up to {MOST_TAGS} are allowed")
    return " ".join(sorted(words))


def _read_tag(name: str, word: str) -> str:
    tag = unicodedata.normalize("NFC", word.lower())
    if not _TAG.fullmatch(tag):
        raise BadConfig(f"bad {name} {quote(word)}: {_ALLOWED}")
    if len(tag) > LONGEST_TAG:
        raise BadConfig(f"bad {name} {quote(word)}: {len(tag)} characters, up to {LONGEST_TAG} are allowed in a tag")
    return tag


def read_filter(value: TagLike | None) -> frozenset[str]:
    """Return the tags of a filter, of which a job must have one; an empty set for None. Raise `BadConfig`."""
    if value is None:
        return frozenset()
    tags = frozenset(read_tags("tag", value).split())
    if not tags:
        raise BadConfig(f"bad tag {quote(value)}: the name of a tag is needed")
    return tags


def is_reason(value: object) -> TypeGuard[str]:
    """Tell whether a value is one line of text of up to `MAX_REASON` characters."""
    return isinstance(value, str) and value.isprintable() and len(value) <= MAX_REASON


def read_line(name: str, value: Any, most: int) -> str:
    """Return a line of text, without blanks at its ends, of up to `most` characters. Raise `BadConfig`."""
    text = value.strip() if isinstance(value, str) else None
    if text is None or not text.isprintable() or len(text) > most:
        raise BadConfig(f"bad {name} {quote(value)}: one line of up to {most} characters is needed")
    return text
