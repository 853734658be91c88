"""What the page tells of a world of real processes is what these have noted in files of their own."""

import json
import os
import re
import signal
from collections import Counter, defaultdict

import pytest

from redbike import Redbike, RoundRobin
from redbike.web import app
from tests.waiting import wait_until
from tests.web.conftest import BASE, TestClient
from tests.web.html import listed, read
from tests.web.test_pages_forecast import show

pytestmark = pytest.mark.acceptance

WORKER = """
import json, os, time
from redbike import RoundRobin


def note(file, **found):
    with open(file, "a") as notes:
        notes.write(json.dumps({"pid": os.getpid(), **found}) + "\\n")


class Work(RoundRobin):
    def work(self, jobid):
        began = time.time()
        note("begun", job=jobid, at=began)
        if jobid.startswith(("hung", "doomed")):
            time.sleep(3600)
        time.sleep(0.05 if jobid.startswith("slow") else 0)
        fails = jobid.startswith("bad") or jobid.startswith("third") and count(jobid) % 3 == 0
        note("ended", job=jobid, at=began, took=time.time() - began, ok=not fails)
        if fails:
            raise ValueError("no luck")


def count(jobid):
    return sum(json.loads(line)["job"] == jobid for line in open("begun"))
"""


@pytest.fixture
def world(jobs, server_url):
    """Processes of which one is killed, jobs that go well, fail, hang, wait and are paused; what these have noted."""
    bike = Redbike(RoundRobin("A:B:C"), redis_config=server_url)

    def notes(name):
        path = jobs.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def begun(jobid):
        return sum(each["job"] == jobid for each in notes("begun"))

    killed = jobs.start("work", "jobs:Work('B')", log="killed")
    bike.set("doomed:B", "NOW", on_lost="stop")
    wait_until(lambda: begun("doomed:B"))
    os.kill(killed.pid, signal.SIGKILL)
    jobs.start("dispatch", log="dispatch")
    workers = [jobs.start("work", "jobs:Work('A:B')", "--concurrency=2", log=f"work{number}") for number in range(2)]
    bike.set("hung:A", "NOW", timeout="1h")
    for jobid in ("third:A", "slow:A", "paused:A"):
        bike.set(jobid, "EVERY:1d", history=20, on_error="reschedule")
    list(bike.pause("paused:A"))
    for number in range(5):
        bike.set(f"one{number}:A", "NOW")
        bike.set(f"bad{number}:B", "NOW")
    for number in range(7):
        for jobid in ("third:A", "slow:A"):
            bike.run(jobid)
            wait_until(lambda jobid=jobid, number=number: len(bike.runs(jobid)) == number + 1)
    wait_until(lambda: len(bike.runs()) == len(notes("ended")) + 1 and len(bike.runs()) == 25, 120)
    wait_until(lambda: [each.state for each in bike.workers()].count("lost") == 1, 120)
    for number in range(2):
        bike.set(f"waits{number}:C", "NOW")
    yield bike, notes, workers
    bike.close()


def test_every_number_bar_and_mark_is_what_the_workers_have_noted(world):
    bike, notes, workers = world
    page, ended = TestClient(app(bike, show_data=True), base_url=BASE), notes("ended")
    by_job = {jobid: [each for each in ended if each["job"] == jobid] for jobid in {each["job"] for each in ended}}
    failing = sorted(jobid for jobid, runs in by_job.items() if not runs[-1]["ok"])
    overview = read(page.get("/"))
    number = len({each["job"] for each in notes("begun")}) + len(["paused:A", "waits0:C", "waits1:C"])
    assert (
        f"jobs {number} wait for their time 2 wait for a worker 2 run 1 overdue for 1 min 0 "
        f"have failed {len(failing) + 1} are paused 1 are late 0" in overview.words
    )
    # The charts: all that have ended, and the run that was lost.
    labels = [a["aria-label"] for tag, a in overview.tags if tag == "svg" and a.get("class") == "hour"]
    counted = Counter(each["job"][-1] for each in ended) + Counter("B")
    assert [int(label.split()[0]) for label in labels] == [counted[queue] for queue in "ABC"]
    # What runs now, and where.
    shown = overview.words.partition("What runs now")[2].partition("Queues")[0]
    [hung] = [each for each in notes("begun") if each["job"] == "hung:A"]
    assert re.search(rf"hung:A .*the run – .* [^ ]+:{hung['pid']}:", shown)
    assert hung["pid"] in [each.pid for each in workers]
    # Runs, one by one, and by job.
    runs = read(page.get("/runs"))
    assert Counter(listed(runs)) == Counter(each["job"] for each in ended) + Counter(["doomed:B"])
    for jobid, noted in by_job.items():
        past = sorted(bike.runs(jobid), key=lambda run: run.started)
        for run, each in zip(past, noted, strict=True):
            assert run.took >= each["took"]
            told = read(page.get("/run", params={"id": jobid, "began": f"{run.started:.4f}"})).words
            assert ("failed after" in told, "ok after" in told) == (not each["ok"], each["ok"]), told
            assert f":{each['pid']}:" in told
            assert ("ValueError: no luck" in told) is not each["ok"]
    # How the runs of each job went.
    strips = re.findall(r'class="outcomes"[^>]*aria-label="([^"]*)"', page.get("/jobs?pattern=*:A").text)
    good = {jobid: sum(each["ok"] for each in noted) for jobid, noted in by_job.items()}
    assert good["third:A"] == 5
    assert "The last 7 runs: 5 ok, 2 failed" in strips
    assert strips.count("The last 7 runs: 7 ok") == 1
    # The timeline, by queue and by job.
    agree_on_the_timeline(page, ended)
    # Failures, with that of the lost run; and the processes.
    assert sorted(listed(read(page.get("/failures?as=list")))) == sorted([*failing, "doomed:B"])
    told = read(page.get("/workers")).words
    assert all(words in told for words in ("Lost (1)", "Dispatchers (1)", "Workers (2)"))


def agree_on_the_timeline(page, ended):
    """Compare its lanes with what has ended, the lost run, the run that hangs, and what waits for a worker."""
    by_queue, by_job = defaultdict(Counter), defaultdict(Counter)
    for each in ended:
        for lanes, name in ((by_queue, f"work-{each['job'][-1]}"), (by_job, each["job"])):
            lanes[name]["ok" if each["ok"] else "failed"] += 1
    for lanes, lost, hung in ((by_queue, "work-B", "work-A"), (by_job, "doomed:B", "hung:A")):
        lanes[lost]["failed"] += 1
        lanes[hung]["running"] += 1
    for number in range(2):
        for lanes, name in ((by_queue, "work-C"), (by_job, f"waits{number}:C")):
            lanes[name]["planned"] += 1
    for kind, lanes in (("queue", by_queue), ("job", by_job)):
        found = show(page, f"?span=30m&lanes={kind}", path="timeline")
        labels = [a["aria-label"] for tag, a in found.tags if tag == "svg" and a["class"] == "lane"]
        assert sorted(labels) == sorted(
            ", ".join(f"{counts[word]} {word}" for word in ("failed", "running", "ok", "planned") if counts[word])
            for counts in lanes.values()
        )
        total = sum(lanes.values(), Counter())
        assert f"{total['failed']} failed, {total['running']} running, {total['ok']} ok, 2 planned, " in found.words
    marks = [a["aria-label"] for tag, a in found.tags if tag == "svg" and a["class"] == "lane marks"]
    assert re.fullmatch(r"\d+ changes, 1 lost", marks[0])
