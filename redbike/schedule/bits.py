"""Sets of small numbers as bits: bit n stands for n."""

from collections.abc import Iterable
from functools import lru_cache


def lowest(mask: int) -> int:
    """The lowest bit; -1 when there is none."""
    return (mask & -mask).bit_length() - 1


def nth_bit(mask: int, place: int) -> int:
    """The bit that has `place` others below it."""
    low, width = 0, mask.bit_length()
    while width > 1:
        half = width // 2
        below = (mask >> low & (1 << half) - 1).bit_count()
        if place < below:
            width = half
        else:
            low, width, place = low + half, width - half, place - below
    return low


def mask_of(values: Iterable[int]) -> int:
    """The bits of these values."""
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def span(low: int, high: int) -> int:
    """The bits from `low` until `high`."""
    return (1 << high) - (1 << low) if high > low else 0


def picked(numbers: Iterable[int], bounds: tuple[int, int]) -> int:
    """Those of a span's bits, counted from 1, or from its end when negative."""
    low, high = bounds
    places = ((low + number - 1 if number > 0 else high + number) for number in numbers)
    return mask_of(place for place in places if low <= place < high)


def periodic(run: int, step: int, past: int) -> int:
    """The bits of a year, the first `run` of every `step`, of which `past` have gone by at bit 0."""
    past %= step
    if step <= 366:
        return _pattern(run, step) >> past & span(0, 366)
    now = span(0, run) >> past
    return (now | span(0, run) << step - past) & span(0, 366) if step - past < 366 else now


@lru_cache(256)
def _pattern(run: int, step: int) -> int:
    return mask_of(bit for bit in range(366 + step) if bit % step < run)
