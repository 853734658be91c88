"""Sets of small numbers as bit masks do what sets of numbers do."""

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


@given(st.sampled_from([1, 7]), st.integers(1, 60) | st.integers(360, 400), st.integers(-1000, 1000))
def test_the_first_days_of_each_step_are_repeated_for_a_year(run, step, past):
    step = max(run, step)
    assert repeat_bits(run, step, past) == make_mask(day for day in range(366) if (day + past) % step < run)
