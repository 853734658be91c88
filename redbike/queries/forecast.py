"""The forecast: which runs are due in the next hours, and in which minutes too many are due at once."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

from redbike.config.settings import Settings
from redbike.queries.blackouts import Calendar, read_calendar
from redbike.queries.counting import MINUTE, QUARTER, SAMPLES, Counting, Group, Load
from redbike.queries.following.budget import Budget
from redbike.queries.following.family import list_all_followers, list_coming_followers
from redbike.queries.paused import follow_pauses
from redbike.schedule.moments import join_words
from redbike.schedule.parser import is_follower
from redbike.store.coming import PAGE, ComingJob
from redbike.store.namespace import split
from redbike.store.store import Store
from redbike.text.printable import cut

MOST_HOURS = 168
DENSEST = 5  # minutes that are listed
MANY = 10  # jobs with the same schedule, from which it is worth spreading them
SHARES = 3  # schedules that are listed for a minute
MOST_CLOSED = 5  # queues that are named
MOST_PLANS = 20  # schedules that are listed for the whole forecast
HOUR = 60  # minutes
WORTH_IT = 0.9  # the share of the densest minute that may be left after its jobs are spread

# A cron expression whose minute is one number; the groups are the parts before and after it.
_FIELDS = re.compile(r"(CRON_TZ=\S+ )?\d+ (\S+ \S+ \S+ \S+)")


@dataclass(frozen=True, slots=True)
class Quarter:
    """The runs of a queue in a quarter of an hour."""

    start: float  #: epoch seconds
    queue: str  #: "" if it is not known
    runs: int
    busy: float | None  #: average number of workers that these runs keep busy, by past durations; None if unknown
    jobs: tuple[str, ...] = ()  #: ids of some of its jobs, up to 20


@dataclass(frozen=True, slots=True)
class Share:
    """Jobs with the same schedule that run in a minute."""

    schedule: str
    jobs: int
    samples: tuple[str, ...]  #: ids of some of them


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute in which many runs are due."""

    start: float  #: epoch seconds
    runs: int
    shares: tuple[Share, ...]  #: the largest ones; if there are very many schedules, not all are known

    @property
    def is_more(self) -> bool:
        """Whether jobs outside of `shares` run in this minute, too."""
        return self.runs > sum(share.jobs for share in self.shares)


@dataclass(frozen=True, slots=True)
class Plan:
    """The coming runs of jobs with the same schedule."""

    share: Share
    first: float  #: the minute in which the first of them runs, in epoch seconds
    runs: int


@dataclass(frozen=True, slots=True)
class Relief:
    """The effect on the densest minute if the jobs with one schedule were spread."""

    share: Share
    seconds: int  #: over which the jobs would be spread
    runs: int  #: that would be left in this minute
    most: int  #: that would be in the densest minute after this
    hashed: str  #: the schedule with H in place of its minute; "" if this is impossible


@dataclass(frozen=True, slots=True)
class Forecast:
    """The runs that are due in [`start`, `end`), epoch seconds. Iterating over it yields its quarters."""

    start: float
    end: float
    quarters: tuple[Quarter, ...]  #: by time and queue, without quarters in which nothing runs
    densest: tuple[Minute, ...]
    relief: Relief | None
    plans: tuple[Plan, ...]  #: of the schedules with the most jobs, by their first runs
    schedules: int  #: that run; if there are very many, not all are known
    jobs: int  #: that run
    runs: int
    continuous: int  #: jobs that run again as soon as a run has ended; they are not counted
    paused: int  #: jobs that are paused; their runs count only if the pause has an end
    hidden: int = 0  #: jobs that are left out because they run more often than `every`
    closed: tuple[str, ...] = ()  #: queues that are paused all the time, so not counted; "" means everything

    def __iter__(self) -> Iterator[Quarter]:
        return iter(self.quarters)

    def explain_closed(self) -> str:
        """Return a sentence that names the queues that are not counted because they are paused; "" for none."""
        if "" in self.closed:
            return "Everything is paused for longer, so nothing of it is counted."
        names = cut(self.closed, MOST_CLOSED)
        return f"Paused for longer, and not counted: {join_words(names)}." if names else ""


def make_forecast(
    store: Store,
    start: float,
    hours: float,
    now: float,
    jobids: Iterable[str] | None = None,
    report: Callable[[int, int], None] | None = None,
    queue: str | None = None,
    settings: Settings | None = None,
    every: float = 0.0,
) -> Forecast:
    """Return the runs of all jobs, of `jobids`, or of a queue, for `hours` from `start`, up to a whole quarter.

    `report` gets the number of jobs read so far, and of all jobs. The `settings` decide on occurrences in a blackout,
    or in a pause of a queue. If `every` is not 0, jobs that run more often than every `every` seconds are left out.
    """
    end = math.ceil((start + hours * 3600) / QUARTER) * QUARTER
    # Occurrences held by windows long before the start have run by then; there may be millions of such windows.
    calendar = read_calendar(store, settings or Settings(), now, end, start - MOST_HOURS * 3600)
    counting = Counting(start, end, now, store.name_queue, calendar, every)
    paused = _count(store, counting, now, end, jobids, report, queue)
    minutes = counting.minutes
    numbers = nlargest(DENSEST, range(len(minutes)), key=lambda minute: (minutes[minute], -minute))
    densest = tuple(_describe(counting, minute) for minute in numbers if minutes[minute])
    plans = _list_plans(counting)
    return Forecast(
        start=start,
        end=end,
        quarters=tuple(_list_quarters(counting)),
        densest=densest,
        relief=_find_relief(counting, numbers[0], densest[0]) if densest else None,
        plans=tuple(sorted(nlargest(MOST_PLANS, plans, key=lambda plan: plan.share.jobs), key=lambda plan: plan.first)),
        schedules=len(plans),
        jobs=counting.jobs,
        runs=counting.runs,
        continuous=counting.continuous,
        paused=paused,
        hidden=counting.hidden,
        closed=tuple(name for name in calendar.closed if queue in (None, name) or not name),
    )


