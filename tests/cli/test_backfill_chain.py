"""What the command line says of a backfill of a job that others follow."""

import json

import pytest

from redbike import Redbike, RoundRobin

DUE = "2026-01-05T02:00:00Z"
RANGE = ("--from=2026-01-05", "--to=2026-01-06T12:00")


@pytest.fixture
def bike(client, server_url):
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    for jobid, schedule in (("extract:A", "0 2 * * *"), ("load:A", "AFTER:extract:A"), ("report:A", "AFTER:load:A")):
        assert bike.set(jobid, schedule)
    return bike


def test_it_names_what_follows_and_lists_it_for_programs(bike, shell):
    done = shell.run("backfill", "extract:A", *RANGE, "--dry-run")
    assert "for each of them, what follows it: load:A and report:A" in done.stderr
    shown = shell.run("backfill", "extract:A", *RANGE, "--dry-run", "--format=json")
    rows = [row["jobid"] for row in json.loads(shown.stdout)]
    days = ("05", "06")
    assert rows == [f"{job}:A@2026-01-{day}T02:00:00Z" for day in days for job in ("extract", "load", "report")]
    assert "backfill" not in bike.tell("extract:A")


@pytest.mark.parametrize(("more", "follows"), [((), True), (("--alone",), False)])
def test_it_runs_what_follows_unless_it_is_to_run_alone(bike, shell, more, follows):
    done = shell.run("backfill", "extract:A", *RANGE, *more)
    assert (done.returncode, "what follows it" in done.stderr) == (0, follows)
    assert (bike.tell(f"report:A@{DUE}")["schedule"] is not None) == follows
