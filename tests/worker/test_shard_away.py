"""Workers of two shards, each on a server of its own, of which one goes away and comes back."""

from collections import Counter
from functools import partial

import pytest

from redbike.config.queue_limits import Limit
from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.control.jobs import cancel_jobs
from redbike.errors import Unreachable
from redbike.loop.loop import Loop
from redbike.store.inspection.fsck import fsck
from redbike.store.past_runs import RunSearch
from redbike.store.signals import has_new_halt
from redbike.worker import shard, source
from redbike.worker.leaving import Left, hand_back
from redbike.worker.worker import Worker
from tests.loops import Doing, beside, join, start
from tests.servers import DATA, Node, free_ports
from tests.shards import divide, name_jobs
from tests.verbs import set_job, take_one
from tests.waiting import wait_until


@pytest.fixture
def nodes(tmp_path):
    nodes = [Node(tmp_path / str(port), port, *DATA) for port in free_ports(2)]
    yield nodes
    for node in nodes:
        node.kill()
        node.client.close()


@pytest.fixture
def store(nodes):
    clients = [connect(f"redis://127.0.0.1:{node.port}") for node in nodes]
    yield divide("app", *clients)
    for client in clients:
        client.close()


@pytest.mark.parametrize("number", [0, 1])
def test_an_old_halt_is_not_a_new_one_because_a_shard_goes_away_or_comes_back(nodes, store, number):
    gone, other = nodes[number], store.shards[1 - number]
    store.signals.halt()
    before = Loop(store)
    gone.kill()
    meanwhile = Loop(store)
    known = store.signals.read_all()
    assert list(known) == [other.keys.prefix]
    for loop in (before, meanwhile):
        assert loop.goes_on()
    gone.start()
    for loop in (before, meanwhile):
        assert loop.goes_on()
    assert not has_new_halt(known, store.signals.read_all())
    # A new one counts, whichever of them has heard of it.
    store.shards[number].signals.halt()
    assert has_new_halt(known, store.signals.read_all())
    for loop in (before, meanwhile):
        assert not loop.goes_on()


def test_a_halt_counts_where_there_was_none(nodes, store):
    loop = Loop(store)
    assert loop.goes_on()
    nodes[0].kill()
    store.shards[1].signals.halt()
    assert not loop.goes_on()


@pytest.fixture
def jobids(store):
    """The id of a job of each shard."""
    return name_jobs(store, 0, 1)


def lose_reply(place, name, node, monkeypatch):
    """Let the server do what it is asked next by a method of `place`, but go away before its reply has come."""
    method = getattr(place, name)

    def ask(*given):
        monkeypatch.setattr(place, name, method)
        method(*given)
        node.kill()
        raise Unreachable("the reply is lost")

    monkeypatch.setattr(place, name, ask)


@pytest.mark.parametrize("is_stopping", [False, True])
def test_what_was_taken_when_the_reply_was_lost_is_given_back(nodes, store, jobids, monkeypatch, is_stopping):
    worker = Worker(store, Doing(), Settings())
    set_job(store, jobids[1], "NOW", "now")
    pipeline = worker.source._shards[1].source._pipeline

    lose_reply(pipeline, "run", nodes[1], monkeypatch)
    assert worker.source.take(1) == []
    nodes[1].start()
    assert store.questions.inspect([jobids[1]])[0].running
    if is_stopping:
        worker.loop.stopping.set()
        worker.source.finish()
        assert store.questions.inspect([jobids[1]])[0].queued
    else:
        found = []
        wait_until(lambda: found.extend(worker.source.take(1)) or found)
        assert [run.jobid for run in found] == [jobids[1]]
    worker.close()
    assert not any(list(fsck(shard)) for shard in store.shards)


def count_runs(store):
    return Counter(run.jobid for shard in store.shards for run in shard.past.read_runs(RunSearch()).runs)


@pytest.mark.parametrize(("concurrency", "is_lost"), [(1, False), (1, True), (3, False)])
def test_an_end_that_waits_for_a_shard_holds_up_no_job_of_another(
    nodes, store, jobids, monkeypatch, concurrency, is_lost
):
    doing, ran = Doing(), []
    worker = Worker(store, doing, Settings(), concurrency)
    others = [name for name in (f"other{number}:A" for number in range(20)) if store.number_shard(name) == 1][:3]
    lose = partial(lose_reply, worker.source._shards[0].source._pipeline, "run", nodes[0], monkeypatch)
    doing.acts[jobids[0]] = lose if is_lost else nodes[0].kill
    doing.acts |= {name: partial(ran.append, name) for name in others}
    set_job(store, jobids[0], "NOW", "now")
    with beside(store, worker.work):
        wait_until(lambda: nodes[0].process.poll() is not None)
        for number, name in enumerate(others, 1):
            set_job(store, name, "NOW", "now")
            wait_until(lambda number=number: len(ran) == number)
        # Its thread may be slower than all of theirs.
        wait_until(lambda: [run.jobid for run, _ in worker.source.list_owed()] == [jobids[0]])
        nodes[0].start()
        wait_until(lambda: not worker.source.list_owed())
        del doing.acts[jobids[0]]
        set_job(store, jobids[0], "NOW", "now")
        wait_until(lambda: count_runs(store) == {jobids[0]: 2} | dict.fromkeys(others, 1))
    assert not any(list(fsck(shard)) for shard in store.shards)