def _count(
    store: Store,
    counting: Counting,
    now: float,
    end: float,
    jobids: Iterable[str] | None,
    report: Callable[[int, int], None] | None,
    queue: str | None,
) -> int:
    """Count the runs of jobs, and return how many of these are paused."""
    number, paused, following = store.coming.count(end)
    done, held = 0, Counter[bool]()

    def note_paused(jobid: str) -> None:
        held[queue in (None, store.name_queue(jobid))] += 1

    for page in list_coming(store, counting.calendar, now, end, jobids, following, note_paused):
        for job in page:
            if queue is None or counting.name_queue(job) == queue:
                counting.add(job)
        done += len(page)
        if report:
            report(done, max(number, done))
    counting.finish()
    return paused if jobids is queue is None else held[True]


def list_coming(
    store: Store,
    calendar: Calendar | None,
    now: float,
    end: float,
    jobids: Iterable[str] | None,
    following: int,
    note_paused: Callable[[str], None] = lambda jobid: None,
) -> Iterator[list[ComingJob]]:
    """Yield pages of the jobs that are due by `end`, or of `jobids`; it is `now`, in epoch seconds.

    Followers, of which there are `following`, have the due times of their parents.
    """
    budget = Budget()
    for page in store.coming.list_pages(now, end, jobids, note_paused):
        others = [job for job in page if not is_follower(job.schedule)]
        yield list(follow_pauses(store, others, now, end, calendar, budget))
        if jobids is not None and len(others) < len(page):
            named = [job.jobid for job in page if is_follower(job.schedule)]
            yield list(list_coming_followers(store, named, now, calendar, budget=budget))
    if jobids is None and following:
        for page in split(list_all_followers(store, now, calendar, budget), PAGE):
            yield page


def _list_quarters(counting: Counting) -> Iterator[Quarter]:
    known = dict[str, Load]()
    for (_, queue), load in counting.loads.items():
        total = known.setdefault(queue, Load())
        total.runs += load.runs - load.unknown
        total.seconds += load.seconds
    for (number, queue), load in sorted(counting.loads.items()):
        total = known[queue]
        # Runs of unknown duration are taken to last as long as the average run of their queue.
        mean = total.seconds / total.runs if total.runs else None
        busy = None if mean is None else (load.seconds + load.unknown * mean) / QUARTER
        yield Quarter(float(counting.base + number * QUARTER), queue, load.runs, busy, tuple(sorted(load.jobs)))


def _list_plans(counting: Counting) -> list[Plan]:
    found = dict[str, Plan]()
    for group in counting.groups.values():
        if group.jobs and group.minutes:
            first = float(counting.base + min(group.minutes) * MINUTE)
            before = found.get(group.schedule, Plan(Share(group.schedule, 0, ()), first, 0))
            runs = before.runs + group.jobs * group.minutes.total()
            found[group.schedule] = Plan(_add(before.share, group), min(before.first, first), runs)
    return list(found.values())


def _add(share: Share, group: Group) -> Share:
    return Share(share.schedule, share.jobs + group.jobs, (*share.samples, *group.samples)[:SAMPLES])


def _describe(counting: Counting, minute: int) -> Minute:
    largest = nlargest(SHARES, _find_shares(counting, minute).values(), key=lambda share: share.jobs)
    return Minute(float(counting.base + minute * MINUTE), counting.minutes[minute], tuple(largest))


def _find_shares(counting: Counting, minute: int) -> dict[str, Share]:
    """Return the jobs that run in a minute, by their schedules."""
    found = dict[str, Share]()
    for group in counting.groups.values():
        if group.jobs and minute in (group.minutes or ()):
            found[group.schedule] = _add(found.get(group.schedule, Share(group.schedule, 0, ())), group)
    return found


def _find_relief(counting: Counting, number: int, minute: Minute) -> Relief | None:
    """Return the effect of spreading the largest share of a minute; None if it is not worth it."""
    share = minute.shares[0] if minute.shares else None
    if share is None or share.jobs < MANY:
        return None
    groups = [group for group in counting.groups.values() if group.schedule == share.schedule]
    # Spread at most over one period: otherwise an occurrence would run after the next one is due.
    gaps = [second - first for group in groups for first, second in pairwise(sorted(group.minutes or ()))]
    width = min([HOUR, *gaps])
    if width < 2:
        return None
    spread = list[float](counting.minutes)
    for group in groups:
        for first, times in (group.minutes or {}).items():
            spread[first] -= group.jobs * times
            for later in range(first, min(first + width, len(spread))):
                spread[later] += group.jobs * times / width
    most = math.ceil(max(spread))
    if most > minute.runs * WORTH_IT:
        return None
    return Relief(share, width * MINUTE, math.ceil(spread[number]), most, _hash_minute(share.schedule))


def _hash_minute(schedule: str) -> str:
    """Return five fields of cron with H in place of the minute; "" for another schedule."""
    found = _FIELDS.fullmatch(schedule)
    return f"{found[1] or ''}H {found[2]}" if found else ""
