"""What ends a command, and which exit status is no failure: ``success``, ``signal``, ``grace``."""

import os
import re
import shutil
import signal
import subprocess
import threading
from dataclasses import replace

import pytest

from redbike.commands.process_group import ProcessGroup
from redbike.errors import CommandFailed, Overrun
from tests.commands.conftest import a_run, over_when_ready
from tests.durations import SOON_AGAIN, set_lines
from tests.pages import PAGES, find_block
from tests.proc import signal_until_gone
from tests.waiting import wait_until


@pytest.mark.parametrize(("success", "good", "bad"), [("0 1 3-5", [0, 3, 5], [2, 6]), ("1,255", [255], [0, 3])])
def test_a_status_of_success_is_no_failure(work, success, good, bad):
    for status in good:
        assert work(f"sh -c 'exit {status}'", f"success = {success}", a_run(schedule="NOW")) is None
    for status in bad:
        with pytest.raises(CommandFailed, match=f"^exit status {status}$"):
            work(f"sh -c 'exit {status}'", f"success = {success}")


def test_what_is_a_success_pauses_a_job_that_continues_all_the_same(work):
    assert work("sh -c 'exit 75'", "success = 0 75\nbackoff = 7", a_run(schedule="CONTINUE")) == 7
    with pytest.raises(CommandFailed, match="killed by SIGKILL"):
        work("sh -c 'kill -9 $$'", "success = 0-255")


TRAPS = (
    'for name in TERM INT HUP USR1; do trap "echo $name >got; exit" $name; done; '
    "echo >ready; echo ready; while :; do sleep 0.01; done"
)


def test_the_signal_asks_it_to_end(work, commands, tmp_path):
    with over_when_ready(), pytest.raises(Overrun):
        work(TRAPS, "shell = /bin/sh\ncwd = .\ntimeout = 60\nsignal = usr1")
    assert (tmp_path / "got").read_text() == "USR1\n"
    worker = commands("[commands]\na = true\nb = true\n[b]\nsignal = SIGHUP\n")
    assert [each.signal for each in worker._commands.values()] == [signal.SIGTERM, signal.SIGHUP]


def test_grace_is_the_time_until_sigkill(work, commands, monkeypatch):
    given = []
    monkeypatch.setattr(ProcessGroup, "end", lambda group, grace, wait: given.append(grace) or group._kill())
    for options, own in [("", ""), ("grace = 1.5", ""), ("grace = 10m", ""), ("grace = 1h", '{"timeout":0.3}')]:
        with over_when_ready(), pytest.raises(Overrun):
            work("sh -c 'echo ready; exec sleep 300'", options, replace(a_run(), options=own), grace=5.0)
    assert given == [5.0, 1.5, 600.0, 5.0], "the slot of a job with a timeout of its own is not held for longer"
    worker = commands("[commands]\na = true\nb = true\n[a]\ntimeout = 60\n[b]\ntimeout = 10\ngrace = 2m\n")
    assert worker.timeout("work-A") == 130, "it has its grace within the deadline of its run"


@pytest.mark.parametrize(("left", "grace"), [(3600.0, 30.0), (10.0, 15.0)])
@pytest.mark.parametrize("is_early", [False, True])
def test_what_is_cancelled_has_its_grace_but_ends_soon_after_its_deadline(
    commands, as_run, monkeypatch, left, grace, is_early
):
    given, run = [], replace(a_run(seconds=left), options='{"timeout":3600}')
    monkeypatch.setattr(ProcessGroup, "end", lambda group, grace, wait: given.append(grace) or group._kill())
    monkeypatch.setattr("redbike.commands.worker.current_run", lambda: run)
    worker = commands("[commands]\nx = sleep 300\n[x]\ngrace = 30\n")
    worker.grace = 5.0

    def cancel():
        wait_until(lambda: is_early or worker._groups)
        run.cancelled = True
        worker.cancel(run)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    if is_early:
        canceller.join()
    with pytest.raises(CommandFailed, match=r"^it was cancelled$"):
        worker.work(run.jobid)
    canceller.join()
    assert grace - 5 < min(given) <= max(given) <= grace


def test_a_worker_that_is_ended_uses_the_signal_but_not_a_long_grace(jobs):
    (jobs.folder / "commands.ini").write_text(
        f"[commands]\nx = {TRAPS.replace('exit', ':')}\n[x]\nshell = /bin/sh\ncwd = .\nsignal = INT\ngrace = 1h\n"
    )
    jobs.run("set", "x:A", "NOW")
    # The command has the time to write, however busy the machine is, and nothing else ends the worker before.
    times = set_lines(process_group__ABORT_GRACE=5.0, leaving__LONGEST_ABORT=600.0)
    (jobs.folder / "more.py").write_text(f"from redbike.commands import Commands\n{SOON_AGAIN}{times}")
    process = jobs.start("work", "more:Commands('A', 'commands.ini')")
    wait_until((jobs.folder / "ready").exists)
    signal_until_gone(process)
    assert (jobs.folder / "got").read_text() == "INT\n"


# What other programs do: the table of the page

LINES = re.findall(r"^``(.+?\./report)``", PAGES["commands"].read_text(), re.MULTILINE)
SAYS = {
    "nice": ("nice", f": {min(os.nice(0) + 10, 19)}"),
    "ionice": ("ionice", "idle"),
    "setpriv --reuid": ("id -un", "www-data"),
    "setpriv --no": ("grep -o 'NoNewPrivs.*' /proc/self/status", "NoNewPrivs:\t1"),
    "systemd-run": ("echo done", "done"),
    "timeout": ("echo done", "done"),
}


@pytest.mark.parametrize("line", LINES)
def test_the_lines_of_the_page_do_what_it_says(work, tmp_path, caplog, line):
    caplog.set_level("INFO")
    says, shown = next(found for name, found in SAYS.items() if line.startswith(name))
    needs = line.split()[0]
    if not shutil.which(needs) or (needs == "systemd-run" and not os.path.isdir("/run/systemd/system")):
        pytest.skip(f"{needs} is not there")
    if "reuid" in line and os.geteuid():
        pytest.skip("only root can do that")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    (tmp_path / "report").write_text(f"#!/bin/sh\n{says}\n")
    (tmp_path / "report").chmod(0o755)
    work(line, "cwd = .", a_run(schedule="NOW"))
    assert any(shown in text for text in caplog.messages), caplog.messages


def test_the_sections_and_the_script_of_the_page_are_good(commands, tmp_path):
    sections = [find_block("commands", f"[{name}]") for name in ("bill", "sync", "database")]
    commands("[commands]\nbill = true\nsync = true\ndatabase = true\n" + "".join(sections)).timeout("work-A")
    (tmp_path / "hear").write_text(find_block("commands", "#!/bin/sh") + 'echo "$day $customer"\n')
    given = {"REDBIKE_ATTEMPT": "1", "REDBIKE_KEY": "k", "REDBIKE_DUE": "86400", "REDBIKE_DATA": '"ACME"'}
    done = subprocess.run(["sh", tmp_path / "hear"], env=given, capture_output=True, text=True, check=True)
    assert done.stdout == 'try 1 of k\n1970-01-02 "ACME"\n'
