"""Tags, owners and notes on the command line: they filter each list, and each action on several jobs."""

import csv
import io
import json

import pytest

from redbike.cli.list import FAILURES
from tests.cli.refused import check_refused
from tests.states import unchanged
from tests.terminal import plain, run_on_terminal

ROWS = {
    "bad:A": {"tags": "billing,nightly", "owner": "Ann, 4711", "note": "Call her first"},
    "invoice:A": {"tags": "Billing"},
    "mail:A": {"tags": ["mail"], "owner": "Bob"},
    "plain:A": {},
}
TAGGED = ["bad:A", "invoice:A"]


@pytest.fixture
def bike(noted):
    for jobid, options in ROWS.items():
        noted.set(jobid, "EVERY:1h@0", **options)
    noted.run("bad:A")
    assert noted.work_one() == "bad:A"
    return noted


@pytest.mark.parametrize(
    ("command", "column", "found"),
    [
        (("jobs",), 0, [*TAGGED, "jobid"]),
        (("jobs", "--failed", "*:A"), 0, ["bad:A", "jobid"]),
        (("jobs", "mail:A"), 0, ["jobid"]),
        (("jobs", "inv*"), 0, ["invoice:A", "jobid"]),
        (("runs",), 0, ["bad:A", "jobid"]),
        (("statuses",), 0, TAGGED),
        (("schedules",), 0, TAGGED),
        (("schedules", "--full", "inv*"), 0, ["invoice:A", "jobid"]),
        (("failures", "--format=csv"), 1, ["bad:A", "jobid"]),
        (("failures", "--format=csv", "inv*"), 1, ["jobid"]),
    ],
)
def test_each_list_takes_a_tag(bike, shell, command, column, found):
    for tag, listed in (("BILLING", found), ("none,nothing", [each for each in found if each == "jobid"])):
        rows = csv.reader(io.StringIO(shell.read(*command, f"--tag={tag}")))
        assert sorted(row[column] for row in rows) == listed


def test_the_agenda_takes_a_tag_and_lists_its_jobs(bike, shell):
    first = shell.list_rows("agenda", "--tag=billing,mail", "--format=csv")[0]
    assert first[1:] == ["work-A", "2", "invoice:A mail:A"]
    assert json.loads(shell.run("agenda", "plain:A", "--format=json").stdout)[0]["jobs"] == ["plain:A"]


@pytest.mark.parametrize(
    ("command", "found", "is_done"),
    [
        (("run",), TAGGED, lambda job: job["status"].startswith("ENQ")),
        (("run", "i*"), ["invoice:A"], lambda job: job["status"].startswith("ENQ")),
        (("run", "--failed"), ["bad:A"], lambda job: job["status"].startswith("ENQ")),
        (("cancel",), TAGGED, None),
        (("pause", "--reason=the disk"), TAGGED, lambda job: "paused" in job),
        (("pause", "--every=0 2 * * sat", "--for=2h"), TAGGED, lambda job: "blackouts" in job),
        (("resume",), TAGGED, lambda job: "paused" not in job),
        (("resume", "--every"), TAGGED, lambda job: "blackouts" not in job),
        (("unset",), TAGGED, lambda job: job["status"] is None),
    ],
)
def test_each_action_on_several_jobs_takes_a_tag_and_prints_them(bike, shell, command, found, is_done):
    if command[0] == "resume":
        bike.pause("*", **({"every": "0 2 * * *", "lasting": "1h"} if command[1:] else {}))
    with unchanged(bike.store):
        done = shell.run(*command, "--tag=billing", "--dry-run")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, found)
    done = shell.run(*command, "--tag=billing")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, found), done.stderr
    assert is_done is None or [jobid for jobid in ROWS if is_done(bike.tell(jobid))] == found


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (("run", "--tag=none"), 1, "no job has the tag 'none'"),
        (("pause", "--tag=x,none", "p*"), 1, "no job with the tag 'none' or 'x' matches 'p*'"),
        (("cancel", "--tag=none", "bad:A"), 1, "no such job with the tag 'none': 'bad:A'"),
        (("unset", "--tag="), 2, "bad tag '': the name of a tag is needed"),
        (("run", "--failed", "--tag=none"), 1, "no job has the tag 'none'"),
        (("run", "--failed", "--tag=mail"), 0, "no job that has failed for good has the tag 'mail'"),
        (("run", "--failed", "--tag=a;b"), 2, "bad tag 'a;b': letters, digits"),
        (("jobs", "--tag=,"), 2, "bad tag ','"),
        (("set", "plain:A", "NOW", "--tags=a;b"), 2, "bad tags 'a;b': letters, digits and any of _.:/@+-"),
        (("set", "plain:A", "NOW", "--note=a\nb"), 2, r"bad note 'a\nb': one line of up to 500 characters"),
    ],
)
def test_what_names_no_job_or_is_no_tag_is_refused_and_changes_nothing(bike, shell, command, status, words):
    with unchanged(bike.store):
        check_refused(shell.run(*command), status, words)


def test_failures_are_a_table_on_a_terminal_and_lines_of_json_to_a_pipe(bike, shell):
    bike.store.client.delete(bike.store.keys.options)
    [line] = shell.run("failures").stdout.splitlines()
    assert json.loads(line).keys() & {"owner", "note", "tags"} == set()
    bike.set("bad:A", "EVERY:1h@0", **ROWS["bad:A"])
    [line] = shell.run("failures", "--tag=nightly").stdout.splitlines()
    kept = json.loads(line)
    assert [kept[name] for name in ("owner", "note", "tags")] == ["Ann, 4711", "Call her first", ["billing", "nightly"]]
    lines = plain(run_on_terminal(shell, "failures", columns=120))
    assert lines[0].split() == ["FAILED", "(UTC)", "JOB", "OUTCOME", "TRY", "ERROR", "OWNER", "NOTE"]
    for said in ("bad:A", "failed", "no luck", "Ann", "Call her"):
        assert said in lines[1]
    [header, row] = csv.reader(io.StringIO(shell.run("failures", "--format=csv").stdout))
    assert header == list(FAILURES)
    assert (row[1:4], row[6:]) == (["bad:A", "failed", "1"], ["Ann, 4711", "Call her first", "billing nightly"])
    [found] = json.loads(shell.run("failures", "--format=json").stdout)
    assert found == {**kept, "outcome": "failed"}
    shown = shell.run("show", "bad:A").stdout
    for line in ("  tags      billing nightly\n", "  owner     Ann, 4711\n", "  note      Call her first\n"):
        assert line in shown
    assert "options" not in shown


@pytest.mark.parametrize("command", ["jobs", "runs", "queues", "workers", "log", "failures", "agenda"])
def test_each_list_with_a_table_gives_it_to_a_pipe(bike, shell, command):
    shown = shell.read(command, "--format=table")
    assert any(title in shown for title in ("JOB", "QUEUE", "none", "densest minutes"))
