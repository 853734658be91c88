"""A client of the chaos run: sets, stops, unsets, runs and, rarely, halts, and notes what it did and when.

usage: python -m tests.chaos.clients NUMBER SEED

Each attempt is one line in ``operations.log``, with the time before it was sent and after the reply, and whether there
was one: ``ok``, ``missing`` (no such job) or ``unknown`` (no reply, or one that says later). What is unknown is tried
again, as anyone would. Before it changes a job, it asks how many of its occurrences were skipped so far.
"""

import random
import signal
import sys
import time
from pathlib import Path

from redbike.config import load
from redbike.errors import NoSuchJob, Unreachable
from redbike.redbike import Redbike
from redbike.serving.connection import connect
from redbike.working.worker_class import RoundRobin
from tests.chaos import population
from tests.chaos.journal import Journal

PAUSE = 0.15  # seconds between two operations, on average
PATIENCE = 10  # times that something is tried
HALTS = 0.002  # of the operations
ACTIONS = (("once", 45), ("set", 25), ("stop", 6), ("unset", 6), ("now", 6), ("rerun", 9), ("shared", 3))


class Client:
    """Changes the jobs that belong to it."""

    def __init__(self, number: int, seed: int) -> None:
        config = load("redbike.conf", {})
        self.bike = Redbike.from_settings(RoundRobin("A"), config.settings, connect(config.redis))
        self.journal = Journal(Path("operations.log"))
        self.number = number
        self.own = population.moved(random.Random(seed * 1000 + number), number)
        self.rng = random.Random()
        self.stopping = False

    def run(self) -> None:
        """Go on until it is told to stop."""
        while not self.stopping:
            time.sleep(self.rng.uniform(0, 2 * PAUSE))
            if self.rng.random() < HALTS:
                self.attempt("halt", "", "")
            else:
                self.act(self.rng.choices([name for name, _ in ACTIONS], [weight for _, weight in ACTIONS])[0])

    def act(self, action: str) -> None:
        """Do one thing to one job."""
        jobid = self.rng.choice(self.own)
        if action == "once":
            jobid = f"fast.once.{self.number}-{time.monotonic_ns()}:{population.queue(self.rng, 'fast')}"
            schedule = "NOW" if self.rng.random() < 0.5 else f"AT:{time.time() + self.rng.uniform(-1, 20):.3f}"
            self.retry_until_up("set", jobid, schedule)
            return
        if action == "shared":
            jobid = self.rng.choice(population.shared())
            action = self.rng.choice(("set", "stop", "unset", "now", "rerun"))
        schedule = population.schedule(self.rng, "fast", time.time(), 60) if action == "set" else action.upper()
        self.retry_until_up(action if action in ("unset", "rerun") else "set", jobid, schedule)

    def retry_until_up(self, verb: str, jobid: str, schedule: str) -> None:
        """Try it until there is an answer."""
        for _ in range(PATIENCE):
            if self.stopping or self.attempt(verb, jobid, schedule) != "unknown":
                return
            time.sleep(self.rng.uniform(0.05, 0.5))

    def attempt(self, verb: str, jobid: str, schedule: str) -> str:
        """Try it once; how that went."""
        began, answer, skipped = time.monotonic(), "ok", 0
        try:
            skipped = sum(self.bike.tell(jobid).get("skipped", {}).values()) if jobid else 0
            self._do(verb, jobid, schedule)
        except NoSuchJob:
            answer = "missing"
        except Unreachable:
            answer = "unknown"
        told = {"job": jobid, "schedule": schedule, "answer": answer, "skipped": skipped}
        self.journal.note(verb, **told, began=began, ended=time.monotonic())
        return answer

    def _do(self, verb: str, jobid: str, schedule: str) -> None:
        if verb == "set":
            assert self.bike.set(jobid, schedule), schedule
        elif verb == "unset":
            self.bike.unset(jobid)
        elif verb == "rerun":
            self.bike.run(jobid)
        else:
            self.bike.control("HALT")

    def stop(self, *_: object) -> None:
        """Stop after the operation that is under way."""
        self.stopping = True


if __name__ == "__main__":
    client = Client(*map(int, sys.argv[1:]))
    signal.signal(signal.SIGTERM, client.stop)
    client.run()
