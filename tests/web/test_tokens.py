"""The page with tokens of ``redbike token``, and with the users of a proxy: what their roles allow is offered."""

import pytest
from starlette.datastructures import Headers

from redbike import BadConfig
from redbike.web import app
from redbike.web.application import make_app
from redbike.web.keys import Keys
from redbike.web.proxies import PEER, Proxies, parse_networks, parse_roles
from redbike.web.site import Site
from tests.queries.kept import register
from tests.web.api import Api, make_token

JOB = "etl:A"
# What a page offers, by the role that it needs.
OFFERED = {
    "/job?id=etl:A": {
        'value="run"': "operate",
        'value="unset"': "write",
        ">Edit<": "write",
    },
    "/jobs": {'value="pause"': "operate", 'value="unset"': "write", ">New job<": "write"},
    "/queues": {'value="pause"': "operate", 'value="limit"': "write"},
    "/": {"Pause everything": "operate"},
    "/workers": {"Halt all": "write"},
    "/failures": {"Run all matching jobs": "operate"},
}
RANKS = ("read", "operate", "write")


@pytest.fixture
def logged_in(bike):
    """Makes a client that has logged in with a token of a role."""
    bike.set(JOB, "EVERY:1h")
    bike.limit("A", at_once=5)
    register(bike.store, "worker", queues=["work-A"], now=bike.store.timeline.read_clock())
    site = app(bike, write=True)

    def log_in(role, name=None, jobs=()):
        page = Api(site)
        answer = page.post("/login", data={"token": make_token(bike, name or role, role, jobs)}, follow_redirects=False)
        page.status = answer.status_code
        return page

    make_token(bike, "first")
    return log_in


@pytest.mark.parametrize("role", RANKS)
def test_the_page_offers_what_the_role_allows_and_refuses_the_rest(bike, logged_in, role):
    page = logged_in(role)
    assert page.status == 303
    for path, offers in OFFERED.items():
        text = page.get(path).text
        assert {mark: mark in text for mark in offers} == {
            mark: RANKS.index(role) >= RANKS.index(need) for mark, need in offers.items()
        }, path
    assert page.get("/set").status_code == (200 if role == "write" else 403)
    assert ("This page is read-only" in page.get("/").text) == (role == "read")


def test_who_forges_a_form_is_refused_by_the_role(bike, logged_in):
    writer = logged_in("write")
    token = writer.get(f"/job?id={JOB}").text.partition('name="form" value="')[2].partition('"')[0]
    once = writer.get(f"/job?id={JOB}").text.partition('name="once" value="')[2].partition('"')[0]
    sent = {"form": token, "once": once, "id": JOB}
    before = list(bike.get_schedules())
    for role, actions in (("read", ("run", "unset")), ("operate", ("unset",))):
        other = logged_in(role)
        [session] = [cookie.value for cookie in other.cookies.jar if "session" in cookie.name]
        for cookie in writer.cookies.jar:
            cookie.value = session if "session" in cookie.name else cookie.value
        for action in actions:
            answer = writer.post("/do", data={**sent, "action": action}, follow_redirects=False)
            assert (answer.status_code, role in answer.text) == (403, True), action
        assert writer.post("/set", data={**sent, "schedule": "NOW"}).status_code == 403
    assert list(bike.get_schedules()) == before
    assert writer.post("/do", data={**sent, "action": "run"}, follow_redirects=False).status_code == 303
    assert next(bike.log()).who == "operate (page@testclient)"


def test_a_token_for_some_jobs_alone_does_not_open_the_page(bike, logged_in):
    page = logged_in("write", "some", ["etl*"])
    assert page.status == 403
    page.headers["authorization"] = f"Bearer {make_token(bike, 'more', 'read', ['etl*'])}"
    assert (page.get("/jobs").status_code, "permits only some jobs" in page.get("/jobs").text) == (403, True)


def test_a_session_ends_with_its_token(bike, logged_in, monkeypatch):
    monkeypatch.setattr("redbike.web.guard.FRESH", 0.0)
    page = logged_in("read", "anna")
    assert page.get("/jobs").status_code == 200
    bike.store.tokens.remove("anna")
    assert page.get("/jobs", follow_redirects=False).status_code == 303
    make_token(bike, "anna", "write")
    assert page.get("/jobs", follow_redirects=False).status_code == 303, "another token of this name is another one"


