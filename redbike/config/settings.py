"""Read the settings, and define their defaults. The order is: command line, environment, config file, default."""

import configparser
import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

from redbike.config.options import MAX_SECONDS, SETTINGS, parse_options, read_choice, read_number
from redbike.errors import BadConfig
from redbike.text.zone_names import load_zone

DEFAULT_FILE = ".redbike.conf"
VARIABLE = "REDBIKE_"  # what stands before the name of a setting in the environment
SETTINGS_SECTION, REDIS_SECTION = "redbike", "redbike-redis"
MAX_PREFIX = 128  # bytes
MAX_GROUP = 4096  # bytes: as long as a path may be

_OPTIONAL = ("on_error", "retries", "on_timeout", "ping_url")  # the worker class decides on policies that are not given
_LOG = {"log_level": ("debug", "info", "warning", "error", "critical"), "log_format": ("text", "json")}
CHOICES = {name: option.choices for name, option in SETTINGS.items() if option.choices} | _LOG


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default. Raise `BadConfig` for an invalid value, wherever it comes from."""

    prefix: str = "redbike"  #: of all keys in Redis
    worker: str | None = None  #: package.module:Class('init string')
    timefile: str | None = None
    group: str | None = None  #: what the group of a file begins with: NAME:PATH; None: it is the path
    default_timeout: float = 10.0  #: seconds that a run may take
    timezone: str = "UTC"  #: of times without a zone
    catchup: str = "last"  #: which missed occurrences run: last, none, all
    catchup_limit: int = 100  #: the most missed occurrences that `all` runs
    on_error: str | None = None  #: stop, reschedule, retry; None: the worker class decides, the default is stop
    retries: int | None = None  #: before `on_error` decides; None: 3 if that is retry, and else 0
    backoff: float = 1.0  #: seconds before the first retry; each further pause is twice as long
    on_timeout: str | None = None  #: stop, reschedule, requeue; None: the worker class decides, the default is stop
    on_lost: str = "requeue"  #: requeue, reschedule, stop
    max_losses: int = 3  #: losses in a row after which a job has failed for good: it may kill its workers
    stop_after: int = 0  #: failed occurrences in a row that stop a job, whatever the policies say; 0: never
    grace: float = 0.0  #: seconds after which an occurrence that is not enqueued is skipped; 0: none is
    overlap: str = "skip"  #: what comes due during a run: skip, queue
    forget_after: float | str = 7 * 86400.0  #: seconds for which a one-off that has ended is kept, or never
    history: int = 10  #: the most ended runs that are kept of a job; 0 keeps none
    ping_url: str | None = None  #: a URL that is called after each run, see `redbike.config.ping_urls`
    stop_within: float = 0.0  #: seconds that ``redbike work`` waits for runs when it stops; 0: to their deadlines
    failures_limit: int = 1000  #: the most failures that are kept
    log_level: str = "info"
    log_format: str = "text"  #: text, json

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _check_setting(field.name, getattr(self, field.name)))


class KeywordSettings(TypedDict, total=False):
    """The settings that a `redbike.Redbike` takes by their names, for type checkers; see `Settings`."""

    group: str | None
    timezone: str
    catchup: str
    catchup_limit: int
    on_error: str | None
    retries: int | None
    backoff: float
    on_timeout: str | None
    on_lost: str
    max_losses: int
    stop_after: int
    grace: float
    overlap: str
    forget_after: float | str
    history: int
    ping_url: str | None
    stop_within: float
    failures_limit: int
    log_level: str
    log_format: str


# Of all processes of a prefix, as each of them may be the one that places a job.
SHARED = ("catchup", "catchup_limit", "grace", "overlap", "stop_after", "on_lost", "max_losses", "forget_after")


def override(settings: Settings, options: str) -> Settings:
    """Return the settings of a job that has `options`, as they are stored; "" for none."""
    return _override(settings, options) if options else settings


@lru_cache(1024)
def _override(settings: Settings, options: str) -> Settings:
    found = {name.replace("-", "_"): value for name, value in parse_options(options).items()}
    own: dict[str, Any] = {name: value for name, value in found.items() if name in SETTINGS}
    if own.get("on_error") in ("stop", "reschedule"):
        # Whoever says so of a job does not mean the retries of all others.
        own.setdefault("retries", 0)
    return dataclasses.replace(settings, **own)


def describe_shared(settings: Settings) -> dict[str, str]:
    """Return the settings that all processes of a prefix should share, where they are not the defaults.

    Dispatchers, workers and commands place jobs by them. So with different ones the place of a job would depend on
    who places it.
    """
    shown = {name: str(getattr(settings, name)) for name in SHARED}
    return {name.replace("_", "-"): value for name, value in shown.items() if value != get_default(name)}


def get_default(name: str) -> str:
    """Return the default of a setting, as a text. Raise `KeyError` for an unknown one."""
    # To make all settings imports what reads their values.
    return {field.name: str(field.default) for field in dataclasses.fields(Settings)}[name]


@dataclass(frozen=True, slots=True)
class Config:
    """What a command needs: the settings, and the server as a URL or as redis-py's arguments; None: embedded."""

    settings: Settings
    redis: str | dict[str, str] | None
    warnings: tuple[str, ...] = ()
    folder: str | None = None  # the folder of the config file, if that file names the worker


