"""Calls of other services over HTTP. A GET follows redirections, but to nothing else than HTTP; a POST follows none."""

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import IO, Any, NamedTuple

BUSY = (408, 429)  # answers below 500 after which it is worth trying again


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows a redirection without reading what comes with it, which may have no end."""

    def redirect_request(self, req: urllib.request.Request, fp: IO[bytes], *more: Any) -> urllib.request.Request | None:
        fp.close()
        if req.data is not None:
            # What urllib makes of it is a GET, whose answer would say that the data had come.
            return None
        return super().redirect_request(req, fp, *more)


_SERVICES = (
    urllib.request.ProxyHandler,
    urllib.request.UnknownHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    _RedirectHandler,
    urllib.request.HTTPErrorProcessor,
)


class Answer(NamedTuple):
    """What has come of a call. None of its texts has the URL, which may be a secret."""

    problem: str  # "" if there was none
    is_worth_it: bool = False  # whether to try it again
    status: int = 0


def make_opener() -> urllib.request.OpenerDirector:
    """Return an opener for HTTP only, unlike that of urllib: a service must not redirect to ftp:// or file://."""
    opener = urllib.request.OpenerDirector()
    for service in _SERVICES:
        opener.add_handler(service())
    opener.addheaders = [("User-Agent", "redbike")]
    return opener


def call(
    opener: urllib.request.OpenerDirector, url: str | urllib.request.Request, timeout: float, data: bytes | None = None
) -> Answer:
    """Call a URL, with `data` by POST; do not read the body of the answer. `timeout`: seconds of silence."""
    try:
        with opener.open(url, data, timeout) as answer:
            return Answer("", status=answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        # Not its text, which may have the URL that it was redirected to.
        return Answer(f"the answer is {error.code}", error.code >= 500 or error.code in BUSY, error.code)
    except OSError as error:
        return Answer(f"{getattr(error, 'reason', error)!s:.200}" or type(error).__name__, True)
    except (HTTPException, ValueError) as error:
        # It is no HTTP, or it is redirected to what is no URL; the text may have a URL.
        return Answer(f"the answer is not HTTP ({type(error).__name__})", True)
