"""What a job will run, from where it is: on the timeline, in a queue, in flight or paused. Pure functions.

They call the same policies as dispatchers and workers. Two things are presumed: a run takes no time, and succeeds. So
what is late runs at once, and what comes after that is found by the schedule alone.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from redbike.config import Settings, override
from redbike.running.occurrences import JUST_BEFORE, pass_late_ones, place_next
from redbike.running.policies import place_done, place_unwanted
from redbike.running.resuming import place_resumed
from redbike.running.schedules import find_schedule
from redbike.schedule.kinds import Schedule
from redbike.state.inspected import JobState
from redbike.state.jobs import JobToSet
from redbike.state.records import NOTHING, ONCE, OWED, Pause, Streak, Waiting
from redbike.state.run import Placement, Run
from redbike.words import Event, Skip


@dataclass(slots=True)
class Course:
    """What a job will run. Times are epoch seconds."""

    runs: list[float] = field(default_factory=list)  # one by one, for as long as something is late
    due: float | None = None  # from then on it runs by its schedule; None: nothing more
    is_continuous: bool = False  # it runs again as soon as it has run
    skipped: Counter[Skip] = field(default_factory=Counter)  # occurrences until `due` that are not run


@dataclass(frozen=True, slots=True)
class Hold:
    """From when until when nothing is taken from a queue, or from any."""

    since: float
    until: float  # infinite if that does not end by itself


@dataclass(frozen=True, slots=True)
class Outlook:
    """A job, the settings of all jobs, and the end of what is looked at."""

    state: JobState
    settings: Settings
    end: float
    queue_holds: Sequence[Hold] = ()  # of its queue: the last one that is over, and the present one
    common_holds: Sequence[Hold] = ()  # of everything

    @property
    def dispatched_from(self) -> float:
        """From when on jobs are enqueued again; it may be past."""
        return self.common_holds[-1].until if self.common_holds else -math.inf

    @property
    def taken_from(self) -> float:
        """From when on it is taken from its queue again; it may be past."""
        return max(self.dispatched_from, self.queue_holds[-1].until if self.queue_holds else -math.inf)

    @property
    def is_held(self) -> bool:
        """Whether its queue is paused, or everything is."""
        return self.taken_from > self.state.now

    def find_last_hold(self, start: float) -> Hold | None:
        """Return the pause that a run knows which begins at `start`, as ``lua/_gates.lua`` finds it."""
        ended = (_find_last(holds, start) for holds in (self.queue_holds, self.common_holds))
        # `max` returns the first one of those that have ended at the same time.
        return max((hold for hold in ended if hold), key=lambda hold: hold.until, default=None)

    @property
    def own(self) -> Settings:
        """The settings with the options of the job."""
        return override(self.settings, self.state.options)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the job. Raise `BadSchedule`."""
        return find_schedule(self.state.jobid, self.state.schedule or "", self.state.options)


def _find_last(holds: Sequence[Hold], start: float) -> Hold | None:
    return next((hold for hold in reversed(holds) if hold.until <= start), None)


def follow(outlook: Outlook) -> Course:
    """Return what a job will run if nobody changes anything. Raise `BadSchedule`."""
    state = outlook.state
    if state.schedule is None:
        return Course()
    if state.pause:
        return _follow_pause(outlook, state.pause)
    streak = Streak.parse(state.streak)
    if state.run:
        return _follow_run(outlook, state.run.start, streak)
    if state.waiting:
        return walk(outlook, state.waiting.due, streak, state.now)
    return walk(outlook, state.timeline, streak, state.now, is_enqueued=False)


def _follow_pause(outlook: Outlook, pause: Pause) -> Course:
    state = outlook.state
    if pause.until is None or pause.until >= outlook.end:
        return Course()
    return resume(replace(outlook, state=replace(state, now=max(state.now, pause.until))))


def resume(outlook: Outlook) -> Course:
    """Return what a paused job will run if it is resumed now. Raise `BadSchedule`."""
    state = outlook.state
    if state.run:
        after = replace(outlook, state=replace(state, paused="", timeline=state.held))
        return follow(after)
    placed = place_resumed(state, outlook.own)
    streak = Streak.parse(placed.streak or state.streak)
    course = walk(outlook, placed.due, replace(streak, due=placed.occurrence or streak.due), state.now)
    course.skipped.update(placed.skipped)
    return course


def _follow_run(outlook: Outlook, start: float, streak: Streak) -> Course:
    """Return what comes after a run in flight, as if that ended now."""
    state, run = outlook.state, outlook.state.run
    assert run
    if run.next.startswith(OWED) or run.next == ONCE:
        return walk(outlook, state.now, Streak(after=state.now), state.now)
    if run.next != NOTHING or state.timeline is not None:
        return walk(outlook, state.timeline, Streak(), state.now)
    flying = _make_run(outlook, run.due, replace(streak, due=None), start)
    placed = place_done(flying, None, outlook.own, state.now)
    course = walk(outlook, _read_due(placed, state.now), Streak.parse(placed.streak), state.now)
    course.skipped.update(_count(placed))
    return course


def walk(outlook: Outlook, due: float | None, streak: Streak, now: float, is_enqueued: bool = True) -> Course:
    """Return what a job will run that is due first at `due`, as seen at `now`. Raise `BadSchedule`.

    One that `is_enqueued` is not late, however long it has waited.
    """
    course, ready = Course(), max(now, outlook.taken_from)
    schedule = outlook.schedule
    if due is not None and schedule.allows_pause:
        course.is_continuous = max(due, ready) < outlook.end
        return course
    if ready >= outlook.end:
        return course
    held_back = max(now, outlook.dispatched_from)
    if due is not None and not is_enqueued and due <= held_back and streak.due is None:
        due, late = pass_late_ones(schedule, due, held_back, outlook.own)
        course.skipped[Skip.LATE] += late
    while due is not None and due < outlook.end:
        is_plain = (streak.due, streak.after) == (None, None)
        if due > ready and is_plain:
            break
        start = max(due, ready)
        placed = _run(outlook, course, due, streak, start)
        due, streak = _read_due(placed, start), Streak.parse(placed.streak)
    course.due = due if due is not None and due < outlook.end else None
    return course


