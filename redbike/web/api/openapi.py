"""The OpenAPI 3.1 document, which describes the API for programs. It is made from the table of routes."""

import re
from collections.abc import Iterable
from typing import Any

from redbike.text import __version__
from redbike.web.api.problems import KIND
from redbike.web.api.routes import PATTERN, ROUTES, Given, Route
from redbike.web.api.schemas import SCHEMAS, TEXT, Schema, describe_list, refer
from redbike.web.stream import BEAT

OPENAPI, EVENTS = ["openapi.json"], ["events"]  # paths that are not in the table; the second is a stream
HEARD = (PATTERN,)  # the parameters of the events
EXPLAINED = {
    "id": "The id of a job; a slash in it is %2F",
    "name": "The name of a queue; with the stock workers, a short name such as `A` is enough",
}
HOW = (
    "Roles: `read` lists, `operate` also runs, cancels, pauses and resumes, `write` may do all. "
    "Times are epoch seconds. A time in a request may also be a text, such as `22:45`."
)


def make_document() -> dict[str, Any]:
    """Return the OpenAPI document, without ``servers``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route)
    paths["/events"] = {"get": _describe_events()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Redbike", "version": __version__, "description": HOW},
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"It needs the role `{route.role}`.",
        "parameters": [*_list_path(route), *_list_query(route.query)],
        "responses": _list_replies(route),
    }
    if route.body is not None:
        content = {"application/json": {"schema": route.body.describe()}}
        found["requestBody"] = {"required": bool(route.body.required), "content": content}
    return found


def _list_path(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": TEXT, "description": EXPLAINED[name]}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _list_query(query: Iterable[Given]) -> list[Schema]:
    return [
        {
            "name": each.name,
            "in": "query",
            "schema": describe_list(each.schema) if each.may_repeat else each.schema,
            "description": each.text,
        }
        for each in query
    ]


def _list_replies(route: Route) -> dict[str, Any]:
    problem = {"description": "Why the request failed", "content": {KIND: {"schema": refer("Problem")}}}
    if not route.reply:
        return {"204": {"description": "Done"}, "default": problem}
    done = {"description": "Done", "content": {"application/json": {"schema": refer(route.reply)}}}
    created = {"201": {**done, "description": "The job is new"}} if route.may_create else {}
    return {"200": done, **created, "default": problem}


def _describe_events() -> dict[str, Any]:
    said = (
        "Each run that ends is an event `run`, and each change that somebody makes an event `change`, with the schema "
        f"`Event`. A comment is sent if there was nothing else for {BEAT:g} seconds. `listening` says that no event is "
        "missed from now on, `away` that Redis or a shard does not answer, `missing` how many events were dropped."
    )
    content = {"text/event-stream": {"schema": TEXT}}
    return {
        "operationId": "listen",
        "summary": "Events, as they happen",
        "description": said,
        "parameters": _list_query(HEARD),
        "responses": {"200": {"description": "A stream that does not end", "content": content}},
    }
