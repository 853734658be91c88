"""What the tests of the page share: jobs on an empty server, and what asks for pages."""

import functools

import pytest

from redbike import Redbike
from redbike.store.past_runs import PastRuns
from redbike.web import app, keys, rendering, site
from redbike.web.api import lists, paging
from redbike.web.pages import incident, jobs, log, rehearsal
from tests.queries.kept import register
from tests.verbs import Quiet
from tests.web.browsing import Browser, TestClient

BASE = "http://localhost"


class Failing(Quiet):
    """What it works fails as the data of a job say, and else succeeds."""

    def work(self, jobid, data):
        super().work(jobid)
        if isinstance(data, dict) and "error" in data:
            raise ValueError(data["error"])


class Giving(Failing):
    """What it works has a result."""

    def work(self, jobid, data):
        super().work(jobid, data)
        return "hush"


@pytest.fixture(autouse=True, scope="session")
def _cheap_sites():
    """Templates are compiled once in this process, secrets made at once, and all is read, however slow a machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "make_environment", functools.cache(rendering.make_environment))
        patch.setattr(keys, "ROUNDS", 1)
        patch.setattr(incident, "READ_TIMEOUT", 600.0)
        patch.setattr(rehearsal, "REHEARSAL_TIMEOUT", 600.0)
        patch.setattr(jobs, "SEARCH_TIMEOUT", 600.0)
        patch.setattr(log, "SEARCH_TIMEOUT", 600.0)
        patch.setattr(log, "LOOK_TIMEOUT", 600.0)
        patch.setattr(PastRuns.read_failures, "__defaults__", (600.0,))
        patch.setattr(PastRuns.read_runs_of_many, "__defaults__", (100, 600.0))
        for module in (paging, lists):
            patch.setattr(module, "PATIENCE", 600.0)
        yield


@pytest.fixture
def bike(client, server_url, prefix):
    """Jobs on an empty server."""
    with Redbike(Failing("A:B"), prefix=prefix, redis_config=server_url, on_error="stop") as bike:
        yield bike


@pytest.fixture
def browse(bike):
    """Makes a client of the page, with the options of `app`; `base_url`, `client` and `root_path` are its own."""

    def browse(base_url=BASE, client=("192.0.2.1", 1000), root_path="", **options):
        more = {"follow_redirects": False, "raise_server_exceptions": False, "root_path": root_path}
        return TestClient(app(bike, **options), base_url=base_url, client=client, **more)

    return browse


def register_hosts(bike, *hosts):
    """Workers of the queue A, one on each of these: there, a job for every host has one of its own."""
    for number, host in enumerate(hosts, 1):
        register(bike.store, "worker", number, now=bike.store.timeline.read_clock(), host=host, for_host=True)


@pytest.fixture
def page(bike):
    """Asks the page as a browser would, without its lifespan."""
    return TestClient(app(bike), base_url=BASE)


@pytest.fixture
def page_with_data(bike):
    return TestClient(app(bike, show_data=True), base_url=BASE)


@pytest.fixture
def browser(bike):
    """The browser of somebody who may change something."""
    return Browser(app(bike, write=True))
