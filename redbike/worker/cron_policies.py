"""The policies of workers that do as cron does: after a failure or a timeout, a recurring job goes on."""

from dataclasses import replace
from functools import lru_cache

from redbike.config.settings import Settings
from redbike.schedule.parser import is_one_off
from redbike.store.run import Run


def go_on_as_cron(
    run: Run, settings: Settings, on_error: str | None, on_timeout: str | None, retries: int | None
) -> Settings:
    """Return `settings` with the policies for one run: those that are given, else those of `settings`.

    If neither has one, a recurring job is rescheduled, and a one-off is stopped. An `on_error` without `retries` does
    without those of `settings`, unless it is to retry.
    """
    default = "stop" if is_one_off(run.schedule) else "reschedule"
    if retries is None:
        retries = 0 if on_error in ("stop", "reschedule") else settings.retries
    on_error = on_error or settings.on_error or default
    return _replace(settings, on_error, on_timeout or settings.on_timeout or default, retries)


@lru_cache(1024)
def _replace(settings: Settings, on_error: str, on_timeout: str, retries: int | None) -> Settings:
    # Settings check all of their values whenever they are made.
    return replace(settings, on_error=on_error, on_timeout=on_timeout, retries=retries)
