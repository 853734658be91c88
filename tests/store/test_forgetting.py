"""Which one-offs that have ended are forgotten, straight at the script."""

from redbike.store import timeline
from tests.states import DUE, NOW, OLD, START, dump, take
from tests.verbs import set_job


def set_spent(store, *jobids, ripe=NOW):
    store.client.zadd(store.keys.spent, dict.fromkeys(jobids, ripe))


def test_those_that_have_ended_long_enough_ago_are_forgotten_and_others_stay(store, client):
    for jobid in ("flies:A", "waits:A"):
        set_job(store.at(START), jobid, OLD, START)
    take(store)
    set_job(store.at(START), "again:A", OLD, DUE)
    for jobid in ("gone:A", "owned:A", "row:A", "ripe later:A", "text:A"):
        set_job(store.at(START), jobid, "STOP", None)
    store.jobs.set_groups({"owned:A": "a.csv", "row:A": "a.csv\nNOW"})
    client.hset(store.keys.schedules, "text:A", OLD)
    set_spent(store, "gone:A", "owned:A", "row:A", "text:A", "flies:A", "waits:A", "again:A", "nobody:A")
    set_spent(store, "ripe later:A", ripe=NOW + 0.001)
    before = dump(store)
    assert store.at(NOW - 1).timeline.forget() == (0, False)
    assert dump(store) == before
    assert store.at(NOW).timeline.forget() == (2, False)
    assert {jobid for jobid, _ in store.questions.list_schedules()} == {
        *("flies:A", "waits:A", "again:A", "row:A", "ripe later:A", "text:A")
    }
    assert client.zrange(store.keys.spent, 0, -1, withscores=True) == [
        (b"ripe later:A", NOW + 0.001),
        *((jobid, NOW + 60) for jobid in (b"flies:A", b"waits:A")),  # looked at again then
    ]
    assert store.counts.read()["forgotten::"] == 2
    settled = dump(store)
    assert store.at(NOW).timeline.forget() == (0, False)
    assert dump(store) == settled


def test_many_are_forgotten_a_few_at_a_time(store, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_FORGOTTEN", 2)
    for jobid in ("a:A", "b:A", "c:A"):
        set_job(store.at(START), jobid, "STOP", None)
    set_spent(store, "a:A", "b:A", "c:A")
    assert [store.at(NOW).timeline.forget() for _ in range(2)] == [(2, True), (1, False)]
    assert store.counts.read()["forgotten::"] == 3
