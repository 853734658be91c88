"""Put the pages together to an ASGI application."""

from functools import partial
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from redbike.errors import RedbikeError
from redbike.redbike import Redbike
from redbike.web.gate import AGE, SESSION, Gate, Keys, Tries
from redbike.web.pages import PAGES, read_target, show_login, show_problem
from redbike.web.rendering import read_asset
from redbike.web.site import Endpoint, Site

KINDS = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
FOREVER = "public, max-age=31536000, immutable"
MOST = 4096  # bytes of a form of the login
UNREACHABLE = 503


def app(bike: Redbike, *, write: bool = False, token: str | None = None, show_data: bool = False) -> Starlette:
    """Return the page on the jobs of `bike`, as an ASGI application.

    With `write` it also changes them. With a `token` it answers only those who have shown it; without, only requests
    for a loopback name. Data of jobs, output and tracebacks are shown with `show_data` alone.
    """
    keys = Keys(token)
    site = Site(bike, keys, write, show_data)
    tries = Tries()
    routes = [Route(f"/{path}", partial(_run, site, endpoint)) for path, endpoint in PAGES.items()]
    return Starlette(
        routes=[
            *routes,
            Route("/static/{name}", _serve_asset),
            Route("/login", partial(_login, site, tries), methods=["GET", "POST"]),
        ],
        middleware=[Middleware(Gate, keys=keys, write=write)],
    )


def _run(site: Site, endpoint: Endpoint, request: Request) -> Response:
    try:
        return endpoint(site, request)
    except RedbikeError as error:
        return show_problem(site, request, error)


def _serve_asset(request: Request) -> Response:
    name = request.path_params["name"]
    found = read_asset(name)
    if found is None:
        return PlainTextResponse("no such file\n", 404)
    return Response(found, headers={"cache-control": FOREVER}, media_type=KINDS[name])


async def _login(site: Site, tries: Tries, request: Request) -> Response:
    if request.method != "POST":
        return show_login(site, request, "")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST:
            return PlainTextResponse("this form is too long\n", 413)
    if tries.is_over():
        return show_login(site, request, "Too many wrong tokens. Wait a minute.", 429)
    sent = parse_qs(body.decode("utf-8", "replace"))
    if not site.keys.fits(sent.get("token", [""])[0]):
        tries.add()
        return show_login(site, request, "That is not the token.", 401)
    answer = RedirectResponse(read_target(request), 303)
    path = request.scope.get("root_path") or "/"
    is_secure = request.url.scheme == "https"
    answer.set_cookie(
        SESSION, site.keys.make_session(), AGE, path=path, secure=is_secure, httponly=True, samesite="lax"
    )
    return answer
