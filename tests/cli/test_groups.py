"""What the command line tells of groups."""

import json

import pytest

from redbike import Redbike, RoundRobin

SAID = "the group g, 2 of 3 jobs left, 1 given up: one:A, which is due at "


@pytest.fixture
def bike(client, server_url):
    """With a group of three, one of which is gone, and two that wait."""
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    bike.group("g", [("two:A", "0 3 * * *"), ("gone:A", "AT:2000000000")], then="report:A")
    bike.set("one:A", "AT:2000000000", group_of="g")
    bike.set("last:A", "AFTER:report:A")
    bike.unset("gone:A")
    return bike


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("why", "report:A"), f"It waits for {SAID}"),
        (("why", "last:A"), "It waits for report:A, which waits for the group g, which has 2 of 3 jobs left"),
        (("next", "report:A"), f"Once, when each job of the group g has ended.\nIt waits for {SAID}"),
        (("next", "GROUP:g"), f"Once, when each job of the group g has ended.\nIt waits for {SAID}"),
        (("next", "GROUP:x"), "No job of the group x is left: who waits for it is due at once."),
        (("show", "report:A"), "waits for    group g (2 of 3 jobs left, 1 given up): one:A, two:A\n"),
        (("show", "report:A"), "    after group g, which has 2 of 3 jobs left, 1 given up\n      after one:A, which"),
        (("show", "last:A"), "  after report:A, which waits for the group g, which has 2 of 3 jobs left"),
        (("schedules", "--full"), "one:A,AT:2000000000,,,,"),
    ],
)
def test_commands_know_groups(bike, shell, command, says):
    done = shell.run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
    assert "\x1d" not in done.stdout


def test_tell_has_what_is_left(bike, shell):
    told = json.loads(shell.run("tell", "report:A").stdout)
    assert told["follows_group"] == {"name": "g", "left": 2, "total": 3, "failed": 0, "dropped": 1}
    assert "waits_for" not in told
    assert "followers" not in json.loads(shell.run("tell", "one:A").stdout)
    assert shell.run("unset", "one:A").stderr == "", "a group is no job that waits for it"


def test_set_says_that_a_group_has_ended(shell, client):
    done = shell.run("set", "report:A", "GROUP:import-7")
    said = "redbike: report:A: no job of the group 'import-7' is left, so it is due now\n"
    assert (done.returncode, done.stderr) == (0, said)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("set", "job:A", "GROUP:"), "bad schedule 'GROUP:': the name of a group is missing"),
        (("set", "job:A", "NOW", "--group-of="), "bad group-of '': the name of a group is missing"),
        (("set", "job:A", "NOW", "--group-of=a\tb"), "bad group-of 'a\\tb': control characters, and blanks"),
        (("set", "job:A", "GROUP:g", "--after=5"), "bad --after '5': GROUP:g has no times"),
        (("set", "one:A", "GROUP:g"), "the job would wait for itself: one:A after group g after one:A"),
        (("set", "report:A", "GROUP:g", "--group-of=g"), "the job would wait for itself: report:A after group g after"),
        (("set", "other:A", "AFTER:last:A", "--group-of=g"), "other:A after last:A after report:A after group g after"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(bike, shell, command, why):
    before = shell.run("schedules", "--full").stdout
    done = shell.run(*command)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert why in done.stderr
    assert shell.run("schedules", "--full").stdout == before


def test_check_names_a_group_that_is_open(bike, shell):
    bike.store.groups.open("g")
    done = shell.run("check")
    assert "'report:A': it waits for the group 'g', of which more jobs are to be set" in done.stdout
