"""What cron takes from the system: its local time, and the variables that each command gets (cron(8), pam_env(8))."""

import os
import re
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

ENVIRONMENT_FILES = ("/etc/environment", "/etc/default/locale")  # the later one wins
ZONES = "/zoneinfo/"
COMPARED = 5 * 366  # days for which two zones must agree
VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.ASCII)


class LocalTime(NamedTuple):
    """The name of the zone of the local time, None if it is not known; `doubt` says why it may be another."""

    timezone: str | None
    doubt: str = ""


def find_local_time(root: str = "/") -> LocalTime:
    """Return the local time of the system. `root` is for tests.

    Cron reads only ``/etc/localtime``. If that is no link to a zone, ``/etc/timezone`` has the name.
    """
    local = Path(root, "etc/localtime")
    linked = os.path.realpath(local).partition(ZONES)[2]
    if _is_zone(linked):
        return LocalTime(linked)
    try:
        name = Path(root, "etc/timezone").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        name = ""
    if not _is_zone(name):
        return LocalTime(None)
    is_same = _read_offsets(_read_zone(local)) == _read_offsets(ZoneInfo(name))
    return LocalTime(name, "" if is_same else f"/etc/timezone says {name}, but /etc/localtime has other rules")


def _read_zone(path: Path) -> tzinfo:
    """Return the zone in a file; UTC if it cannot be read, as the C library does."""
    try:
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file)
    except Exception:
        # As below, zoneinfo raises several.
        return UTC


def _read_offsets(zone: tzinfo) -> list[timedelta | None]:
    """Return the offsets of each day for some years: two files may have the same rules and not the same bytes."""
    begin = datetime.now(UTC)
    return [(begin + timedelta(day)).astimezone(zone).utcoffset() for day in range(COMPARED)]


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except Exception:
        # zoneinfo raises several exceptions for an unknown zone: for a missing file, a folder, a bad key.
        return False
    return True


def read_variables(root: str = "/") -> dict[str, str]:
    """Return the variables of the files that are there. `root` is for tests."""
    variables: dict[str, str] = {}
    for name in ENVIRONMENT_FILES:
        try:
            text = Path(root, name.lstrip("/")).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        variables.update(found for line in text.splitlines() if (found := _read_variable(line)))
    return variables


def _read_variable(line: str) -> tuple[str, str] | None:
    """Return the name and the value that a line sets, as pam_env reads it; None if it sets none.

    A comment begins at any ``#``, and blanks at the end are part of the value. Quotes at its ends are not.
    """
    found = VARIABLE.fullmatch(line.lstrip().partition("#")[0])
    if found is None:
        return None
    name, value = found.groups()
    if value[:1] in ("'", '"'):
        # A quote that is not closed is removed all the same.
        value = value[1:].removesuffix(value[0])
    return name, value
