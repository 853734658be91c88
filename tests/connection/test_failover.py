"""Masters die under load, again and again: work goes on at the new one, and no job is stuck."""

import contextlib
import signal
import time

import pytest

from redbike import Redbike, Unreachable
from tests.servers import NODE_TIMEOUT, Cluster, Node, Sentinels
from tests.traffic import Traffic
from tests.verbs import Quiet
from tests.waiting import SLOWNESS, wait_until

LIMIT = 5.0  # seconds from the instant at which there is a new master until a job that came due after it has run
UNSENT = 2.0 * SLOWNESS  # seconds of requests, before a master dies, of which its replicas may have heard nothing
PATIENCE = 30  # seconds
LONG = 8.0  # seconds without a master after which a lease may be over: it is renewed each 3 s, and lasts 12


@pytest.fixture(params=[Cluster, Sentinels])
def servers(request, tmp_path):
    more = {"node_timeout": NODE_TIMEOUT} if request.param is Cluster else {}
    servers = request.param(tmp_path / "servers", **more)
    yield servers
    servers.stop()


@pytest.fixture
def traffic(servers, tmp_path):
    traffic = Traffic(tmp_path, servers.url)
    yield traffic
    traffic.close()


def find_master(servers) -> Node:
    """The server that has the keys."""
    return servers.master_of("{redbike}") if isinstance(servers, Cluster) else servers.master()


def list_masters(servers) -> list[Node]:
    """All servers that run and say that they are masters."""
    running = [node for node in servers.nodes if node.process.poll() is None]
    return [node for node in running if node.client.info("replication")["role"] == "master"]


def wait_for_new_master(servers, before: list[Node]) -> Node:
    wait_until(lambda: len(set(list_masters(servers)) - set(before)) == 1, PATIENCE)
    [new] = set(list_masters(servers)) - set(before)
    return new


def start_as_replica(old: Node, new: Node) -> None:
    """Start a server again whose place `new` has taken."""
    # A node of a cluster learns that by itself.
    old.start(*([] if "--cluster-enabled" in old.options else ["--replicaof", f"127.0.0.1 {new.port}"]))
    wait_until(lambda: old.client.info("replication")["role"] == "slave", PATIENCE)


def kill_master(servers, traffic) -> tuple[float, float, float]:
    """Kill the master, and start it again as a replica.

    When it died, when there was another one, and the seconds from then until work went on.
    """
    wait_until(servers.is_well, PATIENCE)
    masters, old = list_masters(servers), find_master(servers)
    killed = time.time()
    old.kill()
    new = wait_for_new_master(servers, masters)
    there = time.time()
    start_as_replica(old, new)
    wait_until(lambda: traffic.first_after(there), PATIENCE)
    return killed, there, traffic.first_after(there).at - there


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kills", [pytest.param(2, marks=pytest.mark.acceptance), pytest.param(20, marks=pytest.mark.nightly)]
)
def test_masters_are_killed_under_load(servers, traffic, kills):
    killed, there, seconds = zip(*(kill_master(servers, traffic) for _ in range(kills)), strict=True)
    print(f"{type(servers).__name__}: {kills} kills, work went on after {max(seconds):.2f} s at most")
    wait_until(servers.is_well, PATIENCE)
    traffic.stop_client()
    traffic.wait_for_all(time.time())
    assert traffic.shell.run("acknowledge").returncode == 0
    assert traffic.shell.run("fsck", "--repair").returncode == 0
    assert traffic.shell.run("fsck").stdout == ""
    # A request that no replica has heard of is forgotten as a whole: then the job is unknown, and not half there.
    known = dict(traffic.bike.get_schedules())
    forgotten = set(traffic.acknowledged) - set(known)
    for jobid in forgotten:
        assert any(-UNSENT < moment - traffic.acknowledged[jobid] < UNSENT for moment in killed), jobid
    wait_until(lambda: {run.jobid for run in traffic.ended()} >= set(traffic.acknowledged) - forgotten)
    wait_until(lambda: all(event == "STP" for jobid, event, _ in traffic.bike.get_statuses() if "once" in jobid))
    traffic.stop()
    errors = [line for line in traffic.logs().splitlines() if "ERROR" in line and "the server went back" not in line]
    if max(new - old for old, new in zip(killed, there, strict=True)) > LONG:
        # A server that is slow to elect another master: then runs are lost, and their worker says so.
        errors = [line for line in errors if "they will count as lost" not in line]
    assert errors == []
    assert max(seconds) < LIMIT * SLOWNESS


