"""A dispatcher delivers what its shard posts to others, at once, and a shard that is away holds up no other."""

import threading

from redbike.dispatcher import delivery, dispatcher
from redbike.dispatcher.sharded import Dispatchers
from redbike.errors import Unreachable
from redbike.store.links import Links
from tests.loops import beside
from tests.shards import name_jobs
from tests.verbs import Quiet
from tests.waiting import wait_until

BIKE = {"worker": Quiet, "shards": 4}


def dispatching(bike):
    return beside(bike.store, Dispatchers(bike.store, bike.settings).dispatch)


def end(bike, jobid):
    bike.run(jobid)
    wait_until(lambda: bike.work_one() == jobid)


def set_family(bike):
    parent, *followers = name_jobs(bike.store, *range(4))
    bike.set(parent, "EVERY:1h")
    for each in followers:
        bike.set(each, f"AFTER:{parent}")
    return parent, followers


def list_waiting(bike, followers):
    return [each for each in followers if bike.tell(each)["status"].startswith("ENQ")]


def test_delivery_begins_at_once_and_a_dispatcher_that_begins_looks_for_what_is_there(bike, monkeypatch):
    # Who is not told looks for nothing by itself.
    monkeypatch.setattr(delivery, "LOOKS", 9999.0)
    monkeypatch.setattr(dispatcher, "LONGEST_SLEEP", 9999.0)
    parent, followers = set_family(bike)
    end(bike, parent)
    with dispatching(bike):
        wait_until(lambda: list_waiting(bike, followers) == followers)
        while bike.work_one():
            pass
        assert list_waiting(bike, followers) == []
        end(bike, parent)
        wait_until(lambda: list_waiting(bike, followers) == followers)
        wait_until(lambda: not any(shard.links.list_mail() for shard in bike.store.shards))


def test_what_a_dispatcher_was_told_that_died_is_found_by_another_one(bike, monkeypatch):
    monkeypatch.setattr(delivery, "LOOKS", 0.1)
    monkeypatch.setattr(dispatcher, "LONGEST_SLEEP", 0.1)
    parent, followers = set_family(bike)
    end(bike, parent)
    store = bike.store.find_shard(parent)
    messages = [each for each in store.client.zrange(store.keys.followers, 0, -1) if each.startswith(b"\x1c")]
    store.client.zrem(store.keys.followers, *messages)
    with dispatching(bike):
        wait_until(lambda: len(bike.workers()) == 1)
        assert list_waiting(bike, followers) == []
        # The other one has consumed the token.
        store.client.zadd(store.keys.followers, dict.fromkeys(messages, 0))
        wait_until(lambda: list_waiting(bike, followers) == followers)


def test_a_shard_that_is_away_holds_up_no_other_and_hears_of_it_later(bike, monkeypatch, caplog):
    parent, followers = set_family(bike)
    far, deliver, is_away, tried = followers[1], Links.deliver, threading.Event(), threading.Event()
    keys = bike.store.find_shard(far).keys.prefix
    is_away.set()

    def fail(links, *given):
        if is_away.is_set() and links._namespace.keys.prefix == keys:
            tried.set()
            raise Unreachable("it is away")
        return deliver(links, *given)

    monkeypatch.setattr(Links, "deliver", fail)
    with dispatching(bike):
        end(bike, parent)
        assert tried.wait(20)
        others = [each for each in followers if each != far]
        wait_until(lambda: list_waiting(bike, followers) == others)
        end(bike, parent)
        wait_until(lambda: len(bike.store.find_shard(parent).links.read_mail(2)) == 2)
        is_away.clear()
        wait_until(lambda: list_waiting(bike, followers) == followers)
    assert caplog.messages.count(f"the followers in {keys} wait for their parents: it is away") == 1
    assert f"the followers in {keys} get news of their parents again" in caplog.messages
