"""Settings: their defaults, in one place, and where they come from: command line, environment, file, default."""

import ast
import configparser
import dataclasses
import difflib
import importlib
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from redbike.errors import BadConfig, RedbikeError

DEFAULT_FILE = ".redbike.conf"
OURS, CONNECTION = "redbike", "redbike-redis"
METHODS = ("queue_for", "queue_names", "work", "timeout")
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


def load_worker(spec: str, folder: str | None = None) -> Any:
    """Make the worker that `spec`, ``package.module:Class('init string')``, describes.

    Modules in the current folder are found. `spec` is never evaluated as code: the module is imported, and the class
    called with the literal arguments. Raises `BadConfig` if that fails, or if the class lacks one of the methods of a
    worker class. No message shows an argument: it may be a password.

    A worker class with a method ``use_folder`` is given `folder`, where its relative file names are to be looked for.
    """
    module_name, name, arguments, keywords = _parse_worker(spec)
    wrong = f"bad worker {shown(spec)!r}"
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        # The module is the user's own: it may raise anything.
        raise BadConfig(f"{wrong}: importing {module_name} fails: {_describe(error)}") from error
    maker = getattr(module, name, None)
    # Nothing but a worker class is ever called: os:system('…') is an import path and a literal too.
    if not isinstance(maker, type):
        raise BadConfig(f"{wrong}: {module_name} has no class {name!r}")
    if missing := _missing_method(maker):
        raise BadConfig(f"{wrong}: {name} has no method {missing}()")
    try:
        worker = maker(*arguments, **keywords)
        if folder is not None and callable(getattr(worker, "use_folder", None)):
            worker.use_folder(folder)
    except RedbikeError as error:
        # Ours quote what is wrong, which is the name of a queue or a file.
        raise BadConfig(f"{wrong}: {_describe(error)}") from error
    except Exception as error:
        raise BadConfig(f"{wrong}: {_without(_describe(error), [*arguments, *keywords.values()])}") from error
    return worker


def check_worker(worker: object) -> None:
    """Raise `BadConfig` for a worker that lacks a method of a worker class, or is the class in place of an instance."""
    if isinstance(worker, type):
        name = worker.__name__
        raise BadConfig(f"bad worker: {name} is a class, an instance is needed, such as {name}('A')")
    if missing := _missing_method(worker):
        raise BadConfig(f"bad worker: {type(worker).__name__} has no method {missing}()")


def shown(spec: str) -> str:
    """Return a worker specification as messages quote it: the module and the class, without the arguments."""
    head = re.match(r"[\w.:/-]*", spec)
    rest = spec[head.end() :] if head else spec
    return f"{spec[: len(spec) - len(rest)]}{'(…)' if rest[:1] == '(' else '…' * bool(rest)}"


def _missing_method(worker: object) -> str | None:
    return next((method for method in METHODS if not callable(getattr(worker, method, None))), None)


def _without(message: str, values: list[Any]) -> str:
    """`message` without the literals that are in `values`, at any depth."""
    for value in values:
        if isinstance(value, dict):
            message = _without(message, [*value, *value.values()])
        elif isinstance(value, list | tuple | set):
            message = _without(message, list(value))
        elif value not in (None, True, False, "", b""):
            message = message.replace(repr(value), "…")
            # A short one in the middle of other words gives nothing away.
            message = re.sub(rf"(?<!\w){re.escape(str(value))}(?!\w)", "…", message)
            message = message.replace(str(value), "…") if len(str(value)) >= 4 else message
    return message


def _parse_worker(spec: str) -> tuple[str, str, list[Any], dict[str, Any]]:
    wrong = BadConfig(f"bad worker {shown(spec)!r}: package.module:Class('init string') is needed")
    module_name, colon, call = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in module_name.split(".")):
        raise wrong
    try:
        node = ast.parse(call.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return module_name, node.id, [], {}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise wrong
        arguments = [ast.literal_eval(argument) for argument in node.args]
        keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
        if len(keywords) != len(node.keywords):
            raise wrong
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise wrong from None
    return module_name, node.func.id, arguments, keywords


def _describe(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
