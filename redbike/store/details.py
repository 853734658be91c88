"""What is known of a job, as `redbike.Redbike.tell` returns it."""

from typing import Any, NotRequired, TypedDict

from redbike.store.backfill import BackfillDetails
from redbike.store.blackouts import BlackoutDetails
from redbike.store.every_host import HostDetails
from redbike.store.group_counts import GroupDetails
from redbike.store.history import RunDetails
from redbike.store.records import (
    PauseDetails,
    ProgressDetails,
)


class JobDetails(TypedDict):
    """What is known of a job; see `Redbike.tell`. Times are epoch seconds.

    The first four keys are always there: for an unknown job they are None, None, None and False. The other keys are
    there only where they apply.
    """

    status: str | None  #: such as ``TML:1900000000``
    next_run: float | None  #: when it is due on the timeline
    schedule: str | None  #: in its complete form
    working: bool  #: whether a run of it is in flight
    queued_for: NotRequired[float]  #: the due time of the occurrence that waits in a queue
    expires_at: NotRequired[float]  #: when it is skipped, if it has not begun by then
    waits_for: NotRequired[list[str]]  #: the parents of a follower that have not ended since its last due time
    followers: NotRequired[list[str]]  #: the jobs that follow it
    backfill: NotRequired[BackfillDetails]  #: the progress of its backfill that is under way
    last_backfill: NotRequired[BackfillDetails]  #: how its last backfill ended
    backfill_of: NotRequired[str]  #: the job of whose backfill it is an occurrence
    hosts: NotRequired[list[HostDetails]]  #: the hosts of a job for every host
    host_of: NotRequired[str]  #: the job for every host that has this job on one host
    follows_group: NotRequired[GroupDetails]  #: the group that it waits for, or has waited for
    paused: NotRequired[PauseDetails]
    blackouts: NotRequired[list[BlackoutDetails]]  #: when it is paused again and again
    held_for: NotRequired[float]  #: when what its pause holds would be due: an occurrence, or a further try
    working_for: NotRequired[float]  #: the due time of the occurrence that runs
    working_since: NotRequired[float]  #: when its run began
    deadline: NotRequired[float]  #: the deadline of its run
    worker: NotRequired[str | None]  #: the id of the process that runs it, see `Process`; None if nobody knows
    progress: NotRequired[ProgressDetails]  #: of its run, see `Run.progress`
    cancelled: NotRequired[bool]  #: whether its run was cancelled, but goes on
    failures: NotRequired[int]  #: how many runs in a row have failed
    losses: NotRequired[int]  #: how many runs in a row were lost
    forget_at: NotRequired[float]  #: when it is forgotten, as a one-off that has ended
    skipped: NotRequired[dict[str, int]]  #: occurrences that did not run, by reason
    failure: NotRequired[dict[str, Any]]  #: its last failure, as `Redbike.failures` has it
    options: NotRequired[dict[str, Any]]  #: its options, by name
    data: NotRequired[Any]
    group: NotRequired[str]  #: the file or program of whose jobs it is one
    output: NotRequired[str]  #: the output of its last run
    result: NotRequired[Any]  #: the result of the last run that has one, see `Redbike.result`
    runs: NotRequired[list[RunDetails]]  #: its ended runs that are kept, the newest first
