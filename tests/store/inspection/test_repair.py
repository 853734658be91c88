"""Damage of every kind, made with plain commands: after the repair all is well, and every job runs, exactly once."""

import collections
import dataclasses
import itertools
import random
import re
import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redbike import Redbike
from redbike.control.repair_places import Correction
from redbike.errors import OtherProtocol
from redbike.store.agreed import PROTOCOL
from redbike.store.inspected import JobState
from redbike.store.inspection.jobs import check_job, list_places
from redbike.store.keys import FIXED
from redbike.store.lease import GRACE, LEASE
from redbike.store.next_state import NextState
from redbike.store.records import RetryState
from redbike.store.run import Run
from tests.commandline import make_module
from tests.cuts import check_all
from tests.states import dump, end
from tests.store.inspection.mending import drained, repaired, state_of
from tests.store.inspection.test_deleted_keys import REPORTS
from tests.verbs import Once, take_many, take_one
from tests.waiting import wait_until

QUEUE = "work-A"
YEAR = 366 * 86400.0
BIKE = {"worker": Once}


def runs_of(bike):
    """What runs when everything that is on the timeline has come due."""
    bike.dispatch_due(bike.store.timeline.read_dispatched()[0] + YEAR)
    ran = drained(bike)
    assert list(bike.fsck()) == []
    return sorted(ran)


def nothing_is_held(bike):
    """Whether no lease, no list and no in-flight key is left of any tag."""
    keys = bike.store.keys
    found = dump(bike.store)
    return not any(key in (keys.leases, keys.batches) or key.startswith(keys.inflight_base) for key in found)


def clock(bike):
    return bike.store.timeline.read_dispatched()[0]


def flight(bike, jobid="job:A", timeout=100.0):
    """Bring the job into flight; its run."""
    bike.set(jobid, "EVERY:1h")
    bike.run(jobid)
    return take_one(bike.store, [(QUEUE, timeout)], "tag")


# What a job is to be, whatever is found of it

NOW = 1_800_000_000.0
TAG = "tag"


def record(deadline, anew="-", due=NOW - 50, queue=QUEUE):
    return f"{TAG} {NOW - 10:.6f} {NOW + deadline:.6f} {due:.6f} 0 1 {anew} {queue}"


FOUND = st.builds(
    JobState,
    jobid=st.just("job:A"),
    schedule=st.sampled_from(
        [None, "NOW", "CONTINUE", "STOP", "EVERY:100@0", f"AT:{NOW:.0f}", "AT:1", "AT:9000000000", "no schedule"]
    ),
    status=st.one_of(
        st.sampled_from([None, "garbage", "XXX:1", "ENQ:", f"TML:{NOW + 1e6:.0f}"]),
        st.builds(
            "{}:{:.0f}".format, st.sampled_from(["TML", "ENQ", "WRK", "STP", "DIE", "BAD"]), st.floats(NOW - 1e6, NOW)
        ),
    ),
    timeline=st.sampled_from([None, None, NOW - 5, NOW + 5, float("inf"), -1.0]),
    queued=st.sampled_from(
        ["", "", f"{NOW - 50:.6f} {QUEUE}", f"{NOW:.6f} elsewhere", f"{NOW:.6f} schedules", "garbage"]
    ),
    running=st.sampled_from(
        [
            "",
            "",
            *(record(60, anew) for anew in ("-", "set", "once", f"due:{NOW:.6f}")),
            record(-60),
            record(0.5),
            "x y",
        ]
    ),
    lease=st.sampled_from([None, NOW - 20, NOW + 5, NOW + 1e9]),
    tag=st.sampled_from(["", "", TAG, "other", "a tag", "\x7f"]),
    inflight_ms=st.just(-2),
    retry_state=st.sampled_from(["", "0 1", "2 0 alone"]),
    skipped=st.sampled_from([{}, {"missed": 3}]),
    failure=st.sampled_from([None, {"error": "it broke"}]),
    now=st.just(NOW),
    entries=st.fixed_dictionaries({QUEUE: st.integers(0, 3), "elsewhere": st.integers(0, 2)}),
    tombstones=st.frozensets(st.sampled_from([QUEUE, "elsewhere"])),
    unreadable=st.sampled_from([(), ("retry_state",), ("missed", "failure")]),
    paused=st.sampled_from(
        [
            "",
            "",
            "garbage",
            f"- {NOW - 100:.6f} - {{}}",
            f"{NOW - 50:.6f} {NOW - 100:.6f} - {{}}",
            f"{NOW + 5:.6f} {NOW - 100:.6f} {NOW + 9:.6f} {{}}",
        ]
    ),
    timer=st.sampled_from([None, None, NOW + 9]),
).flatmap(
    lambda state: st.sampled_from([-1, -2, 5000] if state.tag else [-2]).map(
        lambda left: dataclasses.replace(
            state, inflight_ms=left, unreadable=state.unreadable + ("pause",) * (state.paused == "garbage")
        )
    )
)


@pytest.mark.parametrize("examples", [300, pytest.param(3000, marks=pytest.mark.nightly)])
def test_whatever_is_found_what_is_wanted_is_well(server_url, examples):
    corrections = []
    for catchup in ("last", "none", "all"):
        bike = Redbike(Once("A"), "pure", server_url, catchup=catchup)
        corrections.append(Correction(bike.store, NOW - 1000, bike.settings))
    bounds = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    bounds(given(found=FOUND, correction=st.sampled_from(corrections))(what_is_wanted_is_well))()


