"""Read the settings: from the command line, else the environment, else the config file, else the default."""

import configparser
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redbike.config.definitions import SETTINGS
from redbike.config.settings import Settings, check_setting
from redbike.errors import BadConfig
from redbike.text.printable import suggest

DEFAULT_FILE = ".redbike.conf"
VARIABLE = "REDBIKE_"  # before the name of a setting in the environment
# Variables that may have secrets: no process of a job or of an alert gets them.
SECRETS = (
    *("REDBIKE_URL", "REDIS_URL", "REDBIKE_DISPATCHER_PING_URL", "REDBIKE_WEB_TOKEN"),
    "REDBIKE_ALERT",
    *(f"{VARIABLE}{name.upper()}" for name, row in SETTINGS.items() if row.kind == "url"),
)
# These describe a run to its command. No file of commands and no crontab can set them, and no command inherits them.
OF_RUN = tuple(
    f"{VARIABLE}{name}"
    for name in ("JOBID", "QUEUE", "DUE", "ATTEMPT", "DEADLINE", "KEY", "DATA", "DATA_FILE", "BACKFILL")
)
OF_FAILURE = ("REDBIKE_OUTCOME", "REDBIKE_ERROR")  # only the command of ``on-failure`` gets these
# The variables that people set: these, and one for each setting.
SET_BY_PEOPLE = (
    *("REDBIKE_URL", "REDBIKE_SERVER", "REDBIKE_WEB_TOKEN", "REDBIKE_WATCHDOG_FILE", "REDBIKE_DISPATCHER_PING_URL"),
    *(f"{VARIABLE}{name.upper()}" for name in SETTINGS),
)
SETTINGS_SECTION, REDIS_SECTION = "redbike", "redbike-redis"


@dataclass(frozen=True, slots=True)
class Config:
    """What a command needs: the settings, and the server as a URL or as redis-py's arguments; None: embedded."""

    settings: Settings
    redis: str | dict[str, str] | None
    warnings: tuple[str, ...] = ()
    folder: str | None = None  # the folder of the config file, if that file names the worker


@dataclass(frozen=True, slots=True)
class Examined:
    """A config with defaults in place of invalid values, and all its problems."""

    config: Config
    problems: tuple[str, ...]
    bad: frozenset[str]  # the names of the settings that are bad
    servers: tuple[tuple[str, str | dict[str, str]], ...]  # each source, and the server that it names; the first counts


def load(path: str | None, environ: Mapping[str, str], url: str | None = None, **overrides: Any) -> Config:
    """Return the config of the file at `path`, overridden by `environ`, `url` and `overrides`.

    If `path` is None, the file is ``.redbike.conf``, if there is one. `overrides` are settings by name, with None for
    those that are not given. Raise `BadConfig`.
    """
    parser = _read_file(path)
    servers = _list_servers(parser, path, environ, url)
    # A conflict in the file does not matter where the server is named elsewhere.
    is_elsewhere = len(servers) > 1
    conflicts = () if is_elsewhere else _list_conflicts(parser)
    for problem in (*_check_url(url), *_list_unknown(parser), *_find_quoted(parser).values(), *conflicts):
        raise BadConfig(problem)
    elsewhere = _get_variables(environ) | _leave_out_none(overrides)
    settings = Settings(**(_get_settings(parser) | elsewhere))
    return _make_config(path, settings, servers, elsewhere, _list_warnings(parser, environ))


def examine(path: str | None, environ: Mapping[str, str], url: str | None = None, **overrides: Any) -> Examined:
    """Return the config with all its problems; `load` raises the first of them."""
    problems: list[str] = []
    good: dict[str, Any] = {}
    parser = _read_leniently(path, problems)
    quoted = _find_quoted(parser)
    problems += [*_check_url(url), *_list_unknown(parser), *quoted.values(), *_list_conflicts(parser)]
    given: dict[str, Any] = {name: value for name, value in _get_settings(parser).items() if name in SETTINGS}
    elsewhere = _get_variables(environ) | _leave_out_none(overrides)
    given |= elsewhere
    for name, value in given.items():
        if name in quoted and name not in elsewhere:
            continue
        try:
            good[name] = check_setting(name, value)
        except BadConfig as error:
            problems.append(str(error))
    servers = _list_servers(parser, path, environ, url)
    config = _make_config(path, Settings(**good), servers, elsewhere, _list_warnings(parser, environ))
    return Examined(config, tuple(problems), frozenset(given.keys() - good.keys()), tuple(servers))


