"""Describe in words what a follower waits for."""

from collections.abc import Sequence

from redbike.queries.following.family import Family, find_after
from redbike.schedule.after import After
from redbike.schedule.clock import Clock
from redbike.schedule.moments import join_words
from redbike.store.enums import Event
from redbike.store.inspected import JobState
from redbike.store.records import RetryState
from redbike.text.group_names import is_group, name_parent

MOST_WORDS = 5  # parents of each kind that are named
MOST_DEPTH = 8  # generations that are described in one sentence

_AWAITED = {"ok": "{}", "failed": "a failure of {}", "any": "the end of {}"}


def explain_follower(family: Family, state: JobState, clock: Clock) -> str:
    """Return what a follower waits for, as a sentence. The family has all jobs above it."""
    after = find_after(state.schedule)
    if after is None:
        return ""
    waits_for = state.waits_for if state.follows else list(after.parents)
    return explain_parents(family, after, waits_for, clock)


def explain_parents(family: Family, after: After, waits_for: Sequence[str], clock: Clock) -> str:
    """Return the parents that a follower waits for, with the state of each, as a sentence."""
    if is_group(after.parents[0]):
        return explain_group(family, after.parents[0], clock)
    awaited = [parent for parent in after.parents if parent in waits_for]
    ended = [parent for parent in after.parents if parent not in waits_for]
    if not awaited:
        return "Each of its parents has ended since it was due last."
    *first, last = _describe(family, awaited, after, clock)
    what = ", ".join([*first, f"and {last}"] if first else [last])
    if not ended:
        return f"It waits {what}."
    return f"It waits {what}; {join_words(_cut(ended))} {'has' if len(ended) == 1 else 'have'} ended already."


def explain_group(family: Family, parent: str, clock: Clock) -> str:
    """Return the number of jobs left in a group, and the states of some, as a sentence; paused jobs come first."""
    group = family.groups.get(parent)
    if group is None:
        return f"It waits for the {name_parent(parent)}."
    if not (group.counts.left or group.counts.is_open):
        return f"No job of the {name_parent(parent)} is left: who waits for it is due at once."
    jobids = sorted(group.jobids, key=lambda each: not _is_paused(family, each))[:MOST_WORDS]
    named = [f"{each}, which {describe_place(family, each, 'any', clock)}" for each in jobids]
    more = group.counts.left - len(named)
    named += [f"{more:,} more"] if more and named else []
    others = "; more are to come" if group.counts.is_open else ""
    names = f": {'; '.join(named)}" if named else ""
    return f"It waits for the {name_parent(parent)}, {group.counts.describe()}{others}{names}."


def describe_group(family: Family, parent: str) -> str:
    """Return a group in a few words: the number of jobs left in it, and the first ones."""
    group = family.groups.get(parent)
    if group is None:
        return name_parent(parent)
    names = f": {', '.join(group.jobids[:MOST_WORDS])}" if group.jobids else ""
    return f"{name_parent(parent)} ({group.counts.describe()}){names}{', …' * (group.counts.left > MOST_WORDS)}"


def _is_paused(family: Family, jobid: str) -> bool:
    state = family.states.get(jobid)
    return state is not None and state.pause is not None


def _cut(words: list[str]) -> list[str]:
    return words if len(words) <= MOST_WORDS + 1 else [*words[:MOST_WORDS], f"{len(words) - MOST_WORDS} more"]


def _describe(family: Family, awaited: Sequence[str], after: After, clock: Clock) -> list[str]:
    """Return the states of these parents, as parts of a sentence: one part for all in the same state."""
    groups: dict[str, list[str]] = {}
    for each in awaited:
        groups.setdefault(describe_place(family, each, after.ending, clock), []).append(each)
    most = MOST_WORDS if len(groups) > MOST_WORDS + 1 else len(groups)
    listed = list(groups.items())
    words = [
        f"for {_AWAITED[after.ending].format(join_words(_cut(names)))}, {'each of ' * (len(names) > 1)}which {place}"
        for place, names in listed[:most]
    ]
    more = sum(len(names) for _, names in listed[most:])
    return [*words, f"{more} more"] if more else words


