"""Every page while Redis is away, and with keys of a wrong type: it says so in words, and no page fails."""

import threading

import pytest
from starlette.testclient import TestClient

from redbike import Redbike, RoundRobin
from redbike.errors import Unreachable
from redbike.store.keys import FIXED
from redbike.web import app, background
from redbike.web.pages import PAGES
from redbike.web.site import Snapshot
from tests.waiting import wait_until
from tests.web.api import Api
from tests.web.conftest import BASE

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
