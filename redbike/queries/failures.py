"""Failures in groups, so that the same error of thousands of jobs is one line."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter

from redbike.store.past_runs import Failure

SAMPLES = 3  # jobs of a group that are named
LONG = 300  # characters of a message that count

# Parts that vary between failures of the same kind: texts in quotes, addresses, long hexadecimal numbers, numbers.
_VARIABLES = (
    (re.compile(r"'[^']*'|\"[^\"]*\""), "'…'"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4,}){1,4}\b"), "…"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "N"),
)


@dataclass(slots=True)
class FailureGroup:
    """Failures whose messages differ only in their variable parts. Times are epoch seconds."""

    key: str  #: a short name of the group; the same message always has the same key
    message: str  #: without the variable parts
    count: int
    first: float  #: when the oldest of the given failures happened
    newest: Failure  #: with its variable parts
    samples: list[str]  #: ids of some of the jobs

    @property
    def last(self) -> float:
        """When the newest failure happened."""
        return self.newest.failed


def normalize(failure: Failure) -> str:
    """Return the message of a failure without its variable parts."""
    text = failure.error[:LONG]
    if len(failure.jobid) > 1:
        text = text.replace(failure.jobid, "…")
    for pattern, mark in _VARIABLES:
        text = pattern.sub(mark, text)
    return text


def name_group(message: str) -> str:
    """Return the key of a group."""
    return sha256(message.encode(errors="backslashreplace")).hexdigest()[:12]


def group_failures(failures: Iterable[Failure]) -> list[FailureGroup]:
    """Return groups of failures, the largest first; of groups of the same size, the newest first."""
    groups: dict[str, FailureGroup] = {}
    for failure in failures:
        message = normalize(failure)
        group = groups.get(message)
        if group is None:
            group = groups[message] = FailureGroup(name_group(message), message, 0, failure.failed, failure, [])
        group.count += 1
        group.first = min(group.first, failure.failed)
        group.newest = max(group.newest, failure, key=attrgetter("failed"))
        if len(group.samples) < SAMPLES:
            group.samples.append(failure.jobid)
    return sorted(groups.values(), key=lambda group: (-group.count, -group.last))
