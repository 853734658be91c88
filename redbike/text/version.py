"""The version of Redbike."""

__version__ = "2.0.0.dev0"
