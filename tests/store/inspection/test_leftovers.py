"""What redbike 0.13.1 leaves in Redis and in programs: data carry over, names that cost nothing are there."""

import logging

import pytest

import redbike
from redbike import Redbike, RoundRobin
from redbike.config.file import load
from tests.verbs import Quiet, take_many

TAG = "0" * 20 + "123456789a"
BIKE = {"worker": Quiet}


@pytest.fixture
def old(bike):
    """What 0.13.1 leaves: jobs on the timeline, in a queue, in flight, and in the set beside the queue."""
    client, prefix = bike.redis, bike.prefix
    client.hset(f"{prefix}-schedules", mapping={"later:A": "RRULE:FREQ=DAILY", "due:A": "CONTINUE", "run:A": "STOP"})
    client.hset(f"{prefix}-statuses", mapping={"later:A": "TML:1", "due:A": "ENQ:2", "run:A": "WRK:3"})
    client.zadd(f"{prefix}-timeline", {"later:A": 4000000000})
    client.lpush(f"{prefix}-work-A", "due:A")
    client.sadd(f"{prefix}-work-A-members", "due:A")
    client.set(f"{prefix}-work-A-run:A", TAG, ex=600)
    return bike


def test_fsck_knows_what_0_13_1_has_left(old, caplog):
    caplog.set_level(logging.INFO, "redbike")
    problems = list(old.fsck())
    assert not [line for line in problems if "members" in line or "not a key of Redbike" in line]
    assert f"{old.prefix}-work-A-members' is left of redbike 0.13.1" in caplog.text
    assert f"{old.prefix}-work-A-run:A' is of a run that a worker of redbike 0.13.1 took" in caplog.text
    old.redis.hdel(f"{old.prefix}-schedules", "run:A")
    old.redis.hdel(f"{old.prefix}-statuses", "run:A")
    while old.work_one():
        old.set("due:A", "STOP")
    assert list(old.fsck()) == []


def test_a_worker_names_the_queue_that_0_13_1_has_filled(old):
    old.set("new:A", "NOW")
    assert old.queues() == []
    assert old.work_one() == "due:A"
    assert [(queue.queue, queue.waiting) for queue in old.queues()] == [("work-A", 2)]


def test_repair_removes_the_sets_and_leaves_runs_in_flight_alone(old):
    lines = dict(old.repair())
    assert all(lines.values()), lines
    assert any("is left of redbike 0.13.1 -- repaired: it is removed" in line for line in lines)
    assert not old.redis.exists(f"{old.prefix}-work-A-members")
    assert old.redis.get(f"{old.prefix}-work-A-run:A").decode() == TAG
    assert list(old.fsck()) == []


def test_what_0_13_1_has_left_is_told_from_what_is_kept_of_runs_and_queues_today(old, caplog):
    """Of the same job and the same queue."""
    caplog.set_level(logging.INFO, "redbike")
    old.set("run:A", "CONTINUE")
    runs = take_many(old.store, [("work-A", 500.0)], [1], TAG, 2)
    assert [run.jobid for run in runs] == ["due:A", "run:A"]
    old.set("gone:A", "NOW")
    old.unset("gone:A")
    assert list(old.fsck()) == []
    assert len(caplog.records) == 2, "the set beside the queue, and the run of 0.13.1"
    assert all(well for _, well in old.repair())
    assert old.redis.get(f"{old.prefix}-work-A-run:A").decode() == TAG
    assert old.redis.smembers(f"{old.prefix}-tombstones-work-A") == {b"gone:A"}
    assert old.store.runs.heartbeat(runs) == ["ok", "ok"]
    assert old.store.runs.release(runs) == ["queue", "queue"]
    assert list(old.fsck()) == []


@pytest.mark.parametrize(
    ("places", "repairs"),
    [(["timeline"], True), (["queue"], True), (["timeline", "queue"], True), (["queue"], False)],
)
def test_a_job_that_0_13_1_has_stopped_does_not_run_though_it_left_its_place(bike, places, repairs):
    client, prefix = bike.redis, bike.prefix
    client.hset(f"{prefix}-schedules", "stopped:A", "STOP")
    client.hset(f"{prefix}-statuses", "stopped:A", "STP:1")
    if "timeline" in places:
        client.zadd(f"{prefix}-timeline", {"stopped:A": 1000})
    if "queue" in places:
        client.lpush(f"{prefix}-work-A", "stopped:A")
        client.sadd(f"{prefix}-work-A-members", "stopped:A")
        assert any("a worker will throw it away" in line for line in bike.fsck())
    if repairs:
        assert all(well for _, well in bike.repair())
        assert not client.exists(f"{prefix}-timeline", f"{prefix}-work-A")
    assert bike.dispatch_due() == 0
    assert bike.work_one() is None
    assert not client.exists(f"{prefix}-timeline", f"{prefix}-work-A")
    assert bike.tell("stopped:A")["status"] == "STP:1"
    bike.run("stopped:A")
    assert bike.work_one() == "stopped:A"


