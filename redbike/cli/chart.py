"""Draw the agenda on a terminal: a bar for each quarter of an hour, and the minutes with the most runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from rich.console import Console
from rich.text import Text

from redbike.cli.columns import make_text
from redbike.cli.pager import open_paged
from redbike.queries.counting import QUARTER
from redbike.queries.forecast import Forecast, Quarter, Share
from redbike.schedule.clock import Clock, format_length
from redbike.text.printable import name_number

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")  # of the queues with the most runs
OTHERS = "white"  # of all others
NUMBERS = 26  # columns beside a bar


def show_agenda(agenda: Forecast, clock: Clock) -> None:
    """Show an agenda, a page at a time."""
    with open_paged() as console:
        _print_agenda(agenda, clock, console)


def _print_agenda(agenda: Forecast, clock: Clock, console: Console) -> None:
    when = f"{clock.format_minute(agenda.start)} to {clock.format_minute(agenda.end)} {clock.zone}"
    heading = f"{name_number(agenda.runs, 'run')} of {name_number(agenda.jobs, 'job')}, {when}"
    console.print(make_text(heading), style="bold")
    if agenda.quarters:
        runs = Counter[str]()
        for quarter in agenda.quarters:
            runs[quarter.queue] += quarter.runs
        colours = {queue: colour for (queue, _), colour in zip(runs.most_common(), COLOURS, strict=False)}
        console.print(_make_legend(runs, colours))
        for line in _draw_days(agenda, clock, colours, console):
            console.print(line, no_wrap=True, crop=True)
        console.print("\nwhat runs, from when on", style="bold")
        for plan in agenda.plans:
            when = clock.format_minute(plan.first)
            text = f"{when}  {name_number(plan.runs, 'run')}: {_describe_share(plan.share)}"
            console.print(make_text(text), no_wrap=True, crop=True, overflow="crop")
        if more := agenda.schedules - len(agenda.plans):
            console.print(f"and {more:,} more, with fewer jobs each")
        console.print("\ndensest minutes", style="bold")
        for minute in agenda.densest:
            shares = "; ".join(map(_describe_share, minute.shares))
            when = clock.format_minute(minute.start)
            others = "; and others" if minute.is_more else ""
            console.print(make_text(f"{when}  {name_number(minute.runs, 'run')}: {shares}{others}"))
        if agenda.relief:
            console.print(make_text(_advise(agenda, clock)))
    for text in _list_left_out(agenda):
        console.print(make_text(text))


def _make_legend(runs: Counter[str], colours: dict[str, str]) -> Text:
    legend = Text()
    for queue, colour in colours.items():
        legend.append("■ ", colour).append(make_text(f"{queue or 'no queue'} {runs[queue]:,}  "))
    if len(runs) > len(colours):
        rest = sum(number for queue, number in runs.items() if queue not in colours)
        legend.append("■ ", OTHERS).append(f"{len(runs) - len(colours):,} more {rest:,}")
    return legend


def _draw_days(agenda: Forecast, clock: Clock, colours: dict[str, str], console: Console) -> Iterator[Text]:
    """Yield a line for each quarter, and one for each day and for each gap."""
    width = max(8, console.width - NUMBERS)
    mark = "█" if console.encoding.startswith("utf") else "#"
    quarters = {start: list(own) for start, own in groupby(agenda.quarters, attrgetter("start"))}
    most = max(sum(each.runs for each in own) for own in quarters.values())
    day, last = "", agenda.quarters[0].start - QUARTER
    for start, own in quarters.items():
        date, time = clock.format(start).split()
        if date != day:
            day = date
            yield Text(f"\n{date}       runs   busy", "dim")
        elif start > last + QUARTER:
            yield Text(f"      nothing for {format_length(start - last - QUARTER)}", "dim")
        last = start
        yield _draw_quarter(time[:5], own, most, width, colours, mark)


def _draw_quarter(time: str, own: Sequence[Quarter], most: int, width: int, colours: dict[str, str], mark: str) -> Text:
    runs = sum(each.runs for each in own)
    busy = None if any(each.busy is None for each in own) else sum(each.busy or 0.0 for each in own)
    line = Text(f"{time} {runs:>10,} {'' if busy is None else f'{busy:.2f}' if busy < 10 else f'{busy:,.0f}':>6}  ")
    # Round the running sum and not each part, so that the parts add up to the length of the bar.
    reached, drawn = 0, 0
    length = max(1, round(width * runs / most))
    ranks = {queue: rank for rank, queue in enumerate(colours)}
    for each in sorted(own, key=lambda each: ranks.get(each.queue, len(ranks))):
        reached += each.runs
        cells = round(length * reached / runs) - drawn
        line.append(mark * cells, colours.get(each.queue, OTHERS))
        drawn += cells
    return line


def _describe_share(share: Share) -> str:
    if share.jobs == 1:
        return f"{share.samples[0]} ({share.schedule})"
    more = ", …" if share.jobs > len(share.samples) else ""
    return f"{share.jobs:,} jobs with {share.schedule!r}: {', '.join(share.samples)}{more}"


def _advise(agenda: Forecast, clock: Clock) -> str:
    relief, minute = agenda.relief, agenda.densest[0]
    assert relief
    spread = f"--spread={relief.seconds // 60}m"
    how = f"{relief.hashed!r} or {spread}" if relief.hashed else spread
    when = clock.format_minute(minute.start)[11:]
    return (
        f"With {how} for the {relief.share.jobs:,} jobs with {relief.share.schedule!r}, {when} would have "
        f"{relief.runs:,} runs in place of {minute.runs:,}, and no minute more than {relief.most:,}."
    )


def _list_left_out(agenda: Forecast) -> Iterator[str]:
    if agenda.continuous:
        yield f"Not counted: {agenda.continuous:,} with CONTINUE, which run again as soon as they end."
    if agenda.closed:
        yield agenda.explain_closed()
    if agenda.paused:
        yield f"Paused: {agenda.paused:,}. Those that somebody has to resume are not counted."