# Users of a proxy

ROLES = {"admins": "write", "ops": "operate", "*": "read"}
PROXIES = Proxies("Remote-User", "Remote-Groups", ROLES, parse_networks(["10.0.0.0/8"]))


def test_headers_count_only_from_a_proxy_that_is_trusted():
    for peer, headers, found in (
        ("127.0.0.1", {"remote-user": "anna"}, ("anna", "read")),
        ("::1", {"remote-user": "anna", "remote-groups": "dev, ops"}, ("anna", "operate")),
        ("10.1.2.3", {"remote-user": "anna", "remote-groups": "ops,admins"}, ("anna", "write")),
        ("::ffff:10.1.2.3", {"remote-user": "anna", "host": "jobs.example.org"}, ("anna", "read")),
        ("10.1.2.3", {"remote-user": "Zoë\t\x7f".encode().decode("latin-1")}, ("Zoë \\x7f", "read")),
        # From anybody else they are ignored.
        ("192.0.2.1", {"remote-user": "anna", "remote-groups": "admins"}, None),
        ("11.0.0.1", {"remote-user": "anna"}, None),
        ("testclient", {"remote-user": "anna"}, None),
        ("", {"remote-user": "anna"}, None),
        ("127.0.0.1", {"remote-groups": "admins"}, None),
        ("127.0.0.1", {"remote-user": ""}, None),
        # A browser on this machine may be led here by another name.
        ("127.0.0.1", {"remote-user": "anna", "host": "evil.example"}, None),
    ):
        raw = [(b"host", b"localhost:8080")] if "host" not in headers else []
        raw += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        scope = {"type": "http", "headers": raw, "client": ("192.0.2.9", 1), "state": {PEER: peer} if peer else {}}
        person = PROXIES.find_person(scope, Headers(scope=scope))
        assert (person and (person.name, person.role)) == found, (peer, headers)
        twice = {**scope, "headers": [*raw, (b"remote-user", b"root")]}
        assert PROXIES.find_person(twice, Headers(scope=twice)) is None or "remote-user" not in headers


def test_users_of_a_proxy_have_their_roles_and_are_in_the_log(bike):
    bike.set(JOB, "EVERY:1h")
    roles = {"ops": "operate"}
    proxies = Proxies("Remote-User", "Remote-Groups", roles, parse_networks(["10.0.0.0/8"]))
    site = Site(lambda: bike, bike.settings, Keys(), True)
    api = Api(make_app(site, None, "always", proxies, True), client=("10.0.0.7", 1))
    anna = {"remote_user": "anna", "remote_groups": "dev,ops"}
    assert api.ask("POST", f"/jobs/{JOB}/run", **anna)[0] == 200
    assert api.ask("DELETE", f"/jobs/{JOB}", **anna)[0] == 403
    status, problem = api.ask("GET", "/jobs", remote_user="bob", remote_groups="dev")
    assert (status, problem["detail"]) == (403, "no group of bob has a role here: see --roles")
    assert api.ask("GET", "/jobs")[0] == 401
    page = api.get("/jobs", headers={"remote-user": "anna", "remote-groups": "ops"})
    assert ('value="run"' in page.text, 'value="unset"' in page.text) == (True, False)
    [entry] = bike.log(JOB)
    assert entry.who == "anna (api@10.0.0.7)"
    stranger = Api(make_app(site, None, "always", proxies, True), client=("192.0.2.1", 1))
    assert stranger.ask("GET", "/jobs", **anna)[0] == 401


def test_bad_options_are_quoted():
    for parse, text, said in (
        (parse_roles, "admins", "bad --roles 'admins'"),
        (parse_roles, "admins=god", "bad role 'god'"),
        (parse_roles, "=read", "bad --roles '=read'"),
        (lambda text: parse_networks([text]), "10.0.0.0/99", "bad --trust-proxy"),
        (lambda text: parse_networks([text]), "example.org", "'example.org'"),
        (lambda text: parse_networks([text]), "10.0.0.1/8", "host bits"),
    ):
        with pytest.raises(BadConfig, match=said):
            parse(text)
    assert parse_roles("a=read, b =write,*=operate") == {"a": "read", "b": "write", "*": "operate"}
