"""What docs/versions.rst promises is what there is."""

import configparser
import re
from collections import Counter
from importlib import import_module

import redbike
import redbike.commands
import redbike.schedule
import redbike.testing
import redbike.web
from redbike import errors
from tests.commandline import ROOT

PAGE = (ROOT / "docs" / "versions.rst").read_text()
NAMES, MODULES = (
    PAGE.partition("Names of Python\n---")[2].partition("Data in Redis\n---")[0].split("these of other modules")
)


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
