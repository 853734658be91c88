"""The command edit, with small scripts as editors, and on a real terminal."""

import csv
import os
import re
import shlex
import signal
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime

import pytest

from redbike import Redbike, RoundRobin
from redbike.config.options import ALL_COLUMNS
from tests.cli.refused import check_refused
from tests.proc import read_state
from tests.states import dump, unchanged
from tests.terminal import Terminal
from tests.waiting import wait_until

HOURLY = "EVERY:1h@0"
LATER = 4e9


@pytest.fixture
def bike(noted):
    noted.set("report:A", HOURLY, retries=3, tags="billing")
    noted.set("backup:A", "0 3 * * *", owner="Ann, 4711", data={"full": True})
    noted.set("paused:A", HOURLY)
    noted.pause("paused:A", until=LATER, reason="the disk")
    noted.pause("paused:A", every="0 2 * * sat", lasting="2h")
    return noted


class Desk:
    """Where somebody edits: `shell` with an editor."""

    def __init__(self, shell, bike, monkeypatch):
        self.shell, self.bike, self.monkeypatch = shell, bike, monkeypatch
        self.wanted = shell.folder / "wanted.csv"

    def use(self, script, variable="EDITOR", words=""):
        """Let this script for sh be the editor; $1 is the file."""
        path = self.shell.folder / "editor.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.shell.environment |= {"EDITOR": "false", variable: f"{words}{shlex.quote(str(path))}"}

    def write(self, change, header=ALL_COLUMNS):
        """Write what is wanted: all rows, after `change`."""
        rows = {cells[0]: dict(zip(ALL_COLUMNS, cells, strict=True)) for cells in self.bike.get_rows()}
        change(rows)
        with open(self.wanted, "w", newline="") as file:
            writer = csv.DictWriter(file, header, restval="", extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows.values())

    def edit(self, change, *arguments):
        self.write(change)
        self.use(f'cat {shlex.quote(str(self.wanted))} > "$1"')
        return self.shell.run("edit", "--yes", *arguments)

    def edit_while(self, act, change):
        """Do the same, and call `act` before the editor has written."""

        def edit(_, path):
            act()
            path.write_text(self.wanted.read_text())

        self.write(change)
        self.use("true")
        self.monkeypatch.setattr("redbike.cli.edit._run_editor", edit)
        return self.shell.run("edit", "--yes")


@pytest.fixture
def desk(shell, bike, monkeypatch):
    shell.environment["TMPDIR"] = str(shell.folder)
    monkeypatch.setattr(tempfile, "tempdir", None)
    return Desk(shell, bike, monkeypatch)


def list_left(shell):
    """The files of edits that are still there."""
    return sorted(shell.folder.glob("redbike-edit-*/*"))


def add(rows):
    rows["new:A"] = dict.fromkeys(ALL_COLUMNS, "") | {"jobid": "new:A", "schedule": "@daily", "tags": "b,A"}


