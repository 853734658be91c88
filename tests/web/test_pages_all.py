"""Every page: with nothing to show, with what somebody hostile has put into Redis, while that is away or damaged."""

import json
import threading

import pytest

from redbike import Redbike, RoundRobin
from redbike.errors import Unreachable
from redbike.store.enums import Outcome
from redbike.store.keys import FIXED
from redbike.store.outputs import pack_output
from redbike.web import app, background
from redbike.web.pages import PAGES, STILL
from redbike.web.site import Snapshot
from tests.queries.kept import remember
from tests.waiting import wait_until
from tests.web.api import Api
from tests.web.conftest import BASE, TestClient
from tests.web.html import read

LIST_PAGES = [name for name in PAGES if name not in ("job", "run", *STILL)]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "../../../etc/passwd?x=1#y&z=2",
    "\u202eevil\u2066\u200b\ufeff",
    "tab\tline\r\nnext\x1b[31m\x00",
    "%3Cscript%3E %00 %zz",
    "ä" * 256,
    "]]><!--</title></textarea></select>",
    "*?[a-z]\\",
    "\ud800 half a pair",
    "back\udcff\udcfe",
]


def test_an_empty_server_has_pages_that_say_what_to_do_next(page):
    for name in LIST_PAGES:
        words = ["Redbike"] if name in ("", "failures", "log", "agenda") else ["Redbike", "redbike "]
        # The timeline is looked at in the background.
        wait_until(lambda name=name, words=words: read(page.get(f"/{name}")).lacks(*words) == [])


def plant(bike, text):
    """Put a text everywhere where one can be, straight into Redis."""
    client, keys = bike.client, bike.store.keys
    raw = text.encode(errors="surrogatepass") if "\ud800" in text else text.encode(errors="surrogateescape")
    dumped = json.dumps(dict.fromkeys(("jobid", "error", "traceback", "output", "failed", "attempt"), text))
    for key in (keys.schedules, keys.statuses, keys.options, keys.data, keys.groups, keys.pauses, keys.retry_states):
        client.hset(key, mapping={raw: raw, "known:A": raw})
    for key in (keys.queued, keys.running, keys.history, keys.outputs):
        client.hset(key, raw, raw)
    client.hset(keys.failures, mapping={raw: dumped, "known:A": dumped})
    for key in (keys.timeline, keys.failure_times):
        client.zadd(key, {raw: float("inf"), "known:A": -5.0, "other": 1e300})
    client.sadd(keys.queues, raw)
    client.hset(keys.queue_limits, raw, json.dumps({"paused": {"since": 1, "by": text, "reason": text}, "at_once": 3}))
    lost = {"kind": "worker", "host": "<b>h", "pid": 1, "queues": ["<i>q"], "version": "<u>"}
    seen = {"kind": text, "host": text, "pid": 1, "queues": [text], "version": text}
    for owner, entry in (("abcdefgh", seen), ("abcdefgi", lost)):
        client.hset(keys.workers, owner, f"1.000000 {json.dumps(entry)}")
    client.zadd(keys.seen, {"abcdefgh": 1e12, "abcdefgi": bike.store.timeline.read_clock() - 100})
    client.hset(keys.batches, "abcdefgi1", raw)
    client.rpush(keys.journal, raw)
    client.lpush(keys.log, json.dumps(["1000.000000", text, text, text, "known:A"]), raw, b"[" * 5000)


SHOWN = [*LIST_PAGES, "jobs?failed=1", "jobs?paused=1", "jobs?overdue=1", "jobs?sort=next", "runs?failed=1",
         "failures?as=list", "job?id=known:A", "log?id=known:A"]  # fmt: skip


def check(answer, *statuses):
    assert answer.status_code in statuses, answer.url
    read(answer, answer.status_code)
    assert "<script>alert" not in answer.text, answer.url
    assert "<img src=x" not in answer.text, answer.url


def test_a_job_of_which_all_is_hostile_shows_as_text(page_with_data, bike):
    for text in HOSTILE:
        plant(bike, text)
        check(page_with_data.get("/job?id=known:A"), 200)
        error = text.encode(errors="replace").decode()
        remember(bike.store, 1000.0, outcome=Outcome.FAILED, error=error, jobid="known:A")
        bike.client.hset(bike.store.keys.outputs, "known:A", pack_output(1000.0, 1, error))
        check(page_with_data.get("/run?id=known:A&began=failure"), 200)
        check(page_with_data.get("/job", params={"id": text.encode(errors="replace")}), 200, 400, 404)
    for view in SHOWN:
        check(page_with_data.get(f"/{view}"), 200)


