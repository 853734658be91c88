"""The oracle, fed with made-up histories: it must convict what is not well.

What it must acquit is not here, but for one history: each chaos run has thousands of those, and would show it.
"""

from datetime import datetime
from itertools import product

import pytest

from tests.chaos.history import find_shard, read
from tests.chaos.report import failures, summary, table
from tests.chaos.sets import BETWEEN, FIRST, HOUR, MEMBERS, NUMBER, list_dark, list_members, name_child
from tests.chaos.story import CRON, EPOCH, JOB, Story

ALL = "10 20 30 40 50 60"
THEN, BASE = "fast.follow-then.0-1:A", "fast.follow-base.0-1:A"


def case(runs, expected=None, steps=lambda story: None, **end):
    """What ran, what the oracle is to find, what else happened, and what the last snapshot has."""
    return runs, expected or {}, steps, end


def judged(story, runs, expected, steps, end):
    story.runs(runs)
    steps(story)
    verdict = story.verdict(**end)
    assert {kind: len(found) for kind, found in verdict.wrong.items() if found} == expected
    return verdict


@pytest.fixture
def story(tmp_path):
    return Story(tmp_path)


def forgotten(story):
    """The occurrence at 30 was run, but Redis does not know that any more: it must be run again."""
    story.snapshot("before", 35, timeline=40)
    story.fault("aof-tail", 35, 35.5, since=29)
    story.snapshot("after", 35.5, timeline=30)


def cut_off(*stalls):
    return lambda story: [story.fault("stall", began, began + 2, pid=2) for began in stalls]


def halted(*fault, **more):
    """After a HALT, which no process hears."""
    return lambda story: (story.change("halt", 31, job=""), fault and story.fault(*fault, **more))


def changed(*change):
    return lambda story: story.change(*change)


def asked_before_takeover(at):
    return lambda story: (story.change("rerun", at, "RERUN"), story.taken_over())


def hung_up(story):
    story.fault("worker-hup", 30.5, 30.5, pid=2)
    story.died(2, 31)


def remembered(*runs):
    return lambda story: story.remember(*runs)


def suspended_after_the_next_job(story):
    story.run(30, start=30.2, job="fast.shared.1:A")
    story.fault("worker-pause", 30.5, 32, pid=1)


def grouped(members, *then):
    """Somebody has asked for a group: these of its jobs run, and what follows it at these times."""

    def act(story):
        story.change("group", 19, job=THEN)
        for number in members:
            story.run(20, job=list_members(THEN)[number])
        for due in then:
            story.run(due, job=THEN)

    return act


def backfilled(*missing):
    """Somebody has asked for a backfill: all of it runs but one occurrence of a job."""

    def act(story):
        story.change("backfill", 19, job=BASE)
        for job, number in product((BASE, name_child(BASE)), range(NUMBER)):
            if (job, number) != missing:
                story.run(FIRST + number * HOUR - EPOCH, start=30.0 + number, job=f"{job}@{number}")

    return act


def darkened(story):
    story.faults.note("calm", at=5.0)
    story.run(BETWEEN + 7, job=list_dark()[0][0])


