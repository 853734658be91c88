"""Random steps of jobs of groups, compared with what the contract says of them. The clock stands still.

What is modelled is which jobs of each group are left, what the others came to, and when the job that waits is due. It
is told from the steps alone.
"""

import pytest

from redbike.schedule.moments import AWAITED
from redbike.store.enums import Left
from redbike.store.inspection.fsck import fsck
from tests.chance import seeds, walk
from tests.store.test_following_machine import ENDS, START, World, begin

STEPS = 120
MEMBERS = ("one:A", "two:A", "three:A")
GROUPS = {"g": "report:A", "h": "other:A"}
SCHEDULES = ("NOW", "EVERY:1h@0", "CONTINUE", f"AT:{START + 9e6:.0f}")


class Group:
    """What is known of a group."""

    def __init__(self):
        self.left, self.total, self.failed, self.dropped = set(), 0, 0, 0
        self.is_open = False
        self.owed = {}  # the tag of the run that does not count, for jobs that have joined in flight

    def part(self, jobid, how):
        self.left.remove(jobid)
        self.owed.pop(jobid, None)
        self.failed += how == "failed"
        self.dropped += how == "dropped"


class Groups(World):
    """With the groups."""

    def __init__(self, bike, chance):
        super().__init__(bike, chance)
        self.fired, self.groups = 0, {name: Group() for name in GROUPS}
        self.waiting = set()  # groups for which a job waits
        self.options = {}  # the group that each job has as an option, and keeps

    def find(self, jobid):
        return next((name for name, group in self.groups.items() if jobid in group.left), None)

    def part(self, jobid, how="dropped"):
        if name := self.find(jobid):
            self.groups[name].part(jobid, how)
            self.settle(name)

    def settle(self, name):
        """If nothing is left, the group is over, and who waits for it is due."""
        group = self.groups[name]
        if group.left or group.is_open:
            return
        if name in self.waiting:
            state = self.inspect(GROUPS[name])
            assert state.awaited is None or AWAITED not in (state.timeline, state.held), f"{GROUPS[name]} is due"
            self.waiting.remove(name)
            self.fired += 1
        self.groups[name] = Group()

    def join(self, jobid, name):
        before = self.find(jobid)
        if before != name:
            if before:
                self.part(jobid)
            self.groups[name].left.add(jobid)
            self.groups[name].total += 1
        state = self.inspect(jobid)
        if state.run and state.run.next.startswith((Left.OWED, Left.ANEW, Left.ONCE)):
            self.groups[name].owed[jobid] = state.run.tag

    def set(self, jobid, name):
        schedule = self.chance.choice([*SCHEDULES, "STOP"])
        is_told = self.chance.random() < 0.7
        self.bike.set(jobid, schedule, **({"group_of": name} if is_told else {}))
        name = self.options[jobid] = name if is_told else self.options.get(jobid)
        state = self.inspect(jobid)
        goes_on = state.run or state.waiting or state.timeline is not None or state.held is not None
        if not goes_on or name is None:
            self.part(jobid)
        else:
            self.join(jobid, name)

    def unset(self, jobid):
        self.bike.unset(jobid)
        self.part(jobid)
        self.options.pop(jobid, None)

    def set_follower(self, name):
        self.bike.set(GROUPS[name], f"GROUP:{name}")
        self.groups[name].is_open = False
        self.waiting.add(name)
        self.settle(name)

    def open(self, name):
        self.store.groups.open(name)
        group = self.groups[name]
        group.is_open, group.total, group.failed, group.dropped = True, len(group.left), 0, 0

    def unset_follower(self, name):
        self.bike.unset(GROUPS[name])
        self.waiting.discard(name)

    def cancel(self, jobid):
        before = self.inspect(jobid)
        if before.schedule is not None and self.bike.cancel(jobid)[0].word == "cancelled" and not before.run:
            self.part(jobid)

    def resume(self, jobid):
        if self.inspect(jobid).pause:
            self.bike.resume(jobid)

    def end(self, how):
        if (ended := self.finish(how)) is None:
            return
        run, known, answer, ending = ended
        if answer.word == "ok" and answer.detail == "unset":
            self.options.pop(run.jobid, None)
        if answer.word == "ok" and (name := self.find(run.jobid)):
            # The third loss in a row is a failure, and so is one of a job that has another schedule by now.
            is_over = answer.detail in ("stopped", "unset")
            is_replaced = known.run.next == "set"
            is_lost = how == "lost" and not ending and (is_over or is_replaced)
            # It is not tried again with another schedule, which says nothing of whether it was well.
            is_left = how == "again" and is_replaced
            self.note_end(name, run, "failed" if is_lost else "any" if is_left else ending, is_over)

    def note_end(self, name, run, ending, is_over):
        group = self.groups[name]
        if not is_over and group.owed.get(run.jobid) == run.tag:
            del group.owed[run.jobid]
        elif is_over or ending:
            self.part(run.jobid, {"ok": "ok", "failed": "failed"}.get(ending, "dropped"))

    def check(self):
        assert self.find_problems() == []
        kept = self.store.groups.read(GROUPS, 99)
        for name, group in self.groups.items():
            found, counts = kept[name], kept[name].counts
            assert set(found.jobids) == group.left, name
            assert tuple(counts)[:5] == (len(group.left), group.total, group.failed, group.dropped, group.is_open)
            state = self.inspect(GROUPS[name])
            awaits = AWAITED in (state.timeline, state.held, state.pause.due if state.pause else None)
            assert awaits == (name in self.waiting) or (state.run or state.waiting), GROUPS[name]

    def list_steps(self):
        chance, bike = self.chance, self.bike
        job, name, group = chance.choice(MEMBERS), chance.choice(["g", "g", "h", None]), chance.choice([*GROUPS])
        anyone = chance.choice([*MEMBERS, *GROUPS.values()])
        # What overruns by a clock that is ahead is checked elsewhere.
        how = chance.choice(["ok"] * 8 + ["failed"] * 2 + [each for each in ENDS if each != "overrun"])
        is_there = self.inspect(anyone).schedule is not None
        return {
            "set": (8, lambda: self.set(job, name)),
            "unset": (1, lambda: self.unset(job)),
            "follow": (3, lambda: self.set_follower(group)),
            "open": (1, lambda: self.open(group)),
            "unset follower": (1, lambda: self.unset_follower(group)),
            "run": (3, lambda: bike.run(job) if self.inspect(job).schedule is not None else None),
            "cancel": (1, lambda: self.cancel(job)),
            "pause": (1, lambda: bike.pause(anyone) if is_there else None),
            "resume": (4, lambda: self.resume(anyone)),
            "dispatch": (10, lambda: bike.dispatch_due(bike.now)),
            "take": (12, self.take),
            "end": (14, lambda: self.end(how)),
        }


@pytest.mark.timeout(900)
@seeds(1, 5, 400)
def test_random_steps_of_groups_agree_with_the_contract(redbike, seeds):
    fired = 0
    for world in walk(lambda chance: Groups(begin(redbike), chance), seeds, STEPS):
        assert list(fsck(world.store)) == []
        fired += world.fired
    assert fired > 2 * len(seeds)