@dataclass(frozen=True, slots=True)
class Examined:
    """A config with defaults in place of what is bad, and all that is wrong with it."""

    config: Config
    problems: tuple[str, ...]
    bad: frozenset[str]  # the names of the settings that are bad
    servers: tuple[tuple[str, str | dict[str, str]], ...]  # who names a server, and which; the first one counts


def load(path: str | None, environ: Mapping[str, str], url: str | None = None, **overrides: Any) -> Config:
    """Return the config: that of the file at `path`, overridden by `environ`, `url` and `overrides`.

    If `path` is None, the file is ``.redbike.conf``, if there is one. `overrides` are settings by name, with None for
    those that are not given. Raise `BadConfig`.
    """
    parser = _read_file(path)
    servers = _list_servers(parser, path, environ, url)
    # A conflict in the file does not matter where the server is named elsewhere.
    is_elsewhere = len(servers) > 1
    for problem in (*_list_unknown(parser), *(() if is_elsewhere else _list_conflicts(parser))):
        raise BadConfig(problem)
    settings = Settings(**(_get_settings(parser) | _get_variables(environ) | _leave_out_none(overrides)))
    return _make_config(parser, path, settings, servers, _get_variables(environ) | overrides)


def examine(path: str | None, environ: Mapping[str, str], url: str | None = None, **overrides: Any) -> Examined:
    """Return what `load` would return, and everything that is wrong with it, where `load` raises the first."""
    problems: list[str] = []
    good: dict[str, Any] = {}
    parser = _read_leniently(path, problems)
    problems += [*_list_unknown(parser), *_list_conflicts(parser)]
    known = {field.name for field in dataclasses.fields(Settings)}
    given = {name: value for name, value in _get_settings(parser).items() if name in known}
    given |= _get_variables(environ) | _leave_out_none(overrides)
    for name, value in given.items():
        try:
            good[name] = _check_setting(name, value)
        except BadConfig as error:
            problems.append(str(error))
    servers = _list_servers(parser, path, environ, url)
    config = _make_config(parser, path, Settings(**good), servers, _get_variables(environ) | overrides)
    return Examined(config, tuple(problems), frozenset(given.keys() - good.keys()), tuple(servers))


def find_server(environ: Mapping[str, str]) -> str | None:
    """Return the URL of the server that the environment names; None if it names none."""
    return next((url for _, url in _list_variables(environ) if url), None)


def find_prefix(environ: Mapping[str, str]) -> str:
    """Return the prefix that the environment names, or else the default."""
    return environ.get(f"{VARIABLE}PREFIX") or Settings().prefix


