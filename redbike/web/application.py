"""Make the ASGI application, with the pages and the API."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from redbike.errors import BadConfig, RedbikeError, ServerError
from redbike.facade.redbike import Redbike
from redbike.store.sharded.missing import tolerate_missing
from redbike.web.api.application import Api, Branch
from redbike.web.control import Sent
from redbike.web.guard import Asks, Guard
from redbike.web.keys import Keys
from redbike.web.live import Address, Live
from redbike.web.login import FOR_SOME, MOST_BODY, Login, is_asset, make_cookie, say
from redbike.web.pages import FORMS, PAGES, STILL, FormEndpoint, read_target, show_failure, show_login, show_problem
from redbike.web.pages.jobs import find
from redbike.web.permits import Permit
from redbike.web.proxies import Proxies
from redbike.web.rendering import ASSETS, name_asset, read_asset
from redbike.web.requests import TooLong, check_header, get_client, read_form
from redbike.web.site import Endpoint, Site
from redbike.web.stream import Stream, write_retry

FOREVER = "public, max-age=31536000, immutable"
MOST = 4096  # bytes of a form of the login
LONGEST = 4096  # characters of the address of a view


def app(
    bike: Redbike,
    *,
    write: bool = False,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    show_data: bool = False,
    secret: str | None = None,
    who_header: str | None = None,
    api: bool = False,
) -> Starlette:
    """Return the page for the jobs of `bike`, as an ASGI application; with `api`, also the API below ``/api/``.

    Only with `write`, the page makes changes. Only with `show_data`, it shows data, output and tracebacks of jobs.
    With a `token` (16 characters or more), a user has to log in. Tokens of ``redbike token`` are valid too; if there
    are any, and no `hosts`, users also have to log in. Otherwise, the page only answers if the Host is a loopback name.
    With `hosts`, it only answers to these names; ``["*"]`` is for an application that itself checks its users.
    If several processes serve the page with `write` but no `token`, they need the same `secret` for the keys of forms.
    The log names a user by the token and the address, or by the header `who_header`, which a proxy must set, such as
    X-Forwarded-User. Raise `BadConfig`.
    """
    proxies = Proxies(check_header(who_header, "who_header"))
    site = Site(lambda: bike, bike.settings, Keys(token, secret), write, show_data)
    # An application that passes `hosts` authenticates its users itself.
    return make_app(site, hosts, "if any" if hosts is None else "never", proxies, api)


def make_app(
    site: Site,
    hosts: Collection[str] | None = None,
    asks: Asks = "if any",
    proxies: Proxies | None = None,
    api: bool = False,
) -> Starlette:
    """Return the application with the pages of `site`. Raise `BadConfig` if `hosts` is a single text."""
    if isinstance(hosts, str):
        raise BadConfig(f"bad hosts {hosts!r:.80}: a list of names is needed")
    names = None if hosts is None else {host.lower().strip("[]") for host in hosts}
    guard, live = Guard(site.keys, site.book, site.write, names, asks, proxies or Proxies()), make_live(site)
    routes = [Route(f"/{path}", partial(_run, site, endpoint)) for path, endpoint in PAGES.items()]
    middleware = [Middleware(Login, guard=guard, fail=partial(_fail, site), show=partial(_show_problem, site))]
    answers = Api(site, guard)
    if api:
        middleware.insert(0, Middleware(Branch, api=answers))
    starlette = Starlette(
        routes=[
            *routes,
            *(
                Route(f"/{path}", partial(_change, site, endpoint), methods=["POST"])
                for path, endpoint in FORMS.items()
            ),
            Route("/find", partial(_run, site, find)),
            Route("/events", partial(_stream, live, guard)),
            Route("/static/{name}", _serve_asset),
            Route("/login", partial(_login, site, guard), methods=["GET", "POST"]),
            Route("/logout", partial(_log_out, site), methods=["POST"]),
        ],
        middleware=middleware,
        exception_handlers={HTTPException: partial(_refuse, site)},
        lifespan=partial(_lifespan, site, [live.stop, answers.hub.stop]),
    )
    # Such a redirect would have the host and the path as this process sees them, not as the browser does.
    starlette.router.redirect_slashes = False
    # A server that waits for its connections at its end calls `live.stop` first.
    starlette.state.live, starlette.state.site = live, site
    return starlette


def make_live(site: Site) -> Live:
    """Return the live updates for the pages of a site."""

    def render(address: Address) -> str:
        page, query, role = address
        scope = {"type": "http", "method": "GET", "path": f"/{page}", "query_string": query.encode(), "headers": []}
        # All viewers share this page. So it belongs to no browser, and has no key of a form.
        with tolerate_missing():
            answer = PAGES[page](site, Request(scope | {"state": {"browser": "", "permit": Permit("", role)}}))
        return bytes(answer.body).decode()

    def name_time() -> str:
        clock = site.make_clock()
        return clock.name(clock.now)

    return Live(render, lambda wants, is_over: site.bike.store.events.listen(wants, is_over), name_time)


@asynccontextmanager
async def _lifespan(site: Site, ends: Iterable[Callable[[], None]], _: Starlette) -> AsyncIterator[None]:
    with site.background.open():
        yield
    for end in ends:
        end()


async def _stream(live: Live, guard: Guard, request: Request) -> ASGIApp:
    """Answer with a stream of the changes on a page."""
    page, _, query = request.query_params.get("page", "").partition("?")
    if page not in PAGES or page in STILL or len(query) > LONGEST:
        return say(404, "no such page")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    last = request.headers.get("last-event-id") or request.query_params.get("last", "")
    permit: Permit = request.state.permit
    viewer = live.join((page, query, permit.role), last)
    if viewer is None:
        return say(503, "too many browsers follow this page: load it again to update it")
    take, beat = partial(live.take_message, viewer), partial(live.write_beat, viewer)
    may_go_on = partial(guard.still_permits, request.scope, permit)
    return Stream(viewer, write_retry(), take, beat, partial(live.leave, viewer), may_go_on)


def _run(site: Site, endpoint: Endpoint, request: Request) -> Response:
    try:
        with tolerate_missing():
            return endpoint(site, request)
    except RedbikeError as error:
        return show_problem(site, request, error)


def _show_problem(site: Site, scope: Scope, error: RedbikeError) -> Response:
    return show_problem(site, Request(scope), error)


def _refuse(site: Site, request: Request, error: Exception) -> Response:
    """Answer a request without a route."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return say(status, "no such file") if is_asset(request.scope) else show_failure(site, request, status)