def what_is_wanted_is_well(found, correction):
    wanted = correction.apply(found)
    left = list(check_job(wanted))
    if found.schedule == "no schedule":
        assert left.pop().startswith("its schedule cannot be read")
        # Where it should be nobody knows then.
        assert left == [] or (len(left) == 1 and not list_places(wanted))
    else:
        assert left == []
    if not wanted.running:
        # Nothing is left then of a tag under which it was.
        wanted = dataclasses.replace(wanted, tag="", lease=None, inflight_ms=-2)
        found = dataclasses.replace(found, tag="", lease=None, inflight_ms=-2)
    assert correction.apply(wanted) == wanted
    if not list(check_job(found)):
        assert wanted == found
    if found.schedule in ("EVERY:100@0", "CONTINUE") and (found.status or "")[:4] not in ("STP:", "DIE:", "BAD:"):
        assert len(list_places(wanted)) >= 1
    if found.running.startswith(TAG):
        assert wanted.running.split()[:3] == found.running.split()[:3]


THROWN = "it is in the queue 'work-A' without a record; a worker will throw it away"
TAKEN_OUT = "taken out of the queue 'work-A'"
NO_TOMBSTONE = "without a tombstone in the queue"

# How a job was set, and how often it runs after the repair; for each kind of damage, the commands that anybody could
# give, and what is said to have been done.
DAMAGE = {
    ("EVERY:1h", 1): {
        "gone from the timeline": ("ZREM .timeline job:A", "put on the timeline"),
        "gone with its worker": ("DEL .timeline; HSET .statuses job:A WRK:1", "put into the queue"),
        "an unknown status": ("HSET .statuses job:A ZZZ:1; DEL .timeline", "put on the timeline"),
        "timeline and list": ("LPUSH .work-A job:A; SADD .queues work-A", "taken out of the queue"),
        "a malformed running record": ("HSET .running job:A garbage", "its running record removed"),
        "a lease without a run": ("ZADD .leases 1 tag", "it has a lease, but no run"),
        "a lease of an idle job": ("ZADD .leases 1 job:A", "the tag 'job:A': it has a lease"),
        "an in-flight key without a run": ("SET .inflight-tag job:A EX 100", "it has an in-flight key"),
        "an in-flight key of another type": ("LPUSH .inflight-tag job:A", "it has an in-flight key"),
        "a list without a run": ("HSET .batches tag '\njob:A\n'", "it has a list of jobs, but no run"),
        "all of a tag without a run": (
            "HSET .batches tag job:A; ZADD .leases 1 tag; SET .inflight-tag job:A EX 100",
            "it has a lease and a list of jobs and an in-flight key, but no run is in flight under it -- repaired: no",
        ),
    },
    ("NOW", 1): {
        "gone from its queue": ("LREM .work-A 0 job:A", "put into the queue 'work-A'"),
        "a schedule alone": ("DEL .work-A .queued .statuses", "put into the queue 'work-A'"),
        "queue and timeline": ("ZADD .timeline {later} job:A", "taken off the timeline"),
        "twice in the list": ("RPUSH .work-A job:A", "left in the queue 'work-A' once"),
        "in two lists": ("LPUSH .work-B job:A; SADD .queues work-B", "taken out of the queue 'work-B'"),
        "in the list without a record": ("DEL .queued", "recorded as queued"),
        "three times without a record": ("DEL .queued; LPUSH .work-A job:A job:A", "'work-A' once"),
        "a record with a forbidden queue": ("HSET .queued job:A '1.000000 schedules'", "recorded as queued"),
        "a wrong status": ("HSET .statuses job:A STP:1", "status ENQ"),
        "a malformed retry state": ("HSET .retry-states job:A often", "its retry state removed"),
        "a malformed failure": ("HSET .failures job:A 'it broke'", "its failure removed"),
        "a malformed count": ("HSET .skipped missed:job:A many", "its missed removed"),
        "a tombstone for its entry": (
            "SADD .tombstones-work-A job:A",
            f"but is not in the queue 'work-A' -- repaired: {NO_TOMBSTONE} 'work-A'",
        ),
        "a tombstone in another queue": (
            "SADD .tombstones-work-Z job:A",
            f"it has a tombstone in the queue 'work-Z', but is not in it -- repaired: {NO_TOMBSTONE} 'work-Z'",
        ),
        "a tombstone and no list": (
            "DEL .work-A; SADD .tombstones-work-A job:A other:A",
            f"put into the queue 'work-A', {NO_TOMBSTONE} 'work-A'",
        ),
        "a list of a job in a queue": ("HSET .batches tag job:A", "it has a list of jobs, but no run"),
        "the set of queues": ("DEL .queues", "it is there again"),
        "schedules that expire": ("EXPIRE .schedules 100", "repaired: not any more"),
    },
    ("CONTINUE", 1): {"CONTINUE gone from its queue": ("DEL .work-A .queued", "put into the queue 'work-A'")},
    ("AT:{later}", 1): {"AT gone from the timeline": ("DEL .timeline", "put on the timeline")},
    ("AT:{past}", 1): {"AT gone from its queue": ("DEL .work-A .queued", "put into the queue 'work-A'")},
    ("EVERY:2h", 1): {"a schedule alone, for later": ("DEL .timeline .statuses", "put on the timeline")},
    ("STOP", 0): {
        "stopped, without a status": ("DEL .statuses", "status STP"),
        "stopped and in the list": ("LPUSH .work-A job:A; SADD .queues work-A", f"{THROWN} -- repaired: {TAKEN_OUT}"),
        "stopped, with a tombstone": (
            "SADD .tombstones-work-A job:A",
            f"it has a tombstone in the queue 'work-A', but is not in it -- repaired: {NO_TOMBSTONE} 'work-A'",
        ),
        "stopped, and twice in the list with a tombstone": (
            "LPUSH .work-A job:A job:A; SADD .queues work-A; SADD .tombstones-work-A job:A",
            "beside a tombstone that it has there -- repaired: left in the queue 'work-A' once",
        ),
        "its failure unset": ("DEL .schedules .statuses; HSET .failures job:A {}", "failure removed"),
    },
    ("EVERY:1h", 0): {"on the timeline unset": ("DEL .schedules", "taken off the timeline, its status removed")},
    ("NOW", 0): {
        "in the queue unset": ("DEL .schedules", "taken out of the queue 'work-A', its queued record removed"),
        "in the list unset": ("DEL .schedules .statuses .queued", f"{THROWN} -- repaired: {TAKEN_OUT}"),
    },
}
KINDS = [pytest.param(*given, *kind, id=name) for given, kinds in DAMAGE.items() for name, kind in kinds.items()]


