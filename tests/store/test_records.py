"""The records: what Python writes it reads again, and Lua reads and writes the same."""

import pytest

from redbike.store.next_state import NextState
from redbike.store.records import Pause, RetryState, RunRecord, Waiting
from redbike.store.store import Store
from tests.verbs import dispatch, run_job, set_job, take_one

JOB, QUEUE, START = "job:A", "work A", 1000.0
TAKEN = "tag 1000.000000 1500.000000 990.000000 0 0 - work A"

RUNS = [
    TAKEN,
    "tag 1.000000 2.000000 3.000000 4 5 set A",
    "tag 1.000000 2.000000 3.000000 4 5 once A b  c",
    "tag 1.000000 2.000000 3.000000 4 5 due:6.500000 A",
]
NO_RUNS = [
    "",
    "tag",
    "tag 1 2.000000 3.000000 4 5 - A",
    "tag 1.000000 2.000000 x 4 5 - A",
    "tag 1.000000 2.000000 3.000000 -4 5 - A",
    "tag 1.000000 2.000000 3.000000 4 5 - ",
    " 1.000000 2.000000 3.000000 4 5 - A",
]


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, lambda _: QUEUE)


READ = {
    "tag 1.000000 2.000000 3.000000 4 5 due:6.000000 A b": RunRecord("tag", 1.0, 2.0, 3.0, 4, 5, "due:6.000000", "A b"),
    "3.000000 work A": Waiting(3.0, "work A"),
    "0 0": RetryState(),
    "1 2": RetryState(1, 2),
    "1 2 alone": RetryState(1, 2, alone=True),
    "1 2 3 4.000000 5.000000": RetryState(1, 2, 3, 4.0, 5.0),
    "1 2 3 4.000000 - alone": RetryState(1, 2, 3, 4.0, None, alone=True),
    "0 0 0 - 5.000000": RetryState(after=5.0),
    '- 1.000000 - {"by": "me"}': Pause(None, 1.0, None, '{"by": "me"}'),
    "2.000000 1.000000 3.000000 {}": Pause(2.0, 1.0, 3.0, "{}"),
}


@pytest.mark.parametrize(("record", "read"), READ.items())
def test_a_record_is_read_as_it_was_written(record, read):
    assert type(read).parse(record) == read
    assert read.format() == record


DAMAGED = {
    RunRecord: [*NO_RUNS, "tag 1.000000 2.000000 3.000000 4 5 soon A"],
    Waiting: ["", "3.000000", "3.000000 ", "3 work A", "x work A", "-3.000000 work A"],
    RetryState: ["", "1", "x y", "1 2 3", "1 2 3 x -", "1 2 together"],
}


@pytest.mark.parametrize(
    ("kind", "record"), [(kind, record) for kind, records in DAMAGED.items() for record in records]
)
def test_a_damaged_record_is_none(kind, record):
    assert kind.parse(record) == (RetryState() if kind is RetryState else None)


@pytest.mark.parametrize("record", [*RUNS, *NO_RUNS])
def test_what_is_a_run_for_python_is_one_for_lua_and_nothing_else(store, client, record):
    set_job(store.at(START), JOB, "EVERY:1000@0.0", START + 10)
    client.hset(store.keys.running, JOB, record)
    run_job(store.at(START), JOB)
    found = store.questions.inspect([JOB])[0]
    if run := RunRecord.parse(record):
        assert run.format() == record
        run.next = f"due:{START:.6f}"
        assert found.run == run
    else:
        assert (found.waiting, found.running) == (Waiting(START, QUEUE), record)


@pytest.mark.parametrize("alone", [True, False])
def test_lua_keeps_a_retry_state_whose_job_has_no_queue(store, alone):
    set_job(store.at(START), JOB, "EVERY:1000@0.0", START)
    run = take_one(store.at(START), [(QUEUE, 500.0)], "tag")
    retry_state = RetryState(1, 2, 3, 4.0, 5.0, alone=alone)
    store.at(START).runs.end(run, NextState("due", START + 5, retry_state=retry_state.format()))
    assert dispatch(store.at(START + 5), [(JOB, "1005", "")]) == 0
    assert store.questions.inspect([JOB])[0].retry_state == retry_state.format()


def test_lua_reads_the_whole_name_of_the_queue_in_which_a_job_waits(store):
    for withdraw in (lambda: set_job(store.at(START), JOB, "STOP", None), lambda: store.jobs.unset(JOB)):
        set_job(store.at(START), JOB, "EVERY:1000@0.0", START)
        withdraw()
        assert store.questions.inspect([JOB], {JOB: [QUEUE]})[0].tombstones == {QUEUE}
