"""Jobs for one host: the workers of its queue on that host take them, and nobody else; and no other job pays for it."""

import pytest

from redbike import Redbike, RoundRobin, Unreachable
from redbike.commands import Commands
from redbike.loop.host_queues import LOOK, MOST, HostQueues
from redbike.loop.queues import Queues
from redbike.store.run import Poll
from redbike.worker.worker import Worker
from tests.verbs import Quiet


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def make_bike(client, prefix, host, queues="A"):
    return Redbike(Quiet(queues), prefix, client, host=host)


def test_only_the_worker_of_that_queue_on_that_host_takes_it(client, prefix):
    web1, web2, other = (make_bike(client, prefix, *each) for each in (("web1",), ("web2",), ("web1", "B")))
    web1.set("check:A@web1", "NOW")
    web1.set("check:A", "NOW")
    assert other.work_one() is None
    assert [web2.work_one(), web2.work_one()] == ["check:A", None]
    assert web1.work_one() == "check:A@web1"
    # Two hosts of one name are one.
    web1.set("check:A@web1", "NOW")
    assert make_bike(client, prefix, "web1").work_one() == "check:A@web1"
    assert [len(web1.runs(jobid)) for jobid in ("check:A@web1", "check:A")] == [2, 1]
    assert client.smembers(f"{prefix}-queues") == {b"work-A", b"work-A@web1"}


def test_commands_find_their_command(client, prefix, tmp_path):
    (tmp_path / "commands.ini").write_text(f"[commands]\ncheck: sh -c 'echo $REDBIKE_JOBID > {tmp_path}/ran'\n")
    bike = Redbike(Commands("A", str(tmp_path / "commands.ini")), prefix, client, host="web1")
    bike.set("check:A@web1", "NOW")
    assert bike.work_one() == "check:A@web1"
    assert (tmp_path / "ran").read_text() == "check:A@web1\n"


def list_names(queues):
    return [queues.names()[number - 1] for poll in queues.polls() for number in poll.turns]


def test_a_queue_of_the_host_has_the_turns_of_that_beside_it_and_its_timeout():
    class Timed(RoundRobin):
        def timeout(self, queue_name):
            return {"work-A": 5.0, "work-B": 7.0}[queue_name]

    used, clock, asked = [], Clock(), []

    def ask(names):
        asked.append(names)
        if len(asked) == 1:
            raise Unreachable("it is away")
        return used

    hosts = HostQueues("web1", ask, clock)
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


def test_a_worker_of_very_many_queues_takes_the_jobs_of_its_host_from_each(client, prefix):
    bike = make_bike(client, prefix, "web1", ":".join(f"Q{number}" for number in range(MOST + 200)))
    first, last = "check:Q0@web1", f"check:Q{MOST + 199}@web1"
    bike.set(first, "NOW")
    bike.set(last, "NOW")
    assert [bike.work_one() for _ in range(3)] == [first, last, None]


def test_an_idle_worker_waits_for_the_tokens_of_some_queues_that_were_never_used():
    names, clock, used = [f"Q{number}" for number in range(MOST + 200)], Clock(), []
    hosts = HostQueues("web1", lambda names: used, clock)
    queues = Queues(Quiet(":".join(names)), 10.0, clock, hosts)
    queues.refresh()
    assert len(queues.list_awaited()) == 2 * MOST + 200
    used.append(f"work-{names[-1]}@web1")
    clock.now += LOOK
    assert queues.refresh()
    assert queues.list_awaited()[MOST + 200] == used[0]


def test_where_no_job_is_for_a_host_a_worker_looks_into_no_further_queue(client, prefix, monkeypatch):
    monkeypatch.setattr("redbike.loop.host_queues.LOOK", 600.0)
    bike = make_bike(client, prefix, "web1")
    worker = Worker(bike.store, bike.worker, bike.settings)
    client.config_resetstat()
    for _ in range(3):
        bike.set("check:A", "NOW")
        assert worker.work_one() == "check:A"
        assert next(worker.queues.polls()) == Poll([("work-A", 10.0)], [1])
    assert client.info("commandstats")["cmdstat_smismember"]["calls"] == 1, "one question each few seconds"
    worker.close()
    worker.loop.close()


@pytest.mark.parametrize("name", ["", "all", "ALL", "a b", "a@b", "a:b", "x" * 65])
def test_a_host_that_no_queue_can_have_is_refused(client, prefix, name):
    if not name:
        assert make_bike(client, prefix, name).settings.host is None
        return
    with pytest.raises(ValueError, match=f"bad host '{name[:60]}"):
        make_bike(client, prefix, name)
