"""Data as the version before has written them, which had a lease for each run and one set for all tombstones.

``tests/cases/older.json`` has jobs in every state: what is in each key, and the instant at which that was so. Of the
runs in flight those of ``lost`` jobs are of a worker that was killed a minute before, those of ``live`` ones of another
that has just taken them. In the queue ``work-L``, which is long, entries were left behind.
"""

import json
import logging
import re
from pathlib import Path

import pytest

from redbike import Redbike
from redbike.store.inspection.listing import list_all
from redbike.store.inspection.tags import check_tag, find_bad_tags
from redbike.store.records import Streak
from redbike.store.run import LEASE
from tests.states import dump
from tests.store.inspection.mending import drained, repaired, state_of
from tests.verbs import Once, take_many

OLDER = json.loads((Path(__file__).parents[2] / "cases" / "older.json").read_text())
TIME = re.compile(r"(?<![\w.])1[67]\d{8}(?!\d)")  # the whole seconds of an instant
YEAR = 366 * 86400.0
QUEUES = [("work-A", 500.0), ("work-B", 500.0), ("work-L", 500.0)]
GONE = {"long3:L", "long4:L", "lost.unset:A", "live.unset:A"}
STOPPED = {"stopped:A": "STP", "ended:A": "STP", "long6:L": "STP", "dead:A": "DIE", "bad:A": "BAD"}
LONG = [f"long{n}:L" for n in range(110)]
LEFT_BEHIND = {"long3:L", "long4:L", "long5:L", "long6:L", "long8:L", "long108:L"}  # in the queue work-L
OUT_OF_TURN = [job for job in LONG if job not in LEFT_BEHIND]


def moved(content, seconds):
    """Every instant in what is kept, so many seconds later."""
    return json.loads(TIME.sub(lambda found: str(int(found[0]) + seconds), json.dumps(content)))


def load(client, prefix):
    """Put the data into Redis as if they had been written just now; the instant of that by Redis' clock."""
    now, micros = client.time()
    later = now - int(OLDER["made"]) + (micros / 1e6 < OLDER["made"] % 1) * -1
    for name, held in moved(OLDER["keys"], later).items():
        key, content = f"{prefix}-{name}", held["content"]
        if held["type"] == "hash":
            client.hset(key, mapping=content)
        elif held["type"] == "zset":
            client.zadd(key, content)
        elif held["type"] == "list":
            client.rpush(key, *content)
        elif held["type"] == "set":
            client.sadd(key, *content)
        else:
            client.set(key, content)
        if "expires" in held:
            client.pexpireat(key, int(held["expires"] * 1000))
    return OLDER["made"] + later


@pytest.fixture
def bike(server_url, client, prefix):
    bike = Redbike(Once("A:B:L"), prefix, server_url)
    bike.now = load(client, prefix)
    return bike


def older(kind, field):
    return [name for name in OLDER["keys"][kind]["content"] if name.startswith(field)]


LIVE = older("leases", "live.")
LOST = older("leases", "lost.")


def of_runs(bike, jobids):
    """All that is kept of their runs: records, leases, in-flight keys, statuses, places on the timeline."""
    kept = dump(bike.store)
    keys = bike.store.keys
    leases, timeline = dict(kept[keys.leases]), dict(kept[keys.timeline])
    return {
        jobid: (
            kept[keys.running].get(jobid.encode()),
            leases.get(jobid.encode()),
            kept.get(keys.inflight(jobid)),
            kept[keys.statuses].get(jobid.encode()),
            timeline.get(jobid.encode()),
        )
        for jobid in jobids
    }


def event_of(bike, jobid):
    return (state_of(bike, jobid).status or "")[:3]


def nothing_is_left_of_older_keys(bike):
    store = bike.store
    kept = dump(store)
    jobids = {jobid for held in kept.values() if isinstance(held, dict) for jobid in held}
    assert store.keys.withdrawn not in kept
    assert [key for key in kept if key.startswith(store.keys.inflight_base)] == []
    assert {member for member, _ in kept.get(store.keys.leases, [])} & jobids == set()


def test_the_data_have_jobs_in_every_state(bike):
    """So that nothing below is true of no job."""
    assert len(LIVE) == 12
    assert len(LOST) == 15
    assert {*older("running", "")} == {*LIVE, *LOST}
    nexts = {record.split(" ")[6].partition(":")[0] for record in OLDER["keys"]["running"]["content"].values()}
    assert nexts == {"-", "set", "once", "due"}
    events = {status[:3] for status in OLDER["keys"]["statuses"]["content"].values()}
    assert events == {"TML", "ENQ", "WRK", "STP", "DIE", "BAD"}
    assert {member.partition("\n")[0] for member in OLDER["keys"]["withdrawn"]["content"]} == LEFT_BEHIND
    assert len(OLDER["keys"]["work-L"]["content"]) > 100
    assert set(OLDER["keys"]) & {"batches", "tombstones-work-L"} == set()
    assert bike.now <= bike.store.timeline.read_clock()