def find_server(environ: Mapping[str, str]) -> str | None:
    """Return the URL of the server that the environment names; None if it names none."""
    return next((url for _, url in _list_variables(environ) if url), None)


def find_prefix(environ: Mapping[str, str]) -> str:
    """Return the prefix that the environment names, or else the default."""
    return environ.get(f"{VARIABLE}PREFIX") or Settings().prefix


def find_unread(environ: Mapping[str, str]) -> list[str]:
    """Return which of "server" and "prefix" the config file of this folder sets, unlike environment and defaults."""
    if not os.path.exists(DEFAULT_FILE):
        return []
    try:
        config = load(None, environ)
        folder = os.path.realpath(str(config.redis or "").removeprefix("embedded:") or ".redbike")
    except ValueError:
        return []  # a command that reads the file reports its error
    is_elsewhere = config.redis != find_server(environ) and folder != os.path.realpath(".redbike")
    return ["server"] * is_elsewhere + ["prefix"] * (config.settings.prefix != find_prefix(environ))


def _list_variables(environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    return [(name, environ.get(name)) for name in ("REDBIKE_URL", "REDIS_URL")]


def _get_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the environment, such as ``REDBIKE_PREFIX``. An empty variable counts as not given."""
    return {name: value for name in SETTINGS if (value := environ.get(f"{VARIABLE}{name.upper()}"))}


def _read_leniently(path: str | None, problems: list[str]) -> configparser.ConfigParser:
    """Return what can be read of a config file, and add its errors to `problems`."""
    try:
        return _read_file(path)
    except BadConfig as error:
        problems.append(str(error))
    try:
        # If a section or a key is there twice, the rest can still be read.
        return _read_file(path, strict=False)
    except BadConfig:
        return _make_parser(strict=True)


def _leave_out_none(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in overrides.items() if value is not None}


def _make_config(
    path: str | None,
    settings: Settings,
    servers: Sequence[tuple[str, str | dict[str, str]]],
    elsewhere: Mapping[str, Any],
    warnings: Sequence[str],
) -> Config:
    is_from_file = "worker" not in elsewhere and settings.worker is not None
    folder = os.path.dirname(os.path.abspath(DEFAULT_FILE if path is None else path)) if is_from_file else None
    return Config(settings, servers[0][1] if servers else None, tuple(warnings), folder)


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
    except configparser.Error as error:
        raise BadConfig(f"bad config file {name!r}: {explain_ini(error)}") from None
    _place_files(parser, os.path.dirname(name))
    return parser


def _place_files(parser: configparser.ConfigParser, folder: str) -> None:
    """Make relative paths in a config file relative to its folder: so each process that reads it means the same."""
    for section, key, scheme in ((SETTINGS_SECTION, "timefile", ""), (REDIS_SECTION, "url", "embedded:")):
        value = parser.get(section, key, fallback="")
        if value.startswith(scheme) and (named := value.removeprefix(scheme)) and named[0] not in "'\"":
            parser.set(section, key, scheme + os.path.join(folder, named))


def explain_ini(error: configparser.Error, shows: bool = False) -> str:
    """Return which line of an INI file is bad, and why. `shows` quotes the line, which may contain a password."""
    if isinstance(error, configparser.DuplicateSectionError):
        return f"line {error.lineno}: the section {error.section!r:.80} is there already"
    if isinstance(error, configparser.DuplicateOptionError):
        return f"line {error.lineno}: {error.option!r:.80} is there already in the section {error.section!r:.80}"
    # An error of a line before the first section has no list of lines.
    found = getattr(error, "errors", None) or [(getattr(error, "lineno", 0), getattr(error, "line", ""))]
    numbers = ", ".join(str(number) for number, _ in found)
    lines = f"line {numbers} is" if len(found) == 1 else f"the lines {numbers} are"
    quoted = f": {_quote(found[0][1])[:80]}" if shows else ""
    return f"{lines} neither a [section] nor a 'key: value' in one{quoted}"


def _quote(line: str) -> str:
    """Return a bad line in quotes; before Python 3.13, the line in a `ParsingError` has them already."""
    is_quoted = line[:1] in ("'", '"') and line[-1] == line[0] and line.isprintable()
    return line if is_quoted else repr(line)


def _list_warnings(parser: configparser.ConfigParser, environ: Mapping[str, str]) -> list[str]:
    return [*_warn_of_sections(parser), *_warn_of_variables(environ)]


def _warn_of_sections(parser: configparser.ConfigParser) -> Iterator[str]:
    """Yield a warning for each misspelt section. Other unknown sections may belong to programs that share the file."""
    for section in parser.sections():
        # With a lower cutoff, even [redis] would count as misspelt.
        similar = difflib.get_close_matches(section.lower(), (SETTINGS_SECTION, REDIS_SECTION), 1, cutoff=0.8)
        if similar and section not in (SETTINGS_SECTION, REDIS_SECTION):
            yield f"the section {section!r} of the config file is ignored; is {similar[0]!r} meant?"


def _warn_of_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each misspelt variable that is not empty, without its value, which may be secret."""
    known = {*SET_BY_PEOPLE, *OF_RUN, *OF_FAILURE}
    for name in sorted(environ.keys() - known):
        # With a lower cutoff, foreign variables would count as misspelt: Kubernetes sets some for each service.
        if name.startswith(VARIABLE) and environ[name]:
            for similar in difflib.get_close_matches(name.upper(), SET_BY_PEOPLE, 1, cutoff=0.89):
                begins_alike = name[len(VARIABLE)].upper() == similar[len(VARIABLE)]
                if begins_alike and not name.startswith((f"{similar}_", f"{similar}S")):
                    yield f"the variable {name!r:.80} is ignored; is {similar!r} meant?"


def _list_unknown(parser: configparser.ConfigParser) -> Iterator[str]:
    """Yield a complaint about each key of our section that is no setting."""
    names = [row.name for row in SETTINGS.values()]
    for key in parser[SETTINGS_SECTION] if parser.has_section(SETTINGS_SECTION) else ():
        if key not in names:
            yield f"unknown setting {key!r} in [{SETTINGS_SECTION}]{suggest(key, names)}"


def _find_quoted(parser: configparser.ConfigParser) -> dict[str, str]:
    """Return a complaint by name for each setting with quotes around its value, which would be a part of the value.

    The value of ``alert`` may have quotes, because a command is split there as by a shell.
    """
    return {
        name: f"bad {SETTINGS[name].name} in [{SETTINGS_SECTION}]: leave out the quotes around its value"
        for name, value in _get_settings(parser).items()
        if name in SETTINGS and name != "alert" and value[0] in "'\"" and value[0] == value[-1]
    }


def _get_settings(parser: configparser.ConfigParser) -> dict[str, str]:
    if not parser.has_section(SETTINGS_SECTION):
        return {}
    # An empty value means that the setting is not given.
    return {key.replace("-", "_"): value for key, value in parser[SETTINGS_SECTION].items() if value}


def _list_servers(
    parser: configparser.ConfigParser, path: str | None, environ: Mapping[str, str], url: str | None
) -> list[tuple[str, str | dict[str, str]]]:
    """Return each source that names a server, and that server; the first one counts."""
    place = f"[{REDIS_SECTION}] in {DEFAULT_FILE if path is None else path!r}"
    named = (("--url", url), *_list_variables(environ), (place, _get_server(parser)))
    return [(source, server) for source, server in named if server]


def _check_url(url: str | None) -> Iterator[str]:
    """Yield a complaint about an empty URL on the command line, which an unset variable may cause."""
    if url == "":
        yield "bad --url '': the URL of a server is needed"


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
        yield f"[{REDIS_SECTION}] has a url and also {given[0]!r}: give only one of them"
