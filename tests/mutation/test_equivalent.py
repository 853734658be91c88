"""The list of mutants that no test can catch: a script that has changed may have made one of them another one."""

from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.lua import FOLDER, list_mutants


def test_each_mutant_that_is_known_as_equivalent_is_there():
    files = {path: path.read_text() for path in FOLDER.iterdir()}
    known = {f"{path.name}: {each.change}" for path, text in files.items() for each in list_mutants(path.name, text)}
    assert EQUIVALENT - known == set()
