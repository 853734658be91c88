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

MOST_NAMED = 20  # followers in a remark
Due = float | Literal["now"] | None  # when a job runs: epoch seconds, at once by Redis' clock, or not at all


class SetMode(StrEnum):
    """What a job keeps that is set again."""

    REPLACE = "replace"  #: nothing
    KEEP_PLACE = "keep_place"  #: its place, if it has this schedule already
    KEEP_REST = "keep_rest"  #: that it failed for good, or stopped and never runs, if it has this schedule
    KEEP = "keep"  #: both
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
    due: Due  # first
    once: bool  # the run is owed if it comes due while an earlier one is in flight
    queue: str
    mode: SetMode = SetMode.REPLACE
    # How many bytes come before and after an anchor that was just put in. Another anchor makes no other schedule.
    anchor_span: tuple[int, int] | None = None
    found: str = ""  # it is not set if it has another schedule than this, or none any more
    known: str = ""  # the options, as they are stored, with which `due` was computed
    options: str | None = None  # what becomes of them; None leaves them as they are, "" is none
    new_jitter: bool = False  # they change the due times of its schedule, so it does not keep its place
    data: str | None = None  # JSON; None leaves them as they are, "" is none
    group: str | None = None  # the record of whose row it is; None leaves it as it is, "" is none
    paused: str = ""  # the record of the pause that a job that is new has at once
    skipped: Mapping[Skip, int] = field(default_factory=dict)  # occurrences before `due` that do not run, by reason
    expires: float = 0.0  # seconds after `due` in which it must begin, if it is enqueued at once; 0.0 for no limit
    # Its parents and when it is due, as `-following` has them; `member`: its group from now on, see `lua/set.lua`.
    follows: Mapping[str, Any] | None = None
    error: BadSchedule | BadJobId | NoSuchJob | None = None  # why it was not set after all


def explain_refusal(job: JobToSet, detail: str, fits: Callable[[str], bool]) -> BadSchedule | NoSuchJob:
    """Return the error for a job that is missing, or that would wait for itself by jobs; it names those that fit."""
    path = "\n".join(each if fits(each) else "another job" for each in detail.split("\n"))
    return explain_cycle(job, path) if detail else NoSuchJob(f"no such job: {job.jobid!r}")


def explain_cycle(job: JobToSet, path: str) -> BadSchedule:
    """Return the error for a job that would wait for itself, by these jobs with newlines between."""
    names = " after ".join(map(name_parent, path.split("\n")))
    return BadSchedule(f"bad schedule {quoted(job.schedule)}: the job would wait for itself: {names}")


def describe_waiting(jobid: str, followers: Sequence[str], fits: Callable[[str], bool] = bool) -> str:
    """Return that jobs wait for one that is unset, with the names of those that fit."""
    waits = "1 job waits" if len(followers) == 1 else f"{len(followers):,} jobs wait"
    shown = list(filter(fits, followers))
    more = ", …" if len(shown) > MOST_NAMED else " and other jobs" if len(shown) < len(followers) else ""
    named = f": {', '.join(shown[:MOST_NAMED])}{more}" if shown else ""
    return f"{jobid} is unset; {waits} for it{named}"


class Refused(NamedTuple):
    """A job that was left as it is, and why."""

    job: JobToSet
    # options: it has others than known; schedule: it has another one than found; queue: it waits in another one; due:
    # its due time has passed meanwhile; cycle: it would wait for itself; missing: it is no job
    why: Literal["options", "schedule", "queue", "due", "cycle", "missing"]
    detail: str  # those options, that schedule or queue, or the jobs from itself to itself, with newlines between


@dataclass(slots=True)
class Answers:
    """What the server has answered when jobs were set."""

    refused: list[Refused] = field(default_factory=list)  # those that were left as they are
    others: list[Reply] = field(default_factory=list)  # the replies to the other scripts


