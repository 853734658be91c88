"""Jobs in shards on the masters of a real cluster: each runs once, also while a master is away."""

import csv
import os
import signal
import time
from collections import Counter
from contextlib import suppress

import pytest

from redbike import Redbike, RoundRobin, Unreachable
from tests.commandline import Shell, make_module
from tests.durations import set_lines
from tests.pages import find_block
from tests.servers import Cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = make_module("with open('done', 'a') as file: print(jobid, file=file)")
SHARDS = 16
NUMBER = 160


@pytest.fixture
def masters(tmp_path):
    """Three masters without replicas, of which two go on if one is away."""
    cluster = Cluster(tmp_path / "cluster", replicas=0, node_timeout=1000)
    for node in cluster.nodes:
        node.client.config_set("cluster-require-full-coverage", "no")
    yield cluster
    cluster.stop()


@pytest.fixture
def shell(tmp_path, masters):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "jobs.py").write_text(WORKER)
    config = find_block("scale", "[redbike]").replace("redis+cluster://h1:6379,h2:6379,h3:6379", masters.url)
    (folder / ".redbike.conf").write_text(config.replace("[redbike]", "[redbike]\nworker: jobs:Worker('A:B')", 1))
    (folder / "done").write_text("")
    shell = Shell(folder, None)
    yield shell

    shell.close()


@pytest.fixture
def bike(masters):
    with Redbike(RoundRobin("A:B"), "app", masters.url, shards=SHARDS) as bike:
        yield bike


def list_connections(masters, name):
    """The connections with this name: those on which a process waits, or has waited, for tokens, and the others."""
    listed = [each for node in masters.nodes for each in node.client.client_list(_type="normal")]
    own = [each for each in listed if each["name"] == name]
    waiting = {each["addr"] for each in own if each["cmd"] == "blpop"}
    return waiting, {each["addr"] for each in own} - waiting


def count_opened(masters):
    return sum(node.client.info("stats")["total_connections_received"] for node in masters.nodes)


def is_settled(node):
    """It knows that another master is gone, and serves its own slots again."""
    told = node.client.execute_command("CLUSTER INFO")
    return told["cluster_state"] == "ok" and int(told["cluster_slots_fail"]) > 0


def count_done(shell):
    return Counter((shell.folder / "done").read_text().split())


