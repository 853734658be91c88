"""What becomes of each key of a prefix when its jobs move to another number of shards."""

from collections.abc import Callable
from enum import Enum

from redbike.store.alerts import JOB, MISSED, SENT, WAITING
from redbike.store.backfill import HEAD
from redbike.store.blackouts import OF_JOB, TIMER
from redbike.store.links import MARK as SHARD
from redbike.text.group_names import MARK


class Where(Enum):
    """Where a part of a key goes if it belongs to no job."""

    EVERYWHERE = "to each shard"
    FIRST = "to the first shard"
    MERGED = "what all shards have of it becomes one: see merged.py"


Find = Callable[[str], str | Where]  # finds for a field or a member the job to whose shard it goes


def _by_itself(name: str) -> str:
    return name


def _everywhere(_: str) -> Where:
    return Where.EVERYWHERE


def _first(_: str) -> Where:
    return Where.FIRST


def _by_record(name: str) -> str | Where:
    """Find the job of a follower or a backfill. Groups and messages between shards are counted anew, see links.py."""
    return Where.MERGED if name.startswith((SHARD, MARK)) else _find_job(name)


def _by_follower(link: str) -> str | Where:
    """Find the job of a link: the follower, or the job that is in a group. Subscriptions of shards are made anew."""
    parent, _, follower = link.partition("\n")
    if follower.startswith(MARK):
        return parent
    return Where.MERGED if SHARD in (parent[:1], follower[:1]) else _find_job(follower)


def _find_job(name: str) -> str:
    """Return the job that a name is about: the name of a backfill has a mark before the job."""
    return name.lstrip(HEAD).partition("\n")[0]


def _by_tag_and_job(name: str) -> str:
    return name.partition(" ")[2]


def _by_reason(name: str) -> str | Where:
    return name.partition(":")[2] or Where.MERGED


def _by_kind(name: str) -> str | Where:
    """Find the job of a timer or a blackout. Those of queues are in each shard. Timers of divisions are made anew."""
    kind, _, rest = name.removeprefix(TIMER).partition(":")
    if kind == "quota":
        return Where.MERGED
    return rest if f"{kind}:" in (OF_JOB, "expires:") else Where.EVERYWHERE


def _by_alert(name: str) -> str | Where:
    kind, _, rest = name.partition(":")
    if f"{kind}:" in (JOB, MISSED) and rest:
        return rest
    return Where.MERGED if name in (MISSED, WAITING, SENT) else Where.FIRST


# Hashes, sorted sets and sets: where each field or member goes.
PAGED: dict[str, Find] = {
    **dict.fromkeys(
        (
            *("schedules", "statuses", "timeline", "queued", "retry-states", "failures", "failure-times", "spent"),
            *("pauses", "options", "data", "groups", "outputs", "saved", "history", "hosts"),
        ),
        _by_itself,
    ),
    "following": _by_record,
    "followers": _by_follower,
    "untold": _by_tag_and_job,
    "skipped": _by_reason,
    "timers": _by_kind,
    "blackouts": _by_kind,
    "alerts": _by_alert,
    "queues": _everywhere,
    "tokens": _everywhere,
    "rewinds": _first,
}
BY_JOB = tuple(name for name, find in PAGED.items() if find in (_by_itself, _by_record, _by_follower, _by_tag_and_job))
# What merged.py makes anew, or lists.py, from what all shards have. The journal is archived first.
MERGED = ("counts", "dispatched", "queue-limits", "log", "journal")
# These must be empty: while a job runs, nothing moves.
EMPTY = ("running",)
# This stays, and refuses processes that come too late; see `redbike.control.moving`.
STAYING = ("agreed",)
