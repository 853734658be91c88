"""Whether named jobs have succeeded when they were last to run: a few by their ids, or very many by patterns.

For a pattern, the server finds the jobs that may have a problem, see ``lua/triage.lua``. Only the first of these are
read one by one, to describe their problems.

The name of a job for every host means its jobs on the hosts: it never runs itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from redbike.config.options import find_all_of, parse_options
from redbike.errors import NoSuchJob
from redbike.loop.every_host import BY
from redbike.queries.why.now import ENDS, describe_drop
from redbike.queries.why.pending import CLOSE, find_last
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Schedule
from redbike.store.archived import read_newest
from redbike.store.enums import Event, Outcome, Skip
from redbike.store.every_host import Hosts, is_base, name_job
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.log import moves_job
from redbike.store.namespace import PAGE, split
from redbike.store.patterns import check_pattern, compile_patterns, expand, is_pattern
from redbike.store.questions import PassedJob
from redbike.store.records import RetryState
from redbike.store.schedules import find_jitter, read_schedule
from redbike.store.store import Store

TOGETHER = 20  # jobs that are read in one round trip


class NamedJobs:
    """Checks jobs of `store`, except the jobs `told`, which are reported already. `grace`, `history`: the settings."""

    def __init__(
        self, store: Store, clock: Clock, max_lag: float, grace: float, history: int, told: Iterable[str] = ()
    ) -> None:
        self._store = store
        self._clock = clock
        self._grace, self._history = grace, history
        self._latest = clock.now - max_lag  # an occurrence due by then should have run
        self._seen = set(told)
        self._newest: dict[str, PastRun | None] = {}  # runs that are not archived yet
        self._occurrences = _Occurrences(self._latest)
        self._changes = _Changes(store)

    def check(self, patterns: Sequence[str], most: int) -> Iterator[str]:
        """Yield each problem of the jobs of `patterns`, also that a pattern has no job; "" for each beyond `most`.

        Raise `BadJobId`.
        """
        patterns = [check_pattern(text) for text in patterns]
        if patterns:
            # Read first the runs that may be archived meanwhile: then they are read twice, and not missed.
            self._newest = self._store.journal.read_newest()
        named = 0
        for pattern in patterns:
            # A job that is named by its id may have any characters in it.
            found = self._check_many(pattern) if is_pattern(pattern) else self._check_one(pattern)
            for jobid, problem in found:
                named += 1
                yield "" if named > most else problem or self._describe(jobid)

    def _check_one(self, text: str) -> Iterator[tuple[str, str]]:
        try:
            jobids = [jobid for jobid in expand(self._store.catalog, [text], also_bad=True) if self._is_new(jobid)]
        except NoSuchJob as error:
            yield "", str(error)
            return
        yield from self._inspect(jobids)
        bases = filter(is_base, jobids)
        yield from self._check_on_hosts({base: self._store.hosts.read(base) for base in bases})

    def _check_many(self, pattern: str) -> Iterator[tuple[str, str]]:
        """Yield (job id, problem) for each job with a problem; "" if the problem is not known yet."""
        number = 0
        for part in self._store.questions.triage(pattern, self._latest):
            number += part.number
            bad, unsure = list[str](), list[str]()
            for jobid in part.bad:
                if self._is_new(jobid):
                    # A job on a host that is gone has no problem: see `_check`.
                    (unsure if jobid in self._newest or "@" in jobid else bad).append(jobid)
            for each in part.passed:
                if self._is_new(each.jobid):
                    if each.jobid in self._newest:
                        unsure.append(each.jobid)
                    elif self._find_skipped(each) is not None:
                        bad.append(each.jobid)
            yield from ((jobid, "") for jobid in bad)
            yield from self._inspect(unsure)
        # Jobs that have failed since their runs were archived.
        ended = (jobid for jobid, run in self._newest.items() if run and run.outcome is not Outcome.OK)
        fits = compile_patterns([pattern])
        yield from self._inspect([jobid for jobid in ended if fits(jobid) and self._is_new(jobid)])
        bases = {base: hosts for base, hosts in self._store.hosts.read_all().items() if fits(base)}
        yield from self._check_on_hosts(bases, fits)
        if not number:
            yield "", f"no job matches {pattern!r}"

    def _check_on_hosts(
        self, bases: Mapping[str, Hosts], is_checked: Callable[[str], bool] = lambda jobid: False
    ) -> Iterator[tuple[str, str]]:
        """Yield (job id, problem) for jobs of bases on hosts that have one, except jobs that are checked already."""
        base_of = {name_job(base, host): base for base, hosts in bases.items() for host in hosts.seen}
        for job in self._read((jobid for jobid in base_of if not is_checked(jobid)), PAGE):
            # A user may have set a job of this name, which does not belong to the base.
            if find_all_of(job.options)[0] == base_of[job.jobid] and self._is_new(job.jobid):
                yield from self._judge(job)

    def _is_new(self, jobid: str) -> bool:
        is_new = jobid not in self._seen
        self._seen.add(jobid)
        return is_new

    def _describe(self, jobid: str) -> str:
        """Return the problem of a job, or that it had one a moment ago, if there is none any more."""
        return next((problem for _, problem in self._inspect([jobid])), f"{jobid} was not well a moment ago")

    def _inspect(self, jobids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield (job id, problem) for those jobs that have one."""
        for job in self._read(jobids):
            yield from self._judge(job)

    def _read(self, jobids: Iterable[str], together: int = TOGETHER) -> Iterator[JobState]:
        for page in split(jobids, together):
            yield from self._store.questions.inspect(page)

    def _judge(self, job: JobState) -> Iterator[tuple[str, str]]:
        newest = self._newest
        last = newest[job.jobid] if job.jobid in newest else read_newest(job.jobid, job.history)
        if problem := self._check(job, last):
            yield job.jobid, f"{job.jobid} {problem}"

    def _check(self, job: JobState, last: PastRun | None) -> str:
        """Return the problem of a job; "" if it has succeeded when it was last to run, or was not due yet."""
        clock, latest = self._clock, self._latest
        if job.has_event(Event.BAD):
            return "was never scheduled, as its schedule is bad"
        if job.has_event(Event.DIE):
            return f"has failed for good{_quote(last)}"
        if job.dropped is not None:
            return describe_drop(job, self._grace, clock)
        if job.schedule is None and job.status is None:
            return ""  # it was unset
        if last is not None and last.outcome is not Outcome.OK:
            return f"{ENDS[last.outcome]} at {clock.name(last.started + last.took)}{_quote(last)}"
        if job.failure is not None:
            return f"failed{_quote(last)}"
        if job.held is not None and job.held <= latest and not (job.pause and job.pause.to_dict()["by"] == BY):
            tried = RetryState.parse(job.retry_state).due
            return f"is paused, though it was due at {clock.name(job.held if tried is None else tried)}"
        due = job.waits_since if job.waiting else job.timeline
        if due is not None and due <= latest and not job.run:
            return f"has been due since {clock.name(due)} and does not run"
        if job.run and job.run.deadline <= latest:
            return f"still runs, since {clock.name(job.run.start)}, beyond its deadline"
        return "" if job.run else self._check_skipped(job, last)

    def _check_skipped(self, job: JobState, last: PastRun | None) -> str:
        """Return that the last occurrence was skipped, if this is so, and no run has begun since; else ""."""
        is_skipped = any(number for reason, number in job.skipped.items() if reason != Skip.WITHDRAWN)
        if job.schedule is None or not is_skipped:
            return ""
        due = self._find_skipped(PassedJob(job.jobid, job.schedule, job.options, last.started if last else None))
        return "" if due is None else f"was skipped when it was due at {self._clock.name(due)}"

    def _find_skipped(self, job: PassedJob) -> float | None:
        """Return the due time of the last occurrence of a job, if it was skipped; else None."""
        if not parse_options(job.options).get("history", self._history):
            return None  # no run is kept: whether the last run was for this occurrence is not known
        due = self._occurrences.find_after(job)
        # If it was set since, its occurrences may have moved: the earlier schedule is not known.
        return None if due is None or self._changes.was_set(job.jobid, due) else due


