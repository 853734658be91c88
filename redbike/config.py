"""Settings: their defaults, in one place, and where they come from: command line, environment, file, default."""

import configparser
import dataclasses
import difflib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from redbike.errors import BadConfig

DEFAULT_FILE = ".redbike.conf"
OURS, CONNECTION = "redbike", "redbike-redis"
MAX_PREFIX = 128  # bytes

CHOICES = {
    "catchup": ("last", "none", "all"),
    "on_error": ("stop", "reschedule", "retry"),
    "on_timeout": ("stop", "reschedule", "requeue"),
    "on_lost": ("requeue", "reschedule", "stop"),
    "log_level": ("debug", "info", "warning", "error", "critical"),
}
_LEFT_TO_THE_WORKER = ("on_error", "on_timeout")  # where they are not given
_SECONDS = {"default_timeout": (0.001, 1e9), "backoff": (0.0, 1e9)}
_COUNTS = {"catchup_limit": (0, 1_000_000), "retries": (0, 1_000_000), "failures_limit": (0, 10_000_000)}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default; each is checked, whoever gives it. Raises `BadConfig`."""

    prefix: str = "redbike"  # of all keys in Redis
    worker: str | None = None  # package.module:Class('init string')
    timefile: str | None = None
    default_timeout: float = 10.0  # seconds that a run may take
    timezone: str = "UTC"  # of times that name none
    catchup: str = "last"  # what becomes of occurrences that were missed: last, none, all
    catchup_limit: int = 100  # how many missed ones `all` runs
    on_error: str | None = None  # stop, reschedule, retry; None: as the worker class says, else stop
    retries: int = 3
    backoff: float = 1.0  # seconds before the first retry; each further pause is twice as long
    on_timeout: str | None = None  # stop, reschedule, requeue; None: as the worker class says, else stop
    on_lost: str = "requeue"  # requeue, reschedule, stop
    failures_limit: int = 1000  # failures that are kept
    log_level: str = "info"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field.name, getattr(self, field.name)))


@dataclass(frozen=True, slots=True)
class Config:
    """All that a command needs to know: the settings, and the server as a URL or as redis-py's arguments."""

    settings: Settings
    redis: str | dict[str, str] | None
    warnings: tuple[str, ...] = ()
    folder: str | None = None  # that of the config file, if it names the worker


def load(path: str | None, environ: Mapping[str, str], url: str | None = None, **overrides: Any) -> Config:
    """Read the file at `path`, or ``.redbike.conf`` if it is None and there is one; what is given otherwise wins.

    `overrides` are settings by name, None for those that were not given. Raises `BadConfig`.
    """
    parser = _read(path)
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = Settings(**(_ours(parser) | given))
    server = url or environ.get("REDBIKE_URL") or environ.get("REDIS_URL") or _connection(parser)
    is_from_file = given.get("worker") is None and settings.worker is not None
    folder = os.path.dirname(os.path.abspath(DEFAULT_FILE if path is None else path)) if is_from_file else None
    return Config(settings, server, tuple(_strange_sections(parser)), folder)


def _read(path: str | None) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, default_section="", strict=True)
    name = DEFAULT_FILE if path is None else path
    if path is None and not os.path.exists(name):
        return parser
    try:
        parser.read_string(Path(name).read_text(encoding="utf-8-sig"), source=name)
    except OSError as error:
        raise BadConfig(f"cannot read the config file {name!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"cannot read the config file {name!r}: it is not UTF-8") from None
    except configparser.ParsingError as error:
        # By its number alone: a line that is none may have a password in it.
        number = getattr(error, "lineno", None) or error.errors[0][0]
        raise BadConfig(f"bad config file {name!r}: line {number} is no [section], or no key: value in one") from None
    except configparser.Error as error:
        raise BadConfig(f"bad config file {name!r}: {' '.join(str(error).split())}") from None
    return parser


def _strange_sections(parser: configparser.ConfigParser) -> Iterator[str]:
    """A warning for each section that looks like one of ours: other programs may share the file."""
    for section in parser.sections():
        # Not lower: [redis] is less like it than any slip.
        near = difflib.get_close_matches(section.lower(), (OURS, CONNECTION), 1, cutoff=0.8)
        if near and section not in (OURS, CONNECTION):
            yield f"the section {section!r} of the config file is ignored; is {near[0]!r} meant?"


def _ours(parser: configparser.ConfigParser) -> dict[str, str]:
    if not parser.has_section(OURS):
        return {}
    known = [field.name.replace("_", "-") for field in dataclasses.fields(Settings)]
    for key in parser[OURS]:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; is {near[0]!r} meant?" if near else ""
            raise BadConfig(f"unknown setting {key!r} in [{OURS}]{hint}")
    # An empty value is as good as none.
    return {key.replace("-", "_"): value for key, value in parser[OURS].items() if value}


def _connection(parser: configparser.ConfigParser) -> str | dict[str, str] | None:
    if not parser.has_section(CONNECTION):
        return None
    given = {key: value for key, value in parser[CONNECTION].items() if value}
    url = given.pop("url", None)
    if url and given:
        raise BadConfig(f"[{CONNECTION}] has a url and also {sorted(given)[0]!r}: one or the other")
    return url or given or None


def _checked(name: str, value: Any) -> Any:
    key = name.replace("_", "-")
    if name in _LEFT_TO_THE_WORKER and value in (None, ""):
        return None
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise BadConfig(f"bad {key} {value!r}: {', '.join(CHOICES[name])} are allowed")
        return value
    if name in _SECONDS:
        return _number(key, value, *_SECONDS[name], float)
    if name in _COUNTS:
        return _number(key, value, *_COUNTS[name], int)
    if name == "prefix":
        return _prefix(value)
    if name == "timezone":
        return check_zone(value)
    if value is not None and not isinstance(value, str):
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(value, str):
            raise BadConfig(f"bad {key} {value!r}: a text is needed")
    return value or None


def _number(key: str, value: Any, least: float, most: float, kind: type) -> Any:
    try:
        if isinstance(value, bool):
            raise ValueError
        number = kind(value) if isinstance(value, str) else value
        if not (math.isfinite(number) and least <= number <= most and kind(number) == number):
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        raise BadConfig(f"bad {key} {value!r}: a number from {least:g} to {most:g} is needed") from None
    return kind(number)


def _prefix(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode(errors="replace")) <= MAX_PREFIX:
        raise BadConfig(f"bad prefix {value!r:.60}: 1 to {MAX_PREFIX} bytes are needed")
    if not value.isprintable() or any(char in value for char in " *?[]\\"):
        raise BadConfig(f"bad prefix {value!r}: spaces, control characters and any of *?[]\\ are not allowed")
    return value


def check_zone(value: Any) -> str:
    """Return `value` if it names a time zone, else raise `BadConfig`."""
    try:
        ZoneInfo(value)
    except Exception:
        # zoneinfo has a handful of exceptions for what is no zone: a missing file, a folder, a bad key.
        raise BadConfig(f"bad timezone {value!r}: a name such as 'Europe/Berlin' is needed") from None
    return str(value)
