"""Handle sets of small numbers as bit masks: bit n stands for the number n."""

from collections.abc import Iterable
from functools import lru_cache


def find_lowest(mask: int) -> int:
    """Return the number of the lowest bit; -1 if there is none."""
    return (mask & -mask).bit_length() - 1


def find_nth(mask: int, place: int) -> int:
    """Return the number of the bit that has `place` other bits below it."""
    low, width = 0, mask.bit_length()
    while width > 1:
        half = width // 2
        below = (mask >> low & (1 << half) - 1).bit_count()
        if place < below:
            width = half
        else:
            low, width, place = low + half, width - half, place - below
    return low


def make_mask(values: Iterable[int]) -> int:
    """Return the mask of these values."""
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def make_span(low: int, high: int) -> int:
    """Return the mask of the numbers from `low` to `high` - 1."""
    return (1 << high) - (1 << low) if high > low else 0


def pick_bits(numbers: Iterable[int], bounds: tuple[int, int]) -> int:
    """Return the mask of the bits that `numbers` pick in the span `bounds` (first, last + 1).

    Numbers count from 1, or from the end of the span if they are negative.
    """
    low, high = bounds
    places = ((low + number - 1 if number > 0 else high + number) for number in numbers)
    return make_mask(place for place in places if low <= place < high)


def repeat_bits(run: int, step: int, past: int) -> int:
    """Return the mask of the days of a year that are among the first `run` days of a step of `step` days.

    Day 0 of the year is day `past` of its step.
    """
    past %= step
    if step <= 366:
        return _build_pattern(run, step) >> past & make_span(0, 366)
    current = make_span(0, run) >> past
    return (current | make_span(0, run) << step - past) & make_span(0, 366) if step - past < 366 else current


@lru_cache(256)
def _build_pattern(run: int, step: int) -> int:
    return make_mask(bit for bit in range(366 + step) if bit % step < run)
