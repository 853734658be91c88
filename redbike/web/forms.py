"""Forms that browsers send: read with a limit, and where they lead to."""

from urllib.parse import parse_qsl, quote, unquote

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from redbike.errors import BadConfig
from redbike.web.requests import get_path

KIND = "application/x-www-form-urlencoded"
MOST_FIELDS = 2000
MOST_BACK = 8192  # characters

Form = ImmutableMultiDict[str, str]


class TooLong(Exception):
    """A form of more bytes than are read."""


async def read_form(request: Request, most: int) -> Form:
    """Return the fields of a form of at most `most` bytes. Raise `TooLong`, and `BadConfig` for what is no form."""
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


def name_place(request: Request) -> str:
    """Return the address of what is shown, relative to the root of the site."""
    path, query = quote(get_path(request.scope).lstrip("/")), request.scope["query_string"].decode("ascii", "replace")
    return f"{path}?{query}" if query else path


def read_back(form: Form) -> str:
    """Return where a form leads back to: a place on this site, relative to its root."""
    back = form.get("back", "")
    path = unquote(back.partition("?")[0])
    is_own = back.isprintable() and len(back) <= MOST_BACK and ":" not in path and "\\" not in path
    # A path that begins with a slash, or leaves its folder, may lead elsewhere.
    return f"./{back}" if is_own and not path.startswith("/") and ".." not in path.split("/") else "./"
