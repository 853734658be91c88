"""The stream of live updates, by HTTP: what it sends, what it costs, and what ends it."""

import json
import re
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import httpx
import pytest

from redbike.errors import BadConfig
from redbike.web import live, stream
from redbike.web.pages import PAGES
from tests.waiting import wait_until
from tests.web.live.conftest import serve

pytestmark = pytest.mark.acceptance

BUSY = 30.0  # seconds on a machine that does a lot else


class Event(NamedTuple):
    id: str
    kind: str
    value: object


def read_events(answer):
    """The events of a stream, as they come."""
    fields = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif "event" in fields:
            yield Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            fields = {}


@contextmanager
def watch(page, view="", **more):
    """The events of the page at `view`, from now on."""
    with (
        httpx.Client(timeout=BUSY) as http,
        http.stream("GET", f"{page.url}events", params={"page": view, **more.pop("params", {})}, **more) as answer,
    ):
        assert answer.status_code == 200
        yield read_events(answer)


def get(url, **more):
    return httpx.get(url, timeout=BUSY, **more)


def wait_for(events, fits, kind="parts"):
    """The first event of this kind with such a value."""
    return next(event for event in events if event.kind == kind and fits(event.value))


def listeners(client):
    return client.execute_command("PUBSUB", "SHARDNUMSUB", "redbike-journal")[1]


def threads():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("redbike-web-live")}


@pytest.fixture
def renderings(monkeypatch):
    """When each page was rendered."""
    times = {name: [] for name in PAGES}

    def count(name, endpoint):
        def render(site, request):
            times[name].append(time.monotonic())
            return endpoint(site, request)

        return render

    for name, endpoint in list(PAGES.items()):
        monkeypatch.setitem(PAGES, name, count(name, endpoint))
    return times


def test_what_people_change_and_runs_that_end_are_heard(page, monkeypatch, client):
    monkeypatch.setattr(live, "SELDOM", 3600)  # so that it is not seen by chance
    page.bike.set("hello:A", "NOW")
    with watch(page, "job?id=hello:A") as events:
        next(events)
        wait_until(lambda: listeners(client) == 1, BUSY)
        page.bike.work_one()
        wait_for(events, lambda parts: ">ok<" in parts.get("past-runs", ""))
        page.bike.pause("hello:A", reason="because <i>so</i>")
        wait_for(events, lambda parts: "because &lt;i&gt;so&lt;/i&gt;" in parts.get("why", ""))


def test_all_parts_of_a_job_that_change_are_live(steered):
    bike, seen = steered.bike, {}
    bike.set("bad:A", "EVERY:1h")
    with watch(steered, "job?id=bad:A") as events:
        wait_for(events, lambda parts: "Rehearse a run of it" in parts["rehearse"])
        bike.run("bad:A")
        bike.work_one()
        wait_for(events, lambda parts: "it &lt;b&gt;broke" in parts.get("last-run", ""))
        bike.pause("bad:A", reason="the disk is full")
        wanted = {"facts": ": the disk is full", "rehearse": "its resume", "changes": "pause the disk is full"}
        wait_for(events, lambda parts: seen.update(parts) or all(wanted[name] in seen.get(name, "") for name in wanted))


def test_what_happens_arrives_and_what_is_no_event_is_seen_a_little_later(page):
    with watch(page, "queues") as events:
        first = next(events)
        assert (first.kind, set(first.value)) == ("parts", {"queues", "everything", "clock", "missing"})
        page.bike.set("hello:A", "NOW")
        wait_for(events, lambda parts: "work-A" in parts["queues"])
        page.bike.client.flushall()
        wait_for(events, lambda parts: "work-A" not in parts["queues"])


def test_only_what_has_changed_is_sent(page):
    page.bike.set("hello:A", "EVERY:1h")
    with watch(page) as events:
        first = next(events)
        assert {"health", "numbers", "queues", "failures", "soonest", "workers", "clock"} <= set(first.value)
        page.bike.set("other:A", "EVERY:2h")
        changed = wait_for(events, lambda parts: "other:A" in parts.get("soonest", ""))
        assert {"failures", "workers", "queues"}.isdisjoint(changed.value)
        # Who comes back gets what has changed meanwhile.
        for more in ({"headers": {"last-event-id": first.id}}, {"params": {"last": first.id}}):
            with watch(page, **more) as again:
                assert {"failures", "workers"}.isdisjoint(wait_for(again, lambda parts: "soonest" in parts).value)
        for unknown in ("0badcafe-1", f"{first.id.partition('-')[0]}-²", "-", "ü"):
            with watch(page, params={"last": unknown}) as again:
                assert {"failures", "workers"} <= set(next(again).value)


def test_it_is_rendered_once_for_all_who_look_at_the_same_and_once_a_second_at_most(page, renderings):
    with watch(page, "queues") as first, watch(page, "queues") as second, watch(page, "workers") as third:
        for each in (first, second, third):
            next(each)
        begun = time.monotonic()
        for number in range(50):
            page.bike.set(f"job{number}:A", "NOW")
            page.bike.work_one()
        page.bike.set("last:A", "NOW")
        for each in (first, second):
            wait_for(each, lambda parts: ">1<" in parts["queues"])
        wait_until(lambda: sum(at > begun for at in renderings["workers"]) >= 3, BUSY)
        # Before the first one leaves, as what nobody looks at is not rendered.
        queues, workers = ([at for at in renderings[name] if at > begun] for name in ("queues", "workers"))
    # However many look at the one and at the other, both are rendered once a round.
    assert len(queues) <= len(workers) + 1
    # The first one of a view is made when somebody comes, the others by the clock.
    assert all(later - earlier >= live.PACE for earlier, later in pairwise(renderings["queues"][1:]))


