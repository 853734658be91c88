"""What is said of lanes: when they are held, since when runs are kept, what was changed, which processes were lost."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from redbike.config.options import parse_options
from redbike.queries.incident import read_changes
from redbike.queries.lanes.model import Band, Lanes, Mark, Question
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.windows import join_windows
from redbike.store.blackouts import EVERYTHING, OF_JOB, OF_QUEUE
from redbike.store.history import PastRun
from redbike.store.log import localize
from redbike.store.namespace import PAGE
from redbike.store.records import Pause
from redbike.store.store import Store

MOST_MARKS = 200
PATIENCE = 2.0  # seconds for which changes are read


class Horizon:
    """Finds from when on all runs of a lane are kept: each job keeps as many as its option ``history`` says."""

    def __init__(self, store: Store, question: Question, default: int) -> None:
        self._store, self._question, self._default = store, question, default
        self._begins: dict[str, float] = {}
        self._full: list[tuple[str, PastRun, int]] = []  # jobs with their oldest runs, and how many they have

    def add(self, runs: Sequence[PastRun]) -> None:
        """Look at all runs of a job that are kept, the newest first."""
        if runs[-1].started > self._question.since:
            self._full.append((runs[0].jobid, runs[-1], len(runs)))
        if len(self._full) >= PAGE:
            self._judge()

    def finish(self) -> dict[str, float]:
        """Return by lane from when on all runs are kept, if that is not all of the time."""
        self._judge()
        return self._begins

    def _judge(self) -> None:
        jobids = [jobid for jobid, _, _ in self._full]
        stored = self._store.questions.read_schedules(jobids) if jobids else ()
        for (jobid, oldest, number), (_, options) in zip(self._full, stored, strict=True):
            queue, most = self._store.name_queue(jobid), parse_options(options).get("history", self._default)
            if number >= int(most) and self._question.has(jobid, queue):
                lane = jobid if self._question.by_job else queue
                self._begins[lane] = max(self._begins.get(lane, 0.0), oldest.started)
        self._full = []


def list_held(store: Store, question: Question) -> Iterator[str]:
    """Yield the queues that are asked for, and of which there may be nothing as they are paused."""
    for limits in store.queue_limits.list_all():
        if limits.queue and limits.pause and question.queue in ("", limits.queue):
            until = math.inf if limits.pause.until is None else limits.pause.until
            if question.is_in(limits.pause.since, until):
                yield limits.queue


def add_bands(store: Store, found: Lanes) -> None:
    """Add the pauses and blackouts of each lane: of the job itself, of its queue, and of everything."""
    by_job = found.question.by_job
    states = store.questions.inspect([lane.name for lane in found.lanes]) if by_job else []
    pauses = {state.jobid: pause for state in states if (pause := Pause.parse(state.paused))}
    queue_pauses = {limits.queue: limits.pause for limits in store.queue_limits.list_all() if limits.pause}
    blackouts = store.blackouts.list_all()
    for lane in found.lanes:
        queue = store.name_queue(lane.name) if by_job else lane.name
        names = [*([f"{OF_JOB}{lane.name}"] if by_job else []), f"{OF_QUEUE}{queue}", EVERYTHING]
        for name in dict.fromkeys(names):
            blackout = blackouts.get(name)
            if blackout is None:
                continue
            windows = replace(blackout, begins=None).list_between(found.question.since, found.question.until)
            for window in join_windows(list(windows)):
                if window.end > blackout.since:
                    said = f"blackout of {format_length(blackout.seconds)}"
                    lane.bands.append(_make_band(max(window.start, blackout.since), window.end, said, blackout.reason))
        for each in dict.fromkeys((queue, "")):
            if limits := queue_pauses.get(each):
                what = f"queue {each} paused" if each else "all queues paused"
                lane.bands.append(_make_band(limits.since, limits.until, what, limits.reason))
        if pause := pauses.get(lane.name):
            details = pause.to_dict()
            lane.bands.append(_make_band(details["since"], details["until"], "paused", details["reason"] or ""))
        lane.bands = [band for band in lane.bands if found.question.is_in(band.start, band.end)]


def _make_band(start: float, end: float | None, what: str, reason: str) -> Band:
    return Band(start, math.inf if end is None else end, f"{what}: {reason}" if reason else what)


def add_marks(store: Store, found: Lanes, zone: str) -> None:
    """Add changes, and processes that were lost."""
    question, name = found.question, Clock(found.now, zone).name
    changes, is_cut = read_changes(store, question.since, question.until, time.monotonic() + PATIENCE)
    shown = [each for each in changes if not each.jobid or question.has(each.jobid, store.name_queue(each.jobid))]
    if is_cut or len(shown) > MOST_MARKS:
        found.cuts.append("not all changes are shown")
    for each in shown[:MOST_MARKS]:
        found.marks.append(Mark(each.time, f"{each.who}: {each.action} {localize(each.detail, name)}", each.jobid))
    for process in store.workers.list_all():
        if process.state == "lost" and question.is_in(process.seen, process.seen):
            found.marks.append(Mark(process.seen, f"the {process.kind} {process.id} was lost", is_loss=True))
    found.marks.sort(key=lambda mark: mark.time)
