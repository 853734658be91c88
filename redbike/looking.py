"""The methods of `redbike.redbike.Redbike` that tell what is there, and change nothing."""

import heapq
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from redbike.state.depths import Queue
from redbike.state.history import PastRun
from redbike.state.inspected import JobState
from redbike.state.keys import check_known_jobid
from redbike.state.log import LogEntry
from redbike.state.store import Store
from redbike.state.workers import Process
from redbike.steering.patterns import expand

_STARTED = attrgetter("started")


class Looking:
    """Looks at the jobs and processes of `store`."""

    store: Store

    def tell(self, jobid: str) -> dict[str, Any]:
        """What is known of `jobid`: ``status``, ``next_run`` (epoch seconds), ``schedule``, ``working``.

        Further keys only where they apply: ``queued_for`` and ``working_for`` (the due time), ``deadline``, ``worker``,
        ``failures`` and ``losses`` in a row, ``skipped`` (occurrences by reason), ``failure``, ``options``, ``data``,
        ``paused`` (``since``, ``until``, ``by``, ``reason``), ``held_for`` (when that which is held is due) and
        ``runs`` (those that have ended and are kept, the newest first).
        """
        found = self._inspect(jobid).to_dict()
        runs = sorted(self.store.journal.list_runs([jobid]), key=_STARTED, reverse=True)
        return found | {"runs": [run.to_dict() for run in runs]} if runs else found

    def _inspect(self, jobid: str) -> JobState:
        return self.store.questions.inspect([check_known_jobid(jobid)], with_data=True)[0]

    def is_working(self, jobid: str) -> bool:
        """Whether a run of `jobid` is in flight."""
        return bool(self._inspect(jobid).to_dict()["working"])

    def get_statuses(self, before: float | None = None) -> Iterator[tuple[str, str, int]]:
        """(job id, event, epoch seconds) of every job, or of those whose last event was before `before`."""
        return self.store.questions.list_events(before)

    def get_schedules(self) -> Iterator[tuple[str, str]]:
        """(job id, schedule in its complete form) of every job."""
        return self.store.questions.list_schedules()

    def get_rows(self) -> Iterator[tuple[str, ...]]:
        """The columns `redbike.options.COLUMNS` of every job, as texts, which `load` reads back under that header."""
        return self.store.questions.list_rows()

    def runs(self, *patterns: str, since: float | None = None, failed: bool = False, limit: int = 100) -> list[PastRun]:
        """The last `limit` ended runs that are kept, the newest first: of all jobs, or of those that `patterns` name.

        Only those that started at `since` (epoch seconds) or later, and with `failed` only those that went wrong. See
        the option ``history``. Raises `NoSuchJob` where nothing has that id or matches, `BadJobId` for a bad pattern.
        """
        jobids = expand(self.store.questions, patterns) if patterns else None
        found = self.store.journal.list_runs(jobids)
        wanted = (run for run in found if (since is None or run.started >= since) and (run.has_failed or not failed))
        return heapq.nlargest(limit, wanted, key=_STARTED)

    def events(self) -> Iterator[PastRun | LogEntry]:
        """Listen from now on: yield each run that ends, and what people change, as it happens. It has no end.

        What happens while nobody listens is not repeated: see `runs` and `log`. Raises `Unreachable` where the server
        goes away; then listen again.
        """
        return self.store.events.listen()

    def failures(self) -> Iterator[dict[str, Any]]:
        """The last failure of each job that has not succeeded since, oldest first; see ``failures-limit``."""
        return self.store.questions.list_failures()

    def queues(self) -> list[Queue]:
        """Every queue that was ever used, by name: what waits in it, what runs, and how much has ended of late."""
        return self.store.depths.list_all()

    def workers(self) -> list[Process]:
        """Every dispatcher and worker: lost ones first, then dispatchers. One is lost for a day, then forgotten."""
        return self.store.workers.list_all()

    def log(self, jobid: str | None = None) -> Iterator[LogEntry]:
        """Yield what people have changed, or what they have changed of `jobid`; the newest first, streamed.

        That is what the commands of the command line change, and a `Redbike` with ``noted_as``. 10,000 entries are
        kept, each of up to 100 jobs that were changed together.
        """
        return self.store.log.list_entries(None if jobid is None else check_known_jobid(jobid))
