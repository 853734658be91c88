"""End a process that a job has forked. If it went on after ``work``, it would become a second worker."""

import contextlib
import logging
import os
import sys
import threading
from typing import NoReturn

from redbike.text.printable import describe

log = logging.getLogger("redbike.worker")

LAST_WORDS = 2.0  # seconds for what is printed at the end


def leave(jobid: str, error: BaseException | None) -> NoReturn:
    """End this process, a child of the worker that has returned from ``work`` or raised `error` there.

    The exit status is that of a Python program that ends in the same way. It sends nothing to Redis, as the
    connections belong to the worker.
    """
    status, is_told = 0 if error is None else 1, error is not None
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        status, is_told = (error.code or 0) & 0xFF, False

    def speak() -> None:
        if is_told and error is not None:
            log.error("%s: in process %d, which it has forked: %s", jobid, os.getpid(), describe(error), exc_info=error)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    # Another thread may have held the lock of a stream when the job forked: nobody gives it back in this process.
    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    thread.join(LAST_WORDS)
    os._exit(status)
