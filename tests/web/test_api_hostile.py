"""Hostile requests to the API: each has one line as its answer, that quotes what is wrong, and changes nothing."""

import json
from itertools import product

from redbike.store.cursors import Cursor
from redbike.web import app
from redbike.web.api import lists
from redbike.web.api.application import MOST_BODY
from redbike.web.api.paging import write_cursor
from redbike.web.api.routes import PAGE
from tests.loops import raising
from tests.states import untouched
from tests.web.api import JOB as ETL
from tests.web.api import JSON, Api, list_requests, make_token

SET = {"schedule": "EVERY:1h"}
JOB = "/jobs/a:A"
LONG = "x" * 600

# What is sent, the status, and what of it the answer has.
REQUESTS = [
    # Paths
    ("GET", "", None, 404, "no such path"),
    ("GET", "/", None, 404, "no such path"),
    ("GET", "/jobs/", None, 422, "bad job id ''"),
    ("GET", "/jobs/a:A/", None, 404, "no such path"),
    ("GET", "/jobs/a/b:A", None, 404, "no such path"),
    ("GET", "/jobs//run", None, 405, "POST"),
    ("GET", "/%2e%2e/static/style.css", None, 404, "no such path"),
    ("GET", "/jobs/none:A", None, 404, "no such job: 'none:A'"),
    ("GET", "/jobs/%00", None, 422, "bad job id '\\x00'"),
    ("GET", "/jobs/%ff%fe", None, 422, "not UTF-8"),
    ("GET", f"/jobs/{LONG}", None, 422, "512"),
    ("POST", "/jobs/*/run", None, 404, "no such job: '*'"),
    ("DELETE", "/jobs/%5Ba%5D:A", None, 404, "no such job: '[a]:A'"),
    ("GET", "/queues/nothing", None, 404, "no such queue"),
    ("POST", "/queues/statuses/pause", None, 422, "bad queue name 'statuses'"),
    # Methods
    ("PATCH", JOB, SET, 405, "PUT"),
    ("TRACE", "/jobs", None, 405, "GET"),
    ("GET", "/jobs/a:A/run", None, 405, "POST"),
    ("DELETE", "/events", None, 405, "GET"),
    ("PUT", "/openapi.json", {}, 405, "GET"),
    # Bodies
    ("PUT", JOB, b"", 422, "a schedule is needed"),
    ("PUT", JOB, b"{", 400, "not JSON"),
    ("PUT", JOB, b"[]", 400, "an object is needed"),
    ("PUT", JOB, b"\xff", 400, "not JSON"),
    ("PUT", JOB, b"[" * 100_000, 400, "bad body"),
    ("PUT", JOB, b'{"schedule": NaN}', 400, "NaN"),
    ("PUT", JOB, b'{"schedule": "NOW", "schedule": "STOP"}', 400, "twice"),
    ("PUT", JOB, b" " * (MOST_BODY + 1), 413, "131072"),
    ("PUT", JOB, {"schedule": None}, 422, "a schedule is needed"),
    ("PUT", JOB, {"schedule": 5}, 422, "bad schedule 5"),
    ("PUT", JOB, {"schedule": "every day"}, 422, "every day"),
    ("PUT", JOB, {**SET, "shedule": 1}, 422, "unexpected member 'shedule'"),
    ("PUT", JOB, {**SET, "options": []}, 422, "bad options []"),
    ("PUT", JOB, {**SET, "options": {"retires": 1}}, 422, "unexpected option 'retires'"),
    ("PUT", JOB, {**SET, "options": {"retries": -1}}, 422, "bad retries -1"),
    ("PUT", JOB, {**SET, "options": {"backfill": {"of": "a", "due": 1}}}, 422, "unexpected option 'backfill'"),
    ("PUT", JOB, {**SET, "data": "x" * 70_000}, 422, "65536"),
    ("PUT", JOB, {**SET, "tz": "Nowhere/City"}, 422, "Nowhere/City"),
    ("PUT", JOB, {**SET, "tz": 1}, 422, "bad tz 1"),
    ("PUT", JOB, {**SET, "after": "whenever"}, 422, "whenever"),
    ("PUT", JOB, {**SET, "after": {}}, 422, "bad after {}"),
    (
        "PUT",
        "/jobs/once%2Fx:shell",
        {"schedule": "NOW", "data": {"argv": ["id"]}},
        422,
        "only redbike at, in and now set such ids",
    ),
    ("POST", "/jobs/old:A/pause", {"until": 1}, 422, "bad until"),
    ("POST", "/jobs/old:A/pause", {"until": 10**400}, 422, "bad until 1000"),
    ("POST", "/queues/A/pause", {"until": 10**400}, 422, "bad until 1000"),
    ("PUT", JOB, {**SET, "after": 10**400}, 422, "bad after 1000"),
    ("POST", "/jobs/old:A/pause", {"reason": "a\nb"}, 422, "bad reason"),
    ("POST", "/jobs/old:A/pause", {"every": "@daily"}, 422, "for"),
    ("POST", "/jobs/old:A/resume", {"every": "yes"}, 422, "bad every 'yes'"),
    ("POST", "/jobs/old:A/run", {"force": True}, 422, "unexpected member 'force'"),
    ("POST", "/queues/A/limit", {"at_once": 0}, 422, "bad at-once 0"),
    ("POST", "/queues/A/limit", {"rate": "1/day"}, 422, "bad rate '1/day'"),
    # Parameters
    ("GET", "/jobs?limit=0", None, 422, "bad limit '0'"),
    ("GET", "/jobs?limit=1001", None, 422, "1 to 1000"),
    ("GET", "/jobs?limit=1&limit=2", None, 422, "more than once"),
    ("GET", "/jobs?cursor=zz", None, 422, "bad cursor 'zz'"),
    ("GET", "/jobs?cursor=5b5d", None, 422, "bad cursor '5b5d'"),
    ("GET", "/jobs?cursor=5b2278222c22225d", None, 422, "bad cursor 'x'"),
    ("GET", "/runs?cursor=5b2278222c22225d", None, 200, ""),
    ("GET", "/log?cursor=5b312c312c315d", None, 422, "bad cursor"),
    ("GET", "/jobs?pattern=[a", None, 422, "bad pattern '[a'"),
    ("GET", "/jobs?status=XXX", None, 422, "bad status 'XXX'"),
    ("GET", "/jobs?failed=perhaps", None, 422, "bad failed 'perhaps'"),
    ("GET", "/jobs?faild=1", None, 422, "unexpected parameter 'faild'"),
    ("GET", "/events?tag=billing", None, 422, "unexpected parameter 'tag': pattern is known"),
    ("GET", "/events?pattern=[a", None, 422, "bad pattern '[a'"),
    ("GET", f"/events?{'pattern=x&' * 101}", None, 422, "101 are given, 100 are allowed"),
    ("GET", "/openapi.json?x=1", None, 422, "unexpected parameter 'x': none are known"),
    ("GET", "/agenda?hours=169", None, 422, "bad hours '169'"),
    ("GET", "/agenda?after=2001-01-01", None, 422, "is past"),
    ("GET", "/jobs/old:A/next?count=9999999999", None, 422, "bad count"),
    ("GET", f"/jobs?queue={'q' * 20_000}", None, 431, "too long"),
]