LOST, UNEXPLAINED = {"lost": 1}, {"unexplained": 1}
EVERY = "EVERY:5s@1800000000"
CASES = {
    "all is well": case(ALL),
    "what another occurrence has saved": case(
        "10 20 40 50 60", {"foreign": 1}, lambda story: story.run(30, how="foreign")
    ),
    "a retry with another due time": case("10! 15@15 20 30 40 50 60", UNEXPLAINED),
    "a retry that drops another occurrence": case("10! 10@25 30 40 50 60", LOST),
    "an occurrence that was not run": case("10 20 40 50 60", LOST),
    "a one-off that was past did not run": case(
        "10 20 30", LOST, changed("set", 35, f"AT:{EPOCH + 34}"), pending=None, schedule="STOP"
    ),
    "a run that never ended does not count": case("10 20 30 40 50 60?", LOST),
    "a job that is nowhere": case(ALL, LOST, pending=None),
    "one that was set": case(ALL, LOST, changed("set", 61, CRON), pending=None, schedule=None),
    "a one-off that was set": case(ALL, LOST, changed("set", 61, "AT:1800000090"), pending=None, schedule=None),
    "a run that was asked for": case(ALL, LOST, changed("rerun", 41, "RERUN")),
    "a job is judged from its last change on": case(
        "10 20 30 40 45 55 60", LOST, changed("set", 41, EVERY), pending=65, schedule=EVERY
    ),
    "counts of what was run": case(ALL, UNEXPLAINED, skipped=1),
    "a run of no occurrence": case("10 20 25 30 40 50 60", UNEXPLAINED),
    "a repeated run": case(f"{ALL} 30@33", UNEXPLAINED),
    "its worker was suspended with the next job": case(
        f"{ALL} 30@33/2", {"unexplained": 2}, suspended_after_the_next_job
    ),
    "a worker that could tell in time": case("10 20 50 60 30/2 30@42.1", UNEXPLAINED, cut_off(30.1, 40), skipped=1),
    "a lost run that is repeated before its lease has run out": case(
        "10 20 40 50 60 30/2? 30@41.5", UNEXPLAINED, lambda story: story.died(2, 30.05)
    ),
    "a fault of another worker": case(
        f"{ALL} 30@33", UNEXPLAINED, lambda story: story.fault("worker-pause", 29, 45, pid=2)
    ),
    "a run whose worker was to wait for it": case("10 20 40 50 60 30/2? 30@32", UNEXPLAINED, hung_up),
    "runs that overlap": case("10 20 40 50 60 30+3 30@31/2", {"unexplained": 1, "overlapping": 1}),
    "that a worker is killed later is no excuse": case(
        "10 20 40 50 60 30/2? 30@31",
        {"unexplained": 1, "overlapping": 1},
        lambda story: (story.fault("worker-kill", 33, 33, pid=2), story.died(2, 33)),
    ),
    "a run that is early": case("10 20 40 50 60 30@29.9", {"early": 1}),
    "a job that is stuck": case("10 20 30 40", {"stuck": 1}, pending=50),
    "nobody goes on after a halt": case(ALL, {"unexplained": 2}, halted()),
    "unless one was suspended": case(ALL, UNEXPLAINED, halted("worker-pause", 29, 50, pid=2)),
    "a run after a stop": case(
        "10 20 30 40 50", UNEXPLAINED, changed("set", 41, "STOP"), pending=None, schedule="STOP"
    ),
    "what was forgotten counts from what the server still knew": case(ALL, LOST, forgotten),
    "what a replaced master has acknowledged last must be repeated": case(
        "10 20 30@34.5 40 50 60", LOST, lambda story: story.taken_over(pending=30)
    ),
    "a replaced master had passed the run on before": case(f"{ALL} 30@38", UNEXPLAINED, Story.taken_over),
    "the run is of the next master": case(f"{ALL} 40@42", UNEXPLAINED, Story.taken_over),
    "a loss before a takeover": case("10 30 40 50 60", LOST, Story.taken_over),
    "a loss after a takeover": case("10 20 30 40 60", LOST, Story.taken_over),
    "a request before a takeover that the next master knows": case(ALL, LOST, asked_before_takeover(33)),
    "a request to the next master": case(ALL, LOST, asked_before_takeover(37.5)),
    "what the next master has counted and run": case(
        "10 20 30@39.5 40 50 60", UNEXPLAINED, lambda story: story.taken_over(pending=30, until=39), skipped=1
    ),
    "a run that is not remembered": case(ALL, {"forgotten": 1}, remembered(60, 40, 30, 20)),
    "no such run is remembered": case(ALL, {"misremembered": 1}, remembered(60, 50, 40, (55, "ok", 1))),
    "it is remembered of another process": case(ALL, {"misremembered": 1}, remembered(60, 50, 40, (50, "overrun", 2))),
    "nobody has cancelled it": case(ALL, {"misremembered": 1}, remembered((60, "cancelled", 0), 50, 40)),
    "a job of a group has not run": case(ALL, LOST, grouped(range(1, MEMBERS), 30.0)),
    "what follows a group has not run": case(ALL, LOST, grouped(range(MEMBERS))),
    "it has run twice": case(ALL, LOST, grouped(range(MEMBERS), 30.0, 32.0)),
    "it has run before the last job of the group": case(ALL, LOST, grouped(range(MEMBERS), 20.05)),
    "an occurrence of a backfill has not run": case(ALL, LOST, backfilled(BASE, 3)),
    "what follows an occurrence of a backfill has not run": case(ALL, LOST, backfilled(name_child(BASE), 0)),
    "a run during a blackout when all is calm": case(ALL, {"paused": 1, "unexplained": 1}, darkened),
}


