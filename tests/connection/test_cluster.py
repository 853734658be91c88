"""A real cluster: all keys of a prefix are in one slot, so Redbike talks to the master of that slot."""

import logging
import threading

import pytest
import redis

from redbike import Redbike
from redbike.errors import ServerError, Unreachable
from redbike.store.inspection import listing
from redbike.store.inspection.fsck import fsck
from tests.commandline import Shell, make_module
from tests.loops import beside, join, start
from tests.servers import Cluster
from tests.test_security import IN_A_SHELL
from tests.verbs import Quiet
from tests.waiting import SLOWNESS, wait_until

pytestmark = pytest.mark.acceptance


@pytest.fixture
def guests(cluster):
    """The nodes that do not serve the slot; all have a user, and afterwards none has it."""
    for node in cluster.nodes:
        node.client.acl_setuser("guest", enabled=True, passwords=["+word"], categories=["+@all"], keys=["*"])
    yield [node for node in cluster.nodes if node is not cluster.master_of("{guests}")]
    for node in cluster.nodes:
        node.client.acl_deluser("guest")


@pytest.fixture
def bike(cluster, prefix):
    bike = Redbike(Quiet(), prefix=prefix, redis_config=cluster.url)
    yield bike
    bike.redis.close()


@pytest.fixture
def own_cluster(tmp_path):
    """A cluster that a test may leave unusable."""
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


def test_a_prefix_without_braces_gets_them_and_one_line_says_so(cluster, prefix, caplog):
    caplog.set_level(logging.INFO, "redbike")
    bike = Redbike(Quiet(), prefix=prefix, redis_config=cluster.url)
    assert bike.prefix == f"{{{prefix}}}"
    assert caplog.records == []
    with beside(bike.store, bike.dispatch):
        wait_until(lambda: bike.store.timeline.read_dispatched()[1])
    said = f"in a cluster all keys must be in one slot: the prefix is '{{{prefix}}}'"
    assert [record.message for record in caplog.records].count(said) == 1
    bike.set("job:A", "NOW")
    assert all(key.startswith(bike.prefix.encode()) for key in bike.redis.scan_iter(match=f"*{prefix}*"))


def test_what_stands_before_braces_may_have_a_dash(cluster, prefix):
    bike = Redbike(Quiet(), prefix=f"my-{{{prefix}}}", redis_config=cluster.url)
    assert bike.set("job:A", "NOW")
    assert bike.work_one() == "job:A"
    bike.redis.close()


def test_a_client_for_the_whole_cluster_may_be_given(cluster, prefix):
    host, port = cluster.url.partition("://")[2].partition(",")[0].split(":")
    given = redis.RedisCluster(host=host, port=int(port), decode_responses=True)
    bike = Redbike(Quiet(), prefix=prefix, redis_config=given)
    assert bike.set("job:A", "NOW")
    assert bike.work_one() == "job:A"
    assert given.get("nothing") is None
    given.close()
    assert dict(bike.get_schedules()) == {"job:A": "STOP"}
    assert list(bike.fsck()) == []
    assert bike.flush() > 0
    assert dict(bike.get_statuses()) == {}