def give(bike, commands):
    """Give commands; what begins with a dot is a key."""
    for command in commands.split("; "):
        words = (re.sub(r"^\.", f"{bike.prefix}-", word) for word in shlex.split(command))
        bike.client.execute_command(*words)


@pytest.mark.acceptance
@pytest.mark.parametrize(("schedule", "times", "commands", "done"), KINDS)
def test_damage_of_each_kind_is_repaired(bike, schedule, times, commands, done):
    now = clock(bike)
    assert bike.set("job:A", schedule.format(later=now + 1000, past=now - 1000), after=now - 2000)
    give(bike, commands.replace("{later}", str(now + 1000)))
    assert list(bike.fsck()) != []
    assert done in "\n".join(repaired(bike))
    assert runs_of(bike) == ["job:A"] * times
    assert runs_of(bike) == ["job:A"] * (times if schedule.startswith("EVERY") else 0)


# Of runs in flight under one tag: of one job, of several, and of one job beside others that are well

NEEDS = "it has what its runs need"
ANEW = "its running record written again"
OF_TAG = {
    "no lease": ("ZREM .leases tag", "it has no lease: nobody would notice if its worker died"),
    "a lease for ever": ("ZADD .leases inf tag", "its lease goes on after the deadline"),
    "a lease of each job": ("ZADD .leases 1 job:A; ZADD .leases inf job:A", "the tag 'job:A': it has a lease"),
    "no in-flight key": ("DEL .inflight-tag", "its in-flight key is gone before the deadline"),
    "an in-flight key for ever": ("PERSIST .inflight-tag", "its in-flight key does not expire"),
    "an in-flight key of another type": ("DEL .inflight-tag; SADD .inflight-tag x", "its in-flight key is a set"),
    "no list": ("HDEL .batches tag", "it does not list its run of 'job:A'"),
    "a list of nobody": ("HSET .batches tag 'x y'", "it lists 'x y', which is not in flight under it"),
    "a list with a stray": ("APPEND_TO tag x:A", "it lists 'x:A', which is not in flight under it"),
    "a list that has the job twice": ("APPEND_TO tag job:A", "it lists 'job:A' more than once"),
    "the records alone": ("DEL .batches .leases .inflight-tag", "its in-flight key is gone"),
}
OF_RECORD = {
    "no record": ("HDEL .running job:A", ANEW),
    "no record, no status": ("HDEL .running job:A; DEL .statuses", ANEW),
    "no record, and an empty in-flight key": ("HDEL .running job:A; SET .inflight-tag x EX 50", ANEW),
    "a malformed record": ("HSET .running job:A 'x y'", ANEW),
    "a record of a queue that cannot be": ("HSET .running job:A 'tag 1.000000 2.000000 3.000000 0 0 - queues'", ANEW),
    "the key alone": ("DEL .running .statuses .leases .retry_states .batches", ANEW),
    "in its queue too": ("LPUSH .work-A job:A", "taken out of the queue 'work-A'"),
    "on the timeline too": ("ZADD .timeline 1 job:A", "taken off the timeline"),
    "a wrong status": ("HSET .statuses job:A STP:1", "status WRK"),
    "a tombstone": ("SADD .tombstones-work-A job:A", "without a tombstone in the queue 'work-A'"),
}
IN_FLIGHT = OF_TAG | OF_RECORD
OTHERS = {"alone": [], "first of three": ["two:A", "three:A"]}


# Each kind of damage to a run that is alone, or to one of three, by turns.
BY_TURNS = pytest.mark.parametrize(("kind", "others"), [*zip(IN_FLIGHT, itertools.cycle(OTHERS), strict=False)])


def flights(bike, others, timeout=100.0):
    """Bring ``job:A`` and others into flight under one tag, beside an idle job; the runs."""
    assert bike.set("idle:A", "EVERY:1h")
    for jobid in ("job:A", *others):
        bike.set(jobid, "EVERY:1h")
        bike.run(jobid)
    runs = take_many(bike.store, [(QUEUE, timeout)], [1], "tag", 1 + len(others))
    assert [run.jobid for run in runs] == ["job:A", *others]
    assert list(bike.fsck()) == []
    return runs


def damage(bike, command):
    if command.startswith("APPEND_TO "):
        _, tag, jobid = command.split()
        batches = bike.store.keys.batches
        bike.client.hset(batches, tag, bike.client.hget(batches, tag).decode() + f"\n{jobid}\n")
    else:
        give(bike, command)
    assert list(bike.fsck()) != []