def test_fsck_finds_nothing_wrong_and_tells_of_the_older_leases(bike, caplog):
    caplog.set_level(logging.INFO, "redbike")
    before = dump(bike.store)
    assert list(bike.fsck()) == []
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(LIVE) + len(LOST)
    assert all("with a lease of its own, as an older version has it" in line for line in said)
    assert {line.split("'")[1] for line in said} == {*LIVE, *LOST}
    assert dump(bike.store) == before, "it only looks"


def test_the_command_exits_0(shell, client):
    load(client, "redbike")
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker = redbike:RoundRobin('A:B:L')\n")
    for options in ((), ("--repair",)):
        done = shell.run("fsck", *options)
        assert (done.returncode, done.stdout) == (0, "")


def test_repair_has_nothing_to_do_and_runs_of_an_older_worker_that_is_alive_are_not_touched(bike):
    runs, alive = of_runs(bike, [*LIVE, *LOST]), of_runs(bike, LIVE)
    assert list(bike.repair()) == []
    assert of_runs(bike, [*LIVE, *LOST]) == runs
    assert list(bike.fsck()) == []
    bike.dispatch_due(bike.now)
    assert of_runs(bike, LIVE) == alive
    assert not {*LIVE} & {*drained(bike)}
    assert list(bike.repair()) == []
    assert of_runs(bike, LIVE) == alive


@pytest.mark.parametrize("name", ["lost", "live"])
def test_the_runs_of_a_dead_worker_are_recovered_in_one_pass(bike, name):
    """Each tag as a whole: one that was alone counts as a loss, several are given back and run alone."""
    bike.dispatch_due(bike.now + (0 if name == "lost" else LEASE))
    found = {
        state.jobid.split(".", 1)[1][:-2]: state for state in bike.store.questions.inspect(older("running", f"{name}."))
    }
    assert not any(state.running or state.lease is not None for state in found.values())

    def streak(which):
        return Streak.parse(found[which].streak)

    assert event_of(bike, f"{name}.alone:A") == "ENQ"
    assert (streak("alone").losses, streak("alone").tries, streak("alone").alone) == (1, 1, False)
    for which in ("one", "two", "three", "mixed.plain", "mixed.owed"):
        assert found[which].status[:3] == "ENQ"
        assert (streak(which).losses, streak(which).alone) == (0, True)
    assert found["owed"].status[:3] == "ENQ"
    assert streak("owed").losses == 1
    # What was set during the run counts, not how it ended.
    for which, due in (("set", 6200), ("mixed.set", 6200), ("once", 1000)):
        assert found[which].status[:3] == "TML"
        assert found[which].timeline == pytest.approx(bike.now + due, abs=1)
        assert found[which].streak == ""
    assert found["stopped"].status[:3] == "STP"
    assert found["unset"].schedule is found["unset"].status is None
    if name == "lost":
        assert (found["second"].status[:3], streak("second").losses) == ("ENQ", 2)
        assert found["third"].status[:3] == "DIE"
        assert found["third"].failure["error"] == "its worker died or was cut off, 3 times in a row"
        assert (found["over"].status[:3], streak("over").losses) == ("ENQ", 1)
    assert list(bike.fsck()) == []


@pytest.mark.parametrize("page", [1, 2, 12])
def test_what_was_taken_together_is_given_back_together_however_it_is_found(bike, monkeypatch, page):
    """Also if one survey does not tell of all of them."""
    for module in ("state.timeline", "state.upkeep", "running.dispatcher"):
        monkeypatch.setattr(f"redbike.{module}.PAGE", page)
    bike.dispatch_due(bike.now + LEASE + 1)
    for name in ("live", "lost"):
        states = bike.store.questions.inspect([f"{name}.{which}:A" for which in ("one", "two", "three", "mixed.plain")])
        assert [Streak.parse(state.streak) for state in states] == [Streak(alone=True)] * 4
    assert list(bike.fsck()) == []


def test_those_that_are_to_run_alone_do(bike):
    bike.dispatch_due(bike.now)
    taken, batches = [], 0
    while runs := take_many(bike.store.at(bike.now), QUEUES[:1], [1], f"tag{batches}", 50):
        batches += 1
        taken += runs
        alone = [run.jobid for run in runs if run.jobid in ALONE]
        assert len(runs) == 1 or alone == []
    assert {run.jobid for run in taken} >= ALONE


