"""Parse arguments of the command line: times and counts."""

import time
from collections.abc import Callable
from typing import Any

from redbike.cli.messages import complain
from redbike.config.file import Config
from redbike.config.settings import check_zone, read_count
from redbike.schedule.clock import Clock

Arguments = dict[str, Any]  # as docopt returns them, by their names in the usage


def check_words(arguments: Arguments) -> None:
    """Raise `BadConfig` or `BadJobId` for an invalid id, pattern, tag or reason.

    This check comes before the connection to a server, which may start one.
    """
    # Imported here, because commands without a server must not import redis-py.
    from redbike.config.labels import read_filter
    from redbike.control.operator import check_reason
    from redbike.store.names import check_known_jobid
    from redbike.store.patterns import check_pattern

    jobids, patterns = (arguments.get(name) or () for name in ("<JOBID>", "<PATTERN>"))
    if isinstance(jobids, str):
        check_known_jobid(jobids)
        jobids = ()
    for text in (*jobids, *([patterns] if isinstance(patterns, str) else patterns)):
        check_pattern(text)
    read_filter(arguments.get("--tag"))
    check_reason(arguments.get("--reason") or "")


def prepare_time(text: str | None, config: Config, zone: str | None = None, looks_back: bool = False) -> float | None:
    """Return the instant that `text` means by the clock of this host, in epoch seconds; None for None.

    It refuses what `parse_time` refuses, before a server is opened. It also imports dateutil, which a worker class that
    is loaded later could hide. Raise `BadSchedule` or `BadConfig`.
    """
    if text is None:
        return None
    from redbike.schedule.typed_times import read_time

    local = config.settings.timezone if zone is None else check_zone(zone)
    return read_time(text, time.time(), local, looks_back).instant


def parse_time(
    text: str | None,
    config: Config,
    zone: str | None = None,
    looks_back: bool = False,
    *,
    read_clock: Callable[[], float],
) -> float | None:
    """Return a TIMESTAMP as epoch seconds; None for None. Print the instant to standard error if `text` is not exact.

    A time without a zone is in `zone`, or else in the zone of the settings. A time such as 22:45 means the next such
    instant, or the last one if the command `looks_back`. `read_clock` returns the present time in epoch seconds: the
    server's clock if the command uses a server. It is called only if needed. Raise `BadSchedule` or `BadConfig`.
    """
    if text is None:
        return None
    # Imported here, because this loads dateutil, and most commands get no time. So a time must be parsed before a
    # worker class is loaded, or `prepare_time` must be called before.
    from redbike.schedule.typed_times import is_exact, read_time

    local = config.settings.timezone if zone is None else check_zone(zone)
    found = read_time(text, 0.0 if is_exact(text) else read_clock(), local, looks_back)
    if not found.is_exact:
        tell_time(text, found.instant, local)
    return found.instant


def tell_time(text: str, instant: float, zone: str) -> None:
    """Print to standard error which instant (epoch seconds) a text means, as a time in `zone`."""
    complain(f"{text!r:.80} is {Clock(instant, zone).name(instant)}")


def parse_count(arguments: Arguments, name: str, default: int = 1, most: int = 1000) -> int:
    """Return the number of the option `name`, from 1 to `most`; `default` if it is not given. Raise `BadConfig`."""
    text = arguments[name]
    return default if text is None else read_count(name, text, most)
