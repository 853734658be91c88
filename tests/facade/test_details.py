"""What `tell` returns is what the types say of it, in every state of a job."""

import json
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from redbike import JobDetails, Redbike, RoundRobin, current_run
from redbike.store.every_host import make_mark
from redbike.store.keys import OWNER
from redbike.store.records import Progress
from redbike.store.usage import Usage
from tests.states import JOB, STATES, flight

BASE = "job:A@all"


@pytest.fixture
def bike(client, prefix):
    return Redbike(RoundRobin("A"), prefix, client)


def list_wrong(value: Any, hint: Any, place: str) -> list[str]:
    """What of a value is not what its type says, each with its place."""
    kind, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return []
    if kind in (Union, types.UnionType):
        return [] if any(list_wrong(value, each, place) == [] for each in inner) else [f"{place}: {value!r}"]
    if kind is Literal:
        return [] if value in inner else [f"{place}: {value!r}"]
    if typing.is_typeddict(hint):
        return list_wrong_keys(value, hint, place)
    if kind is list:
        return [each for item in value for each in list_wrong(item, inner[0], f"{place}[]")]
    if kind is dict:
        return [
            each
            for pair in value.items()
            for part in zip(pair, inner, strict=True)
            for each in list_wrong(*part, place)
        ]
    fits = isinstance(value, int | float) and not isinstance(value, bool) if hint is float else isinstance(value, hint)
    return [] if fits else [f"{place}: {value!r}"]


def list_wrong_keys(value: dict[str, Any], hint: Any, place: str) -> list[str]:
    hints = get_type_hints(hint)
    wrong = [f"{place}.{name} is unknown" for name in value.keys() - hints.keys()]
    wrong += [f"{place}.{name} is missing" for name in hint.__required_keys__ - value.keys()]
    for name in value.keys() & hints.keys():
        wrong += list_wrong(value[name], hints[name], f"{place}.{name}")
    return wrong


def cancelled(bike):
    flight(bike.store)
    bike.cancel(JOB)


def skipped(bike):
    bike.set(JOB, "EVERY:1h@0")
    bike.run(JOB)
    bike.cancel(JOB)


def ended(bike):
    bike.set(JOB, "NOW")
    bike.worker.work = lambda jobid: None
    bike.work_one()


def failed(bike):
    def work(jobid):
        raise ValueError("no")

    bike.set(JOB, "NOW", on_error="retry")
    bike.worker.work = work
    bike.work_one()


def paused(bike):
    bike.set(JOB, "EVERY:1h@0")
    bike.pause(JOB, until=4e9, reason="moving")


def lost(bike):
    bike.set(JOB, "EVERY:1h@0")
    bike.store.client.hset(bike.store.keys.retry_states, JOB, "1 2 1 100.000000 -")


def full(bike):
    options = {"timeout": "5m", "on_error": "retry", "forget_after": "never", "ping_url": "https://host/x", "data": [1]}
    bike.sync([(JOB, "EVERY:1h@0", options)], group="mine")
    bike.store.client.hset(bike.store.keys.outputs, JOB, "the end")


def damaged(bike):
    keys, client = bike.store.keys, bike.store.client
    bike.set(JOB, "EVERY:1h@0", data=1, retries=3)
    bike.pause(JOB)
    for key in (keys.data, keys.options, keys.failures, keys.retry_states, keys.history, keys.groups):
        client.hset(key, JOB, "{")
    client.hset(keys.pauses, JOB, "- 1000.000000 - {")
    client.hset(keys.statuses, JOB, "nonsense")


def with_results(bike):
    results = [5, {5}]
    bike.worker.work = lambda jobid: results.pop()
    while results:
        bike.set(JOB, "NOW", keep_result=True)
        bike.work_one()


def expiring(bike):
    bike.set(JOB, "NOW", expires="1h")


def following(bike):
    bike.set(JOB, "AFTER:parent:A")
    bike.set("child:A", f"AFTER:{JOB}")


def gathering(bike):
    bike.set("one:A", "EVERY:1h@0", group_of="g")
    bike.set(JOB, "GROUP:g")


def in_progress(bike):
    flight(bike.store)
    tag = bike.store.questions.inspect([JOB])[0].run.tag
    bike.store.client.hset(bike.store.keys.progress, JOB, Progress(0.5, "half of it").format(tag))


def dark(bike):
    bike.set(JOB, "EVERY:1h")
    bike.pause(JOB, every="0 2 * * *", lasting="2h")


def backfilling(bike):
    now = bike.store.timeline.read_clock()
    bike.set(JOB, "EVERY:1h@0")
    bike.backfill(JOB, now - 7200, now)
    bike.cancel(JOB)
    bike.backfill(JOB, now - 7200, now)


def backfilled(bike):
    now = bike.store.timeline.read_clock()
    bike.set(JOB, "EVERY:1h@0", overlap="queue")
    own = json.dumps({"backfill": {"of": "base:A", "due": f"{now:.6f}"}})
    bike.store.client.hset(bike.store.keys.options, JOB, own)


def used(bike):
    def work(jobid):
        current_run().usage = Usage(0.5, 2**26)

    bike.set(JOB, "NOW")
    bike.worker.work = work
    bike.work_one()


def everywhere(bike):
    entry = {"kind": "worker", "host": "web1", "pid": 1, "queues": ["work-A"], "version": "1", "for_host": True}
    bike.store.workers.register("x" * OWNER, json.dumps(entry))
    bike.set(BASE, "EVERY:1h@0")


def on_a_host(bike):
    bike.set(JOB, "EVERY:1h@0")
    bike.store.client.hset(bike.store.keys.options, JOB, json.dumps(make_mark(BASE, "1")))


MORE = (
    used,
    everywhere,
    on_a_host,
    backfilling,
    backfilled,
    with_results,
    dark,
    expiring,
    following,
    gathering,
    in_progress,
    cancelled,
    skipped,
    ended,
    failed,
    paused,
    lost,
    full,
    damaged,
)
ALL = {name: lambda bike, make=make: make(bike.store) for name, make in STATES.items()}
ALL |= {make.__name__: make for make in MORE}
TOLD = {"everywhere": BASE}  # of which job, if not of `JOB`


def test_every_key_has_its_type_and_is_there_at_times(bike):
    seen = set()
    for name, make in ALL.items():
        make(bike)
        told = bike.tell(TOLD.get(name, JOB))
        assert list_wrong_keys(told, JobDetails, "") == [], name
        assert json.loads(json.dumps(told)) == told
        seen |= told.keys()
        for inner in ("runs", "paused", "progress", "blackouts"):
            parts = told.get(inner, [])
            for part in parts if isinstance(parts, list) else [parts]:
                seen |= {f"{inner}.{key}" for key in part}
        bike.flush()
    hints = get_type_hints(JobDetails)
    parts = {"paused": hints["paused"], "progress": hints["progress"]}
    parts |= {name: get_args(hints[name])[0] for name in ("runs", "blackouts")}
    assert seen == {*hints, *(f"{name}.{key}" for name, hint in parts.items() for key in hint.__annotations__)}