def test_a_slot_that_moves_under_load_is_followed_without_an_error(bike, cluster, caplog, tmp_path):
    """Jobs are set and worked all the time, by a program and by hand, while the slot is moved to and fro."""
    moved, by_hand = threading.Event(), threading.Event()
    shell = Shell(tmp_path, cluster.url)
    shell.environment["REDBIKE_PREFIX"] = bike.prefix

    def move():
        for _ in range(4):
            cluster.move_slot(bike.prefix)
            # It stays there until a command has found it there.
            wait_until(by_hand.wait, 60)
            by_hand.clear()
        moved.set()

    expected = [f"{number}:A" for number in range(100)]
    assert all(result is True for _, result in bike.set_many((jobid, "NOW") for jobid in expected))
    worker, mover = start(bike.work), start(move)
    while not moved.is_set():
        jobid = f"{len(expected)}:A"
        if len(expected) % 2:
            assert bike.set(jobid, "NOW")
            assert bike.tell(jobid)["schedule"]
        else:
            done = shell.run("set", jobid, "NOW")
            assert (done.returncode, done.stderr) == (0, "")
            by_hand.set()
        expected.append(jobid)
    join(mover)
    wait_until(lambda: len(bike.worker.worked) == len(expected))
    bike.control("HALT")
    join(worker)
    assert sorted(bike.worker.worked) == sorted(expected)
    assert list(fsck(bike.store)) == []
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_list_of_jobs_that_is_read_while_its_slot_moves_has_each_job_once(bike, cluster):
    jobids = [f"{number}:A" for number in range(3000)]
    assert all(result is True for _, result in bike.set_many((jobid, "@hourly") for jobid in jobids))
    reader = bike.get_schedules()
    read = [next(reader)]
    for _ in range(2):
        cluster.move_slot(bike.prefix)
        read += [next(reader) for _ in range(600)]
    read += reader
    assert sorted(jobid for jobid, _ in read) == sorted(jobids)


def test_a_check_during_which_the_slot_moves_looks_at_every_job(bike, cluster, monkeypatch):
    jobids = [f"{number}:A" for number in range(3000)]
    assert all(result is True for _, result in bike.set_many((jobid, "@hourly") for jobid in jobids))
    bike.redis.zrem(bike.store.keys.timeline, *jobids)
    moves = []

    def list_inflight(store, listing, found):
        # In the midst of the listing.
        if not moves:
            cluster.move_slot(bike.prefix)
            moves.append(len(listing.jobs))
        before(store, listing, found)

    before = listing._list_inflight
    monkeypatch.setattr("redbike.store.inspection.listing._list_inflight", list_inflight)
    assert len(list(bike.fsck())) == 3000
    assert moves == [3000]


def test_who_takes_a_node_for_the_server_is_told_the_right_url(cluster):
    node = cluster.nodes[0]
    with pytest.raises(ServerError, match=f"is a node of a cluster: the url is redis.cluster://127.0.0.1:{node.port}"):
        Redbike(Quiet(), redis_config=f"redis://127.0.0.1:{node.port}")


def test_a_worker_and_a_dispatcher_stop_at_once_while_a_slot_is_stuck(tmp_path, own_cluster):
    """Nobody knows when the move ends: a signal must not wait for that."""
    shell = Shell(tmp_path, own_cluster.url)
    (tmp_path / "jobs.py").write_text(make_module("print(jobid, flush=True)"))
    assert shell.run("set", "job:A", "EVERY:0.2s").returncode == 0
    loops = [shell.start("dispatch", log="dispatch"), shell.start("work", "jobs:Worker('A')")]
    wait_until(lambda: "job:A" in shell.log())
    own_cluster.begin_to_move_slot("{redbike}")
    wait_until(lambda: "the keys are moving" in shell.log("dispatch"), 20)
    for loop in loops:
        loop.terminate()
    assert [loop.wait(4 * SLOWNESS + 2) for loop in loops] == [0, 0]
    shell.close()


