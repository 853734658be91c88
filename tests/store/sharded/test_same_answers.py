"""Whoever sets, steers and asks finds the same with one shard and with several: only orders may differ."""

import dataclasses
import random
import re
from collections import Counter
from contextlib import nullcontext

import pytest

from redbike import Redbike, RedbikeError, RoundRobin, Unreachable
from redbike.store.job import JobSearch
from redbike.store.past_runs import RunSearch
from redbike.store.sharded.mail import deliver
from redbike.store.sharded.missing import tolerate_missing
from tests.queries.kept import register
from tests.shards import name_jobs, place_shard
from tests.store.test_paging import read_pages

SCHEDULES = ["EVERY:1h", "EVERY:7s", "* * * * *", "IN:5s", "NOW", "0 3 * * *", "NEVER:1"]
SCHEDULES += ["AFTER:job-1:A any", "AFTER:job-2:B,job-5:A", "AFTER:job-9:A", "AFTER:job-3:A failed", "AFTER:gone:A"]
GROUPS = ["GROUP:load", "GROUP:sale"]
OPTIONS = [
    {},
    {"tags": "a,b"},
    {"retries": 1, "tags": "b"},
    {"start_within": 2.0},
    {"data": {"x": 1}},
    {"owner": "ada"},
    {"group_of": "load"},
    {"group_of": "sale"},
]
STEPS = 60
JOBS = [f"job-{number}:{queue}" for number in range(12) for queue in "AB"]


class Worker(RoundRobin):
    def work(self, jobid):
        if jobid.startswith(("job-1:", "job-3:", "job-11:")):
            raise ValueError("no")


class Twins:
    """Two programs with the same jobs, one of them with four shards, at one instant of their own."""

    def __init__(self, client, prefix):
        self.now = 1_900_000_000.0
        self.bikes = [Redbike(Worker("A:B"), f"{prefix}{n}", client, shards=n, noted_as="ada@here") for n in (1, 4)]
        for bike in self.bikes:
            bike._compose(bike.store.follow(self.read), bike._noted.follow(self.read), bike.worker)

    def read(self):
        return self.now

    def both(self, act):
        found = []
        for bike in self.bikes:
            try:
                found.append(act(bike))
            except RedbikeError as error:
                found.append(f"{type(error).__name__}: {error}")
        return found

    def choose(self, chance):
        """What somebody does to one of the programs."""
        jobid, pattern = chance.choice(JOBS), chance.choice(["job-1*", "*:A", "job-2:B", "nobody", "job-[3-5]:*"])
        schedule, options = chance.choice(SCHEDULES + GROUPS), chance.choice(OPTIONS)
        many = [(each, chance.choice(SCHEDULES)) for each in chance.sample(JOBS, 6)]
        return chance.choice(
            [
                *[lambda bike: bike.set(jobid, schedule, **options)] * 4,
                lambda bike: sorted(map(str, bike.set_many(many))),
                lambda bike: show(bike.sync(many, group="these")),
                lambda bike: bike.unset(jobid),
                *[lambda bike: sorted(map(str, bike.run(pattern)))] * 2,
                lambda bike: sorted(map(str, bike.cancel(pattern))),
                lambda bike: sorted(map(str, bike.pause(pattern, reason="so"))),
                lambda bike: sorted(map(str, bike.pause(pattern, until=self.now + 20))),
                *[lambda bike: sorted(map(str, bike.resume(pattern)))] * 2,
                lambda bike: sorted(map(str, bike.run_failed())),
                lambda bike: bike.pause_queue("B", until=self.now + 10),
                lambda bike: bike.resume_queue("B"),
                lambda bike: sorted(map(str, bike.pause(pattern, every="* * * * *", lasting=50))),
                lambda bike: sorted(map(str, bike.resume(pattern, every=True))),
                lambda bike: bike.pause_queue("A", every="* * * * *", lasting=20),
                lambda bike: bike.resume_queue("A", every=True),
                lambda bike: bike.limit("A", at_once=8),
                lambda bike: bike.group("load", many[:3], then=many[4][0]),
            ]
        )

    def step(self, chance):
        one, other = self.both(self.choose(chance))
        assert one == other
        self.deliver()
        # A follower of a group that is over already is due at once. In another shard it is on the timeline first.
        self.both(lambda bike: bike.dispatch_due(self.now))

    def work(self):
        """Dispatch and work all that is due."""
        self.both(lambda bike: bike.dispatch_due(self.now))
        one, other = self.both(lambda bike: sorted(filter(None, [bike.work_one() for _ in range(len(JOBS))])))
        assert one == other
        self.deliver()

    def deliver(self):
        """Tell followers of what has ended, until nobody has to tell of more."""
        for shards in (bike.store.shards for bike in self.bikes):
            while any(list(each.links.list_mail()) for each in shards):
                for number, shard in enumerate(shards):
                    for receiver in shard.links.list_mail():
                        deliver(shards, number, receiver)


