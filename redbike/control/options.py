"""Changing the options and the data of a job, but not its schedule."""

from collections.abc import Callable
from typing import Unpack

from redbike.config.options import JobOptions, read_changes
from redbike.config.settings import Settings
from redbike.control.remarks import describe_owner
from redbike.control.setter import Setter
from redbike.errors import NoSuchJob
from redbike.loop.requests import Request, check_base
from redbike.schedule.parser import parse_stored
from redbike.store.backfill import check_stored
from redbike.store.records import Membership
from redbike.store.shell import check_own_jobid
from redbike.store.store import Store


def change_options(
    store: Store, settings: Settings, jobid: str, warn: Callable[[str], object], **options: Unpack[JobOptions]
) -> None:
    """Change options and data of a job, but neither its schedule nor its place. `warn` gets the owner of its row.

    `Setter.set` would run a one-off again. Raise `NoSuchJob`, `BadJobId` for a job that Redbike sets itself, and
    `BadConfig` for bad options.
    """
    changes = read_changes(options)
    [state] = store.questions.inspect([jobid])
    if state.schedule is None:
        raise NoSuchJob(f"no such job: {jobid!r}")
    check_stored(jobid, state.options)
    if group := Membership.parse(state.membership).group:
        warn(describe_owner(jobid, group))
    queue = store.queue_to_set(check_own_jobid(jobid))
    check_base(jobid, queue, changes)
    setter, schedule = Setter(store, settings, warn), parse_stored(state.schedule)
    now = setter.read_clock()
    request = Request(
        jobid, schedule, queue, now, now, False, changes, stays=True, found=state.schedule, known=state.options
    )
    if error := setter.set_requests({jobid: request}, from_now=True)[jobid].error:
        raise error
