"""Workers of two shards, each on a server of its own, of which one goes away and comes back."""

import pytest

from redbike.connection.client import connect
from redbike.loop.loop import Loop
from redbike.store.agreement import Agreement
from redbike.store.sharded.places import name_shards
from redbike.store.sharded.store import ShardedStore
from redbike.store.store import Store, has_new_halt
from tests.servers import DATA, Node, free_ports


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
