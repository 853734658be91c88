"""What the command line tells of jobs that follow others, and of groups. What words there are: tests/queries."""

import json
import time

import pytest

GROUP = "the group g, 2 of 3 jobs left, 1 given up: one:A, which is due at "


@pytest.fixture
def bike(bike):
    """With a chain of three, one that waits for two of it, and a group of three, one of which is gone."""
    for jobid, schedule in (
        ("extract:A", "0 3 * * *"),
        ("load:A", "AFTER:extract:A"),
        ("report:A", "AFTER:load:A,extract:A any"),
        ("alarm:A", "AFTER:load:A failed"),
    ):
        assert bike.set(jobid, schedule)
    bike.group("g", [("two:A", "0 3 * * *"), ("gone:A", "AT:2000000000")], then="all:A")
    bike.set("one:A", "AT:2000000000", group_of="g")
    bike.unset("gone:A")
    return bike


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("load:A", "It waits for extract:A, which is due at "),
        ("alarm:A", "It waits for a failure of load:A, which waits for extract:A, which is due at "),
        ("AFTER:extract:A,load:A", "It waits for extract:A, which is due at "),
    ],
)
def test_next_of_a_follower_has_the_due_times_of_its_parents(bike, shell, what, says):
    words, waits, times, *lines = shell.read("next", what, "--count=3").splitlines()
    assert (words[:5], waits[: len(says)]) == ("When ", says)
    ending = "if they fail" if what == "alarm:A" else "when they have ended"
    assert times == f"It is due for these times of its parents, {ending}:"
    assert [line.split("T")[1][:8] for line in lines] == ["03:00:00"] * 3


def test_next_of_a_follower_whose_parents_do_not_go_on_or_are_not_known(bike, shell):
    for schedule, says in ((None, "which is no job."), ("AT:2100000000", "which is due at")):
        bike.set("extract:A", schedule)
        done = shell.run("next", "load:A", "--count=2")
        assert (done.returncode, done.stderr, says in done.stdout) == (0, "redbike: no further runs\n", True)
        assert ("2036-07-18T" in done.stdout) == bool(schedule)
    done = shell.run("next", "AFTER:a", "--url=redis://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (0, "When a has succeeded.\n")
    assert done.stderr.startswith("redbike: its parents are not known: ")


def test_show_has_what_a_job_is_after_and_what_follows_it(bike, shell):
    text = shell.run("show", "load:A").stdout
    for said in ("When extract:A has succeeded.", "It waits for extract:A, which is due at "):
        assert said in text
    assert "  after        extract:A (due at " in text
    assert "  followed by  alarm:A, report:A\n" in text
    assert "Due times of its parents (UTC)" in text
    tree = text.partition("What follows what\n")[2].splitlines()
    assert (tree[0], tree[1][:37]) == ("  load:A", "    after extract:A, which is due at ")
    assert tree[2:] == ["    then alarm:A if it fails", "    then report:A in any case"]
    assert "Next runs (UTC)" in shell.run("show", "extract:A").stdout
    assert not {"follow", "after"} & {*shell.run("show", "two:A").stdout.split()}


def test_next_and_show_list_what_is_due_already_once(bike, shell):
    """No dispatcher has moved it to its queue yet."""
    bike.run("extract:A")
    assert bike.work_one() == "extract:A"
    due = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(bike.tell("load:A")["next_run"]))
    for command in ("next", "show"):
        lines = [line for line in shell.run(command, "load:A").stdout.splitlines() if "+00:00  " in line]
        assert lines[0].strip()[:19] == due
        assert [line.split("T")[1][:8] for line in lines[1:]] == ["03:00:00"] * 4


