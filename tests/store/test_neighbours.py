"""Two prefixes whose keys could be the same are not used on one server."""

import time

import pytest

from redbike import Redbike
from redbike.errors import BadQueueName
from tests.cli.refused import check_refused
from tests.loops import make_worker
from tests.verbs import Quiet, take_one

# (prefix, queue, other prefix, queue): these share a key.
SHARED = [
    ("a", "work-statuses", "a-work", "A"),
    ("a", "work-mail", "a-work", "mail"),
    ("a", "mail", "a-wake", "mail"),
    ("a", "mail", "a-tombstones", "mail"),
    ("a", "A", "a-queue", "limits"),
    ("a", "A", "a-failure", "times"),
    ("a", "A", "a-retry", "states"),
]
# With another queue, these could.
POSSIBLE = [
    ("a", "work-A", "a-work", "work-A"),
    ("a", "b-c-mail", "a-b", "A"),
    ("a", "b-c-mail", "a-b-c", "A"),
    ("a-b", "c-x", "a-b-c", "A"),
    ("a", "b-mail", "a-wake-b", "A"),
    ("a", "b-mail", "a-tombstones-b", "A"),
]
# These cannot.
APART = [
    ("a", "mail", "a-work", "A"),
    ("a", "working-x", "a-work", "A"),
    ("a", "work-x", "b-work", "x"),
    ("a", "mail", "ab", "mail"),
    ("a", "mail", "a-wake", "A"),
    ("a", "mail", "b-wake", "mail"),
    ("a", "limits", "a-queue", "mail"),
    ("a", "mail", "a-inflight", "mail"),
]


def both_ways(rows):
    """Tests with the first pair first, and with the second."""
    turned = [(*pair, *other) for *pair, a, b in rows for pair, other in [(pair, (a, b)), ((a, b), pair)]]
    return pytest.mark.parametrize(("early", "queue", "late", "other"), turned)


class Named(Quiet):
    """The job id is the name of its queue; works `names`."""

    def __init__(self, *names):
        super().__init__()
        self.names = list(names)

    def queue_for(self, jobid):
        return jobid

    def queue_names(self):
        return list(self.names)


def make(client, prefix, *names, **settings):
    return Redbike(Named(*names), prefix, client, **settings)


@both_ways(SHARED + POSSIBLE)
def test_whichever_is_used_second_is_refused(client, early, queue, late, other):
    make(client, early).set(queue, "NOW")
    bike = make(client, late)
    with pytest.raises(BadQueueName, match=f"the prefix '{late}' cannot be used beside '{early}'"):
        bike.set(other, "NOW")
    with pytest.raises(BadQueueName):
        bike.sync([(other, "NOW")])
    assert client.keys(f"{late}-schedules") == []
    make(client, early).set(queue, "EVERY:1h")


@both_ways(APART)
def test_others_are_used_beside_each_other(client, early, queue, late, other):
    pairs = [(early, queue), (late, other)]
    bikes = [make(client, *pair) for pair in pairs]
    workers = [make_worker(bike.store, bike.worker) for bike in bikes]
    with workers[0].presence, workers[1].presence:
        for bike, (_, jobid) in zip(bikes, pairs, strict=True):
            bike.set(jobid, "NOW")
        assert [bike.work_one() for bike in bikes] == [queue, other]


def test_who_may_not_see_the_other_keys_goes_on(client, server_url):
    client.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~a-work-*", "&*", "+@all")
    try:
        bike = Redbike(Named("A"), "a-work", server_url.replace("unix://", "unix://limited:x@"))
        assert bike.set("mail", "NOW")
    finally:
        client.execute_command("ACL", "DELUSER", "limited")


@both_ways(SHARED)
def test_a_worker_is_refused_before_it_takes_what_is_of_another_prefix(client, early, queue, late, other):
    make(client, early).set(queue, "NOW")
    said = f"the prefix '{late}' cannot be used beside '{early}'"
    with pytest.raises(BadQueueName, match=said):
        make(client, late, other).work_one()
    with pytest.raises(BadQueueName, match=said):
        make(client, late, other).work()
    assert client.keys(f"{late}-workers") == []
    assert make(client, early, queue).work_one() == queue


@both_ways(POSSIBLE)
def test_two_that_share_no_key_yet_are_worked_beside_each_other(client, early, queue, late, other):
    pairs = [(make(client, early, queue), queue), (make(client, late, other), other)]
    for bike, jobid in sorted(pairs, key=lambda pair: len(pair[0].store.keys.prefix)):
        bike.set(jobid, "EVERY:1h")
    for hours in (1, 2):
        assert [bike.dispatch_due(time.time() + hours * 3601) for bike, _ in pairs] == [1, 1]
        assert [bike.work_one() for bike, _ in pairs] == [queue, other]
        pairs = [(make(client, bike.store.keys.prefix, jobid), jobid) for bike, jobid in pairs]


@both_ways(SHARED[1:2])
def test_a_process_without_jobs_keeps_no_prefix_out(client, early, queue, late, other):
    idle, bike = make(client, early, queue), make(client, late, other)
    with make_worker(idle.store, idle.worker).presence:
        bike.set(other, "NOW")
        assert make(client, late, other).work_one() == other


