"""Compute the correct state of a job, from the records that are left of it. The first rule that applies wins.

1. A run in flight goes on, and the job is nowhere else. If only the expiring key of its tag is left, its record is made
   again, since the worker may be alive.
2. A job that is recorded as queued, or that is in a list and is owed a run, is in this queue, once.
3. A job on the timeline, or held because it is paused, stays there, at its time. A paused job is never on the timeline:
   it is held instead. If a clock that was ahead has made a job too late, its schedule decides when it is due.
4. A job may be nowhere although its schedule goes on. If it was in a queue or in flight, it gets its run at once, since
   the promise is *at least once*. If it was on the timeline, its schedule counts from when it was put there. Without
   a status, it is due as if it were set now. A stopped job stays stopped, even if 0.13.1 left it on the timeline.
5. The records of a job without a schedule are removed, except the run in flight.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from redbike.config.settings import Settings, override
from redbike.errors import RedbikeError
from redbike.loop.catchup import COUNT_LIMIT, find_first_due
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import AWAITED, END_OF_TIME
from redbike.schedule.parser import parse_stored
from redbike.store.enums import Event, Left, Skip
from redbike.store.inspected import JobState
from redbike.store.inspection.jobs import find_place, follows_as_set, list_places, waits_in_vain, was_stopped
from redbike.store.inspection.listing import get_home, get_own_queue
from redbike.store.records import RetryState, RunRecord, Status, Waiting, format_time
from redbike.store.schedules import find_schedule
from redbike.store.store import Store
from redbike.text.group_names import is_group

TAG = re.compile(r"[!-~]+", re.ASCII)  # what a record can contain


class Correction:
    """Computes the correct state of jobs of `store`.

    If only the schedule of a job is left, its occurrences count from `since` (epoch seconds).
    """

    def __init__(self, store: Store, since: float, settings: Settings) -> None:
        self._store = store
        self._since = since
        self._settings = settings

    def apply(self, state: JobState) -> JobState:
        """Return the correct state: `state` itself if nothing is wrong, or if only the user can repair it."""
        queued = state.queued if get_home(state.waiting) else ""
        parents = self._find_parents(state)
        is_place = state.timeline is not None and 0 <= state.timeline < END_OF_TIME
        due = state.timeline if is_place or (parents and state.timeline == AWAITED) else None
        # A paused job is treated as if it waited on the timeline, until it has its place.
        due = state.pause.due if due is None and state.pause else due
        whole = replace(state, queued=queued, timeline=due, paused=state.paused if state.pause else "", unreadable=())
        placed = self._place(replace(whole, running=self._correct_run(whole)))
        return _correct_pause(_correct_member(_correct_follower(placed, parents)))

    def _place(self, state: JobState) -> JobState:
        if state.schedule is None:
            return _clear_unscheduled(state)
        if state.running:
            return _put_in_flight(state)
        if was_stopped(state):
            return replace(_take_from_queues(state), timeline=None)
        home = get_home(state.waiting) or self._find_list(state)
        if home:
            return self._put_in_queue(state, home, read_event(state)[1])
        if state.timeline is not None:
            held_from_queue = state.held is not None and read_event(state)[0] == Event.ENQ
            event = Event.ENQ if held_from_queue else Event.TML
            if (place := find_place(state)) is not None:
                at = replace(_take_from_queues(state), timeline=place, retry_state=_correct_tries(state))
                return replace(at, status=f"{event}:{int(state.now)}")
            return replace(_take_from_queues(state), status=_set_event(state, event))
        return self._decide_lost(_take_from_queues(state))

    def _find_parents(self, state: JobState) -> dict[str, Any] | None:
        try:
            found = parse_stored(state.schedule or "").find_parents()
        except RedbikeError:
            return None
        find = self._store.whole.number_shard
        if found and any(is_group(each) and find(each) != find(state.jobid) for each in found["parents"]):
            return {**found, "is_away": True}
        return found

    def _correct_run(self, state: JobState) -> str:
        """Return the record of the run in flight. If only its key is left, make the record from the key."""
        if get_home(state.run):
            return state.running
        event, moment = read_event(state)
        queue = get_own_queue(self._store, state.jobid)
        # Without a status, only the key shows that it may run. A place on the timeline or in a list is a stronger sign.
        in_flight = event == Event.WRK or (
            not event and state.timeline is None and not any(map(state.count_entries, state.entries))
        )
        alive = state.inflight_ms > 0 and TAG.fullmatch(state.tag)
        if state.schedule is None or state.queued or not (queue and in_flight and alive):
            return ""
        deadline = state.now + state.inflight_ms / 1000
        retry_state = RetryState.parse(state.retry_state)
        left = Left.NOTHING if state.timeline is None else Left.SET
        times = (state.now, deadline, moment)
        return RunRecord(state.tag, *times, retry_state.failures, retry_state.losses, left, queue).format()

    def _find_list(self, state: JobState) -> str | None:
        """Return the queue whose list has a job without a queued record, if the job is owed a run; else None."""
        standing = [name for name in state.entries if state.count_entries(name) > 0]
        event, _ = read_event(state)
        waits = state.timeline is not None and (event == Event.TML or state.held is not None)
        stopped = event in (Event.STP, Event.DIE, Event.BAD) and state.timeline is None
        if not standing or waits or stopped:
            return None
        own = get_own_queue(self._store, state.jobid)
        return own if own in standing else standing[0]

    def _decide_lost(self, state: JobState) -> JobState:
        event, moment = read_event(state)
        try:
            schedule = find_schedule(state.jobid, state.schedule or "", state.options)
        except RedbikeError:
            return state
        if event in (Event.STP, Event.DIE, Event.BAD):
            return state
        tried = RetryState.parse(state.retry_state).due
        due, missed = (tried, 0) if tried is not None else self._find_due(schedule, state, event, moment)
        if missed:
            state = replace(state, skipped=state.skipped | {Skip.MISSED: state.skipped.get(Skip.MISSED, 0) + missed})
        if due is None:
            return replace(state, status=_set_event(state, Event.STP))
        home = get_own_queue(self._store, state.jobid)
        if due <= state.now and home and not state.pause:
            return self._put_in_queue(state, home, due)
        return replace(state, timeline=due, status=_set_event(state, Event.TML))

    def _put_in_queue(self, state: JobState, home: str, due: float) -> JobState:
        queued = state.queued or Waiting(due, home).format()
        if not state.queued and (expires := override(self._settings, state.options).expires):
            # A dispatcher decides whether it really expires.
            state = replace(state, expires_at=due + expires)
        return replace(_correct_lists(state, home), queued=queued, timeline=None, status=_set_event(state, Event.ENQ))

    def _find_due(self, schedule: Schedule, state: JobState, event: str, moment: float) -> tuple[float | None, int]:
        """Return when a job that is nowhere is due (None: never again), and how many occurrences it misses by this."""
        now = state.now
        if schedule.never_runs:
            return None, 0
        if event in (Event.ENQ, Event.WRK):
            return moment, 0
        if schedule.is_awaiting or schedule.is_for_hosts:
            return AWAITED, 0
        since = moment if event == Event.TML else min(self._since, now)
        due = find_first_due(schedule, since, now, override(self._settings, state.options))[0]
        if due == "now" or (event == Event.TML and schedule.next(since) is None):
            # No occurrence was left: it waited for the end of a pause.
            return now, 0
        passed = 0 if schedule.runs_once else schedule.count(since, now if due is None else due, COUNT_LIMIT)
        return due, max(0, passed - (due is not None))


def _correct_follower(state: JobState, parents: dict[str, Any] | None) -> JobState:
    """Record the parents of a job as its schedule names them. If they change, forget which of them have ended."""
    if follows_as_set(state, parents):
        return state
    return replace(state, follows=None if parents is None else dict(parents), is_listed=True)


def _correct_member(state: JobState) -> JobState:
    """Record a job as a member of its group, or let the group not wait for it. A job that waits in vain is due."""
    if waits_in_vain(state):
        state = replace(state, timeline=state.now)
    goes_on = state.schedule is not None and (list_places(state) or state.timeline is not None)
    return replace(state, is_counted=True, member_of=state.member_of if goes_on else "")


def read_event(state: JobState) -> tuple[str, float]:
    """Return the event of the status and its time, at most now; ``""`` and now if no status can be read."""
    status = Status.parse(state.status)
    return ("", state.now) if status is None else (status.event, min(status.time, state.now))


def _correct_tries(state: JobState) -> str:
    """Return the retry state of a job; its schedule is to go on from now at the latest.

    The due time stays: it is a part of the key that all tries of an occurrence share.
    """
    if not state.retry_state:
        return ""
    kept, now = RetryState.parse(state.retry_state), state.now
    after = kept.due if kept.after is None else kept.after
    return kept.format() if after is None or after <= now else replace(kept, after=now).format()


def _set_event(state: JobState, event: str) -> str:
    return state.status or "" if read_event(state)[0] == event else f"{event}:{int(state.now)}"


def _clear_unscheduled(state: JobState) -> JobState:
    """Keep only the run in flight, and the status BAD of a refused schedule, with the group of its row."""
    is_bad = state.has_event(Event.BAD)
    status, membership = (state.status, state.membership) if is_bad else (None, "")
    bare = replace(_take_from_queues(state), timeline=None, status=status, retry_state="", skipped={}, failure=None)
    bare = replace(
        bare, paused="", spent=None, expires_at=None, options="", has_data=False, has_output=False, has_saved=False
    )
    return replace(bare, membership=membership, history=b"", progress="")


def _correct_pause(state: JobState) -> JobState:
    """Hold a paused job that waits on the timeline; set its timer to the end of the pause."""
    pause = state.pause
    if pause is None:
        return replace(state, timer=None)
    held = replace(pause, due=state.timeline, since=min(pause.since, state.now))
    paused = state.paused if pause.due == state.timeline else held.format()
    return replace(state, paused=paused, timeline=None, timer=pause.until)


def _put_in_flight(state: JobState) -> JobState:
    """Keep the run in flight. If a different run waited as well, it is owed when the run in flight ends."""
    run, waiting = state.run, state.waiting
    assert run is not None
    if waiting and waiting.due != run.due and run.next == Left.NOTHING:
        run.next = f"{Left.OWED}{format_time(waiting.due)}"
    timeline = state.timeline if run.was_set else None
    return replace(
        _take_from_queues(state), running=run.format(), timeline=timeline, status=_set_event(state, Event.WRK)
    )


def _take_from_queues(state: JobState) -> JobState:
    return replace(_correct_lists(state, ""), queued="")


def _correct_lists(state: JobState, home: str) -> JobState:
    """Put a job once into the list of `home`; keep entries in other lists only where they have a tombstone."""
    left = frozenset(name for name in state.tombstones if name != home and state.entries[name])
    return replace(state, entries={name: int(name == home or name in left) for name in state.entries}, tombstones=left)


def describe_changes(found: JobState, wanted: JobState) -> Iterator[str]:
    """Yield in words each change that turns `found` into `wanted`."""
    if wanted.running != found.running:
        yield "its running record written again" if wanted.running else "its running record removed"
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
    if wanted.paused != found.paused:
        held = wanted.held is not None and wanted.held != found.held
        otherwise = "nothing of it held" if wanted.paused else "not paused any more"
        yield f"held, due at {wanted.held:.6f}" if held else otherwise
    if wanted.timer != found.timer:
        yield "its pause ends by itself" if wanted.timer is not None else "no end of its pause"
    if wanted.expires_at != found.expires_at:
        yield "no timer to expire" if wanted.expires_at is None else f"to expire at {wanted.expires_at:.6f}"
    if wanted.status != found.status:
        yield f"status {wanted.status.partition(':')[0]}" if wanted.status else "its status removed"
    if wanted.follows != found.follows or wanted.is_listed != found.is_listed:
        yield "recorded what it follows" if wanted.follows else "not recorded as a follower any more"
    if wanted.member_of != found.member_of:
        yield "not waited for by its group any more"
    elif wanted.is_counted != found.is_counted:
        yield "counted by its group again"
    yield from _describe_counts(found, wanted)


def _describe_counts(found: JobState, wanted: JobState) -> Iterator[str]:
    gone = {"retry state": found.retry_state, "skipped": found.skipped, "failure": found.failure is not None}
    gone |= {"options": found.options, "data": found.has_data, "output": found.has_output}
    gone |= {"saved state": found.has_saved, "progress": found.progress}
    gone |= {"place among those to forget": found.spent is not None}
    gone |= {"group": found.membership and not wanted.membership, "history": found.history}
    if found.schedule is None:
        yield from (f"its {name} removed" for name, there in gone.items() if there)
    yield from (f"its {name} removed" for name in found.unreadable)
    for reason, count in wanted.skipped.items():
        if count > found.skipped.get(reason, 0):
            yield f"{count - found.skipped.get(reason, 0)} occurrences counted as {reason}"
