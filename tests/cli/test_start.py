"""What answers without a server starts quickly: it imports nothing that takes long. Nothing is timed here."""

import pydoc
import subprocess
import sys
from inspect import signature

import pytest

import redbike
from redbike.cli import families
from redbike.cli.arguments import Arguments
from redbike.config.file import Config
from tests.commandline import ROOT

HEAVY = {"asyncio", "email", "importlib.metadata", "importlib.resources", "redis", "socket", "ssl", "subprocess"}
ANY_COMMAND = {"cli", "config", "errors", "process", "text"}


def imports(folder, *arguments):
    """The modules that a process with these arguments for Python imports, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line[2].strip() for line in lines}, done.stdout


def rooms(modules):
    return {name.split(".")[1] for name in modules if name.startswith("redbike.")}


@pytest.mark.parametrize("argument", ["--help", pytest.param("--version", marks=pytest.mark.acceptance)])
def test_help_and_version_import_no_more_than_the_command_line(tmp_path, argument):
    modules, printed = imports(tmp_path, "-m", "redbike", argument)
    assert printed
    assert modules & HEAVY == set()
    assert rooms(modules) <= ANY_COMMAND


@pytest.mark.parametrize("arguments", [["completion", "words", "--", "s"], ["stauses"], ["set", "--tz"]])
def test_words_for_a_shell_and_for_a_slip_import_nothing_of_servers(tmp_path, arguments):
    code = f"from redbike.cli.entry import main; print(main({arguments!r}))"
    modules, printed = imports(tmp_path, "-c", code)
    assert printed.split()[-1] == ("0" if arguments[0] == "completion" else "2")
    assert "redis" not in modules


OTHERS = ("RRULE:FREQ=DAILY", "EVERY:1h", "AT:2030-01-01T00:00:00Z", "NOW")


@pytest.mark.parametrize(
    "schedule", ["0 3 * * *", *(pytest.param(schedule, marks=pytest.mark.acceptance) for schedule in OTHERS)]
)
def test_next_of_a_schedule_imports_nothing_of_servers(tmp_path, schedule):
    modules, printed = imports(tmp_path, "-m", "redbike", "next", "--tz=Europe/Berlin", schedule)
    assert printed
    assert modules & HEAVY == set()
    assert rooms(modules) <= ANY_COMMAND | {"schedule"}


def test_the_package_itself_imports_only_its_errors(tmp_path):
    modules, printed = imports(tmp_path, "-c", "import redbike; print(redbike.__version__, redbike.BadSchedule)")
    assert printed
    assert modules & HEAVY == set()
    assert rooms(modules) == {"errors", "text"}
    modules, _ = imports(tmp_path, "-c", "import redbike; redbike.Redbike")
    assert "redis" in modules


def test_every_command_has_a_function_that_takes_its_arguments_and_the_config_and_returns_a_status():
    for name in families.COMMANDS:
        taken = signature(families.import_command(name))
        assert [each.annotation for each in taken.parameters.values()] == [Arguments, Config], name
        assert taken.return_annotation in (int, None), name


def test_every_public_name_is_there_however_it_is_asked_for(tmp_path):
    said = "from redbike import *\nprint(*sorted(name for name in dir() if name[0] != '_'))"
    _, printed = imports(tmp_path, "-c", said)
    assert printed.split() == sorted(redbike.__all__)
    _, printed = imports(tmp_path, "-c", "import redbike; print(*dir(redbike))")
    assert {*redbike.__all__, "__version__", "errors"} <= set(printed.split())
    told = pydoc.plain(pydoc.render_doc(redbike))
    for name in redbike.__all__:
        assert getattr(redbike, name) is getattr(redbike, name)
        assert name in told
    with pytest.raises(AttributeError, match="module 'redbike' has no attribute 'Nobody'"):
        print(redbike.Nobody)
