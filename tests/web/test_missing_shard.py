"""Pages and lists of the API while one of four shards does not answer: they show what the others have, and name it."""

import asyncio
import re
import time

import pytest

from redbike import Unreachable
from redbike.store.sharded.missing import list_listens
from redbike.web import app, background
from redbike.web.api import events
from redbike.web.application import PAGES
from redbike.web.pages import STILL
from tests.queries.kept import register
from tests.shards import FAILED, list_others, name_jobs, open_failed
from tests.waiting import wait_until
from tests.web.api import Api
from tests.web.test_api_events import hear

LISTS = ["/jobs", "/jobs?queue=A", "/runs", "/failures", "/queues", "/workers", "/agenda", "/log"]


@pytest.fixture(params=[0, 1])
def away(request):
    """The number of the shard that goes away; some questions are asked of the first one alone."""
    return request.param


@pytest.fixture
def bike(server_url, prefix, own_server, away):
    with open_failed(prefix, server_url, own_server.url, away) as bike:
        yield bike


@pytest.fixture
def near(bike, own_server, away):
    """The jobs of the shards that answer."""
    own_server.stop()
    return list_others(bike.store, away)


@pytest.fixture
def late(bike, away, request):
    """A job that is late in a shard that answers; what else depends on the one that goes away is the parameter."""
    gone, here = name_jobs(bike.store, away, 2)
    bike.set(here, "NOW", start_within=0.001)
    if request.param == "lacks":
        bike.set(gone, "NOW")
        register(bike.store, "worker", now=time.time(), lacks={gone: "work-A"})
    if request.param in ("parent", "group"):
        bike.set(gone, "EVERY:1h", group_of="G")
        follows = f"AFTER:{gone}" if request.param == "parent" else "GROUP:G"
        bike.set(f"then{{{here}}}:A", follows, start_within="10m")
    return here


@pytest.mark.parametrize("late", ["", "lacks", "parent", "group"], indirect=True)
def test_each_page_shows_what_the_others_have_and_names_it(bike, late, near, away):
    api, name = Api(app(bike)), bike.store.shards[away].keys.prefix
    for path in sorted(PAGES.keys() - STILL - {"job", "run"}):
        answer = api.get(f"/{path}")
        assert answer.status_code == 200, path
        assert f"What it has is not shown here: the shard {name} is missing: " in answer.text, path
    for path in ("jobs", "jobs?sort=next", "jobs?planned=1", "jobs?failed=1", "runs", "failures?as=list"):
        # A page may end early, as it has waited for the shard.
        wait_until(lambda path=path: sorted({*re.findall(r"bad-\d+:[AB]", api.get(f"/{path}").text)}) == near)
    assert "All is well" not in api.get("/").text
    one = api.get("/job", params={"id": near[0]})
    assert (one.status_code, f"the shard {name} is missing: " in one.text) == (200, True)
    other = next(jobid for jobid in FAILED if jobid not in near)
    assert api.get("/job", params={"id": other}).status_code == 503


@pytest.mark.parametrize("late", ["parent", "group"], indirect=True)
def test_the_late_jobs_of_the_others_are_listed(bike, late, near, away):
    status, found = Api(app(bike, api=True)).ask("GET", "/jobs?late=1")
    assert (status, found.get("missing")) == (200, [bike.store.shards[away].keys.prefix])
    assert [row["jobid"] for row in found["items"]] == [late]


def test_each_list_of_the_api_has_what_the_others_have_and_names_it(bike, near, away):
    api, name = Api(app(bike, api=True)), bike.store.shards[away].keys.prefix
    for path in LISTS:
        status, found = api.ask("GET", path)
        assert (path, status, found.get("missing")) == (path, 200, [name])
    for path in ("/jobs", "/runs", "/failures"):
        seen, cursor = [], ""
        while cursor is not None:
            _, found = api.ask("GET", f"{path}?limit=5{cursor and f'&cursor={cursor}'}")
            seen += [row["jobid"] for row in found["items"]]
            cursor = found["cursor"]
        assert (sorted(seen), found["missing"]) == (near, [name]), path
    for path in ("", "/next", "/why", "/runs"):
        assert api.ask("GET", f"/jobs/{near[0]}{path}")[0] == 200, path
    status, found = api.ask("GET", "/health")
    assert (status, name in found["detail"]) == (503, True)


