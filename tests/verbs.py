"""The transitions as tests call them: one job, or one script, at a time; and worker classes that do no work."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from redbike import Again, RoundRobin, StopWork, current_run
from redbike.control.tokens import make_token
from redbike.errors import NoSuchJob
from redbike.store.jobs import Due, JobToSet
from redbike.store.namespace import STEP
from redbike.store.run import Poll, Run
from redbike.store.store import Store
from redbike.store.timeline import DueJob, Survey


class Quiet(RoundRobin):
    """Notes which jobs it has worked."""

    def __init__(self, initstring: str = "A") -> None:
        super().__init__(initstring)
        self.worked: list[str] = []

    def work(self, jobid: str) -> None:
        self.worked.append(jobid)


class Once(Quiet):
    """The same, but CONTINUE ends after one run."""

    def work(self, jobid: str) -> None:
        super().work(jobid)
        if current_run().schedule == "CONTINUE":
            raise StopWork


class Telling(Quiet):
    """The same; the ids of jobs say how their runs end: what begins with ``bad`` fails."""

    def work(self, jobid: str) -> None:
        super().work(jobid)
        for word, error in (("bad", ValueError("it broke")), ("again", Again(after=0)), ("stop", StopWork())):
            if jobid.startswith(word):
                raise error


def run_job(store: Store, jobid: str) -> str:
    """Run a job once now, and return the word for it. Raise `NoSuchJob`."""
    [word] = store.jobs.run([jobid])
    if word == "missing":
        raise NoSuchJob
    return word


def set_job(store: Store, jobid: str, schedule: str, due: Due, once: bool = False) -> None:
    """Set a job, first due at `due`, also if it waits in another queue than its own."""
    set_one(store, JobToSet(jobid, schedule, due, once, store.queue_for(jobid)))


def set_one(store: Store, job: JobToSet) -> None:
    while refused := store.jobs.set([job]):
        _, why, detail = refused[0]
        if why == "queue":
            job.queue = detail
        else:
            job.known = detail


def survey(store: Store) -> Survey:
    return store.timeline.read_survey(store.scripts.run(store.timeline.pack_survey()))


def dispatch(store: Store, due: Sequence[DueJob]) -> int:
    """Move jobs to their queues; how many were moved."""
    steps = (due[first : first + STEP] for first in range(0, len(due), STEP))
    return sum(map(store.timeline.read_dispatch, store.scripts.run_all(map(store.timeline.pack_dispatch, steps))))


def skip(store: Store, *given: Any) -> bool:
    """Skip occurrences of a job; whether it had not moved on meanwhile."""
    return bool(store.scripts.run(store.timeline.pack_skip(*given))[0] == "ok")


def take_one(
    store: Store, queues: Sequence[tuple[str, float]], tag: str, **more: Any
) -> Run | Literal["empty", "halted"]:
    """Take the oldest job of the first of `queues` that has one; `more` is the control signal, and `repeated`."""
    taken = take_many(store, queues, range(1, len(queues) + 1), tag, 1, **more)
    return taken if taken == "halted" else taken[0] if taken else "empty"


def take_many(
    store: Store,
    queues: Sequence[tuple[str, float]],
    turns: Iterable[int],
    tag: str,
    most: int,
    control: str = "",
    repeated: bool = False,
    strict: bool = False,
) -> list[Run] | Literal["halted"]:
    """Take up to `most` jobs; a request that was made before is `repeated`."""
    call = store.runs.pack_take(Poll(queues, list(turns), strict), tag, most, control, repeated)
    while (reply := store.scripts.run(call))[0] == "again":
        pass
    return store.runs.read_take(reply, tag)


def add_token(store, *given, **named):
    """Make a token, keep it, and return its secret."""
    token, secret = make_token(store, *given, **named)
    store.tokens.add(token)
    return secret


def stopping(server, verb):
    """What does the same, and then stops the server."""

    def do_and_stop(*given, **named):
        done = verb(*given, **named)
        server.stop()
        return done

    return do_and_stop
