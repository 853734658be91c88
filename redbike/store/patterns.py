"""The jobs that an operator names, by ids or patterns.

The server matches stored ids. `compile_patterns` matches other ids in the same way.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from redbike.errors import BadJobId, NoSuchJob
from redbike.store.catalog import Catalog
from redbike.store.names import check_known_jobid
from redbike.store.records import encode

# A backslash takes the next character literally, as the server reads patterns.
_SPECIAL = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DANGLING = re.compile(r"(?:[^\\]|\\.)*\\", re.DOTALL)
_CLOSED = re.compile(r"(?:[^\\\[]|\\.|\[(?:[^\\\]]|\\.)+\])*", re.DOTALL)
_WILD = re.compile(r"[*?\[\\]")
_SETS = {"*": "[*]", "?": "[?]", "[": "[[]", "\\": r"[\\]"}  # with what `escape` replaces each
_SET = re.compile(r"\[([*?\[]|\\\\)\]")  # one of these sets
LONG = 100  # characters: a longer text is matched in its own case alone, as a pattern for both has four times as many
_ANY = frozenset(range(256))
_Token = frozenset[int] | None  # the bytes that fit, or None for any number of any bytes


class Steered(NamedTuple):
    """A job that an operator has named, and what happened to it, in one word."""

    jobid: str  #: the id of the job
    word: str  #: such as ``queued``; each method lists its words


def is_pattern(text: str) -> bool:
    r"""Tell whether `text` is a pattern: it has one of ``*?[`` without a backslash before it."""
    return _SPECIAL.search(text) is not None


def escape(text: str) -> str:
    r"""Return the pattern that matches the id `text` and no other: ``escape("a*b")`` is ``a[*]b``.

    ``*``, ``?``, ``[`` and ``\`` become sets of one character. A text without them stays as it is. You can also escape
    a part of an id: ``escape(f"remind:{user}/") + "*"`` matches all ids that begin with this text.
    """
    return _WILD.sub(lambda found: _SETS[found[0]], text)


def _unescape(text: str) -> str | None:
    """Return the id that `escape` turns into this pattern; None if there is none."""
    jobid = _SET.sub(lambda found: found[1][-1], text)
    return jobid if escape(jobid) == text else None


def check_pattern(text: str) -> str:
    """Return `text` if it can be the id of a job, or a pattern of ids. Raise `BadJobId`.

    A set of one character, as `escape` makes it, counts as one byte: so the longest id can be escaped.
    """
    sets = _SET.findall(text) if isinstance(text, str) and is_pattern(text) else []
    check_known_jobid(text, spare=sum(1 + len(each) for each in sets))
    if is_pattern(text) and _DANGLING.fullmatch(text):
        raise BadJobId(f"bad pattern {text!r}: nothing follows its last backslash")
    if is_pattern(text) and not _CLOSED.fullmatch(text):
        raise BadJobId(f"bad pattern {text!r}: a [ has no ] behind it")
    return text


def make_search(text: str) -> str:
    """Return a pattern for a search: `text` if it is a pattern, else a pattern of all ids that contain it.

    This one ignores the case of ASCII letters, unless the text is very long. Raise `BadJobId`.
    """
    return text if is_pattern(check_pattern(text)) else find_within(text)


def find_within(text: str) -> str:
    """Return the pattern of all ids that contain `text`, as `make_search` does."""
    return f"*{''.join(map(_take_both_cases, text)) if len(text) <= LONG else escape(text)}*"


def _take_both_cases(char: str) -> str:
    return f"[{char.lower()}{char.upper()}]" if char.isascii() and char.isalpha() else escape(char)


def expand(
    catalog: Catalog,
    texts: Iterable[str],
    also_bad: bool = False,
    may_miss: bool = False,
    may_match_none: bool = False,
    tags: Set[str] = frozenset(),
) -> Iterator[str]:
    """Yield the jobs that `texts` name, each once: an id names its job, a pattern all jobs whose id matches.

    With `tags`, yield only jobs with one of them; without texts, all jobs with one of them.

    Jobs are those with a schedule. With `also_bad`, jobs whose only schedule was refused count, too. Raise `BadJobId`
    for an invalid text, before anything else. Raise `NoSuchJob` for an id or a pattern that names no job, when its turn
    comes. With `may_miss`, skip both instead; with `may_match_none`, skip only patterns.
    """
    texts = [check_pattern(text) for text in texts] or (["*"] if tags else [])
    seen: set[str] = set()
    for text in texts:
        number = 0
        is_id = not is_pattern(text) or _unescape(text) is not None
        for jobid in _list(catalog, text, is_id, also_bad, tags):
            number += 1
            if jobid not in seen:
                seen.add(jobid)
                yield jobid
        if number == 0 and not (may_miss or (may_match_none and not is_id)):
            raise NoSuchJob(_explain_lack(text, tags))


def _list(catalog: Catalog, text: str, is_id: bool, also_bad: bool, tags: Set[str]) -> Iterator[str]:
    if is_id:
        return catalog.keep_tagged(_find(catalog, text, also_bad), tags)
    return catalog.list_tagged(text, tags) if tags else catalog.list_matching(text, also_bad)


def _explain_lack(text: str, tags: Set[str]) -> str:
    named = " or ".join(map(repr, sorted(tags)))
    if tags and text == "*":
        return f"no job has the tag {named}"
    tagged = f" with the tag {named}" if tags else ""
    return f"no job{tagged} matches {text!r}" if is_pattern(text) else f"no such job{tagged}: {text!r}"


def _find(catalog: Catalog, text: str, also_bad: bool) -> Iterator[str]:
    # First an id that contains the backslashes itself; else each backslash makes the next character literal.
    jobids = (_unescape(text) or "",) if is_pattern(text) else (text, _ESCAPED.sub(r"\1", text))
    for jobid in dict.fromkeys(jobids):
        if catalog.has_job(jobid, also_bad):
            yield jobid
            return


def compile_patterns(texts: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tells whether an id is one of `texts`, or matches a pattern among them; all if empty."""
    ids = {text for text in texts if not is_pattern(text)}
    patterns = [_parse(encode(text)) for text in texts if is_pattern(text)]
    if not texts:
        return lambda jobid: True
    return lambda jobid: jobid in ids or any(_fits(tokens, encode(jobid)) for tokens in patterns)


def _parse(pattern: bytes) -> list[_Token]:
    r"""Return the tokens of a pattern: ``*``, ``?``, ``[…]``, ``[^…]``, and ``\`` before a literal one."""
    tokens: list[_Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            tokens.append(None)
        elif char == b"?":
            tokens.append(_ANY)
        elif char == b"[":
            found, at = _parse_set(pattern, at + 1)
            tokens.append(found)
        else:
            at += char == b"\\" and at + 1 < len(pattern)
            tokens.append(frozenset(pattern[at : at + 1]))
        at += 1
    return tokens


def _parse_set(pattern: bytes, at: int) -> tuple[frozenset[int], int]:
    """Return the bytes of a set that begins at `at`, and the offset of its end."""
    is_negated = pattern[at : at + 1] == b"^"
    at += is_negated
    found: set[int] = set()
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            at += 1
            found.add(pattern[at])
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            first, last = sorted((_sign(pattern[at]), _sign(pattern[at + 2])))
            found |= {number % 256 for number in range(first, last + 1)}
            at += 2
        else:
            found.add(pattern[at])
        at += 1
    return (_ANY - found if is_negated else frozenset(found)), at


def _sign(byte: int) -> int:
    """Return a byte as the server compares it: a ``char`` of C, which may be negative."""
    return byte - 256 if byte > 127 else byte


def _fits(tokens: Sequence[_Token], text: bytes) -> bool:
    """Tell whether `text` matches. The steps are at most the tokens times the bytes, for any pattern."""
    token = at = 0
    star, resume = -1, 0  # the last star so far, and the offset at which the tokens after it are tried next
    while at < len(text):
        if token < len(tokens) and tokens[token] is None:
            star, resume = token, at
            token += 1
        elif token < len(tokens) and text[at] in (tokens[token] or ()):
            token, at = token + 1, at + 1
        elif star >= 0:
            resume += 1
            token, at = star + 1, resume
        else:
            return False
    return all(each is None for each in tokens[token:])
