"""What a request is about: a queue, everything, or jobs, which it names by their ids, or all that a list shows.

A person confirms a set of jobs that was shown a while ago. The digest of that set goes with the confirmation, so that
nothing is done to any other set. What opens or closes a queue goes with a digest of its pause.
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
SEARCH_TIMEOUT = 20.0  # seconds for which jobs that match are looked for
SOME = 100  # ids between two looks at the time


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs that a selection names, by their ids, in order."""

    jobids: tuple[str, ...]
    is_more: bool = False  #: whether there are more, or may be: not all jobs were looked at

    @property
    def digest(self) -> str:
        """The same for the same set of jobs, and for no other."""
        return make_digest(self.jobids)


@dataclass(frozen=True, slots=True)
class Selection:
    """Jobs by their ids; or by a pattern and the filters of the list of jobs, if it has no ids.

    One that has nothing names no job. All jobs are the pattern ``*``.
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
    tag: str = ""  # or several, of which each job has one

    @classmethod
    def read(cls, params: ImmutableMultiDict[str, str]) -> Self:
        """Return what a query or a form says: ``id``, as often as there are ids; or ``pattern`` and filters.

        With ids, all else is passed over. Raise `BadConfig` for a bad tag, or more ids than one request may have, and
        `BadJobId`.
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
        """Whether it names nothing."""
        return self == type(self)()

    def params(self) -> list[tuple[str, str]]:
        """Return it as the parameters that `read` reads, for links and forms."""
        texts = [(name, getattr(self, name)) for name in TEXTS]
        flags = [(name, "1") for name in FLAGS if getattr(self, name)]
        return [*(("id", jobid) for jobid in self.jobids), *(pair for pair in texts if pair[1]), *flags]

    def find(self, bike: Redbike, limit: int, patience: float = SEARCH_TIMEOUT) -> Found:
        """Return the jobs that are there now, up to `limit`; it may take a little more than `patience` seconds.

        Ids of no job are left out. Raise `BadConfig`, `BadJobId` and `BadQueueName` for bad filters, and `ServerError`.
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
        """Yield the jobs that are there. Raise `NoSuchJob` where none matches, `TimeoutError` if it takes too long."""
        if self.is_empty:
            return iter(())
        if self.jobids:
            # By its id alone: one with a star in it is no pattern here.
            return (job.jobid for job in bike.store.overview.list_jobs(jobids=self.jobids))
        flags: dict[str, Any] = {name: True for name in FLAGS if getattr(self, name)}
        if not (self.queue or self.status or self.tag or flags):
            # Ids alone are read much faster.
            return expand(bike.store.catalog, [self.pattern], also_bad=True)
        patterns = [] if self.pattern in ("", ALL) else [self.pattern]
        # Few of very many jobs may fit.
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
    """What an action is done to: jobs, a queue or everything."""

    of: str = "jobs"  # of `KINDS`
    queue: str = ""  # the name of the queue
    selection: Selection = field(default_factory=Selection)

    @classmethod
    def read(cls, given: ImmutableMultiDict[str, str]) -> Self:
        """Return what a query or a form says. Raise `BadConfig` for another kind, and what `Selection.read` raises."""
        of = given.get("of", "jobs")
        if of not in KINDS:
            raise BadConfig(f"bad of {of!r:.40}: {', '.join(KINDS)} are allowed")
        if of == "jobs":
            return cls(of, "", Selection.read(given))
        return cls(of, given.get("name", "") if of == "queue" else "")

    @property
    def is_of_jobs(self) -> bool:
        """Whether it is jobs, and no queue."""
        return self.of == "jobs"

    def params(self) -> list[tuple[str, str]]:
        """Return it as the parameters that `read` reads."""
        if self.is_of_jobs:
            return self.selection.params()
        return [("of", self.of), *([("name", self.queue)] if self.queue else [])]

    @property
    def title(self) -> str:
        """The name of a queue, or of everything, at the beginning of a sentence."""
        return f"The queue {show_text(self.queue)}" if self.queue else "Everything"

    def describe(self, jobs: str = "") -> str:
        """Return its name in words, where `jobs` are those of jobs."""
        return jobs if self.is_of_jobs else f"the queue {show_text(self.queue)}" if self.queue else "everything"


def check_time(until: float) -> None:
    """Raise `TimeoutError` if the monotonic clock is past `until`."""
    if time.monotonic() > until:
        raise TimeoutError


def make_pause_digest(pause: Pause | None) -> str:
    """Return the same text for the same pause of a queue or of everything, and for no other."""
    return make_digest([repr(pause)])


def make_digest(jobids: Iterable[str]) -> str:
    """Return the same text for the same set of jobs, in whatever order, and for no other set."""
    digest = hashlib.sha256()
    for name in sorted({encode(jobid) for jobid in jobids}):
        # The length parts them, as an id may hold any byte.
        digest.update(b"%d:%s" % (len(name), name))
    return digest.hexdigest()
