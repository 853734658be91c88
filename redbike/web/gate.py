"""The gate before the page: who may look, who may change something, and what a browser may do with the answer.

1. Without a token, only a loopback name is taken as the Host: a page from elsewhere must not reach it by a name of its
   own that leads here.
2. With a token, every request needs it: as the cookie that the login sets, or as ``Authorization: Bearer``.
3. A request that is not GET or HEAD changes something. It needs the permission to write, an Origin that is this page's
   if it names one, and the token of its form, which belongs to the browser that has got the form.
"""

import hashlib
import hmac
import secrets
import time
from collections import deque
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
READING = ("GET", "HEAD")
SESSION, BROWSER = "redbike-session", "redbike-browser"  # cookies
TRIES, WINDOW = 10, 60.0  # wrong tokens in so many seconds, from all who try; then nobody may try
AGE = 30 * 86400  # seconds for which a browser keeps its cookies
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


class Tries:
    """Counts wrong tokens. Whoever guesses is as slow from many addresses as from one."""

    def __init__(self) -> None:
        self._wrong: deque[float] = deque(maxlen=TRIES)

    def is_over(self) -> bool:
        """Tell whether nobody may try for the moment."""
        return len(self._wrong) == TRIES and time.monotonic() - self._wrong[0] < WINDOW

    def add(self) -> None:
        """Count a wrong one."""
        self._wrong.append(time.monotonic())


class Keys:
    """Makes and checks what belongs to a token, and to a browser. Without a token, its secret is new each time."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._secret = hashlib.sha256(token.encode()).digest() if token else secrets.token_bytes(32)

    @property
    def are_asked_for(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def fits(self, token: str) -> bool:
        """Tell whether this is the token, in a time that says nothing of it."""
        return self._token is not None and hmac.compare_digest(token.encode(errors="replace"), self._token.encode())

    def make_session(self) -> str:
        """Return the cookie of those who have shown the token; it is not the token."""
        return self._sign("session")

    def is_session(self, cookie: str) -> bool:
        """Tell whether a cookie is that."""
        return hmac.compare_digest(cookie.encode(errors="replace"), self.make_session().encode())

    def make_form(self, browser: str) -> str:
        """Return what a form must send that `browser` has got."""
        return self._sign(f"form {browser}")

    def is_form(self, sent: str, browser: str) -> bool:
        """Tell whether a form has sent what it must."""
        return bool(browser) and hmac.compare_digest(sent.encode(errors="replace"), self.make_form(browser).encode())

    def _sign(self, what: str) -> str:
        return hmac.new(self._secret, what.encode(), hashlib.sha256).hexdigest()


class Gate:
    """Lets requests pass to `app`, and puts the headers on its answers."""

    def __init__(self, app: ASGIApp, keys: Keys, write: bool) -> None:
        self._app = app
        self._keys = keys
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookies = read_cookies(headers.get("cookie", ""))
        browser = cookies.get(BROWSER, "")
        is_new = not is_browser(browser)
        if is_new:
            browser = secrets.token_hex(16)
        scope["state"] = {**scope.get("state", {}), "browser": browser}
        refusal = self._refuse(scope, headers, cookies)
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        path = scope.get("root_path") or "/"
        cookie = f"{BROWSER}={browser}; Path={path}; Max-Age={AGE}; HttpOnly; SameSite=Lax{secure}" if is_new else ""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                sent.setdefault("cache-control", PRIVATE)
                if cookie:
                    sent.append("set-cookie", cookie)
            await send(message)

        await (refusal or self._app)(scope, receive, answer)

    def _refuse(self, scope: Scope, headers: Headers, cookies: dict[str, str]) -> Response | None:
        """Return the answer to a request that may not pass; None for one that may."""
        path = get_path(scope)
        if not self._keys.are_asked_for and read_host(headers.get("host", "")) not in LOOPBACK:
            return say(421, "without a token, this page answers only to localhost: set REDBIKE_WEB_TOKEN")
        is_open = path == "/login" or path.startswith("/static/")
        if self._keys.are_asked_for and not is_open and not self._is_known(headers, cookies):
            return say(401, "the token is needed") if path == "/events" else Login(scope)
        if scope["method"] in READING:
            return None
        if scope["method"] != "POST":
            return say(405, "only GET, HEAD and POST are known here")
        if not is_own_origin(headers):
            return say(403, "this request comes from another page")
        if path != "/login" and not self._write:
            return say(403, "this page only shows: start it with --write to change something")
        return None

    def _is_known(self, headers: Headers, cookies: dict[str, str]) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._keys.fits(token.strip())
        return self._keys.is_session(cookies.get(SESSION, ""))


class Login(Response):
    """Leads to the login, and from there back."""

    def __init__(self, scope: Scope) -> None:
        path, query = get_path(scope), scope["query_string"].decode("ascii", "replace")
        wanted = f"{path.lstrip('/')}?{query}" if query else path.lstrip("/")
        depth = "../" * (path.count("/") - 1)
        super().__init__(status_code=303, headers={"location": f"{depth or './'}login?to={quote(wanted)}"})


def say(status: int, text: str) -> Response:
    """Return an answer of one line."""
    return PlainTextResponse(f"{text}\n", status)


def get_path(scope: Scope) -> str:
    """Return the path of a request below the place where the page is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def read_cookies(header: str) -> dict[str, str]:
    """Return the cookies that a header names; none if it is malformed."""
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}


def is_browser(cookie: str) -> bool:
    """Tell whether a cookie is one that the gate has given."""
    return len(cookie) == 32 and set(cookie) <= set("0123456789abcdef")


def read_host(header: str) -> str:
    """Return the name in the header Host, in lower case, without the port; "" for a malformed one."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_own_origin(headers: Headers) -> bool:
    """Tell whether a request comes from a page of this host, as far as its browser says so."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
