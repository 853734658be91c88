"""Many jobs at once: they are set, and looked at, in few round trips."""

import pytest
from redis.connection import AbstractConnection

from redbike import BadConfig, BadSchedule, Redbike, RoundRobin


@pytest.fixture
def bike(client, prefix):
    return Redbike(RoundRobin("A:B"), prefix, client)


@pytest.fixture
def trips(monkeypatch):
    """A list with an entry for every time that something is sent to a server after an answer."""
    events = []
    send, receive = AbstractConnection.send_packed_command, AbstractConnection.read_response

    def note_sent(connection, *args, **kwargs):
        if events[-1:] != ["waits"]:
            found.append(len(events))
        events.append("waits")
        return send(connection, *args, **kwargs)

    def note_received(connection, *args, **kwargs):
        events.append("answered")
        return receive(connection, *args, **kwargs)

    found = []
    monkeypatch.setattr(AbstractConnection, "send_packed_command", note_sent)
    monkeypatch.setattr(AbstractConnection, "read_response", note_received)
    return found


def test_set_many_takes_options_and_data_for_each_job(bike):
    rows = [
        ("a:A", "EVERY:1h@0", {"timeout": "5m", "on-error": "retry", "data": {"to": ["anna"]}}),
        ("b:A", "NOW", {}),
        ["c:A", "NOW", {"retries": 3}],
    ]
    assert list(bike.set_many(rows)) == [("a:A", True), ("b:A", True), ("c:A", True)]
    told = bike.tell("a:A")
    assert told["options"] == {"timeout": 300, "on-error": "retry"}
    assert told["data"] == {"to": ["anna"]}
    assert "options" not in bike.tell("b:A")
    assert bike.tell("c:A")["options"] == {"retries": 3}


def test_a_job_keeps_the_options_that_set_many_is_not_given(bike):
    bike.set("a:A", "EVERY:1h@0", timeout=5, retries=2, data=1)
    assert list(bike.set_many([("a:A", "EVERY:2h@0", {"retries": None, "grace": 60})])) == [("a:A", True)]
    assert bike.tell("a:A")["options"] == {"timeout": 5, "grace": 60}
    assert bike.tell("a:A")["data"] == 1
    assert list(bike.set_many([("a:A", "EVERY:2h@0", {"data": None})])) == [("a:A", True)]
    assert "data" not in bike.tell("a:A")


def test_set_many_names_each_row_with_bad_options_or_data(bike):
    rows = [("a:A", "NOW", {"retries": -1}), ("b:A", "NOW", {"data": object()}), ("c:A", "NOW", {"retries": 1})]
    rows += [("d:A", "nonsense", {"retries": 1}), ("e:A", None, {"retries": -1})]
    results = dict(bike.set_many(rows))
    assert [type(result) for result in results.values()] == [BadConfig, BadConfig, bool, BadSchedule, BadConfig]
    assert [jobid for jobid, _ in bike.get_schedules()] == ["c:A"]


@pytest.mark.parametrize("options", [{"retreis": 3}, None, "retries"])
def test_set_many_sets_nothing_of_a_batch_with_what_are_no_options(bike, options):
    with pytest.raises(TypeError, match=r"retreis|a dict is needed"):
        list(bike.set_many([("b:A", "EVERY:1h"), ("a:A", "NOW", options)]))
    assert list(bike.get_statuses()) == []


def test_options_and_data_take_no_further_round_trips(bike, trips):
    list(bike.set_many([("warm:A", "NOW"), ("warm:B", "NOW")]))
    trips.clear()
    list(bike.set_many((f"{number}:A", "EVERY:1h@0") for number in range(500)))
    plain = len(trips)
    trips.clear()
    list(bike.set_many((f"{number}:B", "EVERY:1h@0", {"retries": 3, "data": number}) for number in range(500)))
    assert len(trips) == plain <= 2
    assert bike.tell("499:B")["data"] == 499
