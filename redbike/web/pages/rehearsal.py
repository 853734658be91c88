"""The rehearsal: the next hours with an action and without it, and a form that confirms exactly that."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from redbike.control.operator import check_until
from redbike.control.queues import QueueController
from redbike.errors import BadConfig, BadSchedule
from redbike.facade.redbike import Redbike
from redbike.queries.rehearsal.outlook import ACTIONS, QUEUE_ACTIONS, Capacity, Change, Peak, Rehearsal, Side
from redbike.queries.rehearsal.rehearser import MOST_HOURS, MOST_JOBS, Rehearser
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.moments import parse_timestamp
from redbike.web.charts import draw_load
from redbike.web.orders import TARGETS
from redbike.web.rendering import show_text
from redbike.web.selection import SEARCH_TIMEOUT, Found, Selection, make_pause_digest
from redbike.web.site import Site

HOURS = 6
REHEARSAL_TIMEOUT = 3.0  # seconds for which jobs are computed
NAMED = 20  # jobs that are named
PEAKS = 5  # queues whose peaks are shown
REHEARSED = (
    "resume",
    "pause",
    "run",
    "cancel",
    "unset",
)  # actions that the form of this page confirms
VERBS = {
    "resume": "Resume",
    "pause": "Pause",
    "run": "Run now",
    "cancel": "Cancel",
    "unset": "Unset",
    "set": "Set the schedule of",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What the page says of the peak of a queue."""

    without: Peak
    changed: Peak
    capacity: Capacity  # of its workers
    limit: int | None  # so many runs of the queue may go on at a time


@dataclass(frozen=True, slots=True)
class Aim:
    """What the action is done to: jobs, a queue or everything."""

    of: str = "jobs"  # or queue, or all
    queue: str = ""  # the full name of the queue
    selection: Selection = field(default_factory=Selection)

    @classmethod
    def read(cls, given: QueryParams, bike: Redbike) -> "Aim":
        """Read it from a query, which names it as a form does. Raise `BadConfig`, `BadJobId` and `BadQueueName`."""
        of = given.get("of") or "jobs"
        if of not in TARGETS:
            raise BadConfig(f"bad of {of!r:.40}: {', '.join(TARGETS)} are allowed")
        if of == "jobs":
            return cls(of, "", Selection.read(given))
        if of != "queue":
            return cls(of, "")
        return cls(of, QueueController(bike.store, bike.worker).find_queue(given.get("name", "")))

    @property
    def target_queue(self) -> str | None:
        """The name of the queue that the action pauses or resumes, "" for all; None for an action on jobs."""
        return None if self.of == "jobs" else self.queue

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that can be rehearsed."""
        return ACTIONS if self.target_queue is None else QUEUE_ACTIONS

    def params(self) -> list[tuple[str, str]]:
        """Return it as the parameters that `read` reads."""
        if self.target_queue is None:
            return self.selection.params()
        return [("of", self.of), *([("name", self.queue)] if self.queue else [])]

    def find(self, site: Site, rehearser: Rehearser) -> Found:
        """Return the jobs that it is about: up to `MOST_JOBS`."""
        if self.target_queue is None:
            return self.selection.find(site.bike, MOST_JOBS)
        jobids, is_more = rehearser.find_jobs(self.target_queue, MOST_JOBS, SEARCH_TIMEOUT)
        return Found(tuple(jobids), is_more)

    def is_whole(self, found: Found) -> bool:
        """Tell whether `found` is all that the action would be done to."""
        return self.target_queue is not None or (bool(found.jobids) and not found.is_more)

    def make_digest(self, site: Site, found: Found) -> str:
        """Return what the confirmation compares: the set of jobs, or the pause."""
        if self.target_queue is None:
            return found.digest
        return make_pause_digest(site.bike.store.queue_limits.read(self.target_queue).pause)

    def find_remark(self, site: Site, change: Change, clock: Clock) -> str:
        """Return what one should know of a queue, or of everything, before it is paused or resumed; "" for nothing."""
        if self.target_queue is None:
            return ""
        queue_limits = site.bike.store.queue_limits
        name = f"The queue {show_text(self.target_queue)}" if self.target_queue else "Everything"
        pause = queue_limits.read(self.target_queue).pause
        is_paused = pause is not None and pause.holds(clock.now)
        if is_paused == (change.action == "pause"):
            said = "paused already, and its pause would stay as it is" if is_paused else "not paused"
            return f"{name} is {said}."
        is_known = not self.target_queue or self.target_queue in queue_limits.list_queues()
        return "" if is_known else f"{name} was never used."

    def describe(self, found: Found) -> str:
        """Name it in words."""
        if self.target_queue is not None:
            return f"the queue {show_text(self.target_queue)}" if self.target_queue else "everything"
        return f"{len(found.jobids):,}{' or more' * found.is_more} job{'s' * (len(found.jobids) != 1)}"


def show_rehearsal(site: Site, request: Request) -> Response:
    """Show what the action that is asked for would change. Nothing is changed."""
    given = request.query_params
    clock = site.read_clock()
    aim, hours = Aim.read(given, site.bike), _read_hours(given.get("hours", ""))
    change = _read_change(dict(given), clock, aim)
    rehearser = Rehearser(site.bike.store, site.bike.settings, change, hours)
    found = aim.find(site, rehearser)
    if change.action == "set" and not found.jobids:
        found = Found(aim.selection.jobids)  # they may be new
    if aim.target_queue is None:
        site.memory.keep_set(found)
    texts = [(name, given[name]) for name in ("until", "reason", "schedule", "tz") if given.get(name)]
    rehearsal = _rehearse(rehearser, found) if found.jobids else None
    return site.answer(
        request,
        "rehearsal.html",
        clock,
        here="rehearse",
        change=change,
        aim=aim,
        verb=VERBS[change.action],
        subject=aim.describe(found),
        params=_clean([*aim.params(), *texts]),
        texts=texts,
        hours=hours,
        remark=aim.find_remark(site, change, clock),
        actions=aim.actions,
        found=found,
        digest=aim.make_digest(site, found),
        named=found.jobids[:NAMED],
        most=MOST_JOBS,
        can_confirm=site.write and change.action in REHEARSED and aim.is_whole(found),
        **(_describe(rehearsal, clock) if rehearsal else {"rehearsal": None}),
    )


def _clean(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the fields of a form. An id that is not UTF-8 cannot be sent by one: then its set is another one."""
    return [(name, value.encode(errors="replace").decode()) for name, value in pairs]


