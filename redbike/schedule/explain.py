"""Schedules in plain English, for people who want to know whether a text means what they meant."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from redbike.schedule.cron import Cron, Days
from redbike.schedule.kinds import At, Calendar, Continue, Every, Now, Schedule
from redbike.schedule.rrule.days import completed
from redbike.schedule.rrule.recurrence import Recurrence
from redbike.schedule.rrule.rule import HOURLY, MINUTELY, MONTHLY, NO_END, SECONDLY, WEEKLY, YEARLY, Rule, parse_moment

SUNDAY_FIRST = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONDAY_FIRST = (*SUNDAY_FIRST[1:], "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
FEW = 6  # times of day that are still listed one by one


def explain(schedule: Schedule) -> str:
    """One sentence that says when a schedule runs."""
    if isinstance(schedule, Calendar):
        source = schedule.source
        words = _cron(source) if isinstance(source, Cron) else _recurrence(source)
        return f"{words}, {schedule.timezone} time."
    if isinstance(schedule, At):
        return f"Once, on {_moment(schedule.instant)} UTC."
    if isinstance(schedule, Every):
        return f"Every {_duration(schedule.period)}, counted from {_moment(schedule.anchor)} UTC."
    if isinstance(schedule, Continue):
        return "Again as soon as a run is done, or after the pause that it asks for."
    return "Once, right away." if isinstance(schedule, Now) else "Not any more."


# Cron.


def _cron(cron: Cron) -> str:
    parts = [_clock(_bits(cron.hours), _bits(cron.minutes), _bits(cron.seconds)), _cron_days(cron.days)]
    if cron.years is not None:
        parts.append(f"in {_runs(_bits(cron.years))}")
    return ", ".join(filter(None, parts))


def _clock(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    """When in a day: times of day where they are few, else how often in which hours."""
    if len(hours) * len(minutes) * len(seconds) <= FEW:
        return f"At {_and(_time(hour, minute, second) for hour in hours for minute in minutes for second in seconds)}"
    often = _often(minutes, 60, "minute", "of the hour")
    if seconds != [0]:
        shown = _often(seconds, 60, "second", "of the minute")
        often = shown if len(minutes) == 60 else f"{shown} {_within(minutes)}"
    if len(hours) == 24:
        return _upper(often if len(minutes) > 1 or seconds != [0] else _past(minutes[0]))
    return _upper(f"{often} {_hours(hours)}")


def _often(values: Sequence[int], size: int, unit: str, of: str) -> str:
    if len(values) == size:
        return f"every {unit}"
    step = _step(values, size)
    if step:
        return f"every {step} {unit}s"
    return f"at {unit} {_runs(values)} {of}" if len(values) == 1 else f"at {unit}s {_runs(values)} {of}"


def _within(minutes: Sequence[int]) -> str:
    step = _step(minutes, 60)
    return f"of every {_nth(step)} minute" if step else f"of minute{'s' * (len(minutes) > 1)} {_runs(minutes)}"


def _past(minute: int) -> str:
    return "every hour, on the hour" if not minute else f"every hour, at {minute} minute{'s' * (minute > 1)} past"


def _hours(hours: Sequence[int]) -> str:
    step = _step(hours, 24)
    if step:
        return f"of every {_nth(step)} hour"
    spans = [f"{first:02}:00 to {last:02}:59" for first, last in _spans(hours)]
    return f"from {_and(spans)}"


def _cron_days(days: Days) -> str:
    by_month = [f"{'days' if days.dom.bit_count() > 1 else 'day'} {_runs(_bits(days.dom))}"] if days.dom else []
    by_month += ["the last day"] if days.last else []
    by_month += [f"the weekday nearest day {day}" if day < 31 else "the last weekday" for day in days.nearest]
    by_week = [_named(_bits(days.dow), SUNDAY_FIRST)] if days.dow else []
    by_week += [f"the {_nth(nth) if nth else 'last'} {SUNDAY_FIRST[day]}" for day, nth in days.nth]
    monthly = "" if days.dom == (2 << 31) - 2 else f"on {_and(by_month)} of the month"
    weekly = "" if days.dow == 127 else f"{_and(by_week)}{' of the month' * bool(days.nth)}"
    if monthly and weekly:
        told = f"{monthly} or on {weekly}" if days.either else f"{monthly} if that is {_any_of(weekly)}"
    else:
        # Where either field is enough, one that is full lets every day through.
        told = "" if days.either else monthly or (weekly and f"on {weekly}")
    months = "" if days.months == (2 << 12) - 2 else f"in {_named(_bits(days.months >> 1), MONTHS)}"
    return ", ".join(filter(None, (told, months))) or "every day"


def _any_of(weekly: str) -> str:
    return f"{'' if weekly.startswith('the ') else 'a '}{weekly.replace(' and ', ' or ')}"


# Recurrence rules.


def _recurrence(source: Recurrence) -> str:
    start = datetime(1970, 1, 1) + timedelta(seconds=source.start.wall)
    told = [_upper("; and ".join(_rule(rule, start) for rule in source.rules))] if source.rules else []
    if source.dates:
        told.append(f"{'also ' if told else 'On '}{_dates(source.dates, 'on ' if told else '')}")
    told += [f"except {_rule(rule, start)}" for rule in source.exrules]
    if source.exdates:
        told.append(f"except {_dates(sorted(source.exdates), 'on ')}")
    return f"{', '.join(told)}, from {_moment_text(start)} on" if source.rules else ", ".join(told)


def _rule(rule: Rule, start: datetime) -> str:
    unit = UNITS[rule.freq]
    often = f"every {unit}" if rule.interval == 1 else f"every {rule.interval} {unit}s"
    parts = [often, _rule_days(rule, start), _rule_clock(rule, start)]
    if rule.setpos:
        parts.append(f"of these only the {_and(_day(place) for place in rule.setpos)} in each {unit}")
    if rule.count:
        parts.append("once" if rule.count == 1 else f"{rule.count} times")
    if rule.until:
        parts.append(f"until {_until(rule.until)}")
    return ", ".join(filter(None, parts))


def _rule_days(rule: Rule, start: datetime) -> str:
    parts = []
    if not (rule.weekdays or rule.monthdays or rule.yeardays) and (rule.months or rule.weeks):
        rule = completed(rule, start.date())
    if rule.weekdays:
        days = (f"the {_day(nth)} {MONDAY_FIRST[day]}" if nth else MONDAY_FIRST[day] for nth, day in rule.weekdays)
        parts.append(f"on {_and(days)}")
    if rule.monthdays:
        parts.append(f"on the {_and(map(_day, rule.monthdays))} day of the month")
    if rule.yeardays:
        parts.append(f"on the {_and(map(_day, rule.yeardays))} day of the year")
    if rule.weeks:
        parts.append(f"in {_and(f'week {week}' if week > 0 else f'the {_day(week)} week' for week in rule.weeks)}")
    if rule.months:
        parts.append(f"in {_and(MONTHS[month - 1] for month in rule.months)}")
    if rule.wkst and (rule.weeks or (rule.freq == WEEKLY and (rule.interval > 1 or rule.setpos))):
        parts.append(f"of weeks that begin on {MONDAY_FIRST[rule.wkst]}")
    return " ".join(parts) or _silent_days(rule, start)


def _silent_days(rule: Rule, start: datetime) -> str:
    """The days that come from DTSTART."""
    if rule.freq == YEARLY:
        return f"on {start.day} {MONTHS[start.month - 1]}"
    if rule.freq == MONTHLY:
        return f"on the {_nth(start.day)} day of the month"
    return f"on {MONDAY_FIRST[start.weekday()]}" if rule.freq == WEEKLY else ""


def _rule_clock(rule: Rule, start: datetime) -> str:
    hours, minutes, seconds = (sorted(set(part)) for part in (rule.hours, rule.minutes, rule.seconds))
    if rule.freq < HOURLY:
        clock = _clock(hours or [start.hour], minutes or [start.minute], seconds or [start.second])
        return clock[0].lower() + clock[1:]
    parts = [f"from {_and(f'{first:02}:00 to {last:02}:59' for first, last in _spans(hours))}"] if hours else []
    if minutes or rule.freq < MINUTELY:
        parts.append(_at("minute", minutes or [start.minute]))
    if seconds or (rule.freq < SECONDLY and start.second):
        parts.append(_at("second", seconds or [start.second]))
    return " ".join(parts)


def _at(unit: str, values: Sequence[int]) -> str:
    return f"at {unit}{'s' * (len(values) > 1)} {_runs(values)}"


def _until(text: str) -> str:
    moment = parse_moment(text, text, last=NO_END)
    said = _moment_text(datetime(1970, 1, 1) + timedelta(seconds=moment.wall))
    return said.rpartition(" at ")[0] if moment.is_date else said + " UTC" * moment.is_utc


def _dates(instants: Sequence[int], on: str) -> str:
    if len(instants) > FEW:
        return f"{on}{len(instants)} dates"
    return f"{on}{_and(_moment(instant) + ' UTC' for instant in instants)}"


def _day(number: int) -> str:
    return _nth(number) if number > 0 else "last" if number == -1 else f"{_nth(-number)} to last"


# Words.


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _step(values: Sequence[int], size: int) -> int:
    """The step when the values are all the multiples of a divisor of `size`, else 0."""
    step = values[1] if len(values) > 1 and not values[0] else 0
    return step if step and size % step == 0 and list(values) == list(range(0, size, step)) else 0


def _spans(values: Iterable[int]) -> list[tuple[int, int]]:
    groups = (list(group) for _, group in groupby(enumerate(values), lambda pair: pair[1] - pair[0]))
    return [(group[0][1], group[-1][1]) for group in groups]


def _runs(values: Iterable[int]) -> str:
    return _and(str(low) if low == high else f"{low} to {high}" for low, high in _pairs_apart(values))


def _pairs_apart(values: Iterable[int]) -> Iterable[tuple[int, int]]:
    """The spans, but two values in a row as two."""
    for low, high in _spans(values):
        yield from ((low, low), (high, high)) if high == low + 1 else ((low, high),)


def _named(values: Iterable[int], names: Sequence[str]) -> str:
    return _and(names[low] if low == high else f"{names[low]} to {names[high]}" for low, high in _pairs_apart(values))


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _nth(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _time(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _moment(instant: float) -> str:
    return _moment_text(datetime.fromtimestamp(instant, UTC))


def _moment_text(moment: datetime) -> str:
    clock = _time(moment.hour, moment.minute, moment.second)
    return f"{MONDAY_FIRST[moment.weekday()]}, {moment.day} {MONTHS[moment.month - 1]} {moment.year} at {clock}"


def _duration(seconds: float) -> str:
    """86400 is a day, 5400 is 1 hour and 30 minutes."""
    words, rest = [], seconds
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number, rest = divmod(rest, size)
        words += [f"{number:g} {unit}{'s' * (number != 1)}"] if number else []
    words += [f"{rest:g} second{'s' * (rest != 1)}"] if rest else []
    return words[0][2:] if len(words) == 1 and words[0].startswith("1 ") else _and(words)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
