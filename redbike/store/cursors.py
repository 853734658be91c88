"""Cursors: where a page of a list ends, and the next one begins. Jobs may come and go between two pages."""

from typing import NamedTuple, Self

from redbike.errors import BadConfig
from redbike.store.namespace import Entry

BITS = 64  # of a cursor of HSCAN


class Cursor(NamedTuple):
    """Where a page begins: in a hash, behind a cursor of HSCAN, and with an id behind `entry`; else behind `entry`."""

    source: int = 0  # which of the sources of the search
    scan: int = 0  # the cursor of HSCAN
    entry: Entry | None = None

    def format(self) -> str:
        """Return it as a text for a URL."""
        score, member = self.entry or (0.0, b"")
        return f"{self.source}-{self.scan}" + (f"-{score!r}-{member.hex()}" if self.entry else "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `format` has made; "" is the beginning. Raise `BadConfig`."""
        if not text:
            return cls()
        try:
            source, scan, *entry = text.split("-", 2)
            number, at = _read_whole(source, 9), _read_whole(scan, 2**BITS - 1)
            if not entry:
                return cls(number, at)
            score, _, member = entry[0].rpartition("-")
            return cls(number, at, (float(score), bytes.fromhex(member)))
        except ValueError:
            raise BadConfig(f"bad cursor {text!r:.40}: it comes from the link to the next page") from None


def measure_scan(scan: int) -> float:
    """Return how much of a hash a cursor of HSCAN has behind it, from 0 to 1.

    The server counts from the highest bit of a number of a bucket to the lowest one.
    """
    bits = f"{scan:0{BITS}b}"
    return int(bits[::-1], 2) / float(2**BITS)


def _read_whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise ValueError
    return int(text)
