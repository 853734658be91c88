"""End or restart this process although some of its threads still run. Only the command line enables this.

1. `leave` ends the process at once. It does not wait, as Python does, for threads and for functions that a job has
   registered with ``atexit``. Or it starts the command again in the same process, if this has no supervisor.
2. A call that holds Python's lock stops all threads. So `cover` sets a deadline in a thread that needs no such lock. At
   the deadline, that thread prints where each thread is, and ends the process. Its clock also runs while the process is
   suspended, so it would end a suspended process, too. So a worker calls `uncover` as soon as nothing runs.

`die` ends the process by a signal, and `abort_and_die` calls ``abort`` before. `leave_fork` ends a process that a job
has forked. If such a process continued after ``work``, it would become a second worker.
"""

import _thread
import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from redbike.text.printable import describe

STUCK = 75  # the exit status of a process that is to be started again
LAST_WORDS = 5.0  # seconds for what is done at the end
MARGIN = 20.0  # seconds beyond the end of a run after which a call that holds Python's lock ends the process

_begin_again: Callable[[], object] | None = None
_error_output = -1  # a copy, as a job may close the standard error; -1: not enabled
_process = 0
_covered_until = float("inf")
_covering = threading.Lock()
log = logging.getLogger("redbike")
worker_log = logging.getLogger("redbike.worker")

AGAIN = 1.0  # seconds after the first signal; an earlier second signal is ignored
LONGEST_ABORT = 5.0  # seconds that an abort may take
FORK_LAST_WORDS = 2.0  # seconds for what is printed at the end


def enable(command: list[str] | None) -> None:
    """Enable `leave` and `cover`. `command` starts this process again; None: its supervisor does so."""
    global _begin_again, _error_output, _process, _covered_until
    _error_output, _process, _covered_until = os.dup(2), os.getpid(), float("-inf")
    folder, environment = os.getcwd(), dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def begin_again() -> None:
        assert command is not None
        os.chdir(folder)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execve(command[0], command, environment)

    _begin_again = begin_again if command else None


def is_enabled() -> bool:
    """Tell whether `leave` may end this process."""
    return _process == os.getpid()


def leave(last: Callable[[], object], begins_again: Callable[[], bool]) -> NoReturn:
    """Call `last`, wait at most `LAST_WORDS` seconds for it, and end this process; if `begins_again`, restart it."""

    def finish() -> None:
        with contextlib.suppress(Exception):
            last()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    # In a thread of its own: a thread that still runs may hold a lock that `last` needs.
    thread = threading.Thread(target=finish, name="redbike-last", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # From 3.12 on, Python starts no thread while it exits. So the thread of `cover` limits the time of this one.
        with contextlib.suppress(RuntimeError, ValueError, OSError):
            faulthandler.dump_traceback_later(LAST_WORDS, file=_error_output, exit=True)
        finish()
    else:
        thread.join(LAST_WORDS)
    is_wanted = begins_again()
    if is_wanted and _begin_again:
        with contextlib.suppress(OSError):
            _begin_again()
    os._exit(STUCK if is_wanted else 0)


def cover(until: float) -> None:
    """Allow a call to last until `until`, by the monotonic clock. This is cheap if a recent call allows nearly that."""
    global _covered_until
    if until + MARGIN / 2 <= _covered_until or not is_enabled():
        return
    with _covering:
        if until + MARGIN / 2 > _covered_until:
            seconds = max(0.0, until - time.monotonic()) + MARGIN
            _covered_until = time.monotonic() + seconds
            with contextlib.suppress(RuntimeError, ValueError, OSError):
                faulthandler.dump_traceback_later(seconds, file=_error_output, exit=True)


def is_covered() -> bool:
    """Tell whether `cover` has set a deadline. When it passes, even a process that is only suspended is ended."""
    return float("-inf") < _covered_until < float("inf") and is_enabled()


def uncover(is_busy: Callable[[], object]) -> None:
    """Remove the deadline of `cover`, unless `is_busy`: an idle process may be suspended for any time."""
    global _covered_until
    if not is_covered():
        return
    with _covering:
        # A run that begins after the call of `is_busy` finds that it is not covered, and waits for the lock.
        before, _covered_until = _covered_until, float("-inf")
        if is_busy():
            _covered_until = before
        else:
            faulthandler.cancel_dump_traceback_later()


def leave_fork(jobid: str, error: BaseException | None) -> NoReturn:
    """End this process, which a job has forked, and which has returned from ``work`` or raised `error` there.

    The exit status is that of a Python program that ends in the same way. The process sends nothing to Redis, as the
    connections belong to the worker.
    """
    status, is_told = 0 if error is None else 1, error is not None
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        status, is_told = (error.code or 0) & 0xFF, False

    def speak() -> None:
        if is_told and error is not None:
            said = "%s: in process %d, which it has forked: %s"
            worker_log.error(said, jobid, os.getpid(), describe(error), exc_info=error)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    # Another thread may have held the lock of a stream when the job forked: nobody releases it in this process.
    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    thread.join(FORK_LAST_WORDS)
    os._exit(status)


def die(number: int) -> None:
    """End this process by the default action of the signal `number`, so that its exit status shows the signal."""
    if os.getpid() == 1:
        # Process 1 of a container has no default actions.
        os._exit(128 + number)
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.SIG_DFL)
    else:
        set_default(number)
    os.kill(os.getpid(), number)
    time.sleep(AGAIN)
    os._exit(128 + number)


def name_signal(number: int) -> str:
    """Return ``SIGKILL`` for 9. A real-time signal has only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def set_default(number: int) -> None:
    """Restore the default action of a signal, in any thread."""
    with contextlib.suppress(ImportError, AttributeError):
        from ctypes import c_int, c_void_p, pythonapi

        pythonapi.PyOS_setsig(c_int(number), c_void_p(None))


def abort_and_die(abort: Callable[[], object], number: int) -> None:
    """Call `abort`, wait for at most `LONGEST_ABORT` seconds, and end this process by the signal `number`.

    `abort` runs in a thread of its own, as the interrupted thread may hold a lock that `abort` needs.
    """
    finished = _thread.allocate_lock()
    finished.acquire()

    def run() -> None:
        try:
            abort()
            log.warning("%s again: ended at once", signal.Signals(number).name)
        except BaseException as error:
            log.error("abort() raised %s", type(error).__name__)
        finally:
            finished.release()

    # Not a `threading.Thread`: starting one takes a lock that the interrupted code may hold.
    _thread.start_new_thread(run, ())
    finished.acquire(timeout=LONGEST_ABORT)
    die(number)