ALONE = {f"{name}:A" for name in ("alone.one", "alone.two", "lost.one", "lost.two", "lost.three")}
ALONE |= {"lost.mixed.plain:A", "lost.mixed.owed:A"}


@pytest.mark.parametrize("process", ["dispatcher", "worker"])
def test_what_was_withdrawn_does_not_run_whoever_is_first(bike, client, process):
    """The others keep their order, and one that was enqueued again after that has its place."""
    if process == "dispatcher":
        bike.dispatch_due(bike.now)
        assert client.smembers(bike.store.keys.withdrawn) == set()
        members = {jobid.decode() for jobid in client.smembers(bike.store.keys.tombstones("work-L"))}
        assert members == LEFT_BEHIND
        assert list(bike.fsck()) == []
    ran = drained(bike)
    assert [jobid for jobid in ran if jobid.endswith(":L") and jobid != "long8:L"] == OUT_OF_TURN
    assert ran.count("long8:L") == 1, "in the queue where it waits now"
    assert client.exists(bike.store.keys.withdrawn, *bike.store.keys.of_queue("work-L")[::2]) == 0
    assert list(bike.fsck()) == []


@pytest.mark.parametrize("jobid", sorted(LEFT_BEHIND))
def test_a_job_that_is_set_before_its_entry_is_adopted_runs_once(bike, jobid, client):
    """By a client, which adopts nothing: the job has its old place then, as ever."""
    bike.set(jobid, "NOW")
    bike.dispatch_due(bike.now)
    assert list(bike.fsck()) == []
    ran = drained(bike)
    assert ran.count(jobid) == 1
    if jobid != "long8:L":
        expected = [job for job in LONG if job == jobid or job in OUT_OF_TURN]
        assert [job for job in ran if job.endswith(":L") and job != "long8:L"] == expected
    assert client.exists(bike.store.keys.withdrawn, *bike.store.keys.of_queue("work-L")[::2]) == 0


def test_a_job_whose_only_entry_has_a_tombstone_of_an_older_version_is_not_lost(bike, client):
    client.sadd(bike.store.keys.withdrawn, "long20:L\nwork-L")
    bike.dispatch_due(bike.now)
    assert list(bike.fsck()) == []
    assert drained(bike).count("long20:L") == 1


def test_what_is_adopted_is_whole_also_if_the_dispatcher_dies_then(bike):
    bike.store.at(bike.now).upkeep.adopt(LOST, {"work-L": sorted(LEFT_BEHIND)})
    assert list(bike.fsck()) == []
    [held] = bike.store.questions.inspect_tags({"Tag-of-lost.several": []})
    assert {*held.listed} == {*held.named} == {"lost.one:A", "lost.two:A", "lost.three:A"}
    assert (held.kind, held.lease) == ("string", pytest.approx(bike.now, abs=1e-5))
    [over] = bike.store.questions.inspect_tags({"Tag-of-lost.over": []})
    assert (over.kind, over.listed) == ("none", ["lost.over:A"])
    bike.dispatch_due(bike.now)
    assert not set(dump(bike.store)[bike.store.keys.running]) & {jobid.encode() for jobid in LOST}


def test_what_is_adopted_while_fsck_looks_is_not_reported(bike):
    listing = list_all(bike.store)
    bike.store.at(bike.now).upkeep.adopt(LOST)
    assert list(find_bad_tags(bike.store, listing)) == []


def test_what_is_damaged_beside_older_tombstones_is_repaired_once(bike, client):
    """They are adopted first, so that none is left of an entry that is removed."""
    for jobid in ("long4:L", "long5:L", "long20:L"):
        client.lpush(bike.store.keys.queue("work-L"), jobid)
    assert len(list(bike.fsck())) == 3
    repaired(bike)
    assert client.exists(bike.store.keys.withdrawn) == 0
    ran = drained(bike)
    assert [ran.count(jobid) for jobid in ("long4:L", "long5:L", "long20:L")] == [0, 0, 1]


def test_a_queue_that_only_an_older_tombstone_names_is_known_again(bike, client):
    keys = bike.store.keys
    client.lpush(keys.queue("elsewhere"), "later:A")
    client.sadd(keys.withdrawn, "later:A\nelsewhere")
    [line] = bike.fsck()
    assert line == f"the key {keys.queue('elsewhere')!r} is a queue that is missing in the set of queues"
    repaired(bike)
    assert client.sismember(keys.queues, "elsewhere")


