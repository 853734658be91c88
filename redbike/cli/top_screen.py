"""Draw the screen of `top`: whether all is well, and as many tables as there is room for."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from redbike.cli.columns import BUSY, DIM, GOOD, ODD, WRONG, Column, Width, make_table, make_text
from redbike.cli.tables import choose_jobs, list_job_columns, list_queue_columns, list_worker_columns, sort_queues
from redbike.cli.top_keys import BY_ID, BY_NEXT, Desk
from redbike.queries.glance import View
from redbike.queries.health import MAX_LAG, judge
from redbike.schedule.clock import NOTHING, Clock, format_took
from redbike.text.printable import name_number

KEYS = "q ends it"
TALL = 8  # the least height, in lines, at which the last line names the keys


class Section(NamedTuple):
    """A table with the rows that are shown. `number` is how many rows exist in all."""

    columns: Sequence[Column]
    rows: Sequence[Any]
    number: int
    is_of_jobs: bool = True  # each row is a job, which the user can choose


def draw(view: View | None, problem: str, title: str, clock: Clock, desk: Desk, width: int, height: int) -> Group:
    """Return the content of a terminal with `width` columns and `height` lines. Set `desk.jobids` to the jobs on it.

    `problem` says why the server did not answer; "" if it did.
    """
    lines: list[RenderableType] = [_make_title(title, clock, width)]
    if problem:
        lines.append(make_text(problem, WRONG))
    if view is not None:
        lines += _describe(view, clock, not problem)
        footer = [make_text(desk.describe(), ODD if desk.question or desk.said else DIM)] if height >= TALL else []
        sections = _list_found(view, clock, desk) if view.found is not None else _list_sections(view, clock, desk)
        shown = _share(sections, height - len(lines) - len(footer))
        lines += [*_fill(shown, width), *footer]
        desk.jobids = list(dict.fromkeys(row.jobid for each in shown if each.is_of_jobs for row in each.rows))
    for line in lines:
        if isinstance(line, Text):
            line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _make_title(title: str, clock: Clock, width: int) -> Text:
    right = make_text(f"  {clock.name(clock.now)[11:]}  {KEYS}" if clock.now else f"  {KEYS}", DIM)
    left = make_text(f"redbike {title}", "bold")
    left.truncate(max(1, width - right.cell_len), overflow="ellipsis", pad=True)
    return left.append(right)


def _describe(view: View, clock: Clock, is_whole: bool) -> Iterator[Text]:
    """Yield a line that says all is well, or a line for each of the first three problems; and a line with numbers."""
    glance = view.glance
    health = judge(glance, MAX_LAG)
    rate = sum(queue.rate or 0 for queue in glance.queues)
    total = glance.total
    numbers = (
        f"{name_number(total.jobs, 'job')}, {total.paused:,} paused, {total.failing:,} failing; "
        f"{name_number(rate, 'run')} in the last minute; "
        f"lag {health.metrics['lag']:.1f} s"
    )
    if health.is_well and is_whole:
        yield make_text("OK ", GOOD).append(make_text(health.describe()))
    yield from (make_text(text, WRONG) for text in health.problems[:3])
    yield make_text(numbers)


def _list_found(view: View, clock: Clock, desk: Desk) -> list[Section]:
    """Return a table of the jobs that match the pattern, in the chosen order."""
    first, *others = list_job_columns(clock)
    columns = first._replace(title="JOBS", show=lambda job: _name(job.jobid, desk)), *others
    found = view.found or ()
    if desk.order == BY_ID:
        rows = sorted(found, key=lambda job: job.jobid)
    elif desk.order == BY_NEXT:
        rows = sorted(found, key=lambda job: (job.next_run is None, job.next_run or 0.0, job.jobid))
    else:
        rows, _ = choose_jobs(found, len(found))
    return [Section(columns, rows, len(found))]


def _name(jobid: str, desk: Desk, style: str = "") -> Text:
    """Return the id of a job, highlighted if the job is chosen."""
    return make_text(jobid, f"{style} reverse".strip() if jobid == desk.chosen else style)


def _list_sections(view: View, clock: Clock, desk: Desk) -> list[Section]:
    glance = view.glance
    running = (
        Column("RUNS", lambda run: _name(run.jobid, desk, WRONG if run.is_slow(clock.now) else BUSY), Width.FOLDED),
        Column("SINCE", lambda run: clock.measure(run.start)),
        Column("USUALLY", lambda run: NOTHING if run.usual is None else format_took(run.usual), is_number=True),
        Column("DONE", lambda run: f"{run.progress.share:.0%}" if run.progress else NOTHING, is_number=True),
        Column("PROGRESS", lambda run: (run.progress and run.progress.text) or NOTHING, Width.CUT),
    )
    soonest = (
        Column("DUE NEXT", lambda job: _name(job.jobid, desk), Width.FOLDED),
        Column("DUE", lambda job: make_text(clock.measure(job.next_run), WRONG if job.is_overdue else "")),
        Column("QUEUE", lambda job: job.queue or NOTHING),
        Column("SCHEDULE", lambda job: (job.schedule or NOTHING).splitlines()[-1], Width.CUT),
    )
    failures = (
        Column("FAILED", lambda failure: _name(failure.jobid, desk, WRONG), Width.FOLDED),
        Column("WHEN", lambda failure: clock.measure(failure.failed)),
        Column("ERROR", lambda failure: failure.error, Width.CUT),
    )
    return [
        Section(list_queue_columns(clock), sort_queues(glance.queues), len(glance.queues), False),
        Section(list_worker_columns(clock), glance.processes, len(glance.processes), False),
        Section(running, view.running, view.in_flight),
        Section(soonest, view.soonest, glance.total.timeline),
        Section(failures, view.failures, glance.total.failing),
    ]


def _share(sections: Sequence[Section], height: int) -> list[Section]:
    """Return the tables with the rows for which there is room. The tables get further rows in turn."""
    shown = [0] * len(sections)
    # A table needs at least three lines. A table is left out if it has no rows, or no room.
    room = height
    for number, section in enumerate(sections):
        if section.rows and room >= 3:
            shown[number], room = 1, room - 3
    while room > 0 and any(0 < have < len(each.rows) for have, each in zip(shown, sections, strict=True)):
        for number, section in enumerate(sections):
            if 0 < shown[number] < len(section.rows) and room > 0:
                shown[number], room = shown[number] + 1, room - 1
    return [each._replace(rows=each.rows[:have]) for have, each in zip(shown, sections, strict=True) if have]


def _fill(sections: Sequence[Section], width: int) -> Iterator[RenderableType]:
    """Yield the tables, each below an empty line."""
    for section in sections:
        first, *others = section.columns
        more = f" (of {section.number:,})" if section.number > len(section.rows) else ""
        # Texts are cut, not wrapped: each row is one line.
        columns = [first._replace(title=f"{first.title}{more}"), *others]
        columns = [each._replace(width=Width.CUT) if each.width == Width.FOLDED else each for each in columns]
        yield Text()
        yield make_table(columns, section.rows, width)
