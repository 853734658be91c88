"""The budget of a forecast for jobs that are due already: to follow one takes time for each occurrence."""

from redbike.config.settings import Settings, override
from redbike.loop.courses import MOST_SKIPS, Course
from redbike.store.enums import Skip
from redbike.store.schedules import read_schedule

MOST_STEPS = 300_000  # to compute an occurrence is a step; so many take about a second
RUN_STEPS = 50  # deciding what comes after a run takes as long as so many
PASSES = 3  # how often an occurrence is computed again


class Budget:
    """How many steps are left for jobs that are late. Each of the others counts once."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def admit(
        self, jobid: str, text: str, options: str, settings: Settings, *, due: float, now: float, end: float
    ) -> bool:
        """Tell whether a job that is late since `due` may be followed up to `end`, and charge for it."""
        schedule = read_schedule(jobid, text, options) if self.left > 0 else None
        if schedule is None or schedule.allows_pause:
            return False
        own, missed = override(settings, options), 1 + schedule.count(due, now, self.left)
        runs, number = min(missed, own.catchup_limit if own.catchup == "all" else 1), 0
        steps = runs * RUN_STEPS
        if schedule.period is None:  # else a division counts
            number = missed + schedule.count(max(due, now), end, self.left)
            # After each run those that are left of the missed ones are counted again, up to the limit.
            steps += PASSES * number + runs * runs // 2
        is_admitted = steps <= self.left
        self.left -= steps if is_admitted else number
        return is_admitted

    def charge(self, course: Course) -> None:
        """Charge for what a job that was admitted skips one by one: while its queue is held, runs may expire."""
        self.left -= RUN_STEPS * min(course.skipped[Skip.EXPIRED], MOST_SKIPS)
