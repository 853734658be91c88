"""Events: what happens is heard by those who listen, in a cluster too, and costs nobody his jobs."""

import threading

import pytest

from redbike import LogEntry, PastRun, Redbike
from redbike.control.moving import Mover
from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.store import listening
from redbike.store.inspection.fsck import fsck
from redbike.store.lease import LEASE
from tests.states import QUEUE
from tests.verbs import Telling, take_many
from tests.waiting import wait_until


@pytest.fixture(params=["server", pytest.param("cluster", marks=pytest.mark.acceptance)])
def bike(request, client, server_url, prefix):
    """On a server, and on a cluster."""
    url = server_url if request.param == "server" else request.getfixturevalue("cluster").url
    bike = Redbike(Telling("A"), prefix=f"{{{prefix}}}", redis_config=url, noted_as="me@here")
    yield bike
    bike.flush()


def take(events, number):
    return [next(events) for _ in range(number)]


def test_each_run_that_ends_is_heard(bike):
    bike.set("good:A", "NOW")
    bike.set("bad:A", "NOW")
    events = bike.events()
    assert [bike.work_one(), bike.work_one()] == ["good:A", "bad:A"]
    heard = take(events, 2)
    assert all(isinstance(run, PastRun) for run in heard)
    assert [(run.jobid, run.outcome, run.error) for run in heard] == [
        ("good:A", "ok", ""),
        ("bad:A", "failed", "ValueError: it broke"),
    ]
    assert heard == bike.runs()[::-1]
    events.close()


def test_what_was_lost_together_is_heard_and_what_did_not_end_is_not(bike):
    bike.set("job:A", "NOW")
    bike.set("other:A", "NOW")
    events = bike.events()
    runs = take_many(bike.store, [(QUEUE, 100.0)], [1], "OwnerOf1tag", 2)
    bike.unset("other:A")
    bike.dispatch_due(runs[0].start + LEASE)
    [change, *lost] = take(events, 3)
    assert (change.action, change.jobid) == ("unset", "other:A")
    # One of a job that was unset has ended like the other one.
    assert [(run.jobid, run.outcome) for run in lost] == [("job:A", "lost"), ("other:A", "lost")]
    events.close()


def test_what_people_change_is_heard_once_each_and_programs_are_not(bike):
    events = bike.events()
    for _ in bike.set_many([("a:A", "EVERY:1h"), ("b:A", "EVERY:1h")]):
        pass
    bike.pause("a:A", "b:A")
    bike.resume("a:A")
    bike.resume("b:A")
    bike.store.signals.halt()
    bike.control("HALT")
    heard = take(events, 7)
    assert all(isinstance(change, LogEntry) and change.who == "me@here" for change in heard)
    assert [(change.action, change.jobid) for change in heard] == [
        ("set", "a:A"),
        ("set", "b:A"),
        ("pause", "a:A"),
        ("pause", "b:A"),
        ("resume", "a:A"),
        ("resume", "b:A"),
        ("halt", ""),
    ]
    events.close()


def test_a_listener_whose_connection_breaks_is_told_and_may_listen_again(bike):
    events = bike.events()
    assert bike.client.client_kill_filter(_type="pubsub")
    with pytest.raises(Unreachable):
        next(events)
    events = bike.events()
    bike.set("a:A", "NOW")
    assert next(events).action == "set"
    events.close()


def test_who_may_not_publish_does_all_else(client, server_url, prefix, caplog):
    client.acl_setuser("silent", enabled=True, nopass=True, commands=["+@all"], keys=["*"], reset_channels=True)
    try:
        url = server_url.replace("unix://", "unix://silent:x@")
        bike = Redbike(Telling("A"), prefix=prefix, redis_config=url, noted_as="me@here")
        bike.set("job:A", "NOW")
        assert bike.work_one() == "job:A"
        assert [run.outcome for run in bike.runs()] == ["ok"]
        assert [entry.action for entry in bike.log()] == ["set"]
        assert list(fsck(bike.store)) == []
        thread = threading.Thread(target=bike.work)
        thread.start()
        wait_until(lambda: f"Redis does not let this worker publish to '&{prefix}-*'" in caplog.text)

        def is_halted():
            # It says so before it looks for a signal for the first time, and heeds none of before that.
            bike.control("HALT")
            return not thread.is_alive()

        wait_until(is_halted)
        with pytest.raises(ServerError, match="permission"):
            bike.events()
    finally:
        client.acl_deluser("silent")


LISTEN = {
    "events": lambda bike, is_over=lambda: False: bike.store.events.listen(is_over=is_over),
    "live": lambda bike, is_over=lambda: False: filter(None, bike.store.live.listen(["job:A"], is_over)),
}


@pytest.mark.parametrize("what", LISTEN)
def test_a_server_that_says_nothing_is_asked_and_is_away_if_it_does_not_answer(bike, monkeypatch, what):
    monkeypatch.setattr(listening, "LOOK", 0.05)
    monkeypatch.setattr(listening, "ASK", 0.1)
    heard = LISTEN[what](bike, lambda: len(asked) > 3)
    asked, ask = [], listening.Silence.asks
    monkeypatch.setattr(listening.Silence, "asks", lambda self: ask(self) and not asked.append(self))
    assert list(heard) == [], "it has answered each time"
    monkeypatch.setattr(listening, "PATIENCE", 0.2)
    heard = LISTEN[what](bike)
    monkeypatch.setattr(listening, "ASK", 0.0)
    monkeypatch.setattr("redis.client.PubSub.ping", lambda self: None)
    with pytest.raises(Unreachable, match="does not answer"):
        next(heard)


@pytest.mark.parametrize(("shards", "what"), [(1, "events"), (4, "events"), (1, "live")])
def test_who_listens_while_the_jobs_move_to_other_shards_is_told(client, prefix, monkeypatch, shards, what):
    monkeypatch.setattr(listening, "LOOK", 0.05)
    monkeypatch.setattr(listening, "ASK", 0.1)
    with Redbike(Telling("A"), prefix, client, shards=shards) as bike:
        bike.set("job:A", "NOW")
        heard = LISTEN[what](bike)
        Mover(client, prefix).move(2)
        for listen in (lambda bike: heard, LISTEN[what]):
            with pytest.raises(BadConfig, match=rf"^bad shards {shards}: .* have moved to 2 shards: write the number"):
                next(listen(bike))
