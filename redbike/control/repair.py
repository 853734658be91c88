"""``redbike fsck --repair``: repair each job in which `fsck` finds a problem, so that it runs again.

The cause is data that was lost or changed outside of Redbike: the end of an append-only file, a key, an entry.

`redbike.control.repair_places` computes the correct `JobState` of a job from the `JobState` that was found.
``lua/repair.lua`` commits the correct one in one step, if the job has not changed since; dispatchers and workers run
meanwhile. A job without a problem is never touched.

Tags come after all jobs: ``lua/repair_tag.lua`` gives each the list, the lease and the key that its runs in flight
need, and removes those of a tag without runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from redbike.config.settings import Settings
from redbike.control.repair_places import Correction, describe_changes
from redbike.store.agreed import refuse_newer
from redbike.store.inspected import JobState
from redbike.store.inspection.fsck import (
    check_tag,
    describe_remedy,
    find_bad_tags,
    find_instant_ahead,
    list_bad_backfills,
    list_bad_limits,
    repair_limits,
)
from redbike.store.inspection.hosts import list_bad_hosts, repair_hosts
from redbike.store.inspection.jobs import check_job, find_bad_jobs, inspect_jobs, list_astray
from redbike.store.inspection.listing import EXPIRES, FORGOTTEN, MEMBERS, Listing, find_wrong_types, list_all
from redbike.store.store import Store
from redbike.store.upkeep import Rewind

TRIES = 5  # attempts for a job that changes all the time


class Repair:
    """Repairs the jobs of `store`. See `Correction` for `since`."""

    def __init__(self, store: Store, since: float, settings: Settings) -> None:
        self.store = store
        self.since = since
        self.correction = Correction(store, since, settings)

    def run(self) -> Iterator[tuple[str, bool]]:
        """Yield (line, whether all is well now) for each job and key with a problem. The line says what was done."""
        with self.store.log.note_when_done("repair", "", "repaired", "not repaired") as tally:
            for line, is_well in self._run():
                tally.add("repaired" if is_well else "not repaired", is_well)
                yield line, is_well

    def _run(self) -> Iterator[tuple[str, bool]]:
        if wrong := list(find_wrong_types(self.store)):
            yield from ((line, False) for line in wrong)
            return
        refuse_newer(self.store.client, self.store.keys)
        listing = list_all(self.store)
        if ahead := find_instant_ahead(self.store):
            self.store.timeline.advance(self.since, was_ahead=True)
            yield f"{ahead} -- repaired: it is now", True
        yield from self._discard(self.store.links.list_bad())
        rewinds = self.store.rewinds.list_all()
        for page in find_bad_jobs(self.store, listing):
            yield from self._repair_jobs(page, listing)
        for line in list_astray(self.store, listing):
            yield f"{line} -- not repaired: a redbike shards move to another number, and back, does it", False
        yield from self._repair_rewinds(rewinds)
        # Only now does each job have the run that it should have.
        for found in list(find_bad_tags(self.store, listing)):
            self.store.upkeep.repair_tag(found.tag, found.deadlines)
            [now] = self.store.questions.inspect_tags({found.tag: found.deadlines})
            done = "it has what its runs need" if now.deadlines else "nothing is left of it"
            yield _format_line(f"the tag {found.tag!r}", check_tag(found), [done], check_tag(now))
        yield from self._repair_limits(listing)
        for jobid, problems in list(list_bad_backfills(self.store, listing, repairs=True)):
            left = self.store.backfills.check(jobid, listing.backfills[jobid])
            yield _format_line(
                f"the backfill of {jobid!r}", problems, ["what is left of it, if anything, goes on"], left
            )
        for jobid, problem in list(list_bad_hosts(self.store)):
            yield f"{jobid!r}: {problem} -- repaired: {repair_hosts(self.store, jobid)}", True
        for owner, problem in list(self.store.workers.list_bad()):
            self.store.workers.forget(owner)
            yield f"the process {owner!r}: {problem} -- repaired: it is removed", True
        for key, how in listing.keys:
            yield self._repair_key(key, how)
        for key, how in listing.leftovers:
            if how == MEMBERS:
                self.store.upkeep.delete(key)
                yield f"the key {key!r} is left of redbike 0.13.1 -- repaired: it is removed", True
        yield from self._discard(listing.damaged)

    def _repair_jobs(self, found: list[JobState], listing: Listing) -> Iterator[tuple[str, bool]]:
        """Repair a page of jobs in one pipeline; try again with jobs that changed meanwhile."""
        states = found
        for _ in range(TRIES):
            pairs = [(state, self.correction.apply(state)) for state in states]
            replies = iter(self.store.upkeep.repair((state, wanted) for state, wanted in pairs if wanted != state))
            moved = []
            for state, wanted in pairs:
                if wanted == state or next(replies):
                    yield from _report_job(state, wanted)
                else:
                    moved.append(state)
            states = inspect_jobs(self.store, listing, {state.jobid: state.entries for state in moved})
        yield from (line for state in states for line in _report_job(state, state))

    def _repair_rewinds(self, rewinds: Sequence[Rewind]) -> Iterator[tuple[str, bool]]:
        """Acknowledge clocks that were ahead, as their jobs are repaired. If data was lost, a person must decide."""
        self.store.rewinds.acknowledge([rewind for rewind in rewinds if rewind.is_of_clock])
        for rewind in rewinds:
            done = "repaired: its jobs are" if rewind.is_of_clock else f"not repaired: {describe_remedy(rewind)}"
            yield f"{rewind.describe()} -- {done}", rewind.is_of_clock
        yield from self._discard(self.store.rewinds.list_bad())

    def _discard(self, damaged: Iterable[tuple[str, str | bytes, str]]) -> Iterator[tuple[str, bool]]:
        for key, member, how in damaged:
            self.store.upkeep.discard(key, member)
            yield f"the key {key!r} {how} -- repaired: it is removed", True

    def _repair_limits(self, listing: Listing) -> Iterator[tuple[str, bool]]:
        wrong = list(list_bad_limits(self.store, listing))
        repair_limits(self.store, listing)
        left = dict(list_bad_limits(self.store, replace(listing, strays=[])))
        for subject, problems in wrong:
            yield _format_line(subject, problems, ["it agrees with its runs and its pause"], left.get(subject, []))

    def _repair_key(self, key: str, how: str) -> tuple[str, bool]:
        if how == EXPIRES:
            self.store.upkeep.persist(key)
            return f"the key {key!r} {how} -- repaired: not any more", True
        if how == FORGOTTEN:
            name = key.removeprefix(f"{self.store.keys.prefix}-")
            self.store.upkeep.add_queue(name)
            return f"the key {key!r} {how} -- repaired: it is there again", True
        return f"the key {key!r} {how} -- not repaired: look at it, and delete it if nobody needs it", False


def _report_job(found: JobState, now: JobState) -> Iterator[tuple[str, bool]]:
    """Yield the line for a job; none for a job without a problem that only moved while it was listed."""
    if any(check_job(found)):
        yield _format_line(repr(found.jobid), check_job(found), describe_changes(found, now), check_job(now))


def _format_line(subject: str, problems: Iterable[str], done: Iterable[str], left: Iterable[str]) -> tuple[str, bool]:
    """Return a line with the problems, the repairs and the problems that are left; and whether none is left."""
    done, left = list(done), list(left)
    said = ["; ".join(problems)]
    said += [f"repaired: {', '.join(done)}"] if done else []
    said += [f"not repaired: {'; '.join(left)}"] if left else []
    return f"{subject}: {' -- '.join(said)}", not left
