"""The transitions that users ask for: a job is set, unset, run once more, cancelled, or rejected."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Literal, NamedTuple

from redbike.errors import BadJobId, BadSchedule, NoSuchJob, quoted
from redbike.store.alerts import Alerts
from redbike.store.enums import Skip
from redbike.store.links import find_subscribers
from redbike.store.namespace import PAGE, STEP, Part, make_tag, number_queues, split
from redbike.store.processes import may_work
from redbike.store.records import decode, format_time
from redbike.store.scripts import Call, Reply
from redbike.store.workers import Workers
from redbike.text.group_names import is_group, is_jobid, name_parent

MOST_NAMED = 20  # followers that a message names
Due = float | Literal["now"] | None  # when a job runs: epoch seconds, "now" by Redis' clock, or None for never


class SetMode(StrEnum):
    """What a job keeps when it is set again."""

    REPLACE = "replace"  #: nothing
    KEEP_PLACE = "keep_place"  #: its place, if it has this schedule already
    KEEP_REST = "keep_rest"  #: its state, if it has this schedule, and has failed for good or has stopped
    KEEP = "keep"  #: what KEEP_PLACE and KEEP_REST keep
    KEEP_SCHEDULE = "keep_schedule"  #: its schedule and its place: only options, data and group are set

    @property
    def keeps_place(self) -> bool:
        """Whether a job keeps its place, if it has this schedule already."""
        return self in (SetMode.KEEP, SetMode.KEEP_PLACE)


@dataclass(slots=True)
class JobToSet:
    """A job to set."""

    jobid: str
    schedule: str  # in its complete stored form
    due: Due  # its first run
    once: bool  # the run is owed if it comes due while an earlier one is in flight
    queue: str
    mode: SetMode = SetMode.REPLACE
    # The numbers of bytes before and after a new anchor in `schedule`: two texts that differ only there are the same.
    anchor_span: tuple[int, int] | None = None
    found: str = ""  # if given, the job is set only if it still has this schedule
    known: str = ""  # the stored options with which `due` was computed
    options: str | None = None  # its new options; None leaves them as they are, "" removes them
    new_jitter: bool = False  # whether they change the due times of its schedule: then it does not keep its place
    data: str | None = None  # JSON; None leaves them as they are, "" removes them
    group: str | None = None  # the record of its row in a file; None leaves it as it is, "" removes it
    paused: str = ""  # the record of the pause with which a new job starts
    skipped: Mapping[Skip, int] = field(default_factory=dict)  # occurrences before `due` that do not run, by reason
    expires: float = 0.0  # seconds after `due` in which it must begin, if it is enqueued at once; 0.0 for no limit
    # Its parents and when it is due, as `-following` has them; `member`: its new group, see `lua/set.lua`.
    follows: Mapping[str, Any] | None = None
    error: BadSchedule | BadJobId | NoSuchJob | None = None  # why it was not set after all


def explain_refusal(job: JobToSet, detail: str, fits: Callable[[str], bool]) -> BadSchedule | NoSuchJob:
    """Return the error for a job that is missing, or would wait for itself; it names only jobs that fit."""
    path = "\n".join(each if fits(each) else "another job" for each in detail.split("\n"))
    return explain_cycle(job, path) if detail else NoSuchJob(f"no such job: {job.jobid!r}")


def explain_cycle(job: JobToSet, path: str) -> BadSchedule:
    """Return the error for a job that would wait for itself. `path` is the cycle: job ids with newlines between."""
    names = " after ".join(map(name_parent, path.split("\n")))
    return BadSchedule(f"bad schedule {quoted(job.schedule)}: the job would wait for itself: {names}")


def describe_waiting(jobid: str, followers: Sequence[str], fits: Callable[[str], bool] = bool) -> str:
    """Return a line that says that `followers` wait for an unset job. It names those that `fits` allows."""
    waits = "1 job waits" if len(followers) == 1 else f"{len(followers):,} jobs wait"
    shown = list(filter(fits, followers))
    more = ", …" if len(shown) > MOST_NAMED else " and other jobs" if len(shown) < len(followers) else ""
    named = f": {', '.join(shown[:MOST_NAMED])}{more}" if shown else ""
    return f"{jobid} is unset; {waits} for it{named}"


class Refused(NamedTuple):
    """A job that was not set, and why."""

    job: JobToSet
    # options: they are not `known`; schedule: it is not `found`; queue: the job waits in another queue; due: its due
    # time has passed meanwhile; cycle: it would wait for itself; missing: there is no such job
    why: Literal["options", "schedule", "queue", "due", "cycle", "missing"]
    detail: str  # its options, schedule or queue, or the jobs of the cycle, with newlines between


@dataclass(slots=True)
class Answers:
    """The server's replies when jobs were set."""

    refused: list[Refused] = field(default_factory=list)  # the jobs that were not set
    others: list[Reply] = field(default_factory=list)  # the replies to the other scripts


