"""The rehearsal: the next hours with an action and without it, and a form that confirms exactly this action."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from redbike.config.settings import read_count
from redbike.control.operator import check_until
from redbike.control.queues import QueueController, is_unused
from redbike.errors import BadConfig
from redbike.loop.host_jobs import MOST_NAMED
from redbike.queries.rehearsal.outlook import ACTIONS as REHEARSED
from redbike.queries.rehearsal.outlook import QUEUE_ACTIONS, Capacity, Change, Peak, Rehearsal, Side
from redbike.queries.rehearsal.rehearser import MOST_HOURS, MOST_JOBS, Rehearser
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.moments import join_words
from redbike.store.queue_limits import Pause
from redbike.text.printable import cut
from redbike.web.charts import draw_load
from redbike.web.orders import ACTIONS, Order
from redbike.web.requests import read_moment
from redbike.web.selection import SEARCH_TIMEOUT, Found, Target, make_pause_digest
from redbike.web.site import Site

HOURS = 6
REHEARSAL_TIMEOUT = 3.0  # seconds for the computation
NAMED = 20  # jobs that the page names
PEAKS = 5  # queues whose peaks are shown
VERBS = {name: action.verb for name, action in ACTIONS.items()} | {"run": "Run now", "set": "Set the schedule of"}


@dataclass(frozen=True, slots=True)
class Row:
    """The peak of a queue, without and with the action."""

    without: Peak
    changed: Peak
    capacity: Capacity  # of its workers
    limit: int | None  # the most runs of the queue at once


def show_rehearsal(site: Site, request: Request) -> Response:
    """Show what the action in the query would change. Nothing is changed."""
    given, clock = dict(request.query_params), site.read_clock()
    target = _read_target(site, request.query_params)
    hours = read_count("hours", given["hours"], MOST_HOURS) if given.get("hours") else HOURS
    change = _read_change(given, clock, target)
    rehearser = Rehearser(site.bike.store, site.bike.settings, change, hours)
    found = _find_jobs(site, target, rehearser)
    if change.action == "set" and not found.jobids:
        found = Found(target.selection.jobids)  # jobs to set may be new
    if target.is_of_jobs:
        site.memory.keep_set(found)
    texts = [(name, given[name]) for name in ("until", "reason", "schedule", "tz") if given.get(name)]
    rehearsal = rehearser.run(found.jobids, REHEARSAL_TIMEOUT) if found.jobids else None
    is_whole = not target.is_of_jobs or (bool(found.jobids) and not found.is_more)
    number = f"{len(found.jobids):,}{' or more' * found.is_more} job{'s' * (len(found.jobids) != 1)}"
    return site.answer(
        request,
        "rehearsal.html",
        clock,
        here="rehearse",
        change=change,
        target=target,
        verb=VERBS[change.action],
        subject=target.describe(number),
        # A form cannot send an id that is not UTF-8. So the digest of its set will differ.
        params=[(name, value.encode(errors="replace").decode()) for name, value in (*target.params(), *texts)],
        texts=texts,
        hours=hours,
        remark="" if target.is_of_jobs else _find_remark(site, target, change, clock),
        actions=REHEARSED if target.is_of_jobs else QUEUE_ACTIONS,
        found=found,
        digest=found.digest if target.is_of_jobs else make_pause_digest(_read_pause(site, target)),
        named=found.jobids[:NAMED],
        most=MOST_JOBS,
        can_confirm=change.action in ACTIONS
        and is_whole
        and request.state.permit.may(Order(change.action, Target()).role),
        **(_describe(rehearsal, clock) if rehearsal else {"rehearsal": None}),
    )


def _read_target(site: Site, given: QueryParams) -> Target:
    """Return the target, with the full name of a queue. Raise what `Target.read` raises, and `BadQueueName`."""
    target = Target.read(given)
    if target.of != "queue":
        return target
    return replace(target, queue=QueueController(site.bike.store, site.bike.worker).find_queue(target.queue))


def _find_jobs(site: Site, target: Target, rehearser: Rehearser) -> Found:
    """Return the jobs of a target, up to `MOST_JOBS`."""
    if target.is_of_jobs:
        return target.selection.find(site.bike, MOST_JOBS)
    jobids, is_more = rehearser.find_jobs(target.queue, MOST_JOBS, SEARCH_TIMEOUT)
    return Found(tuple(jobids), is_more)


def _read_pause(site: Site, target: Target) -> Pause | None:
    return site.bike.store.queue_limits.read(target.queue).pause


def _find_remark(site: Site, target: Target, change: Change, clock: Clock) -> str:
    """Return a warning before a queue, or everything, is paused or resumed; "" for none."""
    pause = _read_pause(site, target)
    is_paused = pause is not None and pause.holds(clock.now)
    if is_paused == (change.action == "pause"):
        said = "paused already, and its pause would stay as it is" if is_paused else "not paused"
        return f"{target.title} is {said}."
    return f"{target.title} was never used." if is_unused(site.bike.store, target.queue) else ""


def _read_change(given: dict[str, str], clock: Clock, target: Target) -> Change:
    action, schedule, until = given.get("action", ""), given.get("schedule", ""), given.get("until", "").strip()
    if action == "set" and target.is_of_jobs and not schedule:  # a queue cannot be set at all
        raise BadConfig("bad schedule '': one is needed to rehearse that it is set")
    moment = None
    if action == "pause" and until:
        said, given["until"] = read_moment(until, clock)
        moment = check_until(said, clock.now, until)
    return Change(action, moment, schedule, given.get("tz") or None, None if target.is_of_jobs else target.queue)


def _describe(rehearsal: Rehearsal, clock: Clock) -> dict[str, Any]:
    """Return the values for the template that describe a rehearsal."""
    without, changed = rehearsal.without, rehearsal.changed
    most = max([1, *without.minutes, *changed.minutes])
    draw = partial(draw_load, rehearsal, name=lambda moment: clock.format_minute(moment)[11:])
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
        "warnings": [*_name_nowhere(rehearsal.nowhere), *filter(None, map(_warn, rows))],
    }


def _name_nowhere(bases: Sequence[str]) -> Iterator[str]:
    """Yield a sentence that names the jobs for every host without a job on any host, if there are some."""
    if bases:
        has = "has" if len(bases) == 1 else "have"
        yield f"{join_words(cut(bases, MOST_NAMED))} {has} no job on any host."


def _make_row(rehearsal: Rehearsal, without: Peak, changed: Peak) -> Row:
    limits, capacity = rehearsal.queue_limits.get(changed.queue), rehearsal.capacities.get(changed.queue, Capacity())
    return Row(without, changed, capacity, limits.at_once if limits else None)


def _find_densest(side: Side) -> tuple[float, int]:
    """Return the minute with the most runs, in epoch seconds, and how many it has."""
    number = max(range(len(side.minutes)), key=lambda minute: (side.minutes[minute], -minute))
    return float(side.base + number * 60), side.minutes[number]


def _label(name: str, side: Side, rehearsal: Rehearsal) -> str:
    hours = format_length(rehearsal.end - rehearsal.start)
    return f"{name} it: {side.runs:,} runs in {hours}, at most {max(side.minutes, default=0):,} in a minute"


def _warn(row: Row) -> str:
    """Return a sentence if a limit or the workers of the queue do not suffice; "" if they do, or if it is unknown."""
    busy, queue, room = row.changed.busy, row.changed.queue, row.capacity.at_once
    if row.changed.runs and not row.capacity.processes:
        return f"No worker process that is known works the queue {queue}."
    if busy is None:
        return ""
    many = f"About {math.ceil(busy):,} runs of {queue} would go on at a time"
    if row.limit is not None and busy > row.limit:
        return f"{many}, and {row.limit:,} may: they will wait."
    return f"{many}, and its workers run {room:,} at once: they will wait." if room is not None and busy > room else ""
