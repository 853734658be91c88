"""The URLs of ``ping-url``: which are allowed, what is called for each run, and which part may be shown.

Without ``{outcome}`` a URL is called as Healthchecks expects: itself after a success, and with ``/start`` and
``/fail`` at the end of its path. With ``{outcome}`` it is called once after each run.
"""

import re
from typing import Literal
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from redbike.errors import BadConfig

MAX_LENGTH = 2000  # characters

Signal = Literal["start", "fail", ""]  # what Healthchecks gets; "" is a success

_JOBID, _OUTCOME = "{jobid}", "{outcome}"
_RULE = "http:// or https:// and a host are needed; {jobid} and {outcome} may follow"


def split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL that can be called; None for any other text."""
    try:
        parts = urlsplit(url)
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_known and url.isascii() and url.isprintable() and " " not in url else None


def check_ping_url(value: object) -> str:
    """Return `value` if it is a URL that can be called. Raise `BadConfig`, whose message shows no secret."""
    if not isinstance(value, str):
        raise BadConfig(f"bad ping-url {value!r:.80}: {_RULE}")
    if len(value) > MAX_LENGTH:
        raise BadConfig(f"bad ping-url {mask(value)!r}: it has {len(value)} characters, {MAX_LENGTH} are allowed")
    if unknown := re.search(r"[{][^}/]{0,20}[}]?|[}]", value.replace(_JOBID, "").replace(_OUTCOME, "")):
        raise BadConfig(f"bad ping-url {mask(value)!r}: {unknown[0]!r} is neither {{jobid}} nor {{outcome}}")
    parts = split_url(value)
    if parts is None or "{" in parts.netloc:
        raise BadConfig(f"bad ping-url {mask(value)!r}: {_RULE}")
    if "@" in parts.netloc:
        raise BadConfig(f"bad ping-url {mask(value)!r}: it has a login, which is not supported")
    return value


def check_dispatcher_url(value: object) -> str:
    """Return `value` if a dispatcher can call it: it has no place for a job or an outcome. Raise `BadConfig`."""
    url = check_ping_url(value)
    if "{" in url:
        raise BadConfig(
            f"bad ping-url {mask(url)!r}: the ping-url of a dispatcher cannot have {{jobid}} or {{outcome}}"
        )
    return url


def mask(url: str) -> str:
    """Return the part of a URL that is no secret. A person who knows the whole URL can ping, too."""
    scheme = re.match(r"(?:[a-z][a-z0-9+.-]{0,15}://)?", url, re.IGNORECASE)
    assert scheme
    place, *others = re.split(r"[/?#]", url[scheme.end() :], maxsplit=1)
    return f"{scheme[0]}{place.rpartition('@')[2]}"[:80] + ("/…" if any(others) else "")


def wants_outcome(url: str) -> bool:
    """Tell whether the URL has a place for the outcome: then it is called once after each run."""
    return _OUTCOME in url


def fill(url: str, jobid: str, outcome: str) -> str:
    """Return the URL with the job's id and the outcome in their places."""
    return url.replace(_JOBID, quote(jobid, safe=":")).replace(_OUTCOME, outcome)


def add_signal(url: str, signal: Signal) -> str:
    """Return the URL that sends `signal` to Healthchecks."""
    if not signal:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{signal}"))
