"""`redbike load`: what it prints of a file that differs from what is stored, to whom, and how it ends."""

import json
import os
import re
import signal
from contextlib import suppress

from tests.cli.refused import check_refused
from tests.commandline import Shell, memory_file, read
from tests.terminal import COLOUR, run_on_terminal
from tests.waiting import wait_until

HOURLY = "EVERY:1h@0"


def write(shell: Shell, *rows: str) -> None:
    (shell.folder / "jobs.csv").write_text("".join(f"{row}\n" for row in rows))


def test_it_prints_what_differs_as_csv_or_json_and_counts_the_rest(shell):
    write(shell, f"a:A,{HOURLY}", f"b:A,{HOURLY}", f"c:A,{HOURLY}")
    dry = json.loads(shell.run("load", "jobs.csv", "--format=json", "--dry-run").stdout)
    assert dry == [{"difference": "added", "jobid": f"{name}:A", "detail": HOURLY} for name in "abc"]
    done = shell.run("load", "jobs.csv")
    assert (done.returncode, done.stderr) == (0, "redbike: jobs.csv: 3 added\n")
    assert done.stdout == f"added,a:A,{HOURLY}\nadded,b:A,{HOURLY}\nadded,c:A,{HOURLY}\n"
    assert json.loads(shell.run("load", "jobs.csv", "--format=json").stdout) == []
    # A job says whose row it is, also when it is changed by hand.
    path = str(shell.folder / "jobs.csv")
    assert json.loads(shell.run("tell", "a:A").stdout)["group"] == path
    assert ["group", path] in [line.split() for line in shell.run("show", "a:A").stdout.splitlines()]
    write(shell, f"a:A,{HOURLY}", "b:A,EVERY:2h@0", "d:A,whenever")
    wished = shell.run("load", "jobs.csv", "--prune", "--dry-run")
    done = shell.run("load", "jobs.csv", "--prune")
    assert wished.stdout == done.stdout == f"changed,b:A,{HOURLY} -> EVERY:2h@0\nremoved,c:A,{HOURLY}\n"
    bad = "redbike: jobs.csv line 3: 'd:A': bad schedule 'whenever': no keyword, cron expression or rule\n"
    summary = "redbike: jobs.csv: 1 changed, 1 unchanged, 1 removed, 1 bad"
    assert (done.returncode, done.stderr) == (2, f"{bad}{summary}\n")
    assert (wished.returncode, wished.stderr) == (2, f"{bad}{summary}; nothing was changed\n")
    said = f" is a row of {path}: "
    assert shell.run("unset", "b:A").stderr.startswith(f"redbike: b:A{said}")
    assert f"a:A{said}" in shell.run("set", "a:A", "EVERY:2h@0").stderr
    assert said not in shell.run("set", "b:A", "EVERY:2h@0").stderr


def test_neither_a_reader_that_goes_away_nor_a_full_disk_ends_it_half_way(shell):
    write(shell, *(f"{n}:A,{HOURLY}" for n in range(3000)))
    reader, writer = os.pipe()
    with open(reader) as printed, memory_file() as said, open(os.devnull) as null:
        process = shell.spawn(("load", "jobs.csv"), null.fileno(), writer, said)
        os.close(writer)
        assert printed.readline() == f"added,0:A,{HOURLY}\n"
        printed.close()
        process.wait(60)
        assert read(said) == "redbike: jobs.csv: 3000 added\n"
    assert len(shell.run("schedules").stdout.splitlines()) == 3000
    write(shell, *(f"{n}:A,EVERY:2h@0" for n in range(3000)))
    with open("/dev/full", "w") as full, memory_file() as said, open(os.devnull) as null:
        assert shell.spawn(("load", "jobs.csv"), null.fileno(), full.fileno(), said).wait(60) == 1
        told = "redbike: jobs.csv: 3000 changed\nredbike: cannot write the output: No space left on device\n"
        assert read(said) == told
    assert shell.run("schedules").stdout.count(",EVERY:2h@0\n") == 3000


def test_ctrl_c_says_how_far_it_came(shell):
    os.mkfifo(shell.folder / "jobs.csv")
    load = shell.start("load", "jobs.csv")
    with open(shell.folder / "jobs.csv", "wb", buffering=0) as rows:
        rows.write("".join(f"{number}:A,{HOURLY}\n" for number in range(2000)).encode())
        # When the second 500 rows are there, it has counted the first ones.
        wait_until(lambda: shell.run("tell", "999:A").returncode == 0)
        load.send_signal(signal.SIGINT)
        with suppress(BrokenPipeError):
            # A signal that comes just before a program begins to read does not end the read.
            rows.write(f"last:A,{HOURLY}\n".encode())
        assert load.wait(timeout=60) == 130
    found = re.search(r"^redbike: jobs\.csv: (\d+) added; interrupted$", shell.log(), re.MULTILINE)
    assert len(shell.run("schedules").stdout.splitlines()) >= int(found[1]) >= 500
    assert "Traceback" not in shell.log()


