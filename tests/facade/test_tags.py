"""``tag=`` in Python: beside patterns, in each method that steers or looks."""

import pytest

from redbike import BadConfig, Redbike
from tests.loops import Acting, raising
from tests.states import dump

HOURLY = "EVERY:1h@0"
TAGGED = ["a:A", "b:A"]
STEERING = {
    "run": lambda bike, *texts, **tag: bike.run(*texts, **tag),
    "cancel": lambda bike, *texts, **tag: bike.cancel(*texts, **tag),
    "pause": lambda bike, *texts, **tag: bike.pause(*texts, **tag),
    "pause --every": lambda bike, *texts, **tag: bike.pause(*texts, every="0 2 * * *", lasting="1h", **tag),
    "resume": lambda bike, *texts, **tag: bike.resume(*texts, **tag),
    "resume --every": lambda bike, *texts, **tag: bike.resume(*texts, every=True, **tag),
    "unset": lambda bike, *texts, **tag: bike.unset_many(*texts, **tag),
}
LOOKING = {
    "jobs": lambda bike, *texts, **tag: [job.jobid for job in bike.jobs(*texts, **tag)],
    "get_schedules": lambda bike, *texts, **tag: [row[0] for row in bike.get_schedules(*texts, **tag)],
    "get_rows": lambda bike, *texts, **tag: [row[0] for row in bike.get_rows(*texts, **tag)],
    "runs": lambda bike, *texts, **tag: [run.jobid for run in bike.runs(*texts, **tag)],
    "failures": lambda bike, *texts, **tag: [kept["jobid"] for kept in bike.failures(*texts, **tag)],
    "agenda": lambda bike, *texts, **tag: {job for each in bike.agenda(*texts, **tag) for job in each.jobs},
}


@pytest.fixture
def bikes(client, prefix):
    """Two, each with the same jobs, which have all failed once."""
    worker = Acting(raising(ValueError("no")))
    found = [Redbike(worker, name, client, on_error="reschedule") for name in (prefix, f"{prefix}-two")]
    for bike in found:
        bike.set("a:A", HOURLY, tags=["x"])
        bike.set("b:A", HOURLY, tags="y")
        bike.set("c:A", HOURLY, owner="x y")
        bike.run("*")
        while bike.work_one():
            pass
    yield found
    for bike in found:
        bike.flush()


@pytest.mark.parametrize("verb", STEERING)
def test_each_method_that_steers_takes_tags(bikes, verb):
    bike, other = bikes
    before = dump(other.store), dump(bike.store)
    for tag in ("", [], "a;b", 7, ["a", 7], "*"):
        with pytest.raises(BadConfig, match="bad tag "):
            STEERING[verb](bike, tag=tag)
    assert (dump(other.store), dump(bike.store)) == before
    for texts, tag, found in (((), ["none"], []), (("b*", "c:*"), {"x", "y"}, ["b:A"]), ((), "X,y", TAGGED)):
        steered = sorted(each.jobid for each in STEERING[verb](bike, *texts, tag=tag))
        assert steered == (["a:A"] if verb == "unset" and found == TAGGED else found)
    assert dump(other.store) == before[0]
    assert sorted(jobid for jobid, _ in bike.get_schedules()) == (["c:A"] if verb == "unset" else [*TAGGED, "c:A"])


def test_each_method_that_looks_takes_tags(bikes):
    for look in LOOKING.values():
        for texts, tag, found in (
            ((), "x y", TAGGED),
            (("a*", "c:A"), ["X"], ["a:A"]),
            (("c:A",), "x", []),
            ((), "z", []),
        ):
            assert sorted(look(bikes[0], *texts, tag=tag)) == found
        assert sorted(look(bikes[0])) == [*TAGGED, "c:A"]
        with pytest.raises(BadConfig, match="bad tag "):
            look(bikes[0], tag=[])