def test_a_shard_that_takes_no_changes_is_away_and_that_is_said_once(nodes, store, jobids, monkeypatch, caplog):
    monkeypatch.setattr(shard, "RETRY", 0.01)
    monkeypatch.setattr(source, "NAP", 0.01)
    worker = Worker(store, Doing(), Settings(), 1)

    def count_requests():
        return nodes[0].client.info("stats")["total_commands_processed"]

    with beside(store, worker.work):
        nodes[0].client.config_set("min-replicas-to-write", 1)
        wait_until(lambda: "jobs of the shard {app:00}/2 wait: Redis refuses: NOREPLICAS" in caplog.text)
        before = count_requests()
        wait_until(lambda: count_requests() > before + 200)
        nodes[0].client.config_set("min-replicas-to-write", 0)
        set_job(store, jobids[0], "NOW", "now")
        wait_until(lambda: count_runs(store) == {jobids[0]: 1})
    assert [caplog.text.count(said) for said in ("{app:00}/2 wait", "{app:00}/2 answers again")] == [1, 1]


def test_a_worker_that_stops_tells_a_shard_that_is_back_what_it_owes(nodes, store, jobids, monkeypatch):
    monkeypatch.setattr(shard, "RETRY", 600.0)
    doing = Doing()
    worker = Worker(store, doing, Settings())
    doing.acts[jobids[0]] = nodes[0].kill
    set_job(store, jobids[0], "NOW", "now")
    thread = start(worker.work)
    wait_until(worker.source.list_owed)
    assert [run.jobid for run, _ in worker._list_left().ended] == [jobids[0]]
    nodes[0].start()
    store.signals.halt()
    join(thread)
    assert count_runs(store) == {jobids[0]: 1}
    assert not any(list(fsck(shard)) for shard in store.shards)


def test_what_a_shard_has_given_before_it_goes_away_is_given_back(nodes, store, jobids, monkeypatch):
    monkeypatch.setattr("redbike.worker.source.STALE", -10.0)
    worker = Worker(store, Doing(), Settings())
    source = worker.source
    for jobid in jobids:
        set_job(store, jobid, "NOW", "now")
    runs = [run for _ in jobids for run in source.take(1)]
    nodes[0].kill()
    assert [run.jobid for run in source.keep_own(runs)] == [jobids[1]]
    assert source.take(1) == []
    nodes[0].start()
    found = []
    wait_until(lambda: found.extend(source.take(1)) or found)
    assert [(run.jobid, run.tag != runs[0].tag) for run in found] == [(jobids[0], True)]
    nodes[0].kill()
    source.release(found)
    nodes[0].start()
    source.finish()
    assert store.questions.inspect(jobids[:1])[0].queued
    worker.close()


def test_runs_of_other_shards_are_handed_back_while_one_is_away(nodes, store, jobids):
    for jobid in jobids:
        set_job(store, jobid, "NOW", "now")
    runs = [take_one(shard, [("work-A", 10.0)], f"tag{number}") for number, shard in enumerate(store.shards)]
    nodes[0].kill()
    hand_back(store, Left(begun=runs), lambda run: Settings(), lambda store: None)
    nodes[0].start()
    states = store.questions.inspect(jobids)
    assert [bool(state.running) for state in states] == [True, False]


@pytest.mark.parametrize("schedule", ["NOW", "EVERY:1h"])
def test_jobs_of_other_shards_are_cancelled_while_one_is_away(nodes, store, jobids, schedule):
    set_job(store, jobids[0], schedule, "now")
    nodes[1].kill()
    assert cancel_jobs(store, jobids[:1], Settings()) == [(jobids[0], "cancelled")]


class Limited(Doing):
    def limits(self):
        return {"A": Limit(at_once=2)}


def test_limits_of_a_worker_class_apply_once_a_shard_answers_that_was_away(nodes, store, jobids, monkeypatch, caplog):
    monkeypatch.setattr("redbike.worker.limits.LIMITS_RETRY", 0.05)
    worker = Worker(store, Limited(), Settings())
    nodes[1].kill()
    with beside(store, worker.work):
        wait_until(lambda: "the limits of this worker class do not apply yet" in caplog.text)
        assert not list(store.shards[0].queue_limits.list_all())
        nodes[1].start()
        wait_until(lambda: "the limits of this worker class apply now" in caplog.text)
        assert [limits.at_once for limits in store.queue_limits.list_all()] == [2]
