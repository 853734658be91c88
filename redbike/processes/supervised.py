"""The child of a `redbike.processes.supervisor`: it notices that its supervisor is gone, and reports how far it came.

1. Its standard input ends with the supervisor. Then it stops, as by SIGTERM.
2. It holds the reading end of its own output, so nobody who writes there gets an error when the supervisor is gone.
   From then on it reads that itself, so that nobody waits either.
3. It reports on a pipe that it runs, and that it was halted. An exit status cannot tell: a job may end its worker too.
"""

import contextlib
import os
import signal
import threading

SUPERVISED = "REDBIKE_SUPERVISED"  # the variable with both descriptors: of the output, and of the reports
RUNNING, HALTED = b"R", b"H"

_reports: int | None = None


def watch_parent() -> None:
    """In a child: stop when the supervisor is gone, and from now on report."""
    global _reports
    given = os.environ.pop(SUPERVISED, None)
    if given is None:
        return
    output, _reports = map(int, given.split(" "))
    for descriptor in (output, _reports):
        os.set_inheritable(descriptor, False)
    # A copy: a job may close or redirect the standard input.
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
