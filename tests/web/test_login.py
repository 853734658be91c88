"""The login of the page: who may look, who may change something, and what a browser may do with an answer."""

import asyncio
import hmac
import itertools
import logging
import os
import re
import secrets
import subprocess
import sys

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from redbike import BadConfig
from redbike.store.tokens import Token, find_token, make_digest
from redbike.web import app, keys, pages
from redbike.web import login as limits
from redbike.web.keys import AGE, CLOCK_SKEW, TRIES, WINDOW, Keys, Tries
from redbike.web.memory import Memory
from redbike.web.rendering import name_asset
from tests.commandline import ROOT
from tests.loops import raising
from tests.states import untouched

TOKEN = "a-token-of-the-tests"
SENT = {"content-type": "application/x-www-form-urlencoded"}
PAGES = [f"/{path}" for path in pages.PAGES]
READING = ("GET", "HEAD")


def log_in(page, token=TOKEN, to="", **headers):
    return page.post(f"/login?to={to}", data={"token": token}, headers=headers)


def bear(token=TOKEN):
    return {"authorization": f"Bearer {token}"}


# What is on every answer


def test_every_answer_has_the_headers(browse):
    page = browse()
    for method, path, status in (
        *(("GET", path, 200) for path in ("/", "/static/style.css")),
        *(("GET", path, 404) for path in ("/nothing", "/jobs/", "/job?id=none:A", "/static/nothing")),
        ("HEAD", "/", 200),
        ("GET", "/logout", 405),
        *((method, "/jobs", 405) for method in ("DELETE", "PATCH", "OPTIONS", "FROB", "PUT")),
        ("POST", "/", 403),
        ("GET", "/login", 303),
    ):
        content = b"" if method == "POST" else None
        answer = page.request(method, path, content=content, headers={"content-length": "0"})
        assert answer.status_code == status, (method, path)
        for name, value in limits.HEADERS.items():
            assert answer.headers.get_list(name) == [value]
        assert answer.headers["cache-control"] == ("no-cache" if "style" in path else "no-store")
        assert "strict-transport-security" not in answer.headers, "that is up to whoever has the host"
        assert (answer.content == b"") == (method == "HEAD" or status == 303)
        assert path != "/jobs" or answer.headers["allow"] == "GET, HEAD, POST"
    assert "unsafe" not in limits.POLICY
    assert "default-src 'none'" in limits.POLICY


def test_files_are_kept_for_ever_only_under_the_address_that_changes_with_them(browse):
    page = browse()
    answer = page.get(f"/{name_asset('style.css')}")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "set-cookie" not in answer.headers, "what is kept for all has the cookie of nobody"
    assert name_asset("style.css") in page.get("/").text
    assert page.get("/static/style.css?other").headers["cache-control"] == "no-cache"


def test_no_other_file_is_served(browse):
    page = browse(token=TOKEN)
    for name in ("../limits.py", "..%2fgate.py", "%2e%2e/limits.py", "..\\limits.py", "style.css%00", "", "%2e"):
        answer = page.get(f"/static/{name}")
        assert answer.status_code in (303, 404), name
        assert len(answer.text) < 30, name


def test_an_error_inside_is_a_page_without_a_traceback(browse, monkeypatch, caplog):
    fail = raising(ValueError("a secret"))
    monkeypatch.setattr("redbike.web.pages.overview.judge", fail)
    with caplog.at_level(logging.ERROR):
        answer = browse().get("/?id=job:A")
    assert answer.status_code == 500
    assert "The log of the process that shows it says why" in answer.text
    assert "<h1>" in answer.text
    assert not {"Traceback", "secret", "ValueError"} & set(re.findall(r"\w+", answer.text))
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"] == limits.POLICY
    [record] = caplog.records
    told = (record.name, record.getMessage(), str(record.exc_info[1]))
    assert told == ("redbike", "a page could not be shown", "a secret")
    monkeypatch.setattr("redbike.web.site.Site.answer", fail)
    answer = browse().get("/")
    assert (answer.status_code, answer.text) == (500, "this page could not be made\n")


