"""``import ics``, and calendars of holidays for ``--except``, as a user types them."""

import csv
import io
import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from redbike.schedule.parser import parse
from tests.cases.calendars import answers
from tests.cli.refused import check_refused
from tests.importers.test_calendars import make_calendar

TODAY = datetime.now(UTC)
NEXT_YEAR = TODAY.year + 1


GOOD = f"UID:one\nSUMMARY:Nightly, report\nDTSTART;TZID=Europe/Berlin:{NEXT_YEAR}0601T030000\nRRULE:FREQ=DAILY"
BAD = "UID:two\nSUMMARY:No zone\nDTSTART;TZID=Middle Earth:20200101T090000\nRRULE:FREQ=DAILY"


def name_day(number: int) -> str:
    """A day that many days after the tests were loaded, which may have been yesterday."""
    return (TODAY + timedelta(number)).strftime("%Y%m%d")


@pytest.fixture
def holidays(shell):
    """A calendar with two days in a row, in three days, and one that is long past."""
    event = f"UID:1\nSUMMARY:Feast\nDTSTART;VALUE=DATE:{name_day(3)}\nDTEND;VALUE=DATE:{name_day(5)}"
    (shell.folder / "holidays.ics").write_text(make_calendar(event, "UID:2\nDTSTART;VALUE=DATE:20200101"))
    return {name_day(3), name_day(4)}


def test_the_rows_are_what_load_reads(shell):
    (shell.folder / "team.ics").write_bytes((answers.FOLDER / "google.ics").read_bytes())
    done = shell.run("import", "ics", "team.ics", "--queue=A")
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows
    assert all(row[0].endswith(":A") and parse(row[1]).text == row[1] for row in rows)
    assert done.returncode == 0
    assert f" {len(rows)} job{'s' * (len(rows) > 1)} written, " in done.stderr
    assert "1 VALARM ignored" in done.stderr
    written = shell.run("import", "ics", "team.ics", "--queue=A", "--out=jobs.csv")
    assert (written.returncode, written.stdout) == (0, "")
    assert (shell.folder / "jobs.csv").read_text() == done.stdout
    assert shell.run("load", "jobs.csv").returncode == 0
    stored = dict(csv.reader(io.StringIO(shell.run("schedules").stdout)))
    assert {jobid: text for jobid, text in rows if text[:3] != "AT:"}.items() <= stored.items()


def test_a_row_is_read_with_line_ends_or_with_backslashes(shell):
    text = "0 9 * * *\nEXDATE:20301225,20301226\nRDATE:20301224T120000"
    rows = io.StringIO()
    csv.writer(rows).writerows([("one:A", text), ("two:A", text.replace("\n", "\\n"))])
    (shell.folder / "jobs.csv").write_text(rows.getvalue())
    assert shell.run("load", "jobs.csv").returncode == 0
    assert dict(csv.reader(io.StringIO(shell.run("schedules").stdout))) == {"one:A": text, "two:A": text}
    assert "but not on Wednesday, 25 December 2030 and Thursday" in shell.run("show", "one:A").stdout
    assert "and also on Tuesday, 24 December 2030 at 12:00" in shell.run("next", "two:A").stdout


OTHER = GOOD.replace("Nightly", "Daily").replace("T03", "T04")
MOVED = f"UID:one\nSUMMARY:Moved\nDTSTART:{NEXT_YEAR}0701T030000\nRECURRENCE-ID:nonsense"
NEVER = "DTSTART:20300101T000000Z\nRRULE:FREQ=NEVER"
ONE, REFUSED = "1 job written", "1 job written, 1 event refused"


@pytest.mark.parametrize(
    ("events", "row", "named", "summary"),
    [
        ([GOOD, BAD], "nightly-report-", "event 'No zone': unknown time zone 'Middle Earth'", REFUSED),
        # An event is named by what it has.
        ([GOOD, f"UID:two\n{NEVER}"], "nightly", "event with the UID 'two': RRULE: ", REFUSED),
        ([GOOD, NEVER], "nightly", "event without SUMMARY and UID: RRULE: ", REFUSED),
        # A change that cannot be read is named wherever it stands.
        ([GOOD, MOVED], "", "event 'Moved'", "0 jobs written, 2 events refused"),
        ([MOVED, GOOD], "", "event 'Moved'", "0 jobs written, 2 events refused"),
        # An event that stands there twice is one, and a newer version wins.
        ([GOOD, GOOD], "nightly", "", f"{ONE}, 1 repeated"),
        ([f"{GOOD}\nSEQUENCE:1", OTHER], "nightly", "", ONE),
    ],
)
def test_what_cannot_be_imported_is_named_and_the_others_are_written(shell, events, row, named, summary):
    done = shell.run("import", "ics", "-", input=make_calendar(*events))
    assert done.stdout.startswith(row)
    assert bool(done.stdout) == bool(row)
    *first, last = done.stderr.splitlines()
    assert last == f"redbike: standard input: {summary}"
    assert (done.returncode, len(first)) == ((2, 1 + (MOVED in events)) if named else (0, 0))
    assert not named or [line for line in first if line.startswith(f"redbike: standard input: {named}")]


