"""The clock of a test: it stands still until the test moves it."""

from datetime import UTC, datetime, timedelta

from redbike.errors import BadConfig
from redbike.schedule.moments import END_OF_TIME
from redbike.text.printable import quote


class Clock:
    """Stands at `now`, in epoch seconds."""

    def __init__(self, now: float) -> None:
        self.now = now

    def read(self) -> float:
        """Return the instant at which it stands."""
        return self.now

    def move(self, instant: float) -> None:
        """Go on to `instant`. Raise `BadConfig` if that is past."""
        if instant < self.now:
            raise BadConfig(f"the clock of a test only goes forward: {name(instant)} is before {name(self.now)}")
        self.now = instant


def read_instant(given: "float | datetime | timedelta", now: float) -> float:
    """Return the epoch seconds of an instant; a timedelta counts from `now`. Raise `TypeError` or `BadConfig`."""
    if isinstance(given, timedelta):
        instant = now + given.total_seconds()
    elif isinstance(given, datetime):
        if given.tzinfo is None:
            raise TypeError(f"{given!r} has no zone: an aware datetime is needed")
        instant = given.timestamp()
    elif isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{given!r:.80} is no instant: epoch seconds, an aware datetime or a timedelta is needed")
    else:
        instant = given
    if not 0 <= instant < END_OF_TIME:
        raise BadConfig(f"bad instant {quote(given)}: it is before 1970 or after 9999")
    return round(float(instant), 6)


def name(instant: float) -> str:
    """Return an instant as messages have it."""
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")
