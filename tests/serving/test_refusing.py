"""A server that refuses to write: who is asked says so, and not that nobody is there."""

import pytest

from redbike import Redbike, RoundRobin, Unreachable
from tests.pages import find_block
from tests.servers import Node, free_ports


@pytest.fixture
def start(tmp_path):
    """Starts a server with these options."""
    nodes = []

    def start(*options):
        nodes.append(Node(tmp_path / f"server{len(nodes)}", *free_ports(1), *options))
        return nodes[-1]

    yield start
    for node in nodes:
        node.kill()
        node.client.close()


def test_a_master_without_its_replicas_refuses_what_they_would_not_hear_of(start):
    lines = find_block("durability", "min-replicas-to-write").splitlines()
    node = start(*(word for line in lines for word in f"--{line}".split()))
    bike = Redbike(RoundRobin("A"), redis_config=f"redis://127.0.0.1:{node.port}")
    with pytest.raises(Unreachable, match="NOREPLICAS"):
        bike.set("job:A", "NOW")
