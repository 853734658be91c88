"""Parse arguments of the command line: times and counts."""

from typing import Any

from redbike.config.file import Config
from redbike.config.settings import check_zone
from redbike.errors import BadConfig
from redbike.schedule.moments import parse_timestamp

Arguments = dict[str, Any]  # as docopt returns them, by their names in the usage


def parse_time(text: str | None, config: Config, zone: str | None = None) -> float | None:
    """Return a TIMESTAMP as epoch seconds; None for None.

    A time without a zone is in `zone`, or else in the zone of the settings. Raise `BadSchedule` or `BadConfig`.
    """
    if text is None:
        return None
    return parse_timestamp(text, config.settings.timezone if zone is None else check_zone(zone))


def parse_count(arguments: Arguments, name: str, default: int = 1, most: int = 1000) -> int:
    """Return the number of the option `name`, from 1 to `most`; `default` if it is not given. Raise `BadConfig`."""
    text = arguments[name]
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= most):
        raise BadConfig(f"bad {name} {text!r}: 1 to {most} are allowed")
    return int(text)
