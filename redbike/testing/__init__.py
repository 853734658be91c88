"""Test jobs: a pytest plugin with the fixture ``redbike``, and a facade whose clock stands still.

::

    def test_the_backup_runs_each_hour(redbike):
        bike = redbike(jobs)
        bike.set("backup", "EVERY:1h")
        runs = bike.run_due(timedelta(hours=3))
        assert [run.jobid for run in runs] == ["backup"] * 3

pytest finds the plugin where Redbike is installed. Tests without pytest call `isolate`. See ``docs/testing.rst``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redbike.errors import TooManyRuns
    from redbike.testing.fixture import MakeRedbike, isolate
    from redbike.testing.simulated import BikeSettings, SimulatedRedbike

__all__ = ["BikeSettings", "MakeRedbike", "SimulatedRedbike", "TooManyRuns", "isolate"]

pytest_plugins = ("redbike.testing.plugin",)

# pytest imports this module in every project where Redbike is installed. So the rest is imported at its first use.
_PLACES = {
    "BikeSettings": "redbike.testing.simulated",
    "MakeRedbike": "redbike.testing.fixture",
    "SimulatedRedbike": "redbike.testing.simulated",
    "TooManyRuns": "redbike.errors",
    "isolate": "redbike.testing.fixture",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_PLACES[name]), name)
