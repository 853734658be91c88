"""Jobs for every host: each host has a job of its own, and what steers the base steers them all."""

import io
import json
import re

import pytest

from redbike import BadConfig, BadJobId, BadSchedule, Jobs, NoResult, NoSuchJob, Redbike, RoundRobin, StopWork
from redbike.config.settings import Settings
from redbike.errors import ServerError
from redbike.loop.every_host import BY, GONE, EveryHost
from redbike.loop.registration import MOST_QUEUES, shorten, sum_others
from redbike.queries.check.jobs import JobsCheck
from redbike.queries.health import check_health
from redbike.queries.hosts import list_hosts
from redbike.queries.place import describe_job
from redbike.queries.rehearsal.outlook import Change
from redbike.queries.rehearsal.rehearser import Rehearser
from redbike.queries.why.past import Reasons
from redbike.schedule.clock import Clock
from redbike.schedule.jitter import compute_jitter
from redbike.store.inspection.fsck import fsck
from redbike.store.job import JobSearch
from redbike.store.processes import ProcessRecord
from redbike.store.questions import Questions
from redbike.store.workers import KEPT
from redbike.web import app
from tests.commandline import make_module
from tests.verbs import Quiet
from tests.waiting import wait_until
from tests.web.api import Api
from tests.web.conftest import BASE as ADDRESS
from tests.web.conftest import TestClient
from tests.web.html import read

BASE = "clean:A@all"
FIRST, SECOND = "clean:A@web1", "clean:A@web2"


class Farm:
    """Hosts with workers of the queue A, which come and go, at an instant that a test moves."""

    def __init__(self, client, prefix):
        self.bike = Redbike(Quiet("A"), prefix, client)
        self.now = self.bike.store.timeline.read_clock()

    @property
    def store(self):
        return self.bike.store.at(self.now)

    def come(self, *hosts, queue="work-A"):
        for host in hosts:
            record = ProcessRecord(self.now, "worker", host, 1, (queue,), "1", for_host=True)
            self.store.workers.register(f"{host:x<8}"[:8], record.format_entry())

    def leave(self, host):
        self.store.workers.unregister(f"{host:x<8}"[:8])

    def spread(self, later=0.0, here=()):
        self.now += later
        self.come(*here)
        EveryHost(self.store, self.bike.settings).spread_all()

    def show(self):
        """The schedules of all jobs but the base."""
        found = dict(self.bike.store.scan(self.store.keys.schedules))
        return {jobid: text for jobid, text in found.items() if jobid != BASE}


@pytest.fixture
def farm(client, prefix):
    farm = Farm(client, prefix)
    farm.come("web1", "web2")
    yield farm
    # Where the test was ahead of the server's clock, that is all that is wrong.
    assert [line for line in fsck(farm.bike.store) if "ahead" not in line and "in the future" not in line] == []


def test_each_host_has_a_job_with_the_schedule_options_and_data(farm):
    assert farm.bike.set(BASE, "0 3 * * *", retries=2, data={"a": 1})
    assert farm.show() == {FIRST: "0 3 * * *", SECOND: "0 3 * * *"}
    for jobid in (FIRST, SECOND):
        told = farm.bike.tell(jobid)
        assert (told["options"], told["data"], told["status"][:3]) == ({"retries": 2}, {"a": 1}, "TML")
    told = farm.bike.tell(BASE)
    assert [each["host"] for each in told["hosts"]] == ["web1", "web2"]
    assert told["next_run"] == farm.bike.tell(FIRST)["next_run"]
    assert {job.next_run for job in farm.bike.jobs()} == {told["next_run"]}
    assert farm.bike.tell(FIRST)["host_of"] == BASE
    farm.bike.set("clean:B@all", "0 3 * * *")  # it has no host
    for search, at in ((JobSearch(planned=True), farm.now), (JobSearch(overdue=True), told["next_run"])):
        overview = farm.store.at(at).overview
        for found in (overview.list_jobs(search), overview.read_page(search, patience=60.0).jobs):
            assert sorted(job.jobid for job in found) == [BASE, FIRST, SECOND]
    before = [farm.bike.tell(jobid) for jobid in (BASE, FIRST, SECOND)]
    for _ in range(2):
        farm.spread()
    assert [farm.bike.tell(jobid) for jobid in (BASE, FIRST, SECOND)] == before


def test_who_waits_for_the_base_or_asks_for_what_is_kept_of_it_hears_of_its_jobs(farm):
    questions = {farm.bike.wait: NoSuchJob, farm.bike.result: NoResult, farm.bike.output: NoResult}
    assert farm.bike.set(BASE, "0 3 * * *")
    for ask, error in questions.items():
        with pytest.raises(error, match=f"'{BASE}'.*: it runs as {FIRST}, {SECOND}$"):
            ask(BASE)
    farm.bike.set("clean:B@all", "@daily")
    with pytest.raises(
        NoSuchJob, match="'clean:B@all' will come: it runs as a job on each host, and there is none yet"
    ):
        farm.bike.wait("clean:B@all")


def test_health_of_the_base_is_that_of_its_jobs(farm):
    farm.bike.set(SECOND, "EVERY:1h")  # that of somebody else
    farm.bike.set(BASE, "EVERY:1h")
    farm.bike.set("clean:A", "EVERY:1h")
    assert "jobs" not in farm.bike.health(BASE).topics
    for jobid in (FIRST, SECOND, "clean:A"):
        farm.store.client.hset(farm.store.keys.statuses, jobid, "BAD:1000")
    for named in ([BASE], ["clean:A@a*"], [BASE, "clean:A@a*"], [BASE, FIRST]):
        health = farm.bike.health(*named)
        found = [text for topic, text in zip(health.topics, health.problems, strict=True) if topic == "jobs"]
        assert found == [f"{FIRST} was never scheduled, as its schedule is bad"], named
    assert farm.bike.health(BASE, SECOND).topics.count("jobs") == 2
    assert farm.bike.health("clean:A*").topics.count("jobs") == 3
    for jobid in (FIRST, SECOND, "clean:A"):
        farm.store.client.hset(farm.store.keys.statuses, jobid, "TML:1000")


