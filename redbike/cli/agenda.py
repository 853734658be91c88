"""Run the command agenda: what will run when, and where too much comes together."""

from types import SimpleNamespace

from redbike.cli.arguments import Arguments, parse_count, parse_time
from redbike.cli.bike import open_to_look
from redbike.cli.messages import open_progress
from redbike.cli.rows import print_rows
from redbike.config.file import Config
from redbike.queries.forecast import MOST_HOURS, Quarter
from redbike.schedule.clock import Clock

FIELDS = ("from", "queue", "runs")
HOURS = 24  # that are looked at, if nothing else is asked for


def print_agenda(arguments: Arguments, config: Config) -> None:
    """Print what runs in each quarter of an hour, by queue; on a terminal as bars, with the densest minutes."""
    hours = parse_count(arguments, "--hours", HOURS, most=MOST_HOURS)
    after = parse_time(arguments["--after"], config)
    bike = open_to_look(config, names_queues=True)
    with open_progress() as report:
        agenda = bike.agenda(*arguments["<PATTERN>"], hours=hours, after=after, report=report)

    def show(_: object) -> None:
        from redbike.cli.chart import show_agenda

        show_agenda(agenda, Clock(agenda.start, bike.settings.timezone))

    print_rows(arguments, map(_make_row, agenda), FIELDS, show)


def _make_row(quarter: Quarter) -> SimpleNamespace:
    return SimpleNamespace(**{"from": quarter.start, "queue": quarter.queue, "runs": quarter.runs})