def test_a_view_that_takes_long_is_rendered_the_less(page, monkeypatch):
    monkeypatch.setattr(live, "REST", 8.0)
    began, ended = [], []

    def render(site, request):
        began.append(time.monotonic())
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        ended.append(time.monotonic())
        return show(site, request)

    show = PAGES["queues"]
    monkeypatch.setitem(PAGES, "queues", render)
    with watch(page, "queues") as events:
        next(events)
        page.bike.set("hello:A", "NOW")
        wait_until(lambda: len(began) >= 3, BUSY)
    assert began[2] - ended[1] >= 0.1 * live.REST * 0.9


def test_one_process_listens_once_and_only_while_somebody_looks(page, client, monkeypatch):
    monkeypatch.setattr(live, "VIEWERS", 2)
    wait_until(lambda: not threads(), BUSY)  # those of the test before
    with watch(page) as first:
        with watch(page, "queues") as second:
            next(first), next(second)
            wait_until(lambda: listeners(client) == 1, BUSY)
            assert len(threads()) == 2
            assert get(f"{page.url}events?page=").status_code == 503, "too many look"

        def is_let_in():
            with httpx.stream("GET", f"{page.url}events?page=", timeout=BUSY) as answer:
                return answer.status_code == 200

        wait_until(is_let_in, BUSY)
    wait_until(lambda: listeners(client) == 0 and not threads(), BUSY)
    with watch(page) as again:
        next(again)
        wait_until(lambda: listeners(client) == 1, BUSY)
        page.application.state.live.stop()
        assert [event for event in again if event.kind != "parts"] == []
    assert get(f"{page.url}events?page=").status_code == 503
    wait_until(lambda: not threads(), BUSY)


def test_an_idle_stream_shows_that_it_is_alive(page, monkeypatch):
    monkeypatch.setattr(stream, "BEAT", 0.3)
    monkeypatch.setattr(live, "SELDOM", 3600)
    with httpx.stream("GET", f"{page.url}events?page=queues", timeout=BUSY) as answer:
        lines = answer.iter_lines()
        assert "event: parts" in lines  # beats before that have nothing to say
        assert ": alive" in lines
        assert next(lines) == "event: beat"
        assert "data-now" in next(lines)


@pytest.mark.parametrize("path", ["", "queues", "workers"])
def test_the_clock_of_what_is_kept_says_how_old_that_is(page, monkeypatch, path):
    monkeypatch.setattr(stream, "BEAT", 0.3)
    page.application.state.site.view._fresh = 3600  # as for many jobs
    timeline = page.bike.store.timeline

    def is_right(read):
        asked, text = timeline.read_clock(), read()
        now, age = map(float, re.search(r'data-now="([^"]*)" data-age="([^"]*)"', text).groups())
        assert asked - 1 < now + age < timeline.read_clock() + 1
        return age > 3

    wait_until(lambda: is_right(lambda: get(page.url + path).text), BUSY)
    with watch(page, path) as events:
        next(events)
        assert is_right(lambda: wait_for(events, lambda _: True, "beat").value["clock"])


def test_a_server_that_goes_away_and_comes_back(page_on_node, node):
    page = page_on_node
    page.bike.set("hello:A", "NOW")
    with watch(page, "queues") as events:
        wait_for(events, lambda parts: "work-A" in parts["queues"])
        node.kill()
        said = wait_for(events, lambda _: True, "trouble").value
        assert said.startswith("Redis does not answer since 20")
        assert said.endswith("UTC.")
        with watch(page, "workers") as others:
            assert wait_for(others, lambda _: True, "trouble").value == said
        node.start()
        wait_for(events, lambda parts: "clock" in parts)
        # It listens again, too.
        wait_until(lambda: listeners(node.client) == 1, BUSY)
        page.bike.set("hello:B", "NOW")
        wait_for(events, lambda parts: "work-B" in parts.get("queues", ""))


def test_a_view_that_cannot_be_shown_harms_no_other(page, monkeypatch):
    def fail(site, request):
        raise (BadConfig("no <b>such</b> thing") if request.query_params.get("kind") else KeyError("oops"))

    monkeypatch.setitem(PAGES, "runs", fail)
    with watch(page, "runs?kind=1") as known, watch(page, "runs") as unknown, watch(page, "queues") as well:
        assert next(known) == Event("", "trouble", "no <b>such</b> thing")
        assert "log of its server" in next(unknown).value
        next(well)
        page.bike.set("hello:A", "NOW")
        wait_for(well, lambda parts: "work-A" in parts["queues"])


def test_no_form_of_somebody_is_shown_to_others_and_nothing_without_the_token(bike):
    with serve(bike, write=True, token="s3cret" * 4) as page:
        assert get(f"{page.url}events?page=").status_code == 401
        bearer = {"authorization": f"Bearer {'s3cret' * 4}"}
        with watch(page, headers=bearer) as events:
            browser = get(page.url, headers=bearer).cookies["redbike-browser"]
            token = page.application.state.site.keys.make_form(browser)
            found = next(events).value
            assert "numbers" in found
            assert token not in json.dumps(found)


def test_there_are_no_other_views(page):
    for view in ("find", "events", "login", "../jobs", "static/live.js", "//jobs", f"jobs?{'x' * 5000}"):
        assert get(f"{page.url}events", params={"page": view}).status_code == 404
    answer = httpx.head(f"{page.url}events?page=", timeout=BUSY)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