@pytest.mark.parametrize("command", ["rpush", "set"])
def test_keys_of_another_program_are_no_prefix(client, command):
    client.hset("a-statuses", "x", 1)
    getattr(client, command)("a-queues", "work-mail")
    client.hset("a-work-mail-statuses", "x", 1)
    client.hset("a-work-mail-queues", "x", 1)
    bike = make(client, "a-work", "mail", "mail-x")
    bike.set("mail", "NOW")
    bike.set("mail-x", "EVERY:1h")
    assert bike.dispatch_due(time.time() + 3601) == 1
    assert {bike.work_one(), bike.work_one()} == {"mail", "mail-x"}


def test_a_queue_that_is_named_later_is_refused_too_and_the_others_are_worked(client, caplog):
    make(client, "a-work").set("mail", "NOW")
    bike = make(client, "a", "letters")
    assert bike.work_one() is None
    bike.worker.names.append("work-mail")
    bike.set("letters", "NOW")
    assert bike.work_one() == "letters"
    client.config_resetstat()
    assert bike.work_one() is None
    assert not {"cmdstat_type", "cmdstat_smembers"} & {*client.info("commandstats")}, "it was refused just now"
    assert caplog.text.count("the prefix 'a' cannot be used beside 'a-work'") == 1
    assert make(client, "a-work", "mail").work_one() == "mail"


def test_a_dispatcher_moves_no_job_to_a_key_of_another_prefix(client, caplog, monkeypatch):
    bike = make(client, "a")
    bike.set("work-mail", "EVERY:1h")
    bike.set("work-other", "EVERY:1h")
    bike.set("mail", "EVERY:1h")
    other = make(client, "a-work", "mail")
    other.set("mail", "NOW")
    for moved, later in [(2, 3601), (0, 3611)]:
        client.config_resetstat()
        assert bike.dispatch_due(time.time() + later) == moved
        assert ("cmdstat_smembers" in client.info("commandstats")) == bool(moved), "it asks again only later"
        assert bike.tell("work-mail")["status"].startswith("TML")
    assert "work-mail: no queue, so the dispatcher tries again: " in caplog.text
    assert "the prefix 'a' cannot be used beside 'a-work'" in caplog.text
    assert other.work_one() == "mail"
    other.flush()
    monkeypatch.setattr("redbike.store.neighbours.AGAIN", 0.0)
    assert bike.dispatch_due(time.time() + 3621) == 1


def test_many_queues_are_checked_in_few_requests(client):
    names = [f"{number}-x" for number in range(400)]
    client.config_resetstat()
    make(client, "a", *names).work_one()
    assert "cmdstat_type" not in client.info("commandstats")
    make(client, "a-wake-399").set("y", "NOW")
    make(client, "a-399").set("x", "NOW")
    with pytest.raises(BadQueueName, match="beside 'a-399' on one server: its queue '399-x' would have its keys"):
        make(client, "a", *names).work_one()


def test_a_queue_is_checked_once(client):
    make(client, "a-work").set("other", "NOW")
    bike = make(client, "a", "work-mail")
    for is_asked in (True, False, False):
        client.config_resetstat()
        bike.work_one()
        assert ("cmdstat_type" in client.info("commandstats")) == is_asked


def test_shards_are_beside_any_other_prefix(client):
    make(client, "a-work").set("mail", "NOW")
    bike = make(client, "a", "work-mail", shards=2)
    bike.set("work-mail", "NOW")
    assert bike.work_one() == "work-mail"
    assert make(client, "a-work", "mail").work_one() == "mail"


def test_a_worker_process_ends_with_one_line(client, shell):
    make(client, "a-work").set("mail", "NOW")
    shell.environment["REDBIKE_PREFIX"] = "a"
    (shell.folder / "jobs.py").write_text("from tests.verbs import Quiet\n")
    done = shell.run("work", "jobs:Quiet('mail')")
    check_refused(done, 2, "the prefix 'a' cannot be used beside 'a-work' on one server: its queue 'work-mail' ")


@pytest.mark.parametrize("has_jobs", [True, False])
def test_what_looks_for_runs_in_flight_leaves_out_another_prefix(client, has_jobs):
    bike = make(client, "a-inflight", "mail")
    if has_jobs:
        bike.set("mail", "EVERY:1h")
        bike.set("other", "NOW")
    with make_worker(bike.store, bike.worker).presence:
        before, own = {*client.scan_iter()}, make(client, "a")
        own.set("mail", "EVERY:1h")
        assert list(own.repair()) == []
        own.flush()
        assert {*client.scan_iter()} == before
        assert list(bike.fsck()) == []


def test_a_run_in_flight_is_found_beside_a_prefix_whose_keys_look_so(client):
    make(client, "a-inflight").set("mail", "NOW")
    bike = make(client, "a", "mail")
    bike.set("mail", "NOW")
    assert take_one(bike.store, [("mail", 100.0)], "tag").jobid == "mail"
    client.delete("a-running", "a-batches", "a-leases")
    list(bike.repair())
    assert client.hkeys("a-running") == [b"mail"]
    assert client.llen("a-mail") == 0, "it is not to run twice"
    assert list(bike.fsck()) == []


def test_a_key_of_a_queue_that_is_named_as_a_fixed_one_hides_no_others(client):
    bike = make(client, "a")
    for jobid in ("work-agreed", "work-mail"):
        bike.set(jobid, "NOW")
        bike.unset(jobid)
    client.delete("a-work-mail", "a-queues")
    assert any("'work-mail'" in str(problem) for problem in bike.fsck())
