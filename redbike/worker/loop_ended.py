"""How a job ends the event loop in which it runs, and so all coroutines in it."""

import asyncio
import logging
from collections.abc import Iterable
from contextvars import Context

from redbike.errors import RedbikeError
from redbike.store.run import Run
from redbike.text.printable import describe
from redbike.worker.current import find_run

log = logging.getLogger("redbike.worker")


class LoopEnded(RedbikeError):
    """The event loop of a run was ended by the run `culprit`; None if that run is not known."""

    culprit: Run | None = None

    def blames(self, run: Run | None) -> bool:
        """Tell whether `run` may have ended the loop."""
        return self.culprit is None or self.culprit is run

    def log(self, jobids: Iterable[str]) -> None:
        """Log it, with the jobs that ran in the loop."""
        log.error("%s, while these jobs ran: %s", self, ", ".join(sorted(jobids)))


def find_end(error: BaseException) -> LoopEnded:
    """Return the `LoopEnded` for a loop that `error` has ended. Its culprit is the run that has raised `error`."""
    culprit = _find_culprit(error)
    end = LoopEnded(f"the event loop was ended by {culprit.jobid if culprit else 'a job'}: {describe(error)}")
    end.culprit = culprit
    return end


def _find_culprit(error: BaseException) -> Run | None:
    """Return the run whose task, or other callback, has raised `error`: it has copied the context of its job."""
    trace = error.__traceback__
    while trace is not None:
        caller = trace.tb_frame.f_locals.get("self")
        if isinstance(caller, asyncio.Handle):
            return find_run(getattr(caller, "_context", Context()))
        trace = trace.tb_next
    return None