# Which hosts


LOOPBACK = ("localhost", "localhost:8080", "LocalHost:80", "127.0.0.1", "127.1.2.3", "[::1]", "[::1]:8080")
OTHER_HOSTS = [
    *("", "example.org", "localhost.example.org", "example.org:localhost", "127.0.0.1.example.org", "192.0.2.1"),
    *("0.0.0.0", "2130706433", "[::]", "[::1", "::1", "localhost:x", "localhost:123456", "localhost@example.org"),
    *("example.org@localhost", "localhost/", "localhost localhost", "localhost,example.org"),
]


def test_other_hosts_are_refused_without_a_token(browse):
    """A page from elsewhere may give its own name the address of this machine, and would read all."""
    page = browse()
    for path, host in itertools.product(("/", "/static/style.css", "/login"), LOOPBACK):
        assert page.get(path, headers={"host": host}).status_code in (200, 303), host
    for path, host in itertools.product(("/", "/static/style.css", "/login"), OTHER_HOSTS):
        answer = page.get(path, headers={"host": host})
        assert answer.status_code in (400, 421), host
        assert len(answer.text.splitlines()) == 1
        assert "set-cookie" not in answer.headers
    page = browse(token=TOKEN)
    assert page.get("/login", headers=[("host", "localhost"), ("host", "example.org")]).status_code == 400
    assert send(page.app, host=None)["status"] == 400


