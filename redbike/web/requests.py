"""Read the parts of a request: its path, its host, its cookies and its origin. A client may forge all of them.

The size of a form is limited.
"""

import ipaddress
import re
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from starlette.datastructures import Headers, ImmutableMultiDict
from starlette.requests import Request
from starlette.types import Scope

from redbike.errors import BadConfig
from redbike.schedule.clock import Clock
from redbike.schedule.typed_times import read_time

HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
LONGEST = 2000  # characters of a place to which the login leads
KIND = "application/x-www-form-urlencoded"
MOST_FIELDS = 2000
MOST_BACK = 8192  # characters

Form = ImmutableMultiDict[str, str]


def get_path(scope: Scope) -> str:
    """Return the path of a request below the root path of the page; "" if the slash after the root path is missing."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if not root or not path.startswith(root) or path[len(root) : len(root) + 1] not in ("", "/"):
        return path
    return path[len(root) :]


def count_depth(scope: Scope) -> int:
    """Return how many folders the path of a request is below the root path of the page.

    A quoted slash does not count, because browsers ignore it when they resolve a relative link.
    """
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    return max(0, path.removeprefix(quote(scope.get("root_path", ""))).count("/") - 1)


def count_bytes(scope: Scope) -> int:
    """Return the size of a request in bytes: its path, query and headers, without its form."""
    names = sum(len(name) + len(value) for name, value in scope["headers"])
    return names + len(scope["path"].encode(errors="replace")) + len(scope["query_string"])


def get_client(scope: Scope) -> str:
    """Return the address of the client; "" if it has none."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def read_cookies(headers: Headers, name: str) -> list[str]:
    """Return all cookies of this name. Those of other applications may be malformed, which does not matter."""
    pairs = (part.partition("=") for part in ";".join(headers.getlist("cookie")).split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def check_header(name: str | None, subject: str) -> str | None:
    """Return the name of a header; None for None. Raise `BadConfig`, which names the `subject`, for a bad name."""
    if name is not None and not HEADER.fullmatch(name):
        raise BadConfig(f"bad {subject} {name!r:.80}: the name of a header is needed, such as X-Forwarded-User")
    return name


def read_host(headers: Headers) -> str | None:
    """Return the name in the header Host, in lower case, without port and brackets; None for a malformed one."""
    given = headers.getlist("host")
    found = HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
    return found[1].strip("[]") if found else None


def is_loopback(name: str) -> bool:
    """Tell whether a name or an address always means this machine, whatever DNS says."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def read_bearer(headers: Headers) -> str | None:
    """Return the bearer token in the headers; None for none. Other kinds of authorization are ignored."""
    kind, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else None


def is_own_origin(scope: Scope, headers: Headers) -> bool:
    """Tell whether a request comes from a page of this host, or from a client that is not a browser."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        # No page can forge this header. It is right even if a proxy has replaced the Host.
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        scheme, place, *_ = urlsplit(origin)
    except ValueError:
        return False
    is_downgraded = scope.get("scheme") == "https" and scheme != "https"
    return place.lower() == headers.get("host", "").lower() and not is_downgraded


def is_target(text: str) -> bool:
    """Tell whether a text is a link to a place on this site, relative to its root."""
    path = text.partition("?")[0].partition("#")[0]
    return len(text) <= LONGEST and text.isprintable() and _stays(path) and _stays(unquote(path))


def _stays(path: str) -> bool:
    parts = path.split("/")
    return "\\" not in path and "" not in parts[:-1] and not {".", ".."} & set(parts)


class TooLong(Exception):
    """A form has more bytes than allowed."""


async def read_form(request: Request, most: int) -> Form:
    """Return the fields of a form. Raise `TooLong` if it has more than `most` bytes, `BadConfig` if it is no form."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise TooLong
    kind = request.headers.get("content-type", KIND).partition(";")[0].strip().lower()
    try:
        if kind != KIND:
            raise ValueError(f"{KIND} is needed")
        return ImmutableMultiDict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        )
    except ValueError as error:
        raise BadConfig(f"bad form: {error!s:.80}") from None


def name_place(scope: Scope) -> str:
    """Return the URL of a request, relative to the root of the site."""
    path, query = quote(get_path(scope).lstrip("/")), scope["query_string"].decode("ascii", "replace")
    return f"{path}?{query}" if query else path


def read_back(form: Form) -> str:
    """Return the place on this site to which a form leads back, relative to the root."""
    back = form.get("back", "")
    path = unquote(back.partition("?")[0])
    is_own = back.isprintable() and len(back) <= MOST_BACK and ":" not in path and "\\" not in path
    # A path that begins with a slash, or leaves its folder, may lead elsewhere.
    return f"./{back}" if is_own and not path.startswith("/") and ".." not in path.split("/") else "./"


def read_moment(text: str, clock: Clock, looks_back: bool = False) -> tuple[float, str]:
    """Return the instant that a text means, in epoch seconds, and an exact text for it. Raise `BadSchedule`.

    A form shows the exact text, and then sends it. A time such as 22:45 means the next such instant, or the last one
    for a page that `looks_back`.
    """
    found = read_time(text, clock.now, clock.zone, looks_back)
    return found.instant, text if found.is_exact else clock.format(found.instant)
