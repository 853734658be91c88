"""Run crontabs beside a real cron of Debian: the same commands at the same minutes, environment and input.

``python -m tests.beside_cron [DATE] [DAYS]`` needs root, and the packages ``cron`` and ``faketime``. It takes half an
hour for two weeks, those around the change of clocks in spring unless DATE names others.

Cron runs in a mount namespace of its own, in which a recorder takes the place of the shells, so no command is run.
libfaketime reads its time from a file. For each minute, that file is set to the next one, a signal wakes cron up, and
all that cron starts until it sleeps again belongs to that minute. So no minute is skipped, however slow the machine is.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from redbike.commands.worker import Commands
from redbike.importers.crontab import COMMANDS, Host, Job, convert
from redbike.importers.crontab_lines import Refused, read_lines
from redbike.importers.crontab_system import LocalTime, read_variables
from redbike.schedule.parser import parse
from redbike.store.run import Run
from redbike.worker.current import _current

ZONE = "Europe/Berlin"
CRONTABS = Path(__file__).parent / "cases" / "crontabs"
MINE, SYSTEM, DROPPED = "sixty", "crontab", ("certbot", "e2scrub_all", "mdadm", "sysstat")
TICK = "/usr/local/bin/check-queue --max 100 >/dev/null 2>&1"  # the command of `MINE` that runs each minute
RECORDER = """#!{folder}/dash
exec > {folder}/out/$$
printf '%s\\0' "$0" "$2"
pwd -P
/usr/bin/env -0
printf 'END\\0'
exec /bin/cat
"""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 60.0  # seconds for a minute of cron
QUIET = 2.0  # seconds without a new command, after a change of clocks

# What cron and the importer must agree about, besides the crontabs.
LINES = """\
MAILTO=|MAILTO=""|A=b|A = 'b' |A='b' c|A="b|'A'=b|'A=b|=b|A|export A=b|5=6|A B=c|A =b|A= b
* * * * * x|@daily x|@Daily x|@reboot x|@every x|@midnight x|@annually x|@weekly|@ x|* * * * x|* * * *|* * * * *
60 * * * * x|59 * * * * x|* 24 * * * x|* * 0 * * x|* * 32 * * x|* * * 0 * x|* * * 13 * x|* * * * 8 x|* * * * 7 x
1/5 * * * * x|*/5 * * * * x|*/0 * * * * x|*/ * * * * x|*/x * * * * x|1-5/2 * * * * x|1-5/ * * * * x|*/100 * * * * x
1- * * * * x|-1 * * * * x|1,2, * * * * x|,1 * * * * x|1,,2 * * * * x|1-5-7 * * * * x|5#2 * * * * x|*-5 * * * * x
22-2 * * * * x|50-70 * * * * x|5x * * * * x|5; * * * * x|? * * * * x|H * * * * x|* * L * * x|* * 15W * * x
* * * jan x|* * * jan * x|* * * JAN-mar * x|* * * january * x|* * * * mon-fri x|* * * * fri-mon x|* * * * mon,wed x
- * * * * x|-* * * * * x|* * * * * * x|* * * * * *x|* * * * * -x|* * * * * #x|  * * * * * x|+5 * * * * x|05 009 * * * x
"""


class Record(NamedTuple):
    """What a shell was given."""

    shell: str
    command: str
    folder: str
    env: frozenset[tuple[str, str]]
    input: str


class World:
    """The folder of the recorder, and the files that take the place of those of the system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.clock = folder / "clock"

    def prepare(self) -> None:
        """Put the crontabs where cron reads them, and the recorder in the place of the shells."""
        self.out.mkdir()
        shutil.copy(os.path.realpath("/bin/sh"), self.folder / "dash")
        recorder = self.folder / "record"
        recorder.write_text(RECORDER.format(folder=self.folder))
        recorder.chmod(0o755)
        for name in ("/var/spool/cron", "/etc/cron.d", "/run"):
            mount("-t", "tmpfs", "tmpfs", name)
        crontabs = Path("/var/spool/cron/crontabs")
        crontabs.mkdir()
        self.install(CRONTABS / MINE, crontabs / "root", 0o600)
        for name in DROPPED:
            self.install(CRONTABS / name, Path("/etc/cron.d") / name, 0o644)
        self.install(CRONTABS / SYSTEM, self.folder / SYSTEM, 0o644)
        mount("--bind", str(self.folder / SYSTEM), "/etc/crontab")
        # In a container, nobody may set the id of a login. No command sees it.
        pam = Path("/etc/pam.d/cron").read_text().splitlines(keepends=True)
        (self.folder / "pam").write_text("".join(line for line in pam if "pam_loginuid" not in line))
        mount("--bind", str(self.folder / "pam"), "/etc/pam.d/cron")
        for program in ("/usr/sbin/sendmail", "/bin/bash", "/bin/sh"):
            if os.path.exists(program):
                mount("--bind", str(recorder), os.path.realpath(program))

    @staticmethod
    def install(source: Path, target: Path, mode: int) -> None:
        """Copy a crontab, as cron wants it to be."""
        target.write_bytes(source.read_bytes())
        target.chmod(mode)

    def take(self) -> Iterator[Record]:
        """Yield what was recorded since the last time."""
        for path in sorted(self.out.glob("[0-9]*")):
            text = path.read_bytes().decode()
            path.unlink()
            head, _, data = text.partition("\0END\0")
            shell, command, first, *more = head.split("\0")
            folder, _, variable = first.partition("\n")
            env = [variable, *more]
            pairs = (tuple(each.split("=", 1)) for each in env)
            yield Record(shell, command, folder, frozenset((name, value) for name, value in pairs), data)


