"""Operators pause and resume jobs."""

from collections.abc import Iterable, Sequence

from redbike.config.settings import Settings
from redbike.control.operator import check_reason, check_until, name_operator
from redbike.loop import resuming
from redbike.store.namespace import PAGE
from redbike.store.patterns import Steered, expand
from redbike.store.store import Store


def pause_jobs(store: Store, texts: Iterable[str], until: float | None, reason: str) -> list[Steered]:
    """Pause the jobs that `texts` name; their pauses end by themselves at `until` (epoch seconds), if it is not None.

    The word of each is ``held`` (it waited), ``paused`` (it did not), ``unchanged`` (it is paused already) or
    ``missing`` (it was unset meanwhile). Raise `BadConfig` if `until` is past, or for a bad reason.
    """
    check_reason(reason)
    until = check_until(until, store.timeline.read_clock())
    return pause_found(store, list(expand(store.questions, texts)), until, reason)


def pause_found(store: Store, jobids: Sequence[str], until: float | None, reason: str) -> list[Steered]:
    """`pause_jobs` for jobs by their ids, none of them twice, with an end and a reason that are checked already."""
    by = store.who or name_operator()
    pages = [jobids[first : first + PAGE] for first in range(0, len(jobids), PAGE)]
    return [
        Steered(*each) for page in pages for each in zip(page, store.pauses.pause(page, until, by, reason), strict=True)
    ]


def resume_jobs(store: Store, settings: Settings, texts: Iterable[str]) -> list[Steered]:
    """Resume the jobs that `texts` name. The word of each is where it is now, or ``unchanged``: it was not paused."""
    jobids = list(expand(store.questions, texts))
    return [Steered(*each) for each in zip(jobids, resuming.resume(store, settings, jobids), strict=True)]
