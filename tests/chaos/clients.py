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
from contextlib import suppress
from pathlib import Path

from redbike.config.file import load
from redbike.connection.client import connect
from redbike.errors import BadConfig, NoSuchJob, Unreachable
from redbike.facade.redbike import Redbike
from redbike.loop.worker_class import RoundRobin
from tests.chaos import population, sets
from tests.chaos.journal import Journal

PAUSE = 0.15  # seconds between two operations, on average
PATIENCE = 10  # times that something is tried
HALTS = 0.002  # of the operations
ACTIONS = (("once", 45), ("set", 25), ("stop", 6), ("unset", 6), ("now", 6), ("rerun", 9), ("shared", 3))
SETS = 0.01  # of the operations: a group or a backfill
STEERING = (("pause", 30), ("resume", 30), ("cancel", 25), ("rerun", 10), ("options", 10), ("limit", 2), ("limits", 2))
LONGEST = 8.0  # seconds that a pause with an end lasts


class Client:
    """Changes the jobs that belong to it."""

    def __init__(self, number: int, seed: int) -> None:
        config = load("redbike.conf", {})
        self.bike = Redbike.from_settings(RoundRobin("A"), config.settings, connect(config.redis))
        self.journal = Journal(Path("operations.log"))
        self.number = number
        self.own = population.moved(random.Random(seed * 1000 + number), number)
        self.steered = population.steered(number) if Path("steered.csv").exists() else []
        self.paused: set[str] = set()  # those that it has paused
        self.rng = random.Random()
        self.stopping = False

    def run(self) -> None:
        """Go on until it is told to stop."""
        while not self.stopping:
            time.sleep(self.rng.uniform(0, 2 * PAUSE))
            if self.rng.random() < HALTS:
                self.attempt("halt", "", "")
            elif self.rng.random() < SETS:
                verb, name = self.rng.choice((("group", "then"), ("backfill", "base")))
                self.retry_until_up(verb, f"fast.follow-{name}.{{{self.number}-{time.monotonic_ns()}}}:A", "")
            elif self.steered and self.rng.random() < 0.5:
                self.steer(self.rng.choices([name for name, _ in STEERING], [weight for _, weight in STEERING])[0])
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

    def steer(self, action: str) -> None:
        """Do one thing to a job without changing its schedule, or to the queue with a limit."""
        jobid, more = self.rng.choice(self.steered), ""
        if action == "resume" and self.paused:
            jobid = self.rng.choice(sorted(self.paused))
        elif action == "cancel" and self.rng.random() < 0.6:
            jobid = self.rng.choice(self.steered[: population.PATIENT])
        if action in ("limit", "limits"):
            jobid = ""
            more = str(self.rng.randint(2, 5) if action == "limit" else self.rng.uniform(1, LONGEST))
        elif action == "pause" and self.rng.random() < 0.5:
            more = str(self.rng.uniform(1, LONGEST))
        if action == "pause":
            self.paused.add(jobid)
        elif action == "resume":
            self.paused.discard(jobid)
        self.retry_until_up(action, jobid, more)

    def retry_until_up(self, verb: str, jobid: str, schedule: str) -> None:
        """Try it until there is an answer."""
        for _ in range(PATIENCE):
            if self.stopping or self.attempt(verb, jobid, schedule) != "unknown":
                return
            time.sleep(self.rng.uniform(0.05, 0.5))

    def attempt(self, verb: str, jobid: str, schedule: str) -> str:
        """Try it once; how that went."""
        began, answer, skipped, word = time.monotonic(), "ok", 0, ""
        try:
            skipped = sum(self.bike.tell(jobid).get("skipped", {}).values()) if jobid else 0
            word = self._do(verb, jobid, schedule)
            answer = "missing" if word == "missing" else answer
        except NoSuchJob:
            answer = "missing"
        except Unreachable:
            answer = "unknown"
        told = {"job": jobid, "schedule": schedule, "answer": answer, "skipped": skipped, "word": word}
        self.journal.note(verb, **told, began=began, ended=time.monotonic())
        return answer

    def _do(self, verb: str, jobid: str, more: str) -> str:
        """Do it; what happened, in a word, if it says so."""
        if verb == "set":
            assert self.bike.set(jobid, more), more
        elif verb == "unset":
            self.bike.unset(jobid)
        elif verb == "group":
            self.bike.group(jobid, [(member, "NOW") for member in sets.list_members(jobid)], then=jobid)
        elif verb == "backfill":
            self._backfill(jobid)
        elif verb == "halt":
            self.bike.control("HALT")
        elif verb == "limit":
            self.bike.limit(population.LIMITED, at_once=int(more))
        elif verb == "limits":
            return str(self.bike.pause_queue(population.LIMITED, until=self._after(more)))
        elif verb == "options":
            schedule = self.bike.store.questions.read_schedule(jobid)
            self.bike.set(jobid, schedule, retries=self.rng.randint(10, 30), backoff=self.rng.choice((0.1, 0.2, 0.5)))
        elif verb == "pause":
            return self.bike.pause(jobid, until=self._after(more) if more else None)[0].word
        else:
            verbs = {"rerun": self.bike.run, "resume": self.bike.resume, "cancel": self.bike.cancel}
            return verbs[verb](jobid)[0].word
        return ""

    def _backfill(self, jobid: str) -> None:
        last = sets.FIRST + (sets.NUMBER - 1) * sets.HOUR
        assert self.bike.set(jobid, f"EVERY:{sets.HOUR}s@{sets.FIRST - sets.HOUR}")
        assert self.bike.set(sets.name_child(jobid), f"AFTER:{jobid}")
        with suppress(BadConfig):  # nobody else asks for it: an attempt without an answer has begun it
            self.bike.backfill(jobid, sets.FIRST, last, at_once=3)

    def _after(self, seconds: str) -> float:
        return self.bike.store.timeline.read_clock() + float(seconds)

    def stop(self, *_: object) -> None:
        """Stop after the operation that is under way."""
        self.stopping = True


if __name__ == "__main__":
    client = Client(*map(int, sys.argv[1:]))
    signal.signal(signal.SIGTERM, client.stop)
    client.run()
