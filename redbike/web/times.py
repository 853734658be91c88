"""Times that people type into forms. A form then shows which instant was understood, and sends that from then on."""

from redbike.schedule.clock import Clock
from redbike.schedule.times import read_time


def read_moment(text: str, clock: Clock, looks_back: bool = False) -> tuple[float, str]:
    """Return an instant in epoch seconds, and the text that means it at any time. Raise `BadSchedule`.

    A time that comes again is the next one, or the last one for a page that `looks_back`.
    """
    found = read_time(text, clock.now, clock.zone, looks_back)
    return found.instant, text if found.is_exact else clock.format(found.instant)