def _list_variables(environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    return [(name, environ.get(name)) for name in ("REDBIKE_URL", "REDIS_URL")]


def _get_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that the environment names, such as ``REDBIKE_PREFIX``. An empty one is not given."""
    names = [field.name for field in dataclasses.fields(Settings)]
    return {name: value for name in names if (value := environ.get(f"{VARIABLE}{name.upper()}"))}


def _read_leniently(path: str | None, problems: list[str]) -> configparser.ConfigParser:
    """Return what can be read of a config file, and add what is wrong with it to `problems`."""
    try:
        return _read_file(path)
    except BadConfig as error:
        problems.append(str(error))
    try:
        # What is there twice is no reason to look no further.
        return _read_file(path, strict=False)
    except BadConfig:
        return _make_parser(strict=True)


def _leave_out_none(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in overrides.items() if value is not None}


def _make_config(
    parser: configparser.ConfigParser,
    path: str | None,
    settings: Settings,
    servers: Sequence[tuple[str, str | dict[str, str]]],
    overrides: Mapping[str, Any],
) -> Config:
    is_from_file = overrides.get("worker") is None and settings.worker is not None
    folder = os.path.dirname(os.path.abspath(DEFAULT_FILE if path is None else path)) if is_from_file else None
    return Config(settings, servers[0][1] if servers else None, tuple(_warn_of_sections(parser)), folder)


def _make_parser(strict: bool) -> configparser.ConfigParser:
    return configparser.ConfigParser(interpolation=None, default_section="", strict=strict)


def _read_file(path: str | None, strict: bool = True) -> configparser.ConfigParser:
    parser = _make_parser(strict)
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
        # Do not quote the line: it may contain a password.
        # An error of a line before the first section has no list of lines.
        numbers = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", 0)]
        lines = f"line {numbers[0]} is" if len(numbers) == 1 else f"the lines {', '.join(map(str, numbers))} are"
        reason = f"{lines} neither a [section] nor a 'key: value' in one"
        raise BadConfig(f"bad config file {name!r}: {reason}") from None
    except configparser.Error as error:
        raise BadConfig(f"bad config file {name!r}: {' '.join(str(error).split())}") from None
    return parser


def _warn_of_sections(parser: configparser.ConfigParser) -> Iterator[str]:
    """Yield a warning for each misspelt section. Other unknown sections may belong to programs that share the file."""
    for section in parser.sections():
        # With a lower cutoff, even [redis] would count as misspelt.
        similar = difflib.get_close_matches(section.lower(), (SETTINGS_SECTION, REDIS_SECTION), 1, cutoff=0.8)
        if similar and section not in (SETTINGS_SECTION, REDIS_SECTION):
            yield f"the section {section!r} of the config file is ignored; is {similar[0]!r} meant?"


def _list_unknown(parser: configparser.ConfigParser) -> Iterator[str]:
    """Yield a complaint about each key of our section that is no setting."""
    names = [field.name.replace("_", "-") for field in dataclasses.fields(Settings)]
    for key in parser[SETTINGS_SECTION] if parser.has_section(SETTINGS_SECTION) else ():
        if key not in names:
            similar = difflib.get_close_matches(key, names, 1)
            hint = f"; is {similar[0]!r} meant?" if similar else ""
            yield f"unknown setting {key!r} in [{SETTINGS_SECTION}]{hint}"


def _get_settings(parser: configparser.ConfigParser) -> dict[str, str]:
    if not parser.has_section(SETTINGS_SECTION):
        return {}
    # An empty value means that the setting is not given.
    return {key.replace("-", "_"): value for key, value in parser[SETTINGS_SECTION].items() if value}


def _list_servers(
    parser: configparser.ConfigParser, path: str | None, environ: Mapping[str, str], url: str | None
) -> list[tuple[str, str | dict[str, str]]]:
    """Return who names a server, and which one; the first one counts."""
    place = f"[{REDIS_SECTION}] in {DEFAULT_FILE if path is None else path!r}"
    named = (("--url", url), *_list_variables(environ), (place, _get_server(parser)))
    return [(source, server) for source, server in named if server]


def _get_server(parser: configparser.ConfigParser) -> str | dict[str, str] | None:
    given = _get_connection(parser)
    return given.get("url") or given or None


def _get_connection(parser: configparser.ConfigParser) -> dict[str, str]:
    if not parser.has_section(REDIS_SECTION):
        return {}
    return {key: value for key, value in parser[REDIS_SECTION].items() if value}


def _list_conflicts(parser: configparser.ConfigParser) -> Iterator[str]:
    given = sorted(_get_connection(parser).keys() - {"url"})
    if given and "url" in _get_connection(parser):
        yield f"[{REDIS_SECTION}] has a url and also {given[0]!r}: one or the other"


def _check_setting(name: str, value: Any) -> Any:
    key = name.replace("_", "-")
    if name in _OPTIONAL and value in (None, ""):
        return None
    if name in SETTINGS:
        read = SETTINGS[name].read(value)
        return read if isinstance(read, str) or SETTINGS[name].kind == "count" else float(read)
    if name in _LOG:
        return read_choice(key, value, _LOG[name])
    if name == "default_timeout":
        return read_number(key, value, 0.001, MAX_SECONDS, float)
    if name == "stop_within":
        return read_number(key, value, 0, MAX_SECONDS, float)
    if name == "max_losses":
        return read_number(key, value, 1, 1000, int)
    if name == "failures_limit":
        return read_number(key, value, 0, 10_000_000, int)
    if name == "prefix":
        return _check_prefix(value)
    if name == "group":
        return check_group(value) if value else None
    if name == "timezone":
        return check_zone(value)
    if value is not None and not isinstance(value, str):
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(value, str):
            raise BadConfig(f"bad {key} {value!r}: a text is needed")
    return value or None


def _check_prefix(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode(errors="replace")) <= MAX_PREFIX:
        raise BadConfig(f"bad prefix {value!r:.60}: 1 to {MAX_PREFIX} bytes are needed")
    if "://" in value:
        # The rest may contain a password.
        shown = f"{value.partition('://')[0]:.20}://…"
        raise BadConfig(f"bad prefix {shown!r}: that is the URL of a server, which redis_config= takes")
    if not value.isprintable() or any(char in value for char in " *?[]\\"):
        raise BadConfig(f"bad prefix {value!r}: spaces, control characters and any of *?[]\\ are not allowed")
    return value


def check_group(name: object) -> str:
    """Return the name of a group. Raise `BadConfig`."""
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name.encode(errors="replace")) <= MAX_GROUP:
        raise BadConfig(f"bad group {name!r:.80}: one line of 1 to {MAX_GROUP} bytes is needed")
    return name


def check_zone(value: Any) -> str:
    """Return `value` if it names a time zone, else raise `BadConfig`."""
    if not isinstance(value, str) or load_zone(value) is None:
        raise BadConfig(f"bad timezone {value!r:.80}: a name such as 'Europe/Berlin' is needed")
    return value