@pytest.mark.parametrize(
    ("change", "printed", "check"),
    [
        (add, ["added,new:A,@daily"], lambda bike: bike.tell("new:A")["options"] == {"tags": "a b"}),
        (
            lambda rows: rows["report:A"].update({"schedule": "@hourly", "retries": "", "owner": "Bob"}),
            [f"changed,report:A,{HOURLY} -> @hourly; owner: default -> Bob; retries: 3 -> default"],
            lambda bike: bike.tell("report:A")["options"] == {"owner": "Bob", "tags": "billing"},
        ),
        (
            lambda rows: rows.pop("backup:A"),
            ["removed,backup:A,0 3 * * *"],
            lambda bike: bike.tell("backup:A")["status"] is None,
        ),
        (
            lambda rows: rows["report:A"].update(jobid="daily:A"),
            ["added,daily:A," + HOURLY, "removed,report:A," + HOURLY],
            lambda bike: bike.tell("daily:A")["options"] == {"retries": 3, "tags": "billing"},
        ),
        (
            lambda rows: rows["paused:A"].update(paused="", blackout=""),
            ["changed,paused:A,resumed; its blackout ended"],
            lambda bike: not bike.tell("paused:A").keys() & {"paused", "blackouts"},
        ),
        (
            lambda rows: rows["report:A"].update(paused='{"reason": "why"}'),
            ["changed,report:A,paused: why"],
            lambda bike: bike.tell("report:A")["paused"]["reason"] == "why",
        ),
    ],
)
def test_what_was_edited_is_shown_done_and_noted(desk, bike, shell, change, printed, check):
    done = desk.edit(change)
    assert (done.returncode, sorted(done.stdout.replace('"', "").splitlines())) == (0, printed), done.stderr
    assert check(bike)
    kinds = [line.partition(",")[0] for line in printed]
    assert done.stderr == f"redbike: {', '.join(f'1 {kind}' for kind in kinds)}\n"
    noted = {(row[2], row[1].partition("@")[0]) for row in shell.list_rows("log")}
    assert {action for action, who in noted if who != "ada"} & {"edit", "unset", "resume"}
    assert (list_left(shell), list(bike.fsck())) == ([], [])


def test_the_file_is_private_has_only_what_is_named_and_the_editor_is_that_of_visual(desk, bike, shell):
    desk.use('stat -c %a "$1" "$(dirname "$1")" > seen; cat "$1" >> seen', "VISUAL", "SOME=1 sh -e ")
    assert shell.run("edit", "--yes", "--tag=billing", "*").returncode == 0
    [row] = bike.get_rows("report:A")
    seen = (shell.folder / "seen").read_text().splitlines()
    assert seen == ["600", "700", ",".join(ALL_COLUMNS), ",".join(row)]
    check_refused(shell.run("edit", "--yes", "gone:*"), 1, "no job matches 'gone:*'")
    check_refused(shell.run("edit", "--yes", "--tag=gone"), 1, "no job has the tag 'gone'")


SATURDAYS = "0 2 * * sat"


@pytest.mark.parametrize(
    ("change", "printed", "schedule", "blackout"),
    [
        (lambda row: row.update(timeout="90"), "timeout: default -> 90", "0 9 * * *", (SATURDAYS, 7200)),
        (
            lambda row: row.update(schedule="0 8 * * *"),
            "0 9 * * * -> CRON_TZ=Europe/Berlin 0 8 * * *",
            "CRON_TZ=Europe/Berlin 0 8 * * *",
            (SATURDAYS, 7200),
        ),
        (
            lambda row: row.update(blackout=row["blackout"].replace("7200", "3600")),
            f"paused every {SATURDAYS} for 1 h",
            "0 9 * * *",
            (SATURDAYS, 3600),
        ),
        (
            lambda row: row.update(blackout=row["blackout"].replace("sat", "sun")),
            "paused every CRON_TZ=Europe/Berlin 0 2 * * sun for 2 h",
            "0 9 * * *",
            ("CRON_TZ=Europe/Berlin 0 2 * * sun", 7200),
        ),
    ],
)
def test_a_schedule_that_nobody_touches_stays_in_its_zone(desk, bike, shell, change, printed, schedule, blackout):
    bike.set("zoned:A", "0 9 * * *")
    bike.pause("zoned:A", every=SATURDAYS, lasting="2h")
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Europe/Berlin\n")
    done = desk.edit(lambda rows: change(rows["zoned:A"]))
    assert (done.returncode, done.stdout) == (0, f"changed,zoned:A,{printed}\n"), done.stderr
    [found] = bike.tell("zoned:A")["blackouts"]
    assert (dict(bike.get_schedules())["zoned:A"], (found["every"], found["seconds"])) == (schedule, blackout)


