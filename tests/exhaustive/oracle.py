"""What the definitions say, worked out one day or minute at a time with nothing but datetime and zoneinfo.

Slow and simple on purpose, and without a line of the package or of the libraries that it is compared with.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
ZONES = (
    *("UTC", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Havana"),
    *("Asia/Kathmandu", "America/St_Johns", "Asia/Gaza", "Africa/Cairo", "Pacific/Apia", "Antarctica/Troll"),
)


@dataclass
class Rule:
    """A rule as its parts, with the text that stands for it."""

    freq: str
    start: datetime
    zone: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    wkst: int = 0
    parts: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The schedule."""
        zoned = f"DTSTART;TZID={self.zone}:{self.start:%Y%m%dT%H%M%S}"
        rule = f"FREQ={self.freq};INTERVAL={self.interval};WKST={WEEKDAYS[self.wkst]}"
        rule += f";COUNT={self.count}" if self.count else ""
        rule += f";UNTIL={self.until:%Y%m%dT%H%M%SZ}" if self.until else ""
        named = {**self.parts, "BYDAY": [f"{n or ''}{WEEKDAYS[day]}" for n, day in self.parts.get("BYDAY", [])]}
        listed = (f";{name}={','.join(map(str, values))}" for name, values in named.items() if values)
        return f"{zoned}\nRRULE:{rule}{''.join(listed)}"


def instant(wall: datetime, zone: str) -> float:
    """The instant of a local time: the first of two, and in a gap by the offset before it (PEP 495 has it so)."""
    return wall.replace(tzinfo=ZoneInfo(zone)).timestamp()


def week(day: date, wkst: int) -> tuple[int, int]:
    """The week-numbering year and the week of a day: that of the fourth day of its week."""
    fourth = day - timedelta((day.weekday() - wkst) % 7) + timedelta(3)
    return fourth.year, (fourth.timetuple().tm_yday - 1) // 7 + 1


def weeks_in(year: int, wkst: int) -> int:
    """The number of weeks of a week-numbering year; 28 December is always in the last."""
    return max(
        week(date(year, 12, day), wkst)[1] for day in range(25, 32) if week(date(year, 12, day), wkst)[0] == year
    )