@pytest.mark.acceptance
@BY_TURNS
def test_a_run_in_flight_goes_on_and_no_second_one_is_started(bike, kind, others):
    commands, said = IN_FLIGHT[kind]
    runs = flights(bike, OTHERS[others])
    jobids = [run.jobid for run in runs]
    damage(bike, commands)
    assert said in "\n".join(repaired(bike))
    bike.dispatch_due()
    assert bike.work_one() is None
    assert bike.store.runs.heartbeat(runs) == ["ok"] * len(runs)
    [held] = bike.store.questions.inspect_tags({"tag": []})
    assert (sorted(held.listed), sorted(held.named), held.kind) == (sorted(jobids), sorted(jobids), "string")
    # Whatever of it each worker tells first.
    for run in reversed(runs):
        assert bike.store.runs.end(run, NextState("next", clock(bike) + 100))[:2] == ("ok", "timeline")
        assert list(bike.fsck()) == []
    assert nothing_is_held(bike)
    assert runs_of(bike) == sorted(["idle:A", *jobids])


@pytest.mark.acceptance
@BY_TURNS
def test_a_run_in_flight_whose_worker_is_dead_is_recovered_once(bike, kind, others):
    runs = flights(bike, OTHERS[others])
    jobids = [run.jobid for run in runs]
    losses = state_of(bike).run.losses
    damage(bike, IN_FLIGHT[kind][0])
    repaired(bike)
    [held] = bike.store.questions.inspect_tags({"tag": []})
    assert held.lease <= clock(bike) + LEASE
    bike.dispatch_due(held.lease)
    assert nothing_is_held(bike)
    assert list(bike.fsck()) == []
    retry_states = {RetryState.parse(state.retry_state) for state in bike.store.questions.inspect(jobids)}
    # One that was alone counts as a loss; several are given back, and each runs alone.
    assert {(retry_state.losses, retry_state.alone) for retry_state in retry_states} == {
        (losses, True) if others != "alone" else (1, False)
    }
    assert sorted(drained(bike)) == sorted(jobids)
    assert list(bike.fsck()) == []
    assert runs_of(bike) == sorted(["idle:A", *jobids])


@pytest.mark.parametrize("kind", OF_TAG)
def test_what_is_damaged_of_a_tag_makes_no_dispatcher_run_a_job_twice(bike, kind):
    """Also if nobody repairs it, while the worker is alive and when its lease has ended."""
    runs = flights(bike, ["two:A", "three:A"])
    damage(bike, OF_TAG[kind][0])
    bike.dispatch_due()
    assert bike.store.runs.heartbeat(runs) == ["ok"] * len(runs)
    for ahead in (2 * LEASE, 200):
        bike.dispatch_due(clock(bike) + ahead)
    ran = drained(bike)
    assert len(ran) == len({*ran})
    assert {*ran} <= {run.jobid for run in runs}
    list(bike.repair())
    assert list(bike.fsck()) == []
    bike.dispatch_due(clock(bike) + LEASE)
    ran += drained(bike)
    assert sorted(ran) == sorted(run.jobid for run in runs), "those that were not found before are now"


@pytest.mark.parametrize("record", ["", "x y", "tag 1.0 2.0 - 0 0 - work-A"])
def test_several_runs_under_one_tag_of_which_one_is_damaged_and_cannot_be_made_anew(bike, record):
    """Its key is gone too: whether it has run is not known, so it is run again; the others go on."""
    one, two, three = flights(bike, ["two:A", "three:A"])
    keys = bike.store.keys
    bike.client.hset(keys.running, "two:A", record)
    bike.client.delete(keys.inflight("tag"))
    lines = repaired(bike)
    assert any(line.startswith("'two:A'") and "put into the queue 'work-A'" in line for line in lines)
    assert any(line.startswith("the tag 'tag'") and NEEDS in line for line in lines)
    assert bike.store.runs.heartbeat([one, two, three]) == ["ok", "stale", "ok"]
    assert drained(bike) == ["two:A"]
    due = clock(bike) + 100
    assert [bike.store.runs.end(run, NextState("next", due))[0] for run in (one, two, three)] == ["ok", "stale", "ok"]
    assert nothing_is_held(bike)
    assert list(bike.fsck()) == []


def test_the_dispatcher_recovers_the_others_if_one_record_under_a_tag_is_damaged(bike):
    flights(bike, ["two:A", "three:A"])
    bike.client.hset(bike.store.keys.running, "two:A", "x y")
    bike.dispatch_due(clock(bike) + LEASE)
    assert sorted(drained(bike)) == ["job:A", "three:A"]
    assert nothing_is_held(bike)
    [line] = repaired(bike)
    assert line.startswith("'two:A': its running record is malformed: 'x y' -- repaired: its running record removed")
    assert drained(bike) == ["two:A"]


def test_what_is_left_of_a_tag_whose_jobs_have_other_tags_by_now(bike):
    """They were taken anew, each by another worker, and that is what counts."""
    old = flights(bike, ["two:A", "three:A"])
    keys = bike.store.keys
    stale = bike.client.hget(keys.batches, "tag")
    bike.dispatch_due(clock(bike) + LEASE)
    new = [take_one(bike.store, [(QUEUE, 100.0)], f"new{n}") for n in range(3)]
    bike.client.hset(keys.batches, "tag", stale)
    bike.client.zadd(keys.leases, {"tag": clock(bike) - 1})
    bike.client.set(keys.inflight("tag"), stale, px=50_000)
    [line] = bike.fsck()
    assert "the tag 'tag'" in line
    bike.dispatch_due()
    assert bike.store.runs.heartbeat(new) == ["ok"] * 3
    bike.client.hset(keys.batches, "tag", stale)
    bike.client.zadd(keys.leases, {"tag": clock(bike) + 5})
    assert "nothing is left of it" in "\n".join(repaired(bike))
    assert bike.store.runs.heartbeat(old) == ["stale"] * 3
    assert bike.store.runs.heartbeat(new) == ["ok"] * 3
    due = clock(bike) + 100
    assert [bike.store.runs.end(run, NextState("next", due))[0] for run in old] == ["stale"] * 3
    assert [bike.store.runs.end(run, NextState("next", due))[0] for run in new] == ["ok"] * 3
    assert nothing_is_held(bike)
    assert list(bike.fsck()) == []


