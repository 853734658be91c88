"""Workers of two shards, each on a server of its own, of which one goes away and comes back."""

import pytest

from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.errors import Unreachable
from redbike.loop.loop import Loop
from redbike.store.agreement import Agreement
from redbike.store.inspection.fsck import fsck
from redbike.store.sharded.places import name_shards
from redbike.store.sharded.store import ShardedStore
from redbike.store.store import Store, has_new_halt
from redbike.worker.worker import Worker
from tests.loops import Doing
from tests.servers import DATA, Node, free_ports
from tests.verbs import set_job
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
    pairs = zip(clients, name_shards("app", len(nodes)), strict=True)
    stores = [Store(client, prefix, lambda jobid: "work-A") for client, prefix in pairs]
    yield ShardedStore(stores, Agreement(clients[0], "app", stores))
    for client in clients:
        client.close()


@pytest.mark.parametrize("number", [0, 1])
def test_an_old_halt_is_not_a_new_one_because_a_shard_goes_away_or_comes_back(nodes, store, number):
    gone, other = nodes[number], store.shards[1 - number]
    store.halt()
    before = Loop(store)
    gone.kill()
    meanwhile = Loop(store)
    known = store.read_signals()
    assert list(known) == [other.keys.prefix]
    for loop in (before, meanwhile):
        assert loop.goes_on()
    gone.start()
    for loop in (before, meanwhile):
        assert loop.goes_on()
    assert not has_new_halt(known, store.read_signals())
    # A new one counts, whichever of them has heard of it.
    store.shards[number].halt()
    assert has_new_halt(known, store.read_signals())
    for loop in (before, meanwhile):
        assert not loop.goes_on()


def test_a_halt_counts_where_there_was_none(nodes, store):
    loop = Loop(store)
    assert loop.goes_on()
    nodes[0].kill()
    store.shards[1].halt()
    assert not loop.goes_on()


@pytest.fixture
def jobids(store):
    """The id of a job of each shard."""
    names = [f"{number}:A" for number in range(50)]
    return [next(name for name in names if store.number_shard(name) == shard) for shard in range(2)]


@pytest.mark.parametrize("is_stopping", [False, True])
def test_what_was_taken_when_the_reply_was_lost_is_given_back(nodes, store, jobids, monkeypatch, is_stopping):
    worker = Worker(store, Doing(), Settings())
    set_job(store, jobids[1], "NOW", "now")
    pipeline = worker.source.list_shards()[1]._pipeline

    def lose(calls, run=pipeline.run):
        run(calls)
        nodes[1].kill()
        raise Unreachable("the reply is lost")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "run", lose)
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
