"""Read what cron takes from the system, and write what runs the imported jobs there.

1. Cron takes the local time from the system, and the variables for each command (cron(8), pam_env(8)).
2. A config file and systemd units run the jobs. Each user of a crontab of the system has a unit.
"""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from redbike.importers.crontab_names import make_hash
from redbike.text.parsing import load_zone

ENVIRONMENT_FILES = ("/etc/environment", "/etc/default/locale")  # the later one wins
ZONES = "/zoneinfo/"
COMPARED = 5 * 366  # days for which two zones must agree
VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.ASCII)
WORKER = "redbike.commands:Commands({queues!r}, 'commands.ini')"
WORKER_OF_USER = "redbike.commands:Commands({queues!r}, 'commands.ini', shell_jobs=False)"
# Everyone who can write to the server can set one-offs. The first free worker runs a one-off, even the worker of root.
NO_SHELL_JOBS = """\
# shell_jobs=False: it takes no one-offs (redbike at, in, now). They would run as its user, whoever
# has set them. A worker "redbike.commands:Commands('')" takes them, and runs all as its own user.
"""
PLAIN = re.compile(r"[A-Za-z0-9_/.:%@+-]+", re.ASCII)  # words that need no quotes in a unit
OTHERS = re.compile(rb"[^A-Za-z0-9_.-]")  # bytes that the file name of a unit cannot contain


class LocalTime(NamedTuple):
    """The IANA name of the local time zone, None if it is unknown. `doubt` says why it may be wrong."""

    timezone: str | None
    doubt: str = ""


def find_local_time(root: str = "/") -> LocalTime:
    """Return the local time of the system. `root` is for tests.

    Cron reads only ``/etc/localtime``. If this file is not a link to a zone, the name comes from ``/etc/timezone``.
    """
    local = Path(root, "etc/localtime")
    linked = os.path.realpath(local).partition(ZONES)[2]
    if load_zone(linked):
        return LocalTime(linked)
    try:
        name = Path(root, "etc/timezone").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        name = ""
    zone = load_zone(name)
    if zone is None:
        return LocalTime(None)
    is_same = _read_offsets(_read_zone(local)) == _read_offsets(zone)
    return LocalTime(name, "" if is_same else f"/etc/timezone says {name}, but /etc/localtime has other rules")


def _read_zone(path: Path) -> tzinfo:
    """Return the zone in a file; UTC if it cannot be read, as the C library does."""
    try:
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file)
    except Exception:
        # For a file that is not a zone, the package zoneinfo raises several kinds of exceptions.
        return UTC


def _read_offsets(zone: tzinfo) -> list[timedelta | None]:
    """Return the offset on each day for some years. Two files may have the same rules, but different bytes."""
    begin = datetime.now(UTC)
    return [(begin + timedelta(day)).astimezone(zone).utcoffset() for day in range(COMPARED)]


def read_variables(root: str = "/") -> dict[str, str]:
    """Return the variables that `ENVIRONMENT_FILES` set, without files that cannot be read. `root` is for tests."""
    variables: dict[str, str] = {}
    for name in ENVIRONMENT_FILES:
        try:
            text = Path(root, name.lstrip("/")).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        variables.update(found for line in text.splitlines() if (found := _read_variable(line)))
    return variables


def _read_variable(line: str) -> tuple[str, str] | None:
    """Return the name and the value that a line sets, as pam_env reads it; None if it sets no variable.

    A comment begins at any ``#``. Blanks at the end belong to the value, but quotes around it do not.
    """
    found = VARIABLE.fullmatch(line.lstrip().partition("#")[0])
    if found is None:
        return None
    name, value = found.groups()
    if value[:1] in ("'", '"'):
        # A quote is removed even if it is not closed.
        value = value[1:].removesuffix(value[0])
    return name, value


# The config file, and the units


def make_config(queue: str, users: Sequence[str], local_time: LocalTime, mark: str, group: str = "") -> str:
    """Return the text of the config file. Comments that ask for a decision begin with `mark`."""
    return "".join(f"{line}\n" for line in _list_settings(queue, users, local_time, mark, group))


