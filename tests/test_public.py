"""What the package exports: all that a signature names, so that a program can name it, too; and what is promised.

docs/versions.rst has the promises.
"""

import ast
import configparser
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import FunctionType

import pytest

import redbike
import redbike.commands
import redbike.schedule
import redbike.testing
import redbike.web
from redbike import errors
from tests.commandline import ROOT

SPECIAL = ("__init__", "__call__", "__await__")
ANSWERS = (redbike.AsyncResults, redbike.JobFunction, redbike.Results)  # no program makes them from their classes
PAGE = (ROOT / "docs" / "versions.rst").read_text()
NAMES, MODULES = (
    PAGE.partition("Names of Python\n---")[2].partition("Data in Redis\n---")[0].split("these of other modules")
)


@cache
def list_known(module: str) -> set[str]:
    """Return the types of Redbike that a module imports or defines. A type variable is none."""
    known = set()
    for node in ast.walk(ast.parse(inspect.getsource(import_module(module)))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("redbike"):
            known |= {each.name for each in node.names}
        elif isinstance(node, ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
            known |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return known


def list_names(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # also the words of a Literal
            yield from list_names(ast.parse(node.value, mode="eval").body)


def list_annotations(part: object) -> Iterator[ast.expr]:
    """Yield the annotations of a function, or of the fields of a class. They are read, as an alias keeps no name."""
    [top] = ast.parse(textwrap.dedent(inspect.getsource(part))).body
    if isinstance(top, ast.ClassDef):
        yield from (
            each.annotation for each in top.body if isinstance(each, ast.AnnAssign) and each.target.id[0] != "_"
        )
        return
    every = *top.args.posonlyargs, *top.args.args, *top.args.kwonlyargs, top.args.vararg, top.args.kwarg
    yield from (each.annotation for each in every if each and each.annotation)
    yield from [top.returns] if top.returns else []


def list_parts(exported: object) -> Iterator[object]:
    """Yield a function; or a class, its bases, and their public methods and properties."""
    if not inspect.isclass(exported):
        yield from [exported] if inspect.isfunction(exported) else []
        return
    bases = dict.fromkeys([*exported.__mro__, *getattr(exported, "__orig_bases__", ())])
    for kind in (
        each for each in bases if getattr(each, "__module__", "").startswith("redbike") and inspect.isclass(each)
    ):
        yield kind
        for name, value in vars(kind).items():
            function = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
            is_public = name[0] != "_" or (name in SPECIAL and not (name == "__init__" and exported in ANSWERS))
            # What dataclasses write is in no file.
            if is_public and isinstance(function, FunctionType) and function.__code__.co_filename[0] != "<":
                yield function


@pytest.mark.parametrize("name", redbike.__all__)
def test_everything_that_a_signature_names_is_exported(name):
    named = {
        (part.__qualname__, each)
        for part in list_parts(getattr(redbike, name))
        for annotation in list_annotations(part)
        for each in list_names(annotation)
        if each in list_known(part.__module__)
    }
    assert {pair for pair in named if pair[1] not in redbike.__all__} == set()


def test_the_names_of_the_package_are_those_that_it_exports():
    assert Counter(re.findall(r"``(\w+)``", NAMES.partition("has these:")[2])) == Counter(redbike.__all__)


def test_the_names_of_other_modules_are_all_that_these_export():
    listed = {*re.findall(r"``(redbike\.\w+\.\w+)``", MODULES)}
    modules = (redbike.commands, redbike.schedule, redbike.testing, redbike.web)
    exported = {f"{module.__name__}.{name}" for module in modules for name in module.__all__}
    assert listed == exported - {"redbike.testing.TooManyRuns"}, "that is an error of the package"
    for path in listed:
        module, _, name = path.rpartition(".")
        assert getattr(import_module(module), name)


def test_the_errors_of_the_page_are_in_their_module():
    listed = re.findall(r"``(\w+)``", NAMES.partition("**Errors:**")[2].partition("- **")[0])
    assert all(issubclass(getattr(errors, name), errors.RedbikeError) for name in listed)
    own = {name for name in redbike.__all__ if getattr(errors, name, None)}
    assert {name for name in own if issubclass(getattr(errors, name), errors.RedbikeError)} == {*listed}


def test_the_pythons_of_the_page_are_those_of_the_package():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    pythons = re.findall(r":: Python :: (3\.\d+)$", parser["metadata"]["classifiers"], re.MULTILINE)
    assert re.findall(r"^(3\.\d+) +\w+ \d{4}$", PAGE, re.MULTILINE) == pythons
    assert parser["options"]["python_requires"] == f">={pythons[0]}"