def _fail(site: Site, scope: Scope) -> Response:
    """Answer a request that has raised an error."""
    try:
        return show_failure(site, Request(scope), 500)
    except Exception:
        # The templates themselves are broken.
        return say(500, "this page could not be made")


async def _change(site: Site, endpoint: FormEndpoint, request: Request) -> Response:
    """Answer a form that makes a change. The pages make changes in no other way."""
    if not site.write:
        return say(403, "this page is read-only: start it with --write to change something")
    try:
        form = await read_form(request, MOST_BODY)
    except TooLong:
        return say(413, "this form is too long")
    except BadConfig as error:
        return say(400, str(error))
    if not site.keys.is_form(form.get("form", ""), request.state.browser):
        return say(403, "this form comes from another page or another browser: go back, and load the page again")
    return await run_in_threadpool(_run_form, endpoint, Sent(site, request, form))


def _run_form(endpoint: FormEndpoint, sent: Sent) -> Response:
    try:
        return endpoint(sent)
    except ServerError as error:
        # Unlike a page, a form cannot be loaded again. So lead back, and show the error there.
        return sent.refuse(error)
    except RedbikeError as error:
        return show_problem(sent.site, sent.request, error)


def _serve_asset(request: Request) -> Response:
    name = request.path_params["name"]
    found = read_asset(name)
    if found is None:
        return say(404, "no such file")
    # Another query may mean another version of the file.
    is_current = request.url.query == name_asset(name).partition("?")[2]
    return Response(found, headers={"cache-control": FOREVER if is_current else "no-cache"}, media_type=ASSETS[name])


async def _login(site: Site, guard: Guard, request: Request) -> Response:
    try:
        if not await guard.asks():
            return RedirectResponse("./", 303)
        return await _log_in(site, guard, request)
    except RedbikeError as error:
        return await run_in_threadpool(show_problem, site, request, error)


async def _log_in(site: Site, guard: Guard, request: Request) -> Response:
    if request.method != "POST":
        return show_login(site, request, "")
    try:
        given = (await read_form(request, MOST)).get("token", "")
    except TooLong:
        return say(413, "this form is too long")
    except BadConfig:
        given = ""  # it is not a form of this page, so it has no token
    client = get_client(request.scope)
    if guard.tries.is_over(client):
        return show_login(site, request, "Too many wrong tokens. Wait a minute.", 429)
    token = None if site.keys.fits(given) else await run_in_threadpool(guard.book.find_secret, given)
    if token is None and not site.keys.fits(given):
        guard.tries.add(client)
        return show_login(site, request, "That is not the token.", 401)
    if token and token.jobs:
        return show_login(site, request, f"{FOR_SOME[0].upper()}{FOR_SOME[1:]}.", 403)
    session = site.keys.make_session(token.name, token.digest) if token else site.keys.make_session()
    answer = RedirectResponse(read_target(request), 303)
    answer.headers["set-cookie"] = make_cookie(request.scope, site.keys.session_name, session)
    return answer


async def _log_out(site: Site, request: Request) -> Response:
    site.memory.take_notes(request.state.browser)  # another person may use this browser next
    answer = RedirectResponse("./", 303)
    answer.headers["set-cookie"] = make_cookie(request.scope, site.keys.session_name, "", age=0)
    return answer
