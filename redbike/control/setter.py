"""Setting jobs: the text of a schedule becomes a job with its first due time, which the store commits.

Occurrences count from `after`, if it is given, else from the instant in the timefile, else from now. The setting
``catchup`` decides on occurrences that were missed since then.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, Unpack

from redbike.config.options import JobOptions, OptionChanges, read_changes
from redbike.config.settings import Settings, check_zone
from redbike.control.pairs import Pair, Wanted, read_pair
from redbike.control.remarks import describe_owner, is_spent, log_if_due, log_if_spent
from redbike.errors import BadJobId, BadSchedule, NoSuchJob, ServerError
from redbike.loop.every_host import EveryHost
from redbike.loop.host_jobs import check_unset
from redbike.loop.requests import Request, Start, check_base, parse_to_set
from redbike.loop.steps import log_set
from redbike.schedule.moments import InstantLike, ZoneLike, read_instant, read_zone
from redbike.schedule.objects import ScheduleLike, check_schedule
from redbike.schedule.parser import parse_stored
from redbike.store.backfill import check_stored
from redbike.store.every_host import is_base
from redbike.store.jobs import JobToSet, Refused, describe_waiting, explain_refusal
from redbike.store.names import check_jobid, check_known_jobid
from redbike.store.namespace import STEP
from redbike.store.neighbours import Neighbours
from redbike.store.processes import Takers
from redbike.store.records import Membership
from redbike.store.scripts import Call, Reply
from redbike.store.shell import check_own_jobid
from redbike.store.store import Store
from redbike.store.timeline import is_ahead
from redbike.text.parsing import load_zone

log = logging.getLogger("redbike")

CHUNK = 500  # jobs that `Setter.set_many` sends in one round trip
CLOCK = 1.0  # seconds for which a reading of Redis' clock is reused


class Setter:
    """Sets and unsets jobs in `store`, for `Redbike`. `warn` gets remarks, which name only jobs that `fits` accepts."""

    def __init__(
        self, store: Store, settings: Settings, warn: Callable[[str], object] = log.warning,
        fits: Callable[[str], bool] = lambda jobid: True
    ) -> None:  # fmt: skip
        self.store, self.settings, self._warn, self._fits = store, settings, warn, fits
        self.start, self._every_host = Start(settings), EveryHost(store, settings, warn, fits)
        self._neighbours, self._takers = Neighbours(store), Takers(store.workers.list_working)
        self._read: tuple[float, float] | None = None  # Redis' clock, and the monotonic one then

    def set(
        self, jobid: str, schedule: ScheduleLike | None, after: InstantLike | None = None, tz: ZoneLike | None = None,
        **options: Unpack[JobOptions]
    ) -> bool:  # fmt: skip
        """Set the schedule of `jobid`; None unsets the job. Return False, and log an error, for a bad schedule.

        A line of log also says if no run is to come.

        `schedule` is a text, an aware datetime, a timedelta, a rule of dateutil or a croniter. Occurrences count from
        `after`: epoch seconds, or a datetime. `tz` is the zone of floating times, also of a naive datetime or rule.
        The job keeps its `options` and data that are not given; None resets one to its default. Raises `BadJobId`,
        `BadConfig` for a bad zone, option or data, and `TypeError` for anything that is no schedule.
        """
        try:
            zone = read_zone(tz)
            self._set(jobid, schedule, read_since(after, zone), zone, read_changes(options), logs_if_spent=True)
        except BadSchedule as error:
            log.error("%s: %s", jobid, error)
            return False
        return True

    def enter(
        self, jobid: str, schedule: ScheduleLike | None, after: InstantLike | None = None, tz: ZoneLike | None = None,
        **options: Unpack[JobOptions]
    ) -> bool:  # fmt: skip
        """`set`, but raise `BadSchedule` for a bad schedule. Return whether the job had a run to come after this."""
        zone = read_zone(tz)
        since, changes = read_since(after, zone), read_changes(options)
        # Read also before it is set: if reading fails, as with a key of another type, nothing is changed.
        before = self.store.questions.inspect([check_known_jobid(jobid)])[0]
        if group := Membership.parse(before.membership).group:
            self._warn(describe_owner(jobid, group))
        job = self._set(jobid, schedule, since, zone, changes)
        try:
            state = self.store.questions.inspect([jobid])[0]
        except ServerError:  # the job is set all the same, and if the caller sets it again, it may run again
            return job is not None and job.due is not None
        if job:
            log_if_due(job, before, state, since is None and bool(self.settings.timefile), self._warn)
        return job is not None and not is_spent(job, state)

    def enter_from_shell(self, jobid: str, schedule: str, data: Any) -> None:
        """Set a one-off of a shell, see `redbike.store.shell`. Only commands of a shell call this."""
        self._set(jobid, schedule, None, None, read_changes({"data": data}), check_jobid)

    def _set(
        self, jobid: str, schedule: ScheduleLike | None, after: float | None, tz: str | None, changes: OptionChanges,
        check: Callable[[str], str] = check_own_jobid, logs_if_spent: bool = False
    ) -> JobToSet | None:  # fmt: skip
        """Set one job, and return it. If `schedule` is None, unset the job, and return None. Raise `BadSchedule`."""
        if schedule is None:
            self.unset(jobid)
            return None
        check(jobid)
        check_schedule(schedule, tz)
        queue = self.store.queue_to_set(jobid)
        check_base(jobid, queue, changes)
        zone = self.settings.timezone if tz is None else check_zone(tz)
        now = self.read_clock()
        parsed = parse_to_set(schedule, zone, jobid, now, self.settings)
        since, given = self.start.compute(after, now), after is not None
        request = Request(jobid, parsed, queue, now, since, given, changes, wants_run=True)
        job = self.set_requests({jobid: request}, from_now=since == now)[jobid]
        if job.error:
            raise job.error
        if logs_if_spent:
            log_if_spent(self.store, {jobid: request}, [job])
        return job

    def unset(self, jobid: str) -> bool:
        """Remove a job; its run in flight completes. Return False if there is no such job. Raises `BadJobId`."""
        check_unset(self.store, jobid)
        try:
            followers = self.store.jobs.unset(jobid)
        except NoSuchJob:
            return False
        finally:
            if is_base(jobid):  # also if an earlier call was interrupted
                self._every_host.spread([jobid])
        if followers:
            self._warn(describe_waiting(jobid, followers, self._fits))
        return True

    def set_many(
        self, pairs: Iterable[Pair | tuple[str, ScheduleLike | None]],
        after: InstantLike | None = None, tz: ZoneLike | None = None
    ) -> Iterator[tuple[str, bool | ValueError]]:  # fmt: skip
        """Set a stream of (job id, schedule) and (job id, schedule, options), a batch in each round trip."""
        zone = read_zone(tz)
        return self._set_many(map(read_pair, pairs), read_since(after, zone), zone)

    def set_anew(self, pairs: Iterable[Pair]) -> Iterator[tuple[str, bool | ValueError]]:
        """`set_many`, but each job runs again, even if it has failed for good."""
        return self._set_many(map(read_pair, pairs), None, None, wants_run=True)

    def follow_group(self, jobid: str, schedule: str, changes: OptionChanges) -> None:
        """Set a job that is due when a group has ended. Raise `BadSchedule`."""
        self._set(jobid, schedule, None, None, changes)

    def _set_many(
        self, stream: Iterator[Wanted], after: float | None, tz: str | None, wants_run: bool = False
    ) -> Iterator[tuple[str, bool | ValueError]]:
        while chunk := list(islice(stream, CHUNK)):
            for wanted in chunk:
                check_schedule(wanted.schedule, tz)
            yield from self._set_chunk(chunk, after, tz, wants_run)

    def compute_repair_start(self) -> float:
        """Return the instant from which occurrences count for a job of which only the schedule is known."""
        now, dispatched = self.store.timeline.read_dispatched()
        since = now if dispatched is None or is_ahead(dispatched, now) else dispatched
        return self.start.compute(None, since)

    def _set_chunk(
        self, chunk: list[Wanted], after: float | None, tz: str | None, wants_run: bool
    ) -> list[tuple[str, bool | ValueError]]:
        zone = self.settings.timezone if tz is None else check_zone(tz)
        now = self.read_clock()
        since, given = self.start.compute(after, now), after is not None
        results: list[tuple[str, bool | ValueError]] = []
        jobs, places = dict[str, Request](), dict[str, int]()  # index in `results`: a job may come twice

        def set_them() -> None:
            asked_for = dict(jobs)
            done = self.set_requests(jobs, from_now=since == now).values()
            log_if_spent(self.store, asked_for, done)
            for job in done:
                if isinstance(job.error, ValueError):
                    results[places[job.jobid]] = job.jobid, job.error

        for jobid, schedule, changes, error in chunk:
            try:
                if error:
                    raise error
                if schedule is None:
                    set_them()
                    self.unset(jobid)
                    results.append((jobid, True))
                    continue
                queue = self.store.queue_to_set(check_own_jobid(jobid))
                check_base(jobid, queue, changes)
                parsed = parse_to_set(schedule, zone, jobid, now, self.settings)
            except ValueError as refused:
                results.append((jobid, refused))
            else:
                if jobid in jobs:
                    set_them()
                jobs[jobid] = Request(jobid, parsed, queue, now, since, given, changes, wants_run=wants_run)
                places[jobid] = len(results)
                results.append((jobid, True))
        set_them()
        return results

    def set_requests(self, requests: dict[str, Request], from_now: bool, step: int = STEP) -> dict[str, JobToSet]:
        """Set the jobs of `requests`, `step` in each script; clear `requests`, and return the jobs.

        If occurrences count `from_now`, none is due before its job is set.
        """
        jobs = {jobid: request.make_job(self.settings) for jobid, request in requests.items()}
        with self.set_meanwhile(requests, jobs, from_now, step):
            pass
        requests.clear()
        return jobs

    @contextmanager
    def set_meanwhile(
        self,
        requests: dict[str, Request],
        jobs: dict[str, JobToSet],
        from_now: bool,
        step: int = STEP,
        also: Iterable[Call] = (),
    ) -> Iterator[list[Reply]]:
        """Set `jobs`, made from `requests`, and then run the scripts `also`, while the caller's ``with`` block runs.

        When the block has ended, the jobs are set, and the list has the replies to the scripts.
        """
        self._neighbours.check({job.queue for job in jobs.values()})
        bases = self._every_host.begin({name: job.schedule for name, job in jobs.items() if is_base(name)})
        with self.store.jobs.set_meanwhile(list(jobs.values()), from_now, step, also) as answers:
            yield answers.others
        self._decide_again(requests, jobs, answers.refused, from_now, step)
        if log.isEnabledFor(logging.DEBUG):
            log_set(log, jobs.values())
        to_run = (job for job in jobs.values() if job.due is not None and not job.error and job.jobid not in bases)
        for jobid, why in self._takers.explain((job.jobid, job.queue) for job in to_run):
            self._warn(f"{jobid}: {why}")
        self._every_host.spread(bases, {base for base in bases if requests[base].wants_run and not jobs[base].error})

    def _decide_again(
        self, requests: dict[str, Request], jobs: dict[str, JobToSet], refused: list[Refused], from_now: bool, step: int
    ) -> None:
        """Set again the jobs that the server refused, with the stored values that it found."""
        ahead = 0.0  # seconds, doubled each time: a schedule may be faster than a round trip to the server
        while refused:
            for job, why, detail in refused:
                request = requests[job.jobid]
                if why in ("options", "schedule"):
                    try:
                        if why == "options":
                            request.known = check_stored(job.jobid, detail)
                        else:
                            request.schedule, request.found = parse_stored(detail), request.found and detail
                        jobs[job.jobid] = request.make_job(self.settings)
                    except (BadJobId, BadSchedule) as error:
                        job.error = error
                elif why == "queue":
                    job.queue = request.queue = detail
                elif why in ("cycle", "missing"):
                    job.error = explain_refusal(job, detail, self._fits)
                else:
                    job.due = request.timed_schedule.find_place(self.store.timeline.read_clock() + ahead)
            ahead = 2 * ahead + 0.001
            again = [jobs[job.jobid] for job, _, _ in refused if not job.error]
            refused = self.store.jobs.set(again, from_now, step)

    def read_clock(self) -> float:
        """Return Redis' clock, in epoch seconds; it is read from the server at most once a second."""
        if (now := self.store.stopped_at) is not None:
            return now
        asked = time.monotonic()
        if self._read is None or asked - self._read[1] > CLOCK:
            self._read = self.store.timeline.read_clock(), asked
        return self._read[0] + asked - self._read[1]


def read_since(after: InstantLike | None, zone: str | None) -> float | None:
    """Return the instant from which occurrences count, in epoch seconds; None for None. A naive datetime is in `zone`.

    Raise what `read_instant` raises, and `BadConfig` for a bad zone.
    """
    if isinstance(after, datetime) and zone is not None and after.utcoffset() is None:
        after = after.replace(tzinfo=load_zone(check_zone(zone)))
    return read_instant("after", after)
