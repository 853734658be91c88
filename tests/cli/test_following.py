"""What the command line tells of jobs that follow others."""

import json

import pytest


@pytest.fixture
def bike(bike):
    """With a chain of three, and one that waits for two of it."""
    for jobid, schedule in (
        ("extract:A", "0 3 * * *"),
        ("load:A", "AFTER:extract:A"),
        ("report:A", "AFTER:load:A,extract:A any"),
        ("alarm:A", "AFTER:load:A failed"),
    ):
        assert bike.set(jobid, schedule)
    return bike


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("load:A", "It waits for extract:A, which is due at "),
        ("report:A", "It waits for the end of load:A, which waits for extract:A, which is due at "),
        ("alarm:A", "It waits for a failure of load:A, which waits for extract:A, which is due at "),
        ("AFTER:extract:A,load:A", "It waits for extract:A, which is due at "),
    ],
)
def test_next_of_a_follower_has_the_due_times_of_its_parents(bike, shell, what, says):
    done = shell.run("next", what, "--count=3")
    assert (done.returncode, done.stderr) == (0, "")
    words, waits, times, *lines = done.stdout.splitlines()
    assert words.startswith("When ")
    assert waits.startswith(says)
    ending = "if they fail" if what == "alarm:A" else "when they have ended"
    assert times == f"It is due for these times of its parents, {ending}:"
    assert [line.split("T")[1][:8] for line in lines] == ["03:00:00"] * 3


@pytest.mark.parametrize(
    ("schedule", "says"),
    [(None, "which is no job."), ("STOP", "which is stopped or has run out"), ("AT:2100000000", "which is due at")],
)
def test_next_of_a_follower_without_a_parent_that_goes_on(bike, shell, schedule, says):
    bike.set("extract:A", schedule)
    for what in ("load:A", "AFTER:extract:A"):
        done = shell.run("next", what, "--count=2")
        assert done.returncode == 0
        assert says in done.stdout
        assert done.stdout.count("2036-07-18T") // 2 == bool(schedule and schedule.startswith("AT"))
        assert done.stderr == "redbike: no further runs\n"


def test_next_needs_no_server_for_the_words_of_a_follower(shell):
    done = shell.run("next", "AFTER:a", "--url=redis://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (0, "When a has ended well.\n")
    assert done.stderr.startswith("redbike: its parents are not known: ")


def test_show_has_what_a_job_is_after_and_what_follows_it(bike, shell):
    text = shell.run("show", "load:A").stdout
    assert "When extract:A has ended well." in text
    assert "It waits for extract:A, which is due at " in text
    assert "  after        extract:A (due at " in text
    assert "  followed by  alarm:A, report:A\n" in text
    assert "Due times of its parents (UTC)" in text
    tree = text.partition("What follows what\n")[2].splitlines()
    assert tree[0] == "  load:A"
    assert tree[1].startswith("    after extract:A, which is due at ")
    assert tree[2:] == ["    then alarm:A if it fails", "    then report:A in any case"]
    root = shell.run("show", "extract:A").stdout
    assert "Next runs (UTC)" in root
    assert "      then report:A in any case\n" in root


def test_what_follows_nothing_shows_nothing_of_it(bike, shell):
    bike.set("other:A", "0 3 * * *")
    text = shell.run("show", "other:A").stdout
    assert "follow" not in text
    assert "after" not in text


def test_tell_and_jobs_have_no_due_time_and_name_who_follows(bike, shell):
    told = json.loads(shell.run("tell", "load:A").stdout)
    assert (told["next_run"], told["waits_for"], told["followers"]) == (None, ["extract:A"], ["alarm:A", "report:A"])
    rows = json.loads(shell.run("jobs", "--format=json").stdout)
    assert {row["jobid"]: row["next_run"] is None for row in rows} == {
        "extract:A": False, "load:A": True, "report:A": True, "alarm:A": True
    }  # fmt: skip
    assert json.loads(shell.run("jobs", "--overdue", "--format=json").stdout) == []


def test_set_notes_a_parent_that_is_no_job(bike, shell):
    done = shell.run("set", "late:A", "AFTER:extract:A,loed:A")
    assert (done.returncode, done.stderr) == (0, "redbike: late:A: it waits for 'loed:A', which is no job yet\n")
    done = shell.run("set", "late:A", "AFTER:x,y")
    assert done.stderr == "redbike: late:A: it waits for 'x', 'y', which are no jobs yet\n"
    assert shell.run("set", "late:A", "AFTER:extract:A").stderr == ""
    refused = shell.run("set", "late:A", "AFTER:extract:A", "--after=0")
    assert (refused.returncode, "has no times that could count from it" in refused.stderr) == (2, True)


def test_check_names_who_waits_for_nothing(bike, shell):
    bike.set("lost:A", "AFTER:nobody:A")
    bike.set("late:A", "AFTER:over:A")
    bike.set("over:A", "STOP")
    text = shell.run("check").stdout
    assert "problem: 'lost:A': it waits for 'nobody:A', which is no job\n" in text
    assert "note: 'late:A': it waits for 'over:A', which is stopped or has run out, so it never ends well\n" in text
    assert "load:A" not in text


def test_a_follower_that_never_ran_is_well(bike, shell):
    text = shell.run("health", "load:A", "report:A", "*:A").stdout
    assert "load:A" not in text
    assert "report:A" not in text


def test_a_long_chain_is_said_to_be_long(bike, shell):
    for number in range(81):
        bike.set(f"c{number}:A", f"AFTER:c{number - 1}:A" if number else "0 3 * * *")
    done = shell.run("next", "c65:A")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("It is not known when it is due: more than the 64 that are looked at come before it.\n")
    assert shell.run("next", "c64:A").stdout.count("T03:00:00Z") == 5
    assert shell.run("next", "c80:A").stdout.count(" ... and in the end for others, further up than") == 1
    assert " ... and in the end for c0:A, which is due at " in shell.run("why", "c80:A").stdout
    shown = shell.run("show", "c40:A").stdout
    assert shown.endswith("  and more, further away\n")
    assert "It is not known when it is due: more than" in shell.run("show", "c80:A").stdout


def test_who_follows_what_runs_all_the_time_has_no_times(bike, shell):
    bike.set("always:A", "CONTINUE")
    bike.set("next:A", "AFTER:always:A")
    for what in ("next", "show"):
        done = shell.run(what, "next:A")
        assert "What it follows runs all the time, and so does it" in done.stdout
        assert (done.stdout.count("in 0"), done.stderr) == (0, "")


def test_a_blackout_of_a_follower_is_known_beforehand(bike, shell):
    assert shell.run("pause", "load:A", "--every=30 2 * * *", "--for=2h").returncode == 0
    for what in ("next", "show"):
        assert shell.run(what, "load:A").stdout.count("  paused then, until ") == 5, what
        assert "paused then" not in shell.run(what, "report:A").stdout
    said = shell.run("why", "load:A").stdout
    assert said.startswith("It waits for extract:A, which is due at ")
    assert " 03:00:00 UTC at the earliest. It will be paused then, from " in said
    assert "paused" not in shell.run("why", "report:A").stdout
