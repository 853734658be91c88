"""The jobs that an operator names: by their ids, or by patterns."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from redbike.errors import BadJobId, NoSuchJob
from redbike.store.keys import check_known_jobid
from redbike.store.questions import Questions

# A backslash takes the next character literally, as the server reads patterns.
_SPECIAL = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DANGLING = re.compile(r"(?:[^\\]|\\.)*\\", re.DOTALL)
_CLOSED = re.compile(r"(?:[^\\\[]|\\.|\[(?:[^\\\]]|\\.)+\])*", re.DOTALL)


class Steered(NamedTuple):
    """A job that an operator has named, and what happened to it, in one word."""

    jobid: str  #: of the job
    word: str  #: such as ``queued``; each method says which there are


def is_pattern(text: str) -> bool:
    r"""Tell whether `text` is a pattern: it has one of ``*?[`` without a backslash before it."""
    return _SPECIAL.search(text) is not None


def check_pattern(text: str) -> str:
    """Return `text` if it can be the id of a job, or a pattern of ids. Raise `BadJobId`."""
    check_known_jobid(text)
    if is_pattern(text) and _DANGLING.fullmatch(text):
        raise BadJobId(f"bad pattern {text!r}: nothing follows its last backslash")
    if is_pattern(text) and not _CLOSED.fullmatch(text):
        raise BadJobId(f"bad pattern {text!r}: a [ has no ] behind it")
    return text


def expand(questions: Questions, texts: Iterable[str], also_bad: bool = False, may_miss: bool = False) -> Iterator[str]:
    """Yield the jobs that `texts` name, each once: an id names its job, a pattern all jobs whose id matches.

    Jobs are those that have a schedule, and those that are `also_bad`: their only schedule was refused. Raise
    `BadJobId` for an invalid text, before anything else, and `NoSuchJob` for an id or a pattern that names no job, as
    soon as its turn comes; with `may_miss`, pass over that one.
    """
    texts = [check_pattern(text) for text in texts]
    seen: set[str] = set()
    for text in texts:
        number = 0
        found = questions.list_matching(text, also_bad) if is_pattern(text) else _find(questions, text, also_bad)
        for jobid in found:
            number += 1
            if jobid not in seen:
                seen.add(jobid)
                yield jobid
        if number == 0 and not may_miss:
            raise NoSuchJob(f"no job matches {text!r}" if is_pattern(text) else f"no such job: {text!r}")


def _find(questions: Questions, text: str, also_bad: bool) -> Iterator[str]:
    # An id that has backslashes of its own comes first; else each of them takes the next character literally.
    for jobid in dict.fromkeys((text, _ESCAPED.sub(r"\1", text))):
        if questions.has_job(jobid, also_bad):
            yield jobid
            return
