"""Redbike's commands log what they do, whatever the program of the jobs does with `logging`; each line once."""

import os
import signal
import subprocess
import sys

import pytest

from tests.proc import worker_of
from tests.waiting import wait_until

WORKER = """
import logging.config
from redbike import Jobs

def configure():
    {configure}

{call}
jobs = Jobs(startup={startup})

@jobs.job("bad", every="1d")
def fail():
    raise ValueError("it broke")
"""
HANDLER = (
    '"formatters": {"f": {"format": "OWN %(levelname)s %(name)s %(message)s"}}, '
    '"handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}}, '
)
OURS, THEIRS = "Z ERROR bad: ValueError: it broke", "OWN ERROR redbike.worker bad: ValueError: it broke"
INI = (
    "[loggers]\nkeys=root\n[handlers]\nkeys=h\n[formatters]\nkeys=f\n[logger_root]\nlevel=INFO\nhandlers=h\n"
    "[handler_h]\nclass=StreamHandler\nformatter=f\nargs=(sys.stderr,)\n"
    "[formatter_f]\nformat=OWN %(levelname)s %(name)s %(message)s\n"
)


def begin(shell, configure, hook):
    """Begin a dispatcher and a worker of a program that configures `logging`, and wait for the failure of its job."""
    hooks = {"module": ("configure()", "None"), "startup": ("", "configure")}
    call, startup = hooks[hook]
    (shell.folder / "logs.ini").write_text(INI)
    (shell.folder / "jobs.py").write_text(WORKER.format(configure=configure, call=call, startup=startup))
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:jobs\n")
    shell.start("dispatch", log="dispatcher")
    shell.start("work")
    shell.run("set", "bad", "NOW")
    wait_until(lambda: "bad: failed after" in shell.log())


@pytest.mark.parametrize("hook", ["module", "startup"])
@pytest.mark.parametrize(
    ("config", "line"),
    [
        ('{"version": 1}', OURS),
        ('{"version": 1, "root": {"level": "INFO"}}', OURS),
        ('{"version": 1, "root": {"handlers": []}, "loggers": {"redbike.worker": {"level": "INFO"}}}', OURS),
        ('{"version": 1, ' + HANDLER + '"root": {"handlers": ["h"], "level": "INFO"}}', THEIRS),
        (
            '{"version": 1, ' + HANDLER + '"root": {"level": "INFO"}, "loggers": {"redbike": {"handlers": ["h"]}}}',
            THEIRS,
        ),
        (
            '{"version": 1, ' + HANDLER + '"loggers": {"redbike": {"handlers": ["h"], "propagate": False}}}',
            THEIRS,
        ),
    ],
)
def test_a_config_of_logging_does_not_silence_a_worker_and_each_line_is_there_once(shell, config, line, hook):
    begin(shell, f"logging.config.dictConfig({config})", hook)
    assert shell.log().count("bad: ValueError: it broke") == 1
    assert line in shell.log()
    assert shell.log().count("Traceback (most recent call last):\n") == 1


@pytest.mark.parametrize(
    ("configure", "line"),
    [
        ("logging.config.dictConfig({'version': 1})", "Z INFO dispatches the prefix"),
        ("logging.config.fileConfig('logs.ini')", "OWN INFO redbike dispatches the prefix"),
    ],
)
def test_nor_a_dispatcher(shell, configure, line):
    begin(shell, configure, "module")
    # The worker may have been faster: it needs no dispatcher for a job that is due.
    wait_until(lambda: "dispatches the prefix" in shell.log("dispatcher"))
    assert shell.log("dispatcher").count("dispatches the prefix") == 1
    assert line in shell.log("dispatcher")


def test_a_startup_that_fails_says_so_whatever_it_has_configured(shell):
    configure = "logging.config.dictConfig({'version': 1}); raise OSError('no database')"
    (shell.folder / "jobs.py").write_text(WORKER.format(configure=configure, call="", startup="configure"))
    assert shell.start("work", "jobs:jobs").wait(60) == 1
    assert "Z ERROR startup() of the worker class fails\n" in shell.log()


ROTATING = (
    '"handlers": {"file": {"class": "logging.handlers.RotatingFileHandler", "filename": "own", "maxBytes": 100000}, '
    '"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}}'
)


def test_up_writes_to_the_file_of_the_program_too(shell):
    configure = f'logging.config.dictConfig({{"version": 1, {ROTATING}, "root": {{"handlers": ["file", "out"]}}}})'
    (shell.folder / "jobs.py").write_text(WORKER.format(configure=configure, call="configure()", startup="None"))
    up = shell.start("up", "jobs:jobs")
    wait_until(lambda: "works work-bad" in shell.log())
    os.kill(worker_of(up.pid), signal.SIGKILL)
    line = "work-1 was killed by SIGKILL; it is started again"
    wait_until(lambda: line in shell.log("own") and line in shell.log())
    assert shell.log().count(line) == 1
    assert "Logging error" not in shell.log()


def test_a_program_that_embeds_redbike_decides_for_itself(tmp_path):
    (tmp_path / "jobs.py").write_text(WORKER.format(configure="pass", call="", startup="None"))
    program = (
        "import logging.config\n"
        "from redbike import log\n"
        "from redbike.worker.loader import load_worker\n"
        "logging.config.dictConfig({'version': 1, 'root': {'level': 'INFO'}})\n"
        "load_worker('jobs:jobs')\n"
        "print(log.disabled, logging.getLogger().handlers)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True []\n", "")
