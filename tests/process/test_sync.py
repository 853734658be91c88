"""A file of 1,000 jobs is changed and loaded again while real processes run them: only what differs is touched."""

import csv
from collections import Counter

import pytest

from tests.commandline import Shell
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = """
import redbike


class Worker(redbike.RoundRobin):
    def work(self, jobid):
        run = redbike.current_run()
        with open("runs.csv", "a") as out:
            out.write(f"{jobid},{run.due:.6f}\\n")
"""
# By the last digit of the number of a job.
KINDS = [
    "EVERY:1s",
    "EVERY:2s",
    "EVERY:3s",
    "* * * * * *",
    "*/10 * * * *",
    "FREQ=SECONDLY;INTERVAL=2",
    "FREQ=HOURLY",
    "EVERY:1h",
    "30 3 * * *",
    "AT:4000000000",
]
CHANGED = {f"{number:03d}:A" for number in range(5, 1000, 100)}


@pytest.fixture
def loops(jobs):
    jobs.processes = [jobs.start("dispatch", log="dispatcher")]
    jobs.processes += [jobs.start("work", "jobs:Worker('A')", log=f"worker{number}") for number in range(2)]
    yield jobs
    halt(jobs)


def halt(shell: Shell) -> None:
    shell.run("control", "HALT")
    assert [process.wait(timeout=20) for process in shell.processes] == [0, 0, 0]


def write(shell: Shell, jobs: dict[str, str]) -> None:
    with open(shell.folder / "jobs.csv", "w", newline="") as out:
        csv.writer(out).writerows(jobs.items())


def runs(shell: Shell) -> list[tuple[str, str]]:
    path = shell.folder / "runs.csv"
    if not path.exists():
        return []
    # The last line may not be whole yet.
    return [(jobid, due) for jobid, due in csv.reader(path.read_text().rpartition("\n")[0].splitlines())]


def load(shell: Shell, *options: str) -> tuple[list[list[str]], str]:
    done = shell.run("load", "jobs.csv", *options)
    assert done.returncode == 0
    return list(csv.reader(done.stdout.splitlines())), done.stderr


def wait_for_more_runs(shell: Shell) -> None:
    """Until each of many jobs has run twice more."""
    before = Counter(jobid for jobid, _ in runs(shell))

    def each_has_run():
        now = Counter(jobid for jobid, _ in runs(shell))
        return all(now[f"{n:03d}:A"] >= before[f"{n:03d}:A"] + 2 for n in range(0, 1000, 10))

    wait_until(each_has_run, timeout=60)


def test_only_what_differs_is_touched_while_the_jobs_run(loops):
    rows = {f"{number:03d}:A": KINDS[number % 10] for number in range(1000)}
    write(loops, rows)
    assert load(loops)[1] == "redbike: jobs.csv: 1000 added\n"
    wait_for_more_runs(loops)
    before = dict(loops.bike.get_schedules())

    write(loops, rows | dict.fromkeys(CHANGED, "FREQ=SECONDLY;INTERVAL=3"))
    changes, said = load(loops)
    assert {(word, jobid) for word, jobid, _ in changes} == {("changed", jobid) for jobid in CHANGED}
    assert said == "redbike: jobs.csv: 10 changed, 990 unchanged\n"
    after = dict(loops.bike.get_schedules())
    assert {jobid for jobid in before if after[jobid] != before[jobid]} == CHANGED
    wait_for_more_runs(loops)

    gone = {"000:A", "007:A"}
    write(loops, {jobid: text for jobid, text in rows.items() if jobid not in gone | CHANGED})
    changes, said = load(loops, "--prune")
    assert {(word, jobid) for word, jobid, _ in changes} == {("removed", jobid) for jobid in gone | CHANGED}
    assert {jobid for jobid, _ in loops.bike.get_schedules()} == set(rows) - gone - CHANGED
    halt(loops)

    found = runs(loops)
    assert [occurrence for occurrence, number in Counter(found).items() if number > 1] == []
    dues: dict[str, list[float]] = {}
    for jobid, due in found:
        dues.setdefault(jobid, []).append(float(due))
    for number in range(0, 1000, 10):
        jobid = f"{number:03d}:A"
        if jobid in gone:
            continue
        anchor = float(after[jobid].partition("@")[2])
        own = sorted(dues[jobid])
        # Its phase is as ever.
        assert all(abs((due - anchor) - round(due - anchor)) < 0.001 for due in own)
        missing = round(own[-1] - own[0]) + 1 - len(own)
        told = sum(loops.bike.tell(jobid).get("skipped", {}).values())
        assert missing <= told, f"{jobid}: {missing} occurrences are lost"
    assert list(loops.bike.fsck()) == []
