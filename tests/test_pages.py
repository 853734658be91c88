"""What a reader pastes from the pages works, block after block, and prints what the page shows."""

import configparser
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike.commands import Commands
from redbike.config.file import load
from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from tests.commandline import Shell, drop_waits
from tests.pages import (
    DIFFERS,
    ON_A_TERMINAL,
    PAGES,
    PRESUMED,
    find_block,
    is_like,
    list_blocks,
    list_fetched,
    list_programs,
    mask,
    run_line,
    show,
    write,
)
from tests.waiting import SLOWNESS, wait_until

# Diagrams, trees and formulas, by how they begin.
NO_CODE = {
    ("first-steps", "             set "),
    ("architecture", "cli/  "),
    ("architecture", "             set "),
    ("scale", "jobs at once ="),
}
# What is run in another way than by `find_block`: tests/deploy reads whole sections, tests/test_security.py and
# tests/web/test_docs.py all lines for users of Redis.
ELSEWHERE = {
    ("deployment", ""),
    ("security", "$ redis-cli ACL"),
    ("security", "ACL SETUSER"),
}
FETCHED = NO_CODE | ELSEWHERE | list_fetched()
STARTED = "redbike: started a server in '.redbike'; redbike server stop ends it\n"
LASTING = {"dispatch", "up", "work"}  # commands that end when they are told to

IN_UTC = "worker: jobs:Worker('A')\n"
IN_BERLIN = f"{IN_UTC}timezone: Europe/Berlin\n"
BERLIN = ZoneInfo("Europe/Berlin")
WORKER = """
import time
from pathlib import Path
from redbike import RoundRobin

class Worker(RoundRobin):
    def queue_for(self, jobid):
        return "work-A"

    def timeout(self, queue_name):
        return 300

    def work(self, jobid):
        while jobid.startswith("busy"):
            time.sleep(1)
        if jobid.startswith("backup") or Path("bad").exists():
            raise OSError("disk full")

class Two(Worker):
    def queue_for(self, jobid):
        return "work-B" if jobid.startswith("backup") else "work-A"

class Known(RoundRobin):
    def work(self, jobid):
        pass
"""


def config(shell, text=IN_BERLIN):
    write(shell, "jobs.py", WORKER)
    write(shell, ".redbike.conf", f"[redbike]\n{text}")


def set_jobs(shell, *pairs):
    for jobid, schedule, *options in pairs:
        assert shell.run("set", jobid, schedule, *options).returncode == 0


def remember(shell, *runs, jobid="backup:A"):
    """Have runs of a job that have ended."""
    store = shell.bike.store
    for worker, due, waited, took, outcome, attempt, error in runs:
        run = pack_run(due, waited, took, outcome, attempt, error)
        store.client.rpush(store.keys.journal, pack_entry(worker, [(jobid, "work-A", 10, run)]))
    for _ in store.archiver.archive():
        pass


def having(*pairs, text=None):
    """Have these jobs, and settings if there is a `text` of them."""

    def have(shell):
        if text is not None:
            config(shell, text)
        set_jobs(shell, *pairs)

    return have


