"""The changes that the page makes: the actions of the command line, for sets of jobs and for queues.

The log names the person who makes them. A browser sends a form for each action. The same form is carried out only once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redbike.control.blackouts import end_for_jobs, set_for_jobs
from redbike.control.jobs import cancel_jobs, find_tries, pause_jobs, resume_jobs, run_jobs, unset_jobs
from redbike.control.operator import check_reason, check_until
from redbike.control.queues import QueueController
from redbike.control.setter import Setter
from redbike.errors import RedbikeError
from redbike.facade.redbike import Redbike
from redbike.queries.closed import list_closed
from redbike.store.blackouts import Blackout
from redbike.store.log import MAX_WHO
from redbike.text.printable import escape
from redbike.web.memory import Note
from redbike.web.permits import Permit
from redbike.web.requests import Form, read_back
from redbike.web.site import Site

BATCH = 500  # jobs that are changed in one step
END = "end"  # the action that ends blackouts
TRIED = "tried"  # the word for a job whose failed occurrence is tried again
GOES_ON = "told"  # the word for a job whose run was cancelled, but has not ended yet
USED_UP = {
    "again": "This form was sent before: what it asks for was done once, not twice.",
    "old": "This form is too old, so nothing was done. Check how things are now, and try again.",
}


@dataclass(slots=True)
class Done:
    """The result of an action: how many jobs had each result, and the error that ended it early."""

    words: Counter[str] = field(default_factory=Counter)  # the number of jobs by result
    error: RedbikeError | None = None
    run: list[str] = field(default_factory=list)  # the jobs that are due now
    warnings: list[str] = field(default_factory=list)


class Steerer:
    """Changes the jobs of `bike`, as `who`."""

    def __init__(self, bike: Redbike, who: str) -> None:
        self.settings = bike.settings
        self.store = bike.store.noted_as(who)
        self.queues = QueueController(self.store, bike.worker, bike.settings)

    def steer(
        self,
        action: str,
        jobids: Sequence[str],
        until: float | None = None,
        reason: str = "",
        blackout: Blackout | None = None,
    ) -> Done:
        """Carry out an action on jobs, in batches. An error of a batch is in the result, and ends the action.

        With a `blackout`, the action ``pause`` sets it. `until` is in epoch seconds.

        Raise `RedbikeError` for bad arguments, before any job is changed.
        """
        check_until(until, self.store.timeline.read_clock())
        check_reason(reason)
        if action == "run":
            for jobid in jobids:
                self.store.queue_for(jobid)
        done = Done()
        setter = Setter(self.store, self.settings, done.warnings.append)
        verbs: dict[str, Callable[[Sequence[str]], list[str]]] = {
            "run": lambda jobids: self._run(jobids, done.run),
            "cancel": self._cancel,
            "pause": lambda jobids: self._pause(jobids, until, reason, blackout),
            END: lambda jobids: [word for _, word in end_for_jobs(self.store, jobids, self.settings)],
            "resume": lambda jobids: [word for _, word in resume_jobs(self.store, jobids, self.settings)],
            "unset": lambda jobids: [word for _, word in unset_jobs(setter, jobids)],
        }
        verb = verbs[action]
        for first in range(0, len(jobids), BATCH):
            try:
                done.words.update(verb(jobids[first : first + BATCH]))
            except RedbikeError as error:
                done.error = error
                break
        return done

    def _pause(self, jobids: Sequence[str], until: float | None, reason: str, blackout: Blackout | None) -> list[str]:
        if blackout:
            return [word for _, word in set_for_jobs(self.store, jobids, self.sign(blackout), self.settings)]
        return [word for _, word in pause_jobs(self.store, jobids, until, reason)]

    def sign(self, blackout: Blackout) -> Blackout:
        """Return the blackout, with the name of the person who sets it."""
        return replace(blackout, by=self.store.who or "")

    def list_closed(self, jobids: Sequence[str]) -> list[str]:
        """Return sentences that say which queues of these jobs are paused now, or that everything is. Ignore errors."""
        with suppress(RedbikeError):
            return list(list_closed(self.store, jobids, self.settings.timezone))
        return []

    def _run(self, jobids: Sequence[str], due: list[str]) -> list[str]:
        tries = find_tries(self.store, jobids)
        done = run_jobs(self.store, jobids)
        due += [jobid for jobid, word in done if word in ("queued", "owed")]
        return [TRIED if jobid in tries and word == "queued" else word for jobid, word in done]

    def _cancel(self, jobids: Sequence[str]) -> list[str]:
        done = cancel_jobs(self.store, jobids, self.settings)
        states = self.store.questions.inspect([jobid for jobid, word in done if word == "cancelled"])
        going = {state.jobid for state in states if state.run and state.run.cancelled}
        return [GOES_ON if jobid in going else word for jobid, word in done]


def name_person(request: Request, permit: Permit, way: str = "page") -> str:
    """Return who sends a request, for the log: the token or the user, the `way`, and the address."""
    source = f"{way}@{request.client.host if request.client else '?'}"
    return escape((f"{permit.name} ({source})" if permit.name else source).encode(errors="replace"))[:MAX_WHO]


@dataclass(frozen=True, slots=True)
class Sent:
    """A form that a browser has sent. Its key was checked, so this page made the form for this browser."""

    site: Site
    request: Request
    form: Form

    def make_steerer(self) -> Steerer:
        """Return a `Steerer`, which changes jobs in the name of the sender."""
        return Steerer(self.site.bike, name_person(self.request, self.permit))

    @property
    def permit(self) -> Permit:
        """What the sender may do."""
        permit: Permit = self.request.state.permit
        return permit

    def lead_back(self, note: Note, back: str | None = None) -> Response:
        """Redirect the browser to the page of the form, or to `back`, which then shows the note."""
        self.site.memory.add_note(self.request.state.browser, note)
        return RedirectResponse(read_back(self.form) if back is None else back, 303)

    def refuse(self, error: RedbikeError) -> Response:
        """Redirect the browser back, with a note that nothing was changed because of this error."""
        return self.lead_back(Note(f"Nothing was done: {error}", is_problem=True, is_refusal=True))

    def do_once(self, do: Callable[[], Note | Response], back: str | None = None) -> Response:
        """Call `do`, unless this form was sent before. Redirect back with its note, or return its response.

        If `do` raises `RedbikeError` or returns a response, it has changed nothing, and the form may be sent again.
        """
        claim = self.site.memory.claim(self.form.get("once", ""), self.request.state.browser)
        if claim != "ok":
            return self.lead_back(Note(USED_UP[claim], is_problem=True))
        try:
            said = do()
        except RedbikeError as error:
            self.site.memory.release(self.form["once"])
            return self.refuse(error)
        finally:
            self.site.drop_seen()
        if isinstance(said, Note):
            return self.lead_back(said, back)
        self.site.memory.release(self.form["once"])
        return said
