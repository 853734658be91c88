"""Jobs brought into each state of their life, straight through the store, at times that the tests choose."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from redbike.config.settings import Settings
from redbike.loop.changes import decide_again
from redbike.store.inspected import JobState
from redbike.store.inspection.fsck import fsck
from redbike.store.next_state import Answer, NextState
from redbike.store.run import Run
from redbike.store.store import Store
from tests.verbs import set_job, take_one

JOB = "job:A"
QUEUE = "work-A"
OLD, NEW = "EVERY:100@0.0", "EVERY:7@0.0"
START = 1000.0  # when a job is set
DUE = 1050.0  # when one on the timeline is due
NOW = 1100.0  # when a verb is tried on it
LATER = 1200.0
TIMEOUT = 500.0


def queue_for(jobid: str) -> str:
    return "work-" + jobid.rpartition(":")[2]


def take(store: Store, tag: str = "tag", now: float = START, **more: Any) -> Any:
    return take_one(store.at(now), more.pop("queues", [(QUEUE, TIMEOUT)]), tag, **more)


def end(store: Store, run: Run, outcome: NextState, now: float = NOW) -> Answer:
    """End `run`, as often as something was set meanwhile."""
    answer = store.at(now).runs.end(run, outcome)
    while answer.word == "changed":
        outcome = decide_again(run, outcome, answer, Settings(), now)
        run = replace(run, schedule=answer.detail)
        answer = store.at(now).runs.end(run, outcome)
    return answer


def inspect(store: Store, jobid: str = JOB) -> JobState:
    return store.questions.inspect([jobid])[0]


def pause(store: Store, now: float = START, until: float | None = None) -> str:
    return store.at(now).pauses.pause([JOB], until, "somebody@somewhere", "a reason")[0]


def unknown(store: Store) -> Run | None:
    return None


def bad(store: Store) -> Run | None:
    store.at(START).jobs.reject(JOB)
    return None


def timeline(store: Store) -> Run | None:
    set_job(store.at(START), JOB, OLD, DUE)
    return None


def queue(store: Store) -> Run | None:
    set_job(store.at(START), JOB, OLD, START)
    return None


def flight(store: Store) -> Run | None:
    queue(store)
    run = take(store)
    assert isinstance(run, Run)
    return run


def flight_and_timeline(store: Store) -> Run | None:
    run = flight(store)
    set_job(store.at(START), JOB, "EVERY:50@0.0", DUE)
    return run


def flight_and_one_off(store: Store) -> Run | None:
    run = flight(store)
    set_job(store.at(START), JOB, f"AT:{DUE}", DUE, once=True)
    return run


def flight_and_owed(store: Store) -> Run | None:
    run = flight(store)
    set_job(store.at(START), JOB, "NOW", "now", once=True)
    return run


def flight_of_unset(store: Store) -> Run | None:
    run = flight(store)
    store.jobs.unset(JOB)
    return run


def stopped(store: Store) -> Run | None:
    set_job(store.at(START), JOB, "STOP", None)
    return None


def dead(store: Store) -> Run | None:
    run = flight(store)
    assert run is not None
    failure = {"jobid": JOB, "due": run.due, "attempt": 1, "error": "it broke"}
    store.at(START + 1).runs.end(run, NextState("die", failure=failure))
    return None


def waiting_to_retry(store: Store) -> Run | None:
    run = flight(store)
    assert run is not None
    store.at(START + 1).runs.end(run, NextState("due", DUE, retry_state=f"1 0 1 {START:.6f} -"))
    return None


def held(store: Store) -> Run | None:
    timeline(store)
    pause(store)
    return None


def flight_and_paused(store: Store) -> Run | None:
    run = flight(store)
    pause(store)
    return run


def flight_and_held(store: Store) -> Run | None:
    run = flight_and_timeline(store)
    pause(store)
    return run


def queue_and_paused(store: Store) -> Run | None:
    held(store)
    store.at(START + 1).jobs.run([JOB])
    return None


STATES: dict[str, Callable[[Store], Run | None]] = {
    maker.__name__: maker
    for maker in (
        unknown,
        bad,
        timeline,
        queue,
        flight,
        flight_and_timeline,
        flight_and_one_off,
        flight_and_owed,
        flight_of_unset,
        stopped,
        dead,
        waiting_to_retry,
        held,
        flight_and_paused,
        flight_and_held,
        queue_and_paused,
    )
}


def place(state: JobState) -> str:
    """Where a job is, as one text: flight, with what is owed, timeline, queue, held; else its last event or nothing."""
    here = []
    if state.running:
        left = state.run.next if state.run is not None else ""
        here.append("flight" + ("+owed" if left.startswith("due:") else "+missed" if left.startswith("from:") else ""))
    if state.queued:
        here.append("queue")
    if state.timeline is not None:
        here.append("timeline")
    if state.held is not None:
        here.append("held")
    if here:
        return "+".join(here)
    return state.status.partition(":")[0] if state.status else "nothing"


def list_problems(store: Store) -> list[str]:
    """What `fsck` finds, but for keys of a wrong type: it asks for the type of each, and all that reads them fails."""
    with patch("redbike.store.inspection.fsck.find_wrong_types", return_value=()):
        return list(fsck(store))


@contextmanager
def unchanged(store: Store) -> Iterator[None]:
    """Assert that the block changes nothing that is stored."""
    before = dump(store)
    yield
    assert dump(store) == before


@contextmanager
def untouched(client: Any) -> Iterator[None]:
    """Assert that the block changes nothing on the server, to the byte."""
    before = {key: client.dump(key) for key in client.scan_iter()}
    yield
    assert {key: client.dump(key) for key in client.scan_iter()} == before


def dump(store: Store) -> dict[str, Any]:
    """Everything under the prefix but the memory of requests, which changes with every one."""
    client = store.client
    found = client.scan_iter(match=f"{store.keys.prefix}-*", count=1000)
    keys = sorted(key for key in found if key.decode() != store.keys.requests)
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
        kinds = [kind.decode() for kind in pipeline.execute()]
        for key, kind in zip(keys, kinds, strict=True):
            _ask(pipeline, key, kind)
        values = zip(keys, kinds, pipeline.execute(), strict=True)
        # Pairs are lists with RESP3.
        return {key.decode(): list(map(tuple, value)) if kind == "zset" else value for key, kind, value in values}


def _ask(pipeline: Any, key: bytes, kind: str) -> None:
    if kind == "hash":
        pipeline.hgetall(key)
    elif kind == "zset":
        pipeline.zrange(key, 0, -1, withscores=True)
    elif kind == "list":
        pipeline.lrange(key, 0, -1)
    elif kind == "set":
        pipeline.smembers(key)
    else:
        pipeline.get(key)