@pytest.mark.parametrize("left", [["batches", "inflight"], ["inflight"]])
def test_a_record_is_made_anew_under_the_tag_under_which_the_job_was_taken_last(bike, left):
    """Its older tag, under which others still run, has a key in which it is named too."""
    one, _, three = flights(bike, ["two:A", "three:A"])
    assert bike.store.runs.release([one]) == ["queue"]
    [again] = take_many(bike.store, [(QUEUE, 200.0)], [1], "again", 1)
    assert again.jobid == "job:A"
    bike.client.hdel(bike.store.keys.running, "job:A")
    if "batches" not in left:
        bike.client.delete(bike.store.keys.batches)
    assert ANEW in "\n".join(repaired(bike))
    assert state_of(bike).tag == "again"
    assert bike.store.runs.heartbeat([one, again, three]) == ["stale", "ok", "ok"]
    assert bike.store.runs.end(again, NextState("next", clock(bike) + 100))[:2] == ("ok", "timeline")
    assert bike.store.runs.end(three, NextState("next", clock(bike) + 100))[:2] == ("ok", "timeline")
    assert list(bike.fsck()) == []


def test_a_record_of_another_tag_is_in_flight_under_that(bike):
    """Somebody has altered it: the tag has nothing, and gets what its run needs; the old one lists it no more."""
    runs = flights(bike, ["two:A"])
    keys = bike.store.keys
    altered = bike.client.hget(keys.running, "job:A").decode().replace("tag ", "other ", 1)
    bike.client.hset(keys.running, "job:A", altered)
    repaired(bike)
    assert bike.store.runs.heartbeat(runs) == ["stale", "ok"]
    [held, other] = bike.store.questions.inspect_tags({"tag": [], "other": []})
    assert (held.listed, other.listed) == (["two:A"], ["job:A"])
    bike.dispatch_due(max(held.lease, other.lease))
    assert sorted(drained(bike)) == ["job:A", "two:A"]
    assert nothing_is_held(bike)


CONTENT = st.sampled_from(["", "\n", "x", "\na:A\n", "\na:A\nb:A\n", "b:A\na:A\nb:A", "\nc:A\nb:A\na:A\n", "c:A x"])
MOMENT = st.sampled_from([None, -1000.0, 1.0, 11.0, 1e6])
RECORD = st.sampled_from([None, "x y", "one 100 -", "one 100 set", "one 0.01 -", "two 100 -", "two 50 due:1.000000"])
KEY = st.sampled_from([None, "a set", ("a:A", None), ("a:A", 50_000), ("\na:A\nb:A\n", 200_000), ("", 50_000)])
TAGS = st.fixed_dictionaries({name: st.tuples(st.none() | CONTENT, MOMENT, KEY) for name in ("one", "two", "a:A")})


@pytest.mark.parametrize("examples", [20, pytest.param(100, marks=pytest.mark.nightly)])
def test_whatever_is_left_of_tags_every_whole_record_is_a_run_that_goes_on(bike, examples):
    bounds = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    records = st.fixed_dictionaries(dict.fromkeys(("a:A", "b:A", "c:A"), RECORD))
    bounds(given(bike=st.just(bike), records=records, tags=TAGS)(every_whole_record_goes_on))()


def every_whole_record_goes_on(bike, records, tags):
    client, store, keys, now = bike.client, bike.store, bike.store.keys, clock(bike)
    client.flushall()
    whole = {}
    for jobid, record in records.items():
        assert bike.set(jobid, "EVERY:1h")
        if record is not None:
            client.zrem(keys.timeline, jobid)
            client.hset(keys.statuses, jobid, f"WRK:{now - 1:.0f}")
            words = record.split(" ")
            if len(words) == 3:
                times = (now - 1, now + float(words[1]), now - 5)
                whole[jobid] = Run(jobid, times[2], words[0], *times[:2], 0, 0, "", QUEUE)
                start, deadline, due = (f"{moment:.6f}" for moment in times)
                record = f"{words[0]} {start} {deadline} {due} 0 0 {words[2]} {QUEUE}"
            client.hset(keys.running, jobid, record)
    for tag, (batch, lease, key) in tags.items():
        if batch is not None:
            client.hset(keys.batches, tag, batch)
        if lease is not None:
            client.zadd(keys.leases, {tag: now + lease})
        if key == "a set":
            client.sadd(keys.inflight(tag), "x")
        elif key is not None:
            client.set(keys.inflight(tag), key[0], px=key[1])
    assert all(well for _, well in bike.repair())
    assert list(bike.fsck()) == []
    assert list(bike.repair()) == []
    words = dict(zip(whole, store.runs.heartbeat([*whole.values()]), strict=True)) if whole else {}
    assert {word for jobid, word in words.items() if whole[jobid].deadline > now + 5} <= {"ok"}
    last = max((lease for _, lease in dump(store).get(keys.leases, [])), default=0.0)
    assert last <= now + 203, "none is for ever"
    bike.dispatch_due(max(last, now + 20))
    assert nothing_is_held(bike)
    assert list(bike.fsck()) == []
    bike.dispatch_due(now + YEAR)
    assert sorted(drained(bike)) == ["a:A", "b:A", "c:A"]
    assert list(bike.fsck()) == []