def describe_place(family: Family, jobid: str, ending: str, clock: Clock, path: Sequence[str] = ()) -> str:
    """Return the state of a parent that must end like `ending`: ``is due at …``, ``is no job``."""
    if jobid in family.groups:
        return f"has {family.groups[jobid].counts.describe()}"
    state = family.states.get(jobid)
    if state is None:
        return "is no job" if jobid in family.states else "is not known here"
    if state.run:
        return f"runs since {clock.name(state.run.start)}"
    if state.pause:
        until = "until somebody resumes it" if state.pause.until is None else f"until {clock.name(state.pause.until)}"
        return f"is paused {until}"
    due = state.waiting.due if state.waiting else state.due
    held = family.holds.describe(jobid, due, clock) if family.holds and due is not None else ""
    held = f", and {held}" if held else ""
    if state.waiting:
        return f"is due since {clock.name(state.waiting.due)} and waits in {state.waiting.queue}{held}"
    if state.due is not None:
        tried = RetryState.parse(state.retry_state)
        at = "is tried again at" if tried.tries and tried.due is not None else "is due at"
        since = at if state.due > clock.now else "is due since"
        return f"{since} {clock.name(state.due)}, {clock.measure(state.due)}{held}"
    if state.timeline is not None:
        return _describe_awaiting(family, state, clock, (*path, jobid))
    return _describe_end(state, ending)


def _describe_awaiting(family: Family, state: JobState, clock: Clock, path: Sequence[str]) -> str:
    """Return that a parent is itself a follower, and what it waits for."""
    after, waits_for = find_after(state.schedule), state.waits_for
    if after is None or not waits_for:
        return "waits for others"
    first, *others = waits_for
    more = f" and {len(others)} more" if others else ""
    what = f"the {name_parent(first)}" if is_group(first) else _AWAITED[after.ending].format(first)
    if first in path:
        return f"waits for {what}{more}"
    if len(path) >= MOST_DEPTH:
        return f"waits for {what}{more} ... {_describe_root(family, first, after.ending, clock)}"
    place = describe_place(family, first, after.ending, clock, path)
    return f"waits for {what}{more}, which {place}" if not others else f"waits for {what}, which {place},{more}"


def _describe_root(family: Family, jobid: str, ending: str, clock: Clock) -> str:
    """Return what a long chain waits for in the end: the first job above this one that waits for no other."""
    seen = set[str]()
    while jobid not in seen and (state := family.states.get(jobid)) is not None:
        seen.add(jobid)
        after = find_after(state.schedule)
        is_awaiting = not (state.run or state.pause or state.waiting) and state.timeline is not None
        if after is None or not is_awaiting or state.due is not None or not state.waits_for:
            break
        jobid, ending = state.waits_for[0], after.ending
    if jobid not in family.states:
        return "and in the end for others, too far up to be shown"
    return f"and in the end for {jobid}, which {describe_place(family, jobid, ending, clock, tuple(seen))}"


def _describe_end(state: JobState, ending: str) -> str:
    """Return why a parent does not run any more."""
    never = {"ok": "so it never succeeds", "failed": "so it does not fail again", "any": "so it does not end again"}
    if state.has_event(Event.DIE):
        return f"has failed for good, {never[ending]}"
    if state.has_event(Event.BAD):
        return f"has a bad schedule, {never[ending]}"
    return f"is stopped or has run out, {never[ending]}"


def describe_hopeless(family: Family, jobid: str, ending: str) -> str:
    """Return why a parent, in its current state, will not end like `ending` any more; "" if it may."""
    state = family.states.get(jobid)
    if state is None or state.run or state.pause or state.waiting or state.timeline is not None:
        return ""
    return _describe_end(state, ending)
