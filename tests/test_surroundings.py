"""What the tests themselves stand on: commands that are forked, what is inherited, what is left behind."""

import logging
import os
import signal
import subprocess
import sys
import threading

from redbike.connection.embedded import EmbeddedServer
from tests import surroundings
from tests.commandline import FORK_SERVER
from tests.proc import is_gone
from tests.waiting import wait_until


def test_a_forked_command_does_what_a_fresh_one_does(shell):
    arguments = ("tell", "nobody:A")
    shell.environment["REDBIKE_OF_THE_TEST"] = "ä"
    forked = shell.run(*arguments)
    fresh = subprocess.run(
        shell.command(arguments), cwd=shell.folder, env=shell.environment, capture_output=True, text=True, check=False
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_a_forked_command_imports_from_its_folder_and_inherits_what_is_ignored(shell):
    (shell.folder / "jobs.py").write_text("import os, sys\nos.write(1, sys.path[0].encode())\nWorker = 1\n")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert shell.run("work", "jobs:Worker('A')").stdout.startswith(str(shell.folder))
    finally:
        signal.signal(signal.SIGHUP, before)
    process = shell.start("tail")
    process.terminate()
    assert process.wait(60) in (-signal.SIGTERM, 130, 143)


def test_what_a_test_leaves_behind_is_killed(shell):
    script = "import os, time\nif os.fork() == 0:\n    os.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(1000)"
    pids = []
    with surroundings.processes_of("another test", lambda: shell.folder):
        # It shows its name where its environment was.
        server = EmbeddedServer(shell.folder / "data")
        server.start()
        pids.append(server.status()["pid"])
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        pids += [int(process.stdout.readline()), int(process.stdout.readline())]
        process.stdout.close()
        forked = shell.start("tail")
        FORK_SERVER.end_all()
    assert process.wait(60) == forked.wait(60) == -signal.SIGKILL
    wait_until(lambda: all(map(is_gone, pids)))


def test_what_a_worker_wants_to_log_is_logged_before_the_next_test(bike, caplog):
    caplog.set_level(logging.INFO)
    bike.set("job:A", "NOW")
    bike.dispatch_due()
    bike.work_one()
    surroundings.end_run_logs()
    # It waits for a second at most.
    wait_until(lambda: "redbike-run-log" not in [thread.name for thread in threading.enumerate()])
    assert "job:A: failed after" in caplog.text


def test_nothing_that_is_inherited_steers_a_test():
    code = (
        "from tests import surroundings; surroundings.reset(); import os, signal, time\n"
        "print(signal.getsignal(signal.SIGINT).__name__, signal.getsignal(signal.SIGHUP).name, "
        "oct(os.umask(0)), time.tzname[0], [name for name in os.environ if 'REDBIKE' in name])"
    )
    odd = {"REDBIKE_URL": "redis://nowhere", "TZ": "Asia/Kolkata", "LANG": "tr_TR", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["sh", "-c", 'umask 077; trap "" HUP INT; exec "$0" -c "$1"', sys.executable, code],
        cwd=os.path.dirname(os.path.dirname(__file__)),
        env=odd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "default_int_handler SIG_DFL 0o22 UTC []\n"
