"""Convert a crontab to the files of a folder. In this folder, ``redbike up`` runs it as Debian's cron did.

Nothing here reads a file or asks the system: the input is the text of the crontab, the result the texts of the files.
In these, a comment that begins with `MARK` names something that a person must decide.
"""

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from redbike.config.file import OF_RUN
from redbike.errors import BadSchedule
from redbike.importers.crontab_lines import Comment, Entry, Line, Refused, Variable, is_plain, is_unicode, read_lines
from redbike.importers.crontab_names import name_entries
from redbike.importers.crontab_system import LocalTime, make_config, make_queue, make_units
from redbike.schedule.parser import parse
from redbike.text.printable import escape

MARK = "DECIDE:"
SCHEDULES, COMMANDS, CONFIG = "schedules.csv", "commands.ini", ".redbike.conf"
# As cron does: if MAILTO is not set, mail the user of the crontab; if it is empty, nobody. SHELL does not matter.
MAIL = (
    'sh -c \'to=${MAILTO-$LOGNAME}; test -z "$to" || mail -s "$REDBIKE_JOBID: $REDBIKE_OUTCOME: $REDBIKE_ERROR" "$to"\''
)
KEPT_OUTPUT = 16384  # bytes of the last run of each command
SHELL, PATH = "/bin/sh", "/usr/bin:/bin"
# Variables that cron itself sets. It ignores their values in the files of the system.
OWN = ("HOME", "LOGNAME", "PATH", "SHELL")
USABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Settings = dict[str, str]  # of a command, as the INI file has them


@dataclass(frozen=True, slots=True)
class Host:
    """The properties of the host on which an import depends."""

    local_time: LocalTime
    variables: Mapping[str, str] = field(default_factory=dict)  # that cron sets for each command (pam_env)
    folder: str = "."  # where the files will be
    program: str = "redbike"  # the path of the program redbike
    name: str = ""  # "" if the host belongs to a pool, or no other host uses the same server


