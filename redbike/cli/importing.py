"""Run the command import. For a crontab, write all files that run it, or none of them."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from redbike.cli.arguments import Arguments
from redbike.cli.calendars import explain_out, import_ics, open_input
from redbike.cli.messages import BAD, DONE, complain
from redbike.config.file import Config
from redbike.errors import BadConfig, RedbikeError
from redbike.importers.crontab import COMMANDS, MARK, PATH, SCHEDULES, Host, Imported, convert
from redbike.importers.crontab_lines import Entry
from redbike.importers.crontab_names import GUARDS
from redbike.importers.crontab_system import find_local_time, read_variables
from redbike.text.printable import escape, name_host

MAX_SIZE = 32 << 20  # bytes
OTHERS = re.compile(r"[^A-Za-z0-9_.-]")  # characters of a host name that are replaced in the name of its queue
QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)


def import_file(arguments: Arguments, config: Config) -> int:
    """Import a crontab or a calendar, as the command line says. Return the exit status."""
    return (import_crontab if arguments["crontab"] else import_ics)(arguments, config)


def write_files(folder: str, files: Mapping[str, str], may_replace: bool, is_private: bool) -> None:
    """Write the texts of `files` under their names into `folder`, which is created if needed.

    If `is_private`, only this user may read the files. If one exists already, raise `BadConfig` before anything is
    written, unless `may_replace`.
    """
    there = [path for name in files if os.path.lexists(path := os.path.join(folder, name))]
    if there and not may_replace:
        raise BadConfig(f"{there[0]!r} exists already: give another --out, or --force to replace it")
    try:
        os.makedirs(folder, exist_ok=True)
        # Write all files into another folder first. So a full disk is noticed before any file is replaced.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".redbike-import-") as aside:
            for name, text in files.items():
                with open(os.path.join(aside, name), "w", encoding="utf-8", newline="") as file:
                    if is_private:
                        os.fchmod(file.fileno(), 0o600)
                    file.write(text)
            for name in files:
                os.replace(os.path.join(aside, name), os.path.join(folder, name))
    except OSError as error:
        raise explain_out(folder, error) from None


def import_crontab(arguments: Arguments, config: Config) -> int:
    """Write the files for a crontab, and print refused lines and open decisions. Return the exit status."""
    queue, folder, own = arguments["--queue"], arguments["--out"], config.settings.host or name_host()
    # The default queue is that of this host: a worker of another host may lack its commands.
    queue = "cron-" + OTHERS.sub("_", own) if queue is None else queue
    folder = os.curdir if folder is None else folder
    if not folder:
        raise BadConfig(f"bad --out {folder!r}: the name of a folder is needed")
    if not QUEUE.fullmatch(queue):
        raise BadConfig(f"bad --queue {queue!r}: letters, digits, '_', '-' and '.' are allowed")
    name, text = _read(arguments["<FILE>"], arguments["--system"])
    # A queue from the command line may belong to a pool of hosts.
    name_of_host = own if arguments["--queue"] is None else ""
    program = shutil.which(os.path.abspath(sys.argv[0])) or shutil.which("redbike") or "redbike"
    host = Host(find_local_time(), read_variables(), os.path.abspath(folder), program, name_of_host)
    if arguments["--system"]:
        _check_unit(host)
    imported = convert(text, host, queue, arguments["--system"])
    _refuse_other_kind(name, imported, arguments["--system"])
    # A crontab may contain passwords, and only its user can read it. Everybody can read those of the system.
    write_files(folder, imported.files, arguments["--force"], is_private=not arguments["--system"])
    if not arguments["--system"] and _looks_like_system([job.entry for job in imported.jobs]):
        complain(f"{name}: its commands begin with names of users: for a crontab of the system, use --system")
    return _report(name, folder, imported)


def _refuse_other_kind(name: str, imported: Imported, has_users: bool) -> None:
    """Raise `BadConfig` for a file without a line to import, or of the other kind: with or without users."""
    wrong, entries = [line for line in imported.refused if line.is_wrong], [job.entry for job in imported.jobs]
    nobody = [line for line in wrong if not line.names_user]
    if nobody and not any(map(_is_user, imported.users)):
        line = _describe(nobody[0].number, "no user is named", nobody[0].text)
        raise BadConfig(f"{name} {line}; leave out --system for a crontab without a column for users")
    if not entries:
        first = [*wrong, *imported.refused][:1]
        why = "".join(f"; {_describe(line.number, line.reason, line.text)}" for line in first)
        raise BadConfig(f"{name}: there is no line to import{why}")
    if not has_users and all(map(_runs_user, entries)):
        line = _describe(entries[0].number, "the command is a user", f"{entries[0].time} {entries[0].command}")
        raise BadConfig(f"{name} {line}; use --system for a crontab with a column for users")


def _runs_user(entry: Entry) -> bool:
    """Tell whether a command seems to begin with a user and a program. A user with the name of a program is none."""
    path = f"{entry.variables.get('PATH', PATH)}:{os.environ.get('PATH', '')}"
    first, second, *_ = [*entry.command.split(), ""]
    if first == "root":
        return True
    is_program = second in GUARDS or bool(shutil.which(second, path=path))
    return is_program and _is_user(first) and shutil.which(first, path=path) is None


def _is_user(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def _looks_like_system(entries: Sequence[Entry]) -> bool:
    """Tell whether most commands begin with the name of a user of this system, followed by a program."""
    names = {user.pw_name for user in pwd.getpwall()}
    pairs = [words for entry in entries if len(words := entry.command.split()) > 1]
    # Some users have the name of a program, such as "backup".
    programs = [word for user, word, *_ in pairs if user in names]
    return 2 * sum(word in GUARDS or word[0] == "/" or bool(shutil.which(word)) for word in programs) > len(entries)


def _read(filename: str | None, has_users: bool) -> tuple[str, str]:
    """Return the name of the crontab for messages, and its text. Raise `BadConfig` or `RedbikeError`."""
    if filename is None:
        if has_users:
            raise BadConfig("--system needs a FILE, such as /etc/crontab")
        return "your crontab", _decode("your crontab", _list_crontab())
    with open_input(filename) as (file, name):
        data = file.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        shown = name if filename == "-" else repr(name)
        raise BadConfig(f"cannot read {shown}: it has more than {MAX_SIZE >> 20} MiB")
    return name, _decode(name, data)


def _decode(name: str, data: bytes) -> str:
    place = data.find(b"\0")
    if place >= 0:
        raise BadConfig(f"{name} line {data.count(10, 0, place) + 1}: a crontab is a text, but there is a NUL in it")
    return data.decode("utf-8", "surrogateescape")


def _list_crontab() -> bytes:
    """Return the crontab of this user."""
    try:
        done = subprocess.run(["crontab", "-l"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise RedbikeError(f"cannot run 'crontab -l': {error.strerror}; name a FILE, or - for standard input") from None
    if done.returncode:
        said = done.stderr.decode(errors="backslashreplace").strip() or f"exit status {done.returncode}"
        raise RedbikeError(f"'crontab -l' failed: {said}")
    return done.stdout


def _check_unit(host: Host) -> None:
    """Raise `BadConfig` for a path that a systemd unit cannot contain, such as one with a line end or a quote."""
    if not host.folder.isprintable() or host.folder.endswith(("\\", " ")):
        raise BadConfig(f"bad --out: a systemd unit cannot run in the folder {host.folder!r}: give another one")
    if not host.program.isprintable() or set(host.program) & set("\"'\\"):
        raise BadConfig(f"a systemd unit cannot start the program {host.program!r}: install it in another folder")


def _report(name: str, folder: str, imported: Imported) -> int:
    wrong = 0
    for line in imported.refused:
        wrong += line.is_wrong
        complain(f"{name} {_describe(line.number, f'not imported: {line.reason}', line.text)}")
    for user, jobs in imported.users.items():
        complain(f"user {user}: {', '.join(job.jobid for job in jobs)}")
    for unit in (each for each in imported.files if each.endswith(".service")):
        complain(f"{os.path.join(folder, unit)}: a unit for systemd; it runs as {_find_user(imported.files[unit])}")
    number, marks = len(imported.jobs), imported.decisions
    complain(f"{name}: {number} job{'s' * (number != 1)} in {os.path.join(folder, SCHEDULES)}")
    if marks:
        what = "one thing is" if marks == 1 else f"{marks} things are"
        complain(f"{what} yours to decide: look for {MARK} in {os.path.join(folder, COMMANDS)} and the files beside it")
    return BAD if wrong else DONE


def _describe(number: int, what: str, text: str) -> str:
    return f"line {number}: {what}: '{escape(text[:200].encode(errors='surrogateescape'))}'"


def _find_user(unit: str) -> str:
    user = next((line.removeprefix("User=") for line in unit.splitlines() if line.startswith("User=")), "")
    return user.replace("%%", "%")