def test_each_job_runs_once_and_all_masters_have_some(shell, masters, bike):
    (shell.folder / "jobs.csv").write_text("".join(f"job-{n}:{'AB'[n % 2]},EVERY:1h\n" for n in range(NUMBER)))
    assert shell.run("load", "jobs.csv").returncode == 0
    rows = list(csv.DictReader(shell.run("shards", "--format=csv").stdout.splitlines()))
    assert [row["prefix"] for row in rows] == [f"{{app:{shard:02}}}/{SHARDS}" for shard in range(SHARDS)]
    assert sum(int(row["jobs"]) for row in rows) == NUMBER
    table = shell.run("shards", "--format=table").stdout
    assert all(f"{row['prefix']}  {row['server']}" in table for row in rows)
    assert {row["server"] for row in rows} == {f"127.0.0.1:{node.port}" for node in masters.nodes}
    for node in masters.nodes:
        own = [row for row in rows if row["server"].endswith(f":{node.port}")]
        kept = (node.client.hlen(f"{row['prefix']}-schedules") for row in own)
        assert list(kept) == [int(row["jobs"]) for row in own]
    shell.start("dispatch")
    for _ in range(2):
        shell.start("work")
    wait_until(lambda: len(bike.workers()) == 3)
    assert shell.run("run", "job-*").returncode == 0
    wait_until(lambda: len(count_done(shell)) == NUMBER)
    assert set(count_done(shell).values()) == {1}
    assert len(bike.runs(limit=9999)) == NUMBER
    assert shell.run("health").returncode == 0
    assert shell.run("fsck").stdout == ""
    # Who thinks of another number is refused, also by what would wait for a server.
    config = (shell.folder / ".redbike.conf").read_text()
    (shell.folder / "other.conf").write_text(config.replace("shards: 16", "shards: 8"))
    for command, status in (("jobs", 2), ("check", 1), ("web", 2), ("up", 2)):
        more = ["--listen=127.0.0.1:0"] if command == "web" else []
        done = shell.run("--config=other.conf", command, *more)
        assert done.returncode == status, command
        assert "bad shards 8: the jobs of the prefix '{app}' are divided among 16" in done.stdout + done.stderr
    # A job that is unset is gone from its shard, and the others stay.
    assert shell.run("unset", "job-7:B").returncode == 0
    assert len(shell.list_rows("jobs", "--format=csv")) == NUMBER - 1
    assert shell.run("control", "HALT").returncode == 0
    for process in shell.started:
        assert process.wait(60) == 0


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_process_waits_on_a_connection_for_each_shard_and_has_few_others(shell, masters, bike, concurrency):
    # What a busy machine makes a process open at its start is closed again, but not within 15 s.
    (shell.folder / "jobs.py").write_text(set_lines(pools__UNUSED=3.0) + WORKER)
    (shell.folder / "jobs.csv").write_text("".join(f"job-{n}:{'AB'[n % 2]},EVERY:1s\n" for n in range(NUMBER)))
    config = (shell.folder / ".redbike.conf").read_text()
    for command in ("work", "dispatch"):
        (shell.folder / f"{command}.conf").write_text(
            config.replace(masters.url, f"{masters.url}?client_name={command}")
        )
    shell.start("--config=work.conf", "work", f"--concurrency={concurrency}")
    shell.start("--config=dispatch.conf", "dispatch")
    # Idle, and then busy: one to each master, and a few more where threads ask at the same time.
    most = {"work": 3 * len(masters.nodes), "dispatch": SHARDS + 3}

    def is_modest(name):
        waiting, others = list_connections(masters, name)
        return len(waiting) == SHARDS and len(others) <= most[name]

    for name in most:
        wait_until(lambda name=name: is_modest(name))
    assert shell.run("load", "jobs.csv").returncode == 0
    wait_until(lambda: len(count_done(shell)) == NUMBER)
    for name in most:
        wait_until(lambda name=name: is_modest(name))
    # They are kept: nobody connects for each run.
    opened, done = count_opened(masters), sum(count_done(shell).values())
    wait_until(lambda: sum(count_done(shell).values()) > done + 3 * NUMBER)
    assert count_opened(masters) - opened < NUMBER


def test_a_master_that_is_away_holds_up_no_job_of_the_others(shell, masters, bike):
    gone = masters.master_of("{app:00}")
    far = [shard.keys.prefix for shard in bike.store.shards if masters.master_of(f"{shard.keys.prefix}-jobs") is gone]
    shell.start("dispatch")
    shell.start("work")
    wait_until(lambda: len(bike.workers()) == 2)
    gone.kill()
    wait_until(lambda: all(is_settled(node) for node in masters.nodes if node is not gone))
    names = [f"job-{number}:A" for number in range(NUMBER)]
    near = [name for name in names if bike.store.find_shard(name).keys.prefix not in far]
    assert 0 < len(near) < NUMBER
    for name in near:
        bike.set(name, "IN:1s")
    wait_until(lambda: count_done(shell).keys() >= set(near))
    # So do processes that begin now.
    for process in shell.started:
        process.terminate()
    assert [process.wait(30) for process in shell.started] == [0, 0]
    for command in ("dispatch", "work"):
        shell.start(command)
    bike.set(near[0], "IN:1s")
    wait_until(lambda: count_done(shell)[near[0]] == 2)
    done = shell.run("shards", "--format=csv")
    assert (done.returncode, done.stderr) == (1, "")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["prefix"] for row in rows if row["problem"]] == far
    # What lists jobs prints those that it can read, and then names the first shard that is missing.
    listed = shell.run("statuses")
    assert (len(listed.stdout.splitlines()), listed.returncode) == (len(near), 1)
    assert f"the shard {far[0]} is missing" in listed.stderr
    for command in ("jobs", "queues", "health", "failures"):
        done = shell.run(command)
        assert (f"the shard {far[0]} is missing" in done.stdout + done.stderr, done.returncode) == (True, 1), command
    # What all are to hear, most have heard.
    done = shell.run("pause", "--queue=B")
    assert done.returncode == 1
    assert f"{', '.join(far)} have not heard of it, all others have" in done.stderr
    gone.start()
    wait_until(masters.is_well)
    # The dispatcher tells the others when they are back: also that processes have ended meanwhile, so none is lost.
    wait_until(lambda: [each.kind for each in bike.workers()] == ["dispatcher", "worker"])
    wait_until(lambda: all(shard.queue_limits.read("work-B").pause for shard in bike.store.shards))
    for name in set(names) - set(near):
        bike.set(name, "IN:1s")
    wait_until(lambda: count_done(shell).keys() == set(names))
    assert count_done(shell) == Counter(names) + Counter(near[:1])
    assert shell.run("fsck").stdout == ""


