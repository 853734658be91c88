"""Dispatchers of several shards: they share the timefile, and end together."""

import threading

import pytest

from redbike import Redbike, RoundRobin
from redbike.dispatcher.sharded import Dispatchers, share_timefile
from tests.waiting import wait_until


@pytest.fixture
def bike(client, prefix):
    with Redbike(RoundRobin("A"), prefix, client, shards=4) as bike:
        yield bike


def test_the_timefile_has_the_first_instant_of_all_shards(tmp_path):
    path = tmp_path / "time"
    parts = share_timefile(str(path), 3)
    parts[0].write(30.0)
    parts[1].write(20.0)
    assert not path.exists(), "a shard has none yet"
    parts[2].write(25.0)
    assert float(path.read_text()) == 20.0
    parts[1].write(40.0)
    assert float(path.read_text()) == 25.0
    assert [part.read(99.0) for part in parts] == [25.0] * 3


def test_one_shard_has_the_timefile_of_the_settings_and_none_is_made_without(tmp_path):
    assert share_timefile(str(tmp_path / "time"), 1) == [None]
    assert share_timefile(None, 3) == [None] * 3


def test_all_end_with_the_first_one_and_are_one_process(bike):
    dispatchers = Dispatchers(bike.store, bike.settings)
    thread = threading.Thread(target=dispatchers.dispatch)
    thread.start()
    wait_until(lambda: [len(shard.workers.list_all()) for shard in bike.store.shards] == [1] * 4)
    assert len(bike.workers()) == 1
    dispatchers.stopping.set()
    thread.join(60)
    assert not thread.is_alive()
    assert bike.workers() == []


def test_one_that_fails_ends_all_and_its_error_is_raised(bike, client):
    dispatchers = Dispatchers(bike.store, bike.settings)
    raised = []

    def dispatch():
        try:
            dispatchers.dispatch()
        except Exception as error:
            raised.append(str(error))

    thread = threading.Thread(target=dispatch)
    thread.start()
    wait_until(lambda: len(bike.workers()) == 1)
    key = bike.store.shards[2].keys.timeline
    client.set(key, "not a timeline")
    thread.join(60)
    assert not thread.is_alive()
    [error] = raised
    assert key in error
