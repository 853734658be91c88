"""The settings of a process, as they are read and checked; `redbike.config.definitions` has a row for each."""

import dataclasses
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypedDict

from redbike.config.alert_targets import check_alert
from redbike.config.definitions import (
    SETTINGS,
    Catchup,
    LogFormat,
    LogLevel,
    NoOrYes,
    OnError,
    OnLost,
    OnTimeout,
    Overlap,
)
from redbike.config.options import parse_options
from redbike.errors import BadConfig
from redbike.text.parsing import load_zone, parse_whole

MAX_PREFIX = 128  # bytes
MAX_HOST = 64  # characters
HOST_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_HOST}}}", re.ASCII)
MAX_GROUP = 4096  # bytes: as long as a path may be


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default. Raise `BadConfig` for an invalid value, wherever it comes from."""

    prefix: str = "redbike"  #: of all keys in Redis
    shards: int = 1  #: among which the jobs are divided, each in a slot of a cluster
    worker: str | None = None  #: package.module:Class('init string')
    timefile: str | None = None
    group: str | None = None  #: what the group of a file begins with: NAME:PATH; None: it is the path
    host: str | None = None  #: the name of this host; None: what the system calls it
    default_timeout: float = 10.0  #: seconds that a run may take
    timezone: str = "UTC"  #: of times without a zone
    catchup: Catchup = "last"  #: which missed occurrences run: last, none, all
    catchup_limit: int = 100  #: the most missed occurrences that `all` runs
    on_error: OnError | None = None  #: None: the worker class decides, the default is stop
    retries: int | None = None  #: before `on_error` decides; None: 3 if `on_error` is retry, else 0
    backoff: float = 1.0  #: seconds before the first retry; each further pause is twice as long
    max_backoff: float = 3600.0  #: seconds: the longest pause between two tries
    jitter: float = 0.0  #: the largest share of each pause, from 0 to 1, by which it is shortened at random
    on_timeout: OnTimeout | None = None  #: None: the worker class decides, the default is stop
    on_lost: OnLost = "requeue"  #: requeue, reschedule, stop
    max_losses: int = 3  #: losses in a row after which a job has failed for good: it may kill its workers
    stop_after: int = 0  #: failed occurrences in a row that stop a job, whatever the policies say; 0: never
    grace: float = 0.0  #: seconds after which an occurrence that is not enqueued is skipped; 0: none is
    expires: float = 0.0  #: seconds after which an occurrence that has not begun is skipped; 0: none is
    overlap: Overlap = "skip"  #: what comes due during a run: skip, queue
    forget_after: float | str = 7 * 86400.0  #: seconds for which a one-off that has ended is kept, or never
    history: int = 10  #: the most ended runs that are kept of a job; 0 keeps none
    keep_result: bool | NoOrYes = "no"  #: whether what ``work`` returns is kept with the run: no, yes; or a bool
    output: int | str = 0  #: bytes of the end of its output that are kept with each run of a command; or 16k, off
    ping_url: str | None = None  #: a URL that is called after each run, see `redbike.config.ping_urls`
    alert: str | None = None  #: a command or a URL that gets alerts
    alert_every: float = 3600.0  #: seconds for which the same alert of a job is not repeated
    stop_within: float = 0.0  #: seconds that ``redbike work`` waits for runs when it stops; 0: until their deadlines
    failures_limit: int = 1000  #: the most failures that are kept
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"  #: text, json

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, check_setting(field.name, getattr(self, field.name)))


class KeywordSettings(TypedDict, total=False):
    """The settings that a `redbike.Redbike` takes by their names, for type checkers; see `Settings`."""

    shards: int
    group: str | None
    host: str | None
    timezone: str
    catchup: Catchup
    catchup_limit: int
    on_error: OnError | None
    retries: int | None
    backoff: float
    max_backoff: float
    jitter: float
    on_timeout: OnTimeout | None
    on_lost: OnLost
    max_losses: int
    stop_after: int
    grace: float
    expires: float
    overlap: Overlap
    forget_after: float | str
    history: int
    keep_result: bool | NoOrYes
    output: int | str
    ping_url: str | None
    alert: str | None
    alert_every: float
    stop_within: float
    failures_limit: int
    log_level: LogLevel
    log_format: LogFormat


# All processes of a prefix should have the same: any of them may place a job, or keep runs and failures.
SHARED = (
    "catchup",
    "catchup_limit",
    "grace",
    "expires",
    "overlap",
    "stop_after",
    "on_lost",
    "max_losses",
    "forget_after",
    "history",
    "failures_limit",
)


def override(settings: Settings, options: str) -> Settings:
    """Return the settings of a job with the stored `options`, "" for none: the options override `settings`."""
    return _override(settings, options) if options else settings


@lru_cache(1024)
def _override(settings: Settings, options: str) -> Settings:
    found = {name.replace("-", "_"): value for name, value in parse_options(options).items()}
    own: dict[str, Any] = {name: value for name, value in found.items() if name in SETTINGS}
    if own.get("on_error") in ("stop", "reschedule"):
        # A job with such a policy of its own does not inherit the retries of the settings.
        own.setdefault("retries", 0)
    return _replace(settings, frozenset(own.items())) if own else settings


@lru_cache(1024)
def _replace(settings: Settings, own: frozenset[tuple[str, Any]]) -> Settings:
    # `Settings` checks all its values, which takes time. Jobs that differ in their traceparent share these settings.
    return dataclasses.replace(settings, **dict(own))


def describe_shared(settings: Settings) -> dict[str, str]:
    """Return those of `SHARED` that are not the defaults, as texts: all processes of a prefix should have the same.

    Dispatchers, workers and commands place jobs by them. With different settings, the place of a job would depend on
    the process that places it, and the number of kept runs and failures on the process that ends them.
    """
    shown = {name: str(getattr(settings, name)) for name in SHARED}
    return {name.replace("_", "-"): value for name, value in shown.items() if value != get_default(name)}


def get_default(name: str) -> str:
    """Return the default of a setting, as a text. Raise `KeyError` for an unknown one."""
    return str(SETTINGS[name].default)


def check_setting(name: str, value: Any) -> Any:
    """Return the value of a setting in the type that `Settings` has. Raise `BadConfig`."""
    row = SETTINGS[name]
    if row.default is None and value in (None, ""):
        return None
    if row.kind == "text":
        return _CHECKS.get(name, partial(_check_text, name))(value)
    read = row.read(value)
    return float(read) if row.kind == "duration" and not isinstance(read, str) else read


def _check_text(name: str, value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise BadConfig(f"bad {name} {value!r}: a text is needed")
    return text


def _check_prefix(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode(errors="replace")) <= MAX_PREFIX:
        raise BadConfig(f"bad prefix {value!r:.60}: 1 to {MAX_PREFIX} bytes are needed")
    if "://" in value:
        # The rest may contain a password.
        shown = f"{value.partition('://')[0]:.20}://…"
        raise BadConfig(f"bad prefix {shown!r}: it is the URL of a server; redis_config= takes that")
    if not value.isprintable() or any(char in value for char in " *?[]\\"):
        raise BadConfig(f"bad prefix {value!r}: spaces, control characters and any of *?[]\\ are not allowed")
    return value


def check_group(name: object) -> str:
    """Return the name of a group. Raise `BadConfig`."""
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name.encode(errors="replace")) <= MAX_GROUP:
        raise BadConfig(f"bad group {name!r:.80}: one line of 1 to {MAX_GROUP} bytes is needed")
    return name


def check_host(name: object) -> str:
    """Return the name of a host. Raise `BadConfig`."""
    if not isinstance(name, str) or not HOST_NAME.fullmatch(name) or name.lower() == "all":
        raise BadConfig(
            f"bad host {name!r:.80}: 1 to {MAX_HOST} letters, digits, '-', '.' and '_' are needed, and not 'all'"
        )
    return name


def check_zone(value: Any) -> str:
    """Return `value` if it names a time zone, else raise `BadConfig`."""
    if not isinstance(value, str) or load_zone(value) is None:
        raise BadConfig(f"bad timezone {value!r:.80}: a name such as 'Europe/Berlin' is needed")
    return value


def read_count(name: str, text: str, most: int) -> int:
    """Return the whole number in `text`, from 1 to `most`. Raise `BadConfig`, whose message names `name`."""
    if not (count := parse_whole(text, most)):
        raise BadConfig(f"bad {name} {text!r:.40}: 1 to {most} are allowed")
    return count


_CHECKS: dict[str, Callable[[Any], str]] = {
    "prefix": _check_prefix,
    "group": check_group,
    "host": check_host,
    "timezone": check_zone,
    "alert": check_alert,
}
