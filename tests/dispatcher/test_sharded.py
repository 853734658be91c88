"""Dispatchers of several shards: they share the timefile, and end together."""

import json

from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.dispatcher.sharded import Dispatchers, share_timefile
from tests.dispatcher.test_unplaced import WHY, Places
from tests.loops import beside, join, start
from tests.pinged import serve
from tests.shards import divide, name_jobs
from tests.waiting import wait_until

BIKE = {"shards": 4}


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
    thread = start(dispatchers.dispatch)
    wait_until(lambda: [len(shard.workers.list_all()) for shard in bike.store.shards] == [1] * 4)
    assert len(bike.workers()) == 1
    dispatchers.stopping.set()
    join(thread)
    assert bike.workers() == []


def test_health_counts_and_names_the_jobs_that_those_of_all_shards_cannot_place(bike, client, monkeypatch):
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 0.6)
    places = Places()
    places.lost = {*name_jobs(bike.store, *range(4))}
    for jobid in places.lost:
        bike.set(jobid, "EVERY:1s")
    store = divide(bike.settings.prefix, *[client] * 4, queue_for=places)
    with beside(store, Dispatchers(store, bike.settings).dispatch):
        named = {f"{jobid} is due, but a dispatcher cannot name its queue: {WHY}" for jobid in places.lost}
        wait_until(lambda: named <= set(bike.health().problems))
        wait_until(lambda: bike.health(max_lag=0.1).metrics["overdue"] == 4)


def test_a_shard_that_has_lost_all_of_its_data_is_named_and_gets_its_part_of_limits(prefix, own_server, client, caplog):
    with connect(own_server.url) as other:
        store = divide(prefix, client, other)
        lost = store.shards[1]
        store.queue_limits.limit("work-A", at_once=3)
        with beside(store, Dispatchers(store, Settings()).dispatch):
            wait_until(lambda: all(shard.timeline.read_dispatched()[1] for shard in store.shards))
            other.flushall()
            wait_until(lambda: lost.queue_limits.read("work-A").at_once == 3)
        assert f"the shard {lost.keys.prefix}: the server had lost all of its data when" in caplog.text
        assert [rewind.shard for rewind in store.rewinds.list_all()] == [lost.keys.prefix]


def test_one_that_fails_ends_all_and_its_error_is_raised(bike, client):
    dispatchers = Dispatchers(bike.store, bike.settings)
    raised = []

    def dispatch():
        try:
            dispatchers.dispatch()
        except Exception as error:
            raised.append(str(error))

    thread = start(dispatch)
    wait_until(lambda: len(bike.workers()) == 1)
    key = bike.store.shards[2].keys.timeline
    client.set(key, "not a timeline")
    join(thread)
    [error] = raised
    assert key in error


def test_the_alerts_of_one_tell_that_another_one_is_away(prefix, own_server, client, monkeypatch):
    for name, seconds in {"LOOK": 0.02, "GATHER": 0.0, "SPACING": 0.0, "AWAY": 0.1}.items():
        monkeypatch.setattr(f"redbike.loop.alerts.thread.{name}", seconds)
    with connect(own_server.url) as other, serve() as pinged:
        dispatchers = Dispatchers(divide(prefix, other, client), Settings(alert=pinged.url))
        thread = start(dispatchers.dispatch)
        wait_until(lambda: not any(each.alerting.is_away for each in dispatchers._all))
        own_server.stop()
        wait_until(lambda: b"the shard {test" in b"".join(body for _, body in pinged.posted))
        own_server.start()
        wait_until(lambda: b"answers again" in b"".join(body for _, body in pinged.posted))
        dispatchers.stopping.set()
        join(thread)
    told = [json.loads(line)["alert"] for _, body in pinged.posted for line in body.splitlines()]
    assert told == ["shard away", "recovered"]