def test_a_date_that_cancels_nothing_is_named_and_the_event_is_written(shell):
    date = f"EXDATE:{NEXT_YEAR}0602T040000"
    done = shell.run("import", "ics", "-", input=make_calendar(f"{GOOD}\n{date}"))
    assert done.returncode == 0
    assert done.stdout.startswith("nightly-report-")
    why = f"'{date}' cancels or moves nothing: there is no occurrence then"
    named = f"redbike: standard input: event 'Nightly, report': {why}"
    assert done.stderr.splitlines() == [named, f"redbike: standard input: {ONE}"]


@pytest.mark.parametrize("events", [(GOOD, OTHER), (OTHER, GOOD)])
def test_of_two_versions_that_are_equally_new_the_one_that_is_not_written_is_named(shell, events):
    # Two calendars in one file.
    done = shell.run("import", "ics", "-", input="".join(map(make_calendar, events)))
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2  # a row, which has a line end in it
    lost = "Nightly" if done.stdout.startswith("daily") else "Daily"
    why = "another event has the same UID, 'one', and the same SEQUENCE"
    named = f"redbike: standard input: event '{lost}, report': {why}"
    assert done.stderr.splitlines() == [named, f"redbike: standard input: {REFUSED}"]


def test_what_is_no_calendar_is_refused_in_one_line(shell):
    for text, message in (("", "it is not a calendar"), (make_calendar(GOOD)[:-14], "it seems to be cut off")):
        (shell.folder / "it.ics").write_text(text)
        for command in (["import", "ics", "it.ics"], ["set", "job:A", "@daily", "--except=it.ics"]):
            check_refused(shell.run(*command), 2, "cannot read 'it.ics'", message)
    assert shell.run("schedules").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.ics"], "cannot read 'nowhere.ics': No such file or directory"),
        (["."], "cannot read '.': Is a directory"),
        (["team.ics", "--queue=a:b"], "bad --queue 'a:b'"),
        (["team.ics", "--queue="], "bad --queue ''"),
        (["team.ics", "--queue=a b"], "bad --queue 'a b'"),
        (["team.ics", "--tz=Nowhere"], "bad timezone 'Nowhere'"),
        (["team.ics", "--out=no/where.csv"], "cannot write 'no/where.csv': No such file or directory"),
        (["team.ics", "--except=nowhere.ics"], "cannot read 'nowhere.ics'"),
        (["team.ics", "--out=/dev/full"], "cannot write '/dev/full': No space left on device"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(shell, arguments, message):
    (shell.folder / "team.ics").write_text(make_calendar(GOOD))
    check_refused(shell.run("import", "ics", *arguments), 1 if "/dev/full" in message else 2, message)


def test_without_the_package_it_says_what_to_install(shell, holidays):
    commands = [["import", "ics", "x"], ["set", "a:A", "@daily", "--except=holidays.ics"], ["set", "a:A", "@daily"]]
    code = "import sys; sys.modules['icalendar'] = None; from redbike.cli import main"
    command = [sys.executable, "-c", f"{code}; print([main(words) for words in {commands}])"]
    done = subprocess.run(command, cwd=shell.folder, env=shell.environment, capture_output=True, text=True)
    assert done.stdout == "[1, 1, 0]\n"
    assert len(re.findall(r" needs a package \(.*\): install Redbike with its extra 'ics'$", done.stderr, re.M)) == 2


def count_days(shell, jobid: str) -> list[str]:
    """The days of the next runs of a job."""
    text, due = json.loads(shell.run("tell", jobid).stdout)["schedule"], time.time()
    schedule, found = parse(text), list[str]()
    while len(found) < 6:
        due = schedule.next(due)
        found.append(datetime.fromtimestamp(due, UTC).strftime("%Y%m%d"))
    return found


def test_set_and_next_leave_out_holidays(shell, holidays):
    for schedule in ("0 0 * * *", "h 0 * * *", "RRULE:FREQ=DAILY;BYHOUR=12;BYMINUTE=0"):
        assert shell.run("set", "job:A", schedule, "--except=holidays.ics").returncode == 0
        found = count_days(shell, "job:A")
        assert holidays & set(found) == set()
        assert {name_day(2), name_day(5)} <= set(found)
        assert "EXDATE" in shell.run("schedules").stdout
    done = shell.run("next", "0 0 * * *", "--except=holidays.ics", "--count=6")
    assert "every day, but not on " in done.stdout
    shown = {line.split()[0].replace("-", "") for line in done.stdout.splitlines()[1:]}
    assert (len(shown), holidays & shown) == (6, set())
    # A day is one in the zone of the schedule.
    shell.run("set", "job:A", "0 3 * * *", "--tz=Asia/Tokyo", "--except=holidays.ics")
    schedule = parse(json.loads(shell.run("tell", "job:A").stdout)["schedule"])
    days = (name_day(2), *sorted(holidays), name_day(5))
    tokyo = [datetime.strptime(f"{day}T03+0900", "%Y%m%dT%H%z").timestamp() for day in days]
    assert [schedule.next(at - 1) == at for at in tokyo] == [True, False, False, True]
    # Two versions of a holiday are both left out.
    day = "UID:1\nSUMMARY:Feast\nDTSTART;VALUE=DATE:{}".format
    (shell.folder / "two.ics").write_text(make_calendar(day(name_day(3)), day(name_day(5))))
    assert shell.run("set", "job:A", "0 0 * * *", "--except=two.ics").returncode == 0
    assert not {name_day(3), name_day(5)} & set(count_days(shell, "job:A"))


def test_only_calendars_have_holidays(shell, holidays):
    for command in (["set", "job:A"], ["next"]):
        done = shell.run(*command, "EVERY:1h", "--except=holidays.ics")
        check_refused(done, 2, "only cron and rules can leave out days")
    assert shell.run("schedules").stdout == ""


def test_import_leaves_out_holidays_but_no_single_event(shell, holidays):
    series = f"UID:1\nSUMMARY:Series\nDTSTART:{name_day(1)}T235959Z\nRRULE:FREQ=DAILY"
    single = f"UID:2\nSUMMARY:Single\nDTSTART:{name_day(3)}T120000Z"
    done = shell.run("import", "ics", "-", "--except=holidays.ics", input=make_calendar(series, single))
    assert (done.returncode, done.stderr) == (0, "redbike: standard input: 2 jobs written\n")
    rows = {row[0].partition("-")[0]: row[1] for row in csv.reader(io.StringIO(done.stdout))}
    lines = rows["series"].splitlines()
    assert lines[-1] == f"EXDATE:{','.join(f'{day}T235959' for day in sorted(holidays))}"
    assert rows["single"].startswith("AT:")


def test_an_event_that_waits_to_run_is_left_when_the_calendar_is_loaded_again(shell, bike):
    def follow(start: datetime) -> subprocess.CompletedProcess[str]:
        events = (f"UID:1\nSUMMARY:Payout\nDTSTART:{start:%Y%m%dT%H%M%SZ}", GOOD)
        (shell.folder / "team.ics").write_text(make_calendar(*events))
        assert shell.run("import", "ics", "team.ics", "--queue=A", "--out=team.csv").returncode == 0
        return shell.run("load", "team.csv", "--prune")

    later, past = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, -1))
    jobid = next(row for row in follow(later).stdout.splitlines() if "payout" in row).split(",")[1]
    # The time has come.
    rows = (shell.folder / "team.csv").read_text()
    (shell.folder / "team.csv").write_text(rows.replace(f"{later:%Y-%m-%dT%H:%M:%SZ}", f"{past:%Y-%m-%dT%H:%M:%SZ}"))
    assert shell.run("load", "team.csv").stdout.startswith(f"changed,{jobid},")
    bike.dispatch_due()
    again = follow(past)
    assert jobid not in (shell.folder / "team.csv").read_text()
    said = f"not removed, as the last occurrence has not ended: {jobid}; unset what is not needed\n"
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.endswith(f"{said}redbike: team.csv: 1 unchanged\n")
    assert bike.work_one() == jobid
    assert follow(past).stdout == f"removed,{jobid},STOP\n"
