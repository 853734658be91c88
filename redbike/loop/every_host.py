"""Jobs that run on every host. Such a job, a *base*, has a job of its own on every host with a worker of its queue.

`EveryHost.spread` makes these jobs what the base says. It may be repeated, and may be cut off between any two steps:
the next call goes on. A dispatcher calls it every few seconds, and a process that sets or unsets a base at once. A job
on a host stores its base, and the revision of that, with its options. The script that sets a job compares them. So what
was computed from an older base does not undo what somebody has set meanwhile.

A host without a worker is *gone*: its job is paused, with the reason. So the job is neither late nor overdue. When a
worker is back, the job is resumed, unless somebody has paused it meanwhile. After a day it is unset.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redbike.config.options import find_all_of, format_options, parse_options
from redbike.config.settings import Settings, override
from redbike.errors import NoSuchJob, RedbikeError, Unreachable
from redbike.loop import resuming
from redbike.loop.blackouts import copy_blackout
from redbike.loop.host_jobs import (
    NEW,
    find_jobs,
    find_time,
    is_untouched,
    list_present,
    say_limit,
    say_taken,
    would_begin,
)
from redbike.loop.requests import GROUP_OF, Request
from redbike.loop.steps import log_set
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.moments import format_utc
from redbike.schedule.parser import find_inner, parse_stored
from redbike.store.enums import Event
from redbike.store.every_host import Hosts, HostStart, has_same_schedule, make_mark, make_revision, name_job
from redbike.store.host_names import split_host
from redbike.store.inspected import JobState
from redbike.store.jobs import describe_waiting
from redbike.store.processes import ProcessRecord
from redbike.store.records import Pause
from redbike.store.store import Store
from redbike.store.timeline import is_ahead
from redbike.store.workers import KEPT

log = logging.getLogger("redbike")

BY = "redbike"  # who pauses the jobs of hosts that are gone
GONE = 90.0  # seconds without a worker after which a host is gone
NOTED = 20.0  # seconds after which a host that is there is noted again
TRIES = 5  # for jobs that change meanwhile


@dataclass(slots=True)
class HostRequest(Request):
    """A job of a base on one host, to be set."""

    stored: str = ""  # the options that it is to have

    @property
    def options(self) -> str:
        """The options that the job will have."""
        return self.stored


@dataclass(slots=True)
class _Base:
    """A base as it is now, its hosts, and its jobs there."""

    state: JobState
    queue: str
    hosts: Mapping[str, float]  # when each was seen last
    present: frozenset[str]
    anew: bool  # whether those that have ended go on
    jobs: dict[str, JobState] = field(default_factory=dict)  # by host: those that there are

    @property
    def jobid(self) -> str:
        return self.state.jobid

    @property
    def inner(self) -> Schedule | None:
        return find_inner(self.state.schedule)

    @property
    def revision(self) -> str:
        return make_revision(self.state.schedule or "", self.state.options, self.state.data)

    def is_of(self, host: str) -> bool:
        """Tell whether the job with its name for this host is its own: somebody may have set one by hand."""
        return host in self.jobs and find_all_of(self.jobs[host].options)[0] == self.jobid

    def is_revived(self, inner: Schedule, host: str) -> bool:
        """Tell whether its job on `host` has ended, and is to go on."""
        # What runs once may have done so since the base was set.
        if not self.anew or inner.runs_once:
            return False
        return self.jobs[host].schedule == Stop.text != inner.text or self.jobs[host].has_event(Event.DIE)

    def is_gone(self, host: str) -> bool:
        """Tell whether no worker has been there for too long."""
        return host not in self.present and self.state.now - self.hosts[host] > GONE

    def list_own(self) -> Iterator[tuple[str, JobState]]:
        """Yield its jobs with their hosts."""
        return ((host, state) for host, state in self.jobs.items() if self.is_of(host))


class EveryHost:
    """Updates the jobs of bases in `store`. `warn` gets remarks, which name other jobs only if `fits` allows."""

    def __init__(
        self, store: Store, settings: Settings, warn: Callable[[str], object] = log.warning,
        fits: Callable[[str], bool] = bool
    ) -> None:  # fmt: skip
        self._store, self._settings, self._warn, self._fits = store.noted_as(None), settings, warn, fits

    def begin(self, bases: Mapping[str, str]) -> list[str]:
        """Note the hosts of bases that are about to be set with these schedules. Warn if they cannot run on some.

        Return the bases.
        """
        for base, schedule in bases.items():
            queue = self._store.name_queue(base)
            present = list_present(queue, self._store.workers.list_working())
            now = self._store.timeline.read_clock()
            self._store.hosts.note(base, dict.fromkeys(present, now))
            if schedule == Stop.text:
                continue
            if others := list(filter(self._fits, find_jobs(self._store, base, present)[1])):
                self._warn(f"{base}: {say_taken(base, others)}")
            if not present:
                limit = say_limit(find_inner(schedule), now)
                self._warn(f"{base}: no worker works the queue {split_host(queue)[0]!r} on any host{limit}")
        return list(bases)

    def spread_all(self) -> None:
        """Make the jobs of all bases what they say; without bases, this is one command. Raise the first error last."""
        if known := self._store.hosts.read_all():
            workers = self._store.workers.list_working()
            errors = []
            for base, hosts in known.items():
                try:
                    self._spread(base, hosts, workers)
                except Unreachable:
                    raise
                except RedbikeError as error:
                    # The others go on.
                    errors.append(error)
            if errors:
                raise errors[0]

    def spread(self, bases: Sequence[str], anew: Collection[str] = ()) -> None:
        """Make the jobs of these bases what they say. Recurring jobs of bases in `anew` go on if they have ended."""
        workers = self._store.workers.list_working() if bases else ()
        for base in bases:
            self._spread(base, self._store.hosts.read(base), workers, base in anew)

    def _spread(self, jobid: str, known: Hosts, workers: Iterable[ProcessRecord], anew: bool = False) -> None:
        for _ in range(TRIES):
            base = self._read(jobid, known, workers, anew)
            if not base.queue:
                return  # neither its queue nor its hosts are known
            is_over = base.state.schedule is None
            gone = [host for host in base.hosts if is_over or base.state.now - base.hosts[host] > KEPT]
            for host in gone:
                self._unset(base, host)
            fresh = {host: base.state.now for host in base.hosts if self._is_news(known, host, base)}
            if fresh or gone or is_over or known.is_over:
                self._store.hosts.note(jobid, fresh, () if is_over else gone, is_over)
            if is_over:
                return
            if self._set(base, gone):
                self._note_begun(base, known)
                self._hold(base, gone)
                return

    def _is_news(self, known: Hosts, host: str, base: _Base) -> bool:
        seen, now = known.seen.get(host, 0.0), base.state.now
        # By a clock that was ahead, nobody knows when a host was there last.
        return is_ahead(seen, now) or (host in base.present and now - seen > NOTED)

    def _read(self, jobid: str, known: Hosts, workers: Iterable[ProcessRecord], anew: bool) -> _Base:
        [state] = self._store.questions.inspect([jobid], with_data=True)
        queue = split_host(self._store.name_queue(jobid))[0]
        present = list_present(queue, workers)
        hosts = dict(sorted({**known.seen, **dict.fromkeys(present, state.now)}.items()))
        base = _Base(state, queue, hosts, present, anew)
        found = self._store.questions.inspect([name_job(jobid, host) for host in hosts]) if hosts else []
        base.jobs = {host: each for host, each in zip(hosts, found, strict=True) if each.schedule is not None}
        return base

    def _unset(self, base: _Base, host: str) -> None:
        if base.is_of(host):
            jobid = base.jobs[host].jobid
            try:
                followers = self._store.jobs.unset(jobid)
            except NoSuchJob:
                return
            log.info("%s: unset, as %s", jobid, self._say_gone(base, host) or "no job has set it")
            if followers:
                self._warn(describe_waiting(jobid, followers, self._fits))

    def _say_gone(self, base: _Base, host: str) -> str:
        if base.state.schedule is None:
            return f"{base.jobid} was"
        since = format_utc(int(base.hosts[host]))
        return f"host {host} has no worker of {base.queue} since {since}"

    def _set(self, base: _Base, gone: Iterable[str]) -> bool:
        """Set the jobs of a base that are missing or old; return whether nothing has changed meanwhile."""
        if (inner := base.inner) is None:
            return True
        hosts = [host for host in base.hosts if host not in gone and self._is_wanted(base, inner, host)]
        requests = [self._make_request(base, inner, host) for host in hosts]
        jobs = [each.make_job(self._settings) for each in requests]
        from_now = all(each.since >= each.now for each in requests)
        refused = self._store.jobs.set(jobs, from_now) if jobs else []
        left = {each.job.jobid for each in refused}
        new = [job.jobid for host, job in zip(hosts, jobs, strict=True) if host not in base.jobs]
        copy_blackout(self._store, base.jobid, [each for each in new if each not in left])
        if log.isEnabledFor(logging.DEBUG):
            log_set(log, [job for job in jobs if not refused])
        return not refused

    def _note_begun(self, base: _Base, known: Hosts) -> None:
        """Note whether a one-off has a job on a host, as it may be forgotten; not if all wait for gone hosts."""
        inner, text, began = base.inner, base.state.schedule or "", known.began
        if inner is None or not inner.runs_once:
            return
        own = [host for host in base.hosts if base.is_of(host) or self._is_wanted(base, inner, host)]
        waiting = [host for host in own if base.is_gone(host) and is_untouched(base.jobs[host])]
        kept = override(self._settings, base.state.options).forget_after
        # Later, a job that has run may be forgotten, or be unset as its host is gone.
        limit = KEPT / 2 if isinstance(kept, str) else min(KEPT / 2, kept)
        if len(waiting) < len(own):
            began = text
        elif own and base.state.now - find_time(base.state, inner) < limit:
            began = ""
        if began != known.began:
            self._store.hosts.note(base.jobid, {}, began=began)

    def _is_wanted(self, base: _Base, inner: Schedule, host: str) -> bool:
        """Tell whether a job is to be set on a host."""
        if host in base.jobs:
            is_old = find_all_of(base.jobs[host].options)[1] != base.revision
            return base.is_of(host) and (is_old or base.is_revived(inner, host))
        return host in base.present and would_begin(base.state, inner)

    def _make_request(self, base: _Base, inner: Schedule, host: str) -> HostRequest:
        jobid, known, now = name_job(base.jobid, host), base.jobs.get(host), base.state.now
        own: dict[str, Any] = dict(parse_options(base.state.options))
        own.pop(GROUP_OF, None)
        queue = self._store.queue_for(jobid)
        stays = False
        if known and inner.runs_once and has_same_schedule(find_all_of(known.options)[1], base.revision):
            # It may have had its run, and must not run again only because its options changed.
            inner, stays = parse_stored(known.schedule or ""), True
        start, since, is_given = HostStart.parse(base.state.options), now, False
        if start:
            # What was due before a host came must not run there.
            is_new = HostStart.parse(known.options) != start if known else now - start.set_at < NEW
            since, is_given = (start.since, start.is_given) if is_new else (max(now, start.since), False)
        request = HostRequest(jobid, inner, queue, now, since, is_given, stays=stays, wants_run=not stays)
        request.stored = format_options(own | make_mark(base.jobid, base.revision, start))
        request.known = known.options if known else ""
        request.changes = replace(request.changes, data=base.state.data)
        if pause := base.state.pause:
            request.paused = pause.copy().format()
        return request

    def _hold(self, base: _Base, gone: Iterable[str]) -> None:
        """Pause the jobs of hosts that are gone, and resume those of hosts that are back.

        While the base is paused, the job of a host that is back stays as it is: what it has missed must not run now.
        If the base was resumed just before a job got the pause of the base, that job is resumed, too.
        """
        for host, state in base.list_own():
            if host in gone:
                continue
            is_here, pause = host in base.present, state.pause
            if pause is None and base.is_gone(host):
                why = self._say_gone(base, host)
                self._store.pauses.pause([state.jobid], None, BY, why)
                log.warning("%s: paused, as %s", state.jobid, why)
            elif pause is not None and is_here and not base.state.pause:
                if pause.is_of_base or pause.to_dict()["by"] == BY:
                    resuming.resume(self._store, self._settings, [state.jobid])
                    why = f"{base.jobid} is" if pause.is_of_base else f"host {host} has a worker of {base.queue} again"
                    log.info("%s: resumed, as %s", state.jobid, why)
            elif pause is None and is_here and base.state.pause:
                self._copy_pause(state.jobid, base.state.pause)

    def _copy_pause(self, jobid: str, pause: Pause) -> None:
        given = pause.to_dict()
        by, reason = given["by"] or "", given["reason"] or ""
        self._store.pauses.pause([jobid], given["until"], by, reason, given["since"], of_base=True)
