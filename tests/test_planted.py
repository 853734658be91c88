"""The planted bugs still fit the package. Whether the tests catch them takes minutes: ``make planted``."""

import shlex
from pathlib import Path

import pytest

import redbike
from redbike.store.lua_loader import PARTS, SCRIPTS, join_parts, read_files
from tests.planted.__main__ import replaced
from tests.planted.bugs import BUGS

pytestmark = pytest.mark.nightly

PACKAGE = Path(redbike.__file__).parent
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted_and_is_no_mere_error_of_syntax(bug, client):
    text = (PACKAGE / bug.file).read_text()
    planted = replaced(text, bug)
    assert planted != text
    if bug.file.endswith(".py"):
        compile(planted, bug.file, "exec")
    elif bug.file.endswith(".lua"):
        client.script_load(as_sent(bug.file, planted))


def as_sent(file: str, planted: str) -> str:
    """The text of a script behind the parts that it needs; for a part, that of a script that needs it."""
    name = Path(file).stem
    verb = name if name in SCRIPTS else "end" if name in PARTS else name.split("_")[1]
    return "#!lua\n" + join_parts(verb, read_files() | {name: planted})


@pytest.mark.parametrize("tests", sorted({bug.tests for bug in BUGS}))
def test_the_tests_that_are_to_catch_it_are_there(tests):
    files = [word for word in shlex.split(tests) if word.endswith(".py")]
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_there_are_enough_of_them_and_none_twice():
    assert len({bug.name for bug in BUGS}) == len({(bug.file, bug.old, bug.new) for bug in BUGS}) == len(BUGS) >= 25


def test_a_bug_whose_place_is_gone_is_reported():
    with pytest.raises(ValueError, match=r"stands 0 times in web/login\.py, not once"):
        replaced("", next(bug for bug in BUGS if bug.file == "web/login.py"))
