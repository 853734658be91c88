"""One-offs of a shell: the ids of their jobs, their queue, and which workers take them.

No other job has such an id, as the name of a command in a file has no slash. The queue of any other job is named after
its worker class.
"""

import secrets
from base64 import b32encode
from datetime import UTC, datetime

from redbike.errors import BadJobId
from redbike.store.names import check_jobid

QUEUE = "work-shell"
TAKER = "once/"  # in the record of a worker that takes them, besides the names of its commands
ENDING = ":shell"
_DOES = "runs one-offs of a shell"


def make_jobid(instant: float) -> str:
    """Return a new id for a job that runs at `instant` (epoch seconds).

    The id begins with the time in UTC, so jobs sorted by id are sorted by time.
    """
    key = b32encode(secrets.token_bytes(5)).decode().lower()
    return f"{TAKER}{datetime.fromtimestamp(int(instant), UTC):%Y%m%dT%H%M%SZ}-{key}{ENDING}"


def is_of_shell(jobid: str) -> bool:
    """Tell whether a job is a one-off of a shell."""
    return jobid.endswith(ENDING) and jobid.startswith(TAKER)


def check_own_jobid(jobid: str) -> str:
    """Return `jobid` if programs and the page may set it. Raise `BadJobId`.

    The data of a one-off of a shell are a command line. So a program that sets jobs for its users must not set one.
    """
    if is_of_shell(check_jobid(jobid)):
        raise BadJobId(f"bad job id {jobid!r}: only redbike at, in and now set such ids")
    return jobid


def get_taker(jobid: str) -> str:
    """Return what a worker with commands must have for a job: the name of its command, or `TAKER`."""
    return TAKER if is_of_shell(jobid) else jobid.partition(":")[0]


def say_need(taker: str) -> str:
    """Return a phrase for messages such as "no worker …": what a worker must do or have to take such a job."""
    return _DOES if taker == TAKER else f"has a command or function for {taker!r}"
