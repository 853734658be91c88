"""Jobs for one host: the workers of its queue on that host take them, and nobody else; and no other job pays for it."""

import json

import pytest

from redbike import Redbike, RoundRobin, Unreachable
from redbike.commands import Commands
from redbike.loop.host_queues import LOOK, HostQueues
from redbike.loop.queues import Queues
from redbike.store.run import Poll
from redbike.worker.worker import Worker
from tests.verbs import Quiet
from tests.waiting import wait_until


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def make_bike(client, prefix, host, queues="A"):
    return Redbike(Quiet(queues), prefix, client, host=host)


def work_all(bike):
    return [*iter(bike.work_one, None)]


def test_only_the_worker_of_that_queue_on_that_host_takes_it(client, prefix):
    web1, web2, other = (make_bike(client, prefix, *each) for each in (("web1",), ("web2",), ("web1", "B")))
    web1.set("check:A@web1", "NOW")
    web1.set("check:A", "NOW")
    assert other.work_one() is None
    assert work_all(web2) == ["check:A"]
    assert web1.work_one() == "check:A@web1"
    assert client.smembers(f"{prefix}-queues") == {b"work-A", b"work-A@web1"}


def test_commands_find_their_command(client, prefix, tmp_path):
    (tmp_path / "commands.ini").write_text(f"[commands]\ncheck: sh -c 'echo $REDBIKE_JOBID > {tmp_path}/ran'\n")
    bike = Redbike(Commands("A", str(tmp_path / "commands.ini")), prefix, client, host="web1")
    bike.set("check:A@web1", "NOW")
    assert bike.work_one() == "check:A@web1"
    assert (tmp_path / "ran").read_text() == "check:A@web1\n"


def test_two_hosts_of_one_name_are_one_and_a_job_of_a_host_has_its_own_history(client, prefix):
    twins = [make_bike(client, prefix, "web1") for _ in range(2)]
    for twin in twins:
        twins[0].set("check:A@web1", "NOW")
        assert twin.work_one() == "check:A@web1"
    assert len(twins[0].runs("check:A@web1")) == 2
    assert twins[0].runs("check:A") == []


def list_names(queues):
    return [queues.names()[number - 1] for poll in queues.polls() for number in poll.turns]


def test_a_queue_of_the_host_has_the_turns_of_that_beside_it_and_its_timeout():
    class Timed(RoundRobin):
        def timeout(self, queue_name):
            return {"work-A": 5.0, "work-B": 7.0}[queue_name]

    used, clock = [], Clock()
    asked = []
    hosts = HostQueues("web1", lambda names: asked.append(names) or used, clock)
    queues = Queues(Timed("A:A:B"), 10.0, clock, hosts)
    assert list_names(queues) == ["work-A", "work-A", "work-B"]
    assert queues.list_awaited() == ["work-A", "work-B", "work-A@web1", "work-B@web1"]
    used.append("work-A@web1")
    clock.now += LOOK / 2
    assert list_names(queues) == ["work-A", "work-A", "work-B"]
    clock.now += LOOK / 2
    assert list_names(queues) == ["work-A", "work-A@web1", "work-A", "work-A@web1", "work-B"]
    assert next(queues.polls()).queues == [("work-A", 5.0), ("work-A@web1", 5.0), ("work-B", 7.0)]
    assert queues.list_awaited() == ["work-A", "work-A@web1", "work-B", "work-B@web1"]
    queues.note_token("work-B@web1")
    assert list_names(queues)[-1] == "work-B@web1", "at once"
    assert asked == [["work-A@web1", "work-B@web1"]] * 2, "one question each few seconds"


def test_without_an_answer_the_queues_stay_as_they_are():
    def fail(names):
        raise Unreachable("it is away")

    clock = Clock()
    queues = Queues(RoundRobin("A"), 10.0, clock, HostQueues("web1", fail, clock))
    assert list_names(queues) == ["work-A"]


def test_where_no_job_is_for_a_host_a_worker_looks_into_no_further_queue(client, prefix):
    bike = make_bike(client, prefix, "web1")
    worker = Worker(bike.store, bike.worker, bike.settings)
    client.config_resetstat()
    for _ in range(3):
        bike.set("check:A", "NOW")
        assert worker.work_one() == "check:A"
        assert next(worker.queues.polls()) == Poll([("work-A", 10.0)], [1])
    assert client.info("commandstats")["cmdstat_smismember"]["calls"] == 1, "one question each six seconds"
    worker.close()
    worker.loop.close()


@pytest.mark.parametrize("name", ["", "all", "ALL", "a b", "a@b", "a:b", "x" * 65])
def test_a_host_that_no_queue_can_have_is_refused(client, prefix, name):
    if not name:
        assert make_bike(client, prefix, name).settings.host is None
        return
    with pytest.raises(ValueError, match=f"bad host '{name[:60]}"):
        make_bike(client, prefix, name)


WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        pass
"""


def start(shell, host, *words):
    shell.environment["REDBIKE_HOST"] = host
    shell.environment["REDBIKE_WORKER"] = "tour:Worker('A')"
    return shell.start(*words, log=host)


def read(shell, command):
    return json.loads(shell.run(command, "--format=json").stdout)


def list_hosts(shell):
    return sorted(each["host"] for each in read(shell, "workers") if each["state"] == "alive")


def list_runs(shell):
    return sorted((each["jobid"], each["worker"].split(":")[0]) for each in read(shell, "runs"))


@pytest.mark.parametrize("words", [("work",), ("work", "--concurrency=3")], ids=["alone", "pool"])
def test_idle_workers_of_two_hosts_one_of_which_is_killed(shell, words):
    (shell.folder / "tour.py").write_text(WORKER)
    first = start(shell, "web1", *words)
    start(shell, "web2", *words)
    wait_until(lambda: list_hosts(shell) == ["web1", "web2"])
    assert shell.run("set", "check:A@web9", "EVERY:1h").stderr.endswith("no worker works its queue 'work-A@web9'\n")
    for host in ("web2", "web1"):
        done = shell.run("set", f"check:A@{host}", "NOW")
        assert (done.returncode, done.stderr) == (0, "")
    ran = [("check:A@web1", "web1"), ("check:A@web2", "web2")]
    wait_until(lambda: list_runs(shell) == ran)
    first.kill()
    first.wait()
    for host in ("web1", "web2"):
        shell.run("set", f"check:A@{host}", "NOW")
    wait_until(lambda: list_runs(shell) == [*ran, ran[1]])
    assert "waits in work-A@web1" in shell.run("why", "check:A@web1").stdout
    start(shell, "web1", *words)
    wait_until(lambda: list_runs(shell) == sorted([*ran, *ran]))