def test_a_job_with_a_new_id_keeps_the_zone_of_its_schedule(desk, bike, shell):
    bike.pause("backup:A", every=SATURDAYS, lasting="2h")
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Europe/Berlin\n")
    done = desk.edit(lambda rows: rows["backup:A"].update(jobid="moved:A"))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "added,moved:A,CRON_TZ=UTC 0 3 * * *"), done.stderr
    assert [each["every"] for each in bike.tell("moved:A")["blackouts"]] == [SATURDAYS]
    desk.edit(lambda rows: (rows.pop("moved:A"), add(rows), rows["new:A"].update(schedule="0 3 * * *")))
    assert dict(bike.get_schedules())["new:A"] == "CRON_TZ=Europe/Berlin 0 3 * * *"


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("exit 3", 1, ["the editor", "has ended with exit status 3: nothing was changed"]),
        ("kill -TERM $$", 1, ["has ended with SIGTERM: nothing was changed"]),
        ("kill -40 $$", 1, ["has ended with signal 40: nothing was changed"]),
        (': > "$1"', 0, ["the file is empty: nothing was changed"]),
        ('rm "$1"', 0, ["the file is empty: nothing was changed"]),
        ('touch "$1"', 0, ["nothing was changed"]),
    ],
)
def test_an_editor_that_fails_or_changes_nothing_changes_nothing(desk, bike, shell, script, status, words):
    desk.use(script)
    with unchanged(bike.store):
        check_refused(shell.run("edit", "--yes"), status, *words)
    assert list_left(shell) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows["report:A"].update(schedule="every day"), "'report:A': bad cron 'every day'"),
        (lambda rows: rows["report:A"].update(retries="many"), "'report:A': bad retries 'many'"),
        (lambda rows: rows["report:A"].update(jobid="backup:A"), "another row before this one has the same job id"),
        (lambda rows: rows["report:A"].update(jobid=""), "bad job id ''"),
        (lambda rows: rows["report:A"].update(jobid="# x"), "seems to be a comment"),
        (lambda rows: rows["paused:A"].update(paused='{"reason": "x"}'), "'paused:A': edit cannot change a pause"),
        (None, "its first line must be the header"),
    ],
)
def test_a_bad_row_changes_nothing_is_named_and_the_file_is_kept(desk, bike, shell, change, said):
    before = dump(bike.store)
    if change:
        done = desk.edit(change)
    else:
        desk.use('sed -i 1d "$1"')
        done = shell.run("edit", "--yes")
    problem, unchanged, kept = done.stderr.splitlines()
    assert (done.returncode, done.stdout, unchanged) == (2, "", "redbike: nothing was changed")
    assert said in problem
    [left] = list_left(shell)
    assert kept == f"redbike: your edits are in {left}"
    if change:
        assert re.match(r"redbike: line [234]: ", problem)
        assert left.read_text() == desk.wanted.read_text()
    assert dump(bike.store) == before


def test_what_somebody_else_has_changed_meanwhile_is_not_overwritten(desk, bike, shell):
    def change(rows):
        rows["report:A"]["retries"] = "5"
        del rows["backup:A"]
        add(rows)
        rows["paused:A"]["owner"] = "Bob"

    def change_too():
        bike.set("report:A", "@daily")
        bike.unset("backup:A")
        bike.set("new:A", "@hourly")

    done = desk.edit_while(change_too, change)
    assert (done.returncode, done.stdout) == (1, "changed,paused:A,owner: default -> Bob\n"), done.stderr
    *named, counted, kept = done.stderr.splitlines()
    text = "somebody has changed it meanwhile, so it stays as it is now"
    assert sorted(named) == [f"redbike: {jobid}: {text}" for jobid in ("backup:A", "new:A", "report:A")]
    assert (counted, kept) == ("redbike: 1 changed", f"redbike: your edits are in {list_left(shell)[0]}")
    found = dict(bike.get_schedules())
    assert found == {"report:A": "@daily", "new:A": "@hourly", "paused:A": HOURLY}
    assert bike.tell("report:A")["options"]["retries"] == 3


