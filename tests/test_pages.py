"""The commands that the pages show print what is shown; and no page has code that no test runs."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike import Redbike, RoundRobin
from redbike.state.entries import pack_entry
from redbike.state.history import pack_run
from redbike.words import Outcome
from tests.commandline import ROOT
from tests.page_table import ELSEWHERE, NO_CODE
from tests.pages import ON_A_TERMINAL, PAGES, find_block, is_like, list_blocks, run_line, show, write
from tests.waiting import wait_until

IN_UTC = "worker: jobs:Worker('A')\n"
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
"""
KNOWN = """
from redbike import RoundRobin

class Known(RoundRobin):
    def work(self, jobid):
        pass
"""
ICS = """
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//example.org//pages//EN
BEGIN:VEVENT
UID:one
SUMMARY:Day
DTSTART;VALUE=DATE:20260101
RRULE:FREQ=YEARLY
END:VEVENT
END:VCALENDAR
"""


def config(shell, text="worker: jobs:Worker('A')\ntimezone: Europe/Berlin\n"):
    write(shell, "jobs.py", WORKER)
    write(shell, ".redbike.conf", f"[redbike]\n{text}")


def set_jobs(shell, *pairs):
    for jobid, schedule, *options in pairs:
        assert shell.run("set", jobid, schedule, *options).returncode == 0


def bike(shell, **settings):
    """A program, whose changes are not in the log."""
    return Redbike(RoundRobin("A"), redis_config=shell.environment["REDBIKE_URL"], **settings)


def remember(shell, *runs, jobid="backup:A"):
    """Have runs of a job that have ended."""
    store = bike(shell).store
    for worker, due, waited, took, outcome, attempt, error in runs:
        run = pack_run(due, waited, took, outcome, attempt, error)
        store.client.rpush(store.keys.journal, pack_entry(worker, [(jobid, "work-A", 10, run)]))
    for _ in store.archiver.archive():
        pass


def nothing(shell):
    pass


def calendars(shell):
    for name in ("team.ics", "holidays.ics"):
        write(shell, name, ICS)


def paused(shell):
    set_jobs(shell, ("report:daily", "@daily"), ("report:weekly", "@weekly"))


def mailing(shell):
    set_jobs(shell, ("welcome:mail", "NOW"))


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
    wait_until(lambda: len(shell.run("runs", *jobids).stdout.splitlines()) == len(jobids), 60)


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
    write(
        shell, "jobs.py", "from redbike import RoundRobin\nclass Known(RoundRobin):\n    def work(self, jobid): pass\n"
    )
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


def crowded_queue(shell):
    config(shell, f"{IN_UTC}timezone: Europe/Berlin\non-lost: reschedule\n")  # so a worker takes one job at a time
    workers = [shell.start("work", log=f"log{number}") for number in (1, 2)]
    wait_until(lambda: len(shell.run("workers").stdout.splitlines()) == len(workers), 60)
    set_jobs(shell, *[(f"busy:{number}", "NOW") for number in range(5)], ("report:A", "NOW"))
    wait_until(lambda: shell.run("queues").stdout.startswith("work-A,4,"), 60)


def skipped(shell):
    config(shell)
    bike(shell, timezone="Europe/Berlin").set("backup:A", "0 3 * * *")
    due = datetime(2026, 3, 1, 3, tzinfo=BERLIN).timestamp()
    remember(shell, ("web2:815:Yb2_mQ0c", due, 0.0, 28 * 3600.0, Outcome.OK, 1, ""))


def processes(shell):
    config(shell)
    shell.start("dispatch", log="dispatch")
    shell.start("work", "--processes=2", log="work")
    wait_until(lambda: len(shell.run("workers").stdout.splitlines()) == 3, 60)
    wait_until(lambda: shell.run("health").returncode == 0, 60)


def one_failed(shell):
    """What `processes` has started runs."""
    set_jobs(shell, ("backup:db", "@yearly", "--on-error=reschedule"), ("report:A", "@yearly"))
    run_and_wait(shell, "backup:db", "report:A")


def failed_in_utc(shell):
    processes(shell)
    config(shell, IN_UTC)
    one_failed(shell)


def in_git(shell):
    text = find_block("schedules-in-git", "jobid,schedule")
    write(shell, "schedules.csv", f"{text}old:mail,0 0 * * *,,\n")
    assert shell.run("load", "schedules.csv").returncode == 0
    write(shell, "schedules.csv", text.replace("0 8", "0 7"))


def backed_up(shell):
    set_jobs(shell, ("hello:A", "EVERY:1h"))


# The blocks of commands that are run here: how each begins, and what brings about what it presumes.
STAGES = {
    "alerting": {"$ redbike set": nothing, "$ redbike health": failed_in_utc},
    "calendars": {"redbike import": calendars, "redbike set": calendars},
    "command-line": {
        "$ redbike pause": paused,
        "$ redbike limit": mailing,
        "$ redbike jobs": failed,
        "$ redbike runs": ended,
        "$ redbike agenda": crowded,
        "$ redbike check": disordered,
        "$ redbike log": changed,
        "$ redbike why report:A": crowded_queue,
        "$ redbike why backup:A": skipped,
    },
    "configuration": {"$ redbike set": nothing},
    "durability": {"$ redbike fsck": nothing},
    "monitoring": {"$ redbike health\n": processes, "$ redbike health '": failed_in_utc},
    "schedules-in-git": {"$ redbike load": in_git, "redbike load": in_git},
}


@pytest.mark.parametrize(
    ("page", "first", "stage"),
    [(page, first, stage) for page, stages in STAGES.items() for first, stage in stages.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_commands_print_what_the_page_shows(shell, page, first, stage):
    stage(shell)
    [block] = [each for each in list_blocks(page) if f"{each.text}\n".startswith(first)]
    for command, shown in block.commands():
        if command.split()[1] in ON_A_TERMINAL:
            printed = show(shell, *command.split()[1:])
        else:
            done = run_line(shell, command)
            assert done.returncode == shown.lower().startswith("problem"), (command, done)
            printed = done.stdout + done.stderr
        if shown or block.text.startswith("$"):
            assert is_like(printed, shown), f"{command}\n{printed}\nis not like\n{shown}"


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_run_by_one_test_or_is_no_code(page):
    """A new block has to be entered in `STAGES`, or in tests/page_table.py."""
    texts = [f"{block.text}\n" for block in list_blocks(page)]
    listed = [*STAGES.get(page, {}), *ELSEWHERE.get(page, {}), *NO_CODE.get(page, [])]
    assert [text for text in texts if sum(text.startswith(first) for first in listed) != 1] == []
    assert [first for first in listed if sum(text.startswith(first) for text in texts) != 1] == []


def test_the_tests_that_are_said_to_run_a_block_exist():
    assert {*ELSEWHERE, *NO_CODE, *STAGES} <= {*PAGES}
    for where in {where for listed in ELSEWHERE.values() for where in listed.values()}:
        file, _, name = where.partition("::")
        assert re.search(rf"^(def )?{name}\b", (ROOT / "tests" / file).read_text(), re.MULTILINE), where
