"""The store of a test, and a dispatcher."""

import pytest

from redbike import RoundRobin
from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.store.store import Store


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, RoundRobin("A").queue_for)


@pytest.fixture
def dispatcher(store):
    dispatcher = Dispatcher(store, Settings())
    yield dispatcher
    dispatcher.close()
