"""redis-py's arguments by name, as a text may give them: in a URL behind its ``?``, or in the config file."""

import difflib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redis.connection import URL_QUERY_ARGUMENT_PARSERS

from redbike.errors import BadConfig, quoted

_BOOLEANS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}
_NUMBERS = {
    "db": int,
    "health_check_interval": float,
    "max_connections": int,
    "port": int,
    "protocol": int,
    "socket_connect_timeout": float,
    "socket_read_size": int,
    "socket_timeout": float,
}
_SWITCHES = {
    "decode_responses",
    "legacy_responses",
    "retry_on_timeout",
    "socket_keepalive",
    "ssl",
    "ssl_check_hostname",
    "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled",
}
_TEXTS = {
    "client_name",
    "encoding",
    "encoding_errors",
    "host",
    "lib_name",
    "lib_version",
    "password",
    "ssl_ca_certs",
    "ssl_ca_data",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_ciphers",
    "ssl_keyfile",
    "ssl_password",
    "unix_socket_path",
    "username",
}
NAMES = sorted({*_NUMBERS, *_SWITCHES, *_TEXTS})
# A URL says these otherwise, or means a pool that is not used.
_NOT_IN_URLS = {"host", "port", "ssl", "timeout", "unix_socket_path"}
# Repeating is for the loops to do; a URL that other programs share may say otherwise.
_OF_NO_EFFECT = {"retry_on_error", "retry_on_timeout"}


def typed(name: str, value: Any) -> Any:
    """What a text says, as the type that redis-py takes; what is no text stays as it is. Raises `BadConfig`."""
    if not isinstance(value, str) or name in _TEXTS:
        return value
    if name in _NUMBERS:
        try:
            return _NUMBERS[name](value)
        except ValueError:
            raise BadConfig(f"bad connection setting {name} {value!r}: a number is needed") from None
    if name in _SWITCHES:
        if value.lower() not in _BOOLEANS:
            raise BadConfig(f"bad connection setting {name} {value!r}: yes or no is needed")
        return _BOOLEANS[value.lower()]
    raise BadConfig(f"the connection setting {name!r} cannot be given as a text")


def check_names(given: Mapping[str, Any], known: set[str]) -> None:
    """Raise `BadConfig` for a connection setting that redis-py does not know, with the nearest one that it does."""
    for name in sorted(given):
        if name not in known:
            raise BadConfig(f"unknown connection setting {quoted(name)}{nearest(name, sorted(known))}")


def options_of(url: str) -> dict[str, Any]:
    """The options behind the ``?`` of `url`, typed. Raises `BadConfig` for one that is unknown."""
    options = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    known = ({*NAMES, *URL_QUERY_ARGUMENT_PARSERS}) - _NOT_IN_URLS
    for name in options:
        if name not in known:
            raise BadConfig(f"unknown option {quoted(name)}{nearest(name, sorted(known))}")
    return {name: _parsed(name, value) for name, value in options.items() if name not in _OF_NO_EFFECT}


def _parsed(name: str, value: str) -> Any:
    parsers: dict[str, Any] = URL_QUERY_ARGUMENT_PARSERS
    return typed(name, value) if name in NAMES else parsers[name](value)


def nearest(name: str, known: list[str]) -> str:
    """A hint at the one of `known` that is most like `name`, if any is."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; is {near[0]!r} meant?" if near else ""
