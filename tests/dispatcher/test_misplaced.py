"""Jobs that were set or dispatched before anybody knew their function move to its queue once a worker has it."""

import json
import math
import threading

import pytest

from redbike import Jobs, Redbike
from redbike.config.settings import Settings
from redbike.dispatcher import misplaced
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.naming import NoWorker, open_store
from redbike.store import agreed, workers
from redbike.store import misplaced as misplaced_store
from redbike.store.misplaced import TIMER
from tests.loops import beside, join, start
from tests.verbs import take_one
from tests.waiting import wait_until

MAIL = "work-mail"


@pytest.fixture
def nobody(client, prefix, monkeypatch):
    """What a command or a dispatcher has that knows no worker."""
    monkeypatch.setattr(workers, "SETTLED", 0.0)
    monkeypatch.setattr(agreed, "REREAD", 0.0)
    return open_store(client, Settings(prefix=prefix), NoWorker())


@pytest.fixture
def early(client, prefix, nobody):
    """What a command sets that knows no worker."""
    return Redbike(NoWorker(), prefix, client)


@pytest.fixture
def register(nobody):
    """A worker that is alive and takes nothing."""

    def register(owner, queues, functions=None, since=""):
        entry = {"kind": "worker", "host": "h", "pid": 1, "queues": queues, "version": "1"}
        naming = misplaced.Naming(frozenset(["functions"]), functions) if functions else None
        return nobody.workers.register(owner, json.dumps(entry), since, naming)

    return register


def dispatch(store, now=None):
    """One pass, and all that it does in spare time then."""
    dispatcher = Dispatcher(store, Settings())
    try:
        dispatcher.dispatch_due(now)
        while dispatcher._moving.go_on(math.inf):
            pass
    finally:
        dispatcher.close()


def find_queues(store, *jobids):
    return [state.waiting and state.waiting.queue for state in store.questions.inspect(jobids)]


def test_what_waits_since_before_the_first_worker_runs(client, prefix, early, nobody):
    jobs, ran = Jobs(), []
    jobs.job("mailer", queue="mail")(lambda jobid: ran.append(jobid))
    early.set("mailer:anna", "NOW")
    early.set("mailer", "EVERY:1s")
    with beside(nobody, Dispatcher(nobody, Settings()).dispatch):
        wait_until(lambda: find_queues(nobody, "mailer", "mailer:anna") == ["work-mailer", "work-anna"])
        bike = Redbike(jobs, prefix, client)
        with beside(bike.store, bike.work):
            wait_until(lambda: {"mailer", "mailer:anna"} <= {*ran})


@pytest.mark.parametrize(
    ("worked", "moves"),
    [(["work-mail"], True), (["work-mail", "work-1"], False), (["work-other"], False), ([], False)],
)
def test_only_from_a_queue_that_nobody_works_to_one_that_somebody_works(early, nobody, register, worked, moves):
    early.set("mailer:1", "NOW")
    register("OwnerOf1", worked, {"mailer": MAIL})
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1") == [MAIL if moves else "work-1"]


def test_what_runs_and_what_no_function_takes_stays(early, nobody, register):
    for jobid in ("mailer:1", "other:1", "mailer:x:1"):
        early.set(jobid, "NOW")
    assert take_one(nobody, [("work-1", 60)], "tag").jobid == "mailer:1"
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1", "other:1", "mailer:x:1") == [None, "work-1", MAIL]
    assert list(early.fsck()) == []


def test_many_move_in_their_order_and_leave_nothing_behind(client, early, nobody, register, monkeypatch):
    monkeypatch.setattr(misplaced_store, "PAGE", 7)
    monkeypatch.setattr(misplaced_store, "STEP", 3)
    names = [f"mailer:{number}:Q" for number in range(20)]
    assert all(done is True for _, done in early.set_many((name, "NOW") for name in names))
    early.cancel("mailer:3:Q")
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    keys = nobody.keys
    before = [each.decode() for each in client.lrange(keys.queue("work-Q"), 0, -1)]
    dispatch(nobody)
    assert [each.decode() for each in client.lrange(keys.queue(MAIL), 0, -1)] == [
        each for each in before if each != "mailer:3:Q"
    ]
    assert list(early.fsck()) == []
    assert not client.exists(keys.timers)


