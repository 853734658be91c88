"""Groups among the jobs that follow others: they are parents whose own parents are the jobs that are left of them."""

from collections.abc import Iterable, Sequence

from redbike.queries.following.streams import NEVER, Latest, Stream
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import AWAITED
from redbike.store.groups import GroupState
from redbike.store.inspected import JobState
from redbike.store.store import Store
from redbike.text.group_names import MARK

MOST_MEMBERS = 1000  # of a group, of which it is known when they end


def read_groups(store: Store, parents: Iterable[str]) -> dict[str, GroupState]:
    """Return groups that are parents, as such, with the first of the jobs that are left of each."""
    names = [parent.removeprefix(MARK) for parent in parents]
    return {MARK + name: group for name, group in store.groups.read(names, MOST_MEMBERS).items()}


def make_group_stream(group: GroupState, members: Sequence[Schedule], now: float) -> Schedule | None:
    """Return when a group has ended whose jobs end by these schedules; None if nobody knows that."""
    if group.counts.is_open or group.counts.left > len(group.jobids):
        return None
    last = Latest("", [], members, now).next(now - 1)
    return NEVER if last is None else Stream([last])


def waits_for_group(state: JobState) -> bool:
    """Tell whether a job that follows a group still does: it is due by that once."""
    return AWAITED in (state.timeline, state.pause.due if state.pause else None)
