"""Imports go strictly downwards: the rooms of the house, and the modules in each of them, lowest first."""

import ast
import configparser
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import redbike
from tests.commandline import ROOT

PACKAGE = Path(redbike.__file__).parent
# A room may import from those in the lines above its own, and so may a module within its room.
ROOMS = [
    {"consuming", "durations", "errors", "texts", "words", "zone_names"},
    {"limits", "ping_urls", "schedule", "serving", "processes"},
    {"options"},
    {"config", "conversion", "moving"},
    {"state"},
    {"running"},
    {"working", "keeping"},
    {"commands", "setter", "steering"},
    {"syncing"},
    {"why"},
    {"checking", "watching"},
    {"rehearsing"},
    {"looking", "looping"},
    {"redbike", "async_results"},
    {"asynchronous"},
    {"redbike.__init__"},
    {"testing", "web"},
    {"cli"},
    {"redbike.__main__"},
]
# Those before a ``<`` are below all that follow it.
MODULES = {
    "schedule": """
        bits crontab zones < cron moments rrule < amendments < explain < kinds < forecast parser spread <
        __init__
    """,
    "schedule.rrule": "__init__ rule < days evaluator writing < daily subdaily < recurrence",
    "serving": """
        __init__ binary cluster pools private_folder probe sentinels urls < embedded options refusals < check <
        connection < line
    """,
    "processes": "__init__ forks leaving signals streams watchdog < child outlet < supervisor",
    "conversion": "__init__ instants < crons rules < schedules",
    "moving": """
        __init__ crontab_fields local_system pauses seen vtimezones < calendar rows crontab_lines crontab_units <
        crontab_names events < crontab holidays
    """,
    "state": """
        __init__ history keys records rights run < entries texts < scripts tally < namespace < inspected log <
        agreed gates jobs neighbours questions runs < journal pauses timeline upkeep < archiving coming counts depths
        events overview ranks rewinds takers totals untold workers < paging < past_runs < store
    """,
    "running": """
        __init__ archiving forgetting occurrences own_loops pings schedules timefile wakeup < loop policies < presence
        cancelling requests resuming skipping < dispatcher
    """,
    "working": """
        __init__ batch coroutines cron_policies function_schedules heartbeat run_log telling tracebacks
        worker_class < ends limits loader naming queues runner <
        functions handing_back leaving missing_commands source < batch_runner pool < worker
    """,
    "keeping": "__init__ ahead leftovers < listing < correction gates jobs tags < fsck < repair",
    "commands": """
        environment output process_group < file job_lock < missing reloading start summary < on_failure < worker <
        __init__
    """,
    "steering": "__init__ operator patterns < cancelling gates matching pausing rerunning < facade",
    "syncing": "__init__ changes < comparing < syncer < facade",
    "why": "__init__ situation < now < past < reasons",
    "watching": """
        __init__ calendar counting durations failures glance metrics named place server unusual window < agenda
        health incident < heat report
    """,
    "rehearsing": "__init__ outlook rehearsal < ending < courses < rehearser",
    "checking": "__init__ findings < jobs server settings worker",
    "testing": "clock server worker < simulated < fixture < __init__ plugin",
    "web": """
        background fragments keys previews rendering requests samples selection server snapshot < charts forms
        gate live memory sampling steering strips < drafts orders stream < site < sent < pages < application <
        __init__
    """,
    "web.pages": """
        parameters < agenda failures find incident jobs log overview rehearsal runs setting < act job queues <
        __init__
    """,
    "cli": """
        arguments examples messages new_files progress shells tables usage < bike calendars diagnosis help
        import_crontab rows < chart importing names screen set < load < agenda check completion keep list look
        next run show steer tail top watch web < families < entry < __init__
    """,
}
# They tell the version, which users find in the package.
TELLING = "redbike.cli.entry", "redbike.running.presence", "redbike.watching.metrics"
EXCEPTIONS = {(module, "redbike.__init__") for module in TELLING}
# What is installed with the package, and what of it is imported: the data of time zones are only read, and the objects
# of croniter and dateutil are taken where a program has imported these.
REQUIRED = {
    "croniter": None,
    "docopt-ng": "docopt",
    "python-dateutil": None,
    "redis": "redis",
    "rich": "rich",
    "tzdata": None,
}
# For each extra, what is imported of the packages that it installs, and the module, or the room, that needs it.
EXTRAS = {
    "ics": ({"icalendar"}, "redbike.moving.calendar"),
    "metrics": ({"prometheus_client"}, "redbike.watching.metrics"),
    "web": ({"h11", "jinja2", "markupsafe", "starlette", "uvicorn"}, "redbike.web"),
}
# What another package brings along, whose extra names that.
BROUGHT = {"h11": "uvicorn", "markupsafe": "jinja2"}
# Only pytest imports this module.
PLUGIN, RUNNER = "redbike.testing.plugin", "pytest"