def test_a_run_past_its_deadline_is_left_to_the_dispatcher(bike):
    run = flight(bike, timeout=0.01)
    wait_until(lambda: clock(bike) > run.deadline)
    give(bike, "SET .inflight-tag other; DEL .leases")
    repaired(bike)
    state = state_of(bike)
    assert (state.inflight_ms, state.lease) == (-2, run.deadline + GRACE)


@pytest.mark.parametrize("is_the_same", [True, False])
def test_a_run_that_waits_in_a_queue_beside_the_one_in_flight_is_owed_unless_it_is_the_same(bike, is_the_same):
    run = flight(bike)
    due = f"{run.due if is_the_same else clock(bike):.6f}"
    give(bike, f"LPUSH .work-A job:A; HSET .queued job:A '{due} {QUEUE}'")
    repaired(bike)
    assert state_of(bike).run.next == ("-" if is_the_same else f"due:{due}")
    word = "timeline" if is_the_same else "queue"
    assert end(bike.store, run, NextState("next", clock(bike) + 100), clock(bike))[:2] == ("ok", word)
    assert drained(bike) == ([] if is_the_same else ["job:A"])


def test_the_run_of_an_unset_job_completes(bike):
    run = flight(bike)
    bike.unset("job:A")
    give(bike, "HSET .statuses job:A WRK:1; HSET .retry-states job:A '1 0'")
    repaired(bike)
    assert bike.store.runs.heartbeat([run]) == ["ok"]
    assert bike.store.runs.end(run, NextState("next"))[:2] == ("ok", "unset")
    assert list(bike.fsck()) == []


# Of what is left to decide


@pytest.mark.parametrize("event", ["STP", "DIE", "BAD"])
def test_a_job_that_was_stopped_stays_so(bike, event):
    bike.set("job:A", "EVERY:1h")
    give(bike, f"DEL .timeline; HSET .statuses job:A {event}:1; ZADD .leases 1 job:A")
    repaired(bike)
    assert state_of(bike).status == f"{event}:1"
    assert runs_of(bike) == []


# Due at -550; -450 to -50 were missed.
@pytest.mark.parametrize(("catchup", "missed", "ran"), [("last", 5, ["job:A"]), ("none", 6, [])])
def test_what_came_due_while_it_was_nowhere_is_for_catchup(server_url, client, prefix, catchup, missed, ran):
    bike = Redbike(Once("A"), prefix, server_url, catchup=catchup)
    now = clock(bike)
    bike.set("job:A", f"EVERY:100@{now - 1050:.0f}")
    give(bike, f"DEL .timeline; HSET .statuses job:A TML:{now - 620:.0f}")
    bike.store.timeline.advance(now)
    [line] = repaired(bike)
    assert ("6 occurrences counted as missed" in line) == (catchup == "none")
    assert drained(bike) == ran
    assert state_of(bike).skipped == {"missed": missed}
    assert runs_of(bike) == ["job:A"]


def test_a_job_that_waited_to_be_tried_again_is(bike):
    now = clock(bike)
    bike.set("job:A", f"AT:{now - 100:.0f}", after=now - 200)
    run = take_one(bike.store, [(QUEUE, 100.0)], "tag")
    bike.store.runs.end(run, NextState("due", "+50", retry_state=f"1 0 1 {run.due:.6f} -"))
    give(bike, "DEL .timeline")
    repaired(bike)
    again = take_one(bike.store, [(QUEUE, 100.0)], "again")
    assert (again.due, again.attempt) == (run.due, 2)


def test_an_instant_that_is_to_come_is_put_right(bike):
    now = clock(bike)
    bike.store.timeline.advance(now + 400 * 86400)
    assert "dispatched up to" in next(bike.fsck())
    repaired(bike)
    assert list(bike.fsck()) == []
    assert bike.store.timeline.read_dispatched()[1] == pytest.approx(now, abs=60)


def test_a_job_without_a_queue_waits_on_the_timeline(server_url, client, prefix):
    class Fussy(Once):
        def queue_for(self, jobid):
            if self.worked:
                raise ValueError("no")
            return super().queue_for(jobid)

    bike = Redbike(Fussy("A"), prefix, server_url)
    bike.set("job:A", "NOW")
    bike.worker.worked.append("broken")
    give(bike, "DEL .work-A .queued")
    repaired(bike)
    assert state_of(bike).timeline is not None


def test_what_cannot_be_repaired_is_said_and_the_rest_is_repaired(bike):
    bike.set("job:A", "NOW")
    bike.set("lost:A", "NOW")
    give(bike, "HSET .schedules job:A nonsense lost:A nonsense; LPUSH .work-A job:A; SET .mine x")
    give(bike, "LREM .work-A 0 lost:A; HDEL .queued lost:A")
    lines = dict(line.split(":A'" if ":A'" in line else "'", 1) for line, well in bike.repair() if not well)
    assert "left in the queue 'work-A' once -- not repaired: its schedule cannot be read" in lines["'job"]
    assert "repaired:" not in lines["'lost"].replace("not repaired: its status is ENQ", "")
    assert "not a key of Redbike" in lines["the key "]
    assert bike.client.get(f"{bike.store.keys.prefix}-mine") == b"x"


def test_a_key_of_another_type_is_named_and_nothing_is_touched(bike):
    bike.set("job:A", "NOW")
    give(bike, "DEL .timeline .queued; SET .timeline x")
    before = dump(bike.store)
    [(line, well)] = bike.repair()
    assert line == f"the key '{bike.store.keys.timeline}' is a string, not a zset, so the jobs cannot be checked"
    assert (well, dump(bike.store)) == (False, before)
    assert list(bike.fsck()) == [line]
    give(bike, "DEL .timeline")
    repaired(bike)
    assert runs_of(bike) == ["job:A"]


