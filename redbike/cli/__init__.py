"""The command line."""

from redbike.cli.entry import main

__all__ = ["main"]