@pytest.fixture
def bike(servers):
    bike = Redbike(Quiet("A"), redis_config=servers.url)
    yield bike
    bike.redis.close()


@contextlib.contextmanager
def unsent(servers, master: Node):
    """What is written to `master` in the block reaches no replica; then it dies."""
    mine = master.client.info("replication")
    ports = [mine[f"slave{number}"]["port"] for number in range(mine["connected_slaves"])]
    replicas = [node for node in servers.nodes if node.port in ports]
    masters = list_masters(servers)
    for replica in replicas:
        replica.process.send_signal(signal.SIGSTOP)
    # Otherwise the kernel keeps for a replica what it has not read yet.
    master.client.client_kill_filter(_type="replica")
    yield
    master.kill()
    for replica in replicas:
        replica.process.send_signal(signal.SIGCONT)
    wait_for_new_master(servers, masters)


def read_all(bike: Redbike) -> dict:
    return {jobid: bike.tell(jobid) for jobid, _ in bike.get_schedules()}


def is_reachable(bike: Redbike) -> bool:
    try:
        bike.tell("kept:A")
    except Unreachable:
        return False
    return True


@pytest.mark.acceptance
def test_what_no_replica_has_heard_of_is_forgotten_as_a_whole(servers, bike):
    """All jobs are as they were at one instant, and each goes on from there: a run that ended later is repeated."""
    wait_until(servers.is_well, PATIENCE)
    for jobid, schedule in [("kept:A", "@hourly"), ("unset:A", "@hourly"), ("queued:A", "NOW")]:
        assert bike.set(jobid, schedule)
    before, master = read_all(bike), find_master(servers)
    assert bike.redis.wait(1 if isinstance(servers, Cluster) else 2, 5000) > 0
    with unsent(servers, master):
        assert bike.set("new:A", "@hourly")
        bike.unset("unset:A")
        assert bike.work_one() == "queued:A"
        assert read_all(bike) != before
    wait_until(lambda: is_reachable(bike), PATIENCE)
    assert read_all(bike) == before
    assert list(bike.fsck()) == []
    assert bike.work_one() == "queued:A"
    assert bike.set("new:A", "NOW")
    assert bike.work_one() == "new:A"


@pytest.mark.acceptance
@pytest.mark.timeout(120)
@pytest.mark.parametrize("servers", [Sentinels], indirect=True)
def test_a_replica_that_lacks_the_last_seconds_is_told_of_until_somebody_knows(servers, bike, shell):
    wait_until(servers.is_well, PATIENCE)
    shell.environment["REDBIKE_URL"] = servers.url
    shell.start("dispatch")
    wait_until(lambda: bike.health().metrics["dispatchers"], PATIENCE)
    first, master = bike.store.timeline.read_dispatched()[1], find_master(servers)
    wait_until(lambda: (bike.store.timeline.read_dispatched()[1] or 0) > (first or 0) + 1)
    with unsent(servers, master):
        assert bike.set("new:A", "@hourly")
        cut = bike.store.timeline.read_dispatched()[1]
        wait_until(lambda: bike.store.timeline.read_dispatched()[1] > cut + 2)
    wait_until(lambda: is_reachable(bike) and bike.store.rewinds.list_all(), PATIENCE)
    assert bike.tell("new:A")["schedule"] is None
    health = shell.run("health")
    assert (health.returncode, health.stdout.count("the server went back by ")) == (1, 1)
    wait_until(lambda: "ERROR" in shell.log())
    assert shell.log().count("the server went back by ") == 1
    assert shell.run("fsck").returncode == 1
    told = shell.run("acknowledge")
    assert (told.returncode, told.stdout.count("\n"), "the server went back by " in told.stdout) == (0, 1, True)
    assert shell.run("acknowledge").stderr == "redbike: there is nothing to acknowledge\n"
    assert "went back" not in shell.run("health").stdout
    assert shell.run("fsck").stdout == ""
    assert ",acknowledge,,the server went back by " in shell.run("log", "--limit=1").stdout


