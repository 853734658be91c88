"""What all tests of what only reads begin with."""

import pytest

from redbike.store.store import Store
from redbike.testing.fixture import MakeRedbike, Served
from tests.states import queue_for


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, queue_for)


@pytest.fixture
def redbike(client, server_url):
    """That of the plugin, on the suite's own server. The plugin itself is tried in processes of its own."""
    maker = MakeRedbike(Served(server_url, client))
    yield maker
    maker.close()
