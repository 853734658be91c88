"""How scripts get to the server over a connection that is kept."""

import pytest

from redbike.errors import Unreachable
from redbike.rotation import RoundRobin
from redbike.scripts import Conversation
from redbike.store import Store


def test_after_a_server_has_become_a_replica_it_is_looked_for_anew(client, prefix):
    """The name in the URL may lead to another server by then."""
    store, line = Store(client, prefix, RoundRobin("A").queue_for), Conversation(client)
    call = store.survey_call()

    def ids():
        return {entry["id"] for entry in client.client_list()}

    line.ask([call])
    before = ids()
    client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(Unreachable, match="read only"):
            line.ask([store.take_call([("work-A", 10.0)], [1], "tag", 1), store.dispatch_call([])])
    finally:
        client.replicaof("NO", "ONE")
    line.ask([call])
    assert ids() - before
    line.close()