def list_own(caplog):
    """The messages of the log, without those of the client that the tests use."""
    return [record.getMessage() for record in caplog.records if record.name != "httpx"]


def test_it_is_answered_in_one_line_and_changes_nothing(bike, caplog):
    bike.set("old:A", "EVERY:1h")
    api = Api(app(bike, write=True, api=True))
    for method, path, body, status, said in REQUESTS:
        content = json.dumps(body) if isinstance(body, dict) else body
        headers = JSON if body is not None else {}
        with untouched(bike.client):
            answer = api.request(method, f"http://localhost/api{path}", content=content, headers=headers)
        assert answer.status_code == status, (method, path, body, answer.text)
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert said in answer.json()["detail"], (method, path, body, answer.text)
            assert "\n" not in answer.json()["detail"]
            assert status != 405 or "allow" in answer.headers
    assert list_own(caplog) == []


def test_headers_are_refused_too(bike):
    api = Api(app(bike, write=True, api=True))
    for headers, status, said in (
        ({"authorization": "Bearer"}, 401, "not the token"),
        ({"authorization": b"Bearer \xff"}, 401, "not the token"),
        ({"host": "evil.example"}, 421, "answers only to localhost"),
        ({"host": ""}, 400, "Host"),
        ({"content-type": "text/plain"}, 415, "bad content-type 'text/plain': application/json is needed"),
        ({"x-filler": "x" * 20_000}, 431, "too long"),
        ({"origin": "null"}, 403, "another site"),
    ):
        answer = api.request("PUT", f"/api{JOB}", content=json.dumps(SET), headers={**JSON, **headers})
        assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text
        assert status != 401 or answer.headers["www-authenticate"] == "Bearer"
    assert list(bike.get_schedules()) == []


