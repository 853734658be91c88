"""Convert redis-py's arguments from text: from the options of a URL, or from the config file."""

import inspect
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import redis
from redis.connection import URL_QUERY_ARGUMENT_PARSERS

from redbike.connection.urls import PORTS, split_url
from redbike.errors import BadConfig, quoted
from redbike.text.parsing import is_number
from redbike.text.paths import make_absolute, make_absolute_socket
from redbike.text.printable import suggest

_BOOLEANS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}
# The least and the most that make sense.
_LIMITS = {
    "db": (0, 2**31),
    "health_check_interval": (0, 1e9),
    "port": PORTS,
    "socket_connect_timeout": (0.001, 1e6),
    "socket_read_size": (1, 2**30),
    "socket_timeout": (0.001, 1e6),
}


def _parse_tls_version(text: str) -> ssl.TLSVersion:
    if text.isdecimal():
        return ssl.TLSVersion(int(text))
    return ssl.TLSVersion[text.replace(".", "_")]


def _parse_flags(text: str) -> list[ssl.VerifyFlags]:
    return [ssl.VerifyFlags[name.strip()] for name in text.split(",")]


def _parse_keepalive(text: str) -> dict[int, int]:
    found = [re.fullmatch(r"(TCP_KEEP[A-Z]+)=(\d+)", pair.strip(), re.ASCII) for pair in text.split(",")]
    if not all(pair and 1 <= int(pair[2]) <= 32767 for pair in found):
        raise ValueError(text)
    return {getattr(socket, pair[1]): int(pair[2]) for pair in found if pair}


# By name: how the text is parsed, and what it looks like.
_PARSED: dict[str, tuple[Callable[[str], Any], str]] = {
    "socket_keepalive_options": (_parse_keepalive, "TCP_KEEPIDLE=60,TCP_KEEPINTVL=10,TCP_KEEPCNT=3"),
    "ssl_exclude_verify_flags": (_parse_flags, "VERIFY_X509_STRICT,VERIFY_X509_PARTIAL_CHAIN"),
    "ssl_include_verify_flags": (_parse_flags, "VERIFY_X509_STRICT,VERIFY_X509_PARTIAL_CHAIN"),
    "ssl_min_version": (_parse_tls_version, "TLSv1.2 or TLSv1.3"),
}
# redis-py's annotations begin with the type: "float | None", "Optional[float]".
_ANNOTATION = re.compile(r"(?:<class ')?(?:typing\.)?(?:Optional\[|Union\[)?(bool|int|float|str)\b")
_TYPES = {
    name: {"bool": bool, "int": int, "float": float, "str": str}[found[1]]
    for name, parameter in inspect.signature(redis.Redis.__init__).parameters.items()
    if (found := _ANNOTATION.match(str(parameter.annotation)))
    and name != "single_connection_client"  # threads share a client
} | {"health_check_interval": float}
NAMES = sorted({*_TYPES, *_PARSED})
# A URL has these in another part, or they are for a pool that Redbike does not use.
_NOT_IN_URLS = {"host", "port", "ssl", "timeout", "unix_socket_path"}
# Ignored and not refused, as other programs may use the same URL. Only the loops retry.
_IGNORED = {"retry_on_error", "retry_on_timeout"}
# These files are also opened at later connections, when a job may have changed the current folder.
_PATHS = {
    "ssl_ca_certs": make_absolute,
    "ssl_ca_path": make_absolute,
    "ssl_certfile": make_absolute,
    "ssl_keyfile": make_absolute,
    "unix_socket_path": make_absolute_socket,
}


def convert(name: str, value: Any) -> Any:
    """Return `value` of the option `name` in the type that redis-py needs. Raise `BadConfig` for an invalid text.

    A value that is not a text is returned unchanged. Raise `BadConfig` also for a number that makes no sense.
    """
    if is_number(value):
        return _check_limits(name, value)
    if not isinstance(value, str) or _TYPES.get(name) is str:
        return _PATHS[name](value) if name in _PATHS and value and isinstance(value, str) else value
    if _TYPES.get(name) in (int, float):
        try:
            number = _TYPES[name](value)
        except ValueError:
            raise BadConfig(f"bad connection setting {name} {value!r}: a number is needed") from None
        return _check_limits(name, number)
    if _TYPES.get(name) is bool:
        if value.lower() not in _BOOLEANS:
            raise BadConfig(f"bad connection setting {name} {value!r}: yes or no is needed")
        return _BOOLEANS[value.lower()]
    if name in _PARSED:
        parse, example = _PARSED[name]
        try:
            return parse(value)
        except (ValueError, KeyError, AttributeError):
            raise BadConfig(f"bad connection setting {name} {value!r}: a value such as {example} is needed") from None
    raise BadConfig(f"the connection setting {name!r} cannot be given as a text")


def _check_limits(name: str, number: float) -> float:
    if name in _LIMITS:
        least, most = _LIMITS[name]
        # Also false for NaN.
        if not least <= number <= most:
            raise BadConfig(f"bad connection setting {name} {number!r}: {least:g} to {most:g} are allowed")
    return number


def check_names(given: Mapping[str, Any], names: set[str]) -> None:
    """Raise `BadConfig` for a connection setting that redis-py does not know; suggest the most similar one."""
    for name in sorted(given):
        if name not in names:
            raise BadConfig(f"unknown connection setting {quoted(name)}{suggest(name, sorted(names))}")


def list_arguments() -> set[str]:
    """Return the names of redis-py's arguments."""
    return set(inspect.signature(redis.Redis.__init__).parameters) - {"self"}


def list_bad_arguments(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with each of redis-py's arguments; a client that is made with them raises the first."""
    problems = []
    for name, value in given.items():
        try:
            check_names({name: value}, list_arguments())
            convert(name, value)
        except BadConfig as error:
            problems.append(str(error))
    return problems


def parse_options(url: str, *others: str) -> dict[str, Any]:
    """Return the options behind the ``?`` of `url`, converted. Raise `BadConfig` for an unknown or invalid one.

    `others` are the names of options that redis-py does not have; their values stay texts.
    """
    options = dict(parse_qsl(split_url(url).query, keep_blank_values=True))
    names = ({*NAMES, *URL_QUERY_ARGUMENT_PARSERS, *others}) - _NOT_IN_URLS
    for name in options:
        if name not in names:
            raise BadConfig(f"unknown option {quoted(name)}{suggest(name, sorted(names))}")
    return {
        name: value if name in others else _convert_option(name, value)
        for name, value in options.items()
        if name not in _IGNORED
    }


def _convert_option(name: str, value: str) -> Any:
    parsers: dict[str, Any] = URL_QUERY_ARGUMENT_PARSERS
    return convert(name, value) if name in NAMES else parsers[name](value)
