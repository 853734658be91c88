"""How many jobs come due, are worked, and go back to the timeline with their next run computed."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from bench.drain import together
from bench.figures import Plan
from bench.site import Contender, Failed, Site, ours, set_all
from bench.wall import check_in_time, lateness


def recurring(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """Jobs of 1,024 different schedules, all due ten minutes ago and next in a day or more: one worker.

    Then jobs that all come due in the same second, with a dispatcher and a worker: from that instant to the last job.
    """
    count = plan.pick(40_000, 8_000)
    yield "recurring: cron, one worker", worked(contender, count, cron)
    yield "recurring: RRULE, one worker", worked(contender, count, rule)
    yield "recurring: cron, from the instant, dispatcher and one worker", cycled(contender, count)


def cron(number: int, moment: float) -> str:
    """A line that is due at that instant, and not again on that day."""
    due = datetime.fromtimestamp(moment, UTC)
    return f"{due.minute} {due.hour} {days(number, due.day)} * * {due.second}"


def rule(number: int, moment: float) -> str:
    """A recurrence rule that is due at that instant, and not again on that day."""
    due = datetime.fromtimestamp(moment, UTC)
    return f"DTSTART:{due:%Y%m%dT%H%M%SZ}\nRRULE:FREQ=MONTHLY;BYMONTHDAY={days(number, due.day)}"


def days(number: int, today: int) -> str:
    """Today, and a choice among ten more days of the month."""
    chosen = {today} | {1 + (today + bit) % 28 for bit in range(10) if number >> bit & 1}
    return ",".join(map(str, sorted(chosen)))


def worked(contender: Contender, count: int, schedule: Callable[[int, float], str]) -> float:
    """Jobs a second of one worker."""
    past = int(time.time()) - 600
    with Site(contender) as site:
        set_all(ours(site), ((f"{number}:A", schedule(number, past)) for number in range(count)), after=past - 60)
        # A dispatcher's pass, for those of them that are on the timeline although they are due.
        ours(site).dispatch_due()
        site.start("work")
        runs = site.finish(range(count))
        check_timeline(site, count)
    return together(runs)


def cycled(contender: Contender, count: int) -> float:
    """Jobs a second from the instant at which all are due to the start of the last one."""
    due = int(time.time() + 4 + count / 8000)
    with Site(contender) as site:
        for verb in ("dispatch", "work"):
            site.start(verb)
        set_all(ours(site), ((f"{number}:A", cron(number, due)) for number in range(count)))
        check_in_time(due)
        late = lateness(dict.fromkeys(range(count), due), site.finish(range(count)))
        check_timeline(site, count)
    return count / late[-1]


def check_timeline(site: Site, count: int) -> None:
    """Raises `Failed` unless every job is on the timeline, due in an hour or later."""
    found = int(site.server.client.zcount("redbike-timeline", time.time() + 3600, "+inf"))
    if found != count:
        raise Failed(f"{found} of {count} jobs are back on the timeline")