def test_queues_that_an_older_version_filled_are_known_again(bike):
    # redbike 0.13.1 kept no records of what is queued.
    bike.client.hset(bike.store.keys.schedules, mapping={"old:A": "CONTINUE", "older:A": "NOW"})
    bike.client.hset(bike.store.keys.statuses, mapping={"old:A": "ENQ:1381720578", "older:A": "WRK:1381720578"})
    bike.client.lpush(bike.store.keys.queue(QUEUE), "old:A")
    bike.client.lpush(f"{bike.store.keys.prefix}-notes", "old:A")
    [line] = [line for line, well in bike.repair() if not well]
    assert line.startswith(f"the key '{bike.store.keys.prefix}-notes'")
    bike.client.delete(f"{bike.store.keys.prefix}-notes")
    assert runs_of(bike) == ["old:A", "older:A"]


def test_a_repair_is_committed_only_if_nothing_has_changed(bike):
    bike.set("job:A", "NOW")
    give(bike, "DEL .work-A")
    found = state_of(bike)
    wanted = Correction(bike.store, 0.0, bike.settings).apply(found)
    assert bike.store.upkeep.repair([(found, wanted)])[0] is True
    assert bike.store.upkeep.repair([(found, wanted)])[0] is False, "the same request again"
    assert bike.client.llen(bike.store.keys.queue(QUEUE)) == 1
    bike.unset("job:A")
    assert bike.store.upkeep.repair([(found, wanted)])[0] is False
    assert dump(bike.store).keys() == {bike.store.keys.queues, *bike.store.keys.of_queue(QUEUE)}
    assert drained(bike) == []
    assert dump(bike.store).keys() == {bike.store.keys.queues, bike.store.keys.wake(QUEUE)}


def test_an_entry_becomes_no_tombstone_and_a_tombstone_no_entry(bike):
    """Where a job has both, the one that is left is whichever it is to have."""
    bike.set("job:A", "NOW")
    bike.set("gone:A", "NOW")
    bike.unset("gone:A")
    give(bike, "LPUSH .work-A job:A gone:A; SADD .tombstones-work-A job:A")
    repaired(bike)
    keys = bike.store.keys
    assert sorted(bike.client.lrange(keys.queue(QUEUE), 0, -1)) == [b"gone:A", b"job:A"]
    assert bike.client.smembers(keys.tombstones(QUEUE)) == {b"gone:A"}
    assert drained(bike) == ["job:A"]


def test_an_entry_that_is_gone_meanwhile_is_not_recorded(bike):
    bike.set("job:A", "NOW")
    give(bike, "DEL .queued")
    found = state_of(bike)
    wanted = Correction(bike.store, 0.0, bike.settings).apply(found)
    give(bike, "DEL .work-A")
    assert bike.store.upkeep.repair([(found, wanted)]) == [False]
    repaired(bike)
    assert runs_of(bike) == ["job:A"]


def test_of_several_entries_the_oldest_keeps_its_turn(bike):
    bike.set("job:A", "NOW")
    bike.set("other:A", "NOW")
    give(bike, "LPUSH .work-A job:A")
    repaired(bike)
    assert [bike.work_one(), bike.work_one(), bike.work_one()] == ["job:A", "other:A", None]


def test_nothing_is_left_of_the_failure_of_an_unset_job(bike):
    bike.set("job:A", "NOW")
    run = take_one(bike.store, [(QUEUE, 100.0)], "tag")
    bike.store.runs.end(run, NextState("die", failure={"error": "it broke"}))
    give(bike, "DEL .schedules")
    repaired(bike)
    list(bike.store.archiver.archive())
    keys = bike.store.keys
    assert set(dump(bike.store)) == {keys.queues, keys.wake(QUEUE), keys.history, keys.counts}
    repaired(bike)
    assert set(dump(bike.store)) == {keys.queues, keys.wake(QUEUE), keys.counts}


def test_an_idle_dispatcher_and_an_idle_worker_are_woken(bike):
    bike.set("job:A", "NOW")
    bike.set("later:A", "EVERY:1h")
    give(bike, "DEL .work-A .timeline .wakeup .wake-work-A")
    repaired(bike)
    assert bike.client.llen(bike.store.keys.wakeup) == 1
    assert bike.client.llen(bike.store.keys.wake(QUEUE)) == 1


@pytest.mark.parametrize(
    "name", sorted({*FIXED, QUEUE, f"wake-{QUEUE}", f"tombstones-{QUEUE}", "inflight-tag"} - {*REPORTS})
)
def test_any_one_key_may_be_lost(bike, name):
    bike.set("later:A", "EVERY:1h")
    bike.set("once:A", f"AT:{clock(bike) + 1000:.0f}")
    run = flight(bike, "flying:A")
    bike.set("again:A", "CONTINUE")
    bike.set("now:A", "NOW")
    bike.set("over:A", "STOP")
    for jobid in ("gone:A", "moved:A"):
        bike.set(jobid, "NOW")
    bike.unset("gone:A")
    bike.set("moved:A", "EVERY:2h")
    bike.client.delete(f"{bike.store.keys.prefix}-{name}")
    assert all(well for _, well in bike.repair())
    assert list(bike.fsck()) == []
    assert list(bike.repair()) == []
    assert bike.store.runs.heartbeat([run]) == ["ok"]
    if name == "schedules":
        assert bike.store.runs.end(run, NextState("next"))[:2] == ("ok", "unset")
        assert runs_of(bike) == []
        return
    assert runs_of(bike) == ["again:A", "flying:A", "later:A", "moved:A", "now:A", "once:A"]


# While dispatchers and workers go on

