"""Read the URL of a server, and quote it without its password."""

import re
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from redbike.errors import BadConfig

PORTS = (1, 65535)
ESCAPES = "/ ? # [ ] % in a password are written as %2F %3F %23 %5B %5D %25"


def redact(url: str) -> str:
    """Return `url` without its password, wherever the password is, also for a malformed URL."""
    url = re.sub(r"([^?&=]*password[^?&=]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)
    login, at, place = url.rpartition("@")
    if not at:
        return url
    # Everything before the last @ counts as login, as / ? # and @ in a password are often not escaped.
    return re.sub(r"((?:[^/:@]*:?/+)?)([^:]*:)?.*", r"\1\2***", login, count=1, flags=re.DOTALL) + at + place


def split_url(url: str) -> SplitResult:
    """Split a URL into its parts. `urlsplit` would refuse a URL with several hosts if some of them have brackets."""
    scheme, _, rest = url.partition("://")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    place, slash, path = rest.partition("/")
    return SplitResult(scheme, place, slash + path, query, fragment)


def check_login(url: str) -> None:
    """Raise `BadConfig` for an unescaped login: a part of it would be parsed as a host or a path."""
    place = split_url(url).netloc
    login, at, _ = url.partition("://")[2].removeprefix(place).rpartition("@")
    # The value of an option may have an @; so may the path of a socket, behind a login.
    if at and place and place[-1] != "@" and "=" not in login.partition("?")[2]:
        raise BadConfig(f"bad url {redact(url)!r}: {ESCAPES}")


def explain(url: str, error: Exception) -> str:
    """Return what `error` says of `url`, unless that may quote a part of a password."""
    # What seems to be an option, or an address in brackets, may be one.
    may_leak = "@" in url.partition("?")[2] or "[" in url.rpartition("@")[0]
    return f"an option is bad, or {ESCAPES}" if may_leak else str(error)


def parse_login(parts: SplitResult) -> dict[str, Any]:
    """Return user and password of a URL, as arguments of redis-py."""
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return {"username": unquote(user) or None, "password": unquote(password) or None}


def parse_addresses(places: str, port: int) -> list[tuple[str, int]]:
    """Return host and port of each address in `places`, which commas separate. `port` is the default."""
    return [_parse_address(place, port) for place in places.split(",")]


def _parse_address(place: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{place}")
    if not parts.hostname:
        raise BadConfig(f"a host is missing before {place!r}" if place else "a host is missing")
    check_host(parts.hostname)
    # `parts.port` raises ValueError for an invalid port.
    return parts.hostname, check_port(default if parts.port is None else parts.port)


def check_host(host: str) -> None:
    """Raise `BadConfig` for a name that no host can have."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise BadConfig(f"{host!r} is not a host name") from None


def check_port(port: int) -> int:
    """Return `port`. Raise `BadConfig` if it is invalid."""
    least, most = PORTS
    if not least <= port <= most:
        raise BadConfig(f"bad port {port}: {least} to {most} are allowed")
    return port


def parse_database(path: str) -> int:
    """Return the number of the database in the path of a URL. Raise `BadConfig` for another text."""
    text = path.strip("/")
    if text and not (text.isascii() and text.isdecimal()):
        raise BadConfig(f"{text!r} is not the number of a database")
    return int(text or 0)
