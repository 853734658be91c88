"""The oracle, fed with made-up histories: it must acquit what is well and convict what is not."""

import json

import pytest

from tests.chaos.expand import occurrences
from tests.chaos.history import read
from tests.chaos.journal import Journal
from tests.chaos.oracle import judge
from tests.chaos.report import failures, summary, table

EPOCH = 1_800_000_000.0  # of the monotonic clock; a full minute
JOB = "fast.still.1:A"
CRON = "* * * * * */10"
HELD = ("schedules", "statuses", "queued", "running", "skipped", "failures", "streaks", "timeline")


class Story:
    """Writes a history; times are seconds after `EPOCH`. It begins with a job that is due at 10, 20, …, 60 s."""

    def __init__(self, folder):
        self.folder = folder
        self.faults = Journal(folder / "faults.log")
        self.operations = Journal(folder / "operations.log")
        self.lines = []
        self.faults.note("clock", offset=EPOCH)
        self.faults.note("run", options={})
        for pid in (1, 2):
            self.faults.note("start", name=f"w{pid}", role="worker", pid=pid, at=0, skew=0, many=False)
        self.snapshot("after", 1, timeline=10)

    def run(self, due, start=None, pid=1, tag=None, took=0.1, job=JOB, how="done"):
        start = due + 0.01 if start is None else start
        tag = tag or f"{pid}-{start}"
        self.lines.append(f"S {start} {pid} {tag} {EPOCH + due} {EPOCH + start - 0.001} {job}")
        if took is not None:
            self.lines.append(f"E {start + took} {pid} {tag} {how} {job}")

    def runs(self, *dues):
        for due in dues:
            self.run(due)

    def fault(self, name, began, ended, **more):
        self.faults.note("fault", name=name, began=began, ended=ended, **more)

    def change(self, kind, began, schedule=CRON, answer="ok", job=JOB):
        self.operations.note(
            kind, job=job, schedule=schedule, began=began, ended=began + 0.01, answer=answer, skipped=0
        )

    def snapshot(self, when, at, job=JOB, schedule=CRON, timeline=None, skipped=0, **more):
        held = {name: {} for name in HELD}
        if schedule:
            held |= {"schedules": {job: schedule}, "statuses": {job: "TML:1800000000"}}
        if timeline is not None:
            held["timeline"] = {job: EPOCH + timeline}
        if skipped:
            counts = skipped if isinstance(skipped, dict) else {"missed": skipped}
            held["skipped"] = {f"{reason}:{job}": str(count) for reason, count in counts.items()}
        with open(self.folder / "snapshots.log", "a") as file:
            file.write(json.dumps({"when": when, "began": at, "ended": at, **held, **more}) + "\n")

    def verdict(self, pending=70, **more):
        """Judge, when the story ends at 65 s with the job due at `pending`."""
        self.faults.note("end", at=64)
        self.snapshot("before", 65, timeline=pending, **more)
        (self.folder / "runs.log").write_text("".join(f"{line}\n" for line in self.lines))
        return judge(read(self.folder))


@pytest.fixture
def story(tmp_path):
    return Story(tmp_path)


def wrong(verdict):
    return {kind: len(cases) for kind, cases in verdict.wrong.items() if cases}


def remember(story, *runs):
    """What `redbike runs` prints: due times, and maybe outcomes and processes."""
    rows = [(due, "ok", 1) if isinstance(due, int) else due for due in runs]
    lines = [f"{JOB},{EPOCH + due},{EPOCH + due},0.1,{outcome},1,,web1:{pid}:x7Kd9QaZ\n" for due, outcome, pid in rows]
    header = "jobid,due,started,took,outcome,attempt,error,worker\n"
    (story.folder / "remembered.csv").write_text(header + "".join(lines))


def test_it_acquits_what_is_remembered_as_it_ran(story):
    story.runs(10, 20, 30, 40, 50, 60)
    remember(story, 60, 50, 40)
    verdict = story.verdict()
    assert wrong(verdict) == {}
    assert verdict.occurrences["remembered"] == 3


def test_it_acquits_a_run_that_is_remembered_as_lost(story):
    story.runs(10, 20, 30, 40, 50, 60)
    remember(story, (60, "lost", 1), (50, "lost", 7), 40)
    assert wrong(story.verdict()) == {}


def test_it_convicts_when_a_run_is_forgotten(story):
    story.runs(10, 20, 30, 40, 50, 60)
    remember(story, 60, 40, 30, 20)
    assert wrong(story.verdict()) == {"forgotten": 1}


