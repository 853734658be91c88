"""Tell whether an id fits a pattern, as the server does, for ids that do not come from there."""

from collections.abc import Callable, Sequence

from redbike.store.patterns import is_pattern
from redbike.store.records import encode

_ANY = frozenset(range(256))
_Token = frozenset[int] | None  # the bytes that fit, or None for any number of any bytes


def compile_patterns(texts: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether an id is one of `texts`, or fits one of them that is a pattern. None stands for all."""
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
    """Return the bytes of a set that begins at `at`, and the place of its end."""
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
    """Return a byte as the server compares it: there, as in C, a character may be negative."""
    return byte - 256 if byte > 127 else byte


def _fits(tokens: Sequence[_Token], text: bytes) -> bool:
    """Match in steps whose number is at most that of the tokens times that of the bytes, whatever the pattern is."""
    token = at = 0
    star, resume = -1, 0  # the last star that was met, and where what follows it is tried next
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
