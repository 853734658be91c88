"""Sets of small numbers as bit masks do what sets of numbers do."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.schedule.bits import find_lowest, find_nth, make_mask, make_span, pick_bits, repeat_bits

PLACES = st.integers(0, 70)


@given(st.sets(PLACES, min_size=1))
def test_the_numbers_of_a_mask_are_found_in_order(numbers):
    mask = make_mask(numbers)
    assert find_lowest(mask) == min(numbers)
    assert [find_nth(mask, place) for place in range(len(numbers))] == sorted(numbers)


@given(PLACES, PLACES, st.lists(st.integers(-80, 80).filter(bool)))
def test_numbers_of_a_span_count_from_either_end(low, high, numbers):
    span = range(low, high)
    assert make_span(low, high) == make_mask(span)
    picked = {span[number - (number > 0)] for number in numbers if 0 < abs(number) <= len(span)}
    assert pick_bits(numbers, (low, high)) == make_mask(picked)


@pytest.mark.parametrize("step", [7, 366, 371])
def test_the_first_days_of_each_step_are_repeated_for_a_year(step):
    for run, past in product((1, 7), range(-9, step)):
        assert repeat_bits(run, step, past) == make_mask(day for day in range(366) if (day + past) % step < run)