def test_the_least_rights_of_the_three_users_are_enough_with_one_for_the_cluster(tmp_path, cluster):
    for role, words in IN_A_SHELL.items():
        for node in cluster.nodes:
            own = ["on", f">{role}", "+cluster|slots"]
            node.client.execute_command(*(word.replace("redbike-*", "{redbike}-*") for word in words), *own)
    (tmp_path / "jobs.py").write_text(make_module())
    place = cluster.url.partition("://")[2]
    shells = {role: Shell(tmp_path, f"redis+cluster://redbike-{role}:{role}@{place}") for role in IN_A_SHELL}
    client = shells["client"]
    assert client.run("set", "job:A", "NOW").returncode == 0
    processes = [shells["dispatcher"].start("dispatch"), shells["worker"].start("work", "jobs:Worker('A')")]
    wait_until(lambda: '"STP' in client.run("tell", "job:A").stdout)
    assert client.run("fsck").stdout == ""
    assert client.run("control", "HALT").returncode == 0
    assert [process.wait(60) for process in processes] == [0, 0]
    assert "NOPERM" not in client.log()
    user = IN_A_SHELL["client"][:3]
    for node in cluster.nodes:
        node.client.execute_command(*user, "-cluster|slots")
    refused = client.run("statuses")
    assert refused.returncode == 1
    assert "refuses" in refused.stderr
    assert "cluster|slots" in refused.stderr
    for shell in shells.values():
        shell.close()


@pytest.mark.parametrize("refuses", ["login", "question"])
def test_nodes_without_the_user_or_its_right_do_not_matter_where_another_one_answers(cluster, guests, refuses):
    """ACLs are not replicated."""
    for node in guests[:2]:
        if refuses == "login":
            node.client.acl_deluser("guest")
        else:
            node.client.acl_setuser("guest", enabled=True, commands=["-cluster|slots"])
    url = f"redis+cluster://guest:word@{','.join(f'127.0.0.1:{node.port}' for node in guests[:3])}"
    with Redbike(Quiet(), prefix="{guests}", redis_config=url) as bike:
        assert bike.set("job:A", "NOW")
        assert bike.work_one() == "job:A"
        bike.flush()


def test_a_login_that_all_nodes_refuse_is_an_error_that_names_one_of_them(guests):
    place = f"127.0.0.1:{guests[0].port}"
    with pytest.raises(ServerError, match=f"refuses the login: {place}: invalid username-password pair") as found:
        Redbike(Quiet(), prefix="{guests}", redis_config=f"redis+cluster://guest:wrong@{place}")
    assert not isinstance(found.value, Unreachable)
    assert "wrong" not in str(found.value)


FAILS = "if jobid.startswith('fails') and not os.path.exists('mended'): raise ValueError('not today')"


def test_every_command_does_its_work_on_a_cluster(tmp_path, cluster, prefix):
    shell = Shell(tmp_path, cluster.url)
    (tmp_path / ".redbike.conf").write_text(f"[redbike]\nprefix: {prefix}\nworker: jobs:Worker('A')\n")
    (tmp_path / "jobs.py").write_text(make_module(FAILS, head="import os"))
    (tmp_path / "jobs.csv").write_text("loaded:A,EVERY:1h\n")

    def output(line: str, status: int = 0) -> str:
        done = shell.run(*line.split())
        assert done.returncode == status, done.stderr
        return done.stdout

    def events() -> dict[str, str]:
        return dict(line.split(",")[:2] for line in output("statuses").splitlines())

    up = shell.start("up")
    output("set job:A NOW")
    output("set fails:A NOW")
    output("load jobs.csv")
    wait_until(lambda: events() == {"job:A": "STP", "fails:A": "DIE", "loaded:A": "TML"}, 30)
    assert '"jobid": "fails:A"' in output("failures")
    (tmp_path / "mended").touch()
    output("run fails:A")
    wait_until(lambda: events()["fails:A"] == "STP", 30)
    assert output("health job:*").startswith("OK: ")
    assert output("next --count=1 loaded:A").startswith("Every hour")
    output("unset fails:A")
    assert sorted(output("schedules").splitlines())[0].startswith("job:A,")
    output("control HALT")
    assert up.wait(60) == 0
    # The timeline is lost behind Redbike's back.
    key = f"{{{prefix}}}-timeline"
    assert cluster.master_of(key).client.delete(key) == 1
    assert "'loaded:A'" in output("fsck", status=1)
    assert "repaired: put on the timeline" in output("fsck --repair")
    assert output("fsck") == ""
    shell.close()