def test_the_agenda_lacks_of_followers_those_whose_parents_nobody_knows(bike, own_server, away):
    by_shard = name_jobs(bike.store, *range(4), names=FAILED)
    gone, others = by_shard[away], [each for each in by_shard if each != by_shard[away]]
    for jobid in others:
        bike.enter(f"late{{{jobid}}}:A", f"AFTER:{gone}")
        bike.enter(f"then{{{jobid}}}:A", f"AFTER:{others[0]}")
    bike.enter(f"one{{{others[0]}}}:A", "EVERY:1h", group_of="G")
    bike.enter(f"last{{{others[0]}}}:A", "GROUP:G")
    own_server.stop()
    api, name = Api(app(bike, api=True)), bike.store.shards[away].keys.prefix
    status, found = api.ask("GET", "/agenda")
    assert (status, found.get("missing")) == (200, [name])
    named = {jobid for row in found["items"] for jobid in row["jobs"] if jobid.startswith(("late", "then", "last"))}
    assert named == {f"then{{{jobid}}}:A" for jobid in others}
    for path in ("agenda", "timeline"):
        shown = api.get(f"/{path}")
        assert (shown.status_code, f"the shard {name} is missing: " in shown.text) == (200, True), path
    for jobid, said in ((f"late{{{others[0]}}}:A", "is not known here"), (f"last{{{others[0]}}}:A", "the group G")):
        shown = api.get("/job", params={"id": jobid})
        assert (shown.status_code, f"the shard {name} is missing: " in shown.text) == (200, True), jobid
        assert said in shown.text


def test_an_agenda_does_not_name_what_the_one_before_has_lacked(bike, near, own_server, monkeypatch):
    monkeypatch.setattr(background, "KEPT", 0.5)
    api, found = Api(app(bike, api=True)), []

    def ask():
        found.append(api.ask("GET", "/agenda")[1])
        return sorted({jobid for row in found[-1].get("items", ()) for jobid in row["jobs"]})

    assert ask() == near
    assert "missing" in found[-1]
    own_server.start()
    wait_until(lambda: ask() == sorted(FAILED))
    assert "missing" not in found[-1]


def test_events_of_the_others_are_heard_meanwhile(bike, own_server, away, monkeypatch):
    monkeypatch.setattr(events, "RETRY", 0.05)
    gone, other = name_jobs(bike.store, away, 2, names=FAILED)
    hub = events.Hub(lambda: list_listens(bike.store))

    async def check():
        listener = hub.join(lambda jobid: True)
        await hear(listener, b"event: listening\n")
        own_server.stop()
        said = await hear(listener, b"event: away\n")
        assert f"the shard {bike.store.shards[away].keys.prefix} is missing: ".encode() in said
        await asyncio.to_thread(bike.pause, other)
        await hear(listener, f'"jobid":"{other}"'.encode())
        late = hub.join(lambda jobid: True)
        assert b"event: away\n" in late.take()
        own_server.start()
        assert b"event: away\n" not in await hear(listener, b"event: listening\n")
        await hear(late, b"event: listening\n")
        await asyncio.to_thread(bike.pause, gone)
        await hear(late, f'"jobid":"{gone}"'.encode())
        hub.leave(listener)
        hub.leave(late)

    asyncio.run(check())


def test_once_it_is_back_nothing_is_missing_and_elsewhere_it_is_an_error_as_before(bike, near, own_server):
    api = Api(app(bike, api=True))
    with pytest.raises(Unreachable, match="is missing: "):
        bike.queues()
    own_server.start()
    status, found = api.ask("GET", "/jobs")
    assert (status, "missing" in found) == (200, False)
    assert sorted(row["jobid"] for row in found["items"]) == sorted(FAILED)