@pytest.mark.parametrize("run", [(55, "ok", 1), (50, "ok", 2), (50, "overrun", 2)])
def test_it_convicts_when_a_run_is_remembered_that_never_was(story, run):
    story.runs(10, 20, 30, 40, 50, 60)
    remember(story, 60, 50, 40, run)
    assert wrong(story.verdict()) == {"misremembered": 1}


def test_it_acquits_a_retry_for_the_same_due_time(story):
    story.run(10, how="raised")
    story.run(10, start=15)
    story.runs(20, 30, 40, 50, 60)
    assert wrong(story.verdict()) == {}


def test_it_convicts_a_retry_with_another_due_time(story):
    story.run(10, how="raised")
    story.run(15, start=15)
    story.runs(20, 30, 40, 50, 60)
    assert wrong(story.verdict())["unexplained"] == 1


def test_it_convicts_a_retry_that_drops_another_occurrence(story):
    story.run(10, how="raised")
    story.run(10, start=25)
    story.runs(30, 40, 50, 60)
    assert wrong(story.verdict()) == {"lost": 1}


def test_what_waits_to_be_tried_again_is_pending_for_its_due_time(story):
    story.runs(10, 20, 30, 40, 50)
    story.run(60, how="raised")
    assert wrong(story.verdict(pending=66, streaks={JOB: f"1 0 1 {EPOCH + 60:.6f} -"})) == {}


def test_it_convicts_when_a_one_off_that_was_past_did_not_run(story):
    story.runs(10, 20, 30)
    story.change("set", began=35, schedule=f"AT:{EPOCH + 34}")
    assert wrong(story.verdict(pending=None, schedule="STOP"))["lost"] == 1


def test_it_acquits_when_all_ran(story):
    story.runs(10, 20, 30, 40, 50, 60)
    verdict = story.verdict()
    assert wrong(verdict) == {}
    assert verdict.occurrences["run once"] == 6


def test_it_acquits_what_was_counted(story):
    story.runs(10, 40, 50, 60)
    verdict = story.verdict(skipped=2)
    assert wrong(verdict) == {}
    assert verdict.occurrences["counted as skipped"] == 2


def test_it_finds_what_was_lost(story):
    story.runs(10, 20, 40, 50, 60)
    verdict = story.verdict()
    assert wrong(verdict) == {"lost": 1}
    assert f"{EPOCH + 30}" in verdict.wrong["lost"][0]


def test_a_run_that_never_ended_does_not_count(story):
    story.runs(10, 20, 30, 40, 50)
    story.run(60, took=None)
    assert wrong(story.verdict()) == {"lost": 1}


def test_it_finds_a_job_that_is_nowhere(story):
    story.runs(10, 20, 30, 40, 50, 60)
    assert wrong(story.verdict(pending=None)) == {"lost": 1}


def test_a_job_that_was_given_up_with_a_record_is_not_lost(story):
    story.runs(10)
    for start in (20.1, 33, 46):
        story.run(20, start=start, took=None)
        story.fault("worker-kill", start + 0.1, start + 0.2, pid=1)
    story.faults.note("exit", name="w1", role="worker", pid=1, at=46.1, status=-9)
    given_up = {JOB: json.dumps({"due": EPOCH + 20})}
    verdict = story.verdict(pending=None, statuses={JOB: "DIE:1800000050"}, failures=given_up)
    assert "lost" not in wrong(verdict)


def test_it_finds_counts_of_what_was_run(story):
    story.runs(10, 20, 30, 40, 50, 60)
    assert wrong(story.verdict(skipped=1)) == {"unexplained": 1}


def test_it_finds_a_run_of_no_occurrence(story):
    story.runs(10, 20, 25, 30, 40, 50, 60)
    assert wrong(story.verdict()) == {"unexplained": 1}


