"""Which function of this folder runs a command."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from redbike.cli.arguments import Arguments
    from redbike.config.file import Config

# For each command, the module, which it may share with others of its family, and the function.
COMMANDS = {
    "set": "set.set_job",
    "unset": "set.unset_job",
    "at": "once.run_at",
    "in": "once.run_in",
    "now": "once.run_now",
    "load": "load.load_jobs",
    "edit": "edit.edit_jobs",
    "import": "importing.import_file",
    "dispatch": "run.dispatch",
    "work": "run.work",
    "up": "run.run_all",
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


def import_command(name: str) -> "Callable[[Arguments, Config], int | None]":
    """Return the function that runs a command. It returns the exit status, or None for 0.

    Only its module is imported: most load redis-py, which ``--help`` and ``next`` do not need. A module imports all
    that it needs at once: after it has loaded a worker class, an import searches the current folder before the
    installed packages.
    """
    module, _, function = COMMANDS[name].partition(".")
    return cast("Callable[[Arguments, Config], int | None]", getattr(import_module(f"redbike.cli.{module}"), function))
