"""The commands that list what is there: for programs as CSV and JSON, for people as tables on a terminal."""

import csv
import io
import json
import re
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from rich.cells import cell_len

from redbike.cli.list import JOBS, LOG, PAST_RUNS, QUEUES, WORKERS
from redbike.store.enums import Outcome
from tests.cli.refused import check_refused
from tests.commandline import Within
from tests.loops import make_worker
from tests.pages import write
from tests.queries.kept import remember
from tests.terminal import plain, run_on_terminal

COMMANDS = {"jobs": JOBS, "runs": PAST_RUNS, "queues": QUEUES, "workers": WORKERS, "log": LOG}
TOKYO = "東京レポート:A"


LOOKS = [*COMMANDS, "show job:A", "agenda", "tail", "fsck", "acknowledge", "control HALT"]
LOOKS += ["tell job:A", "statuses", "schedules", "schedules --full"]
OWN = """
from redbike import RoundRobin

class Own(RoundRobin):
    @staticmethod
    def queue_for(jobid):
        return "mine"
"""


@pytest.fixture
def bike(noted):
    """With jobs in many places, and a worker."""
    bike = noted
    for jobid in ("bad,one:A", "fine:A"):
        bike.set(jobid, "NOW")
    while bike.work_one():
        pass
    bike.set("cron:A", "15,45 2 * * 1-5", tz="Europe/Berlin")
    bike.set(TOKYO, "EVERY:1h")
    bike.set("paused:B", "DTSTART:20300101T000000Z\nRRULE:FREQ=DAILY")
    bike.pause("paused:B", reason="why, though?")
    bike.set("waiting:B", "NOW")
    bike.store.jobs.reject("broken:A")
    with make_worker(bike.store, bike.worker).presence:
        yield bike


def as_text(name, value):
    if isinstance(value, list):
        return " ".join(value)
    if name == "detail":
        return value.replace("\n", "\\n")
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@pytest.mark.parametrize("command", COMMANDS)
def test_csv_and_json_have_the_same_fields_with_the_same_values(bike, shell, command):
    printed = shell.read(command, "--format=json")
    found = json.loads(printed)
    assert found
    assert [line[0] for line in printed.splitlines()] == ["[", *"{" * len(found), "]"]
    for row in found:
        assert tuple(row) == COMMANDS[command]
    expected = [[as_text(name, value) for name, value in row.items() if name != "seen"] for row in found]
    for words in ((command,), (command, "--format=CSV")):
        header, *rows = csv.reader(io.StringIO(shell.run(*words).stdout))
        assert tuple(header) == COMMANDS[command]
        # The worker is seen again and again.
        kept = [number for number, name in enumerate(COMMANDS[command]) if name != "seen"]
        assert [[row[number] for number in kept] for row in rows] == expected


def test_the_fields_of_a_job(bike, shell):
    jobs = {job["jobid"]: job for job in json.loads(shell.run("jobs", "--format=json").stdout)}
    assert set(jobs) == {"bad,one:A", "fine:A", "cron:A", TOKYO, "paused:B", "waiting:B", "broken:A"}
    failed = jobs["bad,one:A"]
    assert (failed["status"], failed["last_outcome"], failed["queue"]) == ("DIE", "failed", "work-A")
    assert jobs["broken:A"]["schedule"] is None
    assert jobs["paused:B"]["paused"] > 1e9
    assert jobs["cron:A"]["schedule"] == "CRON_TZ=Europe/Berlin 15,45 2 * * 1-5"
    assert jobs["cron:A"]["next_run"] == bike.tell("cron:A")["next_run"]
    assert len(shell.list_rows("jobs", "--limit=2")) == 2
    assert len(json.loads(shell.run("jobs", "--limit=2", "--format=json").stdout)) == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--failed"], ["bad,one:A"]),
        (["--paused"], ["paused:B"]),
        (["--overdue"], ["waiting:B"]),
        (["--planned"], ["cron:A", TOKYO]),
        (["--queue=B"], ["paused:B", "waiting:B"]),
        (["--status=bad"], ["broken:A"]),
        (["--never-ran", "--queue=work-A"], ["broken:A", "cron:A", TOKYO]),
        (["*ing:?"], ["waiting:B"]),
        (["fine:A", "p*"], ["fine:A", "paused:B"]),
    ],
)
def test_jobs_are_chosen(bike, shell, words, expected):
    assert sorted(row[0] for row in shell.list_rows("jobs", *words)) == expected


