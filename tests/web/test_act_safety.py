"""Who may change something by the page, and what happens when not all goes well."""

import re
import time
from unittest.mock import Mock

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from redbike import Redbike
from redbike.control.queues import QueueController
from redbike.errors import Unreachable
from redbike.web import app
from redbike.web import control as steering
from redbike.web.keys import Keys
from redbike.web.memory import BROWSERS, NOTES, Memory, Note
from redbike.web.selection import Found
from tests.states import unchanged
from tests.verbs import Quiet, set_job, stopping
from tests.web.browsing import Browser

HOURLY = "EVERY:1h@0"
JOB = "hourly:A"
TOKEN = "a-token-of-the-tests"


@pytest.fixture(autouse=True)
def jobs(bike):
    set_job(bike.store, JOB, HOURLY, 4e9)


def fill(browser, *more):
    """What the form sends that runs a job."""
    return [*browser.get(f"/job?id={JOB}").find("Run now").fill(), *more]


def browse_with_token(bike, **options):
    """The browser of somebody who has the token."""
    browser = Browser(app(bike, token=TOKEN, **options))
    browser.client.headers["authorization"] = f"Bearer {TOKEN}"
    return browser


def test_the_door_is_closed_without_the_gate_too(bike):
    """The page asks for the permission itself, whatever stands before it."""
    reading, writing = browse_with_token(bike), browse_with_token(bike, write=True)
    for each in reading.client.app.user_middleware:
        each.kwargs["guard"].writes = True
    form = fill(writing)
    reading.client.cookies = writing.client.cookies
    with unchanged(bike.store):
        page = reading.post(form)
    assert (page.status, "this page is read-only" in page.text) == (403, True)
    assert writing.post(form).notes == [f"{JOB}: queued."]


FORM = "application/x-www-form-urlencoded"


def test_a_form_that_the_page_has_not_given(bike, browser):
    with unchanged(bike.store):
        form = dict(fill(browser))
        for key in ("", "0" * 64, "é", None):
            sent = [pair for pair in ({**form, "form": key}).items() if pair[1] is not None]
            assert browser.post(sent).status == 403
        assert browser.post([*form.items(), *[("x", "")] * 3000]).status == 400
        assert browser.post([*form.items(), ("x", "x" * 2**20)]).status == 413
        for content, kind in (
            (b"\xff\xfe", FORM),
            (b"form=%FF", FORM),
            (b'{"action": "run"}', "application/json"),
            (b"--x\r\n\r\n", "multipart/form-data; boundary=x"),
        ):
            answer = browser.client.post("/do", content=content, headers={"content-type": kind})
            assert (answer.status_code, "bad form" in answer.text) == (400, True)


def test_the_form_of_another_browser_or_of_before_a_restart(bike, browser):
    form, other = dict(fill(browser)), Browser(browser.client.app)
    other.get("/")
    with unchanged(bike.store):
        assert other.post(form).status == 403
        # With its own key, but with that of the other one for being sent once.
        own = dict(fill(other))
        assert "too old" in other.post(form | {"form": own["form"]}).notes[0]
    first = browse_with_token(bike, write=True)
    form = fill(first)
    first.post(form)
    with unchanged(bike.store):
        second = browse_with_token(bike, write=True)
        second.client.cookies = first.client.cookies
        assert "too old" in second.post(form).notes[0]