def start_blackout(bike, delay=1):
    start = datetime.fromtimestamp(time.time() + delay, UTC)
    bike.pause("own:A", every=f"DTSTART:{start:%Y%m%dT%H%M%SZ}\\nRRULE:FREQ=DAILY;COUNT=2", lasting="1h")


def is_paused(bike, until=0.0):
    return bike.tell("own:A").get("paused", {}).get("until", 0.0) > until


@pytest.mark.parametrize(
    ("before", "meanwhile", "status"),
    [
        (lambda bike: bike.pause("own:A", until=time.time() + 0.1), lambda bike: not is_paused(bike), 0),
        (start_blackout, is_paused, 0),
        (
            lambda bike: (bike.pause("own:A", until=time.time() + 60), start_blackout(bike)),
            lambda bike: is_paused(bike, time.time() + 600),
            0,
        ),
        (
            lambda bike: (start_blackout(bike), wait_until(lambda: bike.dispatch_due() or is_paused(bike))),
            lambda bike: bike.resume("own:A"),
            0,
        ),
        (lambda bike: bike.set("own:A", "NOW"), lambda bike: bike.work_one() or bike.tell("own:A")["runs"], 0),
        (lambda bike: bike.pause("own:A", until=LATER), lambda bike: bike.resume("own:A"), 1),
        (lambda bike: None, lambda bike: bike.pause("own:A"), 1),
        (lambda bike: start_blackout(bike, 600), lambda bike: bike.resume("own:A", every=True), 1),
    ],
)
def test_what_nobody_has_done_is_no_change_of_somebody_else(desk, bike, before, meanwhile, status):
    bike.set("own:A", HOURLY)
    before(bike)
    found = []

    def act():
        wait_until(lambda: bike.dispatch_due() or meanwhile(bike))
        found.append(bike.tell("own:A"))

    done = desk.edit_while(act, lambda rows: rows["own:A"].update(note="new"))
    assert (done.returncode, "somebody has changed it" in done.stderr) == (status, bool(status)), done.stderr
    now = bike.tell("own:A")
    assert now.get("options") == (None if status else {"note": "new"})
    kept = ("schedule", "status", "paused", "blackouts", "next_run")
    assert [now.get(name) for name in kept] == [found[0].get(name) for name in kept]
    assert list(bike.fsck()) == []


def test_a_one_off_that_has_run_meanwhile_does_not_go_with_its_record(desk, bike):
    bike.set("own:A", "NOW")
    renamed = {"jobid": "new:A"}
    done = desk.edit_while(bike.work_one, lambda rows: rows.update({"new:A": rows.pop("own:A") | renamed}))
    assert (done.returncode, "somebody has changed it" in done.stderr) == (1, True), done.stderr
    assert [run.jobid for run in bike.runs("own:A")] == ["own:A"]


def test_a_one_off_that_is_gone_may_have_been_forgotten(desk, bike):
    bike.set("own:A", "NOW")
    done = desk.edit_while(lambda: bike.unset("own:A"), lambda rows: rows["own:A"].update(note="new"))
    gone = "own:A: it is gone: forget-after has removed it, or somebody has unset it, so it stays as it is now"
    assert (done.returncode, gone in done.stderr) == (1, True), done.stderr
    assert bike.tell("own:A")["status"] is None


def test_a_job_whose_id_looks_like_a_comment_holds_up_nothing(desk, bike, shell):
    bike.set("#a:A", HOURLY)
    done = desk.edit(lambda rows: (rows["report:A"].update(retries="5"), rows["#a:A"].update(retries="5")))
    assert (done.returncode, done.stderr) == (0, "redbike: 2 changed\n")
    assert bike.tell("#a:A")["options"] == {"retries": 5}


