"""Run the command line of Redbike."""

from redbike.cli.entry import main

__all__ = ["main"]