def _run(outlook: Outlook, course: Course, due: float, streak: Streak, start: float) -> Placement:
    run = _make_run(outlook, due, streak, start)
    unwanted = place_unwanted(run, outlook.own, start)
    placed = unwanted or place_done(run, None, outlook.own, start)
    if unwanted is None:
        course.runs.append(start)
    course.skipped.update(_count(placed))
    return placed


def _make_run(outlook: Outlook, due: float, streak: Streak, start: float) -> Run:
    state = outlook.state
    occurrence = due if streak.due is None else streak.due
    run = Run(state.jobid, occurrence, "", start, start, 0, 0, state.schedule or "", "", options=state.options)
    run.tries, run.after = streak.tries, streak.after
    if hold := outlook.find_last_hold(start):
        run.queue_pause = hold.since, hold.until
    return run


def _read_due(placed: Placement, now: float) -> float | None:
    return now if isinstance(placed.due, str) else placed.due


def _count(placed: Placement) -> dict[Skip, int]:
    found = {Skip.MISSED: placed.missed, Skip.RUNNING: placed.overlapped}
    found |= {Skip.LATE: placed.late, Skip.PAUSED: placed.paused}
    return {reason: number for reason, number in found.items() if number}


def pause(outlook: Outlook, until: float | None) -> Course:
    """Return what a job will run if it is paused now. Raise `BadSchedule`."""
    state = outlook.state
    if state.pause or until is None:
        # To pause what is paused changes nothing.
        return follow(outlook) if state.pause else Course()
    held = state.waiting.due if state.waiting else state.timeline
    if state.run:
        streak = replace(Streak.parse(state.streak), due=None)
        flying = _make_run(outlook, state.run.due, streak, state.run.start)
        held = _read_due(place_done(flying, None, outlook.own, state.now), state.now)
    paused = Pause(held, state.now, until, "").format()
    return follow(replace(outlook, state=replace(state, paused=paused, running="", queued="", timeline=None)))


def run_now(outlook: Outlook) -> Course:
    """Return what a job will run if somebody runs it now, as ``lua/run.lua`` does. Raise `BadSchedule`."""
    state = outlook.state
    if state.schedule is None or (state.waiting and not state.pause):
        return follow(outlook)
    if state.run:
        course = follow(outlook)
        if not state.run.next.startswith(OWED):
            course.runs.insert(0, state.now)
        return course
    held = state.held if state.pause else state.timeline
    due, streak = _find_occurrence(state, held)
    start = max(state.now, outlook.taken_from)
    # If its pause is over by then, a dispatcher resumes it before the run has ended.
    if not state.pause or (state.pause.until is not None and state.pause.until <= start):
        return walk(outlook, due, streak, state.now)
    placed = place_next(_make_run(outlook, due, streak, start), outlook.schedule, outlook.own, state.pause.since)
    kept = replace(state.pause, due=_read_due(placed, start) if placed.due is not None else None)
    # It does not wait in a queue any more, as its status may say.
    course = follow(replace(outlook, state=replace(state, paused=kept.format(), streak=placed.streak, status=None)))
    if start < outlook.end:
        course.runs.insert(0, start)
    return course


def _find_occurrence(state: JobState, due: float | None) -> tuple[float, Streak]:
    """Return the due time of what an explicit run runs, and its streak."""
    kept, goes_on = Streak.parse(state.streak), None if due is None else due - JUST_BEFORE
    if kept.due is not None:
        return state.now, kept
    failed = (state.failure or {}).get("due")
    if isinstance(failed, int | float) and 0 <= failed < 1e12:
        return state.now, Streak(tries=1, due=float(failed), after=goes_on)
    if due is not None and due < state.now:
        kept = kept if state.pause else Streak()
        return due, replace(kept, after=due if kept.after is None else kept.after)
    return state.now, Streak(after=state.now if goes_on is None else goes_on)


def move(state: JobState, due: float | None) -> JobState:
    """Return a job that goes on at `due`: on the timeline, or held if it is paused."""
    if state.pause:
        return replace(state, paused=replace(state.pause, due=due).format(), streak="", queued="", status=None)
    return replace(state, timeline=due, queued="", streak="", running="")


def set_due(state: JobState, due: float | None, queue: str) -> JobState:
    """Return a job that was just set, and is due first at `due`, as ``lua/set.lua`` leaves it."""
    if due is None or due > state.now:
        return move(state, due)
    if state.pause:
        return state if state.held is not None and state.has_event(Event.ENQ) else move(state, due)
    # It is enqueued at once, unless it waits in a queue already.
    queued = state.queued if state.waiting else Waiting(due, queue).format()
    return replace(state, timeline=None, queued=queued, streak="", running="")


def is_same(job: JobToSet, before: str | None) -> bool:
    """Tell whether a job has this schedule already; another anchor makes no other one, see ``lua/set.lua``."""
    if before is None or job.anchor_span is None:
        return before == job.schedule
    new, old = job.schedule.encode(), before.encode(errors="surrogateescape")
    head, tail = job.anchor_span
    is_long_enough = len(old) > head + tail
    return is_long_enough and old[:head] == new[:head] and (not tail or old[-tail:] == new[-tail:])