class _Occurrences:
    """Finds the last occurrences up to `latest`, once for all jobs with the same occurrences."""

    def __init__(self, latest: float) -> None:
        self._latest = latest
        self._met = set[tuple[str, str]]()
        self._last = dict[tuple[str, str], float | None]()

    def find_after(self, job: PassedJob) -> float | None:
        """Return the due time of the last occurrence of a job, if its last run began before it; else None.

        A run that began later replaces the skipped occurrences.
        """
        key = (job.schedule, job.jobid if find_jitter(job.options) else "")
        if key not in self._last:
            schedule = read_schedule(job.jobid, job.schedule, job.options)
            if schedule is None:
                return None
            # Most schedules belong to only one job: then it is faster to compute the next occurrence.
            if key not in self._met and job.started is not None and not self._is_over(schedule, job.started):
                self._met.add(key)
                return None
            self._last[key] = find_last(schedule, self._latest)
        due = self._last[key]
        return None if due is None or (job.started is not None and job.started > due - CLOSE) else due

    def _is_over(self, schedule: Schedule, started: float) -> bool:
        """Tell whether there was an occurrence after a run `started`."""
        following = schedule.next(max(0.0, started + CLOSE))
        return following is not None and following <= self._latest


class _Changes:
    """Finds when jobs were set to other times, by the log. The log is read once, and only as far back as needed."""

    def __init__(self, store: Store) -> None:
        self._entries = store.log.list_entries()
        self._set = dict[str, float]()
        self._since = float("inf")  # the log is read back to this instant

    def was_set(self, jobid: str, since: float) -> bool:
        """Tell whether a job was set to other times after `since`, as far as the log is kept."""
        while self._since > since:
            entry = next(self._entries, None)
            self._since = float("-inf") if entry is None else entry.time
            if entry is not None and moves_job(entry):
                self._set.setdefault(entry.jobid, entry.time)
        return self._set.get(jobid, float("-inf")) > since


def _quote(run: PastRun | None) -> str:
    return f": {run.error}" if run is not None and run.error else ""