def test_a_form_leads_back_to_this_site_alone(browser):
    for back, path in (
        *((back, f"/{back}") for back in ("jobs?pattern=a*&queue=B", "queues", "")),
        *((back, "/") for back in ("//example.org", "https://example.org", "/\\example.org", "\\\\example.org")),
        *((back, "/") for back in ("javascript:alert(1)", "../elsewhere", "%2e%2e/elsewhere")),
        *((back, "/") for back in ("jobs\r\nset-cookie: a=b", "x" * 9000)),
    ):
        fields = {**dict(fill(browser)), "back": back}
        answer = browser.client.post("/do", data=fields, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"].removeprefix(".")) == (303, path), back
        assert "set-cookie" not in answer.headers


def test_below_a_path(bike):
    """As behind a proxy that leaves the path as it is."""
    browser = Browser(Starlette(routes=[Mount("/red/bike", app(bike, write=True))]))
    page = browser.get(f"/red/bike/job?id={JOB}")
    page = browser.send(page, "Run now")
    assert (page.url.path, page.notes) == ("/red/bike/job", [f"{JOB}: queued."])
    page = browser.send(browser.get("/red/bike/jobs"), "Unset all")
    page = browser.send(page, f"Unset the job {JOB}")
    assert (page.url.path, page.notes) == ("/red/bike/jobs", [f"{JOB}: unset."])


HOSTILE = [
    "<script>alert(1)</script>:A",
    '"><img src=x onerror=alert(1)>:A',
    "'&amp;{{ 7777*7 }}{% x %}:A",
    "\u202egpj.exe\u202c:A",
    "*:A",
    "[a]\\?:A",
    "é☃𝄞:A",
    "a b+c%20d&id=e#f;g:A",
    "../../etc:A",
    "x" * 510 + ":A",
]


def test_a_hostile_id_is_one_job_and_text(bike, browser, client):
    for jobid in HOSTILE:
        set_job(bike.store, jobid, HOURLY, 4e9)
    left = {JOB, *HOSTILE}
    for jobid in HOSTILE:
        page = browser.send(browser.get("/jobs"), "Unset", tick=(jobid,))
        assert "Unset the job" in page.text
        [form] = [form for form in page.forms if ("confirmed", "1") in form.fields]
        for found in (page, browser.post(form.fill())):
            assert not re.search("<script>alert|<img src=x", found.html)
            assert not re.search("\u202e|54439", found.text)
            assert found.status == 200
        left.remove(jobid)
        assert {kept for kept, _ in bike.get_schedules()} == left
        [entry] = bike.log(jobid)
        assert entry.action == "unset"
    # Ids that came in by hand are no boxes.
    for name in (b"\xff\xfe:A", b"a\x1b[2J:A", b"a\nb:A"):
        client.hset(bike.store.keys.statuses, name, "TML:1")
        client.hset(bike.store.keys.schedules, name, HOURLY)
    page = browser.get("/jobs")
    assert page.status == 200
    assert [value for _, value in page.find("Unset").boxes] == [JOB]
    page = browser.send(page, "Pause all")
    assert "4 jobs" in page.text
    assert browser.get("/job?id=a%1B[2J:A").status == 400


def test_who_has_done_it(bike):
    for name, sent, who in (
        (None, "root", "page@testclient"),
        ("X-Forwarded-User", "root", "root (page@testclient)"),
        ("X-Forwarded-User", None, "page@testclient"),
        ("x-forwarded-user", "Zoë\t\x7f".encode(), "Zoë \\x7f (page@testclient)"),
        ("x-forwarded-user", "x" * 1000, None),
    ):
        browser = Browser(app(bike, write=True, **({"who_header": name} if name else {})))
        headers = {"x-forwarded-for": "1.2.3.4"} | ({"x-forwarded-user": sent} if sent else {})
        browser.post(fill(browser), headers=headers)
        entry = next(bike.log())
        assert entry.who == who if who else len(entry.who) < 200


def test_redis_that_is_away(own_server):
    bike, server = Redbike(Quiet("A"), redis_config=own_server.url), own_server
    set_job(bike.store, JOB, HOURLY, 4e9)
    browser = Browser(app(bike, write=True))
    edit = browser.get(f"/set?id={JOB}").find("Save").fill("Save", schedule="EVERY:2h@0")
    forms = ((fill(browser), "/do", f"{JOB}: queued."), (edit, "/set", f"{JOB}: schedule EVERY:1h@0 → EVERY:2h@0."))
    server.stop()
    for form, path, _ in forms:
        page = browser.post(form, path)
        assert (page.status, page.notes[-1][:18]) == (503, "Nothing was done: ")
    server.start()
    # The page that was shown then may have gone before anybody has read it.
    assert [browser.get("/jobs").notes for _ in range(2)] == [page.notes, []]
    # So the form may be sent again.
    for form, path, said in forms:
        assert browser.post(form, path).notes == [said]


def test_a_failure_that_is_past_is_not_shown_beside_what_was_done(own_server):
    bike = Redbike(Quiet("A"), redis_config=own_server.url)
    set_job(bike.store, JOB, HOURLY, 4e9)
    browser = Browser(app(bike, write=True, token=TOKEN))
    browser.post([("token", TOKEN)], "/login")
    forms = [fill(browser) for _ in range(2)]
    own_server.stop()
    for _ in range(3):
        page = browser.post(forms[0])
        assert [note[:18] for note in page.notes] == ["Nothing was done: "]
    own_server.start()
    assert browser.post(forms[0]).notes == [f"{JOB}: queued."]
    own_server.stop()
    browser.post(forms[1])
    own_server.start()
    # The next person at this browser may be another one.
    assert browser.post([], "/logout").notes == []
    assert browser.post([("token", TOKEN)], "/login").notes == []


def test_a_note_stays_until_it_was_read_unless_it_is_of_no_use_any_more():
    memory, done, part = Memory(Keys(None)), Note("done"), Note("done in part", is_problem=True)
    refusals = [Note(f"nothing was done: {number}", is_problem=True, is_refusal=True) for number in range(9)]
    for notes, kept in (
        ((refusals[0], refusals[0]), [refusals[0]]),
        ((part, refusals[0], done), [part, done]),
        ((done, refusals[0]), [done, refusals[0]]),
        (refusals, refusals[-NOTES:]),
    ):
        for note in notes:
            memory.add_note("b", note)
        assert memory.take_notes("b") == kept


def test_a_form_with_which_nothing_was_done_may_be_sent_again(browser, monkeypatch):
    form = fill(browser)
    with monkeypatch.context() as patch:
        patch.setattr(steering, "check_until", Mock(side_effect=Unreachable("cannot reach Redis")))
        assert browser.post(form).notes == ["Nothing was done: cannot reach Redis"]
    assert browser.post(form).notes == [f"{JOB}: queued."]


def test_redis_that_goes_away_in_the_middle(own_server, monkeypatch):
    bike, server = Redbike(Quiet("A"), redis_config=own_server.url), own_server
    list(bike.set_many((f"{number}:A", HOURLY) for number in range(700)))
    browser = Browser(app(bike, write=True))
    page = browser.send(browser.get("/jobs"), "Pause all")
    pause, calls = steering.pause_jobs, []

    def pause_some(*given):
        calls.append(given)
        if len(calls) == 2:
            server.stop()
        return pause(*given)

    monkeypatch.setattr(steering, "pause_jobs", pause_some)
    page = browser.send(page, "Pause 700 jobs")
    assert page.notes[0].startswith("Pause 700 jobs: 500 paused. Then an error ended it: ")
    assert "may have been done or not" in page.notes[0]
    server.start()
    assert len(list(bike.jobs(paused=True))) == 500


def test_a_queue_that_is_paused_is_no_problem_though_redis_goes_away_then(own_server, monkeypatch):
    browser = Browser(app(Redbike(Quiet("A"), redis_config=own_server.url), write=True))
    whole = browser.get("/").find("Pause everything").fields
    form = {name: text for name, text in whole if name in ("form", "once", "back")}
    monkeypatch.setattr(QueueController, "pause", stopping(own_server, QueueController.pause))
    page = browser.post([*form.items(), ("action", "pause"), ("of", "queue"), ("name", "Z")])
    assert page.notes == ["The queue work-Z is paused."]


def test_more_jobs_than_one_form_may_change(bike, browser, monkeypatch):
    monkeypatch.setattr("redbike.web.pages.act.MOST", 5)
    for number in range(4):
        set_job(bike.store, f"{number}:A", HOURLY, 4e9)
    page = browser.send(browser.get("/jobs"), "Run all")
    assert browser.send(page, "Run 5 jobs").notes == ["Run 5 jobs: 5 queued."]
    set_job(bike.store, "5:A", HOURLY, 4e9)
    with unchanged(bike.store):
        page = browser.send(browser.get("/jobs"), "Unset all")
        assert page.notes[0].startswith("More than 10,000 jobs match")


def test_a_clock_that_steps_back_refuses_no_form(monkeypatch):
    memory, earlier = Memory(Keys(None)), time.time() - 3600
    monkeypatch.setattr("redbike.web.memory.time", Mock(time=lambda: earlier))
    form = memory.make_once("b")
    assert [memory.claim(form, "b") for _ in range(2)] == ["ok", "again"]


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("redbike.web.memory.MOST_KEYS", 100)
    monkeypatch.setattr("redbike.web.memory.MOST_IDS", 400)
    memory = Memory(Keys(None))
    keys = [memory.make_once("b") for _ in range(3)]
    assert [memory.claim(key, "b") for key in (keys[0], keys[0])] == ["ok", "again"]
    for _ in range(100):
        assert memory.claim(memory.make_once("b"), "b") == "ok"
    # It was used; but this is not known any more, so it is refused like all that are as old.
    assert memory.claim(keys[0], "b") == "old"
    assert memory.claim(keys[1], "c") == "old"
    for number in range(BROWSERS + 1):
        memory.add_note(str(number), Note("x"))
    assert (memory.take_notes("0"), memory.take_notes("1")) == ([], [Note("x")])
    sets = [Found((f"{number}", *map(str, range(10, 100)))) for number in range(6)]
    for found in sets:
        memory.keep_set(found)
    assert memory.get_set(sets[0].digest) is None
    assert memory.get_set(sets[5].digest) == frozenset(sets[5].jobids)