@dataclass(frozen=True, slots=True)
class Cancellation:
    """An occurrence to cancel: how its job was found, and what the job does next."""

    jobid: str
    found: dict[str, str]  # its schedule, timeline and queued, those that exist, as Redis spells them
    tag: str | None  # of its run in flight
    queue: str | None = None  # in which it waits
    due: float | None = None  # when it runs next; None for never
    spent: bool = False  # it never runs again because it is a one-off
    skipped: Mapping[Any, int] = field(default_factory=dict)  # further occurrences that are skipped, by reason
    retry_state: str = ""  # its new retry state


class Jobs(Part):
    """Sets, unsets, runs, cancels and rejects jobs."""

    def set(self, jobs: Sequence[JobToSet], from_now: bool = False, step: int = STEP) -> list[Refused]:
        """Set jobs, none of them twice, in one round trip, `step` in each step. Return those that were not set.

        The options of such a job may have changed. Or it waits in the queue of another worker class: set it again with
        that queue. With `from_now`, occurrences count from now: the due time of a job may have passed meanwhile.
        """
        with self.set_meanwhile(jobs, from_now, step) as answers:
            pass
        return answers.refused

    @contextmanager
    def set_meanwhile(
        self, jobs: Sequence[JobToSet], from_now: bool, step: int = STEP, also: Iterable[Call] = ()
    ) -> Iterator[Answers]:
        """`set` jobs and run the scripts `also` while the caller's block runs. The answers are complete after it."""
        answers = Answers()
        # A job that follows a group closes it, so the jobs of the group are set before it.
        ordered = sorted(jobs, key=closes_group) if any(job.follows for job in jobs) else jobs
        steps = list(split(ordered, step))
        watches = Alerts(self._namespace).pack_watch({job.jobid: job.options for job in jobs if job.options})
        calls = chain((self._pack_set(step, from_now) for step in steps), watches, also)
        with self._namespace.scripts.run_meanwhile(calls) as replies:
            yield answers
        answers.others += replies[len(steps) + len(watches) :]
        refused: dict[str, tuple[Any, str]] = {}
        for reply in replies[: len(steps)]:
            if len(reply) > 1:
                words = list(map(decode, reply[1:]))
                refused |= zip(words[::3], zip(words[1::3], words[2::3], strict=True), strict=True)
        if refused:
            answers.refused += [Refused(job, *refused[job.jobid]) for job in jobs if job.jobid in refused]

    def _pack_set(self, jobs: Sequence[JobToSet], from_now: bool) -> Call:
        numbers = number_queues(job.queue for job in jobs)
        given = [_format_job(job, numbers[job.queue]) for job in jobs]
        expiring = {job.jobid: _find_expiry(job) for job in jobs if job.expires and job.due is not None}
        more: dict[str, Any] = {"expiring": expiring} if expiring else {}
        return self._namespace.pack("set", numbers, request=make_tag(), from_now=from_now, jobs=given, **more)

    def reject(self, jobid: str, membership: str = "") -> None:
        """Give a job that was never set the status ``BAD``; for a row of a file, also store its `membership`."""
        given = {"group": membership} if membership else {}
        self._namespace.run("reject", job=jobid, **given)

    def unset(self, jobid: str) -> list[str]:
        """Forget `jobid`; a run in flight completes. Return its followers. Raise `NoSuchJob` if there is no such job.

        Among the followers are the shards that have subscribed to it, see `redbike.store.links`.
        """
        reply: Reply = ["elsewhere", self._name_queue(jobid).encode()]
        while reply[0] == "elsewhere":
            # Another worker class may have put the job into a queue of another name: declare that queue instead.
            reply = self._namespace.run("unset", [decode(reply[1])], job=jobid)
        return _list_followers(reply)

    def unset_rows(self, jobids: Iterable[str], group: str) -> dict[str, list[str]]:
        """Forget those of `jobids` that are rows of `group`, in one round trip; return them with their followers."""
        queues, removed = {jobid: self._name_queue(jobid) for jobid in jobids}, dict[str, list[str]]()
        while queues:
            calls = [self._namespace.pack("unset", [name], job=each, group=group) for each, name in queues.items()]
            replies = dict(zip(queues, self._namespace.scripts.run_all(calls), strict=True))
            removed |= {jobid: _list_followers(reply) for jobid, reply in replies.items() if reply[0] == "ok"}
            queues = {jobid: decode(reply[1]) for jobid, reply in replies.items() if reply[0] == "elsewhere"}
        return removed

    def set_groups(self, memberships: Mapping[str, str]) -> None:
        """Store the records of the rows that jobs are, and change nothing else; skip unset jobs."""
        self._namespace.scripts.run_all(
            self._namespace.pack("set_groups", jobs={each: record or False for each, record in step})
            for step in split(memberships.items(), STEP)
        )

    def _name_queue(self, jobid: str) -> str:
        # An id of an older version, or of a function that is gone, has no queue: then any name will do.
        return self._namespace.find_queue(jobid) or "-"

    def run(self, jobids: Iterable[str]) -> list[str]:
        """Run jobs once now, whatever their schedules, and forget their failures.

        Return for each ``queued``, ``owed`` (its run in flight ends first) or ``missing``. If a job has no queue, none
        is run. A job that waits in another queue moves to its own, if workers take jobs only from its own.
        """
        return [word for word, _ in self.run_timed(jobids)]

    def run_timed(self, jobids: Iterable[str]) -> list[tuple[str, float]]:
        """Do what `run` does; return with each word the instant of the request by Redis' clock, or NaN."""
        jobs, words = [(jobid, self._namespace.queue_for(jobid)) for jobid in jobids], list[tuple[str, float]]()
        for page in split(jobs, PAGE):
            replies = self._namespace.scripts.run_all(self._pack_run(jobid, queue) for jobid, queue in page)
            words += [self._run_elsewhere(*job, reply) for job, reply in zip(page, replies, strict=True)]
        return words

    def _run_elsewhere(self, jobid: str, queue: str, reply: Reply) -> tuple[str, float]:
        while reply[0] == "elsewhere":
            home, workers = decode(reply[1]), Workers(self._namespace).list_working()
            is_own_worked, is_home_worked = (any(may_work(each, name) for each in workers) for name in (queue, home))
            queues = [queue, home] if is_own_worked and not is_home_worked else [home]
            reply = self._namespace.scripts.run(self._pack_run(jobid, *queues))
        return decode(reply[1]), float(reply[2]) if len(reply) > 2 else math.nan

    def _pack_run(self, jobid: str, *queues: str) -> Call:
        given = {"expires": self._namespace.expires} if self._namespace.expires else {}
        return self._namespace.pack("run", queues, job=jobid, request=make_tag(), **given)

    def cancel(self, cancellations: Sequence[Cancellation]) -> list[str]:
        """Cancel occurrences of jobs, in one round trip.

        Return for each ``cancelled``, ``unchanged`` (its run was cancelled before), or ``stale``: the job has changed
        since it was found, so it was not cancelled.
        """
        replies = self._namespace.scripts.run_all(map(self._pack_cancel, cancellations))
        return [decode(reply[1]) if len(reply) > 1 else reply[0] for reply in replies]

    def _pack_cancel(self, each: Cancellation) -> Call:
        found = each.found if each.tag is None else {**each.found, "tag": each.tag}
        given: dict[str, Any] = {"job": each.jobid, "request": make_tag(), "found": found, "skipped": each.skipped}
        if each.spent:
            given["spent"] = self._namespace.forget_after
        if each.due is not None:
            given["due"] = each.due
        if each.retry_state:
            given["retry_state"] = each.retry_state
        return self._namespace.pack("cancel", [each.queue] if each.queue else [], **given)


