"""Who is there: dispatchers and workers are registered, seen while they are idle or busy, and lost when they die."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from redbike import Process, Redbike
from redbike.errors import ServerError, Unreachable
from redbike.loop import registration as presence
from redbike.loop.loop import FAREWELL
from redbike.loop.registration import MAX_QUEUES, MOST_CHECKSUMS, MOST_QUEUES, shorten, sum_others
from redbike.store.inspection.fsck import fsck
from redbike.store.processes import LOST, MOST_JOBS, ProcessRecord, find_worked
from redbike.store.run import Poll
from redbike.store.scripts import Scripts
from redbike.store.sharded.merging import join_processes
from redbike.store.workers import FORGOTTEN, INTERVAL, KEPT, Workers
from redbike.text.printable import MAX_HOST, name_host
from redbike.worker.current import current_run
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, join, start
from tests.proc import children_of
from tests.states import QUEUE, START
from tests.verbs import set_job, take_many
from tests.waiting import wait_until

OWNER = "OwnerOf1"
LATEST = LOST + 2 * INTERVAL  # seconds
WORKER = """
import os, time
from redbike import RoundRobin

class Worker(RoundRobin):
    def timeout(self, queue_name):
        return 1000.0

    def work(self, jobid):
        os.fork()
        time.sleep(1000)
