"""The thread that gives the signs of life; what they do is in test_worker.py and test_transitions.py."""

import pytest

from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.run import GRACE, LEASE, NextState
from redbike.worker.heartbeat import Heartbeat
from tests.states import take
from tests.verbs import set_job, survey, take_many
from tests.waiting import wait_until

NOW = 1000.0


def test_jobs_that_are_over_at_once_do_not_wake_it_one_by_one(store, monkeypatch):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.5)
    set_job(store, "job:A", "EVERY:1h", "now")
    run = take(store, now=None)
    heartbeat, polls = Heartbeat(store, lambda run: None, lambda run: None), []
    monkeypatch.setattr(
        heartbeat, "_find_next_poll", lambda runs, find=heartbeat._find_next_poll: polls.append(0) or find(runs)
    )

    def one_more():
        with heartbeat._changed:
            heartbeat.add(run)
            heartbeat.remove(run)

    one_more()
    wait_until(lambda: len(polls) == 1 and heartbeat._changed.acquire(blocking=False))
    heartbeat._changed.release()
    for _ in range(20):
        one_more()
    with heartbeat._changed:
        assert len(polls) == 1
    # And when none comes any more, it rests.
    wait_until(lambda: heartbeat._wake_at == float("inf"))
    assert len(polls) == 2
    heartbeat.stop()


def take_together(store, timeouts, tag="tag", now=NOW):
    """Take a job of each of these queues, by name, in one step."""
    jobids = [f"{tag}:{name}" for name in timeouts]
    due = "now" if now is None else now
    store.at(now).jobs.set([JobToSet(jobid, "EVERY:1h@0", due, False, store.queue_for(jobid)) for jobid in jobids])
    queues = [(f"work-{name}", timeout) for name, timeout in timeouts.items()]
    runs = take_many(store.at(now), queues, range(1, len(queues) + 1), tag, len(queues))
    assert [run.jobid for run in runs] == jobids
    return runs


def leases(store):
    return {tag.decode(): lease for tag, lease in store.client.zrange(store.keys.leases, 0, -1, withscores=True)}


@pytest.mark.parametrize("part", [slice(None), slice(1), slice(2, 3)])
def test_a_heartbeat_for_any_run_of_a_tag_is_one_for_all(store, part):
    runs = take_together(store, {"A": 100.0, "B": 100.0, "C": 100.0})
    store.client.config_resetstat()
    assert set(store.at(NOW + 5).runs.heartbeat(runs[part])) == {"ok"}
    assert store.client.info("commandstats")["cmdstat_zadd"]["calls"] == 1
    assert leases(store) == {"tag": NOW + 5 + LEASE}
    assert {state.lease for state in store.questions.inspect([run.jobid for run in runs])} == {NOW + 5 + LEASE}
    assert survey(store.at(NOW + LEASE)).lost == []
    assert survey(store.at(NOW + 5 + LEASE)).lost == runs


def test_the_signs_of_life_of_several_tags_are_one_request(store):
    first = take_together(store, {"A": 100.0, "B": 100.0}, "first")
    second = take_together(store, {"A": 100.0, "B": 100.0}, "second")
    take_together(store, {"A": 100.0}, "silent")
    assert store.at(NOW + 5).runs.heartbeat([first[1], second[0], first[0]]) == ["ok"] * 3
    assert leases(store) == {"first": NOW + 5 + LEASE, "second": NOW + 5 + LEASE, "silent": NOW + LEASE}
    assert [run.tag for run in survey(store.at(NOW + LEASE)).lost] == ["silent"]


def test_a_lease_ends_a_little_after_the_last_deadline(store):
    """Each run is over at its own, and the lease of the others goes on."""
    quick, slow = runs = take_together(store, {"A": 5.0, "B": 8.0})
    assert leases(store) == {"tag": NOW + 8 + GRACE}
    assert store.at(NOW + 1).runs.heartbeat(runs) == ["ok", "ok"]
    assert leases(store) == {"tag": NOW + 8 + GRACE}
    assert store.at(NOW + 5).runs.heartbeat(runs) == ["overrun", "ok"]
    assert leases(store) == {"tag": NOW + 8 + GRACE}
    assert store.at(NOW + 5).runs.end(quick, NextState("die", why="overrun")).word == "ok"
    assert store.at(NOW + 7.9).runs.heartbeat(runs) == ["stale", "ok"]
    assert store.at(NOW + 8).runs.heartbeat(runs) == ["stale", "overrun"]
    assert leases(store) == {"tag": NOW + 8 + GRACE}
    assert survey(store.at(NOW + 8 + GRACE)).lost == [slow]


def test_the_thread_reports_one_of_several_that_is_over_and_keeps_the_others_alive(store, monkeypatch):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)
    quick, slow = runs = take_together(store, {"A": 0.2, "B": 1000.0}, now=None)
    over = []
    heartbeat = Heartbeat(store, lambda run: over.append(run.jobid), lambda run: None)
    for run in runs:
        heartbeat.add(run)
    wait_until(lambda: over)
    store.runs.end(quick, NextState("die", why="overrun"))
    lease = leases(store)["tag"]
    wait_until(lambda: leases(store)["tag"] > lease)
    assert over == [quick.jobid]
    heartbeat.remove(slow)
    store.runs.end(slow, NextState("stop"))
    heartbeat.stop()
    assert leases(store) == {}
    assert list(fsck(store)) == []