def days_in(moment: date, yearly: bool) -> tuple[int, int]:
    """(number of the day, days) in its year or month."""
    if yearly:
        return moment.timetuple().tm_yday, date(moment.year, 12, 31).timetuple().tm_yday
    following = date(moment.year + moment.month // 12, moment.month % 12 + 1, 1)
    return moment.day, (following - timedelta(1)).day


def picked(number: int, size: int, values: list[int]) -> bool:
    """Whether `number`, of 1 to `size`, is among values that count from the end when negative."""
    return number in values or number - size - 1 in values


def completed(rule: Rule) -> dict[str, list[Any]]:
    """The parts, with what is missing taken from DTSTART."""
    parts, start = dict(rule.parts), rule.start
    if not any(parts.get(name) for name in ("BYYEARDAY", "BYMONTHDAY", "BYDAY")):
        if (rule.freq == "YEARLY" and parts.get("BYWEEKNO")) or (rule.freq == "WEEKLY" and not parts.get("BYWEEKNO")):
            parts["BYDAY"] = [(0, start.weekday())]
        elif rule.freq in ("YEARLY", "MONTHLY") and not parts.get("BYWEEKNO"):
            parts["BYMONTHDAY"] = [start.day]
            if rule.freq == "YEARLY" and not parts.get("BYMONTH"):
                parts["BYMONTH"] = [start.month]
    return parts


def passes(day: date, rule: Rule, parts: dict[str, list[Any]]) -> bool:
    """Whether all parts let the day through."""
    in_year, in_month = days_in(day, True), days_in(day, False)
    if parts.get("BYMONTH") and day.month not in parts["BYMONTH"]:
        return False
    if parts.get("BYWEEKNO"):
        year, number = week(day, rule.wkst)
        if not picked(number, weeks_in(year, rule.wkst), parts["BYWEEKNO"]):
            return False
    if parts.get("BYYEARDAY") and not picked(*in_year, parts["BYYEARDAY"]):
        return False
    if parts.get("BYMONTHDAY") and not picked(*in_month, parts["BYMONTHDAY"]):
        return False
    return not parts.get("BYDAY") or any(on_weekday(day, rule, parts, nth, weekday) for nth, weekday in parts["BYDAY"])


def on_weekday(day: date, rule: Rule, parts: dict[str, list[Any]], nth: int, weekday: int) -> bool:
    """Whether the day is that weekday; a number counts in the month, or with YEARLY and no BYMONTH in the year."""
    if day.weekday() != weekday:
        return False
    if not nth or rule.freq not in ("YEARLY", "MONTHLY"):
        return True
    number, size = days_in(day, rule.freq == "YEARLY" and not parts.get("BYMONTH"))
    return nth == ((number - 1) // 7 + 1 if nth > 0 else -((size - number) // 7 + 1))


def period(day: date, rule: Rule) -> int:
    """The number of the period that a day is in."""
    if rule.freq == "YEARLY":
        return week(day, rule.wkst)[0] if rule.parts.get("BYWEEKNO") else day.year
    if rule.freq == "MONTHLY":
        return day.year * 12 + day.month
    return (day.toordinal() - 1 - rule.wkst) // 7 if rule.freq == "WEEKLY" else day.toordinal()


def first_period(rule: Rule) -> int:
    """The period of DTSTART; with BYWEEKNO, the week-numbering year that has the number of its calendar year."""
    return rule.start.year if rule.freq == "YEARLY" else period(rule.start.date(), rule)


def times(rule: Rule) -> list[timedelta]:
    """The times of the day of a rule of days or longer."""
    hours = rule.parts.get("BYHOUR") or [rule.start.hour]
    minutes = rule.parts.get("BYMINUTE") or [rule.start.minute]
    seconds = rule.parts.get("BYSECOND") or [rule.start.second]
    return sorted({timedelta(hours=h, minutes=m, seconds=s) for h in hours for m in minutes for s in seconds})


def chosen(found: list[Any], rule: Rule) -> list[Any]:
    """What BYSETPOS leaves of a set in order."""
    if not rule.parts.get("BYSETPOS"):
        return found
    return [item for number, item in enumerate(found, 1) if picked(number, len(found), rule.parts["BYSETPOS"])]


def walls(rule: Rule, years: int) -> Iterator[float]:
    """The instants of a rule of days or longer until `years` after its start, period by period."""
    parts, opening = completed(rule), rule.start.date() - timedelta(400)
    sets: dict[int, list[datetime]] = {}
    for number in range((years + 1) * 366 + 400):
        day = opening + timedelta(number)
        sets.setdefault(period(day, rule), [])
        if passes(day, rule, parts):
            midnight = datetime(day.year, day.month, day.day)
            sets[period(day, rule)] += [midnight + time for time in times(rule)]
    first = first_period(rule)
    for number in sorted(sets)[:-1]:
        if number >= first and (number - first) % rule.interval == 0:
            yield from (instant(wall, rule.zone) for wall in chosen(sets[number], rule) if wall >= rule.start)


def elapsed(rule: Rule, periods: int) -> Iterator[float]:
    """The instants of a rule of hours or shorter: its periods are elapsed time, each seen on the local clock."""
    start, zone = instant(rule.start, rule.zone), ZoneInfo(rule.zone)
    unit = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}[rule.freq]
    for number in range(periods):
        local = datetime.fromtimestamp(start + number * rule.interval * unit, zone)
        if passes(local.date(), rule, rule.parts) and shows(local, rule):
            found = sorted(set(expanded(local, rule)))
            yield from (due for due in chosen(found, rule) if due >= start)


def shows(local: datetime, rule: Rule) -> bool:
    """Whether the clock shows what the parts of the period's own length and longer ask for."""
    clock = {"BYHOUR": local.hour, "BYMINUTE": local.minute, "BYSECOND": local.second}
    limits = list(clock)[: FREQUENCIES.index(rule.freq) - FREQUENCIES.index("DAILY")]
    return all(not rule.parts.get(name) or clock[name] in rule.parts[name] for name in limits)


def expanded(local: datetime, rule: Rule) -> Iterator[float]:
    """The instants in a period: what is shorter than it is set on the clock that it begins with.

    Of a time that the clock shows twice, that is the one with the offset of the beginning.
    """
    minutes = (rule.parts.get("BYMINUTE") or [rule.start.minute]) if rule.freq == "HOURLY" else [local.minute]
    seconds = (rule.parts.get("BYSECOND") or [rule.start.second]) if rule.freq != "SECONDLY" else [local.second]
    for minute, second in itertools.product(minutes, seconds):
        first, again = (local.replace(minute=minute, second=second, fold=fold) for fold in (0, 1))
        # In a gap, the offset of the first is the lower one.
        is_again = first.utcoffset() > again.utcoffset() == local.utcoffset()
        yield (again if is_again else first).timestamp()


def occurrences(rule: Rule, size: int) -> list[float]:
    """The first occurrences: of `size` years, or as many periods; with COUNT and UNTIL applied."""
    daily = FREQUENCIES.index(rule.freq) <= FREQUENCIES.index("DAILY")
    found = list(walls(rule, size) if daily else elapsed(rule, size))
    found = found[: rule.count] if rule.count else found
    return sorted({due for due in found if not rule.until or due <= rule.until.replace(tzinfo=UTC).timestamp()})


def some(pick: random.Random, values: list[Any], most: int) -> list[Any]:
    """Up to `most` of them."""
    return pick.sample(values, pick.randint(1, min(most, len(values))))


def random_rule(pick: random.Random) -> Rule:
    """A rule such as people write, and such as nobody does."""
    freq = pick.choice(FREQUENCIES)
    year = pick.randint(1998, 2030) if pick.random() < 0.8 else pick.randint(1950, 2110)
    start = datetime(year, 1, 1) + timedelta(pick.randrange(366), pick.randrange(86400))
    if pick.random() < 0.7:
        start = start.replace(minute=pick.choice((0, 15, 30)), second=0)
    rule = Rule(freq, start, pick.choice(ZONES), pick.choice((1, 1, 1, 2, 3, 4, 7, 13)), wkst=pick.choice((0, 0, 6, 3)))
    numbers = {
        "BYMONTH": range(1, 13),
        "BYWEEKNO": [*range(1, 54), *range(-53, 0)] if freq == "YEARLY" or pick.random() < 0.1 else [],
        "BYYEARDAY": [*range(1, 367), *range(-366, 0)],
        "BYMONTHDAY": [*range(1, 32), *range(-31, 0)],
        "BYHOUR": range(24),
        "BYMINUTE": range(60),
        "BYSECOND": range(60),
    }
    for name, values in numbers.items():
        if values and pick.random() < 0.17:
            rule.parts[name] = some(pick, list(values), pick.choice((1, 3, 12)))
    if pick.random() < 0.4:
        counted = freq in ("YEARLY", "MONTHLY") and pick.random() < 0.5
        most = (53 if freq == "YEARLY" and not rule.parts.get("BYMONTH") else 5) if counted else 0
        rule.parts["BYDAY"] = [(pick.randint(-most, most), day) for day in some(pick, list(range(7)), 4)]
    if rule.parts and pick.random() < 0.15:
        rule.parts["BYSETPOS"] = some(pick, [1, 2, 3, -1, -2, 5], 3)
    if pick.random() < 0.3:
        move_to_edge(pick, rule)
    if pick.random() < 0.2:
        rule.count = pick.randint(1, 40)
    elif pick.random() < 0.15:
        rule.until = rule.start + timedelta(pick.randint(0, 1500), pick.randrange(86400))
    return rule


def move_to_edge(pick: random.Random, rule: Rule) -> None:
    """Let a rule start at the first days of a year, month or week, among times just before and just after it."""
    start = rule.start.replace(month=pick.choice((1, rule.start.month)), day=1, hour=pick.randrange(6))
    start += timedelta(pick.randint(-4, 3) if pick.random() < 0.5 else (rule.wkst - start.weekday()) % 7)
    rule.start = start
    if rule.freq == "YEARLY" and pick.random() < 0.3:
        rule.parts = {"BYWEEKNO": pick.choice(([1], [52, 53], [-1, -53])), "BYDAY": [(0, day) for day in range(7)]}
        rule.parts["BYSETPOS"] = pick.choice(([], [1, -1], [2]))
    clock = {"BYHOUR": (start.hour, 24), "BYMINUTE": (start.minute, 60), "BYSECOND": (start.second, 60)}
    for name, (value, size) in clock.items():
        if pick.random() < 0.5:
            rule.parts[name] = [(value + step) % size for step in (-1, 0, 1)]


@dataclass
class Line:
    """A crontab line as the values that its fields stand for, with its text."""

    text: str
    zone: str
    minutes: set[int]
    hours: set[int]
    seconds: set[int]
    day: Callable[[date], bool]
    follows: bool


def random_field(pick: random.Random, low: int, high: int, star: float) -> tuple[str, set[int]]:
    """A field's text and the values that it stands for."""
    every = range(low, high + 1)
    if pick.random() < star:
        step = pick.choice((1, 1, 2, 5, 15))
        return ("*" if step == 1 else f"*/{step}"), set(every[::step])
    texts, values = [], set[int]()
    for _ in range(pick.choice((1, 1, 2, 3))):
        first, last = pick.choice(every), pick.choice(every)
        if pick.random() < 0.5:
            texts.append(str(first))
            values.add(first)
        else:
            step = pick.choice((1, 1, 2, 3))
            texts.append(f"{first}-{last}" + (f"/{step}" if step > 1 else ""))
            span = last - first if last >= first else last - first + len(every)
            values |= {every[(first - low + more) % len(every)] for more in range(0, span + 1, step)}
    return ",".join(texts), values


def random_line(pick: random.Random) -> Line:
    """A crontab line in a zone."""
    minute, minutes = random_field(pick, 0, 59, 0.3)
    hour, hours = random_field(pick, 0, 23, 0.4)
    dom, days = random_field(pick, 1, 31, 0.6)
    month, months = random_field(pick, 1, 12, 0.8)
    dow, weekdays = random_field(pick, 0, 6, 0.6)
    fields, seconds = [minute, hour, dom, month, dow], {0}
    if pick.random() < 0.15:
        second, seconds = random_field(pick, 0, 59, 0.3)
        fields.append(second)
    either = "*" not in (dom[0], dow[0])
    zone = pick.choice(ZONES)

    def day(moment: date) -> bool:
        matched = moment.day in days, moment.isoweekday() % 7 in weekdays
        return moment.month in months and (any(matched) if either else all(matched))

    follows = len(fields) > 5 or "*" in (minute[0], hour[0])
    return Line(f"CRON_TZ={zone} {' '.join(fields)}", zone, minutes, hours, seconds, day, follows)


def cron_runs(line: Line, start: int, stop: int) -> Iterator[int]:
    """The runs from `start` until `stop`, whole minutes of epoch seconds, as Debian's cron has them: minute by minute.

    It remembers the latest local minute that has come. With wildcards a line runs whenever the clock shows its time;
    one at fixed times runs when a minute comes that was not there before, with those that were skipped to get there.
    """
    zone = ZoneInfo(line.zone)
    # Clocks change on quarters of an hour, so the latest time is that of a minute before one.
    minutes = range(start // 900 * 900 - 60, start - 100_000, -900)
    reached = max(datetime.fromtimestamp(minute, zone).replace(tzinfo=None) for minute in (start - 60, *minutes))
    for now in range(start, stop, 60):
        local = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
        if line.follows:
            if matches(local, line):
                yield from (now + second for second in sorted(line.seconds))
        else:
            skipped = int((local - reached).total_seconds()) // 60
            if any(matches(local - timedelta(minutes=back), line) for back in range(skipped)):
                yield now
        reached = max(reached, local)


def matches(local: datetime, line: Line) -> bool:
    """Whether the clock shows a minute of the line."""
    return local.minute in line.minutes and local.hour in line.hours and line.day(local.date())