"""


def entry(**more):
    known = {"kind": "worker", "host": "web1", "pid": 4711, "queues": ["work-A"], "version": "1"}
    return json.dumps(known | more)


class Handler(Acting):
    """Works the queues in `names`."""

    names = ("work-A",)

    def queue_names(self):
        return list(self.names)


@pytest.fixture
def bike(client, prefix):
    return Redbike(Handler(), prefix, client)


def states(bike):
    return [(process.kind, process.state) for process in bike.workers()]


# What the script does


def test_one_that_was_not_seen_for_long_is_lost_then_forgotten(bike):
    workers = bike.store.workers
    at = bike.store.at
    assert at(START).workers.register(OWNER, entry()) == f"{START:.6f}"
    [process] = at(START + LOST).workers.list_all()
    assert process == Process(f"web1:4711:{OWNER}", "worker", "web1", 4711, ("work-A",), "alive", START, START, (), "1")
    assert [each.state for each in at(START + LOST + 0.001).workers.list_all()] == ["lost"]
    assert [each.state for each in at(START + KEPT).workers.list_all()] == ["lost"]
    assert at(START + KEPT + 0.001).workers.list_all() == []
    assert [each.state for each in at(START - 60).workers.list_all()] == ["lost"]  # the clock was ahead
    # One that was suspended is there again, and others forget it for good.
    assert at(START + KEPT + 5).workers.renew(OWNER)[0]
    assert [each.state for each in at(START + KEPT + 5).workers.list_all()] == ["alive"]
    at(START + 2 * KEPT + 6).workers.register("OwnerOf2", entry())
    assert [each.id for each in at(START + KEPT + 5).workers.list_all()] == ["web1:4711:OwnerOf2"]
    assert not workers.renew(OWNER)[0]


def test_a_worker_says_how_many_jobs_it_runs_at_once(bike):
    bike.store.workers.register(OWNER, entry())
    assert bike.workers()[0].concurrency is None, "it does not say"
    bike.store.workers.register(OWNER, entry(concurrency=10))
    assert bike.workers()[0].concurrency == 10
    with beside(bike.store, lambda: bike.work(3)):
        wait_until(lambda: len(bike.workers()) == 2)
        assert {process.concurrency for process in bike.workers()} == {10, 3}
    bike.clear_control()
    with beside(bike.store, bike.dispatch):
        wait_until(lambda: states(bike) == [("dispatcher", "alive"), ("worker", "alive")])
        assert bike.workers()[0].concurrency is None


@pytest.mark.parametrize(
    ("jobs", "concurrency", "is_busy"),
    [(0, 1, False), (9, 10, False), (10, 10, True), (64, 1, True), (1, None, True)],
)
def test_one_is_busy_if_it_runs_as_many_as_it_can(jobs, concurrency, is_busy):
    working = ("job:A",) * jobs
    process = Process("web1:1:x", "worker", "web1", 1, (QUEUE,), "alive", START, START, working, "1", concurrency)
    assert process.is_busy == is_busy


def test_one_that_a_shard_has_lost_is_lost():
    alive = Process("web1:1:x", "worker", "web1", 1, (QUEUE,), "alive", START, START + 9, (), "1")
    lost = replace(alive, state="lost", seen=START)
    for each in ((alive, lost), (lost, alive)):
        assert join_processes([[one] for one in each]) == [lost]


def test_a_bounded_number_is_forgotten_at_once(bike):
    for number in range(FORGOTTEN + 1):
        bike.store.at(START).workers.register(f"Owner{number:03}", entry())
    assert bike.client.zcard(bike.store.keys.seen) == FORGOTTEN + 1
    bike.store.at(START + KEPT + 1).workers.unregister("nobody--")
    assert bike.client.hlen(bike.store.keys.workers) == bike.client.zcard(bike.store.keys.seen) == 1


def test_one_that_registers_again_keeps_its_beginning(bike):
    at = bike.store.at
    since = at(START).workers.register(OWNER, entry())
    assert at(START + 5).workers.register(OWNER, entry(queues=["work-B"])) == since
    [process] = at(START + 6).workers.list_all()
    assert (process.since, process.seen, process.queues) == (START, START + 5, ("work-B",))
    bike.flush()
    assert not at(START + 10).workers.renew(OWNER)[0]
    assert at(START + 10).workers.list_all() == []
    assert at(START + 10).workers.register(OWNER, entry(), since) == since


def test_lost_ones_come_first_then_dispatchers(bike):
    kinds = {"OwnerOf1": "worker", "OwnerOf2": "dispatcher", "OwnerOf3": "worker", "OwnerOf4": "dispatcher"}
    for owner, kind in kinds.items():
        bike.store.at(START + (20 if owner < "OwnerOf3" else 0)).workers.register(owner, entry(kind=kind))
    found = bike.store.at(START + 20).workers.list_all()
    assert [each.id[-8:] for each in found] == ["OwnerOf4", "OwnerOf3", "OwnerOf2", "OwnerOf1"]


def test_the_jobs_of_a_worker_are_those_in_flight_under_its_tags(bike):
    store = bike.store
    store.workers.register(OWNER, entry())
    for number in range(4):
        set_job(store, f"{number}:A", "NOW", "now", once=True)
    take_many(store, [(QUEUE, 500.0)], [1], f"{OWNER}tag-one-", 2)
    take_many(store, [(QUEUE, 500.0)], [1], f"{OWNER}tag-two-", 1)
    take_many(store, [(QUEUE, 500.0)], [1], "older", 1)
    [process] = bike.workers()
    assert sorted(process.jobs) == ["0:A", "1:A", "2:A"]
    assert bike.tell("0:A")["worker"] == process.id
    assert bike.tell("3:A")["worker"] is None
    bike.client.hset(store.keys.batches, f"{OWNER}tag-one-", "\nx:A" * 3000)
    assert len(bike.workers()[0].jobs) == MOST_JOBS


@pytest.mark.parametrize(
    "record",
    [
        "damaged",
        f"{START:.6f} damaged",
        f"{START:.6f} []",
        entry(),
        *(
            f"{START:.6f} {entry(**wrong)}"
            for wrong in (
                {"kind": "boss"},
                {"pid": True},
                {"host": "\x1b[31m"},
                {"queues": ["\n"]},
                {"version": None},
                {"concurrency": 0},
            )
        ),
    ],
)
def test_a_damaged_entry_counts_as_none_and_is_repaired(bike, record):
    store = bike.store
    store.workers.register("OwnerOf2", entry())
    store.workers.register(OWNER, entry())
    set_job(store, "job:A", "NOW", "now", once=True)
    take_many(store, [(QUEUE, 500.0)], [1], f"{OWNER}tag-one-", 1)
    bike.client.hset(store.keys.workers, OWNER, record)
    assert [each.id for each in bike.workers()] == ["web1:4711:OwnerOf2"]
    assert bike.tell("job:A")["worker"] is None
    [line] = fsck(store)
    assert line.startswith(f"the process {OWNER!r}: its entry cannot be read: ")
    assert list(bike.repair()) == [(f"{line} -- repaired: it is removed", True)]
    assert list(fsck(store)) == []
    assert [each.id for each in bike.workers()] == ["web1:4711:OwnerOf2"]


def test_half_of_what_is_kept_is_named_and_removed(bike):
    store, client = bike.store, bike.client
    for owner in ("NoEntry-", "NotSeen-", "Ahead---"):
        store.workers.register(owner, entry())
    client.hdel(store.keys.workers, "NoEntry-")
    client.zrem(store.keys.seen, "NotSeen-")
    client.zadd(store.keys.seen, {"Ahead---": 4e9})
    lines = [
        "the process 'Ahead---': it was seen at a time in the future",
        "the process 'NoEntry-': it has no entry",
        "the process 'NotSeen-': nobody knows when it was seen",
    ]
    assert sorted(fsck(store)) == lines
    assert len(list(bike.repair())) == 3
    assert list(fsck(store)) == []
    assert not client.exists(store.keys.workers, store.keys.seen)


def test_names_are_safe_to_show_and_not_too_long(monkeypatch):
    host = SimpleNamespace(nodename="my host\n\x1b[31mé" + "x" * 100)
    monkeypatch.setattr("os.uname", lambda: host)
    assert name_host() == ("my_host__[31m_" + "x" * 100)[:MAX_HOST]
    names = [f"work-{number}" for number in range(1000)]
    assert shorten(names) == (*names[:MOST_QUEUES], f"…+{1000 - MOST_QUEUES}")
    assert shorten(names[:3]) == ("work-0", "work-1", "work-2")
    assert shorten(["x" * 1000] * 3) == ("x" * 1000,) * (MAX_QUEUES // 1000) + ("…+1",)


def make_record(names):
    names = tuple(names)
    known = {"for_host": True, "checksums": sum_others(names)}
    record = ProcessRecord(START, "worker", "web1", 1, shorten(names), "1", **known)
    read = ProcessRecord.parse(f"{START:.6f} {record.format_entry()}")
    assert read == record
    return read


def test_it_is_known_which_queues_a_long_list_does_not_name():
    found = make_record(["strange\u2028", *(f"work-{number}" for number in range(MOST_CHECKSUMS + MOST_QUEUES - 2))])
    names = [f"work-{number}{host}" for number in (0, MOST_QUEUES, MOST_CHECKSUMS) for host in ("", "@web1")]
    assert all(find_worked(found, name) for name in [*names, "strange\u2028"])
    assert [find_worked(found, name) for name in ("work-x", "work-70@web2", "work-x@web1", "@web1")] == [False] * 4
    assert find_worked(make_record(["work-70@web1"]), "work-70@web1@web1") is False
    # Nobody knows the others of a list that is longer.
    longer = make_record(f"work-{number}" for number in range(MOST_CHECKSUMS + MOST_QUEUES + 1))
    assert [find_worked(longer, name) for name in ("work-0", "work-70", "work-x")] == [True, None, None]


@pytest.mark.parametrize("sums", ["1", "0000000G", 7, ["00000000"]])
def test_checksums_that_are_none_are_damage(sums):
    assert ProcessRecord.parse(f"{START:.6f} {entry(checksums=sums)}") is None
    assert ProcessRecord.parse(f"{START:.6f} {entry(checksums='')}").checksums == frozenset()


# The take of an idle worker


def idle_take(bike, tag="tag", control=""):
    """What the server replies to a take that waits for a job."""
    call = bike.store.runs.pack_take(Poll([(QUEUE, 500.0)], [1]), tag, 1, control, idle_owner=OWNER)
    reply = bike.store.scripts.run(call)
    return reply[0], bike.store.runs.read_registration(reply), bike.store.runs.read_take(reply, tag)


def test_an_idle_take_renews_what_is_registered_and_nothing_else(bike):
    assert idle_take(bike) == ("empty", "unknown", [])
    assert not bike.client.exists(bike.store.keys.seen)
    bike.store.at(START).workers.register(OWNER, entry())
    assert idle_take(bike) == ("empty", "seen", [])
    assert bike.workers()[0].state == "alive"
    # What is wrong with that holds up no job.
    bike.client.set(bike.store.keys.seen, "a string")
    assert idle_take(bike) == ("empty", "unknown", [])


# What the loops do


def test_loops_register_and_leave_when_they_are_halted_and_single_passes_do_not(bike):
    bike.set("job:A", "NOW")
    bike.dispatch_due()
    assert bike.work_one() == "job:A"
    assert not bike.client.exists(bike.store.keys.workers, bike.store.keys.seen)
    with beside(bike.store, bike.dispatch, bike.work):
        wait_until(lambda: states(bike) == [("dispatcher", "alive"), ("worker", "alive")])
        dispatcher, worker = bike.workers()
        assert (dispatcher.queues, worker.queues) == ((), ("work-A",))
        assert {dispatcher.pid, worker.pid} == {os.getpid()}
    assert not bike.client.exists(bike.store.keys.workers, bike.store.keys.seen)


@pytest.fixture
def say_late(monkeypatch):
    """Lets a worker say that it stops only when this is set, or after a while."""
    said, register = threading.Event(), Workers.register

    def register_late(*given):
        if threading.current_thread().name == "redbike-presence":
            said.wait(said.seconds)
        return register(*given)

    said.seconds = 2 * FAREWELL
    monkeypatch.setattr(Workers, "register", register_late)
    yield said
    said.set()
    wait_until(lambda: "redbike-presence" not in [thread.name for thread in threading.enumerate()])


def test_a_worker_leaves_when_it_takes_long_to_say_that_it_stops(bike, say_late, monkeypatch):
    monkeypatch.setattr(presence, "LAST_WORD", 60.0)
    with beside(bike.store, bike.work):
        wait_until(bike.workers)
    assert bike.workers() == []


def test_a_worker_that_stops_while_redis_is_away_says_nothing_more(bike, say_late, monkeypatch):
    monkeypatch.setattr(presence, "LAST_WORD", 600.0)
    say_late.seconds = 600.0
    worker = Worker(bike.store, bike.worker, bike.settings)

    def take(most):
        worker.loop.stopping.set()
        worker.loop.when_stopping()
        time.sleep(2 * FAREWELL)
        raise Unreachable("it does not answer")

    monkeypatch.setattr(worker.source, "take", take)
    join(start(worker.work))
    assert len(bike.workers()) == 1


def test_an_idle_worker_is_seen_by_its_takes_alone(bike, monkeypatch):
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 0.1)
    signed, run_meanwhile = [], Scripts.run_meanwhile

    def record(scripts, calls):
        return run_meanwhile(scripts, (signed.append(call) or call for call in calls))

    # Each loop has scripts of its own.
    monkeypatch.setattr(Scripts, "run_meanwhile", record)
    with beside(bike.store, bike.work):
        wait_until(lambda: bike.workers())
        first = bike.workers()[0].seen
        wait_until(lambda: bike.workers()[0].seen > first + 0.3)
    signed = [call.given for call in signed if call.verb == "register"]
    assert len([given for given in signed if "ended" not in given and "stopping" not in given]) == 1


@pytest.mark.parametrize("loop", ["dispatch", "work"])
def test_a_process_that_redis_has_forgotten_registers_again(bike, monkeypatch, loop):
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 0.1)
    monkeypatch.setattr("redbike.dispatcher.dispatcher.LONGEST_SLEEP", 0.1)
    monkeypatch.setattr(presence, "INTERVAL", 0.6)
    with beside(bike.store, getattr(bike, loop)):
        wait_until(lambda: bike.workers())
        [before] = bike.workers()
        bike.client.flushall()
        wait_until(lambda: bike.workers())
        [after] = bike.workers()
        assert (after.id, after.since) == (before.id, before.since)


def test_its_entry_follows_its_queues(bike, monkeypatch):
    # It looks which queues there are when it was not woken for a while, and is seen with the next take.
    monkeypatch.setattr("redbike.worker.source.NAP", 0.1)
    monkeypatch.setattr("redbike.loop.wakeup.BLOCK", 0.5)
    with beside(bike.store, bike.work):
        wait_until(lambda: bike.workers())
        bike.worker.names = ["work-B", "work-C"]
        wait_until(lambda: bike.workers()[0].queues == ("work-B", "work-C"))


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_busy_worker_is_seen_and_its_runs_lead_to_it(bike, monkeypatch, concurrency):
    monkeypatch.setattr(presence, "INTERVAL", 0.1)
    monkeypatch.setattr(presence, "LATENESS", 0.05)
    enough = threading.Event()
    bike.worker.act = lambda jobid: enough.wait() and None
    bike.set("job:A", "NOW")
    with beside(bike.store, lambda: bike.work(concurrency)):
        wait_until(lambda: bike.workers() and bike.workers()[0].jobs == ("job:A",))
        [first] = bike.workers()
        assert bike.tell("job:A")["worker"] == first.id
        wait_until(lambda: bike.workers()[0].seen > first.seen + 0.2)
        enough.set()
        wait_until(lambda: bike.workers()[0].jobs == ())


def test_a_worker_hears_of_a_halt_while_its_only_slot_is_taken(bike, monkeypatch):
    monkeypatch.setattr(presence, "INTERVAL", 0.1)
    monkeypatch.setattr(presence, "LATENESS", 0.05)
    begun = threading.Event()
    bike.worker.act = lambda jobid: begun.set() or wait_until(lambda: current_run().stopping)
    bike.set("job:A", "NOW")
    with beside(bike.store, bike.work):
        assert begun.wait(60)
        bike.control("HALT")
        wait_until(lambda: bike.runs("job:A"))
    assert bike.runs("job:A")[0].outcome == "ok"


def test_a_registration_that_is_refused_holds_up_nothing(bike, caplog):
    bike.client.set(bike.store.keys.seen, "a string")
    bike.client.set(bike.store.keys.workers, "a string")
    worked = threading.Event()
    bike.worker.act = lambda jobid: worked.set()
    with beside(bike.store, bike.work):
        bike.set("job:A", "NOW")
        assert worked.wait(60)
    assert len([record for record in caplog.records if "cannot be registered" in record.message]) == 1


def test_a_process_that_fails_is_lost_as_one_that_was_killed(bike):
    """It may leave runs behind: so it is known whose they were."""
    with pytest.raises(ServerError), Worker(bike.store, bike.worker, bike.settings).presence:
        raise ServerError("no memory")
    assert [each.kind for each in bike.workers()] == ["worker"]
    with pytest.raises(KeyboardInterrupt), Worker(bike.store, bike.worker, bike.settings).presence:
        raise KeyboardInterrupt
    assert len(bike.workers()) == 1


# Real processes


def kinds(shell):
    return sorted((row[1], row[5]) for row in shell.list_rows("workers"))


def test_processes_are_listed_and_lost_when_they_are_killed(jobs, client):
    jobs.environment["REDBIKE_URL"] += "?client_name=SECRET"
    done = jobs.run("workers")
    assert (done.stdout, done.returncode) == ("id,kind,host,pid,queues,state,since,seen,jobs\n", 0)
    processes = [jobs.start(verb, "jobs:Worker('A')") for verb in ("dispatch", "work")]
    wait_until(lambda: kinds(jobs) == [("dispatcher", "alive"), ("worker", "alive")])
    row = jobs.list_rows("workers")[1]
    assert row[0].split(":")[1] == row[3] == str(processes[1].pid)
    assert (row[4], row[8]) == ("work-A", "")
    assert not any(b"SECRET" in record or b"jobs:Worker" in record for record in client.hvals("redbike-workers"))
    for process in processes:
        process.kill()
        process.wait()
    later = jobs.bike.store.at(jobs.bike.store.timeline.read_clock() + LOST + 1).workers
    assert [each.state for each in later.list_all()] == ["lost", "lost"]


@pytest.mark.acceptance
def test_what_a_job_has_forked_does_not_sign_for_its_parent_and_a_suspended_process_is_there_again(jobs):
    jobs.bike.set("fork:A", "NOW")
    forked = jobs.start("work", "jobs:Worker('A')", log="forked")
    wait_until(lambda: [each.jobs for each in jobs.bike.workers()] == [("fork:A",)], 30)
    wait_until(lambda: children_of(forked.pid))
    dispatcher = jobs.start("dispatch", log="dispatch")
    other = jobs.start("work", "jobs:Worker('A')", log="other")
    wait_until(lambda: len(jobs.bike.workers()) == 3, 30)
    dispatcher.kill()
    forked.kill()
    other.send_signal(signal.SIGSTOP)
    wait_until(lambda: states(jobs.bike) == [("dispatcher", "lost"), ("worker", "lost"), ("worker", "lost")], LATEST)
    other.send_signal(signal.SIGCONT)
    wait_until(lambda: ("worker", "alive") in states(jobs.bike))
    [alive] = [each.pid for each in jobs.bike.workers() if each.state == "alive"]
    assert alive == other.pid
    other.terminate()
    assert other.wait(30) == 0
    assert states(jobs.bike) == [("dispatcher", "lost"), ("worker", "lost")]