@pytest.mark.parametrize("named", [BASE, "clean:A@*", SECOND])
def test_of_a_host_that_is_gone_health_says_nothing(farm, named):
    farm.bike.set(BASE, "EVERY:1s")
    farm.store.pauses.pause([SECOND], None, BY, "", 1000.0)
    client, key = farm.store.client, farm.store.keys.pauses
    client.hset(key, SECOND, re.sub(rb"^\S+", b"1000.000000", client.hget(key, SECOND)))
    client.zadd(farm.store.keys.timeline, {FIRST: 4e9})
    assert "jobs" not in farm.bike.health(named).topics
    client.hset(key, SECOND, client.hget(key, SECOND).replace(BY.encode(), b"somebody"))
    assert "jobs" in farm.bike.health(named).topics


def test_set_and_unset_of_the_base(farm):
    farm.bike.set(BASE, "0 3 * * *", retries=2)
    farm.bike.set(BASE, "0 4 * * *", retries=None)
    assert farm.show() == {FIRST: "0 4 * * *", SECOND: "0 4 * * *"}
    assert "options" not in farm.bike.tell(FIRST)
    farm.bike.set(BASE, "STOP")
    assert {*farm.show().values()} == {"STOP"}
    farm.bike.unset(BASE)
    assert farm.show() == {}
    farm.spread(later=100)
    assert farm.store.hosts.read_all() == {}


class Ending(Quiet):
    """Its first run on each host fails, or stops its job."""

    def __init__(self, error):
        super().__init__("A")
        self.error = error

    def work(self, jobid):
        if jobid not in self.worked:
            super().work(jobid)
            raise self.error


@pytest.mark.parametrize(
    ("error", "text", "revived"),
    [
        (ValueError(), "EVERY:1h@0", {"set"}),
        (StopWork(), "EVERY:1h@0", {"set"}),
        (StopWork(), "AT:1000000000", ()),
        (ValueError(), "AT:1000000000", ()),
    ],
)
@pytest.mark.parametrize("way", ["set", "set_many", "load", "another host", "a restart"])
def test_what_has_ended_on_a_host_goes_on_when_the_base_is_set(farm, error, text, revived, way):
    bike, plain = farm.bike, "plain:A"
    worker = Redbike(Ending(error), bike.prefix, bike.redis, host="web1")

    def show():
        return [(bike.tell(each)["schedule"], bike.tell(each)["status"][:3]) for each in (plain, FIRST, SECOND)]

    ways = {
        "set": lambda: [bike.set(each, text) for each in (plain, BASE)],
        "set_many": lambda: list(bike.set_many([(plain, text), (BASE, text)])),
        "load": lambda: bike.sync([(plain, text), (BASE, text)]),
        "another host": lambda: farm.spread(later=100, here=["web3"]),
        "a restart": lambda: (farm.leave("web1"), farm.spread(later=1, here=["web1"])),
    }
    ways["load"]()
    bike.run(plain, FIRST)
    while worker.work_one():
        pass
    before = show()
    assert before[0] == before[1]
    ways[way]()
    after = show()
    assert after[2] == before[2]
    if way in revived:
        assert after[0] == after[1] != before[1]
    else:
        assert after[1] == before[1]
    # Only once.
    farm.spread(later=10)
    assert show()[1:] == after[1:]


def test_a_new_host_has_the_next_occurrence_and_a_host_of_another_queue_none(farm):
    farm.bike.set(BASE, "EVERY:1h")
    due = farm.bike.tell(FIRST)["next_run"]
    farm.come("db1", queue="work-B")
    farm.spread(later=5400, here=["web1", "web2", "web3"])
    assert [*farm.show()] == [FIRST, SECOND, "clean:A@web3"]
    assert farm.bike.tell("clean:A@web3")["next_run"] == due + 3600


def count_from(farm, tmp_path, source, ago):
    """A `Redbike` whose jobs count from that long ago, by the timefile or as `set` is told, and what it is told."""
    since = farm.bike.store.timeline.read_clock() - ago
    if source == "after":
        return farm.bike, {"after": since}
    (tmp_path / "timefile").write_text(f"{since:.6f}\n")
    timefile = str(tmp_path / "timefile")
    return Redbike(Quiet("A"), farm.bike.prefix, farm.bike.redis, timefile=timefile), {}


@pytest.mark.parametrize(
    ("source", "ago", "text", "options"),
    [
        ("after", -3 * 86400, "EVERY:1h@0", {}),
        ("after", -3 * 86400, "AT:1000000000", {}),
        ("after", -3 * 86400, "AT:4000000000", {}),
        ("after", -1e9, "IN:1h", {}),
        ("after", 0, "EVERY:1h@0", {}),
        ("after", 0, "AT:1000000000", {}),
        ("after", 4 * 3600, "EVERY:1h@0", {}),
        ("after", 4 * 3600, "EVERY:1h@0", {"catchup": "none"}),
        ("after", 4 * 3600, "EVERY:1h@0", {"catchup": "all", "retries": 2}),
        ("after", 4 * 3600, "CONTINUE", {}),
        ("timefile", 4 * 3600, "EVERY:1h@0", {}),
        ("timefile", 4 * 3600, "0 * * * *", {"catchup": "none"}),
        ("timefile", 4 * 3600, "AT:1000000000", {}),
    ],
)
def test_occurrences_on_each_host_count_from_the_instant_that_is_given(farm, tmp_path, source, ago, text, options):
    bike, given = count_from(farm, tmp_path, source, ago)
    for _ in range(2):
        for jobid in ("plain:A", BASE):
            bike.set(jobid, text, **given, **options)
        names = ("schedule", "status", "next_run", "queued", "skipped", "options")
        [plain, base, *jobs] = (
            [bike.tell(each).get(name) for name in names] for each in ("plain:A", BASE, *farm.show())
        )
        for told in (plain, *jobs):
            told[1] = told[1][:3]
        if plain[0] == "STOP":
            assert (base[0], jobs[1:]) == ("STOP", [])
        else:
            assert (base[5], jobs[:2]) == (plain[5], [plain, plain])