def test_a_master_that_is_suspended_hardly_holds_up_the_jobs_of_the_others(shell, masters, bike):
    gone = masters.master_of("{app:00}")
    names = [f"job-{number}:A" for number in range(NUMBER)]
    near = [name for name in names if masters.master_of(bike.store.find_shard(name).keys.schedules) is not gone]
    far = next(name for name in names if name not in near)
    shell.start("dispatch")
    for _ in range(2):
        shell.start("work", log="workers")
    wait_until(lambda: len(bike.workers()) == 3)
    os.kill(gone.process.pid, signal.SIGSTOP)
    try:
        list(bike.set_many((name, "IN:0.1s") for name in near))
        wait_until(lambda: min(count_done(shell)[name] for name in near) == 1)
        # Workers do not wait as long for it as other programs.
        waits = [line for line in shell.log("workers").splitlines() if "wait: " in line]
        assert waits
        assert all("does not answer" in line for line in waits), waits
        with pytest.raises(Unreachable, match="is missing: "):
            bike.tell(far)
        took = []
        for number in range(2, 11):
            began = time.monotonic()
            with pytest.raises(Unreachable, match="does not answer"):
                bike.tell(far)
            took.append(time.monotonic() - began)
            list(bike.set_many((name, "IN:0.1s") for name in near))
            wait_until(lambda number=number: min(count_done(shell)[name] for name in near) == number)
        # Who needs it does not wait either, once it has kept somebody waiting; this machine may hold up a few.
        assert sorted(took)[6] < 2, took
    finally:
        os.kill(gone.process.pid, signal.SIGCONT)
    assert set(count_done(shell).values()) == {10}

    def is_back():
        with suppress(Unreachable):
            return bike.enter(far, "NOW")

    wait_until(is_back)
    wait_until(lambda: count_done(shell)[far] == 1)


def test_jobs_move_to_another_number_while_nobody_works(shell, masters):
    (shell.folder / "jobs.csv").write_text("".join(f"job-{n}:{'AB'[n % 2]},EVERY:1h\n" for n in range(NUMBER)))
    assert shell.run("load", "jobs.csv").returncode == 0
    before, config = shell.list_rows("schedules", "--full"), (shell.folder / ".redbike.conf").read_text()
    worker = shell.start("work")
    wait_until(lambda: shell.list_rows("workers", "--format=csv"))
    refused = shell.run("shards", "move", "--to=3")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot move: the worker " in refused.stderr
    assert shell.run("control", "HALT").returncode == 0
    assert worker.wait(60) == 0
    for old, new in ((16, 3), (3, 1), (1, 16)):
        done = shell.run("shards", "move", f"--to={new}")
        assert done.stdout.startswith(f"moved {NUMBER} jobs from {old} shard"), done.stderr
        (shell.folder / ".redbike.conf").write_text(config.replace("shards: 16", f"shards: {new}"))
        assert sorted(shell.list_rows("schedules", "--full")) == sorted(before)
        assert len(shell.list_rows("shards", "--format=csv")) == new
        assert shell.run("fsck").stdout == ""
    for command in ("dispatch", "work"):
        shell.start(command)
    assert shell.run("run", "job-*").returncode == 0
    wait_until(lambda: len(count_done(shell)) == NUMBER)
    assert set(count_done(shell).values()) == {1}
