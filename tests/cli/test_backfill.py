"""The command backfill, as a user types it."""

import json

import pytest

from tests.cli.refused import check_refused
from tests.states import unchanged

RANGE = ("--from=2026-01-05", "--to=2026-01-07T12:00")
OCCURRENCE = "load:A@2026-01-05T02:00:00Z"


@pytest.fixture
def bike(bike):
    for jobid, schedule in (("load:A", "0 2 * * *"), ("extract:A", "0 2 * * *"), ("report:A", "AFTER:extract:A")):
        assert bike.set(jobid, schedule)
    return bike


def test_it_is_begun_shown_and_cancelled(bike, shell):
    done = shell.run("backfill", "load:A", *RANGE, "--at-once=2")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "redbike: load:A: 3 occurrences run, 2026-01-05 02:00:00 UTC to 2026-01-07 02:00:00 UTC, 2 at once",
        "redbike: no run of its schedule is known",
    ]
    going = "  backfill  0 of 3 done, 2 begun, 1 left: 2026-01-05 00:00:00 UTC to 2026-01-07 12:00:00 UTC, since"
    assert going in shell.run("show", "load:A").stdout
    assert "  backfill of  load:A\n" in shell.run("show", OCCURRENCE).stdout
    assert shell.run("why", OCCURRENCE).returncode == 0
    assert sorted(row[:3] for row in shell.list_rows("jobs", "load:A@*")) == [
        [f"load:A@2026-01-0{day}T02:00:00Z", "work-A", "TML"] for day in (5, 6)
    ]
    [entry] = [row for row in shell.list_rows("log", "load:A") if row[2] == "backfill"]
    assert entry[4] == "2026-01-05 00:00:00 UTC to 2026-01-07 12:00:00 UTC: 3 occurrences, 2 at once"
    said = "a backfill of 'load:A' is under way: 0 of 3 done, 2 begun, 1 left; redbike cancel ends it"
    check_refused(shell.run("backfill", "load:A", *RANGE), 2, said)
    done = shell.run("cancel", "load:A")
    assert (done.returncode, "cancel has ended its backfill" in done.stderr) == (0, True)
    assert "  last backfill  0 of 3 done, 2 dropped, 1 left: " in shell.run("show", "load:A").stdout
    assert not [jobid for jobid, *_ in bike.get_statuses() if "@" in jobid]
    assert shell.run("fsck").stdout == ""


@pytest.mark.parametrize(
    ("what", "name"),
    [("load:A", "load:A"), ("--queue=work-A", "load:A: its queue work-A"), ("--all", "everything")],
)
@pytest.mark.usefixtures("bike")
def test_it_says_what_of_it_is_paused(shell, what, name):
    shell.run("pause", what, "--reason=moving")
    done = shell.run("backfill", "load:A", *RANGE)
    [said] = [line for line in done.stderr.splitlines() if "paused" in line]
    assert said.startswith(f"redbike: {name} is paused since ")
    assert said.endswith("until somebody resumes it (moving)")


@pytest.mark.parametrize("more", [(), ("--alone",)])
@pytest.mark.usefixtures("bike")
def test_it_says_which_follower_is_paused(shell, more):
    shell.run("pause", "report:A")
    done = shell.run("backfill", "extract:A", *RANGE, *more)
    said = [line for line in done.stderr.splitlines() if "paused" in line]
    assert [each.partition(" since ")[0] for each in said] == ([] if more else ["redbike: report:A is paused"])


def test_a_dry_run_lists_all_with_what_follows_and_changes_nothing(bike, shell):
    with unchanged(bike.store):
        rows = shell.list_rows("backfill", "load:A", *RANGE, "--dry-run", "--format=csv")
        done = shell.run("backfill", "extract:A", *RANGE, "--dry-run", "--format=json")
    assert rows == [[f"load:A@2026-01-0{day}T02:00:00Z", str(1767492000 + 86400 * (day - 4))] for day in (5, 6, 7)]
    assert "with each of them, its followers: report:A" in done.stderr
    found = [row["jobid"] for row in json.loads(done.stdout)]
    assert found == [f"{job}:A@2026-01-0{day}T02:00:00Z" for day in (5, 6, 7) for job in ("extract", "report")]


@pytest.mark.parametrize("more", [(), ("--alone",)])
def test_it_runs_what_follows_unless_it_is_to_run_alone(bike, shell, more):
    done = shell.run("backfill", "extract:A", *RANGE, *more)
    assert (done.returncode, "its followers" in done.stderr) == (0, not more)
    assert (bike.tell(OCCURRENCE.replace("load", "report"))["schedule"] is None) == bool(more)
