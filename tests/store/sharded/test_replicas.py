"""Messages between shards on two masters: none is lost if a replica takes over that had not heard of it."""

import os
import runpy
import signal
from contextlib import ExitStack, contextmanager

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.dispatcher import delivery
from redbike.dispatcher.delivery import Delivery
from redbike.loop.loop import Loop
from redbike.store.sharded import mail
from redbike.store.store import Store
from tests.pages import find_block
from tests.servers import DATA, Node, free_ports
from tests.shards import divide, name_jobs
from tests.verbs import Quiet
from tests.waiting import wait_until


class Servers:
    """Two masters, each with a shard. The second one has a replica."""

    def __init__(self, folder):
        ports = free_ports(3)
        self.masters = [Node(folder / str(port), port, *DATA) for port in ports[:2]]
        self.replica = Node(folder / "replica", ports[2], *DATA, "--replicaof", f"127.0.0.1 {ports[1]}")
        wait_until(self.has_replica)
        wait_until(self.keeps_log)

    def has_replica(self):
        replica = self.masters[1].client.info("replication").get("slave0", {})
        return replica.get("state") == "online"

    def keeps_log(self):
        """Whether the replica has written all that it began with to its log."""
        found = self.replica.client.info("persistence")
        return not (found["aof_rewrite_in_progress"] or found["aof_rewrite_scheduled"])

    def suspend(self):
        """Stop the replica, once it has all that there is so far."""
        self.masters[1].client.set("mark", "here")
        wait_until(lambda: self.replica.client.get("mark") == b"here")
        os.kill(self.replica.process.pid, signal.SIGSTOP)

    def take_over(self):
        """Replace the second master by its replica, which has lost what it had not read."""
        self.masters[1].kill()
        self.replica.kill()
        self.replica.start()
        self.replica.client.replicaof("NO", "ONE")
        self.masters[1] = self.replica

    @contextmanager
    def open(self):
        """A program that sets jobs in both shards, and works them."""
        with ExitStack() as stack:
            clients = [stack.enter_context(connect(f"redis://127.0.0.1:{node.port}")) for node in self.masters]
            store = divide("app", *clients)
            bike = stack.enter_context(Redbike(Quiet("A"), "app", clients[0], shards=2))
            bike._compose(store, store, bike.worker)
            yield bike

    def stop(self):
        for node in {*self.masters, self.replica}:
            node.kill()
            node.client.close()


@pytest.fixture
def servers(tmp_path):
    servers = Servers(tmp_path)
    yield servers
    servers.stop()


@pytest.fixture
def bike(servers):
    with servers.open() as bike:
        yield bike


@pytest.fixture
def family(bike):
    """A parent in the first shard, and its follower in the second one."""
    parent, follower = name_jobs(bike.store, 0, 1)
    bike.set(parent, "EVERY:1h")
    bike.enter(follower, f"AFTER:{parent}")
    return parent, follower


def end(bike, parent):
    bike.run(parent)
    assert bike.work_one() == parent


def deliver(bike):
    """Deliver what the first shard has for the second one; return whether nothing is left, as told and as it is."""
    return mail.deliver(bike.store.shards, 0, 1), not bike.store.shards[0].links.read_mail(1)


def test_a_replica_that_takes_over_hears_of_what_only_its_master_had(bike, servers, family):
    parent, follower = family
    servers.suspend()
    end(bike, parent)
    assert deliver(bike) == (False, False)
    assert bike.dispatch_due() == 1
    assert bike.tell(follower)["status"].startswith("ENQ"), "it waits for no replica"
    servers.take_over()
    with servers.open() as bike:
        assert bike.tell(follower)["waits_for"] == [parent]
        assert bike.dispatch_due() == 1
        assert bike.work_one() == follower
        assert deliver(bike) == (True, True)
        assert bike.dispatch_due() == 0


def test_a_message_that_was_delivered_often_is_removed_once_a_replica_has_it(bike, servers, family):
    parent, follower = family
    servers.suspend()
    for _ in range(3):
        end(bike, parent)
        assert deliver(bike) == (False, False)
    os.kill(servers.replica.process.pid, signal.SIGCONT)
    wait_until(lambda: deliver(bike) == (True, True))
    bike.dispatch_due()
    assert bike.work_one() == follower


def test_a_master_without_replicas_is_seldom_asked_for_one_and_never_waited_for(bike, servers, family, monkeypatch):
    monkeypatch.setattr(mail, "ALONE_FOR", 600.0)  # however long the three take
    parent, _ = family
    servers.replica.kill()
    wait_until(lambda: not servers.has_replica())
    servers.masters[1].client.config_resetstat()
    for _ in range(3):
        end(bike, parent)
        assert deliver(bike) == (True, True)
    calls = servers.masters[1].client.info("commandstats")
    assert "cmdstat_wait" not in calls
    assert calls["cmdstat_info"]["calls"] == 1
    monkeypatch.setattr(bike.store.shards[1].links, "alone_until", 0.0)
    end(bike, parent)
    deliver(bike)
    assert servers.masters[1].client.info("commandstats")["cmdstat_info"]["calls"] == 3


@pytest.mark.parametrize("right", ["info", "wait"])
def test_who_may_not_ask_for_replicas_delivers_all_the_same(bike, servers, family, right):
    servers.suspend()
    servers.masters[1].client.execute_command("ACL", "SETUSER", "default", f"-{right}")
    end(bike, family[0])
    assert deliver(bike) == (True, True)


def test_who_waits_for_a_replica_waits_for_less_than_for_a_reply(bike, servers, family):
    servers.suspend()
    end(bike, family[0])
    with connect(f"redis://127.0.0.1:{servers.masters[1].port}?socket_timeout=0.5") as client:
        shards = [bike.store.shards[0], Store(client, bike.store.shards[1].keys.prefix, lambda jobid: "work-A")]
        assert not mail.deliver(shards, 0, 1, patience=1.0)


def test_a_replica_that_does_not_confirm_stops_no_messages_for_ever(bike, servers, family, monkeypatch, caplog):
    monkeypatch.setattr(delivery, "LONGEST_LAG", 0.5)
    loop = Loop(bike.store.shards[0])
    servers.suspend()
    end(bike, family[0])
    delivering = Delivery(bike.store.shards, 0, loop)
    delivering.look()
    wait_until(lambda: not bike.store.shards[0].links.read_mail(1))
    wait_until(lambda: not delivering._threads)
    # From then on each message is tried once with the replica, and is not held up again.
    monkeypatch.setattr(delivery, "LONGEST_LAG", 600.0)
    delivering._lags[1] -= 600
    end(bike, family[0])
    delivering._begin(1)
    wait_until(lambda: not bike.store.shards[0].links.read_mail(1))
    assert caplog.text.count("no replica of the master of {app:01}/2 has confirmed for 0.5 s") == 1
    assert caplog.text.count("no replica of the master") == 1


def test_who_waits_as_the_page_says_learns_whether_a_replica_has_a_set(servers, tmp_path):
    (tmp_path / "piece.py").write_text(find_block("durability", "bike.set("))
    with Redbike(RoundRobin("A"), "app", f"redis://127.0.0.1:{servers.masters[1].port}") as bike:
        # A busy machine may need longer than the page waits.
        wait_until(lambda: runpy.run_path(str(tmp_path / "piece.py"), {"bike": bike})["safe"])
        servers.suspend()
        assert runpy.run_path(str(tmp_path / "piece.py"), {"bike": bike})["safe"] is False