def test_a_row_of_a_file_says_so(desk, bike, shell):
    (shell.folder / "jobs.csv").write_text("filed:A,@daily\n")
    assert shell.run("load", "jobs.csv").returncode == 0
    done = desk.edit(lambda rows: rows["filed:A"].update(retries="5"))
    assert (done.returncode, bike.tell("filed:A")["options"]) == (0, {"retries": 5})
    assert f"filed:A is a row of {shell.folder / 'jobs.csv'}: the next load of the group sets it again" in done.stderr


def test_without_a_terminal_it_needs_to_be_told_not_to_ask(desk, bike, shell):
    desk.use("touch edited")
    check_refused(shell.run("edit"), 2, "edit asks before a change", "--yes changes without asking")
    assert not (shell.folder / "edited").exists()
    desk.shell.environment["EDITOR"] = "no-such-editor"
    check_refused(shell.run("edit", "--yes"), 1, "cannot run the editor 'no-such-editor': No such file or directory")
    shell.environment["PATH"] = ""
    del shell.environment["EDITOR"]
    check_refused(shell.run("edit", "--yes"), 2, "no editor is set: name one in the environment variable EDITOR")


class Editing(Terminal):
    """The command on a terminal, which is the controlling one."""

    def __init__(self, shell, *arguments):
        super().__init__()
        self.start(shell.command(arguments), shell.folder, shell.environment)
        self.seen = 0

    def read_until(self, text):
        """Read until it shows this behind what was read before, and return that."""
        wait_until(lambda: text in self.read()[self.seen :])
        before, self.seen = self.seen, len(self.shown)
        return self.shown[before:]

    def interrupt(self):
        """Type Ctrl-C when it waits: just before its call of the system, Python would notice that only after it."""
        wait_until(lambda: read_state(self.process.pid) == "S")
        self.type("\x03")

    def end(self):
        """Read all that is left, and return the exit status."""
        wait_until(lambda: self.read() and self.is_over)
        return self.process.wait()


EDITOR = """
echo begun >> turns
trap 'echo interrupted >> turns' INT
if [ "$(grep -c begun turns)" = 1 ]; then
    echo ready; read line
    sed -i 's/^report:A,EVERY:1h@0/report:A,nonsense/' "$1"
    kill -STOP $$
else
    sed -i 's/^report:A,nonsense/report:A,@daily/; s/^paused:A,EVERY:1h@0/paused:A,@daily/' "$1"
fi
"""


def test_on_a_terminal_it_asks_and_leads_back_to_the_editor(desk, bike, shell):
    desk.use(EDITOR)
    with closing(Editing(shell, "edit", "report:*")) as terminal:
        terminal.read_until("ready")
        terminal.interrupt()
        wait_until(lambda: "interrupted" in (shell.folder / "turns").read_text())
        terminal.type("\n")
        _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "the shell has the terminal while the editor is stopped"
        os.kill(terminal.process.pid, signal.SIGCONT)
        assert "line 2: 'report:A': bad schedule 'nonsense'" in terminal.read_until("Edit it again? [y]es, [n]o: ")
        terminal.type("y\n")
        shown = terminal.read_until("Change that? [y]es, [n]o, [e]dit again: ")
        assert "changed" in shown
        assert "EVERY:1h@0 -> @daily" in re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert dict(bike.get_schedules())["report:A"] == HOURLY
        terminal.type("what?\n")
        terminal.read_until("again: ")
        terminal.type("yes\n")
        assert terminal.end() == 0
        assert dict(bike.get_schedules())["report:A"] == "@daily"
    with closing(Editing(shell, "edit")) as terminal, unchanged(bike.store):
        terminal.read_until("again: ")
        terminal.type("n\n")
        assert terminal.end() == 0
        assert "nothing was changed" in terminal.shown
    assert list_left(shell) == []


def check_kept(shell, said):
    """The edits are kept, and named; return them."""
    [left] = list_left(shell)
    assert f"redbike: your edits are in {left}" in said
    return left.read_text()


