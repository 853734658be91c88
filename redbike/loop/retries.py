"""Retries: which errors are tried again, how often, and after which pause. All of these are pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from redbike.config.settings import Settings
from redbike.errors import BadConfig
from redbike.store.run import Run
from redbike.text.printable import quote

DEFAULT_RETRIES = 3  # with on-error = retry

ErrorType = type[BaseException]


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """Which errors of a job are tried again, and which end it. A type stands for its subclasses, too."""

    retry_on: tuple[ErrorType, ...] | None = None  # None: all
    stop_on: tuple[ErrorType, ...] = ()

    def find_stop(self, error: BaseException) -> ErrorType | None:
        """Return the type of `stop_on` by which `error` ends its job; None if none does.

        Of several types that match, the nearest base class of the error counts, also if that is one of `retry_on`.
        """
        for kind in type(error).__mro__:
            if kind in self.stop_on:
                return kind
            if kind in (self.retry_on or ()):
                return None
        return None

    def allow_retry(self, error: BaseException) -> bool:
        """Tell whether `error` may be tried again, if there are retries."""
        return self.retry_on is None or isinstance(error, self.retry_on)


NO_RULES = ErrorRules()


def find_rules(worker: Any, jobid: str) -> ErrorRules:
    """Return the rules for the errors of a job: those of its function, or else the attributes of its worker class.

    This is for a run that has failed: other runs need none.
    """
    find_own = getattr(worker, "_find_error_rules", None)
    return (find_own(jobid) if find_own else None) or read_class_rules(worker)


def read_class_rules(worker: Any) -> ErrorRules:
    """Return the rules in the attributes ``retry_on`` and ``stop_on`` of a worker. Raise `BadConfig`."""
    owner = f" of {type(worker).__name__}"
    return read_rules(getattr(worker, "retry_on", None), getattr(worker, "stop_on", None), owner) or NO_RULES


def read_rules(retry_on: object, stop_on: object, owner: str) -> ErrorRules | None:
    """Return the rules of `owner`, which begins with " of "; None if it has none.

    Each of the two is an exception type, a sequence of some, or None. Raise `BadConfig` for anything else.
    """
    if retry_on is None and stop_on is None:
        return None
    retried = None if retry_on is None else _read_types("retry_on", retry_on, owner)
    return ErrorRules(retried, () if stop_on is None else _read_types("stop_on", stop_on, owner))


def _read_types(name: str, given: object, owner: str) -> tuple[ErrorType, ...]:
    kinds = tuple(given) if isinstance(given, Sequence) else (given,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise BadConfig(f"bad {name} {quote(given)}{owner}: an exception type is needed, or a tuple of them")
    return kinds


def compute_pause(run: Run, settings: Settings) -> float:
    """Return the seconds until the next try of a run that has failed.

    Each pause is twice as long as the one before, up to ``max-backoff``. Then ``jitter`` shortens it. A hash of
    the job id, the due time and the number of the try stands for chance: so this is a pure function.
    """
    pause = min(settings.max_backoff, settings.backoff * 2.0 ** min(run.failures, 40))
    if not settings.jitter:
        return pause
    text = f"{run.jobid} {run.due:.6f} {run.attempt}".encode(errors="surrogateescape")
    chance = int.from_bytes(sha1(text, usedforsecurity=False).digest()[:6]) / 2**48
    return pause * (1.0 - settings.jitter * chance)


def count_retries(settings: Settings) -> int:
    """Return how often a failed run is tried again before ``on-error`` decides."""
    if settings.retries is None:
        return DEFAULT_RETRIES if settings.on_error == "retry" else 0
    return settings.retries