class Cron:
    """A real cron, whose clock is set minute by minute."""

    def __init__(self, world: World, minute: int) -> None:
        self._world = world
        self._set(minute)
        [library] = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
        env = {
            "PATH": PATH,
            "TZ": ZONE,
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(world.clock),
            "FAKETIME_FMT": "%s",
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self._process = subprocess.Popen(["/usr/sbin/cron", "-f"], env=env, stdin=subprocess.DEVNULL)
        self._settle(time.monotonic() + PATIENCE)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def step(self, minute: int, is_change: bool) -> list[Record]:
        """Set the clock to `minute`, counted since the epoch, and return what is run then."""
        self._set(minute)
        records: list[Record] = []
        deadline, last = time.monotonic() + PATIENCE, time.monotonic()
        while True:
            self._process.send_signal(signal.SIGHUP)
            self._settle(deadline)
            if found := list(self._world.take()):
                records += found
                last = time.monotonic()
            has_run = any(record.command == TICK for record in records)
            # After a change of clocks, cron sleeps between the commands that it runs late.
            if has_run and (not is_change or time.monotonic() - last > QUIET):
                return records
            if time.monotonic() > deadline:
                raise SystemExit(f"cron does not run anything at {datetime.fromtimestamp(minute * 60, ZoneInfo(ZONE))}")

    def _set(self, minute: int) -> None:
        aside = self._world.clock.with_suffix(".new")
        aside.write_text(f"{minute * 60 + 1}\n")
        aside.rename(self._world.clock)

    def _settle(self, deadline: float) -> None:
        """Wait until cron sleeps, and none of its commands runs."""
        quiet = 0
        while quiet < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
            quiet = quiet + 1 if self._is_asleep() else 0

    def _is_asleep(self) -> bool:
        process = Path("/proc", str(self._process.pid))
        children = (process / "task" / process.name / "children").read_text()
        return not children and (process / "stat").read_text().rpartition(")")[2].split()[0] == "S"


def mount(*arguments: str) -> None:
    """Mount something in this namespace."""
    subprocess.run(["mount", *arguments], check=True)


def convert_all(folder: Path) -> Iterator[tuple[Commands, tuple[Job, ...]]]:
    """Import each crontab into a folder of its own; yield its worker and its jobs."""
    for name in (MINE, SYSTEM, *DROPPED):
        own = folder / f"{name}.jobs"
        own.mkdir()
        text, host = (CRONTABS / name).read_text(), Host(LocalTime(ZONE), read_variables(), str(own))
        imported = convert(text, host, has_users=name != MINE)
        assert not imported.refused, imported.refused
        (own / COMMANDS).write_text(imported.files[COMMANDS])
        yield Commands("cron", str(own / COMMANDS)), imported.jobs


def list_due(jobs: list[Job], first: int, last: int) -> Counter[tuple[int, str]]:
    """Return what Redbike runs after minute `first`, up to `last`, and how often."""
    due: Counter[tuple[int, str]] = Counter()
    for job in jobs:
        schedule = parse(job.entry.schedule, ZONE, job.jobid)
        instant = schedule.next(first * 60)
        while instant is not None and instant <= last * 60:
            due[int(instant // 60), job.entry.command] += 1
            instant = schedule.next(instant)
    return due


def run_once(world: World, worker: Commands, job: Job) -> Record:
    """Run a job as Redbike does, and return what its shell was given."""
    token = _current.set(Run(job.jobid, 1e9, "tag", 5.0, 65.0, 0, 0, job.entry.schedule, "work-cron"))
    try:
        worker.work(job.jobid)
    finally:
        _current.reset(token)
    [record] = world.take()
    own = {name for name, _ in record.env if name.startswith("REDBIKE_")}
    assert own == {f"REDBIKE_{name}" for name in ("JOBID", "QUEUE", "DUE", "ATTEMPT", "DEADLINE", "KEY")}
    return record._replace(env=frozenset(pair for pair in record.env if pair[0] not in own))


def compare_lines(folder: Path) -> int:
    """Compare which lines cron and the importer refuse; return the number of differences."""
    wrong = 0
    lines = [line for row in LINES.splitlines() for line in row.split("|")]
    for line in lines:
        (folder / "line").write_text(f"{line}\n")
        done = subprocess.run(["crontab", "-n", str(folder / "line")], capture_output=True, check=False)
        [found] = read_lines(f"{line}\n")
        is_refused = isinstance(found, Refused) and found.reason.startswith("cron refuses")
        if is_refused != (done.returncode != 0):
            wrong += 1
            print(f"cron {'refuses' if done.returncode else 'accepts'} {line!r}: {found}")
    print(f"{len(lines)} lines: cron and the importer differ about {wrong}")
    return wrong


def compare_runs(world: World, first: int, last: int) -> int:
    """Compare what runs when, and with what; return the number of differences."""
    folders = list(convert_all(world.folder))
    jobs = [job for _, jobs in folders for job in jobs]
    given: dict[str, set[Record]] = {}
    by_cron: Counter[tuple[int, str]] = Counter()
    began = time.monotonic()
    with contextlib.closing(Cron(world, first)) as cron:
        for minute in range(first + 1, last + 1):
            for record in cron.step(minute, offset(minute) != offset(minute - 1)):
                by_cron[minute, record.command] += 1
                given.setdefault(record.command, set()).add(record)
            if (minute - first) % 1440 == 0:
                print(f"{(minute - first) // 1440} days: {by_cron.total()} runs", flush=True)
    expected = list_due(jobs, first, last)
    took = time.monotonic() - began
    differences = list(list_differences(by_cron, expected))
    print(
        f"{last - first} minutes in {took:.0f} s: {by_cron.total()} runs, {len(differences)} differences",
        *differences,
        sep="\n",
    )
    wrong = 0
    for worker, own in folders:
        for job in own:
            record = run_once(world, worker, job)
            if job.entry.command in given and given[job.entry.command] != {record}:
                wrong += 1
                print(f"cron: {given[job.entry.command]}\nredbike: {record}")
    print(f"{len(given)} of {len(jobs)} commands ran: {wrong} differ in shell, folder, environment or input")
    return len(differences) + wrong


def list_differences(by_cron: Counter[tuple[int, str]], expected: Counter[tuple[int, str]]) -> Iterator[str]:
    """Yield what only one of the two runs.

    By design, a job that cron runs twice at the end of a gap, for a time in the gap and for one after it, runs once.
    """
    for minute, command in sorted({*by_cron, *expected}):
        cron, redbike = by_cron[minute, command], expected[minute, command]
        when = datetime.fromtimestamp(minute * 60, ZoneInfo(ZONE))
        if cron == 2 and redbike == 1 and offset(minute) != offset(minute - 1):
            print(f"{when}: by design, once and not twice: {command}")
        elif cron != redbike:
            yield f"{when}: cron {cron} times, redbike {redbike} times: {command}"


def offset(minute: int) -> timedelta | None:
    """Return the offset of the local time."""
    return datetime.fromtimestamp(minute * 60, ZoneInfo(ZONE)).utcoffset()


def main(arguments: list[str]) -> int:
    """Compare all; return the exit status."""
    missing = [name for name in ("cron", "crontab", "faketime", "unshare") if not shutil.which(name, path=PATH)]
    if os.geteuid() or missing:
        print(f"this needs root, and {', '.join(missing) or 'nothing else'}", file=sys.stderr)
        return 2
    if "--inside" not in arguments:
        inside = [sys.executable, "-m", "tests.beside_cron", "--inside", *arguments]
        return subprocess.run(["unshare", "--mount", "--propagation", "private", *inside], check=False).returncode
    arguments.remove("--inside")
    day = date.fromisoformat(arguments[0]) if arguments else date(2026, 3, 22)
    begin = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(ZONE))
    end = begin + timedelta(days=float(arguments[1]) if arguments[1:] else 14)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        world = World(Path(folder))
        world.prepare()
        wrong = compare_lines(world.folder)
        wrong += compare_runs(world, int(begin.timestamp() // 60), int(end.timestamp() // 60))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
