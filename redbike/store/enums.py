"""The words that are stored in Redis and shown to users, each defined once. Scripts get them as constants."""

from enum import StrEnum
from typing import Literal, get_args


class Event(StrEnum):
    """The last event of a job: the first part of its status."""

    TML = "TML"  #: it is on the timeline: it was set, or has ended and runs again
    ENQ = "ENQ"  #: it is in a queue
    WRK = "WRK"  #: it is in flight
    STP = "STP"  #: it is stopped: nothing is left to run
    DIE = "DIE"  #: it is stopped, because it failed
    BAD = "BAD"  #: its schedule was refused, and it has no other


EventName = Literal["TML", "ENQ", "WRK", "STP", "DIE", "BAD"]
"""The name of an `Event`, for annotations of texts."""
EVENT_NAMES: dict[str, EventName] = {name: name for name in get_args(EventName)}


class Difference(StrEnum):
    """What happens to a stored job when the stored jobs are synchronized with a file or a program."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"  #: it was not touched
    REMOVED = "removed"
    BAD = "bad"  #: its row was refused


class Skip(StrEnum):
    """Why an occurrence was not run."""

    MISSED = "missed"  # nobody could run it in time
    RUNNING = "running"  # the run before it had not ended
    WITHDRAWN = "withdrawn"  # the job was set again while it was in a queue, held or owed
    LATE = "late"  # it could not be put into a queue within its grace
    PAUSED = "paused"  # the job was paused when it came due
    CANCELLED = "cancelled"  # somebody cancelled it, before or during its run
    EXPIRED = "expired"  # it had not begun in time


class Left(StrEnum):
    """What a change during a run leaves behind for the end of that run; see NEXT in `redbike.store.keys`."""

    NOTHING = "-"
    SET = "set"
    ONCE = "once"
    OWED = "due:"  # before a time
    ANEW = "from:"  # before a time
    WAS_CANCELLED = "cancelled+"  # before any of these
    # Suffixes, in the script `end` alone: the job waits on the timeline, or is paused since the time that follows.
    ON_TIMELINE = "+timeline"
    WAS_PAUSED = "+paused:"


NEEDS_FULL = "FULLTEXT"
"""How the error begins with which the plain text of a script asks for its full one."""


MAIL = "mail"
"""The token that wakes a dispatcher when there are messages to other shards."""


class Outcome(StrEnum):
    """How a run ended. A stored run has the number of its outcome in this order, so add new outcomes at the end."""

    OK = "ok"  #: ``work`` returned, or stopped the job
    RETRY = "retry"  #: it failed, or asked for another try, and the same occurrence is tried again
    FAILED = "failed"  #: it raised an exception
    OVERRUN = "overrun"  #: it went on after its deadline
    LOST = "lost"  #: its worker died or was cut off
    CANCELLED = "cancelled"  #: somebody cancelled it


class Alert(StrEnum):
    """The alerts that the setting ``alert`` sends."""

    LATE = "late"  #: a job has not begun, or not ended, in the time that its options give it
    FAILED = "failed"  #: the last run of a job has failed, with all its retries
    STOPPED = "stopped"  #: a job has failed for good, and its schedule does not go on
    MISSED = "missed"  #: occurrences of a job did not run, as nobody could run them in time
    RECOVERED = "recovered"  #: a job is not late any more, and its last run ended well; or the problem is over
    WORKER_LOST = "worker lost"  #: a worker died, hung, or was cut off
    NO_DISPATCHER = "no dispatcher"  #: no dispatcher is running
    SHARD_AWAY = "shard away"  #: a shard has not answered for a minute
    REWOUND = "rewound"  #: the server went back in time
    MORE = "more"  #: how many further alerts a message does not list
    TEST = "test"  #: somebody has tested the setting
