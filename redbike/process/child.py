"""Run as the child of a `redbike.process.supervisor`: notice that the supervisor is gone, and report to it.

1. The child's standard input ends when the supervisor ends. Then the child stops, as by SIGTERM. With each SIGTERM
   the supervisor also writes `STOP` there: a job may have made the child ignore signals.
2. The child also has the reading end of its own output open. So writing does not fail when the supervisor is gone.
   From then on the child reads its own output, so that writing does not block either.
3. The child reports on a pipe that it runs, and that it was halted. The exit status cannot report this, as a job may
   end its worker with any status.
"""

import contextlib
import os
import signal
import threading
import time

from redbike.process import signals

# The environment variable with two descriptors: one to read the output, one to write reports.
SUPERVISED = "REDBIKE_SUPERVISED"
# The environment variable with the name that the supervisor has given to this process.
NAME = "REDBIKE_PROCESS"
RUNNING, HALTED = b"R", b"H"
STOP = b"S"
INTERVAL = 1.0  # seconds between two checks of the parent, if a job has closed the input

_reports: int | None = None


def watch_parent() -> None:
    """Stop this process, a child, when its supervisor is gone; enable `report`."""
    global _reports
    descriptors = os.environ.pop(SUPERVISED, None)
    os.environ.pop(NAME, None)
    if descriptors is None:
        return
    output, _reports = map(int, descriptors.split(" "))
    for descriptor in (output, _reports):
        os.set_inheritable(descriptor, False)
    # A copy, as a job may close or redirect the standard input.
    given = (os.dup(0), output, os.getppid())
    threading.Thread(target=_watch, args=given, name="redbike-parent", daemon=True).start()


def report(what: bytes) -> None:
    """Tell the supervisor, if there is one, that this process is `RUNNING` or was `HALTED`."""
    if _reports is not None:
        with contextlib.suppress(OSError):
            os.write(_reports, what)


def _watch(lifeline: int, output: int, parent: int) -> None:
    try:
        while received := os.read(lifeline, 1024):
            if STOP in received:
                signals.tell(signal.SIGTERM)
    except OSError:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
    # Drain first: the stop is logged, and logging would block for ever if a job has filled the output.
    threading.Thread(target=_drain, args=(output,), name="redbike-output", daemon=True).start()
    if not signals.tell(signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGTERM)


def _drain(output: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(output, 65536):
            pass
