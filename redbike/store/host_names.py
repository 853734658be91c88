"""Jobs for one host: the id of such a job ends with the host, and so does the name of its queue.

``backup:A@web1`` waits in the queue ``work-A@web1``, from which the workers of ``work-A`` on the host ``web1`` take.
"""

from redbike.config.settings import HOST_NAME
from redbike.store.shell import QUEUE

AT = "@"
EVERY = "all"  # in place of the name of a host: every one


def name_host_queue(queue: str, host: str) -> str:
    """Return the queue for the jobs of `queue` that are for one host."""
    return f"{queue}{AT}{host}"


def split_host(name: str) -> tuple[str, str]:
    """Return a job id or the name of a queue without its host, and the host; "" if it names no host."""
    head, at, host = name.rpartition(AT)
    return (head, host) if at and head and HOST_NAME.fullmatch(host) else (name, "")


def has_host_queue(queue: str, host: str) -> bool:
    """Tell whether a worker of `queue` has one for its host: not if `queue` names the host, or is for shells."""
    return queue != QUEUE and not queue.endswith(f"{AT}{host}")