def test_it_finds_a_repeated_run(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.run(30, start=33)
    assert wrong(story.verdict()) == {"unexplained": 1}


@pytest.mark.parametrize(
    ("reason", "fault", "exit_at"),
    [("killed", "worker-kill", 30.05), ("paused", "worker-pause", None), ("forgotten", "aof-tail", None)],
)
def test_a_fault_explains_a_repeated_run(story, reason, fault, exit_at):
    story.runs(10, 20, 50, 60)
    story.run(30, took=None if exit_at else 0.1, pid=2)
    story.run(30, start=42.1)
    story.fault(fault, 30, 42, pid=2, **({"since": 29} if reason == "forgotten" else {}))
    if exit_at:
        story.faults.note("exit", name="w2", role="worker", pid=2, at=exit_at, status=-9)
    verdict = story.verdict(skipped=1)
    assert wrong(verdict) == {}
    assert [run.pid for run in verdict.repeats[reason]] == [2]


@pytest.mark.parametrize(("stalled", "expected"), [((30.1, 34, 38), {}), ((30.1, 40), {"unexplained": 1})])
def test_a_worker_that_is_cut_off_explains_it_only_if_it_could_not_tell_in_time(story, stalled, expected):
    story.runs(10, 20, 50, 60)
    story.run(30, pid=2)
    for began in stalled:
        story.fault("stall", began, began + 2, pid=2)
    story.run(30, start=42.1)
    assert wrong(story.verdict(skipped=1)) == expected


def test_a_lost_run_is_not_repeated_before_its_lease_has_run_out(story):
    story.runs(10, 20, 40, 50, 60)
    story.run(30, took=None, pid=2)
    story.faults.note("exit", name="w2", role="worker", pid=2, at=30.05, status=-9)
    story.run(30, start=41.5)
    assert wrong(story.verdict()) == {"unexplained": 1}


def test_a_fault_of_another_worker_explains_nothing(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.run(30, start=33)
    story.fault("worker-pause", 29, 45, pid=2)
    assert wrong(story.verdict()) == {"unexplained": 1}


def test_nor_does_one_after_the_worker_took_the_next_job(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.run(30, start=33, pid=2)
    story.run(30, start=30.2, job="fast.shared.1:A")
    story.fault("worker-pause", 30.5, 32, pid=1)
    verdict = story.verdict()
    assert any("run again" in case for case in verdict.wrong["unexplained"])


def test_it_finds_runs_that_overlap(story):
    story.runs(10, 20, 40, 50, 60)
    story.run(30, took=3)
    story.run(30, start=31, pid=2)
    assert wrong(story.verdict()) == {"unexplained": 1, "overlapping": 1}


def test_a_worker_that_is_killed_later_does_not_excuse_that(story):
    story.runs(10, 20, 40, 50, 60)
    story.run(30, pid=2, took=None)
    story.run(30, start=31)
    story.fault("worker-kill", 33, 33, pid=2)
    story.faults.note("exit", name="w2", role="worker", pid=2, at=33, status=-9)
    assert wrong(story.verdict()) == {"overlapping": 1, "unexplained": 1}


def test_it_finds_a_run_that_is_early(story):
    story.runs(10, 20, 40, 50, 60)
    story.run(30, start=29.9)
    assert wrong(story.verdict()) == {"early": 1}


def test_it_finds_a_job_that_is_stuck(story):
    story.runs(10, 20, 30, 40)
    assert wrong(story.verdict(pending=50)) == {"stuck": 1}


def test_a_job_is_judged_from_its_last_change_on(story):
    story.change("set", 41, "EVERY:5s@1800000000")
    story.runs(10, 20, 30, 40, 45, 55, 60)
    verdict = story.verdict(pending=65, schedule="EVERY:5s@1800000000")
    assert wrong(verdict) == {"lost": 1}
    assert f"{EPOCH + 50}" in verdict.wrong["lost"][0]


def test_it_finds_a_request_that_came_to_nothing(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.change("rerun", 41, "RERUN")
    verdict = story.verdict()
    assert wrong(verdict) == {"lost": 1}
    assert "asked for" in verdict.wrong["lost"][0]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, {"unexplained": 2}),
        ({"name": "aof-tail", "began": 31, "ended": 32, "since": 30}, {}),
        ({"name": "worker-pause", "began": 29, "ended": 50, "pid": 2}, {"unexplained": 1}),
    ],
)
def test_it_finds_who_goes_on_after_a_halt(story, fault, expected):
    story.runs(10, 20, 30, 40, 50, 60)
    story.change("halt", 31, job="")
    if fault:
        story.fault(**fault)
    assert wrong(story.verdict()) == expected


@pytest.mark.parametrize("schedule", [CRON, "AT:1800000090"])
def test_it_finds_a_job_that_was_set_and_is_nowhere(story, schedule):
    story.runs(10, 20, 30, 40, 50, 60)
    story.change("set", 61, schedule)
    verdict = story.verdict(pending=None, schedule=None)
    assert any("it is nowhere" in case for case in verdict.wrong["lost"])


def test_a_request_that_was_met_is_well(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.change("rerun", 61, "RERUN")
    story.run(61.005)
    assert wrong(story.verdict()) == {}


def test_it_finds_a_run_after_a_stop(story):
    story.change("set", 41, "STOP")
    story.runs(10, 20, 30, 40, 50)
    assert wrong(story.verdict(pending=None, schedule="STOP")) == {"unexplained": 1}


def test_what_was_forgotten_counts_from_what_the_server_still_knew(story):
    story.runs(10, 20, 30)
    story.snapshot("before", 35, timeline=40)
    story.fault("aof-tail", 35, 35.5, since=29)
    story.snapshot("after", 35.5, timeline=30)
    story.runs(40, 50, 60)
    # The occurrence at 30 was run, but Redis does not know that any more: it must be run again.
    assert wrong(story.verdict()) == {"lost": 1}


def taken_over(story, pending=40, until=35.1):
    """A master goes at 35 s; the next one has all that was acknowledged up to 34 s, and is there at 37 s."""
    story.snapshot("before", 37, timeline=pending)
    story.fault("master-kill", 35, 38, since=34, until=until)
    story.snapshot("after", 37, timeline=pending)


def test_what_a_replaced_master_has_acknowledged_last_may_be_repeated(story):
    story.runs(10, 20)
    story.run(30, start=34.5)
    taken_over(story, pending=30)
    story.run(30, start=38)
    story.runs(40, 50, 60)
    verdict = story.verdict()
    assert wrong(verdict) == {}
    assert len(verdict.repeats["forgotten"]) == 1


def test_but_it_must_be_repeated(story):
    story.runs(10, 20)
    story.run(30, start=34.5)
    taken_over(story, pending=30)
    story.runs(40, 50, 60)
    assert wrong(story.verdict()) == {"lost": 1}


def test_a_replaced_master_explains_no_repeated_run_that_it_had_passed_on_before(story):
    story.runs(10, 20, 30)
    taken_over(story)
    story.run(30, start=38)
    story.runs(40, 50, 60)
    assert wrong(story.verdict()) == {"unexplained": 1}


def test_nor_one_of_the_next_master(story):
    story.runs(10, 20, 30)
    taken_over(story)
    story.run(40, start=40.01)
    story.run(40, start=42)
    story.runs(50, 60)
    assert wrong(story.verdict()) == {"unexplained": 1}


@pytest.mark.parametrize("missing", [20, 50])
def test_a_takeover_excuses_no_loss(story, missing):
    story.runs(*(due for due in (10, 20, 30, 40, 50, 60) if due != missing))
    taken_over(story)
    assert wrong(story.verdict()) == {"lost": 1}


@pytest.mark.parametrize(("asked", "expected"), [(33, {"lost": 1}), (34.5, {}), (37.5, {"lost": 1})])
def test_only_what_was_asked_of_the_old_master_at_last_may_come_to_nothing(story, asked, expected):
    story.change("rerun", asked, "RERUN")
    taken_over(story)
    story.runs(10, 20, 30, 40, 50, 60)
    assert wrong(story.verdict()) == expected


@pytest.mark.parametrize(("start", "expected"), [(38, {}), (39.5, {"unexplained": 1})])
def test_only_a_run_of_a_master_that_does_not_know_that_it_was_replaced_may_count_as_skipped_too(
    story, start, expected
):
    story.runs(10, 20)
    taken_over(story, pending=30, until=39)
    story.run(30, start=start)
    story.runs(40, 50, 60)
    assert wrong(story.verdict(skipped=1)) == expected


def test_strictly_a_killed_worker_repeats_one_run_and_what_took_no_time(story):
    story.runs(10, 20, 50, 60)
    for number, took in enumerate((0.00001, 0.00001, 0.2, None)):
        job = f"fast.shared.{number}:A"
        story.run(29, start=30 + number / 4, pid=2, tag="batch", took=took, job=job)
        story.run(29, start=42.1 + number, job=job)
        story.change("set", 28.995, "NOW", job=job)
    story.faults.note("exit", name="w2", role="worker", pid=2, at=30.8, status=-9)
    story.run(30)
    story.run(40)
    verdict = story.verdict()
    found = summary(read(story.folder), verdict)
    assert failures(found, strict_repeats=False) == []
    assert failures(found, strict_repeats=True) == ["1 worker repeated more than one run"]


def test_the_table_names_what_is_wrong(story):
    story.runs(10, 20, 40, 50, 60)
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
