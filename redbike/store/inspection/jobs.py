"""Check jobs: each is inspected at one instant, and its record, its places and its status are compared.

While the server's clock was ahead, jobs ran early and got their next due time from it. Once the clock is right again,
only the status shows this: its time is in the future. A job whose schedule really begins late has a status from the
past.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from redbike.errors import RedbikeError
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.kinds import Stop
from redbike.schedule.moments import AWAITED, END_OF_TIME
from redbike.schedule.parser import parse
from redbike.store.enums import Event
from redbike.store.groups import see_whole
from redbike.store.inspected import JobState
from redbike.store.inspection.listing import Listing, get_home, get_own_queue
from redbike.store.lease import AHEAD
from redbike.store.namespace import PAGE, split
from redbike.store.records import RetryState, Status
from redbike.store.schedules import find_schedule
from redbike.store.sharded.missing import ask_each, tolerate_missing
from redbike.store.store import Store
from redbike.text.group_names import MARK

# By event. A job that was paused keeps the status of the place from which it is held.
PLACES_OF = {Event.TML: ("timeline", "held"), Event.ENQ: ("queue", "held"), Event.WRK: ("in flight",)}


def find_bad_jobs(store: Store, listing: Listing) -> Iterator[list[JobState]]:
    """Yield the jobs with which something seems to be wrong, a page at a time.

    Each is inspected at one instant. Only its entries in lists come from the listing, maybe from before it moved.
    """
    for page in split(listing.jobs, PAGE):
        found = see_groups(store, store.questions.inspect(page, tags=listing.tag_of))
        states = (_add_listed_entries(store, listing, state) for state in found)
        yield [state for state in states if any(check_job(state))]


def _add_listed_entries(store: Store, listing: Listing, state: JobState) -> JobState:
    """Return `state` with its entries as listed, also in the queue where it should have one or may get one."""
    home = get_home(state.waiting) or (get_own_queue(store, state.jobid) if state.schedule is not None else "")
    tombstones = listing.tombstones.get(state.jobid, frozenset())
    entries = dict.fromkeys({home, *tombstones} - {""}, 0) | (listing.jobs[state.jobid] or {})
    return replace(state, entries=entries, tombstones=tombstones)


def inspect_jobs(store: Store, listing: Listing, queues: Mapping[str, Iterable[str]]) -> list[JobState]:
    """Inspect jobs at one instant, also in the lists of the named queues and of the queue where each belongs."""
    names = {jobid: sorted({*found, get_own_queue(store, jobid)} - {""}) for jobid, found in queues.items()}
    return see_groups(store, store.questions.inspect(names, names, listing.tag_of))


def see_groups(store: Store, states: list[JobState]) -> list[JobState]:
    """Return states of jobs of a shard with what all shards know of the groups for which they wait.

    If another shard is missing, such a group counts as open.
    """
    if len(store.whole.shards) == 1:
        return states
    with tolerate_missing():
        seen = list(see_whole(states, store.whole.groups.read))
        if not any(map(_follows_what_is_over, seen)):
            return seen
        mail = list(ask_each(store.whole.shards, lambda shard: shard.links.list_mail()))
    return [_wait_for_mail(store, state, mail) if _follows_what_is_over(state) else state for state in seen]


def _follows_what_is_over(state: JobState) -> bool:
    return bool(state.awaited_group and state.awaited and not (state.awaited.left or state.awaited.is_open))


def _wait_for_mail(store: Store, state: JobState, mail: list[Any]) -> JobState:
    """Count a group that is over as open while messages about it are on the way to its home, or to the job's shard.

    `mail` has for each shard the shards to which it has messages. A missing shard may have such messages, too.
    """
    assert state.awaited
    home, here = (store.whole.number_shard(each) for each in (f"{MARK}{state.awaited_group}", state.jobid))
    is_known = len(mail) == len(store.whole.shards)
    is_coming = not is_known or any(home in each for each in mail) or (home != here and here in mail[home])
    return replace(state, awaited=state.awaited._replace(is_open=True)) if is_coming else state


def check_job(state: JobState) -> Iterator[str]:
    """Yield what is wrong with one job, and with its entries in the lists that were searched."""
    yield from (f"its {what} cannot be read" for what in state.unreadable)
    if state.queued and get_home(state.waiting) is None:
        yield f"its queued record is malformed: {state.queued!r}"
        return
    if state.running and get_home(state.run) is None:
        yield f"its running record is malformed: {state.running!r}"
        return
    yield from check_entries(state)
    if state.schedule is None:
        yield from _check_unscheduled(state)
    else:
        yield from _check_place(state)


def list_astray(store: Store, listing: Listing) -> Iterator[str]:
    """Yield a line for each job whose id leads to another shard: it is searched for there, and not found."""
    whole, ours = store.whole, store.keys.prefix
    homes = ((jobid, whole.find_shard(jobid).keys.prefix) for jobid in listing.jobs if len(whole.shards) > 1)
    for page in split((each for each in homes if each[1] != ours), PAGE):
        found = store.questions.read_schedules([jobid for jobid, _ in page])
        for (jobid, home), (schedule, _) in zip(page, found, strict=True):
            if schedule is not None:
                yield f"{jobid!r}: it is in the shard {ours}, but its id names {home}"


def list_places(state: JobState) -> list[str]:
    """List the places where the job is."""
    found = {
        "in flight": state.running,
        "queue": state.queued,
        "timeline": state.timeline is not None,
        "held": state.pause is not None and state.pause.due is not None,
    }
    return [place for place, there in found.items() if there]


def was_stopped(state: JobState) -> bool:
    """Tell whether 0.13.1 has stopped a job: it left such jobs on the timeline, or without a record in their queue."""
    is_elsewhere = state.queued or state.running or state.held is not None
    is_stopped = state.schedule == Stop.text and state.has_event(Event.STP)
    return is_stopped and not is_elsewhere and RetryState.parse(state.retry_state).due is None


def check_entries(state: JobState) -> Iterator[str]:
    home = get_home(state.waiting)
    is_wanted = state.schedule is not None and not was_stopped(state)
    adopted = "a worker will adopt it" if is_wanted else "a worker will throw it away"
    for name in state.entries:
        found = state.count_entries(name)
        if found < 0:
            yield f"it has a tombstone in the queue {name!r}, but is not in it"
        elif found and name in state.tombstones:
            yield f"it is in the queue {name!r} beside a tombstone that it has there"
        elif found > 1:
            yield f"it is {found} times in the queue {name!r}"
        elif found and name != home:
            yield f"it is in the queue {name!r} without a record; {adopted}"
        elif not found and name == home:
            yield f"it is recorded as queued, but is not in the queue {name!r}"


def _check_unscheduled(state: JobState) -> Iterator[str]:
    here = [place for place in list_places(state) if place != "in flight"]
    if here:
        yield f"it was never set, or is unset, but is still in: {', '.join(here)}"
    if state.status and not state.has_event(Event.BAD):
        yield f"it has no schedule, but the status {state.status}"
    if state.paused or state.timer is not None:
        yield "it has no schedule, but is paused"
    if state.follows is not None:
        yield "it has no schedule, but is recorded as a follower"
    if state.member_of:
        yield f"it has no schedule, but the group {state.member_of!r} waits for it"
    if state.spent is not None or state.expires_at is not None:
        yield "it has no schedule, but is to be forgotten, or to expire"
    if state.retry_state or state.skipped or state.failure is not None:
        yield "it has no schedule, but counts or a failure"
    has_group = state.membership and not state.has_event(Event.BAD)
    if state.has_saved or state.progress:
        yield "it has no schedule, but a saved state or progress"
    if state.options or state.has_data or state.has_output or has_group or state.history:
        yield "it has no schedule, but options, data, output, a group or ended runs"


def _check_place(state: JobState) -> Iterator[str]:
    here = list_places(state)
    run = state.run
    if len(here) > 1 and not (here in (["in flight", "timeline"], ["in flight", "held"]) and run and run.was_set):
        yield f"it is in more than one place: {', '.join(here)}"
    if state.timeline is not None and not 0 <= state.timeline < END_OF_TIME and state.timeline != AWAITED:
        yield f"its due time on the timeline is out of bounds: {state.timeline:g}"
    if state.pause and state.timeline is not None:
        yield "it is paused, but on the timeline"
    if state.timer != (state.pause.until if state.pause else None):
        yield "nothing ends its pause" if state.timer is None else "its pause ends by itself at another time, or never"
    if late := describe_lateness(state):
        yield late
    yield from _check_status(state, here)
    if state.member_of and not here:
        yield f"the group {state.member_of!r} waits for it, but it does not run any more"
    elif not state.is_counted:
        yield f"it is one of the group {state.member_of!r}, which does not know it"
    if waits_in_vain(state):
        yield "it waits for a group of which nothing is left"
    try:
        schedule = parse(state.schedule or "")
    except RedbikeError as error:
        yield f"its schedule cannot be read: {error}"
    else:
        if not follows_as_set(state, schedule.find_parents()):
            yield "what it follows is not recorded as its schedule has it"
        if state.timeline == AWAITED and not (schedule.is_awaiting or schedule.is_for_hosts):
            yield "it waits for other jobs, but its schedule names none"


def waits_in_vain(state: JobState) -> bool:
    """Tell whether a job waits for a group that has no job left and is not open."""
    done = state.awaited and not (state.awaited.left or state.awaited.is_open)
    return bool(done) and AWAITED in (state.timeline, state.pause.due if state.pause else None)


def follows_as_set(state: JobState, wanted: Mapping[str, Any] | None) -> bool:
    """Tell whether a job is recorded as a follower as its schedule wants it, and whether its parents list it."""
    if wanted is None or state.follows is None:
        return wanted is None and state.follows is None
    kept = state.follows
    return state.is_listed and tuple(kept["parents"]) == wanted["parents"] and kept["when"] == wanted["when"]


def _check_status(state: JobState, here: list[str]) -> Iterator[str]:
    status = Status.parse(state.status)
    if status is None:
        yield f"it has no status, or a malformed one: {state.status!r}"
    elif status.event in PLACES_OF:
        if not here:
            yield f"its status is {state.status}, but it is nowhere"
        elif here[0] not in PLACES_OF[status.event]:
            yield f"its status is {state.status}, but it is in: {here[0]}"
    elif here:
        yield f"its status is {state.status}, but it is in: {', '.join(here)}"


def find_place(state: JobState) -> float | None:
    """Return when a job that a wrong clock has put too late is due by its schedule; None for any other job."""
    status = Status.parse(state.status)
    if not is_of_clock(status, state.now) or state.running or state.waiting:
        return None
    due = state.timeline if state.timeline is not None else state.held
    if due is None or due <= state.now:
        return None
    try:
        schedule = find_schedule(state.jobid, state.schedule or "", state.options)
    except RedbikeError:
        return None
    if schedule.allows_pause or RetryState.parse(state.retry_state).due is not None:
        # A pause, or another try of the same occurrence: it began when the clock was ahead.
        return state.now
    following = None if schedule.runs_once else schedule.next(state.now)
    return following if following is not None and following < due else None


def is_of_clock(status: Status | None, now: float) -> bool:
    """Tell whether the time of a status is in the future: it was set by a clock that was ahead."""
    return status is not None and status.time > now + AHEAD


def describe_lateness(state: JobState) -> str:
    """Return what is wrong with a job for which `find_place` returns a time; "" for any other job."""
    place, due = find_place(state), state.timeline if state.timeline is not None else state.held
    if place is None or due is None:
        return ""
    late, clock = format_length(due - state.now), Clock(state.now, "UTC")
    return f"it is due in {late}, by a clock that was ahead; by its schedule it is due at {clock.name(place)}"
