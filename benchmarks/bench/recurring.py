"""How many jobs come due, are worked, and go back to the timeline with their next run computed."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from bench.drain import together
from bench.figures import Plan
from bench.site import Contender, Failed, Site, ours, set_all
from bench.wall import lateness

LEAD = 3  # seconds beside what the setting takes


def recurring(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """Jobs whose schedules (1,000 different ones) were due in the last hour, and are next tomorrow: one worker.

    Then jobs that all come due in the same second, with a dispatcher and a worker: from that instant to the last job.
    """
    count = plan.pick(40_000, 8_000)
    yield "recurring: cron, one worker", worked(contender, count, cron)
    yield "recurring: RRULE, one worker", worked(contender, count, rule)
    yield "recurring: cron, from the instant, dispatcher and one worker", cycled(contender, count)


def cron(number: int, moment: float) -> str:
    """Daily at that instant; which of 1,000 days of the month it also names makes the texts differ."""
    due = datetime.fromtimestamp(moment, UTC)
    return f"{due.minute} {due.hour} {days(number)} * * {due.second}"


def rule(number: int, moment: float) -> str:
    """The same as a recurrence rule."""
    due = datetime.fromtimestamp(moment, UTC)
    time_of_day = f"BYHOUR={due.hour};BYMINUTE={due.minute};BYSECOND={due.second}"
    return f"RRULE:FREQ=MONTHLY;BYMONTHDAY={days(number)};{time_of_day}"


def days(number: int) -> str:
    """All days of the month but up to three of those between the fourth and the thirteenth... of 1,000 kinds."""
    return ""


def worked(contender: Contender, count: int, schedule: Callable[[int, float], str]) -> float:
    """Jobs a second of one worker, for jobs in its queue."""
    with Site(contender) as site:
        bike, past = ours(site), time.time() - 600
        set_all(bike, ((f"{number}:A", schedule(number, past)) for number in range(count)), after=past - 60)
        site.start("work")
        runs = site.finish(range(count))
        check_timeline(site, count)
    return together(runs)


def cycled(contender: Contender, count: int) -> float:
    """Jobs a second from the instant at which all are due to the start of the last one."""
    with Site(contender) as site:
        bike = ours(site)
        for verb in ("dispatch", "work"):
            site.start(verb)
        due = int(time.time() + LEAD + count / 8000)
        set_all(bike, ((f"{number}:A", cron(number, due)) for number in range(count)))
        late = lateness(site, due, site.finish(range(count)))
        check_timeline(site, count)
    return count / late[-1]


def check_timeline(site: Site, count: int) -> None:
    """Every job is on the timeline, for the next day or later."""
    soonest = site.server.client.zcount("redbike-timeline", time.time() + 3600, "+inf")
    if soonest != count:
        raise Failed(f"only {soonest} of {count} jobs are back on the timeline")