JOBS = make_module(
    "time.sleep(0.05 if jobid.startswith('slow') else 0)",
    "with open('ran.log', 'a') as file: print(jobid, file=file)",
    "return 0.01 if jobid.startswith('again') else None",
    head="import time",
)


@pytest.fixture
def farm(shell, server_url):
    """Two workers and two dispatchers, as real processes, and the facade."""
    (shell.folder / "jobs.py").write_text(JOBS)
    bike = Redbike(Once("A:B"), redis_config=server_url)
    for command in (("dispatch",), ("dispatch",), ("work", "jobs:Worker('A:B')"), ("work", "jobs:Worker('B:A')")):
        shell.start(*command)
    wait_until(lambda: sum(each["cmd"] == "blpop" for each in bike.client.client_list()) == 4)
    return bike


def ran(shell):
    path = shell.folder / "ran.log"
    return collections.Counter(path.read_text().splitlines()) if path.exists() else collections.Counter()


def busy(bike, number):
    """Jobs of every kind, of which `number` are to run once."""
    now = clock(bike)
    pairs = [(f"again{n}:A", "CONTINUE") for n in range(20)]
    pairs += [(f"tick{n}:B", "EVERY:0.2") for n in range(100)]
    pairs += [(f"slow{n}:A", "EVERY:0.3") for n in range(10)]
    pairs += [(f"once{n}:B", f"AT:{now + n * 4 / number:.6f}") for n in range(number // 2)]
    pairs += [(f"once{n}:A", "NOW") for n in range(number // 2, number)]
    assert all(ok is True for _, ok in bike.set_many(pairs))


@pytest.mark.acceptance
@pytest.mark.parametrize(("number", "least"), [(500, 10), pytest.param(1000, 30, marks=pytest.mark.nightly)])
def test_a_system_that_is_well_and_busy_is_left_alone(shell, farm, number, least):
    busy(farm, number)
    looks, lines = 0, []
    while looks < least or sum(job.startswith("once") for job in ran(shell)) < number:
        lines += farm.repair()
        again = [(f"again{n}:A", "NOW" if (n + looks) % 2 else "CONTINUE") for n in range(20)]
        assert all(ok is True for _, ok in farm.set_many(again))
        looks += 1
    assert lines == []
    counts = ran(shell)
    assert {job: count for job, count in counts.items() if job.startswith("once") and count > 1} == {}
    assert min(counts[f"tick{n}:B"] for n in range(100)) > 1


@pytest.mark.acceptance
@pytest.mark.parametrize(("number", "times"), [(600, 6), pytest.param(2000, 20, marks=pytest.mark.nightly)])
def test_damage_to_a_busy_system_is_repaired_once_for_each_job(shell, farm, number, times):
    """Entries and places vanish at random while jobs flow; each that was to run once still runs, and only once."""
    generator = random.Random(5)
    busy(farm, number)
    keys = farm.store.keys
    lines = []
    for _ in range(times):
        once = [f"once{generator.randrange(number)}:{queue}" for queue in "AB" for _ in range(50)]
        for jobid in once:
            farm.client.lrem(keys.queue(f"work-{jobid[-1]}"), 0, jobid)
        farm.client.zrem(keys.timeline, *once)
        lines += farm.repair()
    assert lines
    assert all(well for _, well in lines)
    wait_until(lambda: sum(job.startswith("once") for job in ran(shell)) == number, timeout=60)
    assert {job: count for job, count in ran(shell).items() if job.startswith("once") and count > 1} == {}
    assert list(farm.fsck()) == []


# After the server has lost the end of its log


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("step", "least"),
    [
        (101, 7),
        pytest.param(17, 30, marks=pytest.mark.acceptance),
        pytest.param(1, 501, marks=pytest.mark.nightly),
    ],
)
def test_a_log_cut_anywhere_gives_an_earlier_instant(tmp_path, step, least):
    """Within a take and an end: no job is half moved, and each is in circulation once."""
    assert check_all(tmp_path, last=2, step=step) >= least


# On the command line


def test_the_command_says_what_it_did_and_exits_0_if_all_is_well_then(shell, client):
    (shell.folder / "jobs.py").write_text(
        "from redbike import RoundRobin\n\n\n"
        "class Worker(RoundRobin):\n"
        "    def queue_for(self, jobid):\n"
        "        return 'mine'\n"
    )
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker = jobs:Worker('A')\n")
    shell.run("set", "job:A", "NOW")
    assert shell.run("fsck", "--repair").stdout == ""
    client.delete("redbike-mine")
    assert shell.run("fsck").returncode == 1
    done = shell.run("fsck", "--repair")
    assert (done.returncode, done.stderr) == (0, "")
    problem = "'job:A': it is recorded as queued, but is not in the queue 'mine'"
    assert done.stdout == f"{problem} -- repaired: put into the queue 'mine'\n"
    assert shell.run("fsck").returncode == 0
    client.hset("redbike-schedules", "job:A", "nonsense")
    done = shell.run("fsck", "--repair")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("'job:A': its schedule cannot be read: ")
    assert " -- not repaired: its schedule cannot be read: " in done.stdout


def test_what_a_newer_version_has_written_is_left_alone(bike, client):
    bike.set("a:A", "EVERY:1h")
    keys = bike.store.keys
    client.hset(keys.statuses, "a:A", "NEW:1")
    client.hset(keys.agreed, "protocol", PROTOCOL + 1)
    before = dump(bike.store)
    with pytest.raises(OtherProtocol, match=r"^a newer version of redbike has worked under this prefix"):
        list(bike.repair())
    assert dump(bike.store) == before
    client.hset(keys.agreed, "protocol", PROTOCOL - 1)
    assert len(list(bike.repair())) == 1
