"""What it costs to look at the page: ``python benchmarks/page.py [JOBS]``.

With a million scheduled jobs on a server of its own, 10,000 failures and 200 workers: for each page how long a request
takes in all, how much processor time the page and the server need for it, for how long its longest command holds the
server, and how large the page is, with the style sheet and the scripts that it loads and without.

Last the agenda, which is counted in the background: how long that takes, and how long the other pages take meanwhile.
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from looking import JOBS, read_server_cpu, schedule
from starlette.testclient import TestClient

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from redbike.web import app
from redbike.web.rendering import read_asset

FAILURES, WORKERS, RAN = 10_000, 200, 20_000  # jobs of which the last failed; processes; jobs of which runs are kept
ROUNDS = 9
PAGES = (
    "",
    "jobs",
    "jobs?sort=next",
    "jobs?pattern=nothing",
    "jobs?pattern=77:A",
    "jobs?pattern=nothing&sort=next",
    "jobs?queue=work-B",
    "jobs?failed=1",
    "jobs?never_ran=1&pattern=9*",
    "jobs?status=DIE",
    "jobs?paused=1",
    "jobs?overdue=1",
    "job?id=1:A",
    "job?id=fast:A",
    "runs",
    "runs?failed=1&pattern=nothing",
    "runs?cursor=0-0",
    "failures",
    "failures?as=list",
    "queues",
    "workers",
    "log",
    "agenda",
    "agenda?span=week",
)


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    with tempfile.TemporaryDirectory() as name:
        server = EmbeddedServer(Path(name) / ".redbike")
        server.start()
        try:
            bike = Redbike(RoundRobin("A"), redis_config=server.url, failures_limit=FAILURES)
            bike.client.config_set("slowlog-max-len", 10_000)
            bike.client.config_set("slowlog-log-slower-than", 100)
            fill(bike, numbers[0] if numbers else JOBS)
            page = TestClient(app(bike), base_url="http://localhost")
            for path in PAGES:
                if path.startswith("agenda"):
                    count(page, path)
                measure(bike, page, path)
            print(f"memory of the page {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        finally:
            server.stop()


def fill(bike: Redbike, jobs: int) -> None:
    """Make a million jobs, failures, workers, runs and a long log."""
    schedule(bike, jobs)
    bike.set("fast:A", "EVERY:1s")
    now, client, keys = bike.store.timeline.read_clock(), bike.client, bike.store.keys
    failed = [f"{n}:A" for n in range(0, jobs, max(1, jobs // FAILURES))][:FAILURES]
    for first in range(0, len(failed), 500):
        found = {}
        for number, jobid in enumerate(failed[first : first + 500], first):
            error = f"ValueError: row {number} of table {number % 7}"
            found[jobid] = {
                "jobid": jobid,
                "failed": now - number,
                "error": error,
                "attempt": 1,
                "traceback": "x" * 2000,
            }
        client.hset(keys.failures, mapping={jobid: json.dumps(each) for jobid, each in found.items()})
        client.zadd(keys.failure_times, {jobid: each["failed"] for jobid, each in found.items()})
    for number in range(WORKERS):
        entry = {"kind": "worker", "host": f"host{number // 8}", "pid": number, "queues": ["work-A"], "version": "1.0"}
        client.hset(keys.workers, f"worker{number:02x}"[-8:].rjust(8, "w"), f"{now - 900:.6f} {json.dumps(entry)}")
        client.zadd(keys.seen, {f"worker{number:02x}"[-8:].rjust(8, "w"): now - (60 if number % 50 == 0 else 0)})
    for first in range(0, RAN, 50):
        packed = [
            (f"{n}:A", "work-A", 10, pack_run(now - 5000 + k * 100, 0.1, 1.5, Outcome.OK, 1, ""))
            for n in range(first, first + 50)
            for k in range(10)
        ]
        client.rpush(keys.journal, pack_entry("host:1:abcdefgh", packed))
    while bike.store.archiver.count_entries():
        for _ in bike.store.archiver.archive():
            pass
    # As many as may wait to be archived while a dispatcher is there.
    for first in range(0, 50_000, 50):
        ended = ((f"{n}:A", pack_run(now - 9, 0.1, 1.5, Outcome.OK, 1, "")) for n in range(first, first + 50))
        runs = [(jobid, "work-A", 10, run) for jobid, run in ended]
        client.rpush(keys.journal, pack_entry("host:1:abcdefgh", runs))
    changes = ([f"{now - n:.6f}", "ann@host", "set", "", f"{n}:A"] for n in range(10_000, 0, -1))
    client.lpush(keys.log, *map(json.dumps, changes))
    list(bike.pause(*(f"{n}:A" for n in range(100)), reason="for the figures"))


def measure(bike: Redbike, page: TestClient, path: str) -> None:
    """Print what one page takes."""
    walls, mine, its, slowest, size = [], [], [], 0, 0
    for _ in range(ROUNDS):
        # Each as the first one that looks: what viewers share is a second old at most.
        time.sleep(1.1)
        bike.client.slowlog_reset()
        cpu, server, began = time.process_time(), read_server_cpu(bike), time.perf_counter()
        answer = page.get(f"/{path}")
        walls.append(time.perf_counter() - began)
        mine.append(time.process_time() - cpu)
        its.append(read_server_cpu(bike) - server)
        assert answer.status_code == 200, answer.text
        size = len(answer.content)
        slow = bike.client.slowlog_get(1000)
        found = [each["duration"] for each in slow if not each["command"].startswith((b"SLOWLOG", b"INFO"))]
        slowest = max([slowest, *found])
    others = sum(len(read_asset(name) or b"") for name in ("style.css", "live.js"))
    print(
        f"{path or 'overview':32} {statistics.median(walls) * 1000:6.1f} ms, at most {max(walls) * 1000:6.1f}, "
        f"processor {statistics.median(mine) * 1000:6.1f} ms, server {statistics.median(its) * 1000:6.1f} ms, "
        f"longest command {slowest / 1000:5.1f} ms, {size / 1000:5.1f} KB, {(size + others) / 1000:5.1f} in all",
        flush=True,
    )


def count(page: TestClient, path: str) -> None:
    """Print how long the agenda takes in the background, and the overview meanwhile."""
    began, cpu, meanwhile = time.perf_counter(), time.process_time(), []
    while "being counted" in page.get(f"/{path}").text:
        start = time.perf_counter()
        page.get("/")
        meanwhile.append(time.perf_counter() - start)
        time.sleep(1.1)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    other, most = statistics.median(meanwhile) * 1000, max(meanwhile) * 1000
    print(
        f"{path}: counted in {took:.1f} s, processor {used:.1f} s; meanwhile the overview takes {other:.1f} ms, "
        f"at most {most:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
