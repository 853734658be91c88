"""Find the offset of a time zone at an instant, and the time in which this offset is in force.

A local time is the number of seconds since 1970-01-01T00:00 on the wall clock. An instant is in epoch seconds. So a
local time is an instant plus the offset, and a day is a quotient by 86,400.
"""

import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata

from redbike.errors import BadSchedule
from redbike.text.parsing import load_zone

Segment = tuple[int, int, int, int]
Offsets = Callable[[int], Segment]
"""Finds the segment of constant offset that contains an instant (epoch seconds).

A segment is its first instant, the first instant after it, the offset in seconds east, and the latest local time that
was reached before it."""

AHEAD = 100_000  # more seconds than any two offsets differ by
EPOCH_DAY = date(1970, 1, 1).toordinal()

_EARLIEST = -62135510400  # two days into the year 1, so that every zone has a local time for it
_LATEST = 253402128000  # and two days before the year 10000
_NEVER = 1 << 60


@lru_cache(1024)
def find_zone(name: str) -> Offsets:
    """Return the offsets of the IANA zone `name`; cached. Raise `BadSchedule`."""
    return _get_utc if name == "UTC" else Zone(name)


class Zone:
    """The segments of constant offset of an IANA zone. A call with an instant returns its segment, see `Offsets`.

    The offset is sampled every few days, and bisected where it differs. That misses no change: in the whole database
    two changes are at least four days apart, and since 1970 at least seven days.
    """

    _STEPS = (1 << 18, 1 << 19)  # 3 days, and 6 since 1970
    _MARGIN = 1 << 18  # seconds; a block begins so much earlier, to include a change shortly before it
    _MAX_BLOCKS = 4096

    def __init__(self, name: str) -> None:
        self.info = load_zone_info(name)
        self._blocks: dict[int, tuple[Segment, ...]] = {}  # each of 1 << 22 seconds: 48 days and a half

    def __call__(self, instant: int) -> Segment:
        """Return the segment that contains `instant`."""
        found = self._blocks.get(instant >> 22)
        if found is None:
            found = self._load_block(instant >> 22)
        for segment in found:
            if instant < segment[1]:
                return segment
        return found[-1]

    def _load_block(self, number: int) -> tuple[Segment, ...]:
        if len(self._blocks) >= self._MAX_BLOCKS:
            self._blocks.clear()
        found = self._blocks[number] = tuple(self._find_segments(number << 22, (number + 1) << 22))
        return found

    def _find_segments(self, start: int, stop: int) -> Iterator[Segment]:
        begin = start - self._MARGIN
        offset = self._get_offset(begin)
        reached, probed = begin + offset - 1, begin
        for probe in (*range(begin, stop, self._STEPS[start > 0])[1:], stop):
            if self._get_offset(probe) != offset:
                change = self._find_change(probed, probe)
                yield begin, change, offset, reached
                reached = change + offset - 1
                begin, offset = change, self._get_offset(change)
            probed = probe
        yield begin, stop, offset, reached

    def _find_change(self, before: int, after: int) -> int:
        old = self._get_offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if self._get_offset(middle) == old else (before, middle)
        return after

    def _get_offset(self, instant: int) -> int:
        moment = datetime.fromtimestamp(min(max(instant, _EARLIEST), _LATEST), self.info)
        offset = moment.utcoffset()
        assert offset is not None  # an aware time has one
        return offset.days * 86400 + offset.seconds


def _get_utc(instant: int) -> Segment:
    return _EARLIEST, _NEVER, 0, _EARLIEST


def resolve(wall: int, zone: Offsets) -> int:
    """Return the instant of a local time (RFC 5545, 3.3.5): the first of two; in a gap, by the offset before it."""
    begin, _, offset, reached = _find_segment(wall, zone)
    return wall - offset if wall - offset >= begin else begin + wall - reached - 1


def find_gap_end(wall: int, zone: Offsets) -> int | None:
    """Return the first instant after the gap that contains a local time; None if the local time exists."""
    begin, _, offset, _ = _find_segment(wall, zone)
    return None if wall - offset >= begin else begin


def _find_segment(wall: int, zone: Offsets) -> Segment:
    """Return the first segment that reaches a local time."""
    begin, end, offset, reached = zone(wall - AHEAD)
    while wall - offset >= end:
        begin, end, offset, reached = zone(end)
    return begin, end, offset, reached


def load_zone_info(name: str) -> ZoneInfo:
    """Return the `ZoneInfo` of the IANA zone `name`. Raise `BadSchedule`."""
    info = load_zone(name)
    if info is None:
        raise BadSchedule(f"unknown time zone {name!r:.80}")
    return info


def find_release() -> str:
    """Return the release of the IANA database that this process uses, such as "2026b"; "unknown" if it has no name."""
    for folder in map(Path, zoneinfo.TZPATH):
        if not (folder / "UTC").is_file():
            continue
        with suppress(OSError), open(folder / "tzdata.zi", "rb") as rules:
            return rules.readline(80).decode(errors="replace").removeprefix("# version ").strip()
        return "unknown"
    return str(tzdata.IANA_VERSION)
