"""Jobs that were set or dispatched before anybody knew their function move to its queue once a worker has it."""

import json

import pytest

from redbike import Jobs, Redbike
from redbike.config.settings import Settings
from redbike.dispatcher import misplaced
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.naming import NoWorker, open_store
from redbike.store import misplaced as misplaced_store
from redbike.store import workers
from redbike.store.processes import LOST
from tests.loops import beside
from tests.verbs import take_one
from tests.waiting import wait_until

MAIL = "work-mail"


def make_jobs(queue="mail", ran=None):
    jobs = Jobs()
    jobs.job("mailer", queue=queue)(lambda jobid: (ran if ran is not None else []).append(jobid))
    return jobs


@pytest.fixture
def nobody(client, prefix, monkeypatch):
    """What a command or a dispatcher has that knows no worker."""
    monkeypatch.setattr(workers, "SETTLED", 0.0)
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


def dispatch(store):
    """One pass, which looks at all timers that have come."""
    dispatcher = Dispatcher(store, Settings())
    try:
        return dispatcher.dispatch_due()
    finally:
        dispatcher.close()


def find_queues(store, *jobids):
    return [state.waiting and state.waiting.queue for state in store.questions.inspect(jobids)]


def test_what_waits_since_before_the_first_worker_runs(client, prefix, early, nobody):
    ran = []
    early.set("mailer:anna", "NOW")
    early.set("mailer", "EVERY:1s")
    with beside(nobody, Dispatcher(nobody, Settings()).dispatch):
        wait_until(lambda: find_queues(nobody, "mailer", "mailer:anna") == ["work-mailer", "work-anna"])
        bike = Redbike(make_jobs(ran=ran), prefix, client)
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
    assert client.zcard(keys.timers) == 1, "it looks once more when what was killed is lost"


def test_what_other_jobs_are_between_keeps_its_place(client, early, nobody, register):
    for number in range(6):
        early.set(f"{'mailer' if number % 2 else 'other'}:{number}:Q", "NOW")
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    dispatch(nobody)
    queues = {queue.queue: (queue.waiting, queue.first) for queue in early.queues()}
    assert queues == {"work-Q": (3, "other:0:Q"), MAIL: (3, "mailer:1:Q")}
    assert list(early.fsck()) == []


def test_a_function_that_has_another_queue_now_takes_what_waits_in_the_old_one(early, nobody, register):
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    early.set("mailer:1", "NOW")
    register("OwnerOf2", ["work-new"], {"mailer": "work-new"})
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1") == [MAIL], "the older worker is still there"
    nobody.workers.unregister("OwnerOf1")
    dispatch(nobody)
    assert find_queues(nobody, "mailer:1") == ["work-new"]


def test_one_that_was_killed_counts_as_lost_when_it_is_looked_for_again(early, nobody, register):
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    early.set("mailer:1", "NOW")
    register("OwnerOf2", ["work-new"], {"mailer": "work-new"})
    dispatch(nobody)
    now = nobody.timeline.read_clock() + LOST + 1
    nobody.at(now).workers.renew("OwnerOf2")
    Dispatcher(nobody, Settings()).dispatch_due(now)
    assert find_queues(nobody, "mailer:1") == ["work-new"]


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
    assert set(client.zrange(timers, 0, -1)) == {b"naming:", b"naming:late"}
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


def test_a_timer_that_was_set_anew_meanwhile_stays(client, nobody, register):
    register("OwnerOf1", [MAIL], {"mailer": MAIL})
    [(timer, at)] = nobody.misplaced.read_timers().items()
    nobody.at(at + 60).workers.register("OwnerOf2", "{}", "", misplaced.Naming(frozenset(["functions"]), {"b": "b"}))
    nobody.misplaced.finish(timer, at)
    assert client.zscore(nobody.keys.timers, timer) == at + 60
    nobody.misplaced.finish(timer, at + 60)
    assert client.zscore(nobody.keys.timers, timer) is None
