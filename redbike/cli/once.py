"""Run the commands at, in and now, which set a one-off from a shell, as at(1) does."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from redbike.cli.arguments import Arguments, parse_time, prepare_time
from redbike.cli.bike import find_embedded_server, note_pauses, open_bike
from redbike.cli.messages import complain
from redbike.commands.once import SHELL, make_record
from redbike.config.file import Config
from redbike.config.options import MAX_DATA, format_data
from redbike.control.operator import name_operator
from redbike.control.setter import Setter
from redbike.errors import BadConfig, RedbikeError
from redbike.schedule.clock import Clock
from redbike.schedule.moments import parse_duration
from redbike.store import shell

SPEC = "redbike.commands:Commands('')"  # a worker that needs no file


def run_at(arguments: Arguments, config: Config) -> None:
    """Set a one-off that runs a command, or the script on standard input, at a time."""
    _check_dashes(arguments)
    text = arguments["<TIME>"]

    def check(instant: float | None, now: float) -> float:
        assert instant is not None
        if instant < int(now):
            raise BadConfig(f"bad time {text!r:.80}: {Clock(instant, config.settings.timezone).name(instant)} is past")
        return instant

    def find_instant(now: float) -> float:
        return check(parse_time(text, config, read_clock=lambda: now), now)

    planned = prepare_time(text, config)
    if find_embedded_server(config):  # whose clock is that of this host
        check(planned, time.time())
    _set(arguments, config, find_instant)


def run_in(arguments: Arguments, config: Config) -> None:
    """Set a one-off that runs a command, or the script on standard input, after a duration."""
    _check_dashes(arguments)
    seconds = parse_duration(arguments["<DURATION>"])
    _set(arguments, config, lambda now: now + seconds)


def run_now(arguments: Arguments, config: Config) -> None:
    """Set a one-off that runs a command, or the script on standard input, as soon as a worker is free."""
    _check_dashes(arguments)
    _set(arguments, config)


def _set(arguments: Arguments, config: Config, find_instant: Callable[[float], float] | None = None) -> None:
    """Set a job, and print its id and its instant. Without `find_instant`, the job runs at once.

    `find_instant` gets the server's clock, and returns when the job runs; both are epoch seconds.
    """
    umask = os.umask(0)
    os.umask(umask)
    record = make_record(_read_words(arguments), os.getcwd(), os.environ, umask)
    format_data(record)  # refuses a record that is too long, before a server is opened
    bike = open_bike(config, sets_jobs=True)
    now = bike.store.timeline.read_clock()
    instant = find_instant(now) if find_instant else now
    jobid = shell.make_jobid(instant)
    schedule = f"AT:{instant:.6f}".rstrip("0").rstrip(".") if find_instant else "NOW"
    Setter(bike.store.noted_as(name_operator()), bike.settings).enter_from_shell(jobid, schedule, record)
    print(f"{jobid} {Clock(instant, bike.settings.timezone).name(instant)}")
    note_pauses(bike, [jobid], instant)
    # Errors are ignored, as this is only advice. Only a missing worker is printed; bike.workers() cannot tell more.
    with suppress(RedbikeError):
        if not any(each.kind == "worker" and each.state != "lost" for each in bike.workers()):
            complain(f'no worker runs, so the job waits: start one, such as redbike up "{SPEC}"')


def _check_dashes(arguments: Arguments) -> None:
    """Raise `BadConfig` if no -- is before the command. Without it, a command may be the second word of a time."""
    program = arguments["<PROGRAM>"]
    if program and not arguments["--"]:
        more = "" if arguments.get("now") else ", and quotes around a time of several words"
        raise BadConfig(f"bad command {program!r:.80}: put -- before it{more}")


def _read_words(arguments: Arguments) -> list[str]:
    """Return the words after --, or words that run the script on standard input in a shell. Raise `BadConfig`."""
    if program := arguments["<PROGRAM>"]:
        return [program, *arguments["<ARG>"]]
    if arguments["--"] or sys.stdin is None or sys.stdin.isatty():
        raise BadConfig("no command: give one after --, or a script on standard input")
    script = sys.stdin.buffer.read(MAX_DATA + 1)
    if len(script) > MAX_DATA:
        raise BadConfig(f"bad script {script[:40]!r}…: with its environment, {MAX_DATA} bytes are allowed")
    if not script.strip():
        raise BadConfig("no command: standard input has no script, so give a command after --")
    # As a word, so that a command in the script cannot read the rest of the script from standard input.
    return [SHELL, "-c", script.decode(errors="surrogateescape")]
