"""The methods of `redbike.facade.redbike.Redbike` that steer existing jobs; and `Maintenance`, which repairs them.

Patterns are job ids, or patterns of ids with ``*``, ``?`` and ``[…]``; `escape` makes a pattern that matches only one
id. A pattern may match nothing. `tag` is one tag or several, as a text or a list: then only jobs with one of these tags
count. With `tag` and no pattern, all jobs with one of these tags are meant. Each method raises `NoSuchJob` for an id
without a job, and `BadJobId` for an invalid pattern; then it has changed nothing. An instant is epoch seconds, or an
aware datetime. Most methods return a `Steered` for each job: its id, and one word for what was done.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from redbike.config.labels import TagLike, read_filter
from redbike.control.backfilling import Backfill, backfill, check_range, plan
from redbike.control.blackouts import check_together, end_for_jobs, make_blackout, set_for_jobs
from redbike.control.jobs import cancel_jobs, find_failed, pause_jobs, resume_jobs, run_jobs, unset_jobs
from redbike.control.operator import check_reason, check_until
from redbike.control.repair import Repair
from redbike.control.setter import Setter
from redbike.facade.part import Part, Whole
from redbike.schedule.moments import DurationLike, InstantLike, read_instant
from redbike.schedule.objects import ScheduleLike
from redbike.store.inspection.fsck import fsck
from redbike.store.inspection.links import list_uncounted, list_unknown, repair_uncounted, repair_unknown
from redbike.store.moving.shard import forget_left
from redbike.store.patterns import Steered, expand
from redbike.store.sharded.routes import chain_all
from redbike.store.signals import check_signal, has_new_halt
from redbike.store.store import Store

T = TypeVar("T")


class Control(Part):
    """Steers the jobs of `store`. If a person makes changes, `noted` writes these to the log."""

    def __init__(self, bike: Whole, noted: Store, setter: Setter) -> None:
        super().__init__(bike)
        self._noted, self._setter, self.settings = noted, setter, setter.settings
        self._signals_at_start = bike.store.signals.read_all()

    def _find(self, patterns: Iterable[str], tag: TagLike | None) -> list[str]:
        return list(expand(self.store.catalog, patterns, may_match_none=True, tags=read_filter(tag)))

    def run(self, *patterns: str, tag: TagLike | None = None) -> list[Steered]:
        """Run jobs once now and forget their failures; after this run, their schedules go on.

        The words are ``queued``, ``owed`` (the run in flight ends first), ``nowhere`` (a job for every host that has no
        job on any host) and ``missing`` (it was unset meanwhile).
        """
        return run_jobs(self._noted, self._find(patterns, tag))

    def run_failed(self, pattern: str = "*", tag: TagLike | None = None) -> list[Steered]:
        """`run` for the jobs that have failed for good: their status is ``DIE``."""
        return run_jobs(self._noted, list(find_failed(self.store.catalog, pattern, read_filter(tag))))

    def cancel(self, *patterns: str, tag: TagLike | None = None) -> list[Steered]:
        """Cancel the occurrence of each job that waits or runs. The schedule goes on; it counts as no failure.

        If a backfill of a job is under way, only the backfill ends. The words are ``cancelled``, ``unchanged`` (its
        run was cancelled before, but goes on), ``ended`` (its backfill was ended), ``idle`` (none of its occurrences
        waits or runs), ``nowhere`` (as for `run`) and ``missing``. A worker is notified within five seconds.
        """
        return cancel_jobs(self._noted, self._find(patterns, tag), self.settings)

    def unset_many(self, *patterns: str, tag: TagLike | None = None) -> list[Steered]:
        """`unset` for the jobs of patterns or tags. The words are ``unset``, ``missing`` and ``of a base``."""
        return unset_jobs(self._setter, self._find(patterns, tag))

    def backfill(
        self, jobid: str, start: InstantLike, end: InstantLike, at_once: int = 1, again: bool = False,
        dry_run: bool = False, alone: bool = False
    ) -> Backfill:  # fmt: skip
        """Run the past occurrences of a job from `start` to `end`, both included, and return this `Backfill`.

        They run beside its schedule, oldest first, up to `at_once` at a time, each with its own due time. After each
        run, the followers of the job run for the same due time, unless `alone`. Occurrences that are known to have
        succeeded are left out, unless `again`. With `dry_run` nothing is changed. An `end` in the future counts as now.
        `cancel` ends the backfill, and `tell` shows its progress. Raises `NoSuchJob`, `BadJobId`, and `BadConfig` if
        there is nothing to run, or another backfill of the job is under way.
        """
        first, last = read_instant("start", start), read_instant("end", end)
        if first is None or last is None:
            raise TypeError("backfill() needs a start and an end")
        until = check_range(first, last, self.store.timeline.read_clock(), at_once, self.settings.timezone)
        if dry_run:
            return plan(self._noted, jobid, first, until, at_once, again, self.settings, alone)[0]
        return backfill(self._noted, jobid, first, until, at_once, again, self.settings, alone)

    def pause(
        self, *patterns: str, until: InstantLike | None = None, reason: str = "",
        every: ScheduleLike | None = None, lasting: DurationLike | None = None, tag: TagLike | None = None
    ) -> list[Steered]:  # fmt: skip
        """Pause jobs: a waiting occurrence is held, a run in flight completes. Pauses end at `until`, if it is given.

        The words are ``held``, ``paused`` (nothing waited), ``unchanged`` (it was paused before) and ``missing``.

        With `every` (a schedule) and `lasting` (such as ``2h``) this sets a blackout: jobs are paused for `lasting` at
        each time of `every`. It belongs to the jobs that match now; each has at most one. The words are ``set``,
        ``replaced`` (the job had another blackout) and ``missing``. Raise `BadSchedule` if `every` does not recur, or
        the blackout would never end.
        """
        check_reason(reason)
        check_together(until, every, lasting)
        if every is not None:
            blackout = make_blackout(self._noted, every, lasting, reason, self.settings.timezone)
            return set_for_jobs(self._noted, self._find(patterns, tag), blackout, self.settings)
        end = check_until(read_instant("until", until), self.store.timeline.read_clock())
        return pause_jobs(self._noted, self._find(patterns, tag), end, reason)

    def resume(self, *patterns: str, every: bool = False, tag: TagLike | None = None) -> list[Steered]:
        """Resume jobs; ``catchup`` decides on occurrences that came due meanwhile. The words say where each job is now.

        With `every`, delete their blackouts, also an active one; then the words are ``ended`` and ``unchanged``.
        Without `every`, only the current pause of a blackout ends; its next pause begins as planned.
        """
        if every:
            return end_for_jobs(self._noted, self._find(patterns, tag), self.settings)
        return resume_jobs(self._noted, self._find(patterns, tag), self.settings)

    def control(self, signal: str) -> None:
        """Send ``HALT`` to every dispatcher and worker that runs now. Raises `BadConfig` for another signal."""
        check_signal(signal)
        self._noted.signals.halt()

    def clear_control(self) -> None:
        """Withdraw a HALT: dispatchers and workers that have not read it yet go on."""
        self.store.signals.clear()

    def is_halted(self) -> bool:
        """Whether a HALT was sent after this object was made, and was not cleared since."""
        return has_new_halt(self._signals_at_start, self.store.signals.read_all())


class Maintenance(Part):
    """Checks and repairs what is in `store`. If a person makes changes, `noted` writes these to the log."""

    def __init__(self, bike: Whole, noted: Store, setter: Setter) -> None:
        super().__init__(bike)
        self._noted, self._setter = noted, setter

    def fsck(self) -> Iterator[str]:
        """Yield a line for each problem of the stored jobs; nothing is changed.

        If a shard does not answer, raise `Unreachable` after the lines of all other shards.
        """
        unknown = (each.describe() for each in list_unknown(self.store))
        uncounted = (each.describe() for each in list_uncounted(self.store))
        return chain(_ask_each(self.store, fsck), unknown, uncounted)

    def repair(self) -> Iterator[tuple[str, bool]]:
        """Repair what `fsck` finds; yield (line, whether all is well now) for each problem.

        Each repair is made as its line is read. Dispatchers and workers may run meanwhile.
        """

        def repair(shard: Store) -> Iterator[tuple[str, bool]]:
            return Repair(shard, self._setter.compute_repair_start(), self._setter.settings).run()

        return chain(_ask_each(self._noted, repair), repair_unknown(self._noted), repair_uncounted(self._noted))

    def acknowledge(self) -> list[str]:
        """Return a line for each time that the server went back, as after a failover; `health` reports it no more."""
        found = self._noted.rewinds.list_all()
        self._noted.rewinds.acknowledge(found)
        return [rewind.describe() for rewind in found]

    def flush(self) -> int:
        """Delete all keys under the prefix and no others; return how many there were."""
        agreement = self.store.agreement
        left = agreement.list_left()
        gone = self.store.upkeep.flush() + agreement.forget()
        return gone + forget_left(agreement.client, agreement.prefix, left)


def _ask_each(store: Store, ask: Callable[[Store], Iterable[T]]) -> Iterator[T]:
    """Yield the answers of each shard, one shard after the other; then raise an error that names a silent shard."""
    return iter(ask(store)) if len(store.shards) == 1 else chain_all(store.shards, ask)
