"""Imports go strictly downwards: the layers of the house, lowest first."""

import ast
import configparser
import sys
from pathlib import Path

import pytest

import redbike
from tests.commandline import ROOT

PACKAGE = Path(redbike.__file__).parent
LAYERS = [
    {"errors", "signals", "streams", "supervised", "texts"},
    {"keys", "records", "masks", "zones", "config", "timefile", "tracebacks", "rows", "terminal"},
    {"cron", "rule", "outlet", "forks", "worker_class", "process_group", "command_file", "command_output"},
    {"job_lock"},
    {"binary", "private_folder", "probe", "options"},
    {"server"},
    {"days", "evaluator", "coroutines"},
    {"walls", "elapsed"},
    {"rrule"},
    {"schedule", "connection", "server_check", "rotation"},
    {"line"},
    {"scripts"},
    {"store", "explain", "upcoming", "usage"},
    {"loop", "outcome", "leftovers"},
    {"batch", "heartbeat", "dispatcher", "fsck", "performer"},
    {"worker", "repair"},
    {"commands", "supervisor"},
    {"redbike"},
    {"cli"},
    {"__init__", "__main__"},
]
# The version of the package is in __init__, which imports the facade for its users.
# What is installed with the package, and what of it is imported: the data of time zones are only read, and croniter and
# dateutil are there to check its answers with.
REQUIRED = {"croniter": None, "docopt-ng": "docopt", "python-dateutil": None, "redis": "redis", "tzdata": None}
EXCEPTIONS = {("cli", "__init__")}
TALKING = {"line", "scripts", "connection", "server", "server_check"}  # to Redis
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py"))


def imported(module: str) -> set[str]:
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "redbike":
            name = node.module.partition(".")[2]
            found |= {name} if name else {alias.name if alias.name in MODULES else "__init__" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("redbike.")}
    return found


def layer(module: str) -> int:
    return next(number for number, modules in enumerate(LAYERS) if module in modules)


def test_every_module_has_its_layer():
    placed = {module for modules in LAYERS for module in modules}
    assert set(MODULES) <= placed


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_below(module):
    upwards = {name for name in imported(module) if layer(name) >= layer(module) and (module, name) not in EXCEPTIONS}
    assert upwards == set()


def test_schedules_never_see_redis_and_docopt_is_for_the_command_line_alone():
    for module in MODULES:
        text = (PACKAGE / f"{module}.py").read_text()
        if layer(module) <= layer("schedule") and module not in TALKING:
            assert "import redis" not in text
        if module != "cli":
            assert "docopt" not in text


def test_nothing_is_installed_with_it_that_it_does_not_use():
    trees = [ast.parse((PACKAGE / f"{module}.py").read_text()) for module in MODULES]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in names} - {"redbike", *sys.stdlib_module_names}
    assert others == set(filter(None, REQUIRED.values()))
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = setup["options"]["install_requires"].split("\n")
    assert {line.split(" ")[0] for line in required if line} == set(REQUIRED)
