"""Which queues a worker works: the names are read again and again, and any number of them is worked."""

from itertools import count, cycle
from unittest.mock import Mock

import pytest

from redbike.config.settings import Settings
from redbike.errors import BadConfig, BadQueueName, Unreachable
from redbike.loop.queues import REREAD, WINDOW, Queues
from redbike.loop.worker_class import Priority
from redbike.store.store import Store
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, raising
from tests.verbs import Quiet, set_job
from tests.waiting import wait_until


class Changing(Quiet):
    """Works the queues in `names`, a list or a function that gives one."""

    def __init__(self, *names):
        super().__init__()
        self.names = list(names)

    def queue_names(self):
        return self.names() if callable(self.names) else list(self.names)


@pytest.fixture
def clock():
    clock = Mock(side_effect=lambda: clock.now)
    clock.now = 100.0
    return clock


def list_queues(rotation):
    return [name for poll in rotation.polls() for name, _ in poll.queues]


def test_names_are_read_again_within_a_second(clock):
    handler = Changing("a", "b", "c")
    rotation = Queues(handler, 10.0, clock)
    assert list_queues(rotation) == ["a", "b", "c"]
    rotation.advance("a")
    handler.names = ["b", "d"]
    assert list_queues(rotation) == ["b", "c", "a"], "not at each take"
    clock.now += REREAD
    assert REREAD < 1
    assert sorted(list_queues(rotation)) == ["b", "d"]
    # What was taken before may be of a queue that is gone.
    rotation.advance("c")
    assert sorted(list_queues(rotation)) == ["b", "d"]


def serve(rotation, shard):
    """Return the queue that is next in `shard`, while all have jobs."""
    name = next(rotation.polls(shard)).queues[0][0]
    rotation.advance(name, shard)
    return name


@pytest.mark.parametrize(
    ("orders", "served"),
    [
        (["aab"], ["aabaab", "aabaab"]),
        (["ab", "ba"], ["ababab", "bababa"]),  # each round is read in another order
        (["aab", "baa", "aba"], ["aababa", "baaaab"]),
    ],
)
def test_each_shard_has_turns_of_its_own(clock, orders, served):
    handler = Changing()
    handler.names = map(list, cycle(orders)).__next__
    rotation = Queues(handler, 10.0, clock)
    found = [(serve(rotation, 0), serve(rotation, 1)) for _ in range(6)]
    assert list(map("".join, zip(*found, strict=True))) == served


def test_a_queue_that_comes_or_goes_does_so_in_all_shards(clock):
    handler = Changing("a", "b", "c")
    rotation = Queues(handler, 10.0, clock)
    assert [serve(rotation, shard) for shard in (0, 1, 1)] == ["a", "a", "b"]
    handler.names = ["c", "d"]
    clock.now += REREAD
    assert sorted(serve(rotation, 0) for _ in range(2)) == ["c", "d"]
    assert sorted(serve(rotation, 1) for _ in range(2)) == ["c", "d"]


def test_more_names_than_ten_thousand_are_worked(store, clock):
    names = [f"q{n}" for n in range(25_000)]
    rotation = Queues(Changing(*names), 10.0, clock)
    assert list_queues(rotation) == names
    rotation.advance("q9")
    polls = list(rotation.polls())
    assert [name for poll in polls for name, _ in poll.queues] == names[10:] + names[:10]
    assert {len(poll.queues) for poll in polls[:-1]} == {WINDOW}
    assert polls[-1].turns == list(range(1, 25_000 % WINDOW + 1))
    handler = Changing(*(f"work-{n}" for n in range(12_000)))
    set_job(store, "job:11999", "NOW", "now", once=True)
    assert Worker(store, handler, Settings()).work_one() == "job:11999"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (list, "gives no queue"),
        (lambda: [3], "not a text"),
        (lambda: ["statuses"], "would collide"),
        (lambda: map(str, count()), "must have an end"),
        (raising(RuntimeError("the tenants' database is away")), "database is away"),
    ],
)
def test_names_that_cannot_be_used_are_refused_at_the_start_and_later_change_nothing(
    clock, caplog, monkeypatch, names, said
):
    monkeypatch.setattr("redbike.loop.queues.ENDLESS", 1000)
    handler = Changing()
    handler.names = names
    with pytest.raises((BadConfig, BadQueueName), match=said):
        next(Queues(handler, 10.0, clock).polls())
    handler.names = ["a"]
    rotation = Queues(handler, 10.0, clock)
    assert list_queues(rotation) == ["a"]
    handler.names = names
    for _ in range(3):
        clock.now += REREAD
        assert list_queues(rotation) == ([] if names is list else ["a"])
    assert caplog.text.count(said) == 1
    handler.names = ["b"]
    clock.now += REREAD
    assert list_queues(rotation) == ["b"]


