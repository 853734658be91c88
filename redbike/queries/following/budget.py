"""The budget of a forecast for late jobs: computing one takes time for each occurrence."""

from redbike.config.settings import Settings, override
from redbike.loop.courses import MOST_SKIPS, Course
from redbike.store.enums import Skip
from redbike.store.schedules import read_schedule

MOST_STEPS = 300_000  # a step computes one occurrence; so many take about a second
RUN_STEPS = 50  # steps that take as long as to decide what comes after a run
PASSES = 3  # times that an occurrence is computed


class Budget:
    """The number of steps that are left to compute late jobs. A job that is not admitted runs once."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def admit(
        self, jobid: str, text: str, options: str, settings: Settings, *, due: float, now: float, end: float
    ) -> bool:
        """Tell whether the runs of a job that is late since `due` may be computed up to `end`, and charge for it."""
        schedule = read_schedule(jobid, text, options) if self.left > 0 else None
        if schedule is None or schedule.allows_pause:
            return False
        own, missed = override(settings, options), 1 + schedule.count(due, now, self.left)
        runs, number = min(missed, own.catchup_limit if own.catchup == "all" else 1), 0
        steps = runs * RUN_STEPS
        if schedule.period is None:  # with a period, counting is a division
            number = missed + schedule.count(max(due, now), end, self.left)
            # After each run, the remaining missed occurrences are counted again, up to the limit.
            steps += PASSES * number + runs * runs // 2
        is_admitted = steps <= self.left
        self.left -= steps if is_admitted else number
        return is_admitted

    def charge(self, course: Course) -> None:
        """Charge for occurrences that an admitted job skips one by one: they expire while its queue is held."""
        self.left -= RUN_STEPS * min(course.skipped[Skip.EXPIRED], MOST_SKIPS)
