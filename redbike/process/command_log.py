"""The log of a command. Modules that its jobs import may configure `logging` too. This must not silence Redbike.

A config of `logging.config` disables the loggers that exist already, unless it says otherwise; so does Django's
``LOGGING``. Redbike's loggers exist before the module of the worker is imported. Only the command line enables this
module: a program that embeds Redbike decides for itself.
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
    """If `enable` was called, enable Redbike's loggers again; restore the handler if there is no handler at all.

    Handlers that the user has installed stay the only ones. Levels stay, and so do settings of Redbike's loggers.
    """
    if _handler is None:
        return
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == ROOT:
            logging.getLogger(name).disabled = False
    if not logging.root.handlers and not logging.getLogger(ROOT).hasHandlers():
        logging.root.addHandler(_handler)
