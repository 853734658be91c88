"""The jobs as an operator sees them, straight at the store."""

import pytest

from redbike import BadConfig, BadJobId
from redbike.errors import BadQueueName
from redbike.store.enums import Event, Outcome
from redbike.store.job import JobSearch
from redbike.store.namespace import PAGE
from redbike.store.next_state import NextState
from redbike.store.store import Store
from tests import states
from tests.queries.kept import add_runs, archive, make_run
from tests.states import DUE, JOB, NEW, NOW, OLD, QUEUE, START
from tests.verbs import set_job, take_one

PLACES = {
    states.bad: (Event.BAD, None, None, False, False, False),
    states.timeline: (Event.TML, DUE, None, False, True, False),
    states.queue: (Event.ENQ, None, None, False, True, False),
    states.flight: (Event.WRK, None, None, False, False, True),
    states.flight_and_timeline: (Event.WRK, DUE, None, False, False, True),
    states.stopped: (Event.STP, None, None, False, False, False),
    states.dead: (Event.DIE, None, None, True, False, False),
    states.waiting_to_retry: (Event.TML, DUE, None, False, True, False),
    states.held: (Event.TML, None, START, False, False, False),
    states.flight_and_paused: (Event.WRK, None, START, False, False, True),
}


def listed(store, now=NOW, **wanted):
    return list(store.at(now).overview.list_jobs(JobSearch(**wanted)))


@pytest.mark.parametrize("state", PLACES, ids=lambda state: state.__name__)
def test_a_job_is_seen_where_it_is(store, state):
    state(store)
    [job] = listed(store)
    seen = (job.status, job.next_run, job.paused, job.has_failed, job.is_overdue, job.is_running)
    assert seen == PLACES[state]
    assert (job.jobid, job.queue, job.schedule is None) == (JOB, QUEUE, state is states.bad)


@pytest.mark.parametrize("state", [states.unknown, states.flight_of_unset])
def test_a_job_that_is_not_there_is_not_seen(store, state):
    state(store)
    assert listed(store) == []


@pytest.mark.parametrize(
    ("state", "queue", "begins"),
    [
        (states.timeline, None, DUE),
        *((state, queue, DUE + 60) for state in (states.timeline, states.queue) for queue in ("", QUEUE)),
    ],
)
def test_it_is_overdue_only_when_it_is_due_and_its_queue_not_paused(store, state, queue, begins):
    state(store)
    if queue is not None:
        store.at(DUE).queue_limits.pause(queue, until=begins)
    assert [job.is_overdue for job in listed(store, begins - 1)] == [False]
    assert [job.is_overdue for job in listed(store, begins)] == [True]


def test_what_cannot_be_asked_is_refused_at_once(bike):
    bike.set("a:A", "NOW")
    with pytest.raises(BadConfig, match="bad status 'DONE': TML, ENQ, WRK, STP, DIE, BAD are allowed"):
        bike.jobs(status="DONE")
    with pytest.raises(BadQueueName):
        bike.jobs(queue="")
    wanted = ({"queue": "A"}, {"queue": QUEUE}, {"status": "enq"}, {"status": Event.ENQ})
    for patterns, more in ((("b:A", "b*", "a:A"), {}), *(((), each) for each in wanted)):
        assert [job.jobid for job in bike.jobs(*patterns, **more)] == ["a:A"]
    with pytest.raises(BadJobId):
        list(bike.jobs("a[:A"))


# The last run


def remember(store, *starts, archived=True, **more):
    """Ended runs; the last one has failed."""
    *before, last = starts
    add_runs(store, *(make_run(start) for start in before), make_run(last, outcome=Outcome.FAILED, **more))
    if archived:
        archive(store)


@pytest.mark.parametrize("archived", [True, False])
def test_the_last_run_is_told(store, archived):
    states.timeline(store)
    [before] = listed(store)
    assert (before.last_started, before.last_outcome, before.never_ran) == (None, None, True)
    remember(store, 1010.0, 1020.0, archived=archived)
    [job] = listed(store)
    assert (job.last_started, job.last_outcome, job.never_ran) == (1020.0, "failed", False)


@pytest.mark.parametrize(("kept", "is_unset", "last"), [(10, False, 1020.0), (10, True, None), (0, False, None)])
def test_a_run_that_is_not_archived_yet_is_newer_and_of_an_unset_job_or_one_that_keeps_none_is_none(
    store, kept, is_unset, last
):
    states.timeline(store)
    remember(store, 1010.0)
    remember(store, 1020.0, archived=False, history=kept)
    if is_unset:
        store.jobs.unset(JOB)
        states.timeline(store)
    assert [job.last_started for job in listed(store)] == [last]


def test_a_job_that_has_died_ran_though_no_run_is_kept(store):
    states.dead(store)
    store.client.delete(store.keys.journal)
    assert [(job.last_started, job.never_ran) for job in listed(store)] == [(None, False)]


@pytest.mark.parametrize("damaged", [b"", b"\x01", b"\x02xx", b"\xff" * 40])
def test_damaged_records_hide_no_job(store, damaged):
    states.timeline(store)
    for name in ("history", "running", "pauses", "queued", "statuses"):
        store.client.hset(getattr(store.keys, name), JOB, damaged)
    [job] = listed(store)
    assert (job.status, job.paused, job.last_started, job.is_running) == (None, None, None, False)


# Many


def test_more_than_a_page_is_listed_and_nothing_twice(bike):
    number = 2 * PAGE + 7
    assert all(ok for _, ok in bike.set_many((f"{n}:A", "EVERY:1h") for n in range(number)))
    jobs = bike.jobs()
    first = next(jobs)
    assert sorted([first.jobid, *(job.jobid for job in jobs)]) == sorted(f"{n}:A" for n in range(number))


def test_no_overdue_job_is_missed_while_a_dispatcher_moves_them(store):
    number = 3 * PAGE
    for n in range(number):
        set_job(store.at(START), f"{n}:A", OLD, DUE + n / 1e3)
    jobs = store.at(NOW).overview.list_jobs(JobSearch(overdue=True))
    seen = [next(jobs).jobid]
    moved = store.client.zrange(store.keys.timeline, 0, PAGE)
    for jobid in moved:
        set_job(store.at(NOW), jobid.decode(), NEW, NOW + 7)
    seen += [job.jobid for job in jobs]
    assert len(seen) == len({*seen})
    assert {*seen} >= {f"{n}:A" for n in range(number)} - {jobid.decode() for jobid in moved}


def test_a_queue_that_cannot_be_named_hides_no_job(client, prefix):
    def queue_for(jobid):
        raise ValueError("no queue for you")

    set_job(Store(client, prefix, states.queue_for).at(START), JOB, OLD, DUE)
    [job] = Store(client, prefix, queue_for).overview.list_jobs()
    assert (job.jobid, job.queue) == (JOB, "")


def test_where_a_job_waits_or_runs_counts_and_not_where_it_would_go(store, client, prefix):
    set_job(store.at(START), JOB, OLD, START)
    other = Store(client, prefix, lambda jobid: "elsewhere")
    assert [job.queue for job in listed(other)] == [QUEUE]
    run = take_one(store.at(START), [(QUEUE, 100.0)], "tag")
    assert [job.queue for job in listed(other)] == [QUEUE]
    store.at(START).runs.end(run, NextState("next", DUE))
    assert [job.queue for job in listed(other)] == ["elsewhere"]
