"""The parts of a page that change while somebody looks: elements with an ``id`` and the attribute ``data-live``.

All who look at a page share them. So what belongs to one browser, such as a form with its token, stands beside them.
"""

import re

# What comes from elsewhere is escaped, so these characters make tags only where a template has them.
BEGINNING = re.compile(r"<([a-z][a-z0-9]*)((?:\s[^<>]*)?\sdata-live(?:[\s=][^<>]*)?)>")
NAME = re.compile(r'\sid="([^"<>]+)"')
RELATIVE = re.compile(r"(<time [^<>]*data-at=[^<>]*>)[^<]*")


def find_fragments(page: str) -> dict[str, str]:
    """Return the fragments of a page by id, each with its own tag. One inside of another is a part of that."""
    found, place = dict[str, str](), 0
    while begin := BEGINNING.search(page, place):
        place = _find_end(page, begin)
        name = NAME.search(begin[2])
        if name:
            found[name[1]] = page[begin.start() : place]
    return found


def _find_end(page: str, begin: re.Match[str]) -> int:
    """Return where an element ends: where as many tags of its kind are closed as are opened."""
    depth = 1
    for tag in re.compile(rf"<(/?){begin[1]}(?=[\s>])[^<>]*>").finditer(page, begin.end()):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return len(page)


def strip_distances(fragment: str) -> str:
    """Return a fragment without what changes by itself as time goes on: how far away its instants are."""
    return RELATIVE.sub(r"\1", fragment)