@pytest.mark.parametrize(
    ("error", "said"), [(BadQueueName("it is another's"), "it is another's"), (Unreachable("it is away"), "")]
)
def test_names_that_cannot_be_checked_are_not_worked(clock, caplog, error, said):
    check = Mock(side_effect=error)
    handler = Changing("a")
    with pytest.raises(type(error)):
        next(Queues(handler, 10.0, clock, check=check).polls())
    check.side_effect = None
    rotation = Queues(handler, 10.0, clock, check=check)
    assert list_queues(rotation) == ["a"]
    check.side_effect = error
    handler.names = ["a", "b"]
    assert list_queues(rotation) == ["a"]
    assert said in caplog.text
    assert bool(said) == bool(caplog.text), "the loop tells that the server is away"
    check.side_effect = None
    assert list_queues(rotation) == ["a", "b"]


def test_an_idle_worker_works_a_new_queue_and_no_longer_one_that_is_gone(store, monkeypatch):
    monkeypatch.setattr("redbike.loop.queues.REREAD", 0.05)
    handler = Changing("work-A")
    worker = Worker(store, handler, Settings())
    with beside(store, worker.work):
        set_job(store, "first:A", "NOW", "now", once=True)
        wait_until(lambda: handler.worked == ["first:A"])
        handler.names = ["work-B"]
        set_job(store, "second:B", "NOW", "now", once=True)
        wait_until(lambda: handler.worked == ["first:A", "second:B"])
        set_job(store, "third:A", "NOW", "now", once=True)
        set_job(store, "fourth:B", "NOW", "now", once=True)
        wait_until(lambda: handler.worked[2:] == ["fourth:B"])
        handler.names = []
        wait_until(lambda: worker.queues.names() == [])
        handler.names = ["work-A"]
        wait_until(lambda: handler.worked[3:] == ["third:A"])


class Strict(Acting, Priority):
    """Works the higher queue first."""


@pytest.fixture
def strict(client, prefix):
    """A worker with strict order, and the store of its jobs."""
    handler = Strict(queues="high:mid:low")
    store = Store(client, prefix, handler.queue_for)
    worker = Worker(store, handler, Settings())
    yield handler, store, worker
    worker.source.close()
    worker.heartbeat.stop()


def fill(store, counts):
    for code, number in counts.items():
        for n in range(number):
            set_job(store, f"{n}:{code}", "NOW", "now", once=True)


@pytest.mark.parametrize(("most", "dead"), [(1, 3), (5, 0), (64, 100)])
def test_a_lower_queue_has_its_turn_when_the_higher_ones_are_empty(strict, most, dead):
    """Also inside a batch, and beside entries that are there no more."""
    _, store, worker = strict
    fill(store, {"low": 6, "high": dead + 7, "mid": 5})
    for n in range(dead):
        store.jobs.unset(f"{n}:high")
    expected = [f"{dead + n}:high" for n in range(7)] + [f"{n}:mid" for n in range(5)] + [f"{n}:low" for n in range(6)]
    taken = []
    while runs := worker.source.take(most):
        assert len(runs) == min(most, len(expected) - len(taken))
        taken += [run.jobid for run in runs]
        for run in runs:
            worker.queues.advance(run.queue)
    assert taken == expected


def test_a_job_that_comes_into_a_higher_queue_is_next(strict):
    handler, store, worker = strict
    fill(store, {"low": 3})
    handler.act = lambda jobid: jobid == "0:low" and set_job(store, "late:high", "NOW", "now", once=True)
    while worker.work_one():
        pass
    assert handler.worked == ["0:low", "late:high", "1:low", "2:low"]


def test_after_a_burst_over_many_queues_an_idle_worker_rests(client, store):
    names = [f"q{number}" for number in range(300)]
    handler = Changing(*names)
    handler.queue_for = lambda jobid: jobid
    store = Store(client, store.keys.prefix, handler.queue_for)
    for name in names:
        set_job(store, name, "NOW", "now", once=True)
    with beside(store, Worker(store, handler, Settings()).work):
        wait_until(lambda: len(handler.worked) == len(names))
        client.config_resetstat()
        wait_until(lambda: not client.exists(*map(store.keys.wake, names)))
        set_job(store, "q7", "NOW", "now", once=True)
        wait_until(lambda: len(handler.worked) > len(names))
        calls = {name: found["calls"] for name, found in client.info("commandstats").items()}
    assert calls["cmdstat_evalsha"] < 60, calls
    assert calls["cmdstat_llen"] < 5 * len(names), calls
