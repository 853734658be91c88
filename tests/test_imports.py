"""Imports go strictly downwards, from room to room of the package."""

import ast
import configparser
import sys
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import redbike
from tests.commandline import ROOT

PACKAGE = Path(redbike.__file__).parent
# The rooms of the house by floors, lowest first. A module imports what is in its own room and on the floors below.
FLOORS = [
    {"errors", "text"},
    {"config", "connection", "process", "schedule"},
    {"importers", "store"},
    {"loop"},
    {"control", "dispatcher", "queries", "worker"},
    {"commands", "facade"},
    {"testing", "web"},
    {"cli"},
]
ENTRANCES = {"__init__", "__main__"}  # to all of it
# What is installed with the package, and what of it is imported: the objects of croniter are taken where a program has
# imported these.
REQUIRED = {
    "croniter": None,
    "docopt-ng": "docopt",
    "python-dateutil": "dateutil",
    "redis": "redis",
    "rich": "rich",
    "tzdata": "tzdata",
}
# For each extra, what is imported of the packages that it installs, and the module, or the room, that needs it.
EXTRAS = {
    "ics": ({"icalendar"}, "redbike.importers.calendar"),
    "metrics": ({"prometheus_client"}, "redbike.queries.metrics"),
    "opentelemetry": ({"opentelemetry"}, "redbike.worker.tracing"),
    "web": ({"h11", "jinja2", "markupsafe", "starlette", "uvicorn"}, "redbike.web"),
}
# What another package brings along, whose extra names that.
BROUGHT = {"h11": "uvicorn", "markupsafe": "jinja2"}
# Only pytest imports this module.
PLUGIN, RUNNER = "redbike.testing.plugin", "pytest"
CHECKERS = "typing_extensions"  # all type checkers have it, and nothing else imports it

# The facade: what a program can ask is in one place.
BIG_CLASS = "redbike.facade.queries", "Queries"


@cache
def parse_all() -> dict[str, ast.Module]:
    """The package by module. Not at import: each process that collects the tests would parse it."""
    return {
        ".".join(("redbike", *path.relative_to(PACKAGE).with_suffix("").parts)): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def list_imports(module: str) -> Iterator[str]:
    """What it imports: of the package the modules, of others the names."""
    trees = parse_all()
    for node in ast.walk(trees[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            assert node.module
            if node.module.partition(".")[0] != "redbike":
                yield node.module
                continue
            for alias in node.names:
                one = f"{node.module}.{alias.name}"
                yield one if one in trees else node.module if node.module in trees else f"{node.module}.__init__"


@cache
def find_imports() -> dict[str, set[str]]:
    return {module: {*list_imports(module)} for module in parse_all()}


def find_foreign() -> dict[str, set[str]]:
    """The packages that each module needs."""
    found = find_imports().items()
    return {module: {name.partition(".")[0] for name in names} - {"redbike"} for module, names in found}


def get_floor(module: str) -> int:
    room = module.split(".")[1]
    if room in ENTRANCES:
        return len(FLOORS)
    found = [number for number, rooms in enumerate(FLOORS) if room in rooms]
    assert len(found) == 1, f"{module} has no room"
    return found[0]


def name_in(room: str, module: str) -> str:
    """The module, or the room within the room that it is in."""
    return ".".join(module.split(".")[: room.count(".") + 2])


def list_rounds(room: str) -> list[str]:
    """What is left of a room when whatever imports nothing of the rest has been taken away, again and again."""
    left: dict[str, set[str]] = {}
    for module, others in find_imports().items():
        if module.startswith(f"{room}."):
            mine = name_in(room, module)
            inside = {name_in(room, other) for other in others if other.startswith(f"{room}.")}
            left.setdefault(mine, set()).update(inside - {mine})
    while done := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in done}
    return sorted(left)


def list_public_methods(node: ast.ClassDef) -> Iterator[str]:
    """The methods that others call, without properties."""
    functions = [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for each in functions:
        if not (each.name.startswith("_") or any("property" in ast.unparse(one) for one in each.decorator_list)):
            yield each.name


def test_a_module_imports_only_from_its_room_and_from_floors_below():
    ours = {
        (module, name) for module, names in find_imports().items() for name in names if name.split(".")[0] == "redbike"
    }
    inside = {each for each in ours if each[0].split(".")[1] == each[1].split(".")[1]}
    assert {each for each in ours - inside if get_floor(each[1]) >= get_floor(each[0])} == set()


def test_no_modules_import_each_other_in_a_circle():
    rooms = {module.rpartition(".")[0] for module in parse_all()} - {"redbike"}
    assert {room: found for room in rooms if (found := list_rounds(room))} == {}


def test_the_listing_of_the_package_is_short():
    entries = {path.stem for path in PACKAGE.iterdir() if path.suffix in (".py", "") and path.stem != "__pycache__"}
    assert entries - ENTRANCES == {room for rooms in FLOORS for room in rooms}
    assert len(entries - ENTRANCES) <= 18


def test_files_functions_and_classes_are_short():
    nodes = [(module, node) for module, tree in parse_all().items() for node in ast.walk(tree)]
    functions = [each for each in nodes if isinstance(each[1], (ast.FunctionDef, ast.AsyncFunctionDef))]
    classes = [each for each in nodes if isinstance(each[1], ast.ClassDef)]
    assert [module for module, tree in parse_all().items() if tree.body and tree.body[-1].end_lineno > 300] == []
    assert [(module, each.name) for module, each in functions if each.end_lineno - each.lineno >= 40] == []
    methods = {(module, each.name): len({*list_public_methods(each)}) for module, each in classes}
    assert {each: number for each, number in methods.items() if number > 15} == {BIG_CLASS: methods[BIG_CLASS]}


def test_schedules_never_see_redis_and_docopt_is_for_the_command_line_alone():
    for module, others in find_foreign().items():
        if module.startswith("redbike.schedule"):
            allowed = {"redbike.schedule.typed_times": "dateutil", "redbike.schedule.zones": "tzdata"}.get(module)
            assert others <= {*sys.stdlib_module_names, allowed}
        assert "docopt" not in others or module.startswith("redbike.cli.")


def test_nothing_is_installed_with_it_that_it_does_not_use():
    others = {*chain(*find_foreign().values())} - {*sys.stdlib_module_names} - {CHECKERS}
    assert [name for name, needed in find_foreign().items() if CHECKERS in needed] == ["redbike.worker.calls"]
    assert others == {*filter(None, REQUIRED.values()), *chain(*(names for names, _ in EXTRAS.values())), RUNNER}
    assert [name for name, needed in find_foreign().items() if RUNNER in needed] == [PLUGIN]
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for extra, (packages, room) in EXTRAS.items():
        users = {name for name, needed in find_foreign().items() if packages & needed}
        assert users, f"nothing needs {extra}"
        assert {name for name in users if not f"{name}.".startswith(f"{room}.")} == set(), "all else works without it"
        installed = setup["options.extras_require"][extra].replace("-", "_")
        assert {name for name in packages if BROUGHT.get(name, name) not in installed} == set()
    required = setup["options"]["install_requires"].split("\n")
    assert {line.split(" ")[0] for line in required if line} == set(REQUIRED)