def _rehearse(rehearser: Rehearser, found: Found) -> Rehearsal:
    try:
        return rehearser.run(found.jobids, REHEARSAL_TIMEOUT)
    except BadSchedule as error:
        raise BadConfig(str(error)) from None


def _read_hours(text: str) -> int:
    if not text:
        return HOURS
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= MOST_HOURS):
        raise BadConfig(f"bad hours {text!r:.40}: 1 to {MOST_HOURS} are allowed")
    return int(text)


def _read_change(given: dict[str, str], clock: Clock, aim: Aim) -> Change:
    action, schedule, until = given.get("action", ""), given.get("schedule", ""), given.get("until", "").strip()
    if action not in aim.actions:
        raise BadConfig(f"bad action {action!r:.40}: {', '.join(aim.actions)} are allowed")
    if action == "set" and not schedule:
        raise BadConfig("bad schedule '': one is needed to rehearse that it is set")
    moment = None
    if action == "pause" and until:
        try:
            moment = check_until(parse_timestamp(until, clock.zone), clock.now, until)
        except BadSchedule as error:
            raise BadConfig(str(error)) from None
    return Change(action, moment, schedule, given.get("tz") or None, aim.target_queue)


def _describe(rehearsal: Rehearsal, clock: Clock) -> dict[str, Any]:
    """Return what the page says of a rehearsal."""
    without, changed = rehearsal.without, rehearsal.changed
    most = max([1, *without.minutes, *changed.minutes])
    draw = partial(draw_load, rehearsal, name=lambda moment: clock.format(moment)[11:16])
    peaks = {peak.queue: peak for peak in rehearsal.find_peaks(without)}
    rows = [_make_row(rehearsal, peaks[peak.queue], peak) for peak in rehearsal.find_peaks(changed)]
    return {
        "rehearsal": rehearsal,
        "sides": [
            (name, side, draw(side, most=most, label=_label(name, side, rehearsal)), _find_densest(side))
            for name, side in (("Without", without), ("With", changed))
        ],
        "rows": rows[:PEAKS],
        "more_rows": max(0, len(rows) - PEAKS),
        "difference": changed.runs - without.runs,
        "skipped": [(reason.value, number) for reason, number in sorted(changed.skipped.items()) if number],
        "length": format_length(rehearsal.end - rehearsal.start),
        "warnings": [_warn(row) for row in rows if _warn(row)],
    }


def _make_row(rehearsal: Rehearsal, without: Peak, changed: Peak) -> Row:
    limits, capacity = rehearsal.queue_limits.get(changed.queue), rehearsal.capacities.get(changed.queue, Capacity())
    return Row(without, changed, capacity, limits.at_once if limits else None)


def _find_densest(side: Side) -> tuple[float, int]:
    """Return the minute with the most runs, in epoch seconds, and how many it has."""
    number = max(range(len(side.minutes)), key=lambda minute: (side.minutes[minute], -minute))
    return float(side.counting.base + number * 60), side.minutes[number]


def _label(name: str, side: Side, rehearsal: Rehearsal) -> str:
    hours = format_length(rehearsal.end - rehearsal.start)
    return f"{name} it: {side.runs:,} runs in {hours}, at most {max(side.minutes, default=0):,} in a minute"


def _warn(row: Row) -> str:
    """Return what workers cannot do, in a sentence; "" if they can, or nobody knows."""
    busy, queue, room = row.changed.busy, row.changed.queue, row.capacity.at_once
    if row.changed.runs and not row.capacity.processes:
        return f"No worker process that is known works the queue {queue}."
    if busy is None:
        return ""
    many = f"About {math.ceil(busy):,} runs of {queue} would go on at a time"
    if row.limit is not None and busy > row.limit:
        return f"{many}, and {row.limit:,} may: they will wait."
    return f"{many}, and its workers run {room:,} at once: they will wait." if room is not None and busy > room else ""
