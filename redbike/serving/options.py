"""Convert redis-py's arguments from text: from the options of a URL, or from the config file."""

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
# A URL has these in another place, or they are for a pool that is not used.
_NOT_IN_URLS = {"host", "port", "ssl", "timeout", "unix_socket_path"}
# Ignored, as only the loops retry; a URL may be shared with other programs.
_OF_NO_EFFECT = {"retry_on_error", "retry_on_timeout"}


def convert(name: str, value: Any) -> Any:
    """Convert a text to the type that redis-py takes; return other values unchanged. Raise `BadConfig`."""
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
    """Raise `BadConfig` for a connection setting that redis-py does not know; suggest the most similar one."""
    for name in sorted(given):
        if name not in known:
            raise BadConfig(f"unknown connection setting {quoted(name)}{suggest_name(name, sorted(known))}")


def parse_options(url: str) -> dict[str, Any]:
    """Return the options behind the ``?`` of `url`, converted. Raise `BadConfig` for an unknown one."""
    options = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    known = ({*NAMES, *URL_QUERY_ARGUMENT_PARSERS}) - _NOT_IN_URLS
    for name in options:
        if name not in known:
            raise BadConfig(f"unknown option {quoted(name)}{suggest_name(name, sorted(known))}")
    return {name: _convert_option(name, value) for name, value in options.items() if name not in _OF_NO_EFFECT}


def _convert_option(name: str, value: str) -> Any:
    parsers: dict[str, Any] = URL_QUERY_ARGUMENT_PARSERS
    return convert(name, value) if name in NAMES else parsers[name](value)


def suggest_name(name: str, known: list[str]) -> str:
    """Return a hint at the most similar name of `known`, "" if none is similar."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; is {near[0]!r} meant?" if near else ""
