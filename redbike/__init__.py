"""A simple, flexible scheduler for pools of distributed workers."""

__version__ = "1.0.0"
