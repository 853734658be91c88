"""Files of commands, workers of them, and a line that shows whether the processes of a command still live."""

import os
import select
import tempfile
import time
from unittest.mock import patch

import pytest

import redbike.commands.worker
from redbike.commands import Commands
from redbike.commands.output import Output
from redbike.config.settings import Settings
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.worker.worker import Worker
from tests.cli.conftest import shell as shell
from tests.verbs import set_job
from tests.waiting import wait_until

HOURLY = "EVERY:3600@0.0"
LONG = 30.0  # seconds that no test may come near, however busy the machine is


@pytest.fixture
def commands(tmp_path):
    """Makes workers of a file of commands with this text."""

    def made(text, queues="A"):
        (tmp_path / "commands.ini").write_text(text, encoding="utf-8")
        return Commands(queues, str(tmp_path / "commands.ini"))

    return made


@pytest.fixture
def works(client, prefix, commands):
    """Sets x:A with a schedule, works it by the command `line` with `options` until it waits, and says how it stands.

    `more` is what else the file says.
    """

    def working(line, options="", schedule=HOURLY, settings=None, more=""):
        handler = commands(f"[commands]\nx = {line}\n{more}\n[x]\n{options}\n")
        store = Store(client, prefix, handler.queue_for)
        set_job(store, "x:A", schedule, "now", once=schedule == "NOW")
        worker = Worker(store, handler, settings or Settings())
        assert worker.work_one() == "x:A"
        while worker.work_one():
            pass
        return store.questions.inspect(["x:A"], with_data=True)[0]

    return working


SPEC = "redbike.commands:Commands('A', 'commands.ini')"


@pytest.fixture
def jobs(shell):
    """The command line with a config file that names `SPEC`, whose file is not there yet."""
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\nworker: {SPEC}\n")
    shell.environment["TMPDIR"] = str(shell.folder)
    return shell


@pytest.fixture
def gate(jobs):
    """A FIFO ``limits`` for commands to wait at; those that still wait in the end go on."""
    os.mkfifo(jobs.folder / "limits")
    # Whoever opens it for both needs nobody at the other end.
    limits = os.open(jobs.folder / "limits", os.O_RDWR)
    yield lambda: (jobs.folder / "limits").write_text("go\n")
    os.write(limits, b"\n" * 10)
    os.close(limits)


def dispatch_later(bike, jobid):
    """Dispatch a job as if it was due by now, and return where it was."""
    [state] = bike.store.questions.inspect([jobid])
    assert bike.dispatch_due(state.timeline) == 1
    return state


def read_when_there(path):
    """The text of a file that is complete as soon as it is there."""
    wait_until(path.exists)
    return path.read_text()


def a_run(jobid="x:A", due=1e9, seconds=LONG, schedule="CONTINUE"):
    return Run(jobid, due, "tag", 5.0, 5.0 + seconds, 0, 0, schedule, "work-A")


class OverWhenReady(Output):
    """Its time is over soon after the first line, whatever its deadline is."""

    def read_until_exit(self, deadline):
        def has_line():
            self.read(0.1)
            return b"\n" in self.tail

        wait_until(has_line)
        return super().read_until_exit(time.monotonic() + 0.1)


def over_when_ready():
    """The time of a command is over soon after it has printed a line, however long it takes to come to that."""
    return patch.object(redbike.commands.worker, "Output", OverWhenReady)


@pytest.fixture
def as_run(monkeypatch, tmp_path_factory):
    """Lets a worker that is called by hand have a run; lock files are not in the system's own folder."""
    monkeypatch.setattr(redbike.commands.worker, "current_run", a_run)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("locks")))


@pytest.fixture
def work(commands, as_run, monkeypatch):
    """Works `run` with a `line` that every first part of a job id stands for, and with `options`."""

    def working(line, options="", run=None, grace=LONG):
        run = a_run() if run is None else run
        name = run.jobid.partition(":")[0]
        worker = commands(f"[commands]\n{name} = {line}\n[{name}]\n{options}\n")
        worker.grace = grace
        monkeypatch.setattr(redbike.commands.worker, "current_run", lambda: run)
        return worker.work(run.jobid)

    return working


class Lifeline:
    """A FIFO that the processes under test hold open: it ends when the last of them is gone."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self.handle, select.POLLIN)

    def wait(self):
        """Whether something is written to it in time."""
        return bool(self._poll.poll(LONG * 1000))

    def assert_cut(self):
        """Something was written to it, and those who could write more are gone."""
        content = b""
        while self._poll.poll(5000):
            chunk = os.read(self.handle, 1024)
            if not chunk:
                assert content
                return
            content += chunk
        pytest.fail("a process of the group still lives")


@pytest.fixture
def lifeline(tmp_path):
    line = Lifeline(tmp_path / "lifeline")
    yield line
    os.close(line.handle)
