"""What answers without a server starts quickly: it imports nothing that takes long. Nothing is timed here."""

import pydoc
import subprocess
import sys
from inspect import signature

import pytest

import redbike
from redbike.cli import entry
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


def call(*commands):
    """Code that runs these commands, one after the other, in one process."""
    return f"from redbike.cli.entry import main; print([main(words) for words in {commands!r}])"


SCHEDULES = ("0 3 * * *", "RRULE:FREQ=DAILY", "EVERY:1h", "AT:2030-01-01T00:00:00Z", "NOW")


@pytest.mark.parametrize(
    ("commands", "more"),
    [
        ([["--version"], ["--help"]], set()),
        ([["next", "--tz=Europe/Berlin", schedule] for schedule in SCHEDULES], {"schedule"}),
    ],
)
def test_what_needs_no_server_imports_nothing_of_servers(tmp_path, commands, more):
    modules, printed = imports(tmp_path, "-c", call(*commands))
    assert printed.endswith(f"{[0] * len(commands)}\n")
    assert modules & HEAVY == set()
    assert rooms(modules) <= ANY_COMMAND | more


def test_words_for_a_shell_and_for_a_slip_import_nothing_of_servers(tmp_path):
    modules, printed = imports(tmp_path, "-c", call(["completion", "words", "--", "s"], ["stauses"], ["set", "--tz"]))
    assert printed.endswith("[0, 2, 2]\n")
    assert "redis" not in modules


def test_the_package_itself_imports_only_its_errors(tmp_path):
    modules, printed = imports(tmp_path, "-c", "import redbike; print(redbike.__version__, redbike.BadSchedule)")
    assert printed
    assert modules & HEAVY == set()
    assert rooms(modules) == {"errors", "text"}


def test_every_command_has_a_function_that_takes_its_arguments_and_the_config_and_returns_a_status():
    for name in entry.COMMANDS:
        taken = signature(entry.import_command(name))
        assert [each.annotation for each in taken.parameters.values()] == [Arguments, Config], name
        assert taken.return_annotation in (int, None), name


def test_every_public_name_is_there_however_it_is_asked_for(tmp_path):
    code = "import redbike\nprint(*dir(redbike))\nfrom redbike import *\nprint(*dir())"
    _, printed = imports(tmp_path, "-c", code)
    of_package, starred = map(str.split, printed.splitlines())
    assert {*redbike.__all__, "__version__", "errors"} <= {*of_package}
    assert sorted(name for name in starred if name[0] != "_" and name != "redbike") == sorted(redbike.__all__)
    told = pydoc.plain(pydoc.render_doc(redbike))
    for name in redbike.__all__:
        assert getattr(redbike, name) is getattr(redbike, name)
        assert name in told
    with pytest.raises(AttributeError, match="module 'redbike' has no attribute 'Nobody'"):
        print(redbike.Nobody)
