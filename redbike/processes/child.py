"""Run as the child of a `redbike.processes.supervisor`: notice that the supervisor is gone, and report to it.

1. The child's standard input ends when the supervisor ends. Then the child stops, as by SIGTERM.
2. The child also has the reading end of its own output open. So writing does not fail when the supervisor is gone.
   From then on the child reads its own output, so that writing does not block either.
3. The child reports on a pipe that it runs, and that it was halted. The exit status cannot report this, as a job may
   end its worker with any status.
"""

import contextlib
import os
import signal
import threading

# The environment variable with two descriptors: one to read the output, one to write reports.
SUPERVISED = "REDBIKE_SUPERVISED"
# The one with the name that the supervisor has given to this process.
NAME = "REDBIKE_PROCESS"
RUNNING, HALTED = b"R", b"H"

_reports: int | None = None


def watch_parent() -> None:
    """Stop this process, a child, when its supervisor is gone; enable `report`."""
    global _reports
    given = os.environ.pop(SUPERVISED, None)
    os.environ.pop(NAME, None)
    if given is None:
        return
    output, _reports = map(int, given.split(" "))
    for descriptor in (output, _reports):
        os.set_inheritable(descriptor, False)
    # A copy, as a job may close or redirect the standard input.
    threading.Thread(target=_watch, args=(os.dup(0), output), name="redbike-parent", daemon=True).start()


def report(what: bytes) -> None:
    """Tell the supervisor, if there is one, that this process is `RUNNING` or was `HALTED`."""
    if _reports is not None:
        with contextlib.suppress(OSError):
            os.write(_reports, what)


def _watch(lifeline: int, output: int) -> None:
    while os.read(lifeline, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    while os.read(output, 65536):
        pass
