"""Random steps of jobs that follow others, compared with what the contract says of them. The clock stands still.

What is modelled is what `AFTER` adds to a job: which of its parents have ended since it was due last. It is told from
the steps alone. Where the job is besides, other machines check.
"""

import pytest

from redbike import RoundRobin
from redbike.loop.changes import decide_cancelled
from redbike.loop.policies import decide_asked_again, decide_done, decide_failed, decide_lost, decide_overrun
from redbike.schedule.moments import AWAITED
from redbike.schedule.parser import parse
from redbike.store.enums import Outcome
from redbike.store.inspection.fsck import fsck
from redbike.store.next_state import NextState
from redbike.store.records import RetryState
from tests.chance import seeds, walk
from tests.states import end, list_problems
from tests.verbs import take_one

START = 1_790_000_000.0 // 86400 * 86400
STEPS = 150
PARENTS = ("one:A", "two:A")
TEXTS = {
    "child:A": ("AFTER:one:A", "AFTER:one:A any", "AFTER:two:A failed"),
    "both:A": ("AFTER:one:A,two:A any", "AFTER:one:A,two:A"),
    "grand:A": ("AFTER:child:A failed", "AFTER:child:A"),
    "last:A": ("AFTER:child:A,both:A any", "AFTER:both:A,grand:A,one:A any"),
}
# How a run ends, and what that is for its followers: None for what goes on.
ENDS = {
    "ok": (lambda run, settings, now: decide_done(run, None, settings, now), "ok"),
    "failed": (lambda run, settings, now: decide_failed(run, OSError("no"), settings, now), "failed"),
    "overrun": (lambda run, settings, now: decide_overrun(run, settings, now), "failed"),
    "cancelled": (decide_cancelled, "any"),
    "again": (lambda run, settings, now: decide_asked_again(run, 5.0), None),
    "lost": (lambda run, settings, now: decide_lost(run, settings, now), None),
    "stopped": (lambda run, settings, now: NextState("stop"), "ok"),
    "died": (lambda run, settings, now: NextState("die", outcome=Outcome.FAILED), "failed"),
    "unset": (lambda run, settings, now: NextState("unset"), "ok"),
}


def end_so(bike, run, how):
    """End a run as `ENDS` has it; return what the job was, the answer, and the ending that counts."""
    decide, ending = ENDS[how]
    [known] = bike.store.questions.inspect([run.jobid])
    if known.run and known.run.cancelled and how not in ("ok", "stopped", "unset"):
        ending = "any"
    if how in ("lost", "overrun"):
        # A dispatcher may end it: it was not heard of.
        bike.store.client.zrem(bike.store.keys.leases, run.tag)
        bike.store.client.delete(bike.store.keys.inflight(run.tag))
    now = bike.now + (1e7 if how == "overrun" else 0.0)
    return known, end(bike.store.at(now), run, decide(run, bike.settings, bike.now), now), ending


class World:
    """The jobs, and those in flight."""

    def __init__(self, bike, chance):
        self.bike, self.chance, self.store = bike, chance, bike.store
        self.runs, self.number = [], 0

    def find_problems(self):
        return list_problems(self.store)

    def inspect(self, jobid):
        return self.store.questions.inspect([jobid])[0]

    def take(self):
        self.number += 1
        run = take_one(self.store, [("work-A", 1e6)], f"t{self.number}")
        if run != "empty":
            self.runs.append(run)

    def finish(self, how):
        """End one of the runs in flight; return it, what its job was, the answer, and the ending that counts."""
        if not self.runs:
            return None
        run = self.runs.pop(self.chance.randrange(len(self.runs)))
        known, answer, ending = end_so(self.bike, run, how)
        if answer.word != "ok":
            self.runs.append(run)
        return run, known, answer, ending