# How late a run begins depends on the order in which jobs are worked.
SHIFTS = re.compile("::|^delay")
QUESTIONS = {
    "jobs": lambda bike: sorted(map(strip, bike.jobs())),
    "some": lambda bike: sorted(map(strip, bike.jobs("*:A", status="TML"))),
    "tagged": lambda bike: sorted(job.jobid for job in bike.jobs(tag="b")),
    "paused": lambda bike: sorted(job.jobid for job in bike.jobs(paused=True)),
    "failed": lambda bike: sorted(job.jobid for job in bike.jobs(failed=True)),
    "late": lambda bike: [job.jobid for job in bike.jobs(late=True)],
    "overdue": lambda bike: sorted(job.jobid for job in bike.jobs(overdue=True)),
    "named": lambda bike: [job.jobid for job in bike.jobs(*JOBS[:5])],
    "many": lambda bike: [(jobid, found and found | {"runs": 0}) for jobid, found in bike.get_many(JOBS)],
    "statuses": lambda bike: sorted(bike.get_statuses()),
    "schedules": lambda bike: sorted(bike.get_schedules()),
    "rows": lambda bike: sorted(bike.get_rows()),
    "queues": lambda bike: sorted(
        str(dataclasses.replace(queue, first="", oldest_due=None, since=None)) for queue in bike.queues()
    ),
    "limits": lambda bike: bike.queue_limits(),
    "failures": lambda bike: sorted(map(str, bike.failures())),
    "runs": lambda bike: sorted(str(dataclasses.replace(run, worker="", took=0.0)) for run in bike.runs(limit=9999)),
    "log": lambda bike: sorted((each.action, each.jobid) for each in bike.log() if each.jobid),
    "health": lambda bike: (sorted(bike.health().problems), bike.health().metrics),
    "agenda": lambda bike: (plan(bike), plan(bike, queue="A")),
    "why": lambda bike: [explain(bike, jobid) for jobid in JOBS[::3]],
    "agenda of some": lambda bike: [plan(bike, *patterns) for patterns in (["*:A"], ["job-1*", "job-2:B"])],
    "agenda of a tag": lambda bike: plan(bike, tag="b"),
    "found": lambda bike: [
        job.jobid for job in bike.store.overview.read_page(JobSearch(pattern="job-11:B"), patience=99.0).jobs
    ],
    "fsck": lambda bike: list(bike.fsck()),
    "check": lambda bike: sorted(map(str, bike.check())),
    "counts": lambda bike: count(bike.store.counts.read().items()),
    "totals": lambda bike: str(dataclasses.replace(bike.store.totals.read(), unarchived=0)),
    "soonest": lambda bike: len(bike.store.timeline.list_soonest(5)),
    "search": lambda bike: sorted(bike.store.catalog.search("*", 99, 9.0)[0]),
    "pages": lambda bike: sorted(walk(bike, JobSearch())),
    "pages by next": lambda bike: part(walk(bike, JobSearch(by_next=True))),
    "pages of planned jobs": lambda bike: walk(bike, JobSearch(planned=True)),
    "run pages": lambda bike: len(bike.store.past.read_runs(RunSearch(), rows=7).runs),
    "metrics": lambda bike: sorted(
        line.replace(bike.prefix, "")
        for line in bike.metrics().splitlines()
        if not re.search("build_info|seconds|unarchived", line)
    ),
}


# What names jobs of all shards, or looks at one shard after the other, has an error without one of them.
NEED_ALL = {"named", "many", "check"}


def count(counted):
    """What was counted, without how long it took: a run may take longer in one of the two."""
    found = Counter()
    for name, number in counted:
        if not SHIFTS.search(name):
            found[re.sub(r"^took:[\d.]+", "took", name)] += number
    return sorted(found.items())


def scrub(answer):
    """An answer as a text, without how long something took: that differs."""
    return re.sub(r"(19\d{8})\.\d+|'took': [\d.e-]+", r"\1", str(answer))


def show(changes):
    return sorted(changes.added), sorted(changes.changed), changes.unchanged, sorted(changes.removed), len(changes.bad)


def explain(bike, jobid):
    try:
        return bike.why(jobid)
    except RedbikeError as error:
        return str(error)


def plan(bike, *patterns, **more):
    agenda = bike.agenda(*patterns, hours=2, **more)
    return agenda.runs, agenda.jobs


def strip(job):
    return str(dataclasses.replace(job, last_started=None))


def walk(bike, search):
    """List the ids and next runs of all jobs, page by page."""
    return [(job.jobid, job.next_run) for page in read_pages(bike.store, search, rows=3) for job in page.jobs]


def part(found):
    """Those that have a next run, in their order, and then the others, which have none."""
    return [each for each in found if each[1] is not None], sorted(jobid for jobid, at in found if at is None)


@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(pytest.param(seed, marks=pytest.mark.acceptance) for seed in range(1, 4)),
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(8, 14)),
    ],
)
def test_each_answer_is_the_same(client, prefix, seed):
    twins, chance = Twins(client, prefix), random.Random(seed)
    for number in range(STEPS):
        twins.step(chance)
        if number % 10 == 9:
            twins.now += chance.choice([1.0, 9.0, 3700.0])
            twins.work()
            for name, ask in QUESTIONS.items():
                one, other = map(scrub, twins.both(ask))
                assert one == other, name


def test_each_question_is_answered_without_a_missing_shard(client, prefix, own_server):
    twins, chance = Twins(client, prefix), random.Random(0)
    del twins.bikes[0]
    [bike] = twins.bikes
    with place_shard(bike, own_server.url, 1, twins.read):
        away = bike.store.shards[1].keys.prefix
        for _ in range(STEPS // 3):
            twins.both(twins.choose(chance))
            twins.both(lambda bike: bike.dispatch_due(twins.now))
        for _ in JOBS:
            twins.both(lambda bike: bike.work_one())
        gone, near = name_jobs(bike.store, 1, 2, names=JOBS)
        bike.set(gone, "EVERY:1h", group_of="far")
        for number, follows in enumerate([f"AFTER:{gone}", "GROUP:far"]):
            bike.set(f"then-{number}{{{near}}}:A", follows, start_within=1.0)
        register(bike.store, "worker", now=twins.now, lacks={gone: "work-A"})
        own_server.stop()
        for name, ask in QUESTIONS.items():
            refuses = pytest.raises(Unreachable, match=f"^the shard {re.escape(away)} is missing: ")
            with tolerate_missing() as missing, refuses if name in NEED_ALL else nullcontext():
                ask(bike)
            assert missing.keys() <= {away}, name
