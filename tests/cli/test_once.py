"""One-offs from a shell: at, in and now, as a user types them."""

import json
import os
import re
from datetime import UTC, datetime

import pytest

from tests.cli.refused import check_refused
from tests.commandline import Within
from tests.states import unchanged
from tests.waiting import wait_until

SET = re.compile(r"(once/\d{8}T\d{6}Z-[a-z2-7]{8}:shell) (\S+ \S+) UTC\n")
SPEC = "redbike.commands:Commands('')"
NOBODY = f'redbike: no worker runs, so the job waits: start one, such as redbike up "{SPEC}"\n'


@pytest.fixture
def once(shell):
    """A shell in which nobody works yet."""
    shell.environment["TMPDIR"] = str(shell.folder)
    return shell


def add(shell, *words, said=NOBODY, **more):
    """Set a one-off, and return its id and the instant that was printed."""
    done = shell.run(*words, **more)
    found = SET.fullmatch(done.stdout)
    assert (found is not None, done.returncode) == (True, 0), done
    assert done.stderr == said
    return found[1], datetime.fromisoformat(found[2]).replace(tzinfo=UTC).timestamp()


def test_it_runs_with_the_folder_environment_and_umask_of_the_caller(once):
    place = once.folder / "some where"
    place.mkdir()
    own = {**once.environment, "GREETING": "a  b", "TERM": "vt100", "REDBIKE_WEB_TOKEN": "secret"}
    script = 'umask; pwd; echo "$GREETING|$TERM|$REDBIKE_WEB_TOKEN|$1"; echo $REDBIKE_JOBID'
    caller = Within(place, None)
    caller.environment = own
    before = os.umask(0o27)
    try:
        jobid, _ = add(caller, "now", "--", "sh", "-c", script, "x", "-l 'y'")
    finally:
        os.umask(before)
    once.start("work", SPEC)
    wait_until(lambda: once.list_rows("jobs", jobid)[0][2] == "STP")
    lines = ["0027", str(place), "a  b|||-l 'y'", jobid]
    shown = once.run("show", jobid).stdout
    assert "Last output\n" + "".join(f"  {line}\n" for line in lines) in shown
    # Its environment stays out of what people read, and its secrets out of Redis.
    assert ("folder    " in shown, "GREETING=" in shown) == (True, False)
    kept = json.loads(once.run("tell", jobid).stdout)["data"]["env"]
    assert kept["GREETING"] == "a  b"
    assert not {"TERM", "REDBIKE_WEB_TOKEN", "REDBIKE_URL"} & kept.keys()


def test_a_script_is_read_from_standard_input(once):
    jobid, _ = add(once, "now", input="echo one\ncat\necho two; exit 3\n")
    once.start("work", SPEC)
    wait_until(lambda: once.list_rows("jobs", jobid)[0][2] == "DIE")
    assert "Last output\n  one\n  two\n" in once.run("show", jobid).stdout
    assert "exit status 3" in once.run("failures").stdout
    # It is kept, and runs again.
    assert "a new try" in once.run("run", jobid).stderr
    wait_until(lambda: len(once.list_rows("runs", jobid)) == 2)


def test_times(once):
    now = datetime.now(UTC).timestamp()
    _, instant = add(once, "now", "--", "true")
    assert instant == pytest.approx(now, abs=30)
    jobid, instant = add(once, "in", "2h", "--", "true")
    assert instant == pytest.approx(now + 7200, abs=30)
    assert once.list_rows("jobs", jobid)[0][1:3] == ["work-shell", "TML"]
    assert float(once.list_rows("jobs", jobid)[0][4]) == pytest.approx(instant, abs=1)
    _, instant = add(once, "at", "2090-01-02T03:04", "--", "true")
    assert instant == datetime(2090, 1, 2, 3, 4, tzinfo=UTC).timestamp()
    done = once.run("at", "tomorrow 6:00", "--", "true")
    when = SET.fullmatch(done.stdout)[2]
    assert when.endswith(" 06:00:00")
    assert done.stderr == f"redbike: 'tomorrow 6:00' is {when} UTC\n{NOBODY}"


def test_a_run_is_cancelled_with_its_children(once):
    once.start("work", SPEC)
    wait_until(lambda: once.list_rows("workers"))
    (alive := once.folder / "alive").touch()
    script = f"trap 'rm {alive}; exit 1' TERM; echo up; while :; do sleep 0.05; done"
    jobid, _ = add(once, "now", "--", "sh", "-c", script, said="")
    wait_until(lambda: f"{jobid}: up" in once.log())
    assert once.run("cancel", jobid).returncode == 0
    wait_until(lambda: not alive.exists() and once.list_rows("jobs", jobid)[0][2] != "WRK")
    assert once.run("failures").stdout == ""


@pytest.mark.parametrize(
    ("words", "input", "said"),
    [
        (("at", "2001-01-01", "--", "true"), "", "bad time '2001-01-01': 2001-01-01 00:00:00 UTC is past"),
        (("in", "0", "--", "true"), "", "bad duration '0'"),
        (("now", "true"), "", "bad command 'true': put -- before it"),
        (("at", "mon", "9:00", "--", "true"), "", "bad command '9:00': put -- before it, and quotes around a time of"),
        (("now", "--", ""), "", "no command: give one after --"),
        (("now",), " \n", "no command: standard input has no script"),
        (("now",), "x" * 70_000, "bad script b'xxx"),
        (("now", "--", "x" * 70_000), "", "bad data"),
        (("now", "--", "a\udcff"), "", "bad argument 'a\\udcff'"),
        (("set", "once/x:shell", "NOW"), "", "only redbike at, in and now set such ids"),
    ],
)
def test_what_is_refused_changes_nothing(once, bike, words, input, said):
    add(once, "at", "2090-01-01", "--", "true")
    with unchanged(bike.store):
        check_refused(once.run(*words, input=input), 2, said)