def test_a_one_off_that_waits_is_stored_as_stopped_by_0_13_1_and_runs(bike):
    client, prefix = bike.redis, bike.prefix
    client.hset(f"{prefix}-schedules", mapping={"at:A": "STOP", "now:A": "STOP"})
    client.hset(f"{prefix}-statuses", mapping={"at:A": "TML:1", "now:A": "ENQ:1"})
    client.zadd(f"{prefix}-timeline", {"at:A": 1000})
    client.lpush(f"{prefix}-work-A", "now:A")
    assert bike.dispatch_due() == 1
    assert {bike.work_one(), bike.work_one()} == {"at:A", "now:A"}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("work-B-members", lambda client, key: client.sadd(key, "job:A")),
        ("work-A-members", lambda client, key: client.set(key, "x")),
        ("work-A-job:A", lambda client, key: client.set(key, TAG)),
        ("work-A-job:B", lambda client, key: client.set(key, TAG, ex=600)),
        ("work-A-job:A", lambda client, key: client.set(key, "x", ex=600)),
        ("work-A-job:A", lambda client, key: client.sadd(key, "x")),
    ],
)
def test_a_key_that_only_looks_like_it_is_none_of_ours(bike, name, how):
    how(bike.redis, f"{bike.prefix}-{name}")
    [line] = bike.fsck()
    assert "not a key of Redbike" in line
    [(_, well)] = bike.repair()
    assert not well


def test_halt_is_given_in_any_case(bike):
    assert not bike.is_halted()
    bike.control("halt")
    assert bike.is_halted()


def test_names_of_0_13_1_that_are_still_there(client, tmp_path):
    bike = Redbike(Quiet("A:A:B"), prefix=None, redis_config=client, timefile=str(tmp_path / "time"))
    assert (bike.prefix, bike.timefile) == ("redbike", str(tmp_path / "time"))
    assert bike.redis.ping()
    assert redbike.log is logging.getLogger("redbike")
    assert RoundRobin("A:A:B").initstring == "A:A:B"
    assert RoundRobin("A").name_queue("x") == "work-x"


def test_a_worker_that_names_its_queues_otherwise_as_0_13_1_allowed(client, prefix):
    class Tenant(Quiet):
        def __init__(self, initstring):
            super().__init__(initstring)
            self.tenant = "acme"

        def name_queue(self, code):
            return f"{self.tenant}-{code}"

    bike = Redbike(Tenant("A"), prefix, client)
    bike.set("job:A", "NOW")
    assert list(bike.worker.queue_names()) == ["acme-A"]
    assert client.llen(f"{prefix}-acme-A") == 1
    assert bike.work_one() == "job:A"


def test_a_stored_id_for_which_there_is_no_queue_is_told_and_unset(bike):
    bike.redis.hset(f"{bike.prefix}-schedules", "job:", "CONTINUE")
    bike.redis.hset(f"{bike.prefix}-statuses", "job:", "ENQ:1")
    assert bike.tell("job:")["schedule"] == "CONTINUE"
    assert bike.unset("job:") is True
    assert list(bike.get_schedules()) == []


def test_what_the_config_file_of_0_13_1_had_and_this_one_has_not(shell, tmp_path):
    config = shell.folder / ".redbike.conf"
    config.write_text("[DEFAULT]\nprefix: shared\n[redbike]\nworker: redbike:RoundRobin('100%%')\n")
    settings = load(str(config), {}).settings
    assert (settings.prefix, settings.worker) == ("redbike", "redbike:RoundRobin('100%%')")
    for line, said in (("prefix: app ; mine", "'app ; mine'"), ("colour: red", "'colour'")):
        config.write_text(f"[redbike]\n{line}\n")
        done = shell.run("statuses")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert said in done.stderr


def test_a_rule_without_dtstart_that_0_13_1_has_stored_keeps_its_next_run(old):
    assert old.tell("later:A")["next_run"] == 4000000000
    old.redis.zadd(f"{old.prefix}-timeline", {"later:A": 1000.0})
    assert old.dispatch_due() == 1
    while old.tell("later:A")["status"].startswith("ENQ"):
        old.work_one()
    assert old.tell("later:A")["next_run"] % 86400 == 0
