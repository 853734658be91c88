"""Check the stored data: each schedule, option and record, hash by hash, so that only one page is in memory.

``fsck`` compares the places of each job with each other. This needs all places at once, so it is not done here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from redbike.config.options import find_bad_options, parse_data
from redbike.connection.refusals import translate_errors
from redbike.errors import BadConfig, BadJobId, BadSchedule, RedbikeError
from redbike.queries.check.findings import Finding, Groups, Needed, note
from redbike.queries.following.family import Family, find_after
from redbike.queries.following.words import describe_hopeless
from redbike.queries.unhosted import find_idle
from redbike.schedule.parser import find_inner, is_follower, parse_stored
from redbike.store.blackouts import Blackout
from redbike.store.enums import Event
from redbike.store.every_host import is_base
from redbike.store.host_names import split_host
from redbike.store.inspection.fsck import describe_remedy, find_instant_ahead
from redbike.store.inspection.jobs import describe_lateness, is_of_clock
from redbike.store.inspection.listing import find_wrong_types
from redbike.store.names import check_known_jobid
from redbike.store.namespace import DATA_PAGE, PAGE, split
from redbike.store.processes import Process
from redbike.store.records import RETRY_STATE, Pause, RunRecord, Status, Waiting
from redbike.store.shell import get_taker, say_need
from redbike.store.store import Store
from redbike.text.parsing import load_object

Report = Callable[[int, int], None]

GOES_ON, RUN_OUT, STOPPED = range(3)  # results of `_judge`


class JobsCheck:
    """Checks the jobs in `store`.

    `queues` are the queues that the worker class names; None if it is not known. `needed` says what the worker must
    have for each job; None if its jobs need nothing. If not `names_queues`, the queues of jobs are not known.
    """

    def __init__(
        self,
        store: Store,
        queues: Iterable[str] | None = None,
        needed: Needed | None = None,
        names_queues: bool = True,
    ) -> None:
        self._store = store
        self._queues = None if queues is None else frozenset(queues)
        self._needed = needed
        self._names_queues = names_queues
        self._unworked, self._unknown, self._untaken, self._misplaced = Groups(), Groups(), Groups(), Groups()
        self._workers: Sequence[Process] = ()  # workers that are alive
        self._workers_of: dict[str, Sequence[Process]] = {}  # by queue
        self.number = 0  # jobs that were read

    def run(self, report: Report | None = None) -> Iterator[Finding]:
        """Yield the findings. `report` is called from time to time with the number of jobs read so far, and of all."""
        if wrong := [Finding(problem) for problem in find_wrong_types(self._store)]:
            yield from wrong
            return
        if instant := find_instant_ahead(self._store):
            yield Finding(instant)
        yield from (Finding(f"{each.describe()}; {describe_remedy(each)}") for each in self._store.rewinds.list_all())
        yield from self._check_schedules(report)
        unhosted = find_idle(self._store, self._store.timeline.read_clock())
        yield from (Finding(f"{jobid!r}: it {why}") for jobid, why in unhosted)
        yield from self._check_statuses()
        for jobid, stored in self._store.scan(self._store.keys.options):
            yield from (Finding(f"{jobid!r}: {problem}") for problem in find_bad_options(stored))
        yield from self._check_data()
        yield from self._check_records()

    def _check_schedules(self, report: Report | None) -> Iterator[Finding]:
        judge = lru_cache(4096)(partial(_judge, self._store.timeline.read_clock()))
        knows_worked, followers = self._find_workers(), list[str]()
        with translate_errors():
            total = self._store.client.hlen(self._store.keys.schedules)
        # Occurrences of a backfill are left out: the findings on their job apply to them.
        for jobid, text in self._store.backfills.leave_out(self._store.catalog.list_schedules()):
            self.number += 1
            if report and self.number % PAGE == 0:
                report(self.number, max(self.number, total))
            try:
                check_known_jobid(jobid)
                future = judge(text)
            except (BadJobId, BadSchedule) as error:
                yield Finding(f"{jobid!r}: its schedule cannot be read: {error}" if text else f"{jobid!r}: no schedule")
                continue
            if future == RUN_OUT:
                yield note(f"{jobid!r}: its rule has run out, it does not run again")
            elif future == GOES_ON:
                yield from self._check_place(jobid, knows_worked)
            if is_follower(text):
                followers.append(jobid)
        if knows_worked:
            self._check_waiting()
        yield from self._describe_groups()
        for page in split(followers, PAGE):
            yield from _check_followers(self._store.whole, page)

    def _find_workers(self) -> bool:
        """Find the workers that are alive; tell whether it is known which queues are worked."""
        processes = self._store.workers.list_all()
        self._workers = [each for each in processes if each.kind == "worker" and each.state == "alive"]
        return self._names_queues and (bool(self._workers) or self._queues is not None)

    def _check_place(self, jobid: str, knows_worked: bool) -> Iterator[Finding]:
        """Yield why no worker will run a job; problems that many jobs share are counted."""
        try:
            queue = self._store.queue_for(jobid) if self._names_queues else None
            # For a base, workers of its queue on any host count.
            queue = split_host(queue)[0] if queue is not None and is_base(jobid) else queue
        except RedbikeError as error:
            queue = None
            yield Finding(f"{jobid!r}: {error}")
        workers, name = self._list_workers_of(queue), get_taker(jobid)
        if not any(each.has_for(jobid) for each in workers):
            # The worker class that is checked runs only jobs of its queues.
            is_own = queue is None or self._queues is None or queue in self._queues
            if is_own and self._needed and not self._needed.is_there(jobid):
                self._unknown.add(name, jobid)
            elif workers:
                self._untaken.add(f"{queue}\n{name}", jobid)
        if queue is not None and knows_worked and not workers and queue not in (self._queues or ()):
            self._unworked.add(queue, jobid)

    def _check_waiting(self) -> None:
        """Count the jobs that wait in a queue without workers, if it is not their queue any more."""
        for jobid, record in self._store.scan(self._store.keys.queued):
            waiting = Waiting.parse(record)
            if waiting is None or self._list_workers_of(waiting.queue) or waiting.queue in (self._queues or ()):
                continue
            own = self._store.name_queue(jobid)
            if own != waiting.queue:
                self._misplaced.add(f"{waiting.queue}\n{own if self._list_workers_of(own or None) else ''}", jobid)

    def _list_workers_of(self, queue: str | None) -> Sequence[Process]:
        if queue is None:
            return ()
        if queue not in self._workers_of:
            self._workers_of[queue] = [each for each in self._workers if each.works(queue)]
        return self._workers_of[queue]

    def _describe_groups(self) -> Iterator[Finding]:
        for queue, jobs in self._unworked.describe():
            yield Finding(f"no worker works the queue {queue!r}: {jobs}" if queue else f"no worker works: {jobs}")
        for place, jobs in self._misplaced.describe():
            queue, _, own = place.partition("\n")
            remedy = f"; redbike run moves each to {own!r}" if own else ""
            where = f"the queue {queue!r}, in which jobs wait" if place else "the queues of other jobs that wait"
            yield Finding(f"no worker works {where}: {jobs}{remedy}")
        what = self._needed.what if self._needed else ""
        for name, jobs in self._unknown.describe():
            yield Finding(f"the worker has no {what} {name!r}: {jobs}" if name else f"no {what} for {jobs}")
        for place, jobs in self._untaken.describe():
            queue, _, name = place.partition("\n")
            who = f"no worker of the queue {queue!r} {say_need(name)}" if place else "no worker takes"
            yield Finding(f"{who}: {jobs}")

    def _check_statuses(self) -> Iterator[Finding]:
        now, suspects = self._store.timeline.read_clock(), list[str]()
        for jobid, record in self._store.catalog.list_statuses():
            status = Status.parse(record)
            if is_of_clock(status, now):
                suspects.append(jobid)
                if len(suspects) == PAGE:
                    yield from self._check_late(suspects)
                    suspects.clear()
            if status is None:
                yield Finding(f"{jobid!r}: its status cannot be read: {record!r:.80}")
            elif status.event == Event.BAD:
                yield Finding(f"{jobid!r}: it was never scheduled, as its schedule was bad; set or unset it")
        yield from self._check_late(suspects)

    def _check_late(self, jobids: Sequence[str]) -> Iterator[Finding]:
        """Yield the jobs that are due too late, because the clock was ahead when they were scheduled."""
        for state in self._store.questions.inspect(jobids):
            if late := describe_lateness(state):
                yield Finding(f"{state.jobid!r}: {late}; redbike fsck --repair brings it there")

    def _check_data(self) -> Iterator[Finding]:
        # The data of a job may be long.
        for jobid, text in self._store.scan(self._store.keys.data, page=DATA_PAGE):
            try:
                parse_data(text)
            except BadConfig as error:
                yield Finding(f"{jobid!r}: {error}")

    def _check_records(self) -> Iterator[Finding]:
        keys = self._store.keys
        readers: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
            (keys.queued, "place in its queue", Waiting.parse),
            (keys.running, "run", RunRecord.parse),
            (keys.pauses, "pause", Pause.parse),
            (keys.retry_states, "retry state", RETRY_STATE.fullmatch),
            (keys.failures, "failure", load_object),
            (keys.blackouts, "blackout", Blackout.parse),
        )
        for key, name, read in readers:
            for jobid, record in self._store.scan(key):
                if read(record) is None:
                    yield Finding(f"{jobid!r}: its {name} cannot be read: {record!r:.80}")


def _judge(now: float, text: str) -> int:
    """Return whether a stored schedule goes on, has run out or is stopped. Raise `BadSchedule`."""
    schedule = parse_stored(text)
    if schedule.is_for_hosts and (inner := find_inner(text)):
        return GOES_ON if inner.next(now) is not None else STOPPED
    if schedule.runs_once or schedule.is_awaiting or schedule.next(now) is not None:
        return GOES_ON
    return STOPPED if schedule.next(0.0) is None else RUN_OUT


def _check_followers(store: Store, jobids: Sequence[str]) -> Iterator[Finding]:
    """Yield which of these followers wait for a job that does not exist, or does not run any more."""
    family = Family(store)
    family.read_parents(jobids, levels=1)
    for jobid in jobids:
        state = family.states.get(jobid)
        after = find_after(state.schedule) if state else None
        if state is None or after is None:
            continue
        for parent in state.waits_for if state.follows else after.parents:
            if parent in family.groups:
                if family.groups[parent].counts.is_open:
                    name = family.groups[parent].name
                    yield note(f"{jobid!r}: it waits for the group {name!r}, of which more jobs are to be set")
            elif parent in family.states and family.states[parent] is None:
                yield Finding(f"{jobid!r}: it waits for {parent!r}, which is no job")
            elif why := describe_hopeless(family, parent, after.ending):
                yield note(f"{jobid!r}: it waits for {parent!r}, which {why}")
