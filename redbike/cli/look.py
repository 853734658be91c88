"""Run the commands that only read, and print no tables: statuses, schedules, tell, why, incident."""

from redbike.cli.arguments import Arguments, parse_time, prepare_time, tell_time
from redbike.cli.bike import open_to_look
from redbike.cli.messages import DONE, FAILED
from redbike.cli.missing import names_missing
from redbike.cli.rows import make_writer, print_json
from redbike.config.file import Config
from redbike.config.options import ALL_COLUMNS
from redbike.queries.incident import format_report, gather
from redbike.text.printable import escape

READ_TIMEOUT = 10.0  # seconds for which incident reads the runs of all jobs


def print_statuses(arguments: Arguments, config: Config) -> None:
    """Print the last event of every job, as CSV."""
    rows = make_writer()
    prepare_time(arguments["--before"], config)
    bike = open_to_look(config)
    before = parse_time(arguments["--before"], config, looks_back=True, read_clock=bike.store.timeline.read_clock)
    rows.writerows(bike.get_statuses(before, arguments["--tag"]))


def print_schedules(arguments: Arguments, config: Config) -> None:
    """Print the schedules of jobs, as CSV that ``load`` reads. With ``--full``, print all columns under a header."""
    rows = make_writer()
    bike = open_to_look(config)
    if arguments["--full"]:
        rows.writerow(ALL_COLUMNS)
        rows.writerows(bike.get_rows(*arguments["<PATTERN>"], tag=arguments["--tag"]))
    else:
        rows.writerows(bike.get_schedules(*arguments["<PATTERN>"], tag=arguments["--tag"]))


def tell_job(arguments: Arguments, config: Config) -> int:
    """Print everything about one job, as JSON. Return 1 if there is no such job, else 0."""
    job = open_to_look(config).tell(arguments["<JOBID>"])
    print_json(job, indent=2)
    exists = job["status"] or job["schedule"] or job["working"]
    return DONE if exists else FAILED


def explain_job(arguments: Arguments, config: Config) -> None:
    """Print why a job does not run now; with ``--at``, why it did not run at that instant."""
    prepare_time(arguments["--at"], config)
    bike = open_to_look(config, names_queues=True)
    at = parse_time(arguments["--at"], config, looks_back=True, read_clock=bike.store.timeline.read_clock)
    print(escape(bike.why(arguments["<JOBID>"], at).encode(errors="replace")))


@names_missing
def report_incident(arguments: Arguments, config: Config) -> None:
    """Print what is known of a span of time, and the first unusual thing in it."""
    # Imported here, because this loads dateutil, and no other command of this module needs it.
    from redbike.queries.window import NOW, parse_window

    store, zone = open_to_look(config).store, config.settings.timezone
    now = store.timeline.read_clock()
    window = parse_window(arguments["<WINDOW>"] or NOW, now, zone)
    if arguments["<WINDOW>"] and not window.is_exact:
        tell_time(arguments["<WINDOW>"], window.at, zone)
    incident = gather(store, window.since, window.until, now, READ_TIMEOUT, zone)
    print(format_report(incident, zone, config.settings.prefix), end="")
