"""The store of a test."""

import pytest

from redbike import RoundRobin
from redbike.store.store import Store


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, RoundRobin("A").queue_for)