def test_what_other_jobs_are_between_keeps_its_place(client, early, nobody, register):
    for number in range(6):
        early.set(f"{'mailer' if number % 2 else 'other'}:{number}:Q", "NOW")
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    dispatch(nobody)
    queues = {queue.queue: (queue.waiting, queue.first) for queue in early.queues()}
    assert queues == {"work-Q": (3, "other:0:Q"), MAIL: (3, "mailer:1:Q")}
    assert list(early.fsck()) == []


def test_a_function_that_has_another_queue_now_takes_what_waits_in_the_old_one(early, nobody, register, monkeypatch):
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    early.set("mailer:1", "NOW")
    register("OwnerOf2", ["work-new"], {"mailer": "work-new"})
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1") == [MAIL], "the older worker is still there"
    nobody.workers.unregister("OwnerOf1")
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1") == [MAIL], "nobody asks for it"
    monkeypatch.setattr(misplaced, "INTERVAL", -1.0)
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1") == ["work-new"]


def test_a_worker_that_stops_takes_no_function_back(client, prefix, early, nobody, register):
    begun, free, jobs = threading.Event(), threading.Event(), Jobs()
    jobs.job("mailer", queue="mail")(lambda jobid: begun.set() or free.wait(60))
    with Redbike(jobs, prefix, client) as bike:
        working = start(bike.work)
        wait_until(early.workers)
        early.set("mailer:1", "NOW")
        assert begun.wait(60)
        register("OwnerOf2", ["work-new"], {"mailer": "work-new"})
        nobody.signals.halt()
        wait_until(lambda: "stopping" in [worker.state for worker in early.workers()])
        early.set("mailer:2", "NOW")
        assert find_queues(nobody, "mailer:2") == ["work-new"]
        free.set()
        join(working)


def test_an_occurrence_of_a_backfill_moves_with_its_job(early, nobody, register):
    early.set("mailer:Q", "0 * * * *", tz="UTC")
    early.backfill("mailer:Q", 1763596800, 1763600400)
    [jobid] = [job.jobid for job in early.jobs("*") if "@" in job.jobid]
    wait_until(lambda: dispatch(nobody) or find_queues(nobody, jobid) == ["work-Q"])
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    dispatch(nobody)
    assert find_queues(nobody, jobid) == [MAIL]


def test_who_has_registered_already_asks_for_nothing_more(client, nobody, register):
    timers = nobody.keys.timers
    since = register("OwnerOf1", [MAIL], {"mailer": MAIL})
    assert client.zrange(timers, 0, -1) == [TIMER.encode()]
    client.delete(timers)
    register("OwnerOf1", [MAIL, "work-b"], {"mailer": MAIL}, since)
    nobody.workers.renew("OwnerOf1")
    assert not client.exists(timers)
    register("OwnerOf1", [MAIL], {"mailer": MAIL, "more": MAIL}, since)
    assert client.exists(timers)


def test_without_functions_nobody_is_asked_to_look(client, nobody, register):
    register("OwnerOf1", ["work-A"])
    nobody.workers.unregister("OwnerOf1")
    assert not client.exists(nobody.keys.timers)


def test_one_dispatcher_looks_once_the_timer_has_come(client, nobody, register):
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    at = client.zscore(nobody.keys.timers, TIMER)
    naming = misplaced.Naming(frozenset(["functions"]), {"b": "b"})
    nobody.at(at + 60).workers.register("OwnerOf2", "{}", "", naming)
    assert not nobody.at(at + 59).misplaced.claim(), "a new function has put it off"
    assert [nobody.at(at + 60).misplaced.claim() for _ in range(2)] == [True, False]


def test_what_is_damaged_ends_the_look_and_no_dispatcher(client, early, nobody, register, caplog):
    for jobid in ("mailer:1", "mailer:2"):
        early.set(jobid, "NOW")
    client.delete(nobody.keys.queue("work-1"))
    client.set(nobody.keys.queue("work-1"), "no list")
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    dispatch(nobody)
    assert "jobs that wait where no worker looks cannot be moved: " in caplog.text


def test_a_class_with_functions_may_name_the_queues_of_some(client, prefix, nobody, register):
    class Own(Jobs):
        def queue_for(self, jobid):
            return "work-vip" if jobid.startswith("mailer:vip") else super().queue_for(jobid)

    jobs = Own()
    jobs.job("mailer", queue="mail")(lambda jobid: None)
    bike = Redbike(jobs, prefix, client)
    bike.set("mailer:vip:1", "NOW")
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    dispatch(bike.store)
    assert find_queues(nobody, "mailer:vip:1") == ["work-vip"]
