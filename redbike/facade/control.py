"""The methods of `redbike.facade.redbike.Redbike` that steer what exists.

Patterns are job ids, or patterns of them with ``*``, ``?`` and ``[…]``; `escape` makes one that matches one id alone. A
pattern may match nothing. `tag` is a tag, or several, as a text or a list: then only jobs count that have one of them,
and without patterns all of these. Each method raises `NoSuchJob` for an id of no job, and `BadJobId` for what is
invalid; then it has changed nothing. An instant is epoch seconds, or an aware datetime.

Those of `Maintenance` check and repair what is in Redis.
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
    """Steers the jobs of `store`. Its changes are noted in the log by `noted`, if they are a person's."""

    def __init__(self, bike: Whole, noted: Store, setter: Setter) -> None:
        super().__init__(bike)
        self._noted, self._setter, self.settings = noted, setter, setter.settings
        self._signals_at_start = bike.store.signals.read_all()

    def _find(self, patterns: Iterable[str], tag: TagLike | None) -> list[str]:
        return list(expand(self.store.catalog, patterns, may_match_none=True, tags=read_filter(tag)))

    def run(self, *patterns: str, tag: TagLike | None = None) -> list[Steered]:
        """Run jobs once now and forget their failures; then they go where their schedules say.

        The words are ``queued``, ``owed`` (its run in flight ends first), ``nowhere`` (it is for every host, and has no
        job on any) and ``missing`` (it was unset meanwhile).
        """
        return run_jobs(self._noted, self._find(patterns, tag))

    def run_failed(self, pattern: str = "*", tag: TagLike | None = None) -> list[Steered]:
        """`run` for the jobs that have failed for good, those with the status ``DIE``."""
        return run_jobs(self._noted, list(find_failed(self.store.catalog, pattern, read_filter(tag))))

    def cancel(self, *patterns: str, tag: TagLike | None = None) -> list[Steered]:
        """Drop and count the occurrence of each job that waits or runs; the schedule goes on, and nothing has failed.

        If a backfill of a job is under way, this ends that, and nothing else. The words are ``cancelled``,
        ``unchanged`` (its run was cancelled before, but goes on), ``ended`` (its backfill), ``idle`` (nothing of it
        waits or runs), ``nowhere`` (as for `run`) and ``missing``. A worker hears of it within five seconds.
        """
        return cancel_jobs(self._noted, self._find(patterns, tag), self.settings)

    def unset_many(self, *patterns: str, tag: TagLike | None = None) -> list[Steered]:
        """`unset` for jobs that patterns or tags name. The words are ``unset``, ``missing`` and ``of a base``."""
        return unset_jobs(self._setter, self._find(patterns, tag))

    def backfill(
        self, jobid: str, start: InstantLike, end: InstantLike, at_once: int = 1, again: bool = False,
        dry_run: bool = False, alone: bool = False
    ) -> Backfill:  # fmt: skip
        """Run the occurrences of a job from `start` to `end`, both included and past, beside its schedule.

        They run oldest first, up to `at_once` at a time, each with its own due time. After each of them, what follows
        the job runs for the same time, unless it is to run `alone`. What has ended well, as far as that is known, is
        left out, unless they are to run `again`. With `dry_run` nothing is changed. An `end` that is to come counts as
        now. `cancel` ends it, and `tell` says how far it is. Raises `NoSuchJob`, `BadJobId`, and `BadConfig` if nothing
        is to be run, or another backfill of the job is under way.
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
        """Pause jobs: what waits is held, a run in flight completes. They are resumed at `until`, if it is given.

        The words are ``held``, ``paused`` (nothing waited), ``unchanged`` (it was paused) and ``missing``.

        With `every`, a schedule, and `lasting`, such as ``2h``, they are paused for so long at each of its times: a
        blackout. It belongs to the jobs that match now, and a job has one at most. The words are ``set``, ``replaced``
        (it had another one) and ``missing``. Raise `BadSchedule` for a schedule without such times, or if it would
        never open.
        """
        check_reason(reason)
        check_together(until, every, lasting)
        if every is not None:
            blackout = make_blackout(self._noted, every, lasting, reason, self.settings.timezone)
            return set_for_jobs(self._noted, self._find(patterns, tag), blackout, self.settings)
        end = check_until(read_instant("until", until), self.store.timeline.read_clock())
        return pause_jobs(self._noted, self._find(patterns, tag), end, reason)

    def resume(self, *patterns: str, every: bool = False, tag: TagLike | None = None) -> list[Steered]:
        """Resume jobs; ``catchup`` decides on what came due meanwhile. The words say where each is now.

        With `every`, end their blackouts, also those that are on. Without it, only one that is on, until the next one.
        Then the words are ``ended`` and ``unchanged``.
        """
        if every:
            return end_for_jobs(self._noted, self._find(patterns, tag), self.settings)
        return resume_jobs(self._noted, self._find(patterns, tag), self.settings)

    def control(self, signal: str) -> None:
        """Give ``HALT`` to every dispatcher and worker that runs now. Raises `BadConfig` for another signal."""
        check_signal(signal)
        self._noted.signals.halt()

    def clear_control(self) -> None:
        """Take back a HALT for those that have not seen it yet."""
        self.store.signals.clear()

    def is_halted(self) -> bool:
        """Whether a HALT was given after this object was made."""
        return has_new_halt(self._signals_at_start, self.store.signals.read_all())


class Maintenance(Part):
    """Checks and repairs what is in `store`. Its changes are noted in the log by `noted`, if they are a person's."""

    def __init__(self, bike: Whole, noted: Store, setter: Setter) -> None:
        super().__init__(bike)
        self._noted, self._setter = noted, setter

    def fsck(self) -> Iterator[str]:
        """Whatever is wrong with the jobs, a line for each thing; nothing is changed.

        Raise `Unreachable`, after the lines of all other shards, if one does not answer.
        """
        unknown = (each.describe() for each in list_unknown(self.store))
        uncounted = (each.describe() for each in list_uncounted(self.store))
        return chain(_ask_each(self.store, fsck), unknown, uncounted)

    def repair(self) -> Iterator[tuple[str, bool]]:
        """Put right what `fsck` finds: for each job a line with what was done, and whether it is well now.

        Dispatchers and workers may go on meanwhile. It happens as the lines are asked for.
        """

        def repair(shard: Store) -> Iterator[tuple[str, bool]]:
            return Repair(shard, self._setter.compute_repair_start(), self._setter.settings).run()

        return chain(_ask_each(self._noted, repair), repair_unknown(self._noted), repair_uncounted(self._noted))

    def acknowledge(self) -> list[str]:
        """Return a line for each time that the server went back, and do not tell it any more: somebody knows of it."""
        found = self._noted.rewinds.list_all()
        self._noted.rewinds.acknowledge(found)
        return [rewind.describe() for rewind in found]

    def flush(self) -> int:
        """Delete all keys under the prefix and no others; how many there were."""
        agreement = self.store.agreement
        left = agreement.list_left()
        gone = self.store.upkeep.flush() + agreement.forget()
        return gone + forget_left(agreement.client, agreement.prefix, left)


def _ask_each(store: Store, ask: Callable[[Store], Iterable[T]]) -> Iterator[T]:
    """Yield what each shard of a store answers, one after the other; then an error names one that does not."""
    return iter(ask(store)) if len(store.shards) == 1 else chain_all(store.shards, ask)
