"""The rehearsal: the next hours with an action and without it, and a form that confirms it for exactly these jobs."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig, BadSchedule
from redbike.schedule.forecast import Clock, format_length
from redbike.schedule.moments import parse_timestamp
from redbike.steering.operator import check_until
from redbike.watching.rehearsal import ACTIONS, MOST_HOURS, MOST_JOBS, Change, Peak, Rehearsal, Rehearser, Side
from redbike.web.selection import Found, Selection
from redbike.web.site import Site
from redbike.web.strips import draw_load

HOURS = 6
PATIENCE = 3.0  # seconds for which jobs are computed
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
    workers: int
    at_once: int | None  # so many runs of the queue may go on at a time


def show_rehearsal(site: Site, request: Request) -> Response:
    """Show what the action that is asked for would change. Nothing is changed."""
    given = request.query_params
    clock = site.read_clock()
    selection, hours = Selection.read(given), _read_hours(given.get("hours", ""))
    change = _read_change(dict(given), clock)
    found = selection.find(site.bike, MOST_JOBS)
    if change.action == "set" and not found.jobids:
        found = Found(selection.jobids)  # they may be new
    site.memory.keep_set(found)
    texts = [(name, given[name]) for name in ("until", "reason", "schedule", "tz") if given.get(name)]
    rehearsal = None
    if found.jobids:
        rehearsal = _rehearse(site, change, hours, found)
    return site.answer(
        request,
        "rehearsal.html",
        clock,
        here="rehearse",
        change=change,
        verb=VERBS[change.action],
        params=_clean([*selection.params(), *texts]),
        texts=texts,
        hours=hours,
        actions=ACTIONS,
        found=found,
        digest=found.digest,
        named=found.jobids[:NAMED],
        most=MOST_JOBS,
        can_confirm=site.write and change.action in REHEARSED and not found.is_more,
        **(_describe(rehearsal, clock) if rehearsal else {"rehearsal": None}),
    )


def _clean(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the fields of a form. An id that is not UTF-8 cannot be sent by one: then its set is another one."""
    return [(name, value.encode(errors="replace").decode()) for name, value in pairs]


def _rehearse(site: Site, change: Change, hours: float, found: Found) -> Rehearsal:
    try:
        return Rehearser(site.bike.store, site.bike.settings, change, hours).run(found.jobids, PATIENCE)
    except BadSchedule as error:
        raise BadConfig(str(error)) from None


def _read_hours(text: str) -> int:
    if not text:
        return HOURS
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= MOST_HOURS):
        raise BadConfig(f"bad hours {text!r:.40}: 1 to {MOST_HOURS} are allowed")
    return int(text)


def _read_change(given: dict[str, str], clock: Clock) -> Change:
    action, schedule, until = given.get("action", ""), given.get("schedule", ""), given.get("until", "").strip()
    if action not in ACTIONS:
        raise BadConfig(f"bad action {action!r:.40}: {', '.join(ACTIONS)} are allowed")
    if action == "set" and not schedule:
        raise BadConfig("bad schedule '': one is needed to rehearse that it is set")
    moment = None
    if action == "pause" and until:
        try:
            moment = check_until(parse_timestamp(until, clock.zone), clock.now, until)
        except BadSchedule as error:
            raise BadConfig(str(error)) from None
    return Change(action, moment, schedule, given.get("tz") or None)


def _describe(rehearsal: Rehearsal, clock: Clock) -> dict[str, Any]:
    """Return what the page says of a rehearsal."""
    without, changed = rehearsal.without, rehearsal.changed
    most = max([1, *without.minutes, *changed.minutes])
    draw = partial(draw_load, rehearsal, name=lambda moment: clock.format(moment)[11:16])
    peaks = {peak.queue: peak for peak in rehearsal.find_peaks(without)}
    rows = [
        Row(peaks[peak.queue], peak, rehearsal.workers.get(peak.queue, 0), _find_limit(rehearsal, peak.queue))
        for peak in rehearsal.find_peaks(changed)
    ]
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


def _find_limit(rehearsal: Rehearsal, queue: str) -> int | None:
    gate = rehearsal.gates.get(queue)
    return gate.at_once if gate else None


def _find_densest(side: Side) -> tuple[float, int]:
    """Return the minute with the most runs, in epoch seconds, and how many it has."""
    number = max(range(len(side.minutes)), key=lambda minute: (side.minutes[minute], -minute))
    return float(side.counting.base + number * 60), side.minutes[number]


def _label(name: str, side: Side, rehearsal: Rehearsal) -> str:
    hours = format_length(rehearsal.end - rehearsal.start)
    return f"{name} it: {side.runs:,} runs in {hours}, at most {max(side.minutes, default=0):,} in a minute"


def _warn(row: Row) -> str:
    """Return what workers cannot do, in a sentence; "" if they can, or nobody knows."""
    busy, queue = row.changed.busy, row.changed.queue
    if row.changed.runs and not row.workers:
        return f"No worker process that is known works the queue {queue}."
    if busy is None or row.at_once is None or busy <= row.at_once:
        return ""
    return f"About {math.ceil(busy):,} runs of {queue} would go on at a time, and {row.at_once:,} may: they will wait."