def _list_followers(reply: Reply) -> list[str]:
    """Return the followers of a job, and the shards that subscribed to it, from a reply of ``lua/unset.lua``."""
    names = decode(reply[1]).split("\n") if len(reply) > 1 else ()
    return [name for name in names if is_jobid(name) or find_subscribers(name)]


def closes_group(job: JobToSet) -> bool:
    """Tell whether a job follows a group: to set the job closes the group."""
    return job.follows is not None and any(map(is_group, job.follows.get("parents", ())))


def _find_expiry(job: JobToSet) -> str | float | None:
    """Return when a job expires, or in how many seconds from now."""
    return format_time(job.due + job.expires) if isinstance(job.due, float | int) else job.expires


def _format_job(job: JobToSet, queue: int) -> dict[str, Any]:
    """Return a job for ``lua/set.lua``."""
    given: dict[str, Any] = {"id": job.jobid, "schedule": job.schedule, "queue": queue}
    if job.due is not None:
        given["due"] = job.due
    if job.mode != SetMode.REPLACE:
        given["mode"] = job.mode
    if job.anchor_span is not None:
        given["span"] = job.anchor_span
    # One by one: a loop over names takes four times as long, for each job.
    if job.once:
        given["once"] = True
    if job.new_jitter:
        given["new_jitter"] = True
    if job.found:
        given["found"] = job.found
    if job.known:
        given["known"] = job.known
    if job.paused:
        given["paused"] = job.paused
    if job.skipped:
        given["skipped"] = job.skipped
    if job.follows:
        given["follows"] = job.follows
    # An empty value removes what is stored.
    if job.options is not None:
        given["options"] = job.options or False
    if job.data is not None:
        given["data"] = job.data or False
    if job.group is not None:
        given["group"] = job.group or False
    return given