def is_nobody_blocked(bike: Redbike) -> bool:
    return bike.redis.info("clients")["blocked_clients"] == 0


@pytest.mark.acceptance
@pytest.mark.timeout(120)
@pytest.mark.parametrize("servers", [Sentinels], indirect=True)
def test_what_a_master_accepted_that_was_suspended_is_told_by_its_own_dispatcher(servers, bike, shell):
    """Meanwhile another dispatcher has kept the time at the new master, so nothing seems to be missing there."""
    wait_until(servers.is_well, PATIENCE)
    shell.environment["REDBIKE_URL"] = servers.url
    returns, _ = (shell.start("dispatch", log=log) for log in ("returns", "stays"))
    wait_until(lambda: bike.health().metrics["dispatchers"] == 2, PATIENCE)
    wait_until(lambda: bike.redis.zcard(bike.store.keys.dispatched) == 3, PATIENCE)
    wait_until(lambda: bike.redis.info("clients")["blocked_clients"] == 2, PATIENCE)
    master, stopped = find_master(servers), time.time()
    for process in (returns, master.process):
        process.send_signal(signal.SIGSTOP)
    wait_until(lambda: servers.master() is not master, PATIENCE)
    there = time.time()
    wait_until(lambda: is_reachable(bike) and bike.store.timeline.read_dispatched()[1] > there, PATIENCE)
    back = time.time()
    master.process.send_signal(signal.SIGCONT)
    with Redbike(Quiet("A"), redis_config=f"redis://127.0.0.1:{master.port}") as old:
        assert old.set("lost:A", "@hourly")
        # The dispatcher finds a reply there, so it goes on there until Sentinel makes that a replica.
        wait_until(lambda: old.redis.lpush(old.store.keys.wakeup, "") and is_nobody_blocked(old))
        returns.send_signal(signal.SIGCONT)
        wait_until(lambda: old.store.timeline.read_dispatched()[1] > back)
    wait_until(lambda: "the server went back by " in shell.log("returns"), PATIENCE)
    told = max(bike.store.rewinds.list_all(), key=lambda rewind: rewind.known)
    assert told.back < stopped < back < told.known
    assert bike.tell("lost:A")["schedule"] is None


@pytest.mark.acceptance
@pytest.mark.parametrize("servers", [Cluster], indirect=True)
def test_what_is_lost_of_a_job_while_its_slot_moves_is_named_and_repaired(servers, bike):
    """The server that the slot moves to dies, with the keys that it has and that its replica has not heard of."""
    keys = bike.store.keys
    waiting, queued = ([f"{name}.{number}:A" for number in range(5)] for name in ("waiting", "queued"))
    for jobid in waiting:
        assert bike.set(jobid, "EVERY:1s")
    for jobid in queued:
        assert bike.set(jobid, "NOW")
    slot, source, target, _ = servers.begin_to_move_slot(bike.prefix)
    with unsent(servers, target):
        source.client.execute_command(
            "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", keys.timeline, keys.queued
        )
    for node in list_masters(servers):
        node.client.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
    wait_until(lambda: is_reachable(bike), PATIENCE)
    named = "\n".join(bike.fsck())
    for jobid in waiting:
        assert f"'{jobid}': its status is TML:" in named
    for jobid in queued:
        assert f"'{jobid}': it is in the queue 'work-A' without a record" in named
    assert all(well for _, well in bike.repair())
    assert list(bike.fsck()) == []
    left = {*waiting, *queued}
    wait_until(lambda: bike.dispatch_due() == 0 and not left.difference_update({bike.work_one()}) and not left)
