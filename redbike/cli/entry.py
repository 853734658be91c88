"""Run the command line: find the command, and call its function in this folder."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from docopt import DocoptExit, docopt

from redbike.cli.messages import BAD, DONE, FAILED, INTERRUPTED, complain, log_to
from redbike.cli.usage import Usage, UsageError
from redbike.cli.usage_text import TEXT
from redbike.config.file import Config, load
from redbike.config.settings import Settings
from redbike.errors import RedbikeError
from redbike.process import streams
from redbike.process.child import NAME, SUPERVISED
from redbike.process.signals import die_as_process_1, reap_children
from redbike.text import __version__

if TYPE_CHECKING:
    from redbike.cli.arguments import Arguments

# The module and the function of each command. Related commands share a module.
COMMANDS = {
    "set": "set.set_job",
    "unset": "set.unset_job",
    "at": "once.run_at",
    "in": "once.run_in",
    "now": "once.run_now",
    "load": "load.load_jobs",
    "edit": "edit.edit_jobs",
    "import": "importing.import_file",
    "dispatch": "processes.dispatch",
    "work": "processes.work",
    "up": "processes.run_all",
    "statuses": "look.print_statuses",
    "schedules": "look.print_schedules",
    "tell": "look.tell_job",
    "next": "next.print_next",
    "failures": "list.print_failures",
    "jobs": "list.print_jobs",
    "show": "show.show_job",
    "output": "output.print_output",
    "why": "look.explain_job",
    "incident": "look.report_incident",
    "health": "watch.tell_health",
    "alert": "keep.try_alert",
    "metrics": "watch.tell_metrics",
    "web": "web.show_page",
    "token": "tokens.control_tokens",
    "runs": "list.print_runs",
    "queues": "list.print_queues",
    "workers": "list.print_workers",
    "shards": "shards.control_shards",
    "agenda": "list.print_agenda",
    "log": "list.print_log",
    "top": "top.show_top",
    "tail": "tail.follow",
    "run": "steer.run_jobs",
    "cancel": "steer.cancel_jobs",
    "backfill": "backfill.backfill_job",
    "pause": "steer.pause",
    "resume": "steer.resume",
    "limit": "steer.limit_queue",
    "check": "check.check_all",
    "fsck": "keep.check_jobs",
    "acknowledge": "keep.acknowledge",
    "control": "keep.send_signal",
    "server": "keep.control_server",
}
WORDS = ("<JOBID>", "<PATTERN>", "--tag", "--reason")  # arguments that are checked before a server is found or started
# These commands read the config themselves, because they handle a bad config differently.
READ_THE_CONFIG = ("check",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status. `argv` are its arguments, by default those of the process."""
    die_as_process_1()
    streams.prepare(by_lines=SUPERVISED in os.environ)
    reap_children()
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        except KeyboardInterrupt:
            streams.discard_output()
            return INTERRUPTED
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe.
        streams.replace_by_null(sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        # Ctrl-C during the last flush.
        streams.discard_output()
        return INTERRUPTED
    except (RedbikeError, OSError) as error:
        complain(streams.take_output_error() or str(error))
        return BAD if isinstance(error, ValueError) else FAILED


def _run(argv: list[str]) -> int:
    usage = Usage(TEXT)
    try:
        words, options = usage.split(argv)
        if "--version" in options:
            print(__version__)
            return DONE
        is_help = "--help" in options
        command = "help" if is_help else usage.find_command(words)
        arguments = {} if is_help else docopt(usage.reduce(command), argv)
        if command == "help":
            from redbike.cli.help import print_help

            return print_help(usage, words[:1] if is_help else words[1:], bool(arguments.get("--all")))
    except (UsageError, DocoptExit):
        from redbike.cli.diagnosis import explain_mistake

        return explain_mistake(usage, argv)
    if command == "completion":
        from redbike.cli.completion import print_completion

        return print_completion(usage, arguments)
    if command in READ_THE_CONFIG:
        return import_command(command)(arguments, Config(Settings(), None)) or DONE
    config = load(arguments["--config"], os.environ, url=arguments["--url"], worker=arguments.get("<WORKER>"))
    log_to(sys.stderr, config.settings.log_level, config.settings.log_format, os.environ.get(NAME, ""))
    if SUPERVISED not in os.environ:
        for warning in config.warnings:
            complain(warning)
    if any(arguments.get(name) for name in WORDS):
        from redbike.cli.arguments import check_words

        check_words(arguments)
    if arguments.get("--format") is not None:
        from redbike.cli.rows import find_format

        find_format(arguments)  # checked before a server is found or started
    return import_command(command)(arguments, config) or DONE


def import_command(name: str) -> "Callable[[Arguments, Config], int | None]":
    """Return the function that runs a command. The function returns the exit status, or None for 0.

    Only the module of this command is imported. Most modules load redis-py, which ``--help`` and ``next`` do not need.
    A module should import what it needs before it loads a worker class: after that, an import searches the current
    folder before the installed packages.
    """
    module, _, function = COMMANDS[name].partition(".")
    return cast("Callable[[Arguments, Config], int | None]", getattr(import_module(f"redbike.cli.{module}"), function))
