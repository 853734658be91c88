"""Read the URL of a server, and quote it without its password."""

import re
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from redbike.errors import BadConfig


def redact(url: str) -> str:
    """Return `url` without its password, wherever the password is, also for a malformed URL."""
    url = re.sub(r"([^?&=]*password[^?&=]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)
    login, at, place = url.rpartition("@")
    if not at:
        return url
    # Everything before the last @ counts as login, as / ? # and @ in a password are often not escaped.
    return re.sub(r"((?:[^/:@]*:?/+)?)([^:]*:)?.*", r"\1\2***", login, count=1, flags=re.DOTALL) + at + place


def check_login(url: str) -> None:
    """Raise `BadConfig` for an unescaped login: a part of it would be parsed as a host or a path."""
    try:
        place = urlsplit(url).netloc
    except ValueError:
        place = ""
    login = url.partition("://")[2].rpartition("@")[0]
    if login and place and "@" not in place and "=" not in login:
        raise BadConfig(f"bad url {redact(url)!r}: / ? # [ ] % in a password are written as %2F %3F %23 %5B %5D %25")


def parse_login(parts: SplitResult) -> dict[str, Any]:
    """Return user and password of a URL, as arguments of redis-py."""
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return {"username": unquote(user) or None, "password": unquote(password) or None}


def parse_addresses(places: str, port: int) -> list[tuple[str, int]]:
    """Return host and port of each of `places`, which have commas between them; `port` is for those that name none."""
    return [_parse_address(place, port) for place in places.split(",")]


def _parse_address(place: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{place}")
    if not parts.hostname:
        raise BadConfig(f"a host is missing before {place!r}" if place else "a host is missing")
    # The port of `urlsplit` raises ValueError if it is none.
    return parts.hostname, parts.port or default