def test_no_cursor_leads_to_a_job_that_is_not_asked_for(bike, monkeypatch):
    own, tagged = {ETL, "etl/2:A"}, {"/runs?tag=mine", "/failures?tag=mine"}
    for jobid in (ETL, "secret:A", "etl/2:A"):
        bike.set(jobid, "NOW", data={"error": jobid}, tags="other" if jobid == "etl/2:A" else "mine")
    while bike.dispatch_due() or bike.work_one():
        pass
    for _ in bike.store.archiver.archive():
        pass
    bike.set("secret:A", "EVERY:1h")
    far, last = Cursor(entry=(1e12, b"z")).format(), write_cursor(1e12, "z")
    places = product(("", "many ", "many 0-0", f"before {last}", "0-0", "1-0", far), ("", "secret:A"))
    cursors = [*(write_cursor(*each) for each in places), "", last, write_cursor(""), write_cursor(1e12, 0, 0)]
    api = Api(app(bike, api=True), make_token(bike, jobs=["etl*"]))
    paths = [path for route, path, _ in list_requests() if PAGE[-1] in route.query]
    for path, cursor in product((*paths, *tagged), cursors):
        _, page = api.ask("GET", f"{path}{'&' if '?' in path else '?'}cursor={cursor}")
        found = {row["jobid"] for row in page.get("items", ()) if row.get("jobid")}
        assert found <= ({ETL} if path in tagged or "/jobs/" in path else own), (path, bytes.fromhex(cursor))
        assert "secret" not in json.dumps(page.get("items")), (path, bytes.fromhex(cursor))
    monkeypatch.setattr(lists, "STEP", 2)
    cursor = bytes.fromhex(api.ask("GET", "/runs?limit=1")[1]["cursor"]).decode()
    assert b"secret".hex() not in cursor, "it names no other job either"


def test_who_guesses_tokens_has_to_wait(bike):
    api = Api(app(bike, api=True), "wrong")
    assert [api.ask("GET", "/jobs")[0] for _ in range(11)] == [401] * 10 + [429]


def test_an_error_inside_is_one_line_without_a_traceback(bike, monkeypatch, caplog):
    monkeypatch.setattr("redbike.web.api.application.check_query", raising(ValueError("a secret")))
    status, problem = Api(app(bike, api=True)).ask("GET", "/jobs")
    assert (status, "secret" in str(problem)) == (500, False)
    assert list_own(caplog) == ["a request of the API could not be answered"]


def test_while_redis_is_away_each_answer_says_so(bike):
    api = Api(app(bike, write=True, api=True))
    bike.client.connection_pool.disconnect()
    bike.client.connection_pool.connection_kwargs["path"] = "/nowhere"
    bike.client.connection_pool.reset()
    for method, path, body in (("GET", "/jobs", None), ("PUT", JOB, SET), ("GET", "/health", None)):
        answer = api.request(method, f"/api{path}", json=body)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2"), answer.text
        assert answer.json()["type"] == "urn:redbike:problem:unreachable"