def test_on_a_terminal_it_is_a_table_of_the_first_of_each_kind(shell):
    write(shell, *(f"{n}:A,{HOURLY}" for n in range(70)), f"z:A,{HOURLY}")
    assert COLOUR.sub("", run_on_terminal(shell, "load", "jobs.csv")).splitlines()[1:] == [
        *(f"added  {n}:A   {HOURLY}" for n in range(10)),
        *(f"added  {n}:A  {HOURLY}" for n in range(10, 50)),
        "21 more: --format=csv prints them",
        "redbike: jobs.csv: 71 added",
    ]
    write(shell, *(f"{n}:A,{HOURLY}" for n in range(70)))
    shown = COLOUR.sub("", run_on_terminal(shell, "load", "jobs.csv", "--prune")).splitlines()
    summary = ["redbike:", "jobs.csv:", "70", "unchanged,", "1", "removed"]
    assert [line.split() for line in shown] == [["JOB", "WHAT"], ["removed", "z:A", HOURLY], summary]
    # A long file shows how far it is.
    write(shell, *(f"{n:0400d}:A,{HOURLY}" for n in range(2500)))
    shown = run_on_terminal(shell, "load", "jobs.csv", "--dry-run")
    assert ("jobs" in shown, "%" in shown) == (True, True)
    assert shown.endswith("redbike: jobs.csv: 2500 added; nothing was changed\n")


def test_what_is_pruned_and_taken_over_is_refused_in_one_line_unless_that_is_meant(shell):
    rows = f"a:A,{HOURLY}\nb:A,{HOURLY}\n"
    assert shell.run("load", "-", "--group=x", input=rows).returncode == 0
    done = shell.run("load", "-", "--prune", input=rows)
    check_refused(done, 2, "nothing can be pruned without a group")
    assert shell.run("load", "-", "--group=", input="").returncode == 2
    done = shell.run("load", "-", "--prune", "--group=x", input=f"a:A,{HOURLY}\n")
    assert (done.returncode, done.stdout) == (0, f"removed,b:A,{HOURLY}\n")
    write(shell, "a:A,EVERY:2h@0")
    done = shell.run("load", "jobs.csv", "--group=y", "--prune")
    assert (done.returncode, done.stdout) == (2, "")
    said = "'a:A': it is a row of the group 'x', not of 'y': --take (take=True) takes it over"
    assert done.stderr == f"redbike: jobs.csv line 1: {said}\nredbike: jobs.csv: 1 bad\n"
    done = shell.run("load", "jobs.csv", "--group=y", "--take")
    assert (done.returncode, done.stdout) == (0, f"changed,a:A,{HOURLY} -> EVERY:2h@0; group: x -> y\n")
    write(shell)
    why = "no job is removed: 1 of the 1 jobs of the group 'y' have no row here"
    refused = f"redbike: jobs.csv: {why}; --prune-all (prune_all=True) removes them anyway\n"
    done = shell.run("load", "jobs.csv", "--group=y", "--prune")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{refused}redbike: jobs.csv: no jobs\n")
    done = shell.run("load", "jobs.csv", "--group=y", "--prune", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "removed,a:A,EVERY:2h@0\n")
    done = shell.run("load", "jobs.csv", "--group=y", "--prune-all")
    assert (done.returncode, done.stdout) == (0, "removed,a:A,EVERY:2h@0\n")


def test_rows_of_no_file_that_change_those_of_one_say_so(shell):
    write(shell, f"a:A,{HOURLY}", f"b:A,{HOURLY}", f"c:A,{HOURLY}")
    assert shell.run("load", "jobs.csv").returncode == 0
    path, daily = shell.folder / "jobs.csv", "EVERY:1d@0"
    again = "the next load of the group sets"
    both = f"redbike: standard input: b:A and 1 more are rows of {path}: {again} them again\n"
    rows = f"a:A,{HOURLY}\nb:A,{daily}\nc:A,{daily}\nnew:A,{daily}\n"
    summary = "redbike: standard input: 1 added, 2 changed, 1 unchanged"
    assert shell.run("load", "-", "--dry-run", input=rows).stderr == f"{both}{summary}; nothing was changed\n"
    assert shell.run("load", "-", input=rows).stderr == f"{both}{summary}\n"
    done = shell.run("load", "-", input=f"a:A,{daily}\n")
    one = f"redbike: standard input: a:A is a row of {path}: {again} it again, so change the row, too\n"
    assert (done.returncode, done.stderr) == (0, f"{one}redbike: standard input: 1 changed\n")
    # A backup is restored: all are rows of the file still.
    assert shell.run("load", "jobs.csv").stderr == "redbike: jobs.csv: 3 changed\n"