def test_changes_are_chosen(bike, shell):
    everything = shell.list_rows("log")
    assert shell.list_rows("log", "--who=ADA", "--since=1h ago") == everything
    assert shell.list_rows("log", "--who=bob") == shell.list_rows("log", "--since=now") == []
    [row] = shell.list_rows("log", "--since=1h ago", "--limit=1", "paused:B")
    assert row[2] == "pause"
    check_refused(shell.run("log", "--who=a\nb"), 2, "bad who 'a\\nb'")


def test_nothing_is_no_error(shell, client):
    for command, fields in COMMANDS.items():
        assert shell.run(command).stdout == f"{','.join(fields)}\n"
        assert shell.run(command, "--format=json").stdout == "[]\n"
    assert plain(run_on_terminal(shell, "jobs")) == ["none"]
    for words in (("jobs", "nobody:A"), ("runs", "no*")):
        assert shell.read(*words, "--format=json") == "[]\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    "command", ["jobs", "jobs --format=json", "schedules", "tell {}", "show {} --format=csv", "import ics day.ics"]
)
def test_data_are_utf_8_whatever_the_locale(bike, shell, command, encoding):
    bike.pause(TOKYO, reason=TOKYO)
    event = f"BEGIN:VEVENT\nUID:1\nSUMMARY:{TOKYO[:-2]}\nDTSTART:20300101T000000Z\nEND:VEVENT\n"
    (shell.folder / "day.ics").write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\n{event}END:VCALENDAR\n")
    shell.environment["PYTHONIOENCODING"] = encoding
    done = shell.run(*command.format(TOKYO).split())
    assert (done.returncode, TOKYO[:-2] in done.stdout) == (0, True)


@pytest.mark.parametrize("command", LOOKS)
def test_looking_starts_no_server(tmp_path, command):
    shell = Within(tmp_path, None)
    said = f"no server runs in '{tmp_path}/.redbike'; redbike up starts one, and so does redbike server start"
    check_refused(shell.run(*command.split()), 1, said)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_class_names_the_queues_and_may_be_missing(bike, shell):
    own = write(shell, "own.py", OWN)
    write(shell, ".redbike.conf", "[redbike]\nworker: own:Own('A')\n")
    [row] = shell.list_rows("jobs", "cron:A")
    assert row[1] == "mine"
    own.unlink()
    bike.client.delete(bike.store.keys.agreed)
    done = shell.run("jobs", "cron:A", "waiting:B")
    assert [row[1] for row in csv.reader(io.StringIO(done.stdout))] == ["queue", "", "work-B"]
    assert done.stderr.endswith("without it, the queues of some jobs are unknown\n")
    assert shell.run("runs").stderr == ""


# For people


def test_an_id_stays_whole_where_other_columns_can_be_cut(bike, shell):
    jobid = "billing:reminders-month:A"
    bike.set(jobid, "0 9 * * MON-FRI", note="n" * 60)
    ago = bike.store.timeline.read_clock() - 3500  # 58 min 20 s
    remember(bike.store, ago, outcome=Outcome.CANCELLED, jobid=jobid)
    lines = plain(run_on_terminal(shell, "jobs", columns=80))
    assert jobid in [line.split()[0] for line in lines if line]


@pytest.mark.parametrize(("command", "columns"), [*((each, 40) for each in COMMANDS), ("jobs", 80), ("jobs", 200)])
def test_a_table_fits_the_terminal(bike, shell, command, columns):
    bike.set(f"{'long-' * 20}:A", "FREQ=MONTHLY;BYDAY=2TU,3WE,4FR,-1SU;BYHOUR=9,10,11,12,13,14,15;BYMINUTE=0,10,20")
    shown = run_on_terminal(shell, command, columns=columns)
    assert "\x1b[1m" in shown, "the titles are bold"
    lines = plain(shown)
    assert max(map(cell_len, lines)) <= columns
    assert len(lines) > 1


def test_what_is_short_stays_whole(bike, shell):
    bike.set("cron:A", f"FREQ=MONTHLY;BYMONTHDAY={','.join(map(str, range(1, 29)))};BYHOUR=9")
    title, *lines = plain(run_on_terminal(shell, "jobs", columns=80))
    assert {"JOB", "STATUS", "NEXT RUN", "LAST RUN", "SCHEDULE"} <= {*re.split(r"  +", title)}
    [paused] = [line for line in lines if line.startswith("paused:B")]
    assert re.split(r"  +", paused)[1] == "TML paused"
    [long] = [line for line in lines if line.startswith("cron:A")]
    assert long.endswith("…")


