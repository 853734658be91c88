"""What `tell` returns is what the types say of it, in every state of a job."""

import json
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from redbike import JobDetails, current_run
from redbike.store.every_host import make_mark
from redbike.store.history import Usage
from redbike.store.keys import OWNER
from redbike.store.records import Progress
from tests.states import JOB, STATES, flight

BASE = "job:A@all"


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


def put(bike, key, value):
    bike.store.client.hset(getattr(bike.store.keys, key), JOB, value)


def work(bike, *results, **options):
    """Run the job once for each of these: raise what is an error, and return what is none."""
    todo = list(results)

    def act(jobid):
        current_run().usage = None if todo[0] else Usage(0.5, 2**26)
        if isinstance(result := todo.pop(0), Exception):
            raise result
        return result

    bike.worker.work = act
    while todo:
        bike.set(JOB, "NOW", **options)
        bike.work_one()


def damaged(bike):
    hourly(bike, data=1, retries=3)
    bike.pause(JOB)
    for key in ("data", "options", "failures", "retry_states", "history", "groups"):
        put(bike, key, "{")
    put(bike, "pauses", "- 1000.000000 - {")
    put(bike, "statuses", "nonsense")


def in_progress(bike):
    flight(bike.store)
    tag = bike.store.questions.inspect([JOB])[0].run.tag
    put(bike, "progress", Progress(0.5, "half of it").format(tag))


def backfilling(bike):
    now = hourly(bike)
    bike.backfill(JOB, now - 7200, now)
    bike.cancel(JOB)
    bike.backfill(JOB, now - 7200, now)


def everywhere(bike):
    entry = {"kind": "worker", "host": "web1", "pid": 1, "queues": ["work-A"], "version": "1", "for_host": True}
    bike.store.workers.register("x" * OWNER, json.dumps(entry))
    bike.set(BASE, "EVERY:1h@0")


def hourly(bike, **options):
    bike.set(JOB, "EVERY:1h@0", **options)
    return bike.store.timeline.read_clock()


FULL = {"timeout": "5m", "on_error": "retry", "forget_after": "never", "ping_url": "https://host/x", "data": [1]}
ALL = {name: lambda bike, make=make: make(bike.store) for name, make in STATES.items()}
ALL |= {
    "used": lambda bike: work(bike, None),
    "everywhere": everywhere,
    "on a host": lambda bike: (hourly(bike), put(bike, "options", json.dumps(make_mark(BASE, "1", None)))),
    "backfilling": backfilling,
    "backfilled": lambda bike: put(
        bike, "options", json.dumps({"backfill": {"of": "base:A", "due": f"{hourly(bike, overlap='queue'):.6f}"}})
    ),
    "with results": lambda bike: work(bike, {5}, 5, keep_result=True),
    "dark": lambda bike: (hourly(bike), bike.pause(JOB, every="0 2 * * *", lasting="2h")),
    "expiring": lambda bike: bike.set(JOB, "NOW", expires="1h"),
    "following": lambda bike: (bike.set(JOB, "AFTER:parent:A"), bike.set("child:A", f"AFTER:{JOB}")),
    "gathering": lambda bike: (bike.set("one:A", "EVERY:1h@0", group_of="g"), bike.set(JOB, "GROUP:g")),
    "in progress": in_progress,
    "cancelled": lambda bike: (flight(bike.store), bike.cancel(JOB)),
    "skipped": lambda bike: (hourly(bike), bike.run(JOB), bike.cancel(JOB)),
    "failed": lambda bike: work(bike, ValueError("no"), on_error="retry"),
    "paused": lambda bike: (hourly(bike), bike.pause(JOB, until=4e9, reason="moving")),
    "lost": lambda bike: (hourly(bike), put(bike, "retry_states", "1 2 1 100.000000 -")),
    "full": lambda bike: (bike.sync([(JOB, "EVERY:1h@0", FULL)], group="mine"), put(bike, "outputs", "the end")),
    "damaged": damaged,
}


def test_every_key_has_its_type_and_is_there_at_times(bike):
    seen = set()
    for name, make in ALL.items():
        make(bike)
        told = bike.tell(BASE if name == "everywhere" else JOB)
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
