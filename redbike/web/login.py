"""The middleware in front of the pages: it checks who may read, who may make changes, and adds security headers.

1. `redbike.web.guard` checks the host, and authenticates the sender.
2. If a token is needed, each request must have one, in the cookie that the login sets, or as ``Authorization: Bearer``.
3. A POST makes a change. It needs at least the role ``operate``, and must not come from a page of another origin. The
   application also checks the key of its form, which belongs to one browser.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redbike.errors import RedbikeError
from redbike.web.guard import CHALLENGE, Guard
from redbike.web.keys import AGE, BROWSER, is_browser, make_browser
from redbike.web.permits import Permit, Refusal, explain_role
from redbike.web.requests import count_bytes, count_depth, get_path, is_own_origin, name_place, read_cookies

log = logging.getLogger("redbike")

READING, KNOWN = ("GET", "HEAD"), ("GET", "HEAD", "POST")
FOR_ALL = ("/login", "/logout")  # paths that need no token, and change no job
MOST_HEADERS, MOST_BODY = 16_384, 1_000_000  # bytes of a request: its URL and headers, and its form
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

FOR_SOME = "this token permits only some jobs, and this page shows all: use it with the API"

Failure = Callable[[Scope], Response]  # from a request, for which no answer could be made
Problem = Callable[[Scope, RedbikeError], Response]  # the same, with the reason
Answer = Callable[[], Awaitable[ASGIApp]]


class Login:
    """Passes allowed requests to `app`, and adds the headers to all answers, also if `app` fails."""

    def __init__(self, app: ASGIApp, guard: Guard, fail: Failure, show: Problem) -> None:
        self._app = app
        self._guard = guard
        self._fail = fail
        self._show = show

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
        scope["state"] = {**scope.get("state", {}), "browser": browser, "permit": Permit()}
        cookies = list[str]()
        answer, fail = partial(self._answer, scope, headers, cookies), partial(self._fail, scope)
        await send_answer(scope, receive, send, answer, fail, "a page could not be shown", cookies)

    async def _answer(self, scope: Scope, headers: Headers, cookies: list[str]) -> ASGIApp:
        refusal = await self._refuse(scope, headers)
        if not (scope["state"]["browser"] or refusal or is_asset(scope)):
            scope["state"]["browser"] = make_browser()
            cookies.append(make_cookie(scope, BROWSER, scope["state"]["browser"]))
        return refusal or self._app

    async def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a refused request; None if the request may pass."""
        path, method = get_path(scope), scope["method"]
        if count_bytes(scope) > MOST_HEADERS:
            return say(431, "this request is too long")
        if found := self._guard.refuse_host(headers):
            return say(found.status, found.text, found.headers)
        if method not in KNOWN:
            return say(405, "only GET, HEAD and POST are supported here", {"allow": ", ".join(KNOWN)})
        if not path:
            last = scope["path"].rpartition("/")[2]
            return Response(status_code=307, headers={"location": f"{quote(last)}/"})
        if path not in FOR_ALL and not is_asset(scope) and (stranger := await self._refuse_stranger(scope, headers)):
            return stranger
        return None if method in READING else self._refuse_change(scope, headers)

    async def _refuse_stranger(self, scope: Scope, headers: Headers) -> Response | None:
        try:
            found = await self._guard.identify(scope, headers, read_cookies(headers, self._guard.keys.session_name))
        except RedbikeError as error:
            return await run_in_threadpool(self._show, scope, error)
        if found is None and get_path(scope) == "/events":
            found = Refusal(401, "the token is needed", CHALLENGE)
        if isinstance(found, Refusal):
            return say(found.status, found.text, found.headers)
        if found is None:
            return lead_to_login(scope)
        if found.jobs:
            return say(403, FOR_SOME)
        scope["state"]["permit"] = found
        return None

    def _refuse_change(self, scope: Scope, headers: Headers) -> Response | None:
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            return say(411, "the length of the form is needed")
        if len(length) > 9 or int(length) > MOST_BODY:
            return say(413, "this form is too long")
        if not is_own_origin(scope, headers):
            return say(403, "this request comes from another page, or a proxy does not pass the header Host on")
        permit: Permit = scope["state"]["permit"]
        if get_path(scope) not in FOR_ALL and not permit.may("operate"):
            return say(403, explain_role(permit, "operate", self._guard.writes))
        return None


def lead_to_login(scope: Scope) -> Response:
    """Redirect to the login, which then leads back."""
    wanted = name_place(scope)
    # The login cannot lead back to a POST.
    to = f"?to={quote(wanted, safe='/')}" if wanted and scope["method"] in READING else ""
    up = "../" * count_depth(scope)
    return Response(status_code=303, headers={"location": f"{up or './'}login{to}"})


def say(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """Return a plain text answer of one line."""
    return PlainTextResponse(f"{text}\n", status, headers)


def is_asset(scope: Scope) -> bool:
    """Tell whether a request is for a static file, which is public, and may be cached."""
    return get_path(scope).startswith("/static/")


def make_cookie(scope: Scope, name: str, value: str, age: int = AGE) -> str:
    """Return the value of a header that sets a cookie for `age` seconds; with `age` 0, it deletes the cookie."""
    path = scope.get("root_path") or "/"
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{name}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"


async def send_answer(
    scope: Scope, receive: Receive, send: Send, answer: Answer, fail: Callable[[], ASGIApp], problem: str,
    cookies: Sequence[str] = ()
) -> None:  # fmt: skip
    """Send what `answer` returns, with `HEADERS`. If that fails, log `problem`, and send what `fail` returns.

    `answer` may add cookies to `cookies`, which are then set.
    """
    is_begun = False

    async def send_complete(message: Message) -> None:
        nonlocal is_begun
        if message["type"] == "http.response.start":
            is_begun = True
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("cache-control", PRIVATE)
            for cookie in cookies:
                headers.append("set-cookie", cookie)
        await send(message)

    try:
        await (await answer())(scope, receive, send_complete)
    except ClientDisconnect:
        return
    except Exception:
        # Do not log the URL, which may name jobs.
        log.exception(problem)
        if not is_begun:
            await fail()(scope, receive, send_complete)
