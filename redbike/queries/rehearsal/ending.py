"""How a job goes on whose run is in flight, if that run ends now, and well. Pure functions.

The policies of workers place it, as its record says what somebody has done meanwhile.
"""

from dataclasses import replace

from redbike.loop.policies import ON_TIMELINE, PAUSED, place_again, place_done
from redbike.queries.rehearsal.outlook import Outlook, make_run, read_due
from redbike.store.inspected import JobState
from redbike.store.records import ANEW, NOTHING, ONCE, OWED, SET, Pause, RunRecord, Streak, Waiting, format_time
from redbike.store.run import Answer, Placement


def end_run(outlook: Outlook, run: RunRecord) -> tuple[JobState, Placement]:
    """Return a job as ``lua/end.lua`` leaves it, and how it was placed. Raise `BadSchedule`."""
    state, pause, settings = outlook.state, outlook.state.pause, outlook.own
    flying = make_run(outlook, run.due, replace(Streak.parse(state.streak), due=None), run.start)
    placed = place_done(flying, None, settings, state.now)
    left = _describe_left(state, run, pause)
    if left != NOTHING:
        answer = Answer("changed", state.schedule or "", left, state.options)
        placed = place_again(flying, placed, answer, settings, state.now)
    ended = replace(state, running="", streak=placed.streak, status=None)
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
    waits = (pause is not None and pause.due is not None) or (run.next != NOTHING and state.timeline is not None)
    return run.left + (ON_TIMELINE if waits else "") + (f"{PAUSED}{format_time(pause.since)}" if pause else "")


def _asked_at(run: RunRecord) -> float:
    """Return when somebody has asked for what comes after a run: a further run, or that it is taken."""
    if run.next.startswith(ANEW):
        return 0.0
    return max(run.start, float(run.next.removeprefix(OWED)) if run.next.startswith(OWED) else 0.0)


def set_in_flight(state: JobState, run: RunRecord, due: float | None, once: bool, waits: bool) -> JobState:
    """Return a job in flight that gets another schedule, as ``lua/set.lua`` leaves it.

    It is due first at `due`. `once` tells whether it runs then alone, `waits` whether it has due times at all.
    """
    if waits and due is not None and due <= state.now and not once:
        missed = replace(run, next=f"{ANEW}{format_time(due)}").format()
        paused = replace(state.pause, due=None).format() if state.pause else ""
        return replace(state, timeline=None, paused=paused, running=missed, streak="")
    if once and due is not None and due <= state.now and not state.pause:
        return replace(owe(state, run, due), streak="")
    later = due if due is not None and (due > state.now or once) else None
    running = replace(run, next=ONCE if once and later is not None else SET).format()
    if state.pause:
        return replace(state, paused=replace(state.pause, due=later).format(), running=running, streak="")
    return replace(state, timeline=later, running=running, streak="")


def resume_in_flight(state: JobState, run: RunRecord) -> JobState:
    """Return a job in flight that is resumed, as ``lua/resume.lua`` leaves it."""
    resumed = replace(state, paused="")
    if state.held is None:
        return resumed
    if state.held > state.now:
        return replace(resumed, timeline=state.held)
    if run.next == ONCE:
        return replace(resumed, running=replace(run, next=f"{OWED}{format_time(state.held)}").format())
    # What came due while the run goes on counts when that ends.
    return resumed


def owe(state: JobState, run: RunRecord, due: float) -> JobState:
    """Return a job in flight that runs once more when that run ends, and is due at `due` then."""
    owed = replace(run, next=f"{OWED}{format_time(due)}").format()
    return replace(state, timeline=None, running=owed)
