"""The target of a request: a queue, everything, or jobs. It selects jobs by their ids, or by the filters of a list.

A person confirms a set of jobs that was shown earlier. The confirmation has the digest of this set, so that no other
set is changed. A confirmation after the rehearsal of a queue, or of everything, has a digest of its pause.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, cast

from starlette.datastructures import ImmutableMultiDict

from redbike.config.labels import read_filter
from redbike.errors import BadConfig, NoSuchJob
from redbike.facade.redbike import Redbike
from redbike.store.enums import EventName
from redbike.store.names import check_known_jobid
from redbike.store.patterns import expand
from redbike.store.queue_limits import Pause
from redbike.store.records import encode
from redbike.web.rendering import show_text

ALL = "*"
TEXTS = ("pattern", "queue", "status", "tag")
KINDS = ("jobs", "queue", "all")  # of targets
FLAGS = ("failed", "paused", "overdue", "late", "never_ran", "planned")
MOST_IDS = 1000  # in one request
SEARCH_TIMEOUT = 20.0  # seconds for the search for matching jobs
SOME = 100  # ids between two checks of the time


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs that match a selection, sorted by id."""

    jobids: tuple[str, ...]
    is_more: bool = False  #: whether there are more jobs, or may be, because the search was cut short

    @property
    def digest(self) -> str:
        """A digest of the set of jobs. Another set has another digest."""
        return make_digest(self.jobids)


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects jobs by their ids; or without ids, by a pattern and the filters of the list of jobs.

    An empty selection matches no job. The pattern ``*`` matches all jobs.
    """

    jobids: tuple[str, ...] = ()
    pattern: str = ""
    queue: str = ""
    status: str = ""
    failed: bool = False
    paused: bool = False
    overdue: bool = False
    late: bool = False
    never_ran: bool = False
    planned: bool = False
    tag: str = ""  # one or several tags; each job has one of them

    @classmethod
    def read(cls, params: ImmutableMultiDict[str, str]) -> Self:
        """Read a query or a form. It has ``id`` once or several times, or ``pattern`` and filters.

        With ids, all other parameters are ignored. Raise `BadJobId`, or `BadConfig` for a bad tag, or more than
        `MOST_IDS` ids.
        """
        jobids = dict.fromkeys(params.getlist("id"))
        if len(jobids) > MOST_IDS:
            raise BadConfig(f"bad selection: it has {len(jobids)} ids, {MOST_IDS} are allowed; a pattern names more")
        if jobids:
            return cls(tuple(map(check_known_jobid, jobids)))
        given: dict[str, Any] = {name: params.get(name, "") for name in TEXTS}
        read_filter(given["tag"] or None)
        given |= {name: bool(params.get(name)) for name in FLAGS}
        return cls((), **given)

    @property
    def is_empty(self) -> bool:
        """Whether the selection has neither ids, nor a pattern, nor filters."""
        return self == type(self)()

    def params(self) -> list[tuple[str, str]]:
        """Return the selection as parameters for links and forms, which `read` reads."""
        texts = [(name, getattr(self, name)) for name in TEXTS]
        flags = [(name, "1") for name in FLAGS if getattr(self, name)]
        return [*(("id", jobid) for jobid in self.jobids), *(pair for pair in texts if pair[1]), *flags]

    def find(self, bike: Redbike, limit: int, patience: float = SEARCH_TIMEOUT) -> Found:
        """Return the jobs that match now, up to `limit`. The search may take a little more than `patience` seconds.

        Unknown ids are left out. Raise `BadConfig`, `BadJobId` or `BadQueueName` for a bad filter, or `ServerError`.
        """
        until = time.monotonic() + patience
        found: list[str] = []
        is_more = False
        with suppress(NoSuchJob):
            try:
                for jobid in self._list(bike, until):
                    if len(found) == limit:
                        is_more = True
                        break
                    found.append(jobid)
                    if len(found) % SOME == 0:
                        check_time(until)
            except TimeoutError:
                is_more = True
        return Found(tuple(sorted(found)), is_more)

    def _list(self, bike: Redbike, until: float) -> Iterator[str]:
        """Yield the ids of matching jobs. Raise `NoSuchJob` if no job matches, `TimeoutError` if it takes too long."""
        if self.is_empty:
            return iter(())
        if self.jobids:
            # By ids: here, an id with a star is not a pattern.
            return (job.jobid for job in bike.store.overview.list_jobs(jobids=self.jobids))
        flags: dict[str, Any] = {name: True for name in FLAGS if getattr(self, name)}
        if not (self.queue or self.status or self.tag or flags):
            # Without filters, only ids are read, which is much faster.
            return expand(bike.store.catalog, [self.pattern], also_bad=True)
        patterns = [] if self.pattern in ("", ALL) else [self.pattern]
        # If few of very many jobs match, only the report can notice the timeout.
        jobs = bike.jobs(
            *patterns,
            queue=self.queue or None,
            status=cast(EventName, self.status) if self.status else None,
            tag=self.tag or None,
            report=lambda done, number: check_time(until),
            **flags,
        )
        return (job.jobid for job in jobs)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an action: jobs, a queue or everything."""

    of: str = "jobs"  # one of `KINDS`
    queue: str = ""  # the name of the queue
    selection: Selection = field(default_factory=Selection)

    @classmethod
    def read(cls, given: ImmutableMultiDict[str, str]) -> Self:
        """Read a query or a form. Raise `BadConfig` for an unknown kind, and what `Selection.read` raises."""
        of = given.get("of", "jobs")
        if of not in KINDS:
            raise BadConfig(f"bad of {of!r:.40}: {', '.join(KINDS)} are allowed")
        if of == "jobs":
            return cls(of, "", Selection.read(given))
        return cls(of, given.get("name", "") if of == "queue" else "")

    @property
    def is_of_jobs(self) -> bool:
        """Whether the target is jobs, and not a queue or everything."""
        return self.of == "jobs"

    def params(self) -> list[tuple[str, str]]:
        """Return the target as parameters, which `read` reads."""
        if self.is_of_jobs:
            return self.selection.params()
        return [("of", self.of), *([("name", self.queue)] if self.queue else [])]

    @property
    def title(self) -> str:
        """The name of a queue, or of everything, at the beginning of a sentence."""
        return f"The queue {show_text(self.queue)}" if self.queue else "Everything"

    def describe(self, jobs: str = "") -> str:
        """Return the name of the target in a sentence. For jobs, it is the text `jobs`."""
        return jobs if self.is_of_jobs else f"the queue {show_text(self.queue)}" if self.queue else "everything"


def check_time(until: float) -> None:
    """Raise `TimeoutError` if the monotonic clock is past `until`."""
    if time.monotonic() > until:
        raise TimeoutError


def make_pause_digest(pause: Pause | None) -> str:
    """Return a digest of a pause of a queue or of everything. Another pause has another digest."""
    return make_digest([repr(pause)])


def make_digest(jobids: Iterable[str]) -> str:
    """Return a digest of a set of jobs, which does not depend on their order. Another set has another digest."""
    digest = hashlib.sha256()
    for name in sorted({encode(jobid) for jobid in jobids}):
        # The length separates the ids, because an id may contain any byte.
        digest.update(b"%d:%s" % (len(name), name))
    return digest.hexdigest()
