"""What the page does: the verbs of the command line, for sets of jobs and for queues, noted as those of a person."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request

from redbike.config.limits import Limits
from redbike.control.jobs import cancel_jobs, find_tries, pause_found, run_jobs
from redbike.control.operator import check_reason, check_until
from redbike.control.queues import QueueController
from redbike.control.setter import Setter
from redbike.errors import RedbikeError
from redbike.facade.redbike import Redbike
from redbike.loop import resuming
from redbike.store.log import MAX_WHO
from redbike.store.patterns import Steered
from redbike.store.queue_limits import QueueLimits
from redbike.text.printable import escape

BATCH = 500  # jobs between two looks at how it goes
MAX_NAME = 100  # characters of what a proxy says who it is
TRIED = "tried"  # what becomes of a job whose old occurrence is tried again
GOES_ON = "told"  # what becomes of a job whose run was cancelled, and has not ended yet


@dataclass(slots=True)
class Done:
    """How far an action came: jobs by what became of them, and what ended it early."""

    words: Counter[str] = field(default_factory=Counter)
    error: RedbikeError | None = None

    @property
    def number(self) -> int:
        """Of jobs that were reached."""
        return self.words.total()


class Steerer:
    """Changes the jobs of `bike`, as `who`."""

    def __init__(self, bike: Redbike, who: str) -> None:
        self.settings = bike.settings
        self.store = bike.store.noted_as(who)
        self.setter = Setter(self.store, bike.settings)
        self._queue_controller = QueueController(self.store, bike.worker)
        self._until: float | None = None
        self._reason = ""

    def steer(self, action: str, jobids: Sequence[str], until: float | None = None, reason: str = "") -> Done:
        """Do something to each job, a batch at a time; what goes wrong on the way is in the answer.

        Raise what is wrong with what was given, before anything is changed.
        """
        self._until = check_until(until, self.store.timeline.read_clock())
        self._reason = check_reason(reason)
        if action == "run":
            for jobid in jobids:
                self.store.queue_for(jobid)
        done, verb = Done(), self._verbs[action]
        for first in range(0, len(jobids), BATCH):
            try:
                done.words.update(word for _, word in verb(jobids[first : first + BATCH]))
            except RedbikeError as error:
                done.error = error
                break
        return done

    @property
    def _verbs(self) -> dict[str, Callable[[Sequence[str]], list[Steered]]]:
        return {
            "run": self._run,
            "cancel": self._cancel,
            "pause": lambda jobids: pause_found(self.store, jobids, self._until, self._reason),
            "resume": self._resume,
            "unset": self._unset,
        }

    def _run(self, jobids: Sequence[str]) -> list[Steered]:
        tries = find_tries(self.store, jobids)
        done = run_jobs(self.store, jobids)
        return [Steered(jobid, TRIED if jobid in tries and word == "queued" else word) for jobid, word in done]

    def _cancel(self, jobids: Sequence[str]) -> list[Steered]:
        done = cancel_jobs(self.store, jobids, self.settings)
        states = self.store.questions.inspect([jobid for jobid, word in done if word == "cancelled"])
        going = {state.jobid for state in states if state.run and state.run.cancelled}
        return [Steered(jobid, GOES_ON if jobid in going else word) for jobid, word in done]

    def _resume(self, jobids: Sequence[str]) -> list[Steered]:
        return [Steered(*each) for each in zip(jobids, resuming.resume(self.store, self.settings, jobids), strict=True)]

    def _unset(self, jobids: Sequence[str]) -> list[Steered]:
        return [Steered(jobid, "unset" if self.setter.unset(jobid) else "missing") for jobid in jobids]

    def find_queue(self, name: str) -> str:
        """Return the full name of a queue. Raise `BadQueueName`."""
        return self._queue_controller.find_queue(name)

    def pause_queue(self, name: str, until: float | None, reason: str) -> bool:
        """Pause the queue of this full name, or everything: "". Return False if it was paused."""
        return self._queue_controller.pause(name, until, reason)

    def resume_queue(self, name: str) -> bool:
        """Resume the queue of this full name, or everything: "". Return False if it was not paused."""
        return self._queue_controller.resume(name)

    def limit(self, name: str, limits: Limits) -> QueueLimits:
        """Limit the queue of this full name, and return what stands before it. Raise `BadConfig`."""
        return self._queue_controller.limit(name, **limits)


def name_person(request: Request, header: str | None) -> str:
    """Return who sends a request, for the log: the address, and what `header` of the operator's own proxy says."""
    page = f"page@{request.client.host if request.client else '?'}"
    # Headers are bytes; a proxy that knows a name in other letters sends it as UTF-8.
    given = request.headers.get(header, "").encode("latin-1") if header else b""
    name = " ".join(escape(given).split())[:MAX_NAME]
    return escape((f"{name} ({page})" if name else page).encode(errors="replace"))[:MAX_WHO]
