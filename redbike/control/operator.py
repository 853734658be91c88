"""The operator, the reason and the end of a pause; and the check of `after`."""

import os
import pwd
import socket

from redbike.config.labels import MAX_REASON, is_reason
from redbike.errors import BadConfig
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME
from redbike.store.log import MAX_WHO
from redbike.text.parsing import is_number
from redbike.text.printable import escape, quote


def name_operator() -> str:
    """Return user@host of this process, and the user who ran sudo, as one line that is safe to show.

    The user comes from the process: LOGNAME and USER are not read, because anyone can set them.
    """
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # The user of a container may have no name.
        user = f"uid {os.geteuid()}"
    sudo = os.environ.get("SUDO_USER")
    beside = f" (sudo by {sudo})" if sudo else ""
    name = f"{user}@{socket.gethostname()}{beside}".replace("\t", " ")
    return escape(name.encode(errors="surrogateescape"))[:MAX_WHO]


def check_reason(reason: str) -> str:
    """Return `reason` if it is a line of text of limited length. Raise `BadConfig`."""
    if not is_reason(reason):
        raise BadConfig(f"bad reason {reason!r:.80}: one line of up to {MAX_REASON} characters is needed")
    return reason


def check_after(after: object, schedule: Schedule, name: str = "after") -> None:
    """Raise `BadConfig` if `after` (the instant from which occurrences count) is given, but has no effect."""
    if after is not None and (schedule.is_immediate or schedule.never_runs or schedule.is_awaiting):
        raise BadConfig(f"bad {name} {quote(after)}: it has no effect on the schedule {schedule.text}")


def check_until(until: float | None, now: float, text: str | None = None) -> float | None:
    """Return `until` if it is None or an instant after `now`. Raise `BadConfig`, which quotes `text` if it is given."""
    if until is None:
        return None
    if not is_number(until) or not now < until < END_OF_TIME:
        raise BadConfig(f"bad until {quote(until if text is None else text)}: a time in the future is needed")
    return float(until)
