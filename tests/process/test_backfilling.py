"""A backfill beside its schedule, while workers and dispatchers are killed: each occurrence ends once."""

import itertools
import random

import pytest

from redbike.store.inspection.fsck import fsck
from tests.process.test_did_it_run import LOST_SOON
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

AT_ONCE, NUMBER, KILLS = 3, 100, 5
WORKER = f"""
{LOST_SOON}
import time
from redbike import RoundRobin, current_run

class Worker(RoundRobin):
    def work(self, jobid):
        run = current_run()
        note(f"begins {{jobid}} {{run.due:.0f}} {{bool(run.backfill_of)}}")
        time.sleep(0.02)
        note(f"ends {{jobid}} {{run.due:.0f}} {{bool(run.backfill_of)}}")

def note(text):
    with open("runs", "a") as notes:
        notes.write(text + chr(10))
"""


def test_each_occurrence_ends_once_in_order_and_so_many_at_once(jobs):
    (jobs.folder / "runs").touch()
    chance, store = random.Random(1), jobs.bike.store
    now = int(store.timeline.read_clock())
    assert jobs.bike.set("load:A", f"EVERY:1s@{now - 10_000}")
    found = jobs.bike.backfill("load:A", now - NUMBER - 10, now - 11, at_once=AT_ONCE)
    assert len(found.dues) == NUMBER
    processes = [jobs.start("dispatch"), *(jobs.start("work", "jobs:Worker('A')") for _ in range(4))]

    def read():
        lines = (jobs.folder / "runs").read_text().splitlines()
        return [(word, int(due)) for word, _, due, is_of in map(str.split, lines) if is_of == "True"]

    def count_done():
        told = jobs.bike.tell("load:A")
        assert len(told.get("backfill", {}).get("running", ())) <= AT_ONCE
        return (told.get("backfill") or told["last_backfill"])["done"]

    for number in range(1, KILLS + 1):
        wait_until(lambda number=number: count_done() >= number * NUMBER // (2 * KILLS))
        chosen = chance.randrange(len(processes))
        processes[chosen].kill()
        processes[chosen] = jobs.start("dispatch") if chosen == 0 else jobs.start("work", "jobs:Worker('A')")
    wait_until(lambda: "last_backfill" in jobs.bike.tell("load:A"), 60)
    told = jobs.bike.tell("load:A")["last_backfill"]
    assert (told["of"], told["done"], told["failed"], told["dropped"]) == (NUMBER, NUMBER, 0, 0)
    jobs.bike.control("HALT")
    assert [process.wait(30) for process in processes] == [0] * len(processes)

    events, due = read(), [int(each) for each in found.dues]
    assert {each for word, each in events if word == "ends"} == set(due)
    # Who is killed has begun one that is begun again: nothing else is.
    again = len([each for word, each in events if word == "begins"]) - NUMBER
    assert 0 <= again <= KILLS
    first = list(dict.fromkeys(each for word, each in events if word == "begins"))
    # What may run at once may begin in any order, and what a worker had taken that was killed begins late.
    furthest = itertools.accumulate(map(due.index, first), max)
    late = [each for each, most in zip(first, furthest, strict=True) if most - due.index(each) >= AT_ONCE]
    assert len(late) <= KILLS
    assert jobs.bike.tell("load:A")["runs"]
    assert list(fsck(store)) == []