TREES = {
    ".".join(("redbike", *path.relative_to(PACKAGE).with_suffix("").parts)): ast.parse(path.read_text())
    for path in sorted(PACKAGE.rglob("*.py"))
}


def list_imports(module: str) -> Iterator[str]:
    """What it imports: of the package the modules, of others the names."""
    for node in ast.walk(TREES[module]):
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
                yield one if one in TREES else node.module if node.module in TREES else f"{node.module}.__init__"


IMPORTS = {module: {*list_imports(module)} for module in TREES}
# The packages that each of them needs.
FOREIGN = {module: {name.partition(".")[0] for name in names} - {"redbike"} for module, names in IMPORTS.items()}


def place(module: str) -> list[int]:
    """The ranks of the room, and of what is in it down to the module."""
    _, *words = module.split(".")
    first = words[0] if words[0] != "__init__" and words[0] != "__main__" else module
    ranks = [rank(ROOMS, first, module)]
    for depth in range(1, len(words)):
        ranks.append(rank(list_levels(".".join(words[:depth])), words[depth], module))
    return ranks


def list_levels(room: str) -> list[set[str]]:
    """The modules of a room, lowest first."""
    return [{*level.split()} for level in MODULES[room].split("<")]


def rank(lines: list[set[str]], name: str, module: str) -> int:
    found = [number for number, line in enumerate(lines) if name in line]
    assert len(found) == 1, f"{module} has no place"
    return found[0]


def is_below(lower: str, upper: str) -> bool:
    """Whether `upper` may import `lower`: what is in another room, or sub-room, must be in one below."""
    mine, its = upper.split(".")[1:], lower.split(".")[1:]
    shared = 0
    while shared < min(len(mine), len(its)) - 1 and mine[shared] == its[shared]:
        shared += 1
    return place(lower)[shared] < place(upper)[shared]


def test_a_module_imports_only_from_below():
    imports = {(module, name) for module, names in IMPORTS.items() for name in names if name.split(".")[0] == "redbike"}
    assert {each for each in imports - EXCEPTIONS if not is_below(each[1], each[0])} == set()
    assert all(place(module) for module in TREES)


def test_no_room_and_no_module_is_listed_that_is_not_there():
    listed = {f"redbike.{room}.{name}" for room in MODULES for level in list_levels(room) for name in level}
    assert {name for name in listed if name not in TREES and f"{name}.__init__" not in TREES} == set()


def test_schedules_never_see_redis_and_docopt_is_for_the_command_line_alone():
    for module, others in FOREIGN.items():
        if module.startswith("redbike.schedule"):
            assert others <= {*sys.stdlib_module_names}
        assert "docopt" not in others or module.startswith("redbike.cli.")


def test_nothing_is_installed_with_it_that_it_does_not_use():
    others = {*chain(*FOREIGN.values())} - {*sys.stdlib_module_names}
    assert others == {*filter(None, REQUIRED.values()), *chain(*(names for names, _ in EXTRAS.values())), RUNNER}
    assert [name for name, needed in FOREIGN.items() if RUNNER in needed] == [PLUGIN]
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for extra, (packages, room) in EXTRAS.items():
        users = {name for name, needed in FOREIGN.items() if packages & needed}
        assert users, f"nothing needs {extra}"
        assert {name for name in users if not f"{name}.".startswith(f"{room}.")} == set(), "all else works without it"
        installed = setup["options.extras_require"][extra].replace("-", "_")
        assert {name for name in packages if BROUGHT.get(name, name) not in installed} == set()
    required = setup["options"]["install_requires"].split("\n")
    assert {line.split(" ")[0] for line in required if line} == set(REQUIRED)
