"""``redbike fsck --repair``: every job that `fsck` finds amiss is brought back into circulation, once.

Something was lost or altered behind Redbike's back: the end of an append-only file, a key, an entry. What is left
decides, the strongest sign first:

1. A run in flight goes on, and the job is nowhere else. If only the expiring key of its tag is left of it, its record
   is made anew: the worker may be alive.
2. A job that is recorded as queued, or stands in a list and is owed a run, is in that queue, once.
3. A job on the timeline stays there, at its time.
4. A job that is nowhere, though it should be: what was in a queue or in flight is owed a run and gets it at once, since
   the promise is *at least once*; what was on the timeline is due as its schedule says, from when it got there; what
   has no status is due as if it were set now. One that was stopped stays so.
5. What is left of a job without a schedule is removed, but for the run in flight.

Python computes how a job is to be from how it was found, both as a `State`; ``lua/repair.lua`` commits that if the job
is still as it was found, in one step, while dispatchers and workers go on. A job that is well is never touched.

Tags come after all jobs: ``lua/hold.lua`` gives each the list, the lease and the key that its runs in flight need, and
removes those of a tag without runs. Tombstones of an older version are adopted before anything else.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from redbike.errors import RedbikeError
from redbike.keeping.fsck import (
    EXPIRES,
    FORGOTTEN,
    MEMBERS,
    STATUS,
    Listing,
    find_instant_ahead,
    holds,
    home_of,
    judge,
    judge_tag,
    look_around,
    look_closely,
    own_queue,
    suspects,
    suspicious_tags,
    wrong_types,
)
from redbike.keeping.leftovers import remove
from redbike.running.policies import COUNT_LIMIT
from redbike.schedule.kinds import END_OF_TIME, Schedule
from redbike.schedule.parser import parse
from redbike.state.records import Due, RunRecord, State, Streak, Waiting
from redbike.state.store import Store

TRIES = 5  # for a job that changes all the time; one that is well is not tried at all
TAG = re.compile(r"[!-~]+", re.ASCII)  # what a record can have

FirstDue = Callable[[Schedule, float, float], Due]


class Repair:
    """Repairs the jobs of `store`.

    `horizon` (epoch seconds) is from when occurrences count for a job of which no more is known than its schedule;
    ``first_due(schedule, since, now)`` is when a job is due, by the policy for missed occurrences.
    """

    def __init__(self, store: Store, horizon: float, first_due: FirstDue) -> None:
        self.store = store
        self.horizon = horizon
        self.first_due = first_due

    def run(self) -> Iterator[tuple[str, bool]]:
        """For each job and each key that is wrong, a line that says what was done, and whether it is well now."""
        wrong = list(wrong_types(self.store))
        if wrong:
            yield from ((line, False) for line in wrong)
            return
        self.store.adopt_tombstones()
        listing = look_around(self.store)
        if ahead := find_instant_ahead(self.store):
            self.store.advance(self.horizon, ahead=True)
            yield f"{ahead} -- repaired: it is now", True
        for page in suspects(self.store, listing):
            yield from self._put_right(page, listing)
        # Now that each job has the run that it is to have.
        for held in list(suspicious_tags(self.store, listing)):
            self.store.hold(held.tag, held.deadlines)
            [now] = self.store.held({held.tag: held.deadlines})
            done = "it has what its runs need" if now.deadlines else "nothing is left of it"
            yield _line(f"the tag {held.tag!r}", judge_tag(held), [done], judge_tag(now))
        for key, how in listing.keys:
            yield self._put_key_right(key, how)
        for key, how in listing.leftovers:
            if how == MEMBERS:
                remove(self.store, key)
                yield f"the key {key!r} is left of redbike 0.13.1 -- repaired: it is removed", True
        for member in listing.malformed:
            self.store.forget_withdrawn(member)
            yield f"the key {self.store.keys.withdrawn!r} {holds(member)} -- repaired: it is removed", True

    def _put_right(self, found: list[State], listing: Listing) -> Iterator[tuple[str, bool]]:
        """These jobs, together: a request is on its way while the one before it is worked on."""
        states = found
        for _ in range(TRIES):
            pairs = [(state, self.mended(state)) for state in states]
            replies = iter(self.store.repair((state, wanted) for state, wanted in pairs if wanted != state))
            moved = []
            for state, wanted in pairs:
                if wanted == state or next(replies):
                    yield from _told(state, wanted)
                else:
                    moved.append(state)
            states = look_closely(self.store, listing, {state.jobid: state.entries for state in moved})
        yield from (line for state in states for line in _told(state, state))

    def _put_key_right(self, key: str, how: str) -> tuple[str, bool]:
        if how == EXPIRES:
            self.store.persist(key)
            return f"the key {key!r} {how} -- repaired: not any more", True
        if how == FORGOTTEN:
            name = key.removeprefix(f"{self.store.keys.prefix}-")
            self.store.know_queue(name)
            return f"the key {key!r} {how} -- repaired: it is there again", True
        return f"the key {key!r} {how} -- not repaired: look at it, and delete it if nobody needs it", False

    # How a job is to be

    def mended(self, state: State) -> State:
        """`state` as it should be; the same if it is well, or if nothing can be done without the user."""
        queued = state.queued if home_of(state.waiting) else ""
        due = state.timeline if state.timeline is not None and 0 <= state.timeline < END_OF_TIME else None
        whole = replace(state, queued=queued, timeline=due, unreadable=())
        return self._placed(replace(whole, running=self._run(whole)))

    def _placed(self, state: State) -> State:
        if state.schedule is None:
            return _without_schedule(state)
        if state.running:
            return _in_flight(state)
        home = home_of(state.waiting) or self._adopting(state)
        if home:
            return _in_queue(state, home, event_of(state)[1])
        if state.timeline is not None:
            return replace(_in_no_queue(state), status=_status(state, "TML"))
        return self._from_nowhere(_in_no_queue(state))

    def _run(self, state: State) -> str:
        """The record of the run in flight; made anew from its key if only that is left of it."""
        if home_of(state.run):
            return state.running
        event, moment = event_of(state)
        queue = own_queue(self.store, state.jobid)
        # Without a status the key alone says that it may run; what is in two other places says more.
        in_flight = event == "WRK" or (
            not event and state.timeline is None and not any(map(state.waits, state.entries))
        )
        alive = state.inflight_ms > 0 and TAG.fullmatch(state.tag)
        if state.schedule is None or state.queued or not (queue and in_flight and alive):
            return ""
        deadline = state.now + state.inflight_ms / 1000
        streak = Streak.parse(state.streak)
        anew = "-" if state.timeline is None else "set"
        times = (state.now, deadline, moment)
        return RunRecord(state.tag, *times, streak.failures, streak.losses, anew, queue).format()

    def _adopting(self, state: State) -> str | None:
        """The queue in which a job without a record stands, if it is owed the run."""
        standing = [name for name in state.entries if state.waits(name) > 0]
        event, _ = event_of(state)
        waits = event == "TML" and state.timeline is not None
        stopped = event in ("STP", "DIE", "BAD") and state.timeline is None
        if not standing or waits or stopped:
            return None
        own = own_queue(self.store, state.jobid)
        return own if own in standing else standing[0]

    def _from_nowhere(self, state: State) -> State:
        event, moment = event_of(state)
        try:
            schedule = parse(state.schedule or "")
        except RedbikeError:
            return state
        if event in ("STP", "DIE", "BAD"):
            return state
        tried = Streak.parse(state.streak).due
        due, missed = (tried, 0) if tried is not None else self._due(schedule, event, moment, state.now)
        if missed:
            state = replace(state, skipped=state.skipped | {"missed": state.skipped.get("missed", 0) + missed})
        if due is None:
            return replace(state, status=_status(state, "STP"))
        home = own_queue(self.store, state.jobid)
        if due <= state.now and home:
            return _in_queue(state, home, due)
        return replace(state, timeline=due, status=_status(state, "TML"))

    def _due(self, schedule: Schedule, event: str, moment: float, now: float) -> tuple[float | None, int]:
        """When a job that is nowhere is due, None for not any more, and how many occurrences are missed by that."""
        if schedule.never_runs:
            return None, 0
        if event in ("ENQ", "WRK"):
            return moment, 0
        since = moment if event == "TML" else min(self.horizon, now)
        due = self.first_due(schedule, since, now)
        if due == "now" or (event == "TML" and schedule.next(since) is None):
            # No occurrence was left, but it waited for a pause to be over.
            return now, 0
        passed = 0 if schedule.runs_once else schedule.count(since, now if due is None else due, COUNT_LIMIT)
        return due, max(0, passed - (due is not None))


def _told(found: State, now: State) -> Iterator[tuple[str, bool]]:
    """The line for a job; none for one that had merely moved while it was listed, and is well."""
    if any(judge(found)):
        yield _line(repr(found.jobid), judge(found), changes(found, now), judge(now))


def _line(subject: str, problems: Iterable[str], done: Iterable[str], left: Iterable[str]) -> tuple[str, bool]:
    """What was wrong, what was done about it, and what is left; and whether nothing is."""
    done, left = list(done), list(left)
    said = ["; ".join(problems)]
    said += [f"repaired: {', '.join(done)}"] if done else []
    said += [f"not repaired: {'; '.join(left)}"] if left else []
    return f"{subject}: {' -- '.join(said)}", not left


def event_of(state: State) -> tuple[str, float]:
    """The event of the status and its time, not later than now; ``""`` and now if there is none that can be read."""
    found = STATUS.fullmatch(state.status or "")
    return (found[1], min(float(found[2]), state.now)) if found else ("", state.now)


def _status(state: State, event: str) -> str:
    return state.status or "" if event_of(state)[0] == event else f"{event}:{int(state.now)}"


def _without_schedule(state: State) -> State:
    """Nothing is left but the run in flight, and that it was refused."""
    status = state.status if (state.status or "").startswith("BAD:") else None
    return replace(_in_no_queue(state), timeline=None, status=status, streak="", skipped={}, failure=None)


def _in_flight(state: State) -> State:
    """A run that waited beside is owed when this one ends, unless it is the same."""
    run, waiting = state.run, state.waiting
    assert run is not None
    if waiting and waiting.due != run.due and run.next == "-":
        run.next = f"due:{waiting.due:.6f}"
    timeline = state.timeline if run.next in ("set", "once") else None
    return replace(_in_no_queue(state), running=run.format(), timeline=timeline, status=_status(state, "WRK"))


def _in_queue(state: State, home: str, due: float) -> State:
    queued = state.queued or Waiting(due, home).format()
    return replace(_in_lists(state, home), queued=queued, timeline=None, status=_status(state, "ENQ"))


def _in_no_queue(state: State) -> State:
    return replace(_in_lists(state, ""), queued="")


def _in_lists(state: State, home: str) -> State:
    """Once in the list of `home`, and in others only where it has a tombstone."""
    left = frozenset(name for name in state.tombstones if name != home and state.entries[name])
    return replace(state, entries={name: int(name == home or name in left) for name in state.entries}, tombstones=left)


# What was done, in words


def changes(found: State, wanted: State) -> Iterator[str]:
    """What makes `wanted` of `found`."""
    if wanted.running != found.running:
        yield "its running record made anew" if wanted.running else "its running record removed"
    for name, count in found.entries.items():
        if wanted.entries[name] > count:
            yield f"put into the queue {name!r}"
        elif wanted.entries[name] < count:
            yield f"left in the queue {name!r} once" if wanted.entries[name] else f"taken out of the queue {name!r}"
        if name in found.tombstones - wanted.tombstones:
            yield f"without a tombstone in the queue {name!r}"
    if wanted.queued != found.queued:
        yield "recorded as queued" if wanted.queued else "its queued record removed"
    if wanted.timeline != found.timeline:
        due = wanted.timeline
        yield "taken off the timeline" if due is None else f"put on the timeline, due at {due:.6f}"
    if wanted.status != found.status:
        yield f"status {wanted.status.partition(':')[0]}" if wanted.status else "its status removed"
    yield from _changes_of_counts(found, wanted)


def _changes_of_counts(found: State, wanted: State) -> Iterator[str]:
    gone = {"streak": found.streak, "skipped": found.skipped, "failure": found.failure is not None}
    if found.schedule is None:
        yield from (f"its {name} removed" for name, there in gone.items() if there)
    yield from (f"its {name} removed" for name in found.unreadable)
    for reason, count in wanted.skipped.items():
        if count > found.skipped.get(reason, 0):
            yield f"{count - found.skipped.get(reason, 0)} occurrences counted as {reason}"