PARAMETERS = {
    "jobs": ("pattern", "queue", "status", "sort", "cursor"),
    "job": ("id",),
    "run": ("id", "began"),
    "runs": ("pattern", "id", "since", "before", "cursor"),
    "failures": ("group", "cursor", "as"),
    "log": ("id", "until", "skip"),
    "agenda": ("span", "queue", "pattern"),
    "timeline": ("at", "span", "lanes", "queue", "pattern", "every"),
}


def test_what_is_hostile_in_a_url_shows_as_text(page):
    for name, parameters in PARAMETERS.items():
        for number, parameter in enumerate(parameters):
            # Markup for each of them, and of the other texts each for some.
            for text in {*HOSTILE[:2], *HOSTILE[number % 3 :: 3]}:
                answer = page.get(f"/{name}", params={parameter: text.encode(errors="replace")})
                check(answer, 200, 400, 404)


def test_a_page_is_small(page, bike):
    list(bike.set_many((f"job{number:04}:A", "0 3 * * *") for number in range(300)))
    for name in LIST_PAGES:
        assert len(page.get(f"/{name}").content) < 60_000


# Trouble

SEARCHES = ("status=DIE", "status=ENQ", "failed=1", "paused=1", "overdue=1", "sort=next", "pattern=x")
VIEWS = [
    *(name for name in PAGES if "{" not in name and name not in ("job", "at", "preview")),
    *(f"jobs?{search}" for search in SEARCHES),
    "job?id=a:A",
    "set?id=a:A",
    "at/now",
    "rehearse?action=resume&id=a:A",
]


def test_each_page_says_that_redis_is_away(own_server, caplog):
    with Redbike(RoundRobin("A"), redis_config=own_server.url) as bike:
        bike.set("a:A", "EVERY:1h")
        own_server.stop()
        page = TestClient(app(bike, write=True), base_url=BASE, raise_server_exceptions=False)
        found = {view: page.get(f"/{view}") for view in VIEWS}
    assert {view for view, answer in found.items() if answer.status_code != 503} <= {"set", "preview"}
    assert {view for view, answer in found.items() if "Redis does not answer" not in answer.text} <= {"set", "preview"}
    assert not [record for record in caplog.records if record.exc_info]


class Door:
    """A lock that counts those who come to it."""

    def __init__(self):
        self.lock, self.number = threading.Lock(), 0

    def __enter__(self):
        self.number += 1
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_all_who_wait_for_a_server_that_hangs_wait_once(monkeypatch):
    door, times, problems = Door(), [], []

    def read():
        wait_until(lambda: door.number >= 4)
        times.append(1)
        raise Unreachable("away")

    def look():
        with pytest.raises(Unreachable) as problem:
            snapshot.get()
        problems.append(str(problem.value))

    snapshot = Snapshot(read)
    monkeypatch.setattr(snapshot, "_reading", door)
    viewers = [threading.Thread(target=look) for _ in range(4)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join(60)
    assert (problems, len(times)) == (["away"] * 4, 1)
    # Who comes later asks again.
    look()
    assert len(times) == 2


def test_the_api_has_no_agenda_of_before_while_redis_is_away(own_server, monkeypatch):
    monkeypatch.setattr(background, "KEPT", 0.5)
    monkeypatch.setattr(background, "RETRY", 0.5)
    with Redbike(RoundRobin("A"), redis_config=own_server.url) as bike:
        bike.set("a:A", "EVERY:1h")
        api = Api(app(bike, api=True))
        status, before = api.ask("GET", "/agenda")
        assert (status, len(before["items"]) > 0) == (200, True)
        own_server.stop()
        wait_until(lambda: api.ask("GET", "/agenda")[0] == 503)
        assert "cannot reach Redis" in api.ask("GET", "/agenda")[1]["detail"]
        own_server.start()
        bike.set("b:A", "EVERY:1h")
        wait_until(lambda: api.ask("GET", "/agenda")[1].get("items", before["items"]) != before["items"])


@pytest.mark.acceptance
@pytest.mark.parametrize("name", FIXED)
def test_no_page_fails_because_a_key_has_a_wrong_type(bike, client, name):
    bike.set("a:A", "EVERY:1h")
    key = f"{bike.store.keys.prefix}-{name}"
    client.delete(key)
    client.set(key, "x") if name not in ("control",) else client.rpush(key, "x")
    page = TestClient(app(bike, write=True), base_url=BASE)
    for view in VIEWS:
        answer = page.get(f"/{view}")
        assert answer.status_code in (200, 400, 404, 503), view
        if answer.status_code == 503:
            assert key in answer.text
            assert "Redis does not answer" not in answer.text


def test_a_job_whose_data_are_no_text_can_be_edited(bike, client):
    bike.set("a:A", "EVERY:1h")
    client.hset(bike.store.keys.data, "a:A", b"\xff\xfe")
    for show_data in (False, True):
        answer = TestClient(app(bike, write=True, show_data=show_data), base_url=BASE).get("/set?id=a:A")
        assert answer.status_code == 200
