"""Which tracebacks are logged in full."""

import threading

from redbike.config.settings import Settings
from redbike.store.store import Store
from redbike.worker.run_log import INTERVAL, MOST_REMEMBERED, Tracebacks
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, join, start
from tests.verbs import set_job
from tests.waiting import wait_until


def raised(text, deeper=False, kind=ValueError):
    """An exception that was raised here, or in one call more."""
    try:
        raise raised(text, kind=kind) if deeper else kind(text)
    except kind as error:
        return error


def test_the_same_one_is_logged_once_a_minute():
    now = [0.0]
    tracebacks = Tracebacks(lambda: now[0])
    first = raised("one")
    assert tracebacks.keep_if_new(first, "work-A") is first
    now[0] = INTERVAL - 1
    assert tracebacks.keep_if_new(raised("another text"), "work-A") is None
    now[0] = INTERVAL
    later = raised("later")
    assert tracebacks.keep_if_new(later, "work-A") is later


def test_one_of_another_place_kind_or_queue_is_logged():
    tracebacks = Tracebacks(lambda: 0.0)
    errors = [raised("one"), raised("one", deeper=True), raised("one", kind=TypeError)]
    assert [tracebacks.keep_if_new(error, "work-A") for error in errors] == errors
    assert tracebacks.keep_if_new(errors[0], "work-B") is errors[0]
    assert tracebacks.keep_if_new(ValueError("never raised"), "work-A") is not None


def test_no_more_are_remembered_than_there_is_room_for():
    tracebacks = Tracebacks(lambda: 0.0)
    error = raised("one")
    for number in range(MOST_REMEMBERED + 1):
        assert tracebacks.keep_if_new(error, f"work-{number}") is error
    assert tracebacks.keep_if_new(error, f"work-{MOST_REMEMBERED}") is None
    assert tracebacks.keep_if_new(error, "work-1") is None
    # The oldest had to go.
    assert tracebacks.keep_if_new(error, "work-0") is error


def test_of_many_threads_one_logs():
    tracebacks, found, barrier = Tracebacks(), [], threading.Barrier(8)
    error = raised("one")

    def work():
        barrier.wait()
        found.append(tracebacks.keep_if_new(error, "work-A"))

    join(*[start(work) for _ in range(8)])
    assert sorted(each is error for each in found) == [False] * 7 + [True]


def test_a_worker_that_idles_between_failures_remembers_what_it_logged(client, prefix, caplog):
    # With so many queues it looks into them in several requests.
    handler = Acting(lambda jobid: 1 / 0, ":".join(f"q{number}" for number in range(99)) + ":A")
    store = Store(client, prefix, handler.queue_for)
    with beside(store, Worker(store, handler, Settings()).work):
        for number in range(5):
            set_job(store, f"{number}:A", "NOW", "now", once=True)
            wait_until(lambda n=number: (store.questions.inspect([f"{n}:A"])[0].status or "").startswith("DIE"))
    failures = [record for record in caplog.records if "division by zero" in record.getMessage()]
    assert len(failures) == 5
    assert [bool(record.exc_info) for record in failures] == [True, False, False, False, False]
