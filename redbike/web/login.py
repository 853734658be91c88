"""The login before the page: who may look, who may change something, and what a browser may do with the answer.

1. Without a token, only a loopback name is taken as the Host: a page from elsewhere must not reach it by a name of its
   own that leads here. An application that mounts the page may name other hosts.
2. With a token, every request needs it: as the cookie that the login sets, or as ``Authorization: Bearer``.
3. A request that is not GET or HEAD changes something. It needs the permission to write, and must not come from
   another page. The page that it is for also checks the key of its form, which belongs to the browser that has got it.
"""

import logging
from collections.abc import Callable, Collection
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redbike.web.keys import AGE, BROWSER, WINDOW, Keys, Tries, is_browser, make_browser
from redbike.web.requests import (
    count_bytes,
    count_depth,
    get_client,
    get_path,
    is_loopback,
    is_own_origin,
    read_cookies,
    read_host,
)

log = logging.getLogger("redbike")

READING, KNOWN = ("GET", "HEAD"), ("GET", "HEAD", "POST")
FOR_ALL = ("/login", "/logout")  # they change no job
MOST_HEADERS, MOST_BODY = 16_384, 1_000_000  # bytes of a request: its URL and headers, and its form
ANY = "*"  # among the hosts: each
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: then browsers would send no Origin with forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
PRIVATE = "no-store"

Failure = Callable[[Scope], Response]  # from a request, for which no answer could be made


class Login:
    """Lets requests pass to `app`, and puts the headers on its answers, also if it fails."""

    def __init__(
        self, app: ASGIApp, keys: Keys, tries: Tries, write: bool, hosts: Collection[str] | None, fail: Failure
    ) -> None:
        self._app = app
        self._keys = keys
        self._tries = tries
        self._write = write
        self._hosts = hosts
        self._fail = fail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        browser = next(filter(is_browser, read_cookies(headers, BROWSER)), "")
        cookie = ""
        refusal = self._refuse(scope, headers)
        if not (browser or refusal or is_asset(scope)):
            browser = make_browser()
            cookie = make_cookie(scope, BROWSER, browser)
        scope["state"] = {**scope.get("state", {}), "browser": browser}
        is_begun = False

        async def answer(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                _complete(MutableHeaders(scope=message), cookie)
            await send(message)

        try:
            await (refusal or self._app)(scope, receive, answer)
        except ClientDisconnect:
            return
        except Exception:
            # Not its URL, which may name jobs.
            log.exception("a page could not be shown")
            if not is_begun:
                await self._fail(scope)(scope, receive, answer)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that may not pass; None for one that may."""
        path, method = get_path(scope), scope["method"]
        if count_bytes(scope) > MOST_HEADERS:
            return say(431, "this request is too long")
        if refusal := self._refuse_host(headers):
            return refusal
        if method not in KNOWN:
            return say(405, "only GET, HEAD and POST are known here", {"allow": ", ".join(KNOWN)})
        if not path:
            last = scope["path"].rpartition("/")[2]
            return Response(status_code=307, headers={"location": f"{quote(last)}/"})
        if self._keys.are_asked_for and path not in FOR_ALL and not is_asset(scope):
            refusal = self._refuse_stranger(scope, headers)
        if refusal or method in READING:
            return refusal
        return self._refuse_change(scope, headers)

    def _refuse_host(self, headers: Headers) -> Response | None:
        host = read_host(headers)
        if host is None:
            return say(400, "one header Host is needed, with a name or an address")
        if self._hosts is not None:
            is_known = ANY in self._hosts or host in self._hosts
        else:
            is_known = self._keys.are_asked_for or is_loopback(host)
        if is_known:
            return None
        if self._hosts is not None:
            return say(421, "this page does not answer to this host")
        return say(421, "without a token, this page answers only to localhost: set REDBIKE_WEB_TOKEN")

    def _refuse_stranger(self, scope: Scope, headers: Headers) -> Response | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._check_token(scope, token.strip())
        if any(map(self._keys.is_session, read_cookies(headers, self._keys.session_name))):
            return None
        if get_path(scope) == "/events":
            return say(401, "the token is needed", {"www-authenticate": "Bearer"})
        return LoginRedirect(scope)

    def _check_token(self, scope: Scope, token: str) -> Response | None:
        client = get_client(scope)
        if self._tries.is_over(client):
            return say(429, "too many wrong tokens: wait a minute", {"retry-after": str(round(WINDOW))})
        if self._keys.fits(token):
            return None
        self._tries.add(client)
        return say(401, "this is not the token", {"www-authenticate": "Bearer"})

    def _refuse_change(self, scope: Scope, headers: Headers) -> Response | None:
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            return say(411, "the length of the form is needed")
        if len(length) > 9 or int(length) > MOST_BODY:
            return say(413, "this form is too long")
        if not is_own_origin(scope, headers):
            return say(403, "this request comes from another page, or a proxy does not pass the header Host on")
        if get_path(scope) not in FOR_ALL and not self._write:
            return say(403, "this page only shows: start it with --write to change something")
        return None


class LoginRedirect(Response):
    """Leads to the login, and from there back."""

    def __init__(self, scope: Scope) -> None:
        path, query = get_path(scope), scope["query_string"].decode("ascii", "replace")
        wanted = quote(path.lstrip("/")) + (f"?{query}" if query else "")
        # What has changed something cannot be led back to.
        to = f"?to={quote(wanted, safe='/')}" if wanted and scope["method"] in READING else ""
        up = "../" * count_depth(scope)
        super().__init__(status_code=303, headers={"location": f"{up or './'}login{to}"})


def say(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """Return an answer of one line."""
    return PlainTextResponse(f"{text}\n", status, headers)


def is_asset(scope: Scope) -> bool:
    """Tell whether a request is for a file that all may have, and that caches keep."""
    return get_path(scope).startswith("/static/")


def make_cookie(scope: Scope, name: str, value: str, age: int = AGE) -> str:
    """Return the header that sets a cookie of this page, or with `age` 0 deletes it."""
    path = scope.get("root_path") or "/"
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{name}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"


def _complete(headers: MutableHeaders, cookie: str) -> None:
    """Add to an answer what all of them have."""
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("cache-control", PRIVATE)
    if cookie:
        headers.append("set-cookie", cookie)