def _list_settings(queue: str, users: Sequence[str], local_time: LocalTime, mark: str, group: str) -> Iterator[str]:
    yield "[redbike]"
    if not users:
        yield f"worker: {WORKER.format(queues=queue)}"
    elif len(users) == 1:
        yield from NO_SHELL_JOBS.splitlines()
        yield f"worker: {WORKER_OF_USER.format(queues=make_queue(queue, *users))}"
    else:
        yield "# Each user has a worker of his own: see the units beside this file."
    if group:
        yield "# The group of a file begins with this: another host may have a file of the same path."
        yield f"group: {group}"
    if local_time.doubt:
        yield f"# {mark} {local_time.doubt}. Cron ran its lines in the time of /etc/localtime."
    elif local_time.timezone is None:
        yield f"# {mark} the local time of this machine is not known. Cron ran its lines in local time."
    else:
        yield "# Cron ran its lines in the local time of this machine."
    yield f"timezone: {local_time.timezone or 'UTC'}"
    yield "# Cron does not run later what it has missed, while the machine was down."
    yield "catchup: none"
    yield "# To cron, a command that fails is no reason to stop."
    yield "on-error: reschedule"
    yield "on-timeout: reschedule"
    yield "# Cron runs nothing again that was lost with its machine."
    yield "on-lost: reschedule"
    yield "# Cron starts a command also while its last run goes on. A job of Redbike never overlaps itself:"
    yield "# such an occurrence is skipped and counted. With queue, it runs once when the last run has ended."
    yield "overlap: skip"
    if len(users) > 1:
        yield ""
        yield "[redbike-redis]"
        yield f"# {mark} name a server that the workers of all users reach; a user's embedded server is his alone."
        yield "# url: unix:///run/redis/redis-server.sock"


def make_queue(queue: str, user: str = "") -> str:
    """Return the name of the queue for the jobs of `user`. `user` is "" if the lines have no column for users."""
    return f"{queue}-{user}" if user else queue


def make_units(queue: str, users: Sequence[str], folder: str, program: str) -> dict[str, str]:
    """Return the texts of the units, by file name: ``up`` for one user, else a worker for each, and a dispatcher."""
    if not users:
        return {}
    # Two crontabs of one host may have the same queue and users, but each is imported into its own folder.
    name = f"redbike-{queue}-{make_hash(folder)}"
    if len(users) == 1:
        return {_name_unit(name, users[0]): _make_unit(f"of {users[0]}", users[0], folder, (program, "up"))}
    units = {}
    for user in users:
        command = (program, "work", WORKER_OF_USER.format(queues=make_queue(queue, user)))
        units[_name_unit(name, user)] = _make_unit(f"of {user}", user, folder, command, NO_SHELL_JOBS)
    units[f"{name}.service"] = _make_unit("of all users: the dispatcher", users[0], folder, (program, "dispatch"))
    return units


def _name_unit(name: str, user: str) -> str:
    suffix = OTHERS.sub(lambda found: rb"\x%02x" % found[0][0], user.encode()).decode()
    return f"{name}-{suffix}.service"


def _make_unit(whose: str, user: str, folder: str, command: Sequence[str], comment: str = "") -> str:
    return f"""\
# Copy this file to /etc/systemd/system, and start it with: systemctl enable --now NAME
[Unit]
Description=Redbike: jobs {_escape(whose)}
After=network.target

[Service]
User={_escape(user)}
WorkingDirectory={_escape(folder)}
{comment}ExecStart={_write_command(*command)}
Restart=on-failure
KillMode=mixed
TimeoutStopSec=2h

[Install]
WantedBy=multi-user.target
"""


def _escape(text: str) -> str:
    """Return `text` as the value of a setting: a percent sign begins a specifier (systemd.unit(5))."""
    return text.replace("%", "%%")


def _write_command(program: str, *arguments: str) -> str:
    """Return a command line. Only in arguments does a dollar sign begin a variable (systemd.service(5))."""
    return " ".join(map(_quote, (program, *(word.replace("$", "$$") for word in arguments))))


def _quote(word: str) -> str:
    """Return a word of a command line, in quotes if it needs them (systemd.syntax(7))."""
    word = _escape(word)
    if PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
