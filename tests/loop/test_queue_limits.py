"""Loops beside limits: pauses that end, rates that allow the next job, limits that a worker class names."""

import re
import threading
from copy import deepcopy

import pytest

from redbike import BadConfig, Jobs, Limit, Redbike, current_run
from redbike.config.settings import Settings
from redbike.control.queues import QueueController
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import Unreachable
from redbike.loop.queues import apply_limits
from redbike.store.queue_limits import QueueLimits
from redbike.store.workers import Workers
from redbike.worker.worker import Worker
from tests.loops import beside
from tests.verbs import Quiet, set_job
from tests.waiting import wait_until

QUEUE = "work-A"


class Limited(Quiet):
    """Names limits."""

    def __init__(self, found):
        super().__init__("A")
        self.found = found

    def limits(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Clocked(Quiet):
    """Notes when its jobs were taken, by the clock of the server."""

    def work(self, jobid):
        self.worked.append(current_run().start)


def count_scripts(client):
    return client.info("commandstats")["cmdstat_evalsha"]["calls"]


def begin_limits(store, handler):
    """Do what a worker does that the server has forgotten; return a function that does it again."""
    begin = Worker(store, handler, Settings()).presence.when_forgotten
    begin()
    return begin


def list_threads():
    return [each for each in threading.enumerate() if each.name == "redbike-limits"]


@pytest.mark.parametrize("name", [QUEUE, ""])
def test_a_pause_ends_by_itself_while_nobody_polls(store, client, monkeypatch, name):
    # Otherwise the worker would ask again after a while.
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 600)
    monkeypatch.setattr("redbike.loop.wakeup.SILENCE", 700)
    handler = Clocked()
    with beside(store, Dispatcher(store, Settings()).dispatch, Worker(store, handler, Settings()).work):
        wait_until(lambda: len([each for each in client.client_list() if "b" in each["flags"]]) >= 2)
        until = store.timeline.read_clock() + 0.8
        store.queue_limits.pause(name, until)
        set_job(store, "a:A", "NOW", "now", once=True)
        began, before = store.timeline.read_clock(), count_scripts(client)
        wait_until(lambda: store.timeline.read_clock() >= until - 0.2)
        passed, commands = store.timeline.read_clock() - began, count_scripts(client) - before
        assert commands < 10 * (1 + passed)
        wait_until(lambda: handler.worked)
        assert handler.worked[0] >= until


def test_the_limits_of_a_worker_class_are_set_when_a_worker_starts(store):
    handler = Limited({QUEUE: Limit(at_once=3, rate="9/m")})
    with beside(store, Worker(store, handler, Settings()).work):
        wait_until(lambda: not store.queue_limits.read(QUEUE).is_open)
        assert store.queue_limits.read(QUEUE) == QueueLimits(QUEUE, at_once=3, rate="9/m")


@pytest.mark.parametrize("shards", [1, 2])
def test_the_limits_of_a_worker_class_are_set_again_when_the_server_has_lost_its_data(
    prefix, client, monkeypatch, shards
):
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 0.6)
    handler = Limited({QUEUE: Limit(at_once=3)})
    with Redbike(handler, prefix, client, shards=shards) as bike, beside(bike.store, bike.work):
        for _ in range(2):
            wait_until(lambda: [each.at_once for each in bike.queue_limits()] == [3])
            wait_until(bike.workers)
            client.flushall()
        bike.limit(QUEUE, at_once=5)
        wait_until(bike.workers)
        assert [each.at_once for each in bike.queue_limits()] == [5], "an operator was first"


def test_limits_are_set_again_if_the_reply_to_the_new_registration_is_lost(prefix, client, monkeypatch):
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 0.6)
    monkeypatch.setattr("redbike.loop.registration.RETRY", 0.1)
    register, lost = Workers.register, []

    def lose_reply(self, *given):
        found = register(self, *given)
        if lost:
            raise lost.pop()
        return found

    monkeypatch.setattr(Workers, "register", lose_reply)
    handler = Limited({QUEUE: Limit(at_once=3)})
    with Redbike(handler, prefix, client) as bike, beside(bike.store, bike.work):
        wait_until(bike.workers)
        lost.append(Unreachable("the reply is lost"))
        client.flushall()
        wait_until(lambda: [each.at_once for each in bike.queue_limits()] == [3])
        assert not lost


def test_a_class_that_names_no_limits_logs_nothing_of_them(store, caplog):
    for handler, messages in ((Jobs(), []), (Limited({}), ["the limits of this worker class apply now"])):
        begin_limits(store, handler)
        wait_until(lambda: not list_threads())
        assert caplog.messages == messages


