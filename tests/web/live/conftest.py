"""The page as a browser gets it: from a server of its own, by HTTP."""

import re
import threading
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from starlette.applications import Starlette
from uvicorn import Config, Server

from redbike import Redbike, RoundRobin
from redbike.web import app, live, site, stream
from tests.queries.kept import register
from tests.verbs import take_one
from tests.waiting import wait_until
from tests.web.live.browsers import BUSY, HOSTILE, TURNED, open_chromium


class Served(NamedTuple):
    """The page at a URL, and what it shows."""

    url: str  # with a slash at its end
    bike: Redbike
    application: Starlette


class Worker(RoundRobin):
    def work(self, jobid):
        if jobid.startswith("bad"):
            raise ValueError("it <b>broke</b>")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """What happens is shown at once, and whatever is away is asked again soon: a busy process would rest longer."""
    for name, value in {"PACE": 0.1, "SELDOM": 0.3, "RETRY": 0.1, "REST": 1.0, "LEISURE": 1.0}.items():
        monkeypatch.setattr(live, name, value)
    monkeypatch.setattr(stream, "RETRY", 200)
    monkeypatch.setattr(site, "SHARE", 1)
    monkeypatch.setattr(site.Snapshot.__init__, "__defaults__", (0.1,))


@contextmanager
def serve(bike, **options):
    """Serve the page on the jobs of `bike`; `options` are those of `app`."""
    application = app(bike, **options)
    server = Server(Config(application, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, 30)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}/", bike, application)
    finally:
        application.state.live.stop()
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "it does not end"


@pytest.fixture
def bike(client, server_url):
    with Redbike(Worker("A"), redis_config=server_url, noted_as="ada@here") as bike:
        yield bike


@pytest.fixture
def page(bike):
    """The page on the jobs of `bike`."""
    with serve(bike) as page:
        yield page


@pytest.fixture
def steered(bike):
    """The page on the jobs of `bike`, for somebody who may change them."""
    with serve(bike, write=True) as page:
        yield page


@pytest.fixture
def page_on_node(request, node):
    """The page on the jobs of that server; its options are the parameter of the test."""
    with ExitStack() as stack:
        url = f"redis://127.0.0.1:{node.port}/0"
        bike = stack.enter_context(Redbike(Worker("A"), redis_config=url, noted_as="ada@here"))
        yield stack.enter_context(serve(bike, **getattr(request, "param", {})))


# Not for the session: while Playwright is open, no other test can run an event loop in this thread.
@pytest.fixture(scope="package")
def browser():
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser):
    """Opens a page in a browser of its own; the test fails for what goes wrong in it, unless that is `expected`."""
    problems, contexts = [], []

    def start(url, expected=r"status of 404", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(BUSY)
        tab = context.new_page()
        tab.on("console", lambda said: said.type == "error" and problems.append((expected, said.text)))
        tab.on("pageerror", lambda error: problems.append((expected, str(error))))
        tab.on("dialog", lambda dialog: problems.append(("never", dialog.message)) or dialog.dismiss())
        tab.goto(url)
        return tab

    yield start
    for context in contexts:
        context.close()
    assert [said for expected, said in problems if not re.search(expected, said)] == []


def wait_for_queues(page):
    """Wait until what was seen last of all has the queues that there are."""
    names = {queue.queue for queue in page.bike.queues()}
    wait_until(lambda: names <= {queue.queue for queue in page.application.state.site.view.get().glance.queues}, BUSY)


def fill(page):
    """Set jobs of all kinds."""
    bike = page.bike
    for jobid in ("hello:A", "bad:A"):
        bike.set(jobid, "EVERY:1h", history=5)
        bike.run(jobid)
        bike.work_one()
    bike.set("backup:B", "0 3 * * *")
    bike.set("waits:A", "NOW")
    bike.set("rests:A", "EVERY:2h")
    bike.pause("rests:A", reason="the disk is full")
    for jobid in (HOSTILE, TURNED):
        bike.set(jobid, "EVERY:3h")
    wait_for_queues(page)
    return page


def fill_more(page):
    """Add what needs somebody: failures, a run that hangs, a lost worker, what is late, paused, limited or followed."""
    bike, now = page.bike, page.bike.store.timeline.read_clock()
    for number in range(3):
        bike.set(f"bad{number}:A", "EVERY:1h", history=1, owner="amy", note="call her", tags="eu,night")
        bike.run(f"bad{number}:A")
        bike.work_one()
    bike.set("child:A", "AFTER:hello:A,bad:A")
    bike.set("missed:A", "AT:1000", finish_within="1s")
    bike.set("hung:D", "EVERY:1d", timeout="10s", start_within="1h")
    bike.run("hung:D")
    register(bike.store, "worker", queues=["work-D"], now=now)
    register(bike.store, "worker", 2, queues=["work-E"], now=now - 120)
    assert take_one(bike.store.at(now - 60), [("work-D", 3600.0)], "Ownerw01-1").jobid == "hung:D"
    bike.limit("D", at_once=5, rate="100/m")
    bike.pause_queue("E", until=now + 3600, reason="the printer")
    bike.pause_queue("F", every="0 2 * * sat", lasting="2h", reason="the backup")
    wait_for_queues(page)


@pytest.fixture
def busy(page):
    """The page on jobs of all kinds."""
    return fill(page)


@pytest.fixture
def steering(bike):
    """The page on jobs of all kinds, for somebody who may see and change everything."""
    with serve(bike, write=True, show_data=True) as page:
        yield fill(page)