@dataclass(frozen=True, slots=True)
class Job:
    """The job that is made of a line that runs a command."""

    name: str
    jobid: str
    entry: Entry
    settings: Settings


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: the texts of the files, by file name, and what to report."""

    files: dict[str, str]
    jobs: tuple[Job, ...]
    refused: tuple[Refused, ...]
    users: dict[str, tuple[Job, ...]]  # the jobs of each user, if the lines have a column for the user
    decisions: int  # the number of comments that begin with `MARK`


def convert(text: str, host: Host, queue: str = "cron", has_users: bool = False) -> Imported:
    """Return the files for the text of a crontab. `has_users` tells whether its lines have a column for the user.

    Without this column, all jobs are in the queue `queue`. With it, each user has a queue, such as ``cron-root``.
    """
    lines = [_check(line) for line in read_lines(text, has_users)]
    entries = [line for line in lines if isinstance(line, Entry)]
    names = name_entries(entries)
    jobs = {entry.number: _make_job(names[entry.number], entry, queue, host) for entry in entries}
    users: dict[str, tuple[Job, ...]] = {}
    for job in jobs.values() if has_users else ():
        users[job.entry.user] = (*users.get(job.entry.user, ()), job)
    files = {
        SCHEDULES: _write_schedules(jobs.values()),
        COMMANDS: _write_commands(lines, jobs, not text or text.endswith("\n")),
        CONFIG: make_config(queue, list(users), host.local_time, MARK, escape(os.fsencode(host.name))),
        **make_units(queue, list(users), host.folder, host.program),
    }
    refused = tuple(line for line in lines if isinstance(line, Refused))
    decisions = sum(each.count(f"# {MARK} ") for each in files.values())
    return Imported(files, tuple(jobs.values()), refused, users, decisions)


def _check(line: Line) -> Line:
    """Return `line`, or a `Refused` if its schedule is invalid here: it never runs, such as ``0 0 31 2 *``."""
    if isinstance(line, Entry):
        try:
            parse(line.schedule)
        except BadSchedule as error:
            return Refused(line.number, f"{line.schedule} {line.command}", str(error))
    return line


def _make_job(name: str, entry: Entry, queue: str, host: Host) -> Job:
    own = make_queue(queue, entry.user)
    inherited = {key: value for key, value in host.variables.items() if key not in OWN}
    shell = entry.variables.get("SHELL", SHELL)
    settings = _write_setting("shell", shell if "/" in shell else SHELL)
    settings |= {"env": "cron", "output": str(KEPT_OUTPUT)}
    for key, value in {"PATH": PATH, **inherited, **entry.variables}.items():
        if key not in ("SHELL", "LOGNAME") and not _find_fault(key, value):
            settings |= _write_setting(f"env.{key}", value)
    if entry.input:
        settings |= {"json.input": json.dumps(entry.input, ensure_ascii=False)}
    return Job(name, f"{name}:{own}", entry, settings)


def _write_setting(key: str, value: str) -> Settings:
    """Return one setting. Its value is a JSON string if an INI file would change the plain text."""
    return {key: value} if is_plain(value) else {f"json.{key}": json.dumps(value, ensure_ascii=False)}


def _find_fault(name: str, value: str) -> str | None:
    """Return why a variable cannot be set; None if it can."""
    if not USABLE.fullmatch(name) or name in OF_RUN:
        return "no command can have a variable of this name here"
    if "\0" in value or not is_unicode(value):
        return "its value is not UTF-8"
    return None


def _write_schedules(jobs: Iterable[Job]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows((job.jobid, job.entry.schedule) for job in jobs)
    return file.getvalue()


# The file of the commands


def _write_commands(lines: Sequence[Line], jobs: Mapping[int, Job], is_ended: bool) -> str:
    text = ["# The commands of a crontab. The part of a job id before its first ':' names the command.", ""]
    if not is_ended:
        text += [f"# {MARK} cron ignored this crontab, because its last line had no end. Here it runs.", ""]
    text += ["[commands]", *_tidy(_list_commands(lines, jobs))]
    mails = any(isinstance(line, Variable) and line.name == "MAILTO" and line.value for line in lines)
    text += _list_sections(list(jobs.values()), mails)
    return "".join(f"{line}\n" for line in text)


def _tidy(lines: Iterator[str]) -> Iterator[str]:
    """Yield `lines` without empty ones at the beginning and the end, and without two in a row."""
    last = ""
    for line in lines:
        if line or last:
            yield line
        last = line
    if last:
        yield ""


def _list_commands(lines: Sequence[Line], jobs: Mapping[int, Job]) -> Iterator[str]:
    for line in lines:
        match line:
            case Comment():
                yield _write_comment(line.text)
            case Entry():
                if line.time != line.schedule:
                    yield f"# {MARK} cron reads the time {line.time!r} as {line.schedule!r}, and so does this job"
                yield f"{jobs[line.number].name}: {line.command}"
            case Refused():
                yield f"# {MARK} line {line.number} is not imported: {_write_comment(line.reason)}"
                yield _write_comment(f"# {line.text}")
            case Variable():
                if line.name == "LOGNAME":
                    yield f"# LOGNAME={_write_comment(line.value)} changed nothing: cron sets it, and so does Redbike."
                elif said := _describe_variable(line):
                    yield f"# {MARK} {said}"


def _write_comment(text: str) -> str:
    """Return `text` as part of one line that is UTF-8."""
    clean = text.encode(errors="surrogateescape").decode(errors="backslashreplace").replace("\0", "\\0")
    return " ".join(clean.splitlines())


def _describe_variable(line: Variable) -> str:
    """Return what a person must know about a variable; "" if there is nothing to know."""
    shown = _write_comment(repr(line.value))
    match line.name:
        case "MAILTO" if line.value:
            return f"cron mailed the output of the commands below to {shown}; see on-failure at the end of this file"
        case "CRON_TZ":
            return f"Debian's cron ignores CRON_TZ={shown}. To apply it, write it before schedules: CRON_TZ=… * * * * *"
        case "SHELL" if "/" not in line.value:
            return f"cron found no shell {shown}: it needs a path. Here {SHELL} runs the commands below"
    fault = _find_fault(line.name, line.value)
    return f"line {line.number}, the variable {_write_comment(repr(line.name))}: {fault}" if fault else ""


def _list_sections(jobs: Sequence[Job], mails: bool) -> Iterator[str]:
    """Yield the section of the common settings, and a section for each command with other settings."""
    if not jobs:
        return
    common = _find_common([job.settings for job in jobs])
    yield "[*]"
    yield "# For all commands: as cron runs them, by a shell, with its small environment, in the home folder."
    yield from (f"{key} = {value}" for key, value in common.items())
    if mails:
        yield "# If a run fails, this command mails its output to whom cron did:"
        yield f"# on-failure = {MAIL}"
    for job in jobs:
        own = [f"{key} = {value}" for key, value in job.settings.items() if (key, value) not in common.items()]
        if own:
            yield from ("", f"[{job.name}]", *own)


def _find_common(all_settings: Sequence[Settings]) -> Settings:
    """Return the keys that all commands have, each with its most common value."""
    keys = [key for key in all_settings[0] if all(key in settings for settings in all_settings)]
    return {key: Counter(settings[key] for settings in all_settings).most_common(1)[0][0] for key in keys}
