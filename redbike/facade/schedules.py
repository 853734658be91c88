"""The methods of `redbike.facade.redbike.Redbike` that set and unset jobs."""

import logging
from collections.abc import Iterable
from typing import Unpack

from redbike.config.options import JobOptions, read_changes
from redbike.control.setter import Setter
from redbike.errors import BadSchedule
from redbike.facade.results import Results
from redbike.schedule.objects.instants import InstantLike, ZoneLike, read_instant, read_zone
from redbike.schedule.objects.schedules import ScheduleLike

log = logging.getLogger("redbike")


class Schedules:
    """Sets and unsets jobs by `setter`."""

    def __init__(self, setter: Setter) -> None:
        self._setter = setter

    def set(
        self, jobid: str, schedule: ScheduleLike | None, after: InstantLike | None = None, tz: ZoneLike | None = None,
        **options: Unpack[JobOptions]
    ) -> bool:  # fmt: skip
        """Enter `jobid` with `schedule`; None unsets it. False, and a line of log, for a bad schedule.

        `schedule` is a text, an aware datetime, a timedelta, a rule of dateutil or a croniter. `after` is from when
        occurrences count: epoch seconds, or an aware datetime. `tz` is the zone of floating times, also of a naive
        datetime or rule. Of `options` and data, the job keeps those that are not given; None takes one back. Raises
        `BadJobId`, `BadConfig` for a bad zone, option or data, and `TypeError` for anything that is no schedule.
        """
        try:
            self._setter.set(jobid, schedule, read_instant("after", after), read_zone(tz), read_changes(options))
        except BadSchedule as error:
            log.error("%s: %s", jobid, error)
            return False
        return True

    def enter(
        self, jobid: str, schedule: ScheduleLike | None, after: InstantLike | None = None, tz: ZoneLike | None = None,
        **options: Unpack[JobOptions]
    ) -> bool:  # fmt: skip
        """`set`, but a bad schedule raises `BadSchedule`; whether the job had a run to come."""
        return self._setter.enter(jobid, schedule, read_instant("after", after), read_zone(tz), read_changes(options))

    def set_many(
        self, pairs: Iterable[tuple[str, ScheduleLike | None]],
        after: InstantLike | None = None, tz: ZoneLike | None = None
    ) -> Results[tuple[str, bool | ValueError]]:  # fmt: skip
        """`set` for a stream of (job id, schedule) of any length, a batch in each round trip; None unsets one by one.

        It happens as the results are read: (job id, True), or in place of True the `BadSchedule` or `BadJobId` because
        of which it was not set. An unchanged job that has failed for good stays so; `set` lets it run again, and so
        does `run`. Raises `TypeError` for what is no pair or no schedule; then no job of its batch, up to 500, is set.
        """
        return Results("set_many()", self._setter.set_many(pairs, read_instant("after", after), read_zone(tz)))

    def unset(self, jobid: str) -> bool:
        """Take `jobid` out of the rotation; a run in flight completes. False if there is no such job."""
        return self._setter.unset(jobid)