@dataclass(frozen=True, slots=True)
class Cancellation:
    """An occurrence to cancel: how its job was found, and where that goes then."""

    jobid: str
    found: dict[str, str]  # of schedule, timeline, queued what is there, as Redis spells it
    tag: str | None  # of its run in flight
    queue: str | None = None  # in which it waits
    due: float | None = None  # when it runs next; None for never
    spent: bool = False  # it never runs again because it is a one-off
    skipped: Mapping[Any, int] = field(default_factory=dict)  # occurrences that are passed over besides, by reason
    retry_state: str = ""  # what stays of its retry state


class Jobs(Part):
    """Sets, unsets, runs, cancels and rejects jobs."""

    def set(self, jobs: Sequence[JobToSet], from_now: bool = False, step: int = STEP) -> list[Refused]:
        """Set jobs, none of them twice, in one round trip, `step` in each step.

        Return those that were left as they are. One may have other options than known. One may wait in a queue that is
        not its own, where another worker class has put it: with that queue in place of its own it can be set. If
        occurrences count `from_now`, the due time of one may have passed meanwhile.
        """
        with self.set_meanwhile(jobs, from_now, step) as answers:
            pass
        return answers.refused

    @contextmanager
    def set_meanwhile(
        self, jobs: Sequence[JobToSet], from_now: bool, step: int = STEP, also: Iterable[Call] = ()
    ) -> Iterator[Answers]:
        """`set`, and then run the scripts of `also`, while the caller's block goes on; it has the answers after it."""
        answers = Answers()
        # A job that follows a group closes it: before that, all others are one of it that are to be.
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
        """Leave the status ``BAD`` for a job that was never set, and the record of whose row it is, if it is one."""
        given = {"group": membership} if membership else {}
        self._namespace.run("reject", job=jobid, **given)

    def unset(self, jobid: str) -> list[str]:
        """Forget `jobid`; a run in flight completes. Return its followers. Raise `NoSuchJob` if there is none.

        Among them are the shards that have subscribed to it, see `redbike.store.links`.
        """
        reply: Reply = ["elsewhere", self._name_queue(jobid).encode()]
        while reply[0] == "elsewhere":
            # Another worker class may have put the job into a queue of another name: that one is declared instead.
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
        """Record whose rows jobs are, without touching them otherwise; pass over those that are not set."""
        self._namespace.scripts.run_all(
            self._namespace.pack("set_groups", jobs={each: record or False for each, record in step})
            for step in split(memberships.items(), STEP)
        )

    def _name_queue(self, jobid: str) -> str:
        # For an id of an older version, or of a function that is gone, there is no queue: then any will do.
        return self._namespace.find_queue(jobid) or "-"

    def run(self, jobids: Iterable[str]) -> list[str]:
        """Run jobs once now, whatever their schedules, and forget their failures.

        Return for each ``queued``, ``owed`` (its run in flight ends first) or ``missing``. If one has no queue, none is
        run. One that waits in another queue than its own moves to that, if workers look there alone.
        """
        return [word for word, _ in self.run_timed(jobids)]

    def run_timed(self, jobids: Iterable[str]) -> list[tuple[str, float]]:
        """Do the same; return each word with the instant by Redis' clock since which it is asked for, or NaN."""
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

        Return for each ``cancelled``, ``unchanged`` (its run was cancelled before), or ``stale``: the job is not as it
        was found any more, and nothing was changed.
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
    """Return the followers of a job, and the shards that have subscribed to it, from what ``lua/unset.lua`` says."""
    names = decode(reply[1]).split("\n") if len(reply) > 1 else ()
    return [name for name in names if is_jobid(name) or find_subscribers(name)]


def closes_group(job: JobToSet) -> bool:
    """Tell whether a job follows a group, which is closed when that is set."""
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
    # Without a value they are removed.
    if job.options is not None:
        given["options"] = job.options or False
    if job.data is not None:
        given["data"] = job.data or False
    if job.group is not None:
        given["group"] = job.group or False
    return given
