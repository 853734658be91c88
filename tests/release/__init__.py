"""A release of the last commit, tried and built: run with ``python -m tests.release``; see docs/releasing.rst."""
