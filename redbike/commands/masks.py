"""Mask secrets in what a command prints, in whatever pieces it comes."""

import re
from collections.abc import Iterable

MASK = b"***"
LEAST = 4  # bytes of a secret: a shorter text is also part of much else


class Mask:
    """Replaces each of `secrets` by `MASK`; of one with several lines each line."""

    def __init__(self, secrets: Iterable[bytes] = ()) -> None:
        lines = {line for secret in secrets for line in map(bytes.strip, secret.splitlines()) if len(line) >= LEAST}
        self._words = sorted(lines, key=len, reverse=True)  # the longest first: another one may be a part of it
        self._pattern = re.compile(b"|".join(map(re.escape, self._words))) if lines else None
        self._held = b""

    def feed(self, chunk: bytes, is_last: bool = False) -> bytes:
        """Return what may be shown by now; what may be the beginning of a secret is held back until the next one."""
        if self._pattern is None:
            return chunk
        text, self._held = self._held + chunk, b""
        end = len(text) if is_last else self._find_beginning(text)
        for match in self._pattern.finditer(text):
            if match.start() < end < match.end():
                end = match.start()
        self._held = text[end:]
        return self._pattern.sub(MASK, text[:end])

    def _find_beginning(self, text: bytes) -> int:
        """Return where a secret may begin whose end is still to come; the end of the text if none does."""
        for start in range(max(0, len(text) - len(self._words[0]) + 1), len(text)):
            rest = text[start:]
            if any(len(word) > len(rest) and word.startswith(rest) for word in self._words):
                return start
        return len(text)