BREAKING = """
echo begun >> turns
[ "$(grep -c begun turns)" = 1 ] || exit 1
sed -i 's/^report:A,EVERY:1h@0/report:A,nonsense/' "$1"
"""


def test_what_was_edited_is_kept_if_the_next_editor_fails_or_somebody_interrupts_it(desk, bike, shell):
    desk.use(BREAKING)
    with closing(Editing(shell, "edit")) as terminal, unchanged(bike.store):
        terminal.read_until("Edit it again? [y]es, [n]o: ")
        terminal.type("y\n")
        assert terminal.end() == 1
        assert "report:A,nonsense" in check_kept(shell, terminal.shown)
    list_left(shell)[0].unlink()
    desk.use("sed -i 's/^report:A,EVERY:1h@0/report:A,@daily/' \"$1\"")
    with closing(Editing(shell, "edit")) as terminal, unchanged(bike.store):
        terminal.read_until("Change that? [y]es, [n]o, [e]dit again: ")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "report:A,@daily" in check_kept(shell, terminal.shown)


@pytest.mark.parametrize("is_edited", [True, False])
def test_what_was_edited_is_kept_if_the_server_has_gone_away(own, is_edited):
    own.environment["TMPDIR"] = str(own.folder)
    own.server.start()
    with Redbike(RoundRobin("A"), redis_config=own.server.url) as bike:
        bike.set("report:A", HOURLY)
    change = "s/^report:A,EVERY:1h@0/report:A,@daily/" if is_edited else ""
    Desk(own, None, None).use(f"sed -i '{change}' \"$1\"; kill -9 {own.server.status()['pid']}; exit {not is_edited:d}")
    done = own.run("edit", "--yes")
    assert (done.returncode, "cannot reach Redis" in done.stderr) == (1, is_edited), done.stderr
    if is_edited:
        assert "report:A,@daily" in check_kept(own, done.stderr)
    else:
        assert list_left(own) == []


def test_no_job_goes_if_somebody_has_made_the_row_with_its_new_id_a_bad_one(desk, bike, shell):
    bike.set("other:A", "EVERY:1h")
    desk.use("sed -i 's/^report:A,EVERY:1h@0/daily:A,AFTER:other:A/' \"$1\"")
    with closing(Editing(shell, "edit", "report:A")) as terminal:
        terminal.read_until("Change that? [y]es, [n]o, [e]dit again: ")
        bike.set("other:A", "AFTER:daily:A")
        terminal.type("y\n")
        assert terminal.end() == 2
        said = terminal.shown
    assert "'daily:A': bad schedule" in said
    assert "redbike: report:A: it is not removed, as a row is bad" in said
    assert "redbike: 1 bad" in said
    assert "daily:A,AFTER:other:A" in check_kept(shell, said)
    found = bike.tell("report:A")
    assert (found["schedule"], found["options"]) == (HOURLY, {"retries": 3, "tags": "billing"})


def test_no_job_goes_if_somebody_has_made_one_with_its_new_id(desk, bike, shell):
    done = desk.edit_while(
        lambda: bike.set("daily:A", "@hourly"),
        lambda rows: (rows["report:A"].update(jobid="daily:A"), rows["paused:A"].update(owner="Bob")),
    )
    assert (done.returncode, done.stdout) == (1, "changed,paused:A,owner: default -> Bob\n"), done.stderr
    stays = "so it stays as it is now"
    assert f"redbike: daily:A: somebody has changed it meanwhile, {stays}\n" in done.stderr
    assert f"redbike: report:A: somebody has set the job of a new row meanwhile, {stays}\n" in done.stderr
    assert check_kept(shell, done.stderr) == desk.wanted.read_text()
    assert dict(bike.get_schedules()).items() >= {"report:A": HOURLY, "daily:A": "@hourly"}.items()