def test_data_and_lists_have_no_due_time_and_name_who_follows(bike, shell):
    told = json.loads(shell.run("tell", "load:A").stdout)
    assert (told["next_run"], told["waits_for"], told["followers"]) == (None, ["extract:A"], ["alarm:A", "report:A"])
    told = json.loads(shell.run("tell", "all:A").stdout)
    assert told["follows_group"] == {"name": "g", "left": 2, "total": 3, "failed": 0, "dropped": 1}
    assert "followers" not in json.loads(shell.run("tell", "one:A").stdout)
    rows = json.loads(shell.run("jobs", "--format=json").stdout)
    assert {row["jobid"] for row in rows if row["next_run"]} == {"extract:A", "one:A", "two:A"}
    assert json.loads(shell.run("jobs", "--overdue", "--format=json").stdout) == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("why", "all:A"), f"It waits for {GROUP}"),
        (("next", "GROUP:g"), f"Once, when each job of the group g has ended.\nIt waits for {GROUP}"),
        (("next", "GROUP:x"), "No job of the group x is left: who waits for it is due at once."),
        (("show", "all:A"), "waits for  group g (2 of 3 jobs left, 1 given up): one:A, two:A\n"),
        (("show", "all:A"), "    after group g, which has 2 of 3 jobs left, 1 given up\n      after one:A, which"),
        (("schedules", "--full"), "one:A,AT:2000000000,,,,"),
    ],
)
def test_commands_know_groups(bike, shell, command, says):
    shown = shell.read(*command)
    assert (says in shown, "\x1d" in shown) == (True, False), shown


def test_set_notes_a_parent_that_is_no_job_and_a_group_that_has_ended(bike, shell):
    for schedule, said in (
        ("AFTER:extract:A,loed:A", "it waits for 'loed:A', which is no job yet"),
        ("AFTER:x,y", "it waits for 'x', 'y', which are no jobs yet"),
        ("GROUP:import-7", "no job of the group 'import-7' is left, so it is due now"),
    ):
        assert shell.run("set", "late:A", schedule).stderr == f"redbike: late:A: {said}\n"
    assert shell.run("set", "late:A", "AFTER:extract:A").stderr == ""
    assert shell.run("unset", "one:A").stderr == "", "a group is no job that waits for it"
    bike.store.groups.open("g")
    bike.set("late:A", "AFTER:nobody:A")
    done = shell.run("check")
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem: 'late:A': it waits for 'nobody:A', which is no job\n" in done.stdout
    assert "'all:A': it waits for the group 'g', of which more jobs are to be set" in done.stdout


def test_a_long_chain_is_said_to_be_long(bike, shell):
    for number in range(81):
        bike.set(f"c{number}:A", f"AFTER:c{number - 1}:A" if number else "0 3 * * *")
    unknown = "Its due time is unknown: more than 64 levels of jobs come before it.\n"
    assert shell.read("next", "c65:A").endswith(unknown)
    assert shell.run("next", "c64:A").stdout.count("T03:00:00Z") == 5
    assert " ... and in the end for c0:A, which is due at " in shell.run("why", "c80:A").stdout
    assert shell.run("show", "c40:A").stdout.endswith("  and more, further away\n")
    assert "Its due time is unknown: more than" in shell.run("show", "c80:A").stdout


def test_what_follows_what_runs_all_the_time_or_is_in_a_blackout_then(bike, shell):
    bike.set("extract:A", "CONTINUE")
    for what in ("next", "show"):
        shown = shell.read(what, "load:A")
        assert ("What it follows runs all the time, so it is due again" in shown, "in 0" in shown) == (True, False)
    # Far from now, as it would be paused already.
    hour = int(bike.store.timeline.read_clock() // 3600 + 8)
    bike.set("extract:A", f"0 {hour % 24} * * *")
    assert shell.run("pause", "load:A", f"--every=30 {(hour - 1) % 24} * * *", "--for=2h").returncode == 0
    for what in ("next", "show"):
        assert shell.run(what, "load:A").stdout.count("  paused then, until ") == 5, what
    assert "at the earliest. It will be paused then, from " in shell.run("why", "load:A").stdout


def test_the_times_of_a_parent_that_is_paused_then_say_so(bike, shell):
    # Far from now, as it would be paused already.
    hour = int(bike.store.timeline.read_clock() // 3600 + 8)
    bike.set("extract:A", f"0 {hour % 24} * * *")
    bike.pause("extract:A", every=f"30 {(hour - 1) % 24} * * *", lasting="2h")
    bike.pause("alarm:A", every=f"30 {(hour - 1) % 24} * * *", lasting="1h")
    for what in (("next", "load:A"), ("next", "AFTER:load:A"), ("show", "load:A")):
        told = shell.run(*what).stdout
        assert told.count("  extract:A: paused then until ") == 5, what
        assert ", and paused then until " in told
