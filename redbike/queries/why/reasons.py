"""Gathers what a job depends on, and explains it."""

from redbike.errors import BadConfig, NoSuchJob
from redbike.queries.why.now import explain_now
from redbike.queries.why.past import explain_past
from redbike.queries.why.situation import FAR, Situation
from redbike.schedule.clock import Clock
from redbike.store.inspected import JobState
from redbike.store.keys import check_known_jobid
from redbike.store.store import Store

MOVES = 3  # times that a job may move while it is looked at


class Reasons:
    """Explains jobs of `store`. Times are shown in the IANA zone `timezone`; `grace` is the setting of this name."""

    def __init__(self, store: Store, timezone: str, grace: float = 0.0) -> None:
        self._store = store
        self._timezone = timezone
        self._grace = grace

    def explain(self, jobid: str, at: float | None = None) -> str:
        """Return why `jobid` does not run now, or did not when it was due last, `at` or before (epoch seconds).

        Raise `BadJobId`, `NoSuchJob`, and `BadConfig` for an instant that is to come.
        """
        [job] = self._store.questions.inspect([check_known_jobid(jobid)], with_data=True)
        if job.schedule is None and job.status is None and not job.running:
            raise NoSuchJob(f"no such job: {jobid!r}")
        clock = Clock(job.now, self._timezone)
        if at is not None and at > job.now:
            raise BadConfig(f"bad --at: {clock.name(at)} is to come, {clock.measure(at)}; redbike next tells of it")
        situation = self._look(job)
        for _ in range(MOVES):
            if situation.ahead is not None:
                break
            # It is far behind, or has just been taken.
            [again] = self._store.questions.inspect([jobid], with_data=True)
            if (again.queued, again.running) == (job.queued, job.running):
                break
            job, situation, clock = again, self._look(again), Clock(again.now, self._timezone)
        if at is None:
            return explain_now(situation, clock)
        return explain_past(situation, list(self._store.log.list_entries()), at, clock)

    def _look(self, job: JobState) -> Situation:
        store, queue = self._store, self._find_queue(job)
        runs = sorted(store.journal.list_runs([job.jobid]), key=lambda run: run.started, reverse=True)
        found = {each.queue: each for each in store.depths.list_all(with_rates=False)}
        return Situation(
            job=job,
            runs=runs,
            queue=queue,
            gates=(store.gates.read(queue), store.gates.read("")),
            processes=store.workers.list_all(),
            ahead=store.depths.count_before(queue, job.jobid, FAR) if job.waiting else 0,
            flying=found[queue].in_flight if queue in found else 0,
            grace=self._grace,
            refusal=refusal.text if (refusal := store.questions.find_refusal()) and not refusal.is_full else "",
        )

    def _find_queue(self, job: JobState) -> str:
        # Of a damaged job, there may be nothing but the record of its run.
        found = self._store.overview.read_named([job.jobid])
        return found[0].queue if found else job.run.queue if job.run else ""
