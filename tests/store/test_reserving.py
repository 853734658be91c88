"""Places of a queue with a limit at once that functions hold which go on after their runs, straight at the script."""

import json

import pytest

from tests.states import JOB, NOW, OLD, QUEUE, START, dump
from tests.verbs import set_job


def reserve(store, tag, seconds, now=NOW):
    return store.at(now).queue_limits.reserve(QUEUE, tag, JOB, seconds)


def held(store):
    limits = json.loads(store.client.hget(store.keys.queue_limits, QUEUE))
    return {run.partition(" ")[0]: ends for run, ends in limits.get("held", {}).items()}


def timer(store):
    return store.client.zscore(store.keys.timers, f"queue:{QUEUE}")


def test_each_reservation_ends_by_itself_and_the_first_end_is_told(store):
    store.at(NOW).queue_limits.limit(QUEUE, at_once=2)
    store.client.delete(store.keys.timers)  # that of the new limit
    assert reserve(store, "one", 10.0)
    assert reserve(store, "two", 20.0)
    assert (held(store), timer(store)) == ({"one": NOW + 10, "two": NOW + 20}, NOW + 10)
    assert reserve(store, "two", 5.0, NOW + 9.999)
    assert held(store) == {"one": NOW + 10, "two": NOW + 14.999}
    assert reserve(store, "two", 1.0, NOW + 10)
    assert held(store) == {"two": NOW + 11}


@pytest.mark.parametrize("waiting", [0, 1])
def test_the_end_of_one_wakes_a_worker_if_there_is_something_to_do(store, client, waiting):
    store.at(START).queue_limits.limit(QUEUE, at_once=1)
    for number in range(waiting):
        set_job(store.at(START), f"{number}:A", OLD, START)
    for key in (store.keys.wake(QUEUE), store.keys.timers):
        client.delete(key)
    assert reserve(store, "one", 10.0)
    assert client.llen(store.keys.wake(QUEUE)) == 0
    client.delete(store.keys.timers)
    assert reserve(store, "one", 0.0)
    assert (held(store), timer(store)) == ({}, None)
    assert client.llen(store.keys.wake(QUEUE)) == waiting
    settled = dump(store)
    assert not reserve(store, "one", 0.0), "there is none any more"
    assert dump(store) == settled


def test_the_end_of_one_leaves_the_others(store):
    store.at(NOW).queue_limits.limit(QUEUE, at_once=2)
    for tag in ("one", "two"):
        reserve(store, tag, 10.0)
    assert reserve(store, "one", 0.0)
    assert held(store) == {"two": NOW + 10}
    assert not reserve(store, "one", 0.0)


@pytest.mark.parametrize("rate", [None, (5, 60)])
@pytest.mark.parametrize("seconds", [0.0, 10.0])
def test_a_queue_without_such_a_limit_has_none(store, rate, seconds):
    store.at(NOW).queue_limits.limit(QUEUE, rate=rate or False)
    before = dump(store)
    assert not reserve(store, "one", seconds)
    assert dump(store) == before
