"""The users of docs/security.rst may run each command of each script that a process of their role runs.

A command that only one branch of a script calls is denied in the middle of a run, and ends the process. So which
scripts a role runs is read from the calls in its code, and which commands these call from their texts.
"""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
from redis.commands.core import DataAccessCommands

import redbike
from redbike.store import rights, store
from redbike.store.lua_loader import load_all, split_statements

PACKAGE = Path(redbike.__file__).parent
SCRIPTS = load_all()
# The parts of a store by their names, such as `timeline`.
PARTS = dict(re.findall(r"self\.(\w+) = (\w+)\(namespace", Path(store.__file__).read_text()))
SENDERS = ("run", "pack", "Call")  # what is given the name of a script first
FOLDERS = {
    "dispatcher": ["dispatcher"],
    "worker": ["worker"],
    "client": ["control", "queries", "maintenance", "facade", "cli", "web", "store/inspection"],
}
# What a call in the code of a role leads to besides, if there are several shards: see `store.sharded.table`.
BEHIND = {"dispatcher": [], "worker": ["quotas"], "client": ["quotas", "grouping", "linking", "steering", "mail"]}
# Scripts that run without a name of a part before the name of a method.
BESIDES = {
    "dispatcher": {"halt", "missing_rights"},
    "worker": {"find_order", "halt", "missing_rights", "save"},
    "client": {"agree", "halt", "relocate"},
}
FSCK = {"sismember", "persist", "lrem", "psetex", "zscan", "sscan", "scan"}
MOVING = {"rename", "unlink"}  # `shards move`
GIVEN = {
    "dispatcher": {*rights.DISPATCHER.split(), *rights.ALERTING.split(), *rights.SHARDED.split(), rights.PUBLISHING},
    "worker": {*rights.WORKER.split(), *rights.ALERTING.split(), *rights.SHARDED.split(), rights.PUBLISHING},
    "client": {*rights.CLIENT.split(), *rights.SHARDED.split(), rights.PUBLISHING, *FSCK, *MOVING},
}
# Commands of a script in branches that the role never reaches.
NEVER = {
    ("dispatcher", "halt"): {"set"},  # it passes a HALT on, and gives none
    ("worker", "halt"): {"zremrangebyrank"},  # as above
    ("dispatcher", "inspect"): {"sismember"},  # only fsck looks for jobs in lists
}

OTHER_WORDS = {"digest", "expire", "watch"}  # names of commands that the store uses for something else


def name_of(node):
    """The last name of `a.b` or `a`, without a leading underscore."""
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")).removeprefix("_")


@cache
def list_verbs(part):
    """The scripts that each method of a part of the store runs, also by way of others of its file."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(getattr(store, PARTS[part]))))
    known = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def follow(name, seen):
        seen.add(name)
        for node in ast.walk(known[name]):
            if isinstance(node, ast.Call) and name_of(node.func) in SENDERS and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value
            is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            called = node.attr if is_own else node.func.id if is_call_of_function(node) else ""
            if called in known and called not in seen:
                yield from follow(called, seen)

    return {name: set(follow(name, set())) for name in known}


def is_call_of_function(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def list_files(role):
    """The files of a role, with those of `loop` and `store.sharded` that they import."""
    left = [path for folder in FOLDERS[role] for path in (PACKAGE / folder).rglob("*.py")]
    left += [PACKAGE / "store" / "sharded" / f"{name}.py" for name in BEHIND[role]]
    found = set()
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            for name in re.findall(r"^from redbike\.((?:loop|store\.sharded)\.[\w.]+) import", path.read_text(), re.M):
                if name != "store.sharded.store":
                    left.append(PACKAGE / f"{name.replace('.', '/')}.py")
    return [path for path in found if path.exists()]


@cache
def list_scripts(role):
    """The scripts that a process of a role may run."""
    found = set(BESIDES[role])
    for path in list_files(role):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and (part := name_of(node.value)) in PARTS:
                found |= list_verbs(part).get(node.attr, set())
    return found


def list_commands(verb, role):
    """The commands that a script calls. Only clients note changes in the log of what people do."""
    code = re.sub("--.*", "", SCRIPTS[verb].text)
    parts = [part for part in split_statements(code) if role == "client" or not part.startswith("local log_change")]
    calls = re.findall(r"\b(?:call|change)\(\s*([^,()]+)", "".join(parts))
    return {word.lower() for first in calls for word in re.findall("'([A-Z]+)'", first)}


@pytest.mark.parametrize("role", FOLDERS)
def test_a_role_may_run_each_command_of_its_scripts(role):
    commands = {verb: list_commands(verb, role) - NEVER.get((role, verb), set()) for verb in list_scripts(role)}
    lacking = {verb: sorted(needed - GIVEN[role]) for verb, needed in commands.items() if needed - GIVEN[role]}
    assert lacking == {}


def list_own_commands():
    """The commands that the store sends without a script: as a name that is a text, or as a method of a client."""
    known = {name for name in dir(DataAccessCommands) if not name.startswith("_")}
    for path in (PACKAGE / "store").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_method = isinstance(node, ast.Attribute) and name_of(node.value) in ("client", "pipeline")
            word = node.attr if is_method else node.value if isinstance(node, ast.Constant) else None
            if isinstance(word, str) and word in known - OTHER_WORDS:
                yield "del" if word == "delete" else word.removesuffix("_iter")


def test_somebody_may_run_each_command_that_is_sent_without_a_script():
    own = {*list_own_commands()}
    assert {"hget", "zrange"} <= own
    assert own - set().union(*GIVEN.values()) == set()


def test_somebody_runs_each_script():
    assert set().union(*map(list_scripts, FOLDERS)) == {*SCRIPTS}
