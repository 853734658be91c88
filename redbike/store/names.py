"""Which ids jobs may have, and which names queues may have."""

from collections.abc import Container
from functools import lru_cache

from redbike.errors import BadJobId, BadQueueName
from redbike.store.keys import FAMILIES, FIXED
from redbike.text.printable import CONTROL

MAX_JOBID = 512  # bytes of UTF-8
MAX_QUEUE_NAME = 1024  # bytes of UTF-8: enough for a job id and the prefix of a worker class


def check_jobid(jobid: str) -> str:
    """Return `jobid` if a job may be set under it, else raise `BadJobId`.

    Spaces at its ends are refused: people do not see them, and no worker works a queue with such a name. Jobs of older
    versions may have them.
    """
    check_known_jobid(jobid)
    if jobid != jobid.strip():
        raise BadJobId(f"bad job id {jobid!r}: spaces at its ends are not allowed")
    return jobid


def check_known_jobid(jobid: str, spare: int = 0) -> str:
    """Return `jobid` if it is 1 to 512 bytes of UTF-8 without control characters, else raise `BadJobId`.

    `spare` bytes of it do not count.
    """
    if not isinstance(jobid, str):
        raise BadJobId(f"bad job id {jobid!r}: not a text")
    try:
        size = len(jobid.encode()) - spare
    except UnicodeEncodeError:
        raise BadJobId(f"bad job id {jobid!r}: not UTF-8") from None
    if not 1 <= size <= MAX_JOBID:
        raise BadJobId(f"bad job id {jobid[:40]!r}: it has {size} bytes, 1 to {MAX_JOBID} are allowed")
    # A printable text has no control characters, and `isprintable` is five times as fast.
    if not jobid.isprintable() and CONTROL.search(jobid):
        raise BadJobId(f"bad job id {jobid!r}: control characters are not allowed")
    return jobid


def is_jobid(text: str) -> bool:
    """Tell whether a job can have this id: it is UTF-8, and has no control characters."""
    try:
        return bool(check_known_jobid(text))
    except BadJobId:
        return False


def find_function(jobid: str, functions: Container[str]) -> str | None:
    """Return the id of the function, one of `functions`, that takes a job; None if none does.

    It is the id of the job, or the part before one of its ``:``. The longest one wins.
    """
    while jobid not in functions:
        jobid, colon, _ = jobid.rpartition(":")
        if not colon:
            return None
    return jobid


def is_queue_name(name: str) -> bool:
    """Whether a queue can have this name."""
    try:
        return bool(check_queue_name(name))
    except BadQueueName:
        return False


def check_queue_name(name: str) -> str:
    """Return `name` if a queue can have it, else raise `BadQueueName`: it must not collide with keys of Redbike."""
    if not isinstance(name, str):
        raise BadQueueName(f"bad queue name {name!r}: not a text")
    return _check_name(name)


@lru_cache(4096)
def _check_name(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise BadQueueName(f"bad queue name {name!r}: not UTF-8") from None
    if not 1 <= size <= MAX_QUEUE_NAME or CONTROL.search(name):
        raise BadQueueName(
            f"bad queue name {name[:40]!r}: 1 to {MAX_QUEUE_NAME} bytes without control characters are needed"
        )
    if name in FIXED or name.startswith(FAMILIES):
        raise BadQueueName(f"bad queue name {name!r}: it would collide with a key of Redbike's own")
    return name
