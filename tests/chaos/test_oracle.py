"""The oracle, fed with made-up histories: it must acquit what is well and convict what is not."""

import json

import pytest

from tests.chaos.expand import occurrences
from tests.chaos.history import read
from tests.chaos.report import failures, summary, table
from tests.chaos.sets import BETWEEN, FIRST, HOUR, MEMBERS, NUMBER, list_dark, list_members, name_child
from tests.chaos.story import CRON, EPOCH, JOB, Story

ALL = "10 20 30 40 50 60"


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


def given_up(story):
    for began in (20.1, 33, 46):
        story.fault("worker-kill", began + 0.1, began + 0.2, pid=1)
    story.died(1, 46.1)


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


def stopped(*faults):
    return lambda story: (*(story.fault(name, 30.5, 30.5, pid=2) for name in faults), story.died(2, 31))


def suspended_after_the_next_job(story):
    story.run(30, start=30.2, job="fast.shared.1:A")
    story.fault("worker-pause", 30.5, 32, pid=1)


LOST, UNEXPLAINED = {"lost": 1}, {"unexplained": 1}
CASES = {
    "a retry for the same due time": case("10! 10@15 20 30 40 50 60"),
    "what another occurrence has saved": case(
        "10 20 40 50 60", {"foreign": 1}, lambda story: story.run(30, how="foreign")
    ),
    "a retry with another due time": case("10! 15@15 20 30 40 50 60", UNEXPLAINED),
    "a retry that drops another occurrence": case("10! 10@25 30 40 50 60", LOST),
    "what waits to be tried again is pending for its due time": case(
        "10 20 30 40 50 60!", pending=66, retry_states={JOB: f"1 0 1 {EPOCH + 60:.6f} -"}
    ),
    "a one-off that was past did not run": case(
        "10 20 30", LOST, changed("set", 35, f"AT:{EPOCH + 34}"), pending=None, schedule="STOP"
    ),
    "a run that never ended does not count": case("10 20 30 40 50 60?", LOST),
    "a job that is nowhere": case(ALL, LOST, pending=None),
    "a job that was given up with a record": case(
        "10 20@20.1? 20@33? 20@46?",
        {},
        given_up,
        pending=None,
        statuses={JOB: "DIE:1800000050"},
        failures={JOB: json.dumps({"due": EPOCH + 20})},
    ),
    "counts of what was run": case(ALL, UNEXPLAINED, skipped=1),
    "a run of no occurrence": case("10 20 25 30 40 50 60", UNEXPLAINED),
    "a repeated run": case(f"{ALL} 30@33", UNEXPLAINED),
    "a worker that could not tell in time": case("10 20 50 60 30/2 30@42.1", {}, cut_off(30.1, 34, 38), skipped=1),
    "one that could": case("10 20 50 60 30/2 30@42.1", UNEXPLAINED, cut_off(30.1, 40), skipped=1),
    "a lost run that is repeated before its lease has run out": case(
        "10 20 40 50 60 30/2? 30@41.5", UNEXPLAINED, lambda story: story.died(2, 30.05)
    ),
    "a fault of another worker": case(
        f"{ALL} 30@33", UNEXPLAINED, lambda story: story.fault("worker-pause", 29, 45, pid=2)
    ),
    "a run that was handed back": case("10 20 40 50 60 30/2? 30@32", {}, stopped("worker-hup", "worker-clock")),
    "one whose worker was to wait for it": case("10 20 40 50 60 30/2? 30@32", UNEXPLAINED, stopped("worker-hup")),
    "runs that overlap": case("10 20 40 50 60 30+3 30@31/2", {"unexplained": 1, "overlapping": 1}),
    "that a worker is killed later is no excuse": case(
        "10 20 40 50 60 30/2? 30@31",
        {"unexplained": 1, "overlapping": 1},
        lambda story: (story.fault("worker-kill", 33, 33, pid=2), story.died(2, 33)),
    ),
    "a run that is early": case("10 20 40 50 60 30@29.9", {"early": 1}),
    "a job that is stuck": case("10 20 30 40", {"stuck": 1}, pending=50),
    "nobody goes on after a halt": case(ALL, {"unexplained": 2}, halted()),
    "unless it was forgotten": case(ALL, {}, halted("aof-tail", 31, 32, since=30)),
    "or one was suspended": case(ALL, UNEXPLAINED, halted("worker-pause", 29, 50, pid=2)),
    "a request that was met": case(f"{ALL} 61.005", {}, changed("rerun", 61, "RERUN")),
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
    "one that may come to nothing": case(ALL, {}, asked_before_takeover(34.5)),
    "one of the next master": case(ALL, LOST, asked_before_takeover(37.5)),
    "a run of a master that does not know that it was replaced may count as skipped too": case(
        "10 20 30@38 40 50 60", {}, lambda story: story.taken_over(pending=30, until=39), skipped=1
    ),
    "one of the next master may not": case(
        "10 20 30@39.5 40 50 60", UNEXPLAINED, lambda story: story.taken_over(pending=30, until=39), skipped=1
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_acquits_what_is_well_and_convicts_what_is_not(story, name):
    judged(story, *CASES[name])


EVERY = "EVERY:5s@1800000000"


@pytest.mark.parametrize(
    ("told", "row"),
    [
        (f"{EPOCH + 30}", case("10 20 40 50 60", LOST)),
        ("asked for", case(ALL, LOST, changed("rerun", 41, "RERUN"))),
        # A job is judged from its last change on.
        (f"{EPOCH + 50}", case("10 20 30 40 45 55 60", LOST, changed("set", 41, EVERY), pending=65, schedule=EVERY)),
        ("it is nowhere", case(ALL, LOST, changed("set", 61, CRON), pending=None, schedule=None)),
        ("it is nowhere", case(ALL, LOST, changed("set", 61, "AT:1800000090"), pending=None, schedule=None)),
        ("run again", case(f"{ALL} 30@33/2", {"unexplained": 2}, suspended_after_the_next_job)),
    ],
)
def test_it_tells_what_is_wrong(story, told, row):
    wrong = judged(story, *row).wrong
    assert any(told in line for line in wrong["lost"] + wrong["unexplained"])


@pytest.mark.parametrize(
    ("counted", "row"), [({"run once": 6}, case(ALL)), ({"counted as skipped": 2}, case("10 40 50 60", skipped=2))]
)
def test_it_counts_what_it_acquits(story, counted, row):
    assert counted.items() <= judged(story, *row).occurrences.items()


@pytest.mark.parametrize(
    ("remembered", "expected"),
    [
        ((60, 50, 40), {}),
        (((60, "lost", 1), (50, "lost", 7), 40), {}),
        ((60, 40, 30, 20), {"forgotten": 1}),
        *(((60, 50, 40, run), {"misremembered": 1}) for run in ((55, "ok", 1), (50, "ok", 2), (50, "overrun", 2))),
    ],
)
def test_what_is_remembered_is_what_ran(story, remembered, expected):
    verdict = judged(story, *case(ALL, expected, lambda story: story.remember(*remembered)))
    assert expected or verdict.occurrences["remembered"] == 3


@pytest.mark.parametrize(("cancelled", "expected"), [(True, {}), (False, {"misremembered": 1})])
def test_a_run_that_was_cancelled_and_lost_is_remembered_without_a_worker(story, cancelled, expected):
    def remember(story):
        story.remember((60, "cancelled", 0), 50, 40)
        if cancelled:
            story.change("cancel", 60.5, word="cancelled")

    judged(story, *case(ALL, expected, remember))


@pytest.mark.parametrize(
    ("reason", "end", "fault", "more"),
    [
        ("killed", "?", "worker-kill", {}),
        ("paused", "", "worker-pause", {}),
        ("forgotten", "", "aof-tail", {"since": 29}),
    ],
)
def test_a_fault_explains_a_repeated_run(story, reason, end, fault, more):
    def strike(story):
        story.fault(fault, 30, 42, pid=2, **more)
        if end:
            story.died(2, 30.05)

    verdict = judged(story, *case(f"10 20 50 60 30/2{end} 30@42.1", {}, strike, skipped=1))
    assert [run.pid for run in verdict.repeats[reason]] == [2]


def test_what_a_replaced_master_has_acknowledged_last_may_be_repeated(story):
    runs = "10 20 30@34.5 30@38 40 50 60"
    assert len(judged(story, *case(runs, {}, lambda story: story.taken_over(pending=30))).repeats["forgotten"]) == 1


def test_strictly_a_killed_worker_repeats_one_run_and_what_took_no_time(story):
    story.runs("10 20 50 60 30 40")
    for number, took in enumerate((0.00001, 0.00001, 0.2, None)):
        job = f"fast.shared.{number}:A"
        story.run(29, start=30 + number / 4, pid=2, tag="batch", took=took, job=job)
        story.run(29, start=42.1 + number, job=job)
        story.change("set", 28.995, "NOW", job=job)
    story.died(2, 30.8)
    verdict = story.verdict()
    found = summary(read(story.folder), verdict)
    assert failures(found, strict_repeats=False) == []
    assert failures(found, strict_repeats=True) == ["1 worker repeated more than one run"]


def test_the_table_names_what_is_wrong(story):
    story.runs("10 20 40 50 60")
    verdict = story.verdict()
    found = summary(read(story.folder), verdict)
    assert failures(found, strict_repeats=True) == ["1 lost"]
    assert "lost: fast.still.1:A" in table(found)


@pytest.mark.parametrize(
    ("text", "dues"),
    [
        (CRON, [10, 20, 30, 40, 50, 60]),
        ("* * * * * 7,12", [7, 12]),
        ("EVERY:25s@1800000000.5", [25.5, 50.5]),
        ("EVERY:25s@1799999990", [15, 40]),
        ("EVERY:25s@1800000030", [55]),
        ("AT:1800000033.25", [33.25]),
        ("DTSTART:20250101T000000Z\\nRRULE:FREQ=SECONDLY;INTERVAL=20", [20, 40, 60]),
        ("DTSTART:20270115T080005Z\nRRULE:FREQ=SECONDLY;INTERVAL=20;COUNT=2", [5, 25]),
        ("DTSTART:20250101T000000Z\nRRULE:FREQ=MINUTELY;BYSECOND=3,44", [3, 44]),
        ("STOP", []),
    ],
)
def test_it_expands_schedules(text, dues):
    assert occurrences(text, EPOCH, EPOCH + 60) == [EPOCH + due for due in dues]


CHILD, LAST = "fast.follow.0-0:A", "fast.follow.0-all:A"


@pytest.mark.parametrize(
    ("dues", "skipped", "wrong"),
    [
        pytest.param("10 20 30 40 50 60", 0, {}, id="all are followed"),
        pytest.param("10 20 30 40 50", 0, {}, id="the last one may still be"),
        pytest.param("10 20 40 50 60", 0, {"lost": 1}, id="one is not followed"),
        pytest.param("10 20 40 50 60", 1, {}, id="one is counted"),
        pytest.param("10 20 30 35 40 50 60", 0, {"unexplained": 1}, id="one follows nothing"),
        pytest.param("10 20 30", 2, {"lost": 1}, id="it has stopped"),
    ],
)
def test_followers_are_judged_by_the_runs_of_their_parents(story, dues, skipped, wrong):
    known = {JOB: CRON, CHILD: f"AFTER:{JOB}", LAST: f"AFTER:{JOB},{CHILD}"}
    story.snapshot("after", 1, timeline=10, schedules=known)
    for due in ALL.split():
        story.run(float(due))
        story.run(float(due), start=float(due) + 0.4, job=LAST)
    for due in dues.split():
        story.run(float(due), start=float(due) + 0.2, job=CHILD)
    found = story.verdict(schedules=known, skipped={f"running:{CHILD}": skipped})
    assert {kind: len(told) for kind, told in found.wrong.items() if told} == wrong


THEN, BASE = "fast.follow-then.0-1:A", "fast.follow-base.0-1:A"
WELL = range(MEMBERS), [30.0]


@pytest.mark.parametrize(
    ("members", "then", "asked", "wrong"),
    [
        pytest.param(*WELL, 1, 0, id="all is well"),
        pytest.param(range(1, MEMBERS), [30.0], 1, 1, id="one has not run"),
        pytest.param(range(MEMBERS), [], 1, 1, id="what follows has not run"),
        pytest.param(range(MEMBERS), [30.0, 32.0], 1, 1, id="it has run twice"),
        pytest.param(range(MEMBERS), [30.0, 32.0], 2, 0, id="it was asked for twice"),
        pytest.param(range(MEMBERS), [20.05], 1, 1, id="it has run before the last one"),
    ],
)
def test_what_follows_a_group_is_judged_by_its_jobs(story, members, then, asked, wrong):
    story.runs(ALL)
    for number in members:
        story.run(20, job=list_members(THEN)[number])
    for due in then:
        story.run(due, job=THEN)
    for number in range(asked):
        story.change("group", 19 + number, job=THEN)
    assert len(story.verdict().wrong["lost"]) == wrong


@pytest.mark.parametrize("missing", [None, (BASE, 3), (name_child(BASE), 0)])
def test_a_backfill_is_judged_by_its_range(story, missing):
    story.runs(ALL)
    story.change("backfill", 19, job=BASE)
    for job in (BASE, name_child(BASE)):
        for number in range(NUMBER):
            if (job, number) != missing:
                due = FIRST + number * HOUR - EPOCH
                story.run(due, start=30.0 + number, job=f"{job}@{number}")
    assert len(story.verdict().wrong["lost"]) == (missing is not None)


@pytest.mark.parametrize(("at", "wrong"), [(BETWEEN - 1, 0), (BETWEEN + 1, 0), (BETWEEN + 7, 1), (BETWEEN + 9, 0)])
def test_no_job_runs_during_a_blackout_when_all_is_calm(story, at, wrong):
    story.runs(ALL)
    story.faults.note("calm", at=5.0)
    story.run(at, job=list_dark()[0][0])
    assert len(story.verdict().wrong["paused"]) == wrong
