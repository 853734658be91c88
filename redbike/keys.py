"""Every key that Redbike has in Redis, named once, with the schema of what is in it.

========================  ======  ==============================================================================
key (after the prefix)    type    what is in it
========================  ======  ==============================================================================
``-schedules``            hash    job id → schedule, in its complete stored form
``-statuses``             hash    job id → ``EVENT:TIMESTAMP``
``-timeline``             zset    job id, scored by its due time
``-<queue name>``         list    job ids that are due; pushed left, popped right
``-queued``               hash    job id → ``DUE QUEUE``: which jobs are in a queue, since when they are due
``-running``              hash    job id → ``TAG START DEADLINE DUE FAILURES LOSSES NEXT QUEUE``: runs in flight
``-leases``               zset    job id, scored by when its worker counts as dead unless it is heard of before
``-inflight-<job id>``    string  the tag of the run; expires at its deadline
``-streaks``              hash    job id → ``FAILURES LOSSES TRIES DUE AFTER``, of jobs that are to be tried again
``-skipped``              hash    ``REASON:job id`` → occurrences that were not run; reasons in `SKIPS`
``-failures``             hash    job id → JSON of its last failure
``-failure-times``        zset    job id, scored by the time of its last failure
``-queues``               set     names of the queues that were ever used
``-dispatched``           zset    the one member ``until``, scored by the instant up to which all was dispatched
``-requests``             zset    tags of the latest requests for an immediate run, scored by their time
``-control``              string  ``HALT TIMESTAMP``
``-halt``                 list    a token that wakes blocked processes when a HALT is given
``-withdrawn``            set     ``JOB ID <LF> QUEUE``: entries of long queues that no job waits with any more
``-wakeup``               list    a token that wakes a dispatcher when something earlier than before is due
``-wake-<queue name>``    list    a token that wakes one worker when the queue has jobs
========================  ======  ==============================================================================

Times are seconds since the epoch with six decimals. NEXT in a run's record is what ``set`` left behind while the job
was in flight: ``-`` nothing, ``set`` a new schedule, ``once`` a new one-off that waits on the timeline, ``due:TIME`` a
further run that is owed when this one ends.

A streak has the failures and losses in a row, how often its occurrence was tried, the due time of that (``-`` if it is
the one in the queue), and after when the schedule goes on when it has ended (``-`` after that due time); the last three
are missing where nothing was tried yet. ``alone`` at its end: it must not be taken with others.

With a prefix in braces (``{myapp}``) all of these are in one slot of a cluster.
"""

import re
from functools import lru_cache

from redbike.errors import BadJobId, BadQueueName

MAX_JOBID = 512  # bytes of UTF-8
MAX_QUEUE_NAME = 1024  # bytes of UTF-8: a job id and what a worker puts before it
SKIPS = ("missed", "running", "withdrawn")

# What every script is given, in the order in which its prelude names them.
COMMON = (
    "schedules",
    "statuses",
    "timeline",
    "queued",
    "running",
    "leases",
    "streaks",
    "skipped",
    "queues",
    "wakeup",
    "withdrawn",
)
OTHERS = ("failures", "failure-times", "dispatched", "requests", "control", "halt")
FAMILIES = ("inflight-", "wake-")
_TYPES = {
    "hash": "schedules statuses queued running streaks skipped failures",
    "set": "queues withdrawn",
    "string": "control",
}
_TYPES |= {"zset": "timeline leases failure-times dispatched requests", "list": "wakeup halt"}
TYPES = {name: kind for kind, names in _TYPES.items() for name in names.split()}


class Keys:
    """The names of the keys under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.common = [f"{prefix}-{name}" for name in COMMON]
        self.schedules, self.statuses, self.timeline, self.queued, self.running, self.leases = self.common[:6]
        self.streaks, self.skipped, self.queues, self.wakeup, self.withdrawn = self.common[6:]
        self.failures, self.failure_times, self.dispatched, self.requests, self.control, self.halt = (
            f"{prefix}-{name}" for name in OTHERS
        )
        self.inflight_base = f"{prefix}-inflight-"

    def fixed(self) -> list[str]:
        """Every key whose name does not depend on a job or a queue."""
        return [
            *self.common,
            self.failures,
            self.failure_times,
            self.dispatched,
            self.requests,
            self.control,
            self.halt,
        ]

    def queue(self, name: str) -> str:
        """The list of the queue `name`."""
        return f"{self.prefix}-{name}"

    def wake(self, name: str) -> str:
        """The token list that wakes a worker of the queue `name`."""
        return f"{self.prefix}-wake-{name}"

    def inflight(self, jobid: str) -> str:
        """The expiring key of the run of `jobid`."""
        return f"{self.inflight_base}{jobid}"


# C0, DEL and C1: characters that would break a line of CSV or log, or steer a terminal.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_jobid(jobid: str) -> str:
    """Return `jobid` if a job may be set under it, else raise `BadJobId`.

    Blanks at its ends, which jobs of older versions may have, cannot be seen, and nobody works a queue named after one.
    """
    check_known_jobid(jobid)
    if jobid != jobid.strip():
        raise BadJobId(f"bad job id {jobid!r}: blanks at its ends are not allowed")
    return jobid


def check_known_jobid(jobid: str) -> str:
    """Return `jobid` if it is 1 to 512 bytes of UTF-8 without control characters, else raise `BadJobId`."""
    if not isinstance(jobid, str):
        raise BadJobId(f"bad job id {jobid!r}: not a text")
    try:
        size = len(jobid.encode())
    except UnicodeEncodeError:
        raise BadJobId(f"bad job id {jobid!r}: not UTF-8") from None
    if not 1 <= size <= MAX_JOBID:
        raise BadJobId(f"bad job id {jobid[:40]!r}: it has {size} bytes, 1 to {MAX_JOBID} are allowed")
    if _CONTROL.search(jobid):
        raise BadJobId(f"bad job id {jobid!r}: control characters are not allowed")
    return jobid


def check_queue_name(name: str) -> str:
    """Return `name` if a queue can have it, else raise `BadQueueName`: no key of ours may be hit by it."""
    if not isinstance(name, str):
        raise BadQueueName(f"bad queue name {name!r}: not a text")
    return _checked_queue_name(name)


@lru_cache(4096)
def _checked_queue_name(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise BadQueueName(f"bad queue name {name!r}: not UTF-8") from None
    if not 1 <= size <= MAX_QUEUE_NAME or _CONTROL.search(name):
        raise BadQueueName(f"bad queue name {name[:40]!r}: 1 to {MAX_QUEUE_NAME} bytes without control characters")
    if name in COMMON or name in OTHERS or name.startswith(FAMILIES):
        raise BadQueueName(f"bad queue name {name!r}: it would collide with a key of Redbike's own")
    return name
