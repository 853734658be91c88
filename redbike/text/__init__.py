"""Short texts: durations, names of time zones, the version, and text that is safe to print."""

__version__ = "2.0.0.dev0"