def test_one_thread_sets_limits_and_sets_them_once_more_for_a_loss_meanwhile(store, monkeypatch):
    begun, goes_on, done = [], threading.Event(), []

    def apply_slowly(*given):
        begun.append(given)
        assert goes_on.wait(60)
        done.append(given)
        return True

    monkeypatch.setattr("redbike.worker.limits.apply_limits", apply_slowly)
    begin = begin_limits(store, Limited({}))
    wait_until(lambda: begun)
    for _ in range(3):
        begin()
    assert len(list_threads()) == 1
    goes_on.set()
    wait_until(lambda: not list_threads())
    assert len(done) == 2
    begin()
    wait_until(lambda: len(done) == 3)


def test_a_worker_works_the_queues_for_its_host(store, caplog):
    """A limit of one is set, and taken back, before a job of it was ever set."""
    own, other = f"{QUEUE}@web1", f"{QUEUE}@web2"
    limits = {"A@web1": Limit(at_once=2), "A@web2": Limit(at_once=4)}
    for wanted, left in ((limits, {own: 2, other: 4}), ({}, {other: 4})):
        with beside(store, Worker(store, Limited(wanted), Settings(host="web1")).work):
            wait_until(lambda left=left: {each.queue: each.at_once for each in store.queue_limits.list_all()} == left)
    said = f"limits() names the queue {other!r}, which this worker does not work: {QUEUE}"
    assert [each for each in caplog.messages if "limits()" in each] == [said]


def test_limits_name_queues_as_the_command_line_does(store):
    handler = Limited({"A": Limit(at_once=3)})
    apply_limits(store, handler, [QUEUE])
    assert store.queue_limits.list_all() == [QueueLimits(QUEUE, at_once=3)]
    assert QueueController(store, handler).find_queue("A") == QUEUE
    # A queue that was used has its own name first.
    store.client.sadd(store.keys.queues, "A")
    apply_limits(store, handler, [QUEUE])
    assert QueueController(store, handler).find_queue("A") == "A"
    assert store.queue_limits.list_all() == [QueueLimits("A", at_once=3)]


def test_limits_of_a_queue_of_other_workers_are_set_and_named(store, caplog):
    apply_limits(store, Limited({"A": Limit(at_once=3), "C": Limit(rate="1/s")}), [QUEUE, "work-B"])
    assert caplog.messages == ["limits() names the queue 'work-C', which this worker does not work: work-A, work-B"]
    assert store.queue_limits.list_all() == [QueueLimits(QUEUE, at_once=3), QueueLimits("work-C", rate="1/s")]


def test_two_limits_for_one_queue_are_refused(store):
    with pytest.raises(BadConfig, match="two limits for the queue 'work-A', one of them as 'A'"):
        apply_limits(store, Limited({QUEUE: Limit(at_once=3), "A": Limit(rate="1/s")}), [QUEUE])
    assert store.queue_limits.list_all() == []


@pytest.mark.parametrize("takes_back", [Limited({}), Jobs(limits={})])
def test_limits_that_the_class_names_no_more_go_and_those_of_an_operator_stay(store, takes_back):
    store.queue_limits.limit("work-B", at_once=7)
    apply_limits(store, Limited({QUEUE: Limit(at_once=3), "work-B": Limit(rate="1/s")}), [QUEUE, "work-B"])
    both = [QueueLimits(QUEUE, at_once=3), QueueLimits("work-B", at_once=7)]
    assert store.queue_limits.list_all() == both
    for silent in (Quiet(), Jobs(), deepcopy(Jobs())):
        apply_limits(store, silent, [QUEUE, "work-B"])
        assert store.queue_limits.list_all() == both, "another class of these queues, which says nothing of limits"
    apply_limits(store, takes_back, [QUEUE, "work-B"])
    assert store.queue_limits.list_all() == [QueueLimits("work-B", at_once=7)]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "limits() returned []"),
        (None, "limits() returned None"),
        ({QUEUE: 5}, "limits() returned 5 for the queue 'work-A'"),
        ({"schedules": Limit(at_once=1)}, "bad queue name 'schedules'"),
        ({7: Limit(at_once=1)}, "bad queue name 7"),
        (RuntimeError("no luck"), "limits() fails: RuntimeError: no luck"),
    ],
)
def test_limits_that_are_none_are_refused_when_a_worker_starts(store, found, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Worker(store, Limited(found), Settings()).work()
    assert store.queue_limits.list_all() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("at_once", number) for number in (0, 1.5, "5", True, 10**7)),
        *(("rate", text) for text in ("5", "/m", "0/m", "5/d", "5 /m", "1.5/s", "99999999/s", 5)),
    ],
)
def test_what_no_limit_can_be_is_quoted(name, value):
    with pytest.raises(BadConfig) as refused:
        Limit(**{name: value})
    assert repr(value) in str(refused.value)