@pytest.mark.parametrize("source", ["after", "timefile"])
def test_a_host_that_comes_later_does_not_catch_up(farm, tmp_path, source):
    bike, given = count_from(farm, tmp_path, source, 4 * 3600)
    bike.set(BASE, "EVERY:1h@0", **given)
    farm.spread(later=30, here=["web3"])
    farm.spread(later=90, here=["web1", "web2", "web3", "web4"])
    jobids = [FIRST, SECOND, "clean:A@web3", "clean:A@web4"]
    assert [bike.tell(jobid)["status"][:3] for jobid in jobids] == ["ENQ", "ENQ", "ENQ", "TML"]
    # Neither do the others once more, as other options are not another instant.
    bike.sync([(BASE, "EVERY:1h@0", {"retries": 3})])
    workers = [Redbike(Quiet("A"), bike.prefix, bike.redis, host=f"web{number}") for number in range(1, 5)]
    assert [each.work_one() for each in workers] == [*jobids[:3], None]
    bike.sync([(BASE, "EVERY:1h@0", {"retries": 4})])
    farm.spread(later=10)
    assert [(bike.tell(jobid)["status"][:3], bike.tell(jobid)["options"]) for jobid in jobids] == [
        ("TML", {"retries": 4})
    ] * 4
    bike.set(BASE, "EVERY:1h@0", after=farm.now + 86400)
    farm.spread(later=100, here=["web1", "web2", "web3", "web4", "web5"])
    assert len({bike.tell(jobid)["next_run"] // 3600 for jobid in (*jobids, "clean:A@web5")}) == 1
    assert bike.tell("clean:A@web5")["next_run"] > farm.now + 80_000


@pytest.mark.parametrize("schedule", ["EVERY:1h@0", "EVERY:1h", "0 * * * *"])
@pytest.mark.parametrize(
    ("again", "is_kept"),
    [
        ({}, True),
        ({"retries": 4}, True),
        ({"schedule": "30 * * * *"}, False),
        ({"after": 1.0}, False),
        ({"schedule": "STOP"}, False),
    ],
)
def test_a_base_that_is_set_again_unchanged_still_counts_from_after(farm, schedule, again, is_kept):
    farm.bike.set(BASE, schedule, after=farm.now + 86400)
    for options in (again, {"note": "x"}):
        farm.bike.set(BASE, **{"schedule": schedule} | options)
    farm.spread(later=200, here=["web1", "web2", "web3"])
    dues = [farm.bike.tell(f"clean:A@{host}")["next_run"] or 0.0 for host in ("web1", "web3")]
    assert [due > farm.now + 80_000 for due in dues] == [is_kept, is_kept]


def test_a_host_has_a_job_also_where_its_worker_does_not_name_the_queue_as_it_has_many(farm):
    queues = (*(f"work-{number:02}" for number in range(MOST_QUEUES)), "work-A")
    named = {"queues": shorten(queues), "checksums": sum_others(queues), "for_host": True}
    record = ProcessRecord(farm.now, "worker", "web3", 1, version="1", **named)
    farm.store.workers.register("web3xxxx", record.format_entry())
    farm.bike.set(BASE, "EVERY:1h")
    assert [*farm.show()] == [FIRST, SECOND, "clean:A@web3"]


def test_a_worker_of_an_older_version_makes_no_host(farm):
    old = '{"kind": "worker", "host": "old", "pid": 1, "queues": ["work-A"], "version": "1"}'
    farm.store.workers.register("older001", old)
    farm.bike.set(BASE, "EVERY:1h")
    assert sorted(farm.show()) == [FIRST, SECOND]


def test_a_host_that_is_gone_is_paused_and_resumed_and_forgotten_after_a_day(farm):
    farm.bike.set(BASE, "EVERY:1h")
    farm.leave("web2")
    farm.spread(later=GONE / 2, here=["web1"])
    assert "paused" not in farm.bike.tell(SECOND)
    farm.spread(later=GONE, here=["web1"])
    assert "paused" not in farm.bike.tell(FIRST)
    told = farm.bike.tell(SECOND)
    assert told["paused"]["reason"].startswith("host web2 has no worker of work-A since 20")
    assert f"until a worker is back ({told['paused']['reason']})" in farm.bike.why(SECOND)
    [state] = farm.store.questions.inspect([BASE])
    assert [each.get("gone", False) for each in list_hosts(farm.store, state)] == [False, True]
    assert "web2 (gone, no worker of its queue since" in Reasons(farm.store, farm.bike.settings).explain(BASE)
    farm.spread(later=7200, here=["web1", "web2"])
    assert "paused" not in farm.bike.tell(SECOND)
    farm.leave("web2")
    farm.spread(later=KEPT + 1, here=["web1"])
    assert [*farm.show()] == [FIRST]
    assert [each["host"] for each in farm.bike.tell(BASE)["hosts"]] == ["web1"]


@pytest.mark.parametrize(("catchup", "hours"), [("last", [1]), ("none", []), ("all", [1, 2, 3, 4, 5])])
def test_catchup_decides_on_what_came_due_while_a_host_was_gone(redbike, catchup, hours):
    start = 1_790_000_000 // 3600 * 3600.0
    bike = redbike(Quiet("A"), now=start + 60, catchup=catchup, host="web1")
    bike.set(BASE, "EVERY:1h@0")
    assert bike.run_due() == []
    bike.store.workers.unregister(bike._worker.presence.owner)
    bike._clock.move(start + 60 + 2 * GONE)
    EveryHost(bike.store, bike.settings).spread_all()
    assert "no worker" in bike.tell(FIRST)["paused"]["reason"]
    bike._clock.move(start + 5 * 3600 + 60)
    runs = bike.run_due()
    assert [(run.jobid, run.due) for run in runs] == [(FIRST, start + 3600 * hour) for hour in hours]
    told = bike.tell(FIRST)
    assert told["next_run"] == start + 6 * 3600
    assert told.get("skipped", {}).get("paused", 0) == 5 - len(hours)


def test_a_host_that_was_there_by_a_clock_that_was_ahead_is_gone_all_the_same(farm):
    farm.bike.set(BASE, "EVERY:1h")
    farm.spread(later=9 * KEPT, here=["web1", "web2"])
    farm.leave("web2")
    farm.spread(later=-9 * KEPT, here=["web1"])
    farm.spread(later=GONE + 1, here=["web1"])
    assert "paused" in farm.bike.tell(SECOND)
    farm.spread(later=KEPT + 1, here=["web1"])
    assert [*farm.show()] == [FIRST]


def test_a_host_that_is_back_waits_while_the_base_is_paused(farm):
    farm.bike.set(BASE, "EVERY:10s")
    farm.leave("web2")
    farm.spread(later=2 * GONE, here=["web1"])
    assert "no worker" in farm.bike.tell(SECOND)["paused"]["reason"]
    farm.bike.pause(BASE, reason="moving")
    farm.spread(later=60, here=["web1", "web2"])
    assert farm.bike.tell(SECOND)["paused"]
    farm.bike.resume(BASE)
    assert "paused" not in farm.bike.tell(SECOND)


def list_queue_problems(farm):
    """What is wrong with queues, and whether `show` says that the base runs nowhere."""
    health = check_health(farm.store, [], 60.0, Settings())
    problems = [text for topic, text in zip(health.topics, health.problems, strict=True) if topic == "queues"]
    return problems, "no host" in describe_job(farm.bike.tell(BASE), Clock(farm.now, "UTC"))[0]


def test_a_base_without_any_host_is_a_problem(farm):
    nowhere = [f"{BASE} is to run on every host with a worker of work-A, and there is none"]
    farm.bike.set(BASE, "EVERY:1h")
    assert list_queue_problems(farm) == ([], False)
    farm.leave("web1")
    farm.leave("web2")
    farm.come("db1", queue="work-B")
    farm.spread()
    assert list_queue_problems(farm) == ([], False), "it may be restarting"
    farm.now += GONE + 60
    farm.come("db1", queue="work-B")
    assert list_queue_problems(farm)[0] == nowhere
    farm.bike.pause(BASE)
    assert list_queue_problems(farm)[0] == []
    farm.bike.resume(BASE)
    assert list_queue_problems(farm)[0] == nowhere
    farm.come("web3")
    assert list_queue_problems(farm)[0] == [], "whether or not a dispatcher has noted it yet"
    farm.leave("web3")
    farm.spread(later=KEPT + 1)
    assert list_queue_problems(farm) == (nowhere, True)
    assert (farm.bike.tell(BASE)["hosts"], list_next(farm.bike)) == ([], ([], False))
    why = "its time was 1970-01-01T00:16:40Z, and it had a job on none that was there; set it again, or unset it"
    missed = [f"{BASE} ran on no host: {why}"]
    for schedule, problems in (("STOP", []), ("AT:1000", missed), ("AT:4000000000", nowhere)):
        farm.bike.set(BASE, schedule)
        assert list_queue_problems(farm)[0] == problems, schedule


def pause_until(farm, jobid):
    return farm.bike.pause(jobid, until=farm.now + 3600, reason="mine")


def begin_blackout(farm, jobid):
    """Set a blackout that has been on for a minute."""
    every = f"EVERY:1d@{farm.bike.store.timeline.read_clock() - 86400 - 60:.0f}"
    return farm.bike.pause(jobid, every=every, lasting="1h", reason="mine")


@pytest.mark.parametrize("jobid", [SECOND, BASE])
@pytest.mark.parametrize(
    "hold", [lambda farm, jobid: farm.bike.pause(jobid, reason="mine"), pause_until, begin_blackout]
)
def test_what_somebody_pauses_while_its_host_is_gone_stays_so(farm, hold, jobid):
    farm.bike.set(BASE, "EVERY:1h")
    farm.leave("web2")
    farm.spread(later=2 * GONE, here=["web1"])
    assert "no worker" in farm.bike.tell(SECOND)["paused"]["reason"]
    assert (SECOND, "unchanged") not in hold(farm, jobid)
    told = farm.bike.tell(SECOND)["paused"]
    assert told["reason"] == "mine"
    for _ in range(2):
        farm.spread(later=60, here=["web1", "web2"])
        assert farm.bike.tell(SECOND)["paused"] == told
    farm.bike.resume(jobid)
    assert "paused" not in farm.bike.tell(SECOND)


def test_a_host_that_is_still_gone_when_somebody_resumes_it_is_paused_again(farm):
    farm.bike.set(BASE, "EVERY:1h")
    farm.leave("web2")
    farm.spread(later=2 * GONE, here=["web1"])
    farm.bike.pause(SECOND, reason="mine")
    farm.bike.resume(SECOND)
    farm.spread(later=10)
    assert "no worker" in farm.bike.tell(SECOND)["paused"]["reason"]
    farm.spread(later=60, here=["web1", "web2"])
    assert "paused" not in farm.bike.tell(SECOND)


def test_pause_and_resume_of_the_base(farm):
    farm.bike.set(BASE, "EVERY:1h")
    assert [each.jobid for each in farm.bike.pause(BASE, reason="holiday")] == [BASE, FIRST, SECOND]
    farm.come("web3")
    farm.spread()
    reasons = {farm.bike.tell(jobid)["paused"]["reason"] for jobid in (BASE, *farm.show())}
    assert (len(farm.show()), reasons) == (3, {"holiday"})
    with pytest.raises(BadJobId, match=f"bad job id '{FIRST}': its base {BASE} is paused, so resume that"):
        farm.bike.resume(FIRST)
    farm.bike.resume(BASE)
    assert not any("paused" in farm.bike.tell(jobid) for jobid in (BASE, *farm.show()))


def test_a_base_that_is_resumed_while_its_jobs_get_its_pause_is_resumed_with_them(farm, monkeypatch):
    farm.bike.set(BASE, "EVERY:1h")
    farm.bike.pause(BASE)
    read = Questions.inspect

    def inspect(self, jobids, **given):
        if jobids[0] == FIRST:  # the dispatcher has seen that the base is paused
            monkeypatch.undo()
            farm.bike.resume(BASE)
        return read(self, jobids, **given)

    monkeypatch.setattr(Questions, "inspect", inspect)
    farm.spread(here=["web3"])
    farm.spread()
    assert (len(farm.show()), [jobid for jobid in farm.show() if "paused" in farm.bike.tell(jobid)]) == (3, [])


def test_a_base_that_cannot_be_read_holds_up_no_other(farm, monkeypatch):
    bases = [BASE, "clean:B@all"]
    for base in bases:
        farm.bike.set(base, "EVERY:1h")
    tried, read = [], Questions.inspect

    def inspect(self, jobids, **given):
        if jobids[0] in bases:
            tried.append(jobids[0])
            raise ServerError(f"no permissions for {jobids[0]}")
        return read(self, jobids, **given)

    monkeypatch.setattr(Questions, "inspect", inspect)
    with pytest.raises(ServerError) as refused:
        farm.spread()
    assert (sorted(tried), str(refused.value)) == (bases, f"no permissions for {tried[0]}")


def test_a_blackout_of_the_base(farm):
    farm.bike.set(BASE, "EVERY:1h")
    assert {word for _, word in farm.bike.pause(BASE, every="0 3 * * *", lasting="1h")} == {"set"}
    farm.spread(here=["web3"])
    states = farm.store.blackouts.inspect([f"job:{jobid}" for jobid in (BASE, *farm.show())])
    assert [(each.record, each.timer) for each in states] == [(states[0].record, states[0].timer)] * 4
    assert states[0].record
    said = f"^bad job id '{FIRST}': its base {BASE} has that blackout, so end it there$"
    with pytest.raises(BadJobId, match=said):
        farm.bike.resume(FIRST, every=True)
    assert {word for _, word in farm.bike.resume(BASE, every=True)} == {"ended"}
    # One of its own ends alone.
    for jobid, hour in ((FIRST, 3), (BASE, 4), (FIRST, 5)):
        farm.bike.pause(jobid, every=f"0 {hour} * * *", lasting="1h")
    assert farm.bike.resume(FIRST, every=True) == [(FIRST, "ended")]


def list_next(bike):
    """The next instants of the base in the API, and whether its page lists some."""
    found = Api(app(bike, api=True)).ask("GET", f"/jobs/{BASE}/next")[1]["items"]
    words = read(TestClient(app(bike), base_url=ADDRESS).get("/job?id=clean%3AA%40all")).words
    return found, "Nothing, as things are." not in words


def test_while_its_jobs_are_paused_alone_there_is_none_to_come(farm):
    bike = farm.bike
    bike.set(BASE, "EVERY:1h")
    bike.pause(FIRST)
    assert "web1 (TML, paused), web2 (TML, due " in bike.why(BASE)
    assert list_next(bike)[0][0] == bike.tell(SECOND)["next_run"]
    assert list_next(bike)[1]
    bike.pause(SECOND)
    assert "web1 (TML, paused), web2 (TML, paused)" in bike.why(BASE)
    assert list_next(bike) == ([], False)
    state = "None of its jobs on hosts has a run to come, as things are; redbike show says more."
    assert describe_job(bike.tell(BASE), Clock(farm.now, "UTC")) == (state, False)
    until = farm.now // 60 * 60 + 86400
    bike.resume(SECOND)
    bike.pause(SECOND, until=until)
    assert "paused until " in bike.why(BASE)
    assert describe_job(bike.tell(BASE), Clock(farm.now, "UTC"))[1]
    assert list_next(bike)[0][0] == until
    assert list_next(bike)[1]
    bike.resume(BASE)
    assert list_next(bike)[0][0] == bike.tell(BASE)["next_run"]


def test_run_and_cancel_of_the_base(farm):
    farm.bike.set(BASE, "EVERY:1h")
    assert sorted(farm.bike.run(BASE, SECOND)) == [(FIRST, "queued"), (SECOND, "queued")]
    assert sorted(farm.bike.cancel("clean:*")) == [(FIRST, "cancelled"), (SECOND, "cancelled")]
    assert farm.bike.tell(BASE)["status"][:3] == "TML"


def rehearse(farm, action, jobids=(BASE,), **how):
    """How many runs there are in two hours without the action and with it, and which bases run nowhere."""
    found = Rehearser(farm.store, farm.bike.settings, Change(action, **how), 1.97).run(jobids, 60.0)
    return found.without.runs, found.changed.runs, found.nowhere


def test_a_rehearsal_of_the_base_is_that_of_its_jobs(farm):
    hourly = {"schedule": "EVERY:1h"}
    assert rehearse(farm, "set", **hourly) == (0, 2, []), "also before it is there"
    farm.bike.set(BASE, "EVERY:1h")
    assert rehearse(farm, "pause") == rehearse(farm, "unset", [BASE, FIRST]) == (2, 0, [])
    assert rehearse(farm, "run") == (2, 4, [])
    assert rehearse(farm, "set", [BASE, BASE], schedule="EVERY:10m") == (2, 22, [])
    assert rehearse(farm, "set", schedule="ALL:EVERY:10m") == (2, 22, [])
    assert rehearse(farm, "set", [BASE, "other:A"], schedule="EVERY:10m") == (2, 33, [])
    assert rehearse(farm, "set", schedule="NOW") == (2, 2, [])
    with pytest.raises(BadSchedule, match="on every host cannot follow others"):
        rehearse(farm, "set", schedule="AFTER:other:A")


def test_a_rehearsal_says_that_a_base_has_no_job_on_any_host(farm):
    farm.leave("web1")
    farm.leave("web2")
    assert rehearse(farm, "set", schedule="EVERY:1h") == (0, 0, [BASE])
    farm.bike.set(BASE, "EVERY:1h")
    assert rehearse(farm, "run") == (0, 0, [BASE])
    words = read(TestClient(app(farm.bike), base_url=ADDRESS).get("/rehearse?action=run&id=clean%3AA%40all")).words
    assert f"{BASE} has no job on any host." in words
    assert "No worker process" not in words


def test_the_agenda_of_the_base_is_that_of_its_jobs(farm):
    farm.bike.set(BASE, "EVERY:1h@0")
    farm.bike.set("clean:A", "EVERY:1h@0")
    expected = farm.bike.agenda(FIRST, SECOND, hours=3).runs
    assert expected >= 6
    assert farm.bike.agenda(BASE, hours=3).runs == farm.bike.agenda(BASE, FIRST, hours=3).runs == expected
    assert farm.bike.agenda("clean:A@*", hours=3).runs == expected
    assert farm.bike.agenda("clean:*", hours=3).runs == farm.bike.agenda(hours=3).runs == expected * 1.5


def test_where_others_stand_in_the_place_of_its_jobs_everything_says_so(farm, caplog):
    api = Api(app(farm.bike, write=True, api=True))
    bike, taken = farm.bike, f"{SECOND} is a job of its own and stays as before; unset it and set {BASE} again to run"
    bike.set(SECOND, "STOP")
    status, found = api.ask("PUT", f"/jobs/{BASE}", {"schedule": "EVERY:1h"})
    assert (status, found["warnings"]) == (201, [f"{BASE}: {taken} that there"])
    assert f"web2 (none, as {SECOND} is a job of its own). But {taken} that there." in bike.why(BASE)
    assert [each.get("taken") for each in bike.tell(BASE)["hosts"]] == [None, True]
    assert list_queue_problems(farm) == ([], False)
    assert bike.run(BASE) == [(FIRST, "queued")]
    of_first = {"jobid": FIRST, "word": "cancelled"}
    assert api.ask("POST", f"/jobs/{BASE}/cancel") == (200, {**of_first, "jobid": BASE, "jobs": [of_first]})
    bike.unset(BASE)
    bike.set(FIRST, "STOP")
    bike.set(BASE, "EVERY:1h")
    both = f"{FIRST} and {SECOND} are jobs of their own and stay as before; unset them and set {BASE} again to run that"
    assert f"{BASE}: {both} there" in caplog.messages
    assert list_queue_problems(farm) == ([f"{BASE} runs on no host: {both} there"], True)
    assert f"{BASE!r}: it runs on no host: {both} there" in [str(each.text) for each in JobsCheck(farm.store).run()]
    assert bike.run(BASE) == bike.cancel(BASE) == [(BASE, "nowhere")]
    for verb in ("run", "cancel"):
        assert api.ask("POST", f"/jobs/{BASE}/{verb}") == (200, {"jobid": BASE, "word": "nowhere"})
    for jobid in (FIRST, SECOND):
        bike.unset(jobid)
    bike.set(BASE, "EVERY:1h")
    assert [word for _, word in bike.run(BASE)] == ["queued", "queued"]
    held = api.ask("POST", f"/jobs/{BASE}/pause")[1]
    assert (held["word"], [each["jobid"] for each in held["jobs"]]) == ("held", [BASE, FIRST, SECOND])
    assert list_queue_problems(farm) == ([], False)


def test_fsck_finds_and_repair_mends_what_is_missing_or_left(farm):
    farm.bike.set(BASE, "EVERY:1h")
    hosts = farm.bike.store.keys.hosts
    for damage, found in (
        (lambda: farm.bike.redis.delete(hosts), [f"{BASE!r}: no dispatcher watches it, so no new host gets its job"]),
        (lambda: farm.bike.redis.hset(hosts, BASE, "x"), None),
    ):
        damage()
        lines = list(farm.bike.fsck())
        assert lines == found if found else "names no hosts" in lines[0]
        list(farm.bike.repair())
        list(farm.bike.repair())
        farm.spread()
        assert (list(farm.bike.fsck()), len(farm.show())) == ([], 2)
    farm.bike.store.jobs.unset(BASE)
    farm.bike.redis.delete(hosts)
    assert [line.partition(": ")[2] for line in farm.bike.fsck()] == [
        f"it is the job of {BASE!r} on this host, and there is no such job"
    ] * 2
    assert all(is_well for _, is_well in farm.bike.repair())
    assert farm.show() == {}


REFUSED = {
    "a derived job": (FIRST, "EVERY:1h", {}, "Redbike sets it for 'clean:A@all', on one host"),
    "a follower": (BASE, "AFTER:x:A", {}, "a job on every host cannot follow others"),
    "what follows one": ("x:A", f"AFTER:{BASE}", {}, "clean:A@all never ends"),
    "a group": (BASE, "EVERY:1h", {"group_of": "night"}, "a job on every host cannot be in a group"),
    "a long id": (
        "x" * 446 + ":A@all",
        "EVERY:1h",
        {},
        "it has 452 bytes, up to 451 are allowed for a job on every host",
    ),
    "no such id": ("x:A", "ALL:EVERY:1h", {}, "only a job whose id ends in @all runs on every host"),
    "two hosts": ("clean:A@all@all", "NOW", {}, "its queue 'work-A@all@all' names a host already"),
}


def test_the_longest_base_has_a_job_on_the_host_with_the_longest_name(farm):
    base, host = "x" * 445 + ":A@all", "w" * 64
    farm.come(host)
    farm.bike.set(base, "EVERY:1h")
    jobid = base.removesuffix("all") + host
    assert len(jobid) == 512
    assert farm.bike.tell(jobid)["host_of"] == base
    assert farm.bike.pause(jobid) == [(jobid, "held")]


@pytest.mark.parametrize("name", REFUSED)
def test_what_there_cannot_be_is_refused_and_changes_nothing(farm, name):
    jobid, schedule, options, why = REFUSED[name]
    farm.bike.set(BASE, "EVERY:7h")
    before = farm.show()
    [(_, error)] = farm.bike.set_many([(jobid, schedule, options)])
    assert why in str(error)
    assert why in str(farm.bike.sync([(jobid, schedule, options)]).bad[jobid])
    with pytest.raises(ValueError, match=re.escape(why)):
        farm.bike.enter(jobid, schedule, **options)
    assert farm.show() == before
    assert farm.bike.tell(BASE)["schedule"].startswith("ALL:EVERY:7h")
    for jobid in (BASE, FIRST):
        with pytest.raises(BadConfig, match="every host"):
            farm.bike.backfill(jobid, 0.0, farm.now)


def test_the_job_of_a_host_is_unset_with_its_base_alone(farm, shell):
    shell.environment["REDBIKE_PREFIX"] = farm.store.keys.prefix
    farm.bike.set(BASE, "EVERY:1h")
    said = f"bad job id {FIRST!r}: Redbike sets it for {BASE!r}, on one host; unset {BASE!r}"
    for unset in (farm.bike.unset, lambda jobid: farm.bike.set(jobid, None)):
        with pytest.raises(BadJobId, match=re.escape(said)):
            unset(FIRST)
    for words in (["unset", FIRST], ["unset", FIRST, "--dry-run"]):
        done = shell.run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"redbike: {said}\n")
    api = Api(app(farm.bike, write=True, api=True))
    status, problem = api.ask("DELETE", f"/jobs/{FIRST}")
    assert (status, problem["detail"]) == (422, said)
    assert farm.bike.unset_many("*@web1") == [(FIRST, "of a base")]
    assert len(farm.show()) == 2
    farm.bike.unset_many("clean:A@*")
    assert farm.show() == {}


def test_the_queue_of_the_base_is_not_shown_and_cannot_be_held(farm, shell):
    shell.environment["REDBIKE_PREFIX"] = farm.store.keys.prefix
    farm.bike.set(BASE, "EVERY:1h")
    shown = shell.run("show", BASE).stdout
    assert ("web1" in shown, "work-A@all" in shown) == (True, False)
    page = read(TestClient(app(farm.bike), base_url=ADDRESS).get("/job?id=clean%3AA%40all"))
    assert "work-A@all" not in page.words
    said = "redbike: bad queue name 'work-A@all': no job waits there; each host has a queue, as 'work-A@HOST'\n"
    for words in (["pause", "--queue=A@all"], ["pause", "--queue=A@all", "--every=0 3 * * *", "--for=1h"]):
        done = shell.run(*words)
        assert (done.returncode, done.stderr) == (2, said)
    done = shell.run("limit", "A@all", "--at-once=1")
    assert (done.returncode, done.stderr) == (2, said)
    assert farm.bike.queue_limits() == []
    assert farm.bike.resume_queue("A@all") is False


def test_where_the_id_does_not_name_the_queue_it_is_refused(client, prefix):
    class Own(RoundRobin):
        def queue_for(self, jobid):
            return "mine"

    jobs = Jobs()
    jobs.job("clean")(lambda: None)
    for worker in (Own("A"), jobs):
        bike = Redbike(worker, prefix, client)
        with pytest.raises(BadJobId, match="is not named by its id, so it has none for each host"):
            bike.set(BASE, "EVERY:1h")


def test_a_file_has_the_base_and_not_its_jobs(farm, caplog):
    farm.bike.set(BASE, "0 3 * * *", retries=2)
    rows = list(farm.bike.store.rows.list_all())
    assert [row[:2] for row in rows] == [(BASE, "ALL:0 3 * * *")]
    farm.bike.set("clean:A@web3", "0 6 * * *")  # that of somebody else
    for found in (farm.bike.get_schedules(), farm.bike.get_schedules("clean:A@*", FIRST)):
        assert sorted(found) == [(BASE, "ALL:0 3 * * *"), ("clean:A@web3", "0 6 * * *")]
    farm.bike.unset("clean:A@web3")
    changes = farm.bike.sync([(BASE, "0 3 * * *", {"retries": 2})], group="web")
    assert (changes.unchanged, changes.changed) == (1, {})
    farm.bike.sync([(BASE, "0 5 * * *")], group="web")
    assert {*farm.show().values()} == {"0 5 * * *"}
    farm.bike.set("then:A", f"AFTER:{FIRST}")
    row = f'jobid,schedule,paused\n{BASE},0 5 * * *,"{{""reason"": ""x""}}"\n'
    assert [each.detail for each in farm.bike.sync_file(io.StringIO(row), group="web")] == ["paused: x"]
    assert {farm.bike.tell(jobid)["paused"]["reason"] for jobid in (BASE, FIRST, SECOND)} == {"x"}
    farm.bike.sync([], group="web", prune=True, prune_all=True)
    assert list(farm.show()) == ["then:A"]
    assert f"{FIRST} is unset; 1 job waits for it: then:A" in caplog.text


def test_without_such_a_job_nothing_is_stored_and_one_question_is_asked(client, prefix):
    bike = Redbike(Quiet("A"), prefix, client)
    bike.set("clean:A", "EVERY:1h")
    client.config_resetstat()
    EveryHost(bike.store, bike.settings).spread_all()
    assert {*client.info("commandstats")} <= {"cmdstat_hgetall", "cmdstat_config|resetstat", "cmdstat_info"}
    assert not client.exists(bike.store.keys.hosts)


@pytest.mark.acceptance
def test_real_hosts_one_of_which_is_killed(shell):
    (shell.folder / "tour.py").write_text(make_module())
    shell.environment["REDBIKE_WORKER"] = "tour:Worker('A')"
    started = {}
    for host, words in (("web1", ["work"]), ("web2", ["work", "--concurrency=2"])):
        shell.environment["REDBIKE_HOST"] = host
        started[host] = shell.start(*words, log=host)
    shell.start("dispatch")
    wait_until(lambda: len(shell.list_rows("workers")) == 3)
    done = shell.run("set", BASE, "EVERY:1s")
    assert (done.returncode, done.stderr) == (0, "")

    def ran():
        runs = json.loads(shell.run("runs", "--format=json").stdout)
        return {(each["jobid"], each["worker"].partition(":")[0]) for each in runs}

    wait_until(lambda: ran() == {(FIRST, "web1"), (SECOND, "web2")})
    started["web2"].kill()
    shell.environment["REDBIKE_HOST"] = "web3"
    shell.start("work", log="web3")
    wait_until(lambda: ("clean:A@web3", "web3") in ran())
    assert {host for _, host in ran()} == {"web1", "web2", "web3"}
    shown = shell.run("show", BASE).stdout
    assert all(f"on {host}" in shown for host in ("web1", "web2", "web3"))
    shell.run("unset", BASE)
    assert "all-of" not in shell.run("log").stdout
    assert shell.list_rows("jobs", "clean:*") == []


@pytest.mark.parametrize("text", ["NOW", "AT:1000000000", "ALL:NOW"])
def test_a_one_off_that_was_on_no_host_at_its_time_is_a_problem(farm, caplog, text):
    other, missed = "clean:B@all", "ran on no host: its time was "
    farm.bike.set(other, "AT:4000000000")
    farm.bike.set(other, text)
    said = [each.partition(";")[2] for each in caplog.messages if other in each]
    assert said == [
        " it runs only on hosts that have one by its time",
        " it runs only on hosts that have one within a minute",
    ]
    assert missed not in str(list_queue_problems(farm))
    farm.spread(later=90, here=["web1"])
    farm.come("web5", queue="work-B")
    farm.spread()
    [problem] = list_queue_problems(farm)[0]
    assert problem.startswith(f"{other} {missed}")
    assert problem.endswith(", and it had a job on none that was there; set it again, or unset it")
    assert [each.text for each in JobsCheck(farm.store).run() if missed in each.text] == [
        f"{other!r}: it {problem.partition(' ')[2]}"
    ]
    assert Reasons(farm.store, farm.bike.settings).explain(other) == f"It {problem.partition(' ')[2]}."
    farm.bike.set(other, text)
    assert farm.bike.tell("clean:B@web5")["status"][:3] == "ENQ"
    farm.bike.store.jobs.unset("clean:B@web5")  # as if it was forgotten
    farm.spread(later=900, here=["web1"])
    assert missed not in str(list_queue_problems(farm))
    assert missed not in Reasons(farm.store, farm.bike.settings).explain(other)


def tell_missed(farm):
    """What `health`, `check` and `why` say of a base that has run on no host, or is to."""
    found = [
        *list_queue_problems(farm)[0],
        *(str(each.text) for each in JobsCheck(farm.store).run()),
        Reasons(farm.store, farm.bike.settings).explain(BASE),
    ]
    return ["ran on no host: its time was " in each for each in found if "no host" in each or "there is none" in each]


@pytest.mark.parametrize("later", [120, 20])  # their jobs are paused before their time, or after it
@pytest.mark.parametrize("options", [{}, {"catchup": "none", "forget_after": "1d"}])
def test_a_one_off_whose_hosts_were_gone_at_its_time_is_a_problem_until_one_is_back(farm, later, options):
    farm.bike.set(BASE, f"AT:{farm.now + 130:.0f}", **options)
    farm.leave("web1")
    farm.leave("web2")
    farm.come("db1", queue="work-B")
    for seconds in (later, 120 - later, 120):
        farm.spread(later=seconds)
        assert farm.now > float(farm.show()[FIRST].removeprefix("AT:")) or not any(tell_missed(farm))
    assert tell_missed(farm) == [True] * 3
    farm.spread(later=3600, here=["web3"])
    assert (tell_missed(farm), "clean:A@web3" in farm.show()) == ([True] * 3, False)
    farm.spread(here=["web2"])
    assert (tell_missed(farm), farm.bike.tell(SECOND)["status"][:3]) == ([], "ENQ"), "it runs, late"
    farm.leave("web2")
    farm.leave("web3")
    farm.spread(later=120)
    farm.come("db1", queue="work-B")
    assert tell_missed(farm) == [True] * 3
    farm.spread(later=KEPT + 1)
    farm.come("db1", queue="work-B")
    assert (tell_missed(farm), farm.show()) == ([True] * 3, {})


def test_a_one_off_that_ran_on_a_host_is_no_problem_whatever_is_gone(farm):
    farm.bike.set(BASE, "NOW")
    assert Redbike(Quiet("A"), farm.bike.prefix, farm.bike.redis, host="web1").work_one() == FIRST
    farm.leave("web2")
    farm.spread(later=120, here=["web1"])
    farm.leave("web1")
    farm.spread(later=120)
    assert not any(tell_missed(farm))
    farm.bike.store.jobs.unset(FIRST)  # as if it was forgotten
    for seconds in (KEPT / 2, 120, KEPT):
        farm.spread(later=seconds)
        assert not any(tell_missed(farm))
    assert farm.show() == {}


def test_a_one_off_does_not_run_again_because_its_options_are_others(farm):
    rows = [[(BASE, "NOW", {"retries": number})] for number in (1, 2)]
    farm.bike.sync(rows[0])
    workers = [Redbike(Quiet("A"), farm.bike.prefix, farm.bike.redis, host=host) for host in ("web1", "web2")]
    assert [each.work_one() for each in workers] == [FIRST, SECOND]
    assert [*farm.bike.sync(rows[1]).changed] == [BASE]
    told = farm.bike.tell(FIRST)
    assert (told["schedule"], told["status"][:3], told["options"]) == ("STOP", "STP", {"retries": 2})
    assert [each.work_one() for each in workers] == [None, None]
    farm.bike.set(BASE, "NOW")
    assert [each.work_one() for each in workers] == [FIRST, SECOND]
    farm.spread(later=100, here=["web3"])
    assert [*farm.show()] == [FIRST, SECOND], "it was not there at the time"


def test_each_host_has_a_jitter_of_its_own_and_the_base_is_as_it_would_be_without(farm):
    farm.bike.set(BASE, "EVERY:1h@0", spread="10m")
    shares = [farm.bike.tell(jobid)["next_run"] % 3600 for jobid in (FIRST, SECOND)]
    assert shares == pytest.approx([compute_jitter(jobid, 600) for jobid in (FIRST, SECOND)])
    assert farm.bike.tell(BASE)["status"][:3] == "TML"
    farm.bike.set(BASE, "EVERY:1h@0", spread=None)
    assert [farm.bike.tell(jobid)["next_run"] % 3600 for jobid in (FIRST, SECOND)] == [0, 0]
    farm.bike.set(BASE, "H(1-59) 3 * * *")
    assert farm.bike.tell(FIRST)["next_run"] == farm.bike.tell(SECOND)["next_run"]


@pytest.mark.parametrize("text", ["NOW", "IN:0.01s", "IN:1h", "ALL:IN:1h"])
def test_a_one_off_runs_once_however_often_its_row_is_loaded(farm, text):
    bike, row, other, is_past = farm.bike, (BASE, text), ("clean:B", "@daily"), "1h" not in text
    assert bike.sync([row]).added == [BASE]
    before, instant = bike.tell(FIRST), float(bike.tell(BASE)["schedule"].removeprefix("ALL:AT:"))
    wait_until(lambda: not is_past or bike.store.timeline.read_clock() > instant)
    for _ in range(2):
        assert bike.sync([row], after=1.0 if is_past else None).unchanged == 1
    # A file of what is stored, such as a backup, says the same.
    assert bike.sync([(BASE, bike.tell(BASE)["schedule"]), other]).unchanged == 1
    assert bike.sync([row, other]).unchanged == 2
    assert bike.tell(FIRST) == before
    bike.set(BASE, "STOP")
    assert bike.sync([row]).unchanged == is_past
    assert [*bike.sync([(BASE, "IN:2h")]).changed] == [BASE]
    assert bike.tell(FIRST)["next_run"] > instant
