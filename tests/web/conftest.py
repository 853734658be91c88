"""What the tests of the page share."""

import pytest
from starlette.testclient import TestClient

from redbike import Redbike, RoundRobin
from redbike.web import app


@pytest.fixture
def bike(client, server_url):
    """Jobs on an empty server."""
    with Redbike(RoundRobin("A"), redis_config=server_url) as bike:
        yield bike


@pytest.fixture
def browse(bike):
    """Makes a client of the page, with the options of `app`; `base_url` and `client` are its own."""

    def browse(base_url="http://localhost", client=("192.0.2.1", 1000), **options):
        page = app(bike, **options)
        return TestClient(page, base_url=base_url, client=client, follow_redirects=False, raise_server_exceptions=False)

    return browse
