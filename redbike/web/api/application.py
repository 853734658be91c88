"""The ASGI application of the API: it authenticates a request, finds its route, and sends the answer."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from urllib.parse import quote, unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from redbike.errors import RedbikeError
from redbike.store.patterns import compile_patterns
from redbike.store.sharded.missing import list_listens, tolerate_missing
from redbike.web.api.calls import JSON, Answer, Call, compile_both, parse_body, read_patterns
from redbike.web.api.events import ALIVE, FIRST, Hub
from redbike.web.api.openapi import EVENTS, HEARD, OPENAPI, make_document
from redbike.web.api.problems import INSIDE, Problem
from redbike.web.api.routes import PREFIX, Given, Route, match
from redbike.web.control import name_person
from redbike.web.guard import CHALLENGE, Guard
from redbike.web.login import MOST_HEADERS, send_answer
from redbike.web.permits import Permit, Refusal, explain_role
from redbike.web.requests import count_bytes, get_path, is_own_origin, read_bearer
from redbike.web.site import Site
from redbike.web.stream import Stream

MOST_BODY = 128 * 1024  # bytes
READING = ("GET", "HEAD")
NO_SUCH = "there is no such path: /api/openapi.json lists all"


class Branch:
    """Passes requests below ``/api`` to the API, and all others to the page."""

    def __init__(self, app: ASGIApp, api: ASGIApp) -> None:
        self._app, self._api = app, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_of_api = scope["type"] == "http" and f"{get_path(scope)}/".startswith(f"{PREFIX}/")
        await (self._api if is_of_api else self._app)(scope, receive, send)


class Api:
    """An ASGI application that answers requests about the jobs of a site, in JSON."""

    def __init__(self, site: Site, guard: Guard) -> None:
        self._site, self._guard = site, guard
        self.hub = Hub(lambda: list_listens(site.bike.store))
        self._document = make_document()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer, fail = partial(self._answer, Request(scope, receive)), Problem(500, INSIDE).answer
        await send_answer(scope, receive, send, answer, fail, "a request of the API could not be answered")

    async def _answer(self, request: Request) -> ASGIApp:
        try:
            return await self._find(request)
        except Problem as problem:
            return problem.answer()
        except RedbikeError as error:
            return Problem.of(error).answer()

    async def _find(self, request: Request) -> ASGIApp:
        scope, headers = request.scope, request.headers
        if count_bytes(scope) > MOST_HEADERS:
            raise Problem(431, "this request is too long")
        if refusal := self._guard.refuse_host(headers):
            raise Problem.refuse(refusal)
        permit = await self._identify(request)
        path = split_path(scope)
        if path in (OPENAPI, EVENTS):
            if request.method not in READING:
                raise Problem(405, "only GET and HEAD are known here", {"allow": ", ".join(READING)})
            check_query(() if path == OPENAPI else HEARD, request.query_params)
            return self._describe(scope) if path == OPENAPI else self._listen(request, permit)
        route, params = _choose(request.method, path)
        self._check(route, permit)
        body = await _read_body(request, route) if route.body else {}
        check_query(route.query, request.query_params)
        who = name_person(request, permit, "api")
        call = Call(self._site, permit, who, headers, request.query_params, params, body)
        handle = partial(_read, route) if request.method in READING else route.handle
        return (await run_in_threadpool(handle, call)).make()

    def _describe(self, scope: Scope) -> ASGIApp:
        # The document names the path below which a proxy serves the site.
        return Answer({**self._document, "servers": [{"url": f"{scope.get('root_path', '')}{PREFIX}"}]}).make()

    async def _identify(self, request: Request) -> Permit:
        found = await self._guard.identify(request.scope, request.headers)
        if isinstance(found, Refusal):
            raise Problem.refuse(found)
        if found is None:
            raise Problem(401, "the token is needed: Authorization: Bearer TOKEN", CHALLENGE)
        is_from_page = read_bearer(request.headers) is None and not is_own_origin(request.scope, request.headers)
        if is_from_page and request.method not in READING:
            raise Problem(403, "this request comes from a page of another site")
        return found

    def _check(self, route: Route, permit: Permit) -> None:
        if not permit.may(route.role):
            raise Problem(403, explain_role(permit, route.role, self._site.write))
        if route.is_whole and permit.jobs:
            raise Problem(403, f"the token{permit.whose} permits only some jobs, and this request is about more")

    def _listen(self, request: Request, permit: Permit) -> ASGIApp:
        wanted = compile_patterns(read_patterns(request.query_params))
        if request.method == "HEAD":
            return Answer(status=204).make()
        listener = self.hub.join(compile_both(wanted, permit.fits))
        if listener is None:
            raise Problem(503, "too many clients listen already", {"retry-after": "10"})

        may_go_on = partial(self._guard.still_permits, request.scope, permit)
        return Stream(listener, FIRST, listener.take, lambda: ALIVE, partial(self.hub.leave, listener), may_go_on)


def _read(route: Route, call: Call) -> Answer:
    """Return the answer of a route that reads. A list names shards that do not answer; others raise `Problem`."""
    with tolerate_missing() as missing:
        answer = route.handle(call)
    if not missing:
        return answer
    if not isinstance(answer.value, dict) or "items" not in answer.value:
        raise Problem.of(next(iter(missing.values())))
    return Answer({**answer.value, "missing": sorted(missing)}, answer.status)


def split_path(scope: Scope) -> list[str]:
    """Return the decoded segments of a path below `PREFIX`. A segment may contain a slash, which was quoted."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    root = quote(str(scope.get("root_path", ""))).encode()
    path = raw.partition(b"?")[0].removeprefix(root).removeprefix(PREFIX.encode())
    return [unquote_to_bytes(part).decode(errors="surrogateescape") for part in path.split(b"/")[1:]]


def _choose(method: str, path: list[str]) -> tuple[Route, Mapping[str, str]]:
    """Return the route of a request, and the parameters in its path. Raise `Problem` if there is no route."""
    found = {route.method: (route, params) for route, params in match(path)}
    if not found:
        raise Problem(404, NO_SUCH)
    if "GET" in found:
        found.setdefault("HEAD", found["GET"])
    if method not in found:
        allowed, verb = ", ".join(sorted(found)), "are" if len(found) > 1 else "is"
        raise Problem(405, f"only {allowed} {verb} known here", {"allow": allowed})
    return found[method]


async def _read_body(request: Request, route: Route) -> Mapping[str, object]:
    """Return the members of the body. Raise `Problem` if it is too long, not JSON, or has unknown members."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise Problem(413, f"this body is too long: {MOST_BODY} bytes are allowed")
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if body and kind != JSON:
        raise Problem(415, f"bad content-type {kind!r:.80}: {JSON} is needed", {"accept": JSON})
    found = parse_body(bytes(body))
    assert route.body is not None
    known = route.body.members
    for name in found:
        if name not in known:
            raise Problem(422, f"unexpected member {name!r:.80}: {_list_known(known)}")
    return found


def check_query(allowed: Iterable[Given], query: QueryParams) -> None:
    """Raise `Problem` for a parameter that is not allowed, or that is repeated and must not be."""
    known = {each.name: each for each in allowed}
    for name in query:
        if name not in known:
            raise Problem(422, f"unexpected parameter {name!r:.80}: {_list_known(known)}")
        if not known[name].may_repeat and len(query.getlist(name)) > 1:
            raise Problem(422, f"the parameter {name!r} is given more than once")


def _list_known(names: Collection[str]) -> str:
    return f"{', '.join(names) or 'none'} {'is' if len(names) == 1 else 'are'} known"