def write_calendar(shell, name, day, rule=""):
    event = f"BEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:{day}\nSUMMARY:A day off\n{rule}END:VEVENT\n"
    write(shell, name, f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{event}END:VCALENDAR\n")


def calendars(shell):
    for name in ("team.ics", "holidays.ics"):
        write_calendar(shell, name, "20260101", "RRULE:FREQ=YEARLY\n")


def failed(shell):
    config(shell, IN_UTC)
    write(shell, "bad", "")
    set_jobs(shell, ("backup:A", "0 3 * * *", "--on-error=reschedule"), ("report:A", "EVERY:1h"))
    shell.start("up")
    run_and_wait(shell, "backup:A", "report:A")
    shell.started[-1].terminate()
    assert shell.started[-1].wait(60) == 0


def run_and_wait(shell, *jobids):
    shell.run("run", *jobids)
    wait_until(lambda: len(shell.list_rows("runs", *jobids)) == len(jobids), 60)


def ended(shell):
    set_jobs(shell, ("backup:A", "0 3 * * *"))
    retried = (1763694000.0, 0.1504, 8.330171, Outcome.RETRY, 1, "OSError: disk full")
    failed = (1763694000.0, 9.5032, 2.114033, Outcome.FAILED, 2, "OSError: disk full")
    worked = (1763780400.0, 0.018412, 312.406118, Outcome.OK, 1, "")
    remember(shell, ("web2:815:Yb2_mQ0c", *retried), ("web1:4711:x7Kd9QaZ", *failed), ("web1:4711:x7Kd9QaZ", *worked))


def crowded(shell):
    config(shell, "worker: jobs:Two('A:B')\n")
    rows = [f"report:{number},0 0 * * *" for number in range(1, 400)]
    write(shell, "rows.csv", "\n".join(["backup:db,10 * * * *", *rows, ""]))
    assert shell.run("load", "rows.csv").returncode == 0
    for jobid in ("backup:db", "report:1"):
        remember(shell, ("web1:4711:x7Kd9QaZ", 1763694000.0, 0.0, 60.0, Outcome.OK, 1, ""), jobid=jobid)


def disordered(shell):
    config(shell, "worker: jobs:Known('A')\nretrys: 3\n")
    rows = [f"job{number}:B,@daily" for number in range(1, 1201)]
    rule = '"DTSTART:20200101T000000Z\\nRRULE:FREQ=DAILY;COUNT=1"'
    write(shell, "rows.csv", "\n".join([*rows, f"sale:A,{rule}", ""]))
    (shell.folder / ".redbike.conf").rename(shell.folder / "bad.conf")
    assert shell.run("load", "rows.csv").returncode == 0
    (shell.folder / "bad.conf").rename(shell.folder / ".redbike.conf")


def changed(shell):
    write(shell, "jobs.csv", "".join(f"job{number}:A,@daily\n" for number in range(1200)) + "a:A,x\nb:A,x\n")
    set_jobs(shell, ("report:daily", "@daily"))
    assert shell.run("load", "jobs.csv").returncode == 2
    set_jobs(shell, ("report:daily", "0 6 * * *", "--retries=5"))
    assert shell.run("pause", "--queue=A", "--reason=moving the database").returncode == 0


def with_a_script(shell):
    config(shell, IN_UTC)
    write(shell, "report.sh", "echo one\n")
    shell.start("work", "redbike.commands:Commands('')")
    wait_until(lambda: shell.list_rows("workers"), 60)


def at_night(shell):
    """The scripts of a night, a calendar, and who is told."""
    for name in ("extract", "orders", "users", "stock", "report", "notify"):
        write(shell, f"{name}.sh", "#!/bin/sh\ntrue\n").chmod(0o755)
    write(shell, "commands.ini", find_block("pipelines", "[commands]"))
    config(shell, find_block("pipelines", "[redbike]").removeprefix("[redbike]\n"))
    day = (datetime.now(ZoneInfo("UTC")) + timedelta(days=30)).strftime("%Y%m%d")
    write_calendar(shell, "holidays.ics", day)


def crowded_queue(shell):
    config(shell, f"{IN_BERLIN}on-lost: reschedule\n")  # so a worker takes one job at a time
    workers = [shell.start("work", log=f"log{number}") for number in (1, 2)]
    wait_until(lambda: len(shell.list_rows("workers")) == len(workers), 60)
    set_jobs(shell, *[(f"busy:{number}", "NOW") for number in range(5)], ("report:A", "NOW"))
    wait_until(lambda: shell.list_rows("queues")[0][:2] == ["work-A", "4"], 60)


def skipped(shell):
    config(shell)
    shell.bike.set("backup:A", "0 3 * * *", tz="Europe/Berlin")
    due = datetime(2026, 3, 1, 3, tzinfo=BERLIN).timestamp()
    remember(shell, ("web2:815:Yb2_mQ0c", due, 0.0, 28 * 3600.0, Outcome.OK, 1, ""))


def processes(shell):
    config(shell)
    shell.start("dispatch", log="dispatch")
    shell.start("work", "--processes=2", log="work")
    wait_until(lambda: len(shell.list_rows("workers")) == 3, 60)
    wait_until(lambda: shell.run("health").returncode == 0, 60)


def working(shell):
    processes(shell)
    set_jobs(shell, ("report:A", "@yearly"))


def failed_in_utc(shell):
    processes(shell)
    config(shell, IN_UTC)
    set_jobs(shell, ("backup:db", "@yearly", "--on-error=reschedule"), ("report:A", "@yearly"))
    run_and_wait(shell, "backup:db", "report:A")


def in_git(shell):
    text = find_block("schedules-in-git", "jobid,schedule")
    write(shell, "schedules.csv", f"{text}old:mail,0 0 * * *,,\n")
    assert shell.run("load", "schedules.csv").returncode == 0
    write(shell, "schedules.csv", text.replace("0 8", "0 7"))


def tested(shell):
    write(shell, "app.py", list_blocks("jobs")[0].text)


IN_USE = having(("other:A", "NOW"), text=IN_UTC)
# What brings about what a block presumes, by how the block begins: with an empty server and folder. What stands below
# it on the page goes on from there. All other pages begin with nothing, as a reader does.
SETUPS = {
    ("calendars", "redbike import"): calendars,
    ("command-line", "$ redbike run --wait"): working,
    ("command-line", "$ redbike pause --until='mon"): having(("report:A", "0 3 * * *"), text=IN_BERLIN),
    ("command-line", "$ redbike pause --queue=A --every"): IN_USE,
    ("command-line", "$ redbike pause"): having(("report:daily", "@daily"), ("report:weekly", "@weekly")),
    ("command-line", "$ redbike limit"): having(("welcome:mail", "NOW")),
    ("command-line", "$ redbike jobs"): failed,
    ("command-line", "$ redbike runs"): ended,
    ("command-line", "$ redbike agenda"): crowded,
    ("command-line", "$ redbike check"): disordered,
    ("command-line", "$ redbike log"): changed,
    ("command-line", "$ redbike why report:A"): crowded_queue,
    ("command-line", "$ redbike why backup:A"): skipped,
    ("commands", "$ redbike at"): with_a_script,
    ("backfill", "$ redbike set load:A"): IN_USE,
    ("pipelines", "$ redbike set extract:A '0 3"): at_night,
    ("monitoring", "$ redbike health\n"): processes,
    ("scale", "$ redbike control HALT"): IN_USE,
    ("schedules", "$ redbike set extract:A"): IN_USE,
    ("monitoring", "$ redbike health '"): failed_in_utc,
    ("schedules-in-git", "$ redbike load"): in_git,
    ("testing", "from datetime import datetime"): tested,
}


def find_setup(block):
    return next((setup for (page, first), setup in SETUPS.items() if is_at(block, page, first)), None)


def is_at(block, page, first):
    return block.page == page and f"{block.text}\n".startswith(first)


def list_walks():
    """What a reader pastes one after the other: the blocks of each page, parted where one has a set-up.

    The targets of make take long; that they are there is enough.
    """
    for page in sorted(PAGES):
        walk = []
        for block in list_blocks(page):
            if find_setup(block) and walk:
                yield walk
                walk = []
            if not any(is_at(block, *place) for place in FETCHED) and not block.text.startswith("make "):
                walk.append(block)
        if walk:
            yield walk


class Reader:
    """Pastes blocks into the files and the terminals of one folder."""

    def __init__(self, shell, page, differs):
        self.shell, self.differs = shell, differs
        self.programs = list_programs(page)
        self.lasting, self.due = [], Counter()
        for name, blocks in self.programs.items():
            write(shell, name, "\n\n\n".join(block.text for block in blocks) + "\n")

    def paste(self, block):
        if block.language == "python":
            self.run_program(block)
        elif block.text.startswith("["):
            self.read_settings(block.text)
        else:
            commands = list(block.commands())
            # If nothing is shown of any command, that does not mean that they print nothing.
            compared = any(shown for _, shown in commands)
            for command, shown in commands:
                self.run_command(command.partition(" #")[0].strip(), shown, compared)

    def run_program(self, block):
        """A file is run, or its tests are, as soon as it is complete, unless the page names it."""
        name, blocks = next(each for each in self.programs.items() if block in each[1])
        text = (self.shell.folder / name).read_text()
        if block != blocks[-1] or text.startswith("# "):
            return
        program = [sys.executable, "-W", "error::RuntimeWarning"]
        program += (
            ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "redbike.testing"] if "def test_" in text else []
        )
        # The plugins of this suite take longer to import than the tests of a page to run.
        environment = self.shell.environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with open(self.shell.folder / "printed", "w") as printed, open(self.shell.folder / "errors", "w") as errors:
            process = subprocess.Popen(
                [*program, name], cwd=self.shell.folder, env=environment, stdout=printed, stderr=errors
            )
        if text.endswith("bike.work()\n"):
            self.due.update(re.findall(r'bike.set\("(\S+)", "NOW"\)', text))
            self.wait_for_runs()
            # Another worker may have run it while this one only began.
            pid = str(process.pid)
            wait_until(
                lambda: process.poll() is not None or pid in {row[3] for row in self.shell.list_rows("workers")}, 60
            )
            process.send_signal(signal.SIGINT)
        status, printed = process.wait(100 * SLOWNESS), self.shell.log("printed")
        assert status == 0, printed + self.shell.log("errors")
        if "def test_" not in text and "# prints:" in text:
            # What threads do may come more than once.
            assert [*dict.fromkeys(printed.splitlines())] == [*dict.fromkeys(re.findall(r"# prints: (.*)", text))]

    def read_settings(self, text):
        path = write(self.shell, "settings", text)
        if text.startswith("[redbike"):
            config = load(str(path), {})
            for name, value in re.findall(r"^([\w-]+): (.*)$", text.partition("[redbike-redis]")[0], re.MULTILINE):
                assert str(getattr(config.settings, name.replace("-", "_"))) == value
        elif text.startswith("[Unit]"):
            self.check_unit(text)
        else:
            assert Commands("A", str(path))

    def check_unit(self, text):
        unit = configparser.ConfigParser(strict=False)
        unit.read_string(text)
        assert {*unit.sections()} <= {"Unit", "Service", "Install"}
        if shutil.which("systemd-analyze") and "Service" in unit:
            # The program, the user and the folder of the example are not on this machine.
            text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text.replace("User=me", "User=root"))
            path = write(self.shell, "redbike-example.service", re.sub("Directory=.*", "Directory=/", text))
            done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
            assert "redbike-example" not in done.stderr, done.stderr

    def run_command(self, line, shown, compared):
        # A blackout of Saturdays must not be on while this runs on a Saturday.
        line = line.replace("* * sat'", f"* * {(datetime.now(UTC) + timedelta(days=4)):%a}'")
        _, word, *rest = shlex.split(line)
        if word in LASTING:
            self.start(shlex.split(line)[1:], shown)
        else:
            if [word, *rest] == ["server", "stop"]:
                self.end_all(signal.SIGINT)
            if word in ON_A_TERMINAL and shown:
                printed = show(self.shell, word, *rest)
            else:
                done = run_line(self.shell, line)
                fails = re.match(r"problem|redbike: bad ", shown, re.IGNORECASE)
                assert (done.returncode != 0) == bool(fails), (line, done)
                printed = "".join(drop_waits((done.stdout + done.stderr).splitlines(True)))
            if compared:
                printed = printed if STARTED in shown else printed.replace(STARTED, "")
                assert is_like(printed, shown, self.differs), f"{line}\n{printed}\nis not like\n{shown}"
            if (word, *rest[1:2]) in (("set", "NOW"), ("run",)):
                self.due[rest[0]] += 1
            if [word, *rest] == ["control", "HALT"]:
                self.end_all(0)

    def start(self, words, shown):
        log = f"log{len(self.lasting)}"
        self.lasting.append(self.shell.start(*words, log=log))
        wanted = Counter(mask(line, self.differs) for line in shown.splitlines())
        wait_until(lambda: wanted <= Counter(mask(line, self.differs) for line in self.shell.log(log).splitlines()), 60)
        if words[0] != "dispatch":
            wait_until(lambda: " works work-" in self.shell.log(log), 60)
            self.wait_for_runs()

    def wait_for_runs(self):
        """Until what was to run now has run, and well."""
        for jobid, number in self.due.items():
            line = ("runs", jobid)
            wait_until(lambda line=line, number=number: self.shell.run(*line).stdout.count(",ok,") >= number, 60)

    def end_all(self, number):
        for process in self.lasting:
            if number:
                process.send_signal(number)
            assert process.wait(timeout=60) == 0
        self.lasting.clear()


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "walk", [pytest.param(walk, id=f"{walk[0].page}: {walk[0].text.splitlines()[0]}") for walk in list_walks()]
)
def test_what_a_page_shows_is_what_happens(request, tmp_path, walk):
    if setup := find_setup(walk[0]):
        shell = request.getfixturevalue("shell")
        setup(shell)
    else:
        shell = Shell(tmp_path, None)
    reader = Reader(shell, walk[0].page, PRESUMED if setup else DIFFERS)
    for block in walk:
        reader.paste(block)
    if reader.lasting:
        reader.wait_for_runs()
        reader.end_all(signal.SIGINT)


def test_what_is_said_to_be_presumed_or_to_be_run_elsewhere_is_on_the_pages():
    blocks = [block for page in PAGES for block in list_blocks(page)]
    for place in (*FETCHED, *SETUPS):
        assert any(is_at(block, *place) for block in blocks), place


def test_no_block_is_without_a_rule():
    """What is no Python, no settings and no command needs a test of its own, which calls `find_block`."""
    others = [block for walk in list_walks() for block in walk if block.language != "python"]
    assert [block for block in others if not re.match(r"\[|(\$ )?redbike ", block.text)] == []
