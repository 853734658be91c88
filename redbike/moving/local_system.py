"""What cron takes from the system: its local time, and the variables that each command gets (cron(8), pam_env(8))."""

import os
import re
from pathlib import Path
from zoneinfo import ZoneInfo

ENVIRONMENT_FILES = ("/etc/environment", "/etc/default/locale")  # the later one wins
ZONES = "/zoneinfo/"
VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.ASCII)


def find_timezone(root: str = "/") -> str | None:
    """Return the name of the zone of the local time; None if the system does not tell it. `root` is for tests."""
    try:
        name = Path(root, "etc/timezone").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        name = ""
    target = os.path.realpath(os.path.join(root, "etc/localtime"))
    for zone in (name, target.partition(ZONES)[2]):
        if _is_zone(zone):
            return zone
    return None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except Exception:
        # zoneinfo raises several exceptions for an unknown zone: for a missing file, a folder, a bad key.
        return False
    return True


def read_variables(root: str = "/") -> dict[str, str]:
    """Return the variables of the files that are there. `root` is for tests."""
    variables = {}
    for name in ENVIRONMENT_FILES:
        try:
            text = Path(root, name.lstrip("/")).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        found = (VARIABLE.fullmatch(line.strip()) for line in text.splitlines())
        variables.update({each[1]: each[2].strip("'\"") for each in found if each})
    return variables
