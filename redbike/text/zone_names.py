"""The names of IANA time zones."""

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}", re.ASCII)


def load_zone(name: str) -> ZoneInfo | None:
    """Return the data of the IANA zone of that name; None if there is none."""
    # The pattern refuses paths. The listed names depend on the machine, or their zones count leap seconds.
    if not _NAME.fullmatch(name) or name.partition("/")[0] in ("localtime", "posixrules", "posix", "right"):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
