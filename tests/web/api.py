"""A client of the API, as a program has it, the tokens that it shows, and what it says as the page does."""

import json
import re
from urllib.parse import quote

import pytest

from redbike.web import app
from redbike.web.api.routes import ROUTES
from redbike.web.pages.job import COMING
from tests.verbs import add_token
from tests.web.conftest import BASE, TestClient
from tests.web.html import read

JSON = {"content-type": "application/json"}
JOB = "etl/1:A"  # its id has a slash
FILLED = {"id": quote(JOB, safe=""), "name": "A"}
PATH = f"/jobs/{FILLED['id']}"
BODIES = {"set_job": {"schedule": "EVERY:1h"}, "limit_queue": {"at_once": 3}}
STREAM, DOCUMENT = ("GET", "/events"), ("GET", "/openapi.json")


class Api(TestClient):
    """Asks the API of `app`, with the token `secret`; what is answered must be JSON."""

    def __init__(self, app, secret=None, **more):
        super().__init__(app, base_url=BASE, raise_server_exceptions=False, **more)
        if secret:
            self.headers["authorization"] = f"Bearer {secret}"

    def ask(self, method, path, body=None, **headers):
        """The status, and what the answer says."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None if body is None else json.dumps(body)
        answer = self.request(
            method, f"/api{path}", content=content, headers={**(JSON if body is not None else {}), **more}
        )
        if answer.status_code == 204:
            assert answer.content == b""
            return 204, None
        kind = "application/json" if answer.status_code < 400 else "application/problem+json"
        assert answer.headers["content-type"] == kind, answer.text
        found = answer.json()
        if answer.status_code >= 400:
            assert found["status"] == answer.status_code
            assert found.keys() == {"type", "title", "status", "detail"}
            assert "\n" not in found["detail"]
        return answer.status_code, found


def make_token(bike, name="ci", role="read", jobs=(), expires=None):
    return add_token(bike.store.noted_as("me@here"), name, role, jobs, expires)


def list_requests():
    """Each request that the table has: the route, the path, and a body that is good."""
    return [(route, route.path.format(**FILLED), BODIES.get(route.name)) for route in ROUTES]


def list_next(bike, jobid, count=3):
    """The next instants of a job in the API, of which its page lists the same."""
    api = Api(app(bike, api=True))
    items = api.ask("GET", f"/jobs/{jobid}/next?count={count}")[1]["items"]
    answer = api.get("/job", params={"id": jobid})
    read(answer)
    coming = answer.text.partition('id="coming"')[2].partition("</section>")[0]
    shown = [float(at) for at in re.findall(r'<li><time [^>]*data-at="([^"]*)"', coming)]
    assert shown[:count] == pytest.approx(items[:COMING], abs=0.1)
    return items
