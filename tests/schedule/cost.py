"""What schedules cost the processor, whatever else keeps it busy."""

import contextlib
import gc
import time
from collections.abc import Callable
from functools import partial

from redbike.errors import BadSchedule
from redbike.schedule import parser
from redbike.schedule.kinds import Schedule
from tests import surroundings

LIMIT = 0.05  # seconds of the processor of an idle machine
_START = "DTSTART;TZID=Europe/Berlin:20260101T000000"
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
# Schedules with many rules, exceptions or occurrences, which go on for decades.
HARD = [
    "\n".join((_START, *lines))
    for lines in (
        ["RRULE:FREQ=SECONDLY", *(f"EXRULE:FREQ=SECONDLY;INTERVAL={prime}" for prime in _PRIMES)],
        [
            "RRULE:FREQ=SECONDLY",
            *(f"EXRULE:FREQ=SECONDLY;BYMONTH={each % 12 + 1};BYMINUTE={each}" for each in range(15)),
        ],
        ["RRULE:FREQ=DAILY", *(f"EXRULE:FREQ=DAILY;BYMONTHDAY={each}" for each in range(1, 16))],
        ["RRULE:FREQ=MINUTELY", "EXRULE:FREQ=HOURLY;BYMINUTE=0,30"],
        [f"RRULE:FREQ=HOURLY;INTERVAL={each + 4};BYMONTHDAY={each}" for each in range(1, 17)],
        [f"RRULE:FREQ=SECONDLY;BYSECOND={each}" for each in range(16)],
    )
]


def measure(step: Callable[[], object]) -> float:
    """Seconds of the processor that it takes, without those of a collection of what other tests have left."""
    gc.disable()
    try:
        began = time.thread_time()
        step()
        return time.thread_time() - began
    finally:
        gc.enable()


def is_short(cost: float) -> bool:
    """Whether so many seconds of the processor are below `LIMIT`, or as much more as it is slower just now."""
    return cost < LIMIT or cost < LIMIT * surroundings.measure(time.thread_time)


def most_of_a_step(text: str) -> float:
    """Seconds of the longest of some steps: parsing it with the first next run, and each next run after that."""
    parser._parse.cache_clear()
    found: list[Schedule] = []

    def begin() -> None:
        with contextlib.suppress(BadSchedule):
            found.append(parser.parse(text))
            found[0].next(0.0)

    costs = [measure(begin)]
    if found:
        steps = (partial(found[0].next, since) for since in (1.7e9, 1.79e9, 1.8e9, 4e9, 2.5e11))
        costs += map(measure, steps)
    return max(costs)
