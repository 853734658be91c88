"""Arguments of the command line that are more than a text: times and counts."""

from collections.abc import Callable
from typing import Any

from redbike.config import Config, check_zone
from redbike.errors import BadConfig
from redbike.schedule.parser import parse_timestamp

Arguments = dict[str, Any]  # as docopt gives them, by their names in the usage
Command = Callable[[Arguments, Config], int]  # returns its exit status


def read_time(given: str | None, config: Config, zone: str | None = None) -> float | None:
    """Return the TIMESTAMP `given` as epoch seconds, by default in the zone of the settings; None for None."""
    if given is None:
        return None
    return parse_timestamp(given, config.settings.timezone if zone is None else check_zone(zone))


def read_count(arguments: Arguments, name: str, default: int = 1) -> int:
    """Return the number, 1 to 1000, given as the option `name`; `default` if it is not given. Raises `BadConfig`."""
    given = arguments[name]
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal() and 1 <= int(given[:9]) <= 1000):
        raise BadConfig(f"bad {name} {given!r}: 1 to 1000 are allowed")
    return int(given)