def test_adopting_twice_is_adopting_once(bike):
    bike.dispatch_due(bike.now)
    before = dump(bike.store)
    bike.store.at(bike.now).upkeep.adopt(LOST, {"work-L": sorted(LEFT_BEHIND)})
    bike.store.upkeep.adopt_tombstones()
    assert dump(bike.store) == before


def test_everything_else_runs_as_it_should_and_nothing_is_left_of_the_older_keys(bike):
    bike.dispatch_due(bike.now + LEASE)
    now = drained(bike)
    assert sorted(now) == sorted(
        [
            *OUT_OF_TURN,
            *(f"{name}:A" for name in ("now", "again", "overdue", "alone.one", "alone.two")),
            *("long8:L", "retry.now:B", "lost.second:A", "lost.over:A"),
            *(f"{name}.{which}:A" for name in ("live", "lost") for which in ("alone", "one", "two", "three", "owed")),
            *(f"{name}.mixed.{which}:A" for name in ("live", "lost") for which in ("plain", "owed")),
        ]
    )
    assert list(bike.fsck()) == []
    nothing_is_left_of_older_keys(bike)

    going = {jobid for jobid, schedule in bike.get_schedules() if schedule != "STOP"} - {
        "dead:A",
        "lost.third:A",
        "again:A",
    }
    bike.dispatch_due(bike.now + YEAR)
    assert sorted(drained(bike)) == sorted(going)
    assert going > {
        "retry.later:B",
        "later:A",
        "at:A",
        "cron:A",
        "rule:A",
        "broken:A",
        "long5:L",
        "long108:L",
        "lost.once:A",
    }

    assert {jobid: event_of(bike, jobid) for jobid in STOPPED} == STOPPED
    assert GONE.isdisjoint(jobid for jobid, _, _ in bike.get_statuses())
    assert [failure["jobid"] for failure in bike.failures()] == ["dead:A", "lost.third:A"]
    assert list(bike.fsck()) == []
    nothing_is_left_of_older_keys(bike)
    for jobid, _ in list(bike.get_schedules()):
        bike.unset(jobid)
    bike.unset("bad:A")
    keys = bike.store.keys
    known = {keys.queues, keys.wakeup, keys.dispatched, *(keys.wake(f"work-{name}") for name in "ABCL")}
    known |= {keys.journal, keys.skipped}  # what has run, and how many occurrences were not run
    assert set(dump(bike.store)) <= known


# Next to data as they are kept now


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_lease_that_only_looks_like_an_older_one_costs_no_run(bike, is_lost):
    """The job is in flight under a tag that lists it, or has listed it: no worker of an older version has it."""
    bike.set("new:B", "NOW")
    runs = take_many(bike.store, [("work-B", 500.0)], [1], "new", 2)
    assert [run.jobid for run in runs] == ["retry.now:B", "new:B"]
    if is_lost:
        bike.client.hset(bike.store.keys.batches, "new", "\nretry.now:B\n")
    bike.client.zadd(bike.store.keys.leases, {"new:B": 1.0})
    assert any("the tag 'new:B'" in line for line in bike.fsck()) != is_lost
    bike.dispatch_due(runs[0].start + 1)
    assert bike.store.runs.heartbeat(runs) == ["ok", "ok"]
    assert bike.client.hget(bike.store.keys.batches, "new").split() == [b"retry.now:B", b"new:B"]
    assert list(bike.fsck()) == []


@pytest.mark.parametrize("batch", ["", "\n\n"])
def test_nothing_is_left_of_a_lost_tag_with_an_empty_list(bike, batch):
    keys = bike.store.keys
    bike.client.hset(keys.batches, "empty", batch)
    bike.client.zadd(keys.leases, {"empty": 1.0})
    bike.client.set(keys.inflight("empty"), batch, px=50_000)
    bike.dispatch_due(bike.now)
    assert [held for held in bike.store.questions.inspect_tags({"empty": []}) if any(check_tag(held))] == []
    assert list(bike.fsck()) == []


def test_the_rest_of_a_tag_is_adopted_when_its_own_lease_has_ended(bike, client):
    """A worker may have renewed the leases of a part of those that it took together."""
    client.zadd(bike.store.keys.leases, {"lost.two:A": bike.now + 5})
    bike.dispatch_due(bike.now)
    assert state_of(bike, "lost.two:A").status[:3] == "WRK"
    assert list(bike.fsck()) == []
    bike.dispatch_due(bike.now + 5)
    assert event_of(bike, "lost.two:A") == "ENQ"
    ran = drained(bike)
    assert [ran.count(f"lost.{which}:A") for which in ("one", "two", "three")] == [1, 1, 1]
    assert list(bike.fsck()) == []