def send(page, host="localhost", path="/", **more):
    """The first message of the answer to a request that no client would send."""
    sent = []
    headers = [] if host is None else [(b"host", host.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def answer(message):
        sent.append(message)

    asyncio.run(page({**scope, "scheme": "http", "headers": headers, **more}, receive, answer))
    return sent[0]


def test_hosts_that_are_named_are_the_only_ones(browse):
    named = {"hosts": ["Jobs.example.org", "[2001:db8::1]"]}
    for options, host, status in (
        *((named, host, 200) for host in ("jobs.example.org:443", "[2001:DB8::1]")),
        *((named, host, 421) for host in ("localhost", "example.org", "127.0.0.1")),
        ({**named, "token": TOKEN}, "jobs.example.org", 303),
        ({**named, "token": TOKEN}, "localhost", 421),
        ({"hosts": ["*"]}, "any.example.org", 200),
        ({"hosts": ["*"]}, "[", 400),
        ({"token": TOKEN}, "any.example.org", 303),
    ):
        assert browse(**options).get("/", headers={"host": host}).status_code == status, (options, host)
    with pytest.raises(BadConfig, match="bad hosts 'jobs': a list of names is needed"):
        browse(hosts="jobs")


# The token


def test_with_a_token_every_page_leads_to_the_login_and_what_is_open_tells_nothing_of_jobs(browse, bike):
    bike.set("secret:A", "EVERY:1h")
    page = browse(token=TOKEN)
    for path, method in itertools.product((*PAGES, "/nothing", "/logout/", "/login/x", "/Login", "/static"), READING):
        answer = page.request(method, path)
        up = "../" * (path.count("/") - 1) or "./"
        assert (answer.status_code, answer.content) == (303, b""), path
        assert answer.headers["location"].startswith(f"{up}login"), path
    assert page.get("/static/style.css").status_code == 200
    answer = page.get("/login")
    assert (answer.status_code, "secret" in answer.text, TOKEN in answer.text) == (200, False, False)
    answer = page.get("/events")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_the_login_and_the_logout(browse):
    page = browse(token=TOKEN)
    answer = log_in(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    [cookie] = [text for text in answer.headers.get_list("set-cookie") if "session" in text]
    pattern = rf"redbike-session-\w{{8}}=[\w.]+; Path=/; Max-Age={AGE}; HttpOnly; SameSite=Lax"
    assert re.fullmatch(pattern, cookie), cookie
    assert TOKEN not in cookie
    answer = page.get("/")
    assert (answer.status_code, TOKEN in answer.text, "Log out" in answer.text) == (200, False, True)
    answer = page.post("/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    assert page.get("/").status_code == 303
    # For HTTPS alone where the page is.
    cookies = log_in(browse("https://localhost", token=TOKEN)).headers.get_list("set-cookie")
    assert len(cookies) == 2
    assert all("; Secure" in cookie and "; HttpOnly" in cookie for cookie in cookies)


def test_another_token_does_not_fit(browse):
    page = browse(token=TOKEN)
    for sent in ("", "x", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "\x00", "é" * 20, "\ud800"):
        answer = page.post("/login", content=f"token={sent}".encode(errors="surrogatepass"), headers=SENT)
        assert (answer.status_code, "That is not the token." in answer.text) == (401, True), sent
        assert not [cookie for cookie in answer.headers.get_list("set-cookie") if "session" in cookie]
        assert page.get("/").status_code == 303
        assert not Keys(TOKEN).fits(sent)
        assert not Keys(None, "s" * 16).fits(sent)


def note_comparisons(monkeypatch):
    """Return what is compared from now on in a time that says nothing of it."""
    seen, compare = [], hmac.compare_digest
    for place in (hmac, secrets):
        monkeypatch.setattr(place, "compare_digest", lambda *both: seen.append(both) or compare(*both))
    return seen


@pytest.mark.parametrize(
    ("check", "number"),
    [
        (lambda own, tokens, memory: find_token(tokens, "secret 0", 0.0), 3),  # not only up to the right one
        (lambda own, tokens, memory: find_token(tokens, "other", 0.0), 3),
        (lambda own, tokens, memory: own.fits(TOKEN), 1),
        (lambda own, tokens, memory: own.fits("other"), 1),
        (lambda own, tokens, memory: own.is_session("1.x"), 1),
        (lambda own, tokens, memory: own.is_form("other", "browser"), 1),
        (lambda own, tokens, memory: memory.claim("1.x.y", "browser"), 1),
    ],
)
def test_the_time_of_a_comparison_says_nothing_of_a_secret(monkeypatch, check, number):
    tokens = [Token(f"t{each}", "read", (), None, 0.0, "", make_digest(f"secret {each}")) for each in range(3)]
    own = Keys(TOKEN)
    memory, seen = Memory(own), note_comparisons(monkeypatch)
    check(own, tokens, memory)
    assert len(seen) == number


def test_a_program_sends_the_token_in_a_header(browse):
    page = browse(token=TOKEN)
    for header, status in (
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        (f"Bearer {TOKEN}x", 401),
        ("Bearer", 401),
        (f"Basic {TOKEN}", 303),
        (TOKEN, 303),
    ):
        answer = page.get("/", headers={"authorization": header})
        assert (answer.status_code, TOKEN in answer.text) == (status, False), header


def test_a_token_that_is_too_simple_is_refused(bike):
    for token in ("", "x" * 15, "x" * 15 + " ", "x" * 16 + "\n", "é" * 16, "x" * 16 + "\x00"):
        for given in ({"token": token}, {"secret": token}):
            with pytest.raises(BadConfig, match="at least 16 letters") as caught:
                app(bike, **given)
            assert not token or token not in str(caught.value)


def test_a_session_cannot_be_forged(browse):
    page, made = browse(token=TOKEN), Keys(TOKEN)
    right = made.make_session()
    mine = f"{made.session_name}={right}"
    # Malformed cookies of others do not hide it.
    for header in (
        mine, f'a={{"b": 1}}; {mine}', f"=; ;;; x; {mine}", f"{mine}; {made.session_name}=other", f"é=\x01; {mine}"
    ):  # fmt: skip
        assert page.get("/", headers={"cookie": header.encode("latin-1")}).status_code == 200, header
    other = Keys("another-token-of-16")
    assert other.session_name != made.session_name, "two pages on one host share all cookies"
    for wrong in (
        "",
        "..",
        right[:-1],
        right[:-1] + ("0" if right[-1] != "0" else "1"),
        f"9{right}",
        right.rpartition(".")[2],
        other.make_session(),
        made.make_form("session"),
        TOKEN,
        f"é{right}",
    ):
        sent = f"{made.session_name}={wrong}".encode()
        assert page.get("/", headers={"cookie": sent}).status_code == 303, wrong


def test_a_session_ends_with_its_age_and_with_its_token(monkeypatch):
    """The clock of the host that has made it may be ahead."""
    made = Keys(TOKEN)
    session, now = made.make_session(), keys.time.time()
    assert Keys(TOKEN).is_session(session), "a restart does not end it"
    assert not Keys("another-token-of-16").is_session(session)
    for later, is_valid in ((0, True), (AGE - 60, True), (AGE + 60, False), (-60, True), (-CLOCK_SKEW - 60, False)):
        monkeypatch.setattr(keys.time, "time", lambda later=later: now + later)
        assert made.is_session(session) == is_valid


ELSEWHERE = [
    *("", "//example.org", "/%2Fexample.org", "%2f%2fexample.org", "%252f%252fexample.org", "\\\\example.org"),
    *("%5cexample.org", "%255cexample.org", "jobs%0d%0aset-cookie:x", "%09//example.org", "..%2f..%2fother"),
    *("x%2f..%2f..%2fother", "%252e%252e%2fother", "jobs%2f%2fexample.org", "https:%2f%2fexample.org", "x" * 3000),
]


def test_the_login_leads_back_to_this_page_only(browse):
    page = browse(token=TOKEN)
    for to, leads in [
        ("jobs", "./jobs"),
        ("job%3Fid%3Da%2525b%26x%3D%2F%2F", "./job?id=a%25b&x=//"),
        ("at/03%253A05", "./at/03%3A05"),
        ("javascript:alert(1)", "./javascript:alert(1)"),
        *((to, "./") for to in ELSEWHERE),
    ]:
        assert "script>" not in page.get(f"/login?to={to}<script>").text.replace("></script>", "")
        assert log_in(page, to=to).headers["location"] == leads, to
        page.cookies.clear()
    for path in ("/jobs", "/jobs?pattern=a%25b&queue=%C3%A4", "/job?id=%3Cb%3E%2F..%2F", "/job?id=a%2Bb+c"):
        location = page.get(path).headers["location"]
        answer = page.post(location.removeprefix("."), data={"token": TOKEN})
        assert answer.headers["location"] == f".{path}"
        page.cookies.clear()


def test_after_some_wrong_tokens_an_address_must_wait(browse, monkeypatch):
    now = keys.time.monotonic()
    monkeypatch.setattr(keys.time, "monotonic", lambda: now)
    page = browse(token=TOKEN)
    known = TestClient(page.app, base_url="http://localhost", client=("192.0.2.1", 1), follow_redirects=False)
    assert log_in(known).status_code == 303
    tries = [lambda: log_in(page, "wrong"), lambda: page.get("/", headers=bear("wrong"))]
    for attempt in itertools.islice(itertools.cycle(tries), TRIES):
        assert attempt().status_code == 401
    monkeypatch.setattr(keys.time, "monotonic", lambda: now + WINDOW / 2)
    for attempt in (*(tries * TRIES), lambda: log_in(page), lambda: page.get("/", headers=bear())):
        assert attempt().status_code == 429, "also the right one: otherwise guessing would go on"
    assert page.get("/", headers=bear()).headers["retry-after"] == "60"
    assert known.get("/").status_code == 200, "a session goes on"
    other = TestClient(page.app, base_url="http://localhost", client=("192.0.2.2", 1), follow_redirects=False)
    assert log_in(other).status_code == 303, "another address is not locked out"
    monkeypatch.setattr(keys.time, "monotonic", lambda: now + WINDOW + 1)
    assert log_in(page).status_code == 303, "what was refused does not make the wait longer"


def test_tries_are_counted_by_the_network_of_a_client(monkeypatch):
    for wrong, same, other in (
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2"),  # as a socket for IPv4 and IPv6 writes them
        ("2001:db8::1", "2001:db8::ffff:1%eth0", "2001:db8:0:1::1"),
        ("", "no address", "192.0.2.1"),
    ):
        tries = Tries()
        for _ in range(TRIES):
            tries.add(wrong)
        assert [tries.is_over(each) for each in (wrong, same, other)] == [True, True, False]
    monkeypatch.setattr(keys, "ADDRESSES", 3)
    for number in range(4):
        tries.add(f"198.51.100.{number}")
    assert not tries.is_over(wrong), "the memory for them is limited"


# Changes


def test_nothing_is_changed_without_the_permission_to_write_nor_by_what_is_asked_for(browse, bike, client):
    bike.set("job:A", "EVERY:1h")
    form, page = Keys(None, "s" * 16).make_form(""), browse()
    with untouched(client):
        for path in (*PAGES, "/do", "/login/", "/static/style.css", "/logout/", "//login"):
            answer = page.post(path, data={"form": form, "action": "run", "jobid": "job:A"})
            assert (answer.status_code, "start it with --write" in answer.text) == (403, True), path
        page = browse(write=True, show_data=True)
        for path, method in itertools.product((*PAGES, "/do", "/login", "/nowhere"), READING):
            page.request(method, f"{path}?id=job:A&action=run&of=all&confirmed=1&write=1")


ORIGINS = [
    ({}, True),
    ({"origin": "http://localhost"}, True),
    ({"origin": "http://LOCALHOST"}, True),
    ({"origin": "null"}, False),
    ({"origin": ""}, False),
    ({"origin": "http://["}, False),
    ({"origin": "http://localhost:81"}, False),
    ({"origin": "http://example.org"}, False),
    ({"origin": "http://localhost.example.org"}, False),
    ({"origin": "http://example.org", "referer": "http://localhost/"}, False),
    ({"sec-fetch-site": "same-origin"}, True),
    ({"sec-fetch-site": "none"}, True),
    ({"sec-fetch-site": "same-site"}, False),
    ({"sec-fetch-site": "cross-site"}, False),
    ({"sec-fetch-site": "cross-site", "origin": "http://localhost"}, False),
    ({"sec-fetch-site": "frob", "origin": "http://localhost"}, False),
    ({"sec-fetch-site": "same-origin", "origin": "https://behind.example.org"}, True),
]


def test_a_change_that_comes_from_another_page_is_refused(browse):
    page = browse(token=TOKEN, write=True)
    for path, (headers, is_own) in itertools.product(("/", "/login", "/logout"), ORIGINS):
        answer = page.post(path, data={"token": TOKEN}, headers=bear() | headers)
        assert (answer.status_code != 403) == is_own, headers
        if not is_own:
            assert answer.text.startswith("this request comes from another page")
            assert "set-cookie" not in answer.headers
    # Over HTTPS a page without it is another one.
    page = browse("https://localhost", write=True)
    for scheme, status in (("http", 403), ("https", 405)):
        assert page.post("/", headers={"origin": f"{scheme}://localhost"}).status_code == status
    # A login leads not back to a change.
    answer = browse(token=TOKEN, write=True).post("/do?id=job:A")
    assert (answer.status_code, answer.headers["location"]) == (303, "./login")


def test_what_is_too_long_is_refused(browse):
    page = browse(write=True).app
    for length, status in (("", 411), ("x", 411), ("-1", 411), ("1000001", 413), ("9" * 40, 413)):
        headers = [(b"host", b"localhost"), (b"content-length", length.encode())]
        assert send(page, method="POST", headers=headers)["status"] == status, length
    assert send(page, method="POST", headers=headers[:1])["status"] == 411
    page, long = browse(), "x" * 17_000
    for answer in (
        page.get(f"/{long}"),
        page.get("/jobs", params={"pattern": long}),
        page.get("/", headers={"cookie": long}),
    ):
        assert (answer.status_code, answer.text) == (431, "this request is too long\n")
    assert page.get("/jobs", params={"pattern": "x" * 512}).status_code == 200
    assert browse(token=TOKEN).post("/login", content=b"token=" + b"x" * 5000, headers=SENT).status_code == 413


def test_a_form_is_for_the_browser_that_has_got_it(browse):
    made = Keys(TOKEN)
    form = made.make_form("one")
    assert made.is_form(form, "one")
    assert Keys(TOKEN).is_form(form, "one"), "a restart does not matter"
    wrong = [(form, "two"), (form, ""), (made.make_form(""), ""), ("", "one"), (form[:-1], "one"), ("é", "one")]
    for sent, browser in wrong:
        assert not made.is_form(sent, browser)
    assert not Keys().is_form(Keys().make_form("one"), "one"), "without a token it is new in each process"
    assert Keys(secret="s" * 16).is_form(Keys(secret="s" * 16).make_form("one"), "one")
    page = browse()
    page.get("/")
    browser = page.cookies["redbike-browser"]
    assert keys.is_browser(browser)
    assert "set-cookie" not in page.get("/").headers
    for wrong in ("", "x" * 32, browser[:-1], browser.upper() + "é"):
        page.cookies.clear()
        answer = page.get("/", headers={"cookie": f"redbike-browser={wrong}".encode()})
        assert "redbike-browser=" in answer.headers["set-cookie"]


def test_websockets_are_refused(browse):
    page = browse()
    for path in ("/", "/events", "/static/style.css"):
        with pytest.raises(WebSocketDisconnect) as caught, page.websocket_connect(path):
            pass
        assert caught.value.code == 1008


@pytest.mark.acceptance
def test_nothing_is_started_before_the_first_request(server_url):
    code = """
import sys, threading
import redbike.web
assert threading.active_count() == 1
assert "uvicorn" not in sys.modules
bike = redbike.Redbike(redbike.RoundRobin("A"), redis_config=sys.argv[1])
redbike.web.app(bike)
assert threading.active_count() == 1
"""
    subprocess.run([sys.executable, "-c", code, server_url], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


# Below a path


def test_it_is_mounted_below_a_path(bike):
    bike.set("job:A", "EVERY:1h")
    host = Starlette(routes=[Mount("/red", Starlette(routes=[Mount("/bike", app(bike, token=TOKEN))]))])
    page = TestClient(host, base_url="http://localhost", follow_redirects=False)
    assert page.get("/red/bike").status_code == 307
    answer = page.get("/red/bike/jobs?queue=x")
    assert answer.headers["location"] == "./login?to=jobs%3Fqueue%3Dx"
    answer = page.post("/red/bike/login?to=jobs", data={"token": TOKEN})
    assert answer.headers["location"] == "./jobs"
    assert "; Path=/red/bike;" in answer.headers["set-cookie"]
    answer = page.get("/red/bike/jobs")
    assert answer.status_code == 200
    links = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
    assert "jobs" in links
    assert not [link for link in links if link.startswith("/") or "//" in link]
    assert page.get("/red/bike/job?id=job:A").status_code == 200
    assert 'href="../static/' in page.get("/red/bike/nothing/there").text
    assert 'href="static/' in page.get("/red/bike/nothing%2Fthere").text, "for a browser that is no folder"


def test_it_is_mounted_below_the_name_of_a_page(bike):
    page = TestClient(Starlette(routes=[Mount("/jobs", app(bike))]), base_url="http://localhost")
    for path, title in (("jobs/", "Overview"), ("jobs/jobs?failed=1", "Jobs"), ("jobs/queues", "Queues")):
        assert f"<title>{title} · " in page.get(f"/{path}", follow_redirects=False).text


def test_the_path_of_the_page_is_the_whole_of_it(browse):
    for options in ({}, {"path": "/red/bike", "root_path": "/red/bike"}):
        answer = send(browse().app, **{"path": "/", **options})
        assert answer["status"] == (307 if options else 200)
    assert dict(answer["headers"])[b"location"] == b"bike/"
    page = browse(token=TOKEN).app
    assert send(page, path="/redbike/static/style.css", root_path="/red")["status"] == 303
    assert send(page, path="/red/static/style.css", root_path="/red")["status"] == 200
    for path in ("//", "//login", "//static/style.css", "/./login", "/static"):
        assert send(page, path=path)["status"] == 303
