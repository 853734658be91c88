"""Makes mutants of the package's functions by the operators of mutmut, and plants them in what is loaded.

mutmut itself runs the tests of a mutant in a new process, which takes half a minute with its imports. Here a copy of a
process that has collected the tests runs those that run the line, which takes less than a second.
"""

import functools
import gc
import importlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import libcst
from mutmut.mutation.file_mutation import Mutation, create_mutations, deep_replace

ROOT = Path(__file__).parents[2]
ROOMS = ("schedule", "store", "loop", "dispatcher", "worker")
TESTS = ["schedule", "store", "test_crashes.py", "loop", "dispatcher", "worker", "control", "queries", "facade"]


class Mutant:
    """A module with one expression or statement of a function changed."""

    is_equivalent = False

    def __init__(self, file: str, module: libcst.Module, mutation: Mutation) -> None:
        self.file = file
        self._module, self._mutation = module, mutation

    @functools.cached_property
    def text(self) -> str:
        """The whole file. To make it takes some 20 ms."""
        whole = self._mutation.contained_by_top_level_function
        function = deep_replace(whole, self._mutation.original_node, self._mutation.mutated_node)
        changed = deep_replace(self._module, whole, function)
        assert isinstance(changed, libcst.Module)
        return changed.code

    @functools.cached_property
    def lines(self) -> range:
        """The numbers of the lines that it changes."""
        old, new = self._module.code.split("\n"), self.text.split("\n")
        least = min(len(old), len(new))
        first = next((number for number in range(least) if old[number] != new[number]), least)
        same = next((number for number in range(least - first) if old[-1 - number] != new[-1 - number]), 0)
        return range(first + 1, max(first + 1, len(old) - same) + 1)

    @functools.cached_property
    def name(self) -> str:
        old, new = self._module.code.split("\n"), self.text.split("\n")
        first, last = self.lines[0] - 1, self.lines[-1]
        texts = (
            " ".join(line.strip() for line in lines)
            for lines in (old[first:last], new[first : last + len(new) - len(old)])
        )
        return f"{self.file}:{first + 1}: {' → '.join(texts)}"


def list_all(is_meant: Callable[[str], bool]) -> Iterator[Mutant]:
    """Yield the mutants of such files of the rooms; find the functions first, for all copies of this process."""
    find_functions()
    for file in filter(is_meant, list_files()):
        module, mutations, *_ = create_mutations(file, (ROOT / file).read_text())
        for mutation in mutations:
            if mutation.contained_by_top_level_function:
                yield Mutant(file, module, mutation)


def list_files() -> list[str]:
    return [str(path.relative_to(ROOT)) for room in ROOMS for path in sorted((ROOT / "redbike" / room).rglob("*.py"))]


def plant(mutant: Mutant) -> set[str]:
    """Make this process run the functions as the mutant has them; return the lines that differ, as a `Recorder` has
    them, or none if no function differs: it is the default of a parameter that does."""
    path = str(ROOT / mutant.file)
    pairs = zip(
        _list_codes(compile((ROOT / mutant.file).read_text(), path, "exec")),
        _list_codes(compile(mutant.text, path, "exec")),
        strict=True,
    )
    differing = [(old, new) for old, new in pairs if not _is_same(old, new)]
    functions = [(each, new) for old, new in differing for each in find_functions()[_identify(old)]]
    for function, new in functions:
        function.__code__ = new
    return {f"{mutant.file}:{line}" for line in mutant.lines} if functions else set()


@functools.cache
def find_functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions of the package, by their file, name and line."""
    for file in list_files():
        importlib.import_module(".".join(Path(file).with_suffix("").parts).removesuffix(".__init__"))
    found = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            found[_identify(each.__code__)].append(each)
    return found


def _identify(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions that stand in a module or a class, but none that stands in another function."""
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_flags & inspect.CO_NEWLOCALS:
            yield each
        elif isinstance(each, CodeType):
            yield from _list_codes(each)


def _is_same(old: CodeType, new: CodeType) -> bool:
    """Whether two functions do the same, wherever their lines stand."""
    if (old.co_code, old.co_names, len(old.co_consts)) != (new.co_code, new.co_names, len(new.co_consts)):
        return False
    return all(
        _is_same(one, other) if isinstance(one, CodeType) and isinstance(other, CodeType) else repr(one) == repr(other)
        for one, other in zip(old.co_consts, new.co_consts, strict=True)
    )


class Recorder:
    """Tells which tests run which lines in this process."""

    def __init__(self) -> None:
        rooms = [str(ROOT / "redbike" / room / "*") for room in ROOMS]
        self._coverage = coverage.Coverage(data_file=None, include=rooms, config_file=False)
        self._coverage.start()

    def begin(self, test: str) -> None:
        """What is run from now on, is run by this test."""
        self._coverage.switch_context(test)

    def list_users(self) -> dict[str, list[str]]:
        """Of each line, the tests that run it."""
        self._coverage.stop()
        data = self._coverage.get_data()
        return {
            f"{Path(file).relative_to(ROOT)}:{line}": [test for test in tests if test]
            for file in data.measured_files()
            for line, tests in data.contexts_by_lineno(file).items()
        }
