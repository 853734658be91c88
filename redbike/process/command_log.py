"""The log of a command. What its jobs need may configure `logging` too, and that must not silence Redbike.

A config of `logging.config` disables the loggers that exist already, unless it says otherwise; so does Django's
``LOGGING``. Redbike's exist before the module of the worker is imported. Only the command line enables this: a program
that embeds Redbike decides for itself.
"""

import logging

ROOT = "redbike"  # the name of the logger above all of Redbike

_handler: logging.Handler | None = None


def enable(handler: logging.Handler, level: str) -> None:
    """Write log records of `level` or higher to `handler`, and nowhere else."""
    global _handler
    _handler = handler
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def revive() -> None:
    """Undo what code of a user has done to silence the log, if `enable` was called.

    Handlers of the user stay, and are the only ones. Levels stay, and so does what is configured for Redbike by name.
    """
    if _handler is None:
        return
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == ROOT:
            logging.getLogger(name).disabled = False
    if not logging.root.handlers and not logging.getLogger(ROOT).hasHandlers():
        logging.root.addHandler(_handler)