def test_a_table_leaves_out_the_instant_that_a_schedule_counts_from(bike, shell):
    jobs = {"every:A": "EVERY:20s", "rule:A": "FREQ=DAILY;BYHOUR=4", "all@all": "EVERY:7m"}
    for jobid, text in jobs.items():
        bike.set(jobid, text)
    bike.set("holiday:A", "0 3 * * *\nEXDATE:20301224T030000")
    lines = plain(run_on_terminal(shell, "jobs", "every:A", "rule:A", "all@all", "holiday:A", columns=160))
    shown = {line.split("  ")[0]: re.split(r"  +", line)[-1] for line in lines[1:]}
    assert shown["every:A"] == "EVERY:20s"
    assert shown["rule:A"] == "RRULE:FREQ=DAILY;BYHOUR=4"
    assert shown["all@all"].endswith("EVERY:7m")
    assert shown["holiday:A"].startswith("0 3 * * *")
    assert "EVERY:20s@" in shell.run("jobs", "every:A").stdout, "machines get all of it"


def test_what_needs_a_person_stands_first(bike, shell):
    lines = plain(run_on_terminal(shell, "jobs", columns=120))
    order = ["JOB", "broken:A", "bad,one:A", "waiting:B", "paused:B"]
    assert [line.split("  ")[0] for line in lines[:5]] in (order, ["JOB", "bad,one:A", "broken:A", *order[3:]])
    shown = {line.split("  ")[0]: re.split(r"  +", line) for line in lines[1:]}
    assert shown["bad,one:A"][1] == "DIE"
    assert re.fullmatch(r"failed (now|\d+ s ago)", shown["bad,one:A"][4])
    assert shown["waiting:B"][3] == "waits"
    assert shown["paused:B"][1:4:2] == ["TML paused", "when resumed"]
    assert re.fullmatch(r"in (1 h|5\d min( \d+ s)?)", shown[TOKYO][3])
    assert shown["cron:A"][-1] == "CRON_TZ=Europe/Berlin 15,45 2 * * 1-5"
    assert plain(run_on_terminal(shell, "jobs", "--limit=2"))[-1] == "5 more: --limit=N shows them"
    # Wide letters take two columns.
    [wide] = [line for line in lines if line.startswith(TOKYO)]
    assert cell_len(wide[: wide.index("TML")]) == lines[0].index("STATUS")
    bike.resume("paused:B")
    bike.pause("paused:B", until=time.time() + 7000)
    assert re.search(r"resumes in 1 h 5\d min", "".join(run_on_terminal(shell, "jobs", "paused:B", columns=120)))


def test_times_are_those_of_the_zone_that_is_set_and_name_it(bike, shell):
    write(shell, ".redbike.conf", "[redbike]\ntimezone: Asia/Kolkata\n")
    title, *lines = plain(run_on_terminal(shell, "runs", columns=120))
    assert title.startswith("STARTED (Asia/Kolkata)")
    [run] = [run for run in bike.runs() if run.jobid == "fine:A"]
    [line] = [line for line in lines if "fine:A" in line]
    started = datetime.fromtimestamp(run.started, ZoneInfo("Asia/Kolkata"))
    assert line.split("  ")[0] == started.strftime("%Y-%m-%d %H:%M:%S")


def test_no_colour_where_it_is_not_wanted(bike, shell):
    assert "\x1b[31m" in run_on_terminal(shell, "jobs")
    assert "\x1b[31m" not in run_on_terminal(shell, "jobs", NO_COLOR="1")
    assert "\x1b" not in run_on_terminal(shell, "jobs", TERM="dumb")
    assert run_on_terminal(shell, "jobs", "--format=csv") == shell.run("jobs").stdout


def test_nothing_that_is_stored_can_control_the_terminal(bike, shell, client):
    client.hset("redbike-schedules", "\x1b[2J\u202eevil:A", "EVERY:1h@0.0\x1b]0;title\x07")
    client.hset("redbike-statuses", "\x1b[2J\u202eevil:A", "TML:1000")
    shown = run_on_terminal(shell, "jobs", columns=200)
    assert [text for text in ("\x1b[2J", "\u202e", "\x07") if text in shown] == []
    assert r"\x1b[2J\u202eevil:A" in shown
