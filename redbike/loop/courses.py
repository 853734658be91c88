"""What a job will run, from where it is: on the timeline, in a queue, in flight or paused. Pure functions.

They call the same policies as dispatchers and workers. They assume that a run takes no time, and succeeds. So a late
occurrence runs at once, and the schedule alone says what comes after it.

A job in flight goes where the policies of workers say. The record of its run has what was changed during the run.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from redbike.loop.catchup import JUST_BEFORE, decide_next, find_expiry, give_up_expired, pass_late_ones
from redbike.loop.changes import decide_again
from redbike.loop.outlook import Outlook, make_run, read_due
from redbike.loop.policies import decide_done, decide_unwanted
from redbike.loop.resuming import decide_resumed
from redbike.schedule.moments import is_same_text
from redbike.store.enums import Left, Skip
from redbike.store.inspected import JobState
from redbike.store.jobs import JobToSet
from redbike.store.next_state import Answer, NextState
from redbike.store.records import Pause, RetryState, RunRecord, Waiting, format_time

MOST_SKIPS = 1000  # occurrences that are skipped one by one


def end_run(outlook: Outlook, run: RunRecord) -> tuple[JobState, NextState]:
    """Return a job as ``lua/end.lua`` leaves it, and the next state that was decided. Raise `BadSchedule`."""
    state, pause, settings = outlook.state, outlook.state.pause, outlook.own
    flying = make_run(outlook, run.due, replace(RetryState.parse(state.retry_state), due=None), run.start)
    placed = decide_done(flying, None, settings, state.now)
    left = _describe_left(state, run, pause)
    if left != Left.NOTHING:
        answer = Answer("changed", state.schedule or "", left, state.options)
        placed = decide_again(flying, placed, answer, settings, state.now)
    ended = replace(state, running="", retry_state=placed.retry_state, status=None)
    if placed.place == "stay":
        return ended, placed
    due = read_due(placed, state.now)
    if due is None or placed.place not in ("next", "due"):
        return replace(ended, timeline=None), placed
    if pause and not (placed.place == "due" and due <= state.now and _asked_at(run) > pause.since):
        return replace(ended, timeline=None, paused=replace(pause, due=due).format()), placed
    if due <= state.now:
        return replace(ended, timeline=None, queued=Waiting(due, run.queue).format()), placed
    return replace(ended, timeline=due), placed


def _describe_left(state: JobState, run: RunRecord, pause: Pause | None) -> str:
    waits = (pause is not None and pause.due is not None) or (run.next != Left.NOTHING and state.timeline is not None)
    paused = f"{Left.WAS_PAUSED}{format_time(pause.since)}" if pause else ""
    return f"{run.left}{Left.ON_TIMELINE if waits else ''}{paused}"


def _asked_at(run: RunRecord) -> float:
    """Return when the run that is owed was asked for, or this one began, if later; 0.0 if the job was set anew."""
    if run.next.startswith(Left.ANEW):
        return 0.0
    return max(run.start, float(run.next.removeprefix(Left.OWED)) if run.next.startswith(Left.OWED) else 0.0)


def set_in_flight(state: JobState, run: RunRecord, due: float | None, once: bool, waits: bool) -> JobState:
    """Return a job in flight that gets another schedule, as ``lua/set.lua`` leaves it.

    It is due first at `due`. `once` tells whether it runs then alone, `waits` whether it has due times at all.
    """
    if waits and due is not None and due <= state.now and not once:
        missed = replace(run, next=f"{Left.ANEW}{format_time(due)}").format()
        paused = replace(state.pause, due=None).format() if state.pause else ""
        return replace(state, timeline=None, paused=paused, running=missed, retry_state="")
    if once and due is not None and due <= state.now and not state.pause:
        return replace(owe(state, run, due), retry_state="")
    later = due if due is not None and (due > state.now or once) else None
    running = replace(run, next=Left.ONCE if once and later is not None else Left.SET).format()
    if state.pause:
        return replace(state, paused=replace(state.pause, due=later).format(), running=running, retry_state="")
    return replace(state, timeline=later, running=running, retry_state="")


def resume_in_flight(state: JobState, run: RunRecord) -> JobState:
    """Return a job in flight that is resumed, as ``lua/resume.lua`` leaves it."""
    resumed = replace(state, paused="")
    if state.held is None:
        return resumed
    if state.held > state.now:
        return replace(resumed, timeline=state.held)
    if run.next == Left.ONCE:
        return replace(resumed, running=replace(run, next=f"{Left.OWED}{format_time(state.held)}").format())
    # What came due while the run goes on counts when that ends.
    return resumed


def owe(state: JobState, run: RunRecord, due: float) -> JobState:
    """Return a job in flight that runs once more when that run ends, and is due at `due` then."""
    return replace(state, timeline=None, running=replace(run, next=f"{Left.OWED}{format_time(due)}").format())


@dataclass(slots=True)
class Course:
    """What a job will run. Times are epoch seconds."""

    runs: list[float] = field(default_factory=list)  # one by one, for as long as something is late
    dues: list[float] = field(default_factory=list)  # the due times of these runs
    due: float | None = None  # from then on it runs by its schedule; None: nothing more
    is_continuous: bool = False  # it runs again as soon as it has run
    skipped: Counter[Skip] = field(default_factory=Counter)  # occurrences until `due` that are not run


def follow(outlook: Outlook) -> Course:
    """Return what a job will run if nobody changes anything. Raise `BadSchedule`."""
    state = outlook.state
    if state.schedule is None:
        return Course()
    if state.run:
        ended, placed = end_run(outlook, state.run)
        course = follow(replace(outlook, state=ended))
        course.skipped.update(placed.skipped)
        return course
    if state.pause:
        return _follow_pause(outlook, state.pause)
    retry_state = RetryState.parse(state.retry_state)
    if state.waiting:
        return walk(outlook, state.waiting.due, retry_state, state.now)
    return walk(outlook, state.timeline, retry_state, state.now, is_enqueued=False)


def _follow_pause(outlook: Outlook, pause: Pause) -> Course:
    state = outlook.state
    if state.waiting and _outlasts(pause, outlook):
        # Somebody has asked for this run since the pause.
        return _run_paused(outlook, pause, state.waiting.due, RetryState.parse(state.retry_state))
    if pause.until is None or pause.until >= outlook.end:
        return Course()
    return resume(replace(outlook, state=replace(state, now=max(state.now, pause.until))))


def _outlasts(pause: Pause, outlook: Outlook) -> bool:
    """Tell whether a job is still paused when it is taken. If not, a dispatcher resumes it before the run has ended."""
    return pause.until is None or pause.until > outlook.start


def _run_paused(outlook: Outlook, pause: Pause, due: float, retry_state: RetryState) -> Course:
    """Return the course of a job that runs once although it is paused, and what follows. Raise `BadSchedule`."""
    state, start, own = outlook.state, outlook.start, outlook.own
    expires = _find_skip(outlook, due, retry_state, state.now, start)
    decide = give_up_expired if expires else decide_next
    placed = decide(make_run(outlook, due, retry_state, start), outlook.schedule, own, pause.since)
    kept = replace(pause, due=read_due(placed, start))
    # It does not wait in a queue any more, as its status may say.
    after = replace(state, paused=kept.format(), retry_state=placed.retry_state, status=None, queued="", running="")
    course = follow(replace(outlook, state=after))
    if start < outlook.end and not expires:
        course.runs.insert(0, start)
        course.dues.insert(0, due if retry_state.due is None else retry_state.due)
    return course


def resume(outlook: Outlook) -> Course:
    """Return what a paused job will run if it is resumed now. Raise `BadSchedule`."""
    state = outlook.state
    if state.run or state.waiting:
        resumed = resume_in_flight(state, state.run) if state.run else replace(state, paused="")
        return follow(replace(outlook, state=resumed))
    placed = decide_resumed(state, outlook.own)
    retry_state = RetryState.parse(placed.retry_state or state.retry_state)
    retry_state = replace(retry_state, due=placed.occurrence or retry_state.due)
    course = walk(outlook, placed.due, retry_state, state.now, placed.due is not None and placed.due <= state.now)
    course.skipped.update(placed.skipped)
    return course


def walk(outlook: Outlook, due: float | None, retry_state: RetryState, now: float, is_enqueued: bool = True) -> Course:
    """Return what a job will run that is due first at `due`, as seen at `now`. Raise `BadSchedule`.

    A job that `is_enqueued` is not late, however long it has waited.
    """
    course, ready, schedule = Course(), max(now, outlook.taken_from), outlook.schedule
    if due is not None and schedule.allows_pause:
        course.is_continuous = max(due, ready) < outlook.end
        return course
    if ready >= outlook.end:
        return course
    held_back = max(now, outlook.dispatched_from)
    if due is not None and not is_enqueued and due <= held_back and retry_state.due is None:
        due, passed = pass_late_ones(schedule, due, held_back, outlook.own)
        course.skipped.update(passed)
    skips = 0
    while due is not None and due < outlook.end and len(course.runs) < outlook.most:
        is_plain = (retry_state.due, retry_state.after) == (None, None)
        if due > ready and is_plain:
            break
        start = max(due, ready)
        # Of very many that expire in a paused queue, the last ones are skipped together.
        if at := _find_skip(outlook, due, retry_state, now if skips < MOST_SKIPS else start, start):
            skips += 1
            due, retry_state = _skip(outlook, course, due, retry_state, at, max(at, held_back))
            continue
        placed = _run(outlook, course, due, retry_state, start)
        due, retry_state = read_due(placed, start), RetryState.parse(placed.retry_state)
    course.due = due if due is not None and due < outlook.end else None
    return course


def _find_skip(outlook: Outlook, due: float, retry_state: RetryState, now: float, start: float) -> float | None:
    """Return when a dispatcher skips an occurrence that expires before it would `start`; None if it does not."""
    state, run, own = outlook.state, make_run(outlook, due, retry_state, start), outlook.own
    expiry = find_expiry(replace(run, after=None), outlook.schedule, own)
    if run.was_asked_for and expiry is not None:
        expiry = state.waits_until if state.waiting else state.now + own.expires
    return None if expiry is None or expiry > start else max(now, expiry)


def _skip(
    outlook: Outlook, course: Course, due: float, retry_state: RetryState, at: float, moved: float
) -> tuple[float | None, RetryState]:
    """Skip an occurrence at the instant `at`; return when the next one is due, if `moved` then, and its retry state."""
    run = replace(make_run(outlook, due, retry_state, at), queue_pause=None)
    placed = give_up_expired(run, outlook.schedule, outlook.own, at)
    course.skipped.update(placed.skipped)
    following, kept = read_due(placed, at), RetryState.parse(placed.retry_state)
    if following is not None and following <= moved and kept.due is None:
        following, passed = pass_late_ones(outlook.schedule, following, moved, outlook.own)
        course.skipped.update(passed)
    return following, kept


def _run(outlook: Outlook, course: Course, due: float, retry_state: RetryState, start: float) -> NextState:
    run = make_run(outlook, due, retry_state, start)
    unwanted = decide_unwanted(run, outlook.own, start)
    placed = unwanted or decide_done(run, None, outlook.own, start)
    if unwanted is None:
        course.runs.append(start)
        course.dues.append(run.due)
    course.skipped.update(placed.skipped)
    return placed


def pause(outlook: Outlook, until: float | None) -> Course:
    """Return what a job will run if it is paused now. Raise `BadSchedule`."""
    state, before = outlook.state, outlook.state.pause
    if before and not (before.is_of_blackout and before.until and (until is None or until > before.until)):
        # To pause what is paused changes nothing, unless that is a blackout which ends earlier.
        return follow(outlook)
    if before:
        paused = replace(before, until=until).format()
        return follow(replace(outlook, state=replace(state, paused=paused, timer=until)))
    held = state.waiting.due if state.waiting else state.timeline
    paused = Pause(held, state.now, until, "").format()
    return follow(replace(outlook, state=replace(state, paused=paused, queued="", timeline=None)))


def run_now(outlook: Outlook) -> Course:
    """Return what a job will run if somebody runs it now, as ``lua/run.lua`` does. Raise `BadSchedule`."""
    state = outlook.state
    if state.schedule is None or state.waiting:
        return follow(outlook)
    if state.run:
        return follow(replace(outlook, state=owe(state, state.run, state.now)))
    due, retry_state = _find_occurrence(state, state.held if state.pause else state.timeline)
    if state.pause and _outlasts(state.pause, outlook):
        return _run_paused(outlook, state.pause, due, retry_state)
    return walk(outlook, due, retry_state, state.now)


def _find_occurrence(state: JobState, due: float | None) -> tuple[float, RetryState]:
    """Return the due time of an explicit run, and its retry state."""
    kept, goes_on = RetryState.parse(state.retry_state), None if due is None else due - JUST_BEFORE
    if kept.due is not None:
        return state.now, kept
    failed = (state.failure or {}).get("due")
    if isinstance(failed, int | float) and 0 <= failed < 1e12:
        return state.now, RetryState(tries=1, due=float(failed), after=goes_on)
    if due is not None and due < state.now:
        kept = kept if state.pause else RetryState()
        return due, replace(kept, after=due if kept.after is None else kept.after)
    return state.now, RetryState(after=state.now if goes_on is None else goes_on)


def move(state: JobState, due: float | None) -> JobState:
    """Return a job that goes on at `due`: on the timeline, or held if it is paused."""
    if state.pause:
        return replace(state, paused=replace(state.pause, due=due).format(), retry_state="", queued="", status=None)
    return replace(state, timeline=due, queued="", retry_state="", running="")


def set_due(state: JobState, job: JobToSet) -> JobState:
    """Return a job that gets another schedule, as ``lua/set.lua`` leaves it."""
    due = state.now if job.due == "now" else job.due
    if state.run:
        return set_in_flight(state, state.run, due, job.once, job.once or job.due != "now")
    if due is None or due > state.now or (state.pause and not state.waiting):
        return move(state, due)
    # It is enqueued at once, or keeps its turn in the queue where it waits.
    waiting = replace(state.waiting or Waiting(due, job.queue), due=due)
    return replace(state, timeline=None, queued=waiting.format(), retry_state="", running="")


def is_same(job: JobToSet, before: str | None) -> bool:
    """Tell whether a job has this schedule already; another anchor makes no difference, see ``lua/set.lua``."""
    return before is not None and is_same_text(job.schedule, before, job.anchor_span)
