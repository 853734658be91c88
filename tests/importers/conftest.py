"""The command line, called in the process of the tests."""

from tests.cli.conftest import shell

__all__ = ["shell"]