class Followers(World):
    """With what has ended since it was due last, for each follower."""

    def __init__(self, bike, chance):
        super().__init__(bike, chance)
        self.texts, self.ended, self.again, self.skipped, self.dues = {}, {}, {}, {}, 0
        for parent in PARENTS:
            bike.set(parent, "EVERY:1h@0")
        for jobid in TEXTS:
            self.set(jobid)

    def set(self, jobid):
        text = self.chance.choice(TEXTS[jobid])
        self.bike.set(jobid, text)
        if self.texts.get(jobid) != text or self.inspect(jobid).follows["ended"] == {}:
            self.ended[jobid], self.again[jobid] = {}, set()
        self.texts[jobid] = text

    def unset(self, jobid):
        self.bike.unset(jobid)
        self.forget(jobid)

    def forget(self, jobid):
        self.texts.pop(jobid, None)
        self.skipped.pop(jobid, None)

    def end(self, how):
        if (ended := self.finish(how)) is None:
            return
        run, _, answer, ending = ended
        if answer.word == "ok" and ending:
            self.note_end(run.jobid, ending, run.due)
        if answer.detail == "unset":
            self.forget(run.jobid)
            if run.jobid in PARENTS:
                self.bike.set(run.jobid, "EVERY:1h@0")
        elif self.inspect(run.jobid).schedule == "STOP":
            self.texts.pop(run.jobid, None)

    def cancel(self, jobid):
        before = self.inspect(jobid)
        kept = RetryState.parse(before.retry_state)
        if self.bike.cancel(jobid)[0].word == "cancelled" and not before.run and kept.tries and kept.due is not None:
            self.note_end(jobid, "any", kept.due)

    def note_end(self, parent, ending, due):
        for jobid, text in self.texts.items():
            schedule = parse(text)
            if parent in schedule.parents and schedule.ending in (ending, "any"):
                if self.is_complete(jobid):
                    self.again[jobid].add(parent)
                    if self.again[jobid] == set(schedule.parents):
                        self.again[jobid] = set()
                        if not (self.inspect(jobid).status or "").startswith("DIE:"):
                            self.skipped[jobid] = self.skipped.get(jobid, 0) + 1
                self.ended[jobid][parent] = max(due, self.ended[jobid].get(parent, 0.0))

    def is_complete(self, jobid):
        return set(self.ended[jobid]) == set(parse(self.texts[jobid]).parents)

    def check(self):
        assert list_problems(self.store) == []
        for state in self.store.questions.inspect([*self.texts]):
            jobid = state.jobid
            kept = {parent: float(due) for parent, due in state.follows["ended"].items()}
            awaits = AWAITED in (state.timeline, state.pause.due if state.pause else None)
            if self.is_complete(jobid) and not kept:
                places = (state.due, state.held, state.waiting and state.waiting.due)
                assert max(self.ended[jobid].values()) in places, f"{jobid} is due for its parents"
                self.ended[jobid], self.again[jobid] = {}, set()
                self.dues += 1
            assert kept == self.ended[jobid], jobid
            assert not (awaits and self.is_complete(jobid)), f"{jobid} waits for good"

    def count_skipped(self):
        found = {jobid: self.bike.tell(jobid).get("skipped", {}).get("running", 0) for jobid in self.texts}
        return {jobid: number for jobid, number in found.items() if number}

    def list_steps(self):
        chance, bike = self.chance, self.bike
        follower, anyone = chance.choice([*TEXTS]), chance.choice([*3 * PARENTS, *TEXTS])
        how = chance.choice(["ok"] * 12 + ["failed"] * 3 + [*ENDS])
        is_there = anyone in (*PARENTS, *self.texts)
        return {
            "set": (1, lambda: self.set(follower)),
            "unset": (1, lambda: self.unset(follower)),
            "run": (18, lambda: bike.run(anyone) if is_there else None),
            "cancel": (1, lambda: self.cancel(anyone) if is_there else None),
            "pause": (1, lambda: bike.pause(anyone) if is_there else None),
            "resume": (3, lambda: bike.resume(anyone) if is_there else None),
            "dispatch": (10, lambda: bike.dispatch_due(bike.now)),
            "take": (16, self.take),
            "end": (18, lambda: self.end(how)),
        }


def begin(redbike, **settings):
    """An empty prefix, at an instant that stays. Its jobs are taken and ended by the test."""
    bike = redbike(RoundRobin("A"), now=START, on_error="reschedule", **settings)
    bike.flush()
    return bike


@pytest.mark.timeout(900)
@seeds(1, 4, 250)
def test_random_steps_of_followers_agree_with_the_contract(redbike, seeds):
    dues = skipped = 0
    for world in walk(lambda chance: Followers(begin(redbike, on_timeout="reschedule"), chance), seeds, STEPS):
        assert world.count_skipped() == {job: number for job, number in world.skipped.items() if job in world.texts}
        assert list(fsck(world.store)) == []
        dues, skipped = dues + world.dues, skipped + sum(world.skipped.values())
    assert dues > 3 * len(seeds)
    assert skipped or len(seeds) < 9
