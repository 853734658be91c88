"""Retries: how often a failed run is tried again, and after which pause. All of these are pure functions."""

from hashlib import sha1

from redbike.config.settings import Settings
from redbike.store.run import Run

DEFAULT_RETRIES = 3  # with on-error = retry


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
