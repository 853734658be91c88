"""The methods of `redbike.redbike.Redbike` that tell what is there, and change nothing."""

from collections.abc import Iterator
from typing import Any

from redbike.state.keys import check_known_jobid
from redbike.state.log import LogEntry
from redbike.state.store import Store
from redbike.state.workers import Process


class Looking:
    """Looks at the jobs and processes of `store`."""

    store: Store

    def tell(self, jobid: str) -> dict[str, Any]:
        """What is known of `jobid`: ``status``, ``next_run`` (epoch seconds), ``schedule``, ``working``.

        Further keys only where they apply: ``queued_for`` and ``working_for`` (the due time), ``deadline``, ``worker``,
        ``failures`` and ``losses`` in a row, ``skipped`` (occurrences by reason), ``failure``, ``options``, ``data``,
        ``paused`` (``since``, ``until``, ``by``, ``reason``) and ``held_for`` (when that which is held is due).
        """
        return self.store.questions.inspect([check_known_jobid(jobid)], with_data=True)[0].to_dict()

    def is_working(self, jobid: str) -> bool:
        """Whether a run of `jobid` is in flight."""
        return bool(self.tell(jobid)["working"])

    def get_statuses(self, before: float | None = None) -> Iterator[tuple[str, str, int]]:
        """(job id, event, epoch seconds) of every job, or of those whose last event was before `before`."""
        return self.store.questions.list_events(before)

    def get_schedules(self) -> Iterator[tuple[str, str]]:
        """(job id, schedule in its complete form) of every job."""
        return self.store.questions.list_schedules()

    def get_rows(self) -> Iterator[tuple[str, ...]]:
        """The columns `redbike.options.COLUMNS` of every job, as texts, which `load` reads back under that header."""
        return self.store.questions.list_rows()

    def failures(self) -> Iterator[dict[str, Any]]:
        """The last failure of each job that has not succeeded since, oldest first; see ``failures-limit``."""
        return self.store.questions.list_failures()

    def workers(self) -> list[Process]:
        """Every dispatcher and worker: lost ones first, then dispatchers. One is lost for a day, then forgotten."""
        return self.store.workers.list_all()

    def log(self, jobid: str | None = None) -> Iterator[LogEntry]:
        """Yield what people have changed, or what they have changed of `jobid`; the newest first, streamed.

        That is what the commands of the command line change, and a `Redbike` with ``noted_as``. 10,000 entries are
        kept, each of up to 100 jobs that were changed together.
        """
        return self.store.log.list_entries(None if jobid is None else check_known_jobid(jobid))
