"""Setting the jobs of a group, and the follower, which is due when all of them have ended.

The group is open from before its first job is set until the last step, which sets the follower. So the follower is not
due between two batches of jobs, however fast they end. If the process is killed before the last step, the group stays
open, and the follower is not due: the next call completes the group.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from redbike.config.options import OptionChanges
from redbike.control.pairs import Pair, split_pair
from redbike.control.setter import Setter
from redbike.errors import BadConfig, RedbikeError
from redbike.schedule.after import Group
from redbike.store.shell import check_own_jobid
from redbike.text.group_names import find_problem
from redbike.text.printable import quote

log = logging.getLogger("redbike")


def set_group(setter: Setter, name: str, jobs: Iterable[Pair], then: str, changes: OptionChanges) -> int:
    """Set `jobs` as one group, and the follower `then`, with `changes` of its options; return the number of `jobs`.

    Raise the error of a job that cannot be set; then `then` is not set either.
    """
    if problem := find_problem(name):
        raise BadConfig(f"bad group {quote(name)}: {problem}")
    name = str.__str__(name)  # in an f-string, a member of a text enum would give its name
    setter.store.queue_to_set(check_own_jobid(then))
    if isinstance(jobs, str | bytes | Mapping):
        raise TypeError(f"bad jobs {quote(jobs)}: pairs of a job id and a schedule are needed")
    # A list is checked before anything is changed.
    jobs = list(_join(name, jobs, then)) if isinstance(jobs, list | tuple) else iter(jobs)
    setter.store.groups.open(name)
    known = set[str]()  # a job may be named twice
    for jobid, result in setter.set_anew(_join(name, jobs, then)):
        if isinstance(result, Exception):
            raise _explain(result, jobid, name, then)
        known.add(jobid)
    before = setter.store.questions.read_schedule(then) or ""
    setter.follow_group(then, Group(name).text, changes)
    if before.startswith(Group.keyword) and before != Group(name).text:
        other = quote(before.removeprefix(Group.keyword))
        log.warning("%s now waits for the group %s, and no longer for the group %s", then, quote(name), other)
    return len(known)


def _join(name: str, jobs: Iterable[Any], then: str) -> Iterator[Any]:
    """Yield the jobs with their group as an option."""
    for job in jobs:
        jobid, schedule, options = split_pair(job)
        if jobid == then:
            raise BadConfig(
                f"bad group {quote(name)}: the job {quote(jobid)} cannot belong to the group that it waits for"
            )
        if schedule is None:
            raise BadConfig(f"bad group {quote(name)}: the job {quote(jobid)} has no schedule")
        others = {key: value for key, value in options.items() if key != "group-of"}
        yield jobid, schedule, {**others, "group_of": name}


def _explain(error: Exception, jobid: str, name: str, then: str) -> Exception:
    """Return the same error, with what was not done because of it."""
    kind = type(error) if isinstance(error, RedbikeError) else BadConfig
    return kind(f"{jobid}: {error}; so {quote(then)} is not set, and the group {quote(name)} waits for more jobs")