@pytest.mark.parametrize("name", CASES)
def test_it_convicts_what_is_not_well(story, name):
    judged(story, *CASES[name])


@pytest.mark.parametrize(("next_job", "unexplained"), [("fast.shared.3:A", 2), ("fast.shared.1:A", 1)])
def test_a_worker_goes_on_with_another_shard_while_it_cannot_tell_the_end_of_a_run(tmp_path, next_job, unexplained):
    story = Story(tmp_path, shards=4)
    assert [find_shard(job, 4) for job in (JOB, "fast.shared.3:A", "fast.shared.1:A")] == [1, 1, 3]
    story.run(30, start=30.2, pid=2, job=next_job)  # of no occurrence
    story.died(2, 30.4)
    judged(story, "10 20 40 50 60 30/2 30@42.3", {"unexplained": unexplained}, lambda _: None, {})


@pytest.mark.parametrize("elected", [35.2, 45])
def test_a_takeover_that_nobody_ordered_is_read_from_the_log_of_a_server(story, elected):
    at = datetime.fromtimestamp(EPOCH + elected).strftime("%d %b %Y %H:%M:%S.%f")[:-3]
    (story.folder / "servers" / "1").mkdir(parents=True)
    (story.folder / "servers" / "1" / "log").write_text(f"41:S {at} * Failover election won: I'm the new primary.\n")
    wrong = {} if elected < 40 else {"unexplained": 1}
    judged(story, "10 20 30@35 40 50 60 30@35.5/2", wrong, lambda _: None, {})


def test_a_pid_may_be_given_again(story):
    story.died(2, 32)
    story.faults.note("start", name="d1", role="dispatcher", pid=2, at=50, skew=0, many=False)
    judged(story, "10 20 30@31.9/2 40 50 60 30@44.5", {}, lambda _: None, {})


def test_a_killed_worker_that_repeats_more_than_one_run_and_what_took_no_time_is_counted(story):
    story.runs("10 20 50 60 30 40")
    for number, took in enumerate((0.00001, 0.00001, 0.2, None)):
        job = f"fast.shared.{number}:A"
        story.run(29, start=30 + number / 4, pid=2, tag="batch", took=took, job=job)
        story.run(29, start=42.1 + number, job=job)
        story.change("set", 28.995, "NOW", job=job)
    story.died(2, 30.8)
    verdict = story.verdict()
    found = summary(read(story.folder), verdict)
    assert failures(found) == []
    assert len(found["repeated too much"]) == 1


def test_the_table_names_what_is_wrong(story):
    story.runs("10 20 40 50 60")
    verdict = story.verdict()
    found = summary(read(story.folder), verdict)
    assert failures(found) == ["1 lost"]
    assert "lost: fast.still.1:A" in table(found)


CHILD, LAST = "fast.follow.0-0:A", "fast.follow.0-all:A"


@pytest.mark.parametrize(
    ("dues", "skipped", "mail", "wrong"),
    [
        pytest.param("10 20 40 50 60", 0, "", {"lost": 1}, id="one is not followed"),
        pytest.param("10 20 30 35 40 50 60", 0, "", {"unexplained": 1}, id="one follows nothing"),
        pytest.param("10 20 30", 2, "", {"lost": 1}, id="it has stopped"),
        pytest.param("10 20 30 40 50", 0, JOB, {}, id="it is still to be told of the last one"),
        pytest.param("10 30 40 50", 0, JOB, {"lost": 1}, id="it is still to be told, but was not told before"),
    ],
)
def test_followers_are_judged_by_the_runs_of_their_parents(story, dues, skipped, mail, wrong):
    known = {JOB: CRON, CHILD: f"AFTER:{JOB}", LAST: f"AFTER:{JOB},{CHILD}"}
    story.snapshot("after", 1, timeline=10, schedules=known)
    for due in ALL.split():
        story.run(float(due))
        story.run(float(due), start=float(due) + 0.4, job=LAST)
    for due in dues.split():
        story.run(float(due), start=float(due) + 0.2, job=CHILD)
    messages = {f"\x1c\x1c01\n1800000060000000 ok 1800000060.000000 {mail}": 0}
    found = story.verdict(schedules=known, skipped={f"running:{CHILD}": skipped}, followers=messages)
    assert {kind: len(told) for kind, told in found.wrong.items() if told} == wrong
