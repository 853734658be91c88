"""What all tests of what only reads begin with."""

import pytest

from redbike.store.store import Store
from tests.states import queue_for


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, queue_for)
