"""Among how many shards jobs are divided is stored, and who thinks otherwise is refused."""

import json

import pytest

from redbike import BadConfig, Redbike, RoundRobin
from redbike.store import agreement
from tests.loops import beside
from tests.waiting import wait_until


def open_bike(client, prefix, shards):
    return Redbike(RoundRobin("A:B"), prefix, client, shards=shards)


@pytest.mark.parametrize("number", [0, 65, "many"])
def test_a_bad_number_is_refused(client, prefix, number):
    with pytest.raises(BadConfig, match=f"bad shards '?{number}'?"):
        open_bike(client, prefix, number)


def test_another_number_is_refused_once_there_is_a_job(client, prefix):
    bike, early = open_bike(client, prefix, 4), open_bike(client, prefix, 8)
    open_bike(client, prefix, 1)  # to look changes nothing
    assert client.keys(f"*{prefix}*") == []
    bike.set("job:A", "EVERY:1h")
    said = "divided among 4; write shards: 4 into the config$"
    for other in (1, 2, 8):
        with pytest.raises(BadConfig, match=f"bad shards {other}: .* {said}"):
            open_bike(client, prefix, other)
    # Also who had begun before, and who works.
    with pytest.raises(BadConfig, match=f"bad shards 8: .* {said}"):
        early.set("other:A", "EVERY:1h")
    for loop in (early.dispatch, early.work):
        with pytest.raises(BadConfig, match="bad shards 8"):
            loop()
    assert [job.jobid for job in open_bike(client, prefix, 4).jobs()] == ["job:A"]


def lose_all(client, prefix):
    """Lose all data of the prefix, as after FLUSHALL."""
    client.delete(*client.keys(f"*{prefix}*"))


def test_a_change_notes_the_number_again_that_a_server_has_lost(client, prefix, monkeypatch):
    monkeypatch.setattr(agreement, "AGAIN", 0.0)
    bike = open_bike(client, prefix, 4)
    bike.set("job:A", "EVERY:1h")
    lose_all(client, prefix)
    bike.set("job:A", "EVERY:1h")
    with pytest.raises(BadConfig, match="divided among 4"):
        open_bike(client, prefix, 8)


def test_a_dispatcher_notes_the_number_again_that_a_server_has_lost(client, prefix):
    bike = open_bike(client, prefix, 4)
    with beside(bike.store, bike.dispatch):
        wait_until(lambda: all(shard.timeline.read_dispatched()[1] for shard in bike.store.shards))
        lose_all(client, prefix)
        wait_until(lambda: client.hget(f"{prefix}-agreed", "shards") == b"4")


def test_jobs_without_shards_are_not_left_behind(client, prefix):
    open_bike(client, prefix, 1).set("job:A", "EVERY:1h")
    with pytest.raises(BadConfig, match=r"bad shards 4: .* has jobs that are in one shard"):
        open_bike(client, prefix, 4)


def test_beside_processes_without_shards_there_are_no_shards(client, prefix):
    workers = open_bike(client, prefix, 1).store.workers
    workers.register("OwnerOf1", json.dumps({"kind": "dispatcher", "host": "h", "pid": 1, "version": "1"}))
    with pytest.raises(BadConfig, match=r"bad shards 4: dispatchers or workers of the prefix .* run with one shard"):
        open_bike(client, prefix, 4)
    workers.unregister("OwnerOf1")
    bike = open_bike(client, prefix, 4)
    workers.register("OwnerOf2", json.dumps({"kind": "worker", "host": "h", "pid": 1, "version": "1"}))
    bike.store.agreement._checked_at -= agreement.AGAIN
    with pytest.raises(BadConfig, match="run with one shard"):
        bike.set("job:A", "EVERY:1h")
    workers.unregister("OwnerOf2")
    assert bike.set("job:A", "EVERY:1h")


def test_one_shard_has_the_keys_that_there_were(client, prefix):
    open_bike(client, prefix, 1).set("job:A", "EVERY:1h")
    assert f"{prefix}-schedules".encode() in client.keys(f"*{prefix}*")
    assert client.keys(f"*{prefix}-agreed") == []


def test_each_shard_has_keys_of_its_own(client, prefix):
    bike = open_bike(client, prefix, 4)
    for number in range(40):
        bike.set(f"job-{number}:A", "EVERY:1h")
    counts = [client.hlen(f"{{{prefix}:{shard:02}}}/4-schedules") for shard in range(4)]
    assert sum(counts) == 40
    assert all(counts)
    assert bike.flush() > 4
    assert client.keys(f"{{{prefix}:*") == []
