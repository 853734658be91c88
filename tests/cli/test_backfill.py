"""The command backfill, as a user types it."""

import json

import pytest

from redbike import Redbike, RoundRobin
from tests.states import dump

RANGE = ("--from=2026-01-05", "--to=2026-01-07T12:00")


@pytest.fixture
def bike(client, server_url):
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    assert bike.set("load:A", "0 2 * * *")
    return bike


def test_it_is_begun_shown_and_cancelled(bike, shell):
    done = shell.run("backfill", "load:A", *RANGE, "--at-once=2")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "redbike: load:A: 3 occurrences run, 2026-01-05 02:00:00 UTC to 2026-01-07 02:00:00 UTC, 2 at once",
        "redbike: no run of its schedule is known",
    ]
    shown = shell.run("show", "load:A").stdout
    assert (
        "  backfill  0 of 3 done, 2 begun, 1 left: 2026-01-05 00:00:00 UTC to 2026-01-07 12:00:00 UTC, since" in shown
    )
    occurrence = "load:A@2026-01-05T02:00:00Z"
    assert "  backfill of  load:A\n" in shell.run("show", occurrence).stdout
    assert shell.run("why", occurrence).returncode == 0
    assert sorted(row[:3] for row in shell.list_rows("jobs", "load:A@*")) == [
        [f"load:A@2026-01-0{day}T02:00:00Z", "work-A", "TML"] for day in (5, 6)
    ]
    [entry] = [row for row in shell.list_rows("log", "load:A") if row[2] == "backfill"]
    assert entry[4] == "2026-01-05 00:00:00 UTC to 2026-01-07 12:00:00 UTC: 3 occurrences, 2 at once"
    again = shell.run("backfill", "load:A", *RANGE)
    assert (again.returncode, again.stderr) == (
        2,
        "redbike: a backfill of 'load:A' is under way: 0 of 3 done, 2 begun, 1 left; redbike cancel ends it\n",
    )
    done = shell.run("cancel", "load:A")
    assert (done.returncode, "its backfill is ended, and its schedule goes on" in done.stderr) == (0, True)
    assert "  last backfill  0 of 3 done, 2 dropped, 1 left: " in shell.run("show", "load:A").stdout
    assert [jobid for jobid, *_ in bike.get_statuses()] == ["load:A"]
    assert shell.run("fsck").stdout == ""


def test_a_dry_run_lists_all_and_changes_nothing(bike, shell):
    before = dump(bike.store)
    rows = shell.list_rows("backfill", "load:A", *RANGE, "--dry-run", "--format=csv")
    assert rows == [[f"load:A@2026-01-0{day}T02:00:00Z", str(1767492000 + 86400 * (day - 4))] for day in (5, 6, 7)]
    found = json.loads(shell.run("backfill", "load:A", *RANGE, "--dry-run", "--format=json").stdout)
    assert [row["jobid"] for row in found] == [row[0] for row in rows]
    assert dump(bike.store) == before


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (
            ("load:A", "--from=2026-01-08", "--to=2026-01-07"),
            2,
            "bad range: it begins at 2026-01-08 00:00:00 UTC, after",
        ),
        (("load:A", "--from=2126-01-08", "--to=2126-01-09"), 2, "bad range: its begin, 2126-01-08 00:00:00 UTC, is to"),
        (
            ("load:A", "--from=2026-01-08T03:00", "--to=2026-01-08T04:00"),
            2,
            "nothing to run: 'load:A' has no occurrence",
        ),
        (("load:A", *RANGE, "--at-once=0"), 2, "bad --at-once '0': 1 to 1000 are allowed"),
        (("load:A", *RANGE, "--at-once=many"), 2, "bad --at-once 'many'"),
        (("load:A", "--from=soon", "--to=now"), 2, "'soon'"),
        (("load:A", *RANGE, "--format=xml"), 2, "bad --format 'xml'"),
        (("load:A", *RANGE[:1]), 2, "--to"),
        (("other:A", *RANGE), 1, "no such job: 'other:A'"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(bike, shell, given, code, said):
    before = dump(bike.store)
    done = shell.run("backfill", *given)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert dump(bike.store) == before
