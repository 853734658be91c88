"""The methods of `redbike.facade.redbike.Redbike` that return the stored result and output of the runs of a job."""

from operator import attrgetter
from typing import Any

from redbike.errors import BadConfig, NoResult, NoSuchJob
from redbike.facade.part import Part
from redbike.loop.host_jobs import say_where
from redbike.schedule.moments import InstantLike, format_utc, read_instant
from redbike.store.backfill import make_jobid
from redbike.store.names import check_known_jobid
from redbike.text.parsing import is_whole_number
from redbike.text.printable import quote

_STARTED = attrgetter("started")


class Kept(Part):
    """Reads what runs have returned and printed."""

    def result(self, jobid: str, due: InstantLike | None = None) -> Any:
        """Return the newest kept result of `jobid`: what ``work`` returned, maybe None. See ``keep-result``.

        With `due`, only runs for this due time count, also those of a backfill of the job. Raises `NoResult` if no kept
        run has a result, `BadJobId`, and `BadConfig` for a bad `due`.
        """
        instant, ids = read_instant("due", due), [check_known_jobid(jobid)]
        if instant is not None:
            ids.append(make_jobid(jobid, instant))
        runs = sorted(self.store.journal.list_runs(ids), key=_STARTED, reverse=True)
        if instant is not None:
            runs = [run for run in runs if round(run.due, 6) == round(instant, 6)]
        last = next((run for run in runs if run.has_result), None)
        if last is None:
            when = "" if instant is None else f"for {format_utc(instant)} "
            why = say_where(self.store, jobid) or f"none of its kept runs {when}has one"
            refused = next((f"; the last one was not kept: {run.result_error}" for run in runs if run.result_error), "")
            raise NoResult(f"no result of {jobid!r}: {why}{refused}")
        return last.result

    def output(self, jobid: str, run: int = 1, failed: bool = False) -> str:
        """Return what a run of the command of `jobid` printed, as far as it is kept: see the option ``output``.

        `run` counts from the newest run, which is 1. With `failed`, only failed runs count. Raises `NoResult` if no
        output of this run is kept, `NoSuchJob`, `BadConfig` for a bad `run`, and `BadJobId`.
        """
        if not is_whole_number(run) or run < 1:
            raise BadConfig(f"bad run {quote(run)}: a whole number from 1 is needed")
        try:
            return self.store.outputs.read(check_known_jobid(jobid), run, failed)
        except NoResult:
            if not self.store.catalog.has_job(jobid, also_bad=True):
                raise NoSuchJob(f"no such job: {jobid!r}") from None
            if why := say_where(self.store, jobid):
                raise NoResult(f"no output of {jobid!r}: {why}") from None
            raise
