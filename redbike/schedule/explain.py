"""Explain in plain English when a schedule runs, so that users can check whether a text means what they want."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from redbike.schedule.amendments import AmendedCron
from redbike.schedule.cron_fields import CronFields, DayFields
from redbike.schedule.moments import (
    MONDAY_FIRST,
    MONTHS,
    format_day,
    format_instant,
    format_local,
    format_time,
    join_words,
    make_local,
)
from redbike.schedule.rrule.days import complete_days
from redbike.schedule.rrule.recurrence import Recurrence
from redbike.schedule.rrule.rule import HOURLY, MINUTELY, MONTHLY, NO_END, SECONDLY, WEEKLY, YEARLY, Rule, parse_moment

SUNDAY_FIRST = (MONDAY_FIRST[-1], *MONDAY_FIRST[:-1])
UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
MAX_LISTED = 6  # times of day, or dates; if there are more, they are not listed


# Cron.


def explain_cron(cron: CronFields) -> str:
    """Explain a cron expression, without its zone."""
    parts = [
        _describe_clock(_list_bits(cron.hours), _list_bits(cron.minutes), _list_bits(cron.seconds)),
        _describe_cron_days(cron.days),
    ]
    if cron.years is not None:
        parts.append(f"in {_join_runs(_list_bits(cron.years))}")
    return ", ".join(filter(None, parts))


def _describe_clock(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    """Describe the times of a day: list them if they are few, else describe how often they come in which hours."""
    if len(hours) * len(minutes) * len(seconds) <= MAX_LISTED:
        times = (format_time(hour, minute, second) for hour in hours for minute in minutes for second in seconds)
        return f"At {join_words(times)}"
    often = _describe_often(minutes, "minute", "of the hour")
    if seconds != [0]:
        by_second = _describe_often(seconds, "second", "of the minute")
        often = by_second if len(minutes) == 60 else f"{by_second} {_describe_minutes(minutes)}"
    if len(hours) == 24:
        return _capitalize(often if len(minutes) > 1 or seconds != [0] else _describe_hourly(minutes[0]))
    return _capitalize(f"{often} {_describe_hours(hours)}")


def _describe_often(values: Sequence[int], unit: str, of: str) -> str:
    if len(values) == 60:
        return f"every {unit}"
    step = _find_step(values, 60)
    if step:
        return f"every {step} {unit}s"
    return f"at {unit} {_join_runs(values)} {of}" if len(values) == 1 else f"at {unit}s {_join_runs(values)} {of}"


def _describe_minutes(minutes: Sequence[int]) -> str:
    step = _find_step(minutes, 60)
    return (
        f"of every {_format_nth(step)} minute" if step else f"of minute{'s' * (len(minutes) > 1)} {_join_runs(minutes)}"
    )


def _describe_hourly(minute: int) -> str:
    return "every hour, on the hour" if not minute else f"every hour, at {minute} minute{'s' * (minute > 1)} past"


def _describe_hours(hours: Sequence[int]) -> str:
    step = _find_step(hours, 24)
    return f"of every {_format_nth(step)} hour" if step else _describe_spans(hours)


def _describe_spans(hours: Sequence[int]) -> str:
    return f"from {join_words(f'{first:02}:00 to {last:02}:59' for first, last in _find_spans(hours))}"


def _describe_cron_days(days: DayFields) -> str:
    by_month = (
        [f"{'days' if days.dom.bit_count() > 1 else 'day'} {_join_runs(_list_bits(days.dom))}"] if days.dom else []
    )
    by_month += ["the last day"] if days.last else []
    by_month += [f"the weekday nearest day {day}" if day < 31 else "the last weekday" for day in days.nearest]
    by_week = [_join_names(_list_bits(days.dow), SUNDAY_FIRST)] if days.dow else []
    by_week += [f"the {_format_nth(nth) if nth else 'last'} {SUNDAY_FIRST[day]}" for day, nth in days.nth]
    monthly = "" if days.dom == (2 << 31) - 2 else f"on {join_words(by_month)} of the month"
    weekly = "" if days.dow == 127 else f"{join_words(by_week)}{' of the month' * bool(days.nth)}"
    if monthly and weekly:
        text = f"{monthly} or on {weekly}" if days.either else f"{monthly} if that is {_join_any(weekly)}"
    else:
        # If one matching field is enough, a field with all days matches every day.
        text = "" if days.either else monthly or (weekly and f"on {weekly}")
    months = "" if days.months == (2 << 12) - 2 else f"in {_join_names(_list_bits(days.months >> 1), MONTHS)}"
    return ", ".join(filter(None, (text, months))) or "every day"


def _join_any(weekly: str) -> str:
    return f"{'' if weekly.startswith('the ') else 'a '}{weekly.replace(' and ', ' or ')}"


def explain_amendments(source: AmendedCron) -> str:
    """Explain the EXDATE and RDATE lines of a cron expression, as the end of its sentence."""
    parts = []
    if source.closed or source.cancelled:
        days = [format_day(make_local(day * 86400)) for day in source.closed]
        parts.append(f", but not {_list_or_count([*days, *map(_format_wall, source.cancelled)])}")
    if source.added:
        parts.append(f", and also {_list_or_count(list(map(_format_wall, source.added)))}")
    return "".join(parts)


def _format_wall(wall: int) -> str:
    return format_local(make_local(wall))


def _list_or_count(dates: list[str]) -> str:
    return f"on {join_words(dates) if len(dates) <= MAX_LISTED else f'{len(dates)} dates'}"


# Recurrence rules.


def explain_recurrence(source: Recurrence) -> str:
    """Explain a set of rules and dates, without its zone."""
    start, timezone = make_local(source.start.wall), source.timezone
    rules = [_describe_rule(rule, start, timezone) for rule in source.rules]
    parts = [_capitalize("; and ".join(rules))] if rules else []
    if source.dates:
        parts.append(f"{'also ' if parts else 'On '}{_describe_dates(source.dates, 'on ' if parts else '', timezone)}")
    parts += [f"except {_describe_rule(rule, start, timezone)}" for rule in source.exrules]
    if source.exdates:
        parts.append(f"except {_describe_dates(sorted(source.exdates), 'on ', timezone)}")
    return f"{', '.join(parts)}, from {format_local(start)} on" if source.rules else ", ".join(parts)


def _describe_rule(rule: Rule, start: datetime, timezone: str) -> str:
    unit = UNITS[rule.freq]
    often = f"every {unit}" if rule.interval == 1 else f"every {rule.interval} {unit}s"
    parts = [often, _describe_rule_days(rule, start), _describe_rule_clock(rule, start)]
    if rule.setpos:
        parts.append(f"of these only the {join_words(_name_day(place) for place in rule.setpos)} in each {unit}")
    if rule.count:
        parts.append("once" if rule.count == 1 else f"{rule.count} times")
    if rule.until:
        parts.append(f"until {_describe_until(rule.until, timezone)}")
    return ", ".join(filter(None, parts))


def _describe_rule_days(rule: Rule, start: datetime) -> str:
    parts = []
    if rule.months or rule.weeks:
        rule = complete_days(rule, start.date())
    # A yearly rule without a part that names times of the year runs in each month, or each week.
    is_yearly = rule.freq == YEARLY and not (rule.months or rule.weeks or rule.yeardays)
    if rule.weekdays:
        each = "each " if is_yearly and not rule.monthdays else ""
        days = (
            f"the {_name_day(nth)} {MONDAY_FIRST[day]}" if nth else f"{each}{MONDAY_FIRST[day]}"
            for nth, day in rule.weekdays
        )
        parts.append(f"on {join_words(days)}")
    if rule.monthdays:
        month = "each month" if is_yearly and not any(nth for nth, _ in rule.weekdays) else "the month"
        parts.append(f"on the {join_words(map(_name_day, rule.monthdays))} day of {month}")
    if rule.yeardays:
        parts.append(f"on the {join_words(map(_name_day, rule.yeardays))} day of the year")
    if rule.weeks:
        parts.append(
            f"in {join_words(f'week {week}' if week > 0 else f'the {_name_day(week)} week' for week in rule.weeks)}"
        )
    if rule.months:
        parts.append(f"in {join_words(MONTHS[month - 1] for month in rule.months)}")
    parts = parts or [_describe_start_days(rule, start)]
    if rule.wkst and (rule.weeks or (rule.freq == WEEKLY and (rule.interval > 1 or rule.setpos))):
        parts.append(f"of weeks that begin on {MONDAY_FIRST[rule.wkst]}")
    return " ".join(parts)


def _describe_start_days(rule: Rule, start: datetime) -> str:
    """Name the days that come from DTSTART, if no part of the rule selects days."""
    if rule.freq == YEARLY:
        return f"on {start.day} {MONTHS[start.month - 1]}"
    if rule.freq == MONTHLY:
        return f"on the {_format_nth(start.day)} day of the month"
    return f"on {MONDAY_FIRST[start.weekday()]}" if rule.freq == WEEKLY else ""


def _describe_rule_clock(rule: Rule, start: datetime) -> str:
    hours, minutes, seconds = (sorted(set(part)) for part in (rule.hours, rule.minutes, rule.seconds))
    if rule.freq < HOURLY:
        clock = _describe_clock(hours or [start.hour], minutes or [start.minute], seconds or [start.second])
        return clock[0].lower() + clock[1:]
    parts = [_describe_spans(hours)] if hours else []
    if minutes or rule.freq < MINUTELY:
        parts.append(_describe_at("minute", minutes or [start.minute]))
    if seconds or (rule.freq < SECONDLY and start.second):
        parts.append(_describe_at("second", seconds or [start.second]))
    return " ".join(parts)


def _describe_at(unit: str, values: Sequence[int]) -> str:
    return f"at {unit}{'s' * (len(values) > 1)} {_join_runs(values)}"


def _describe_until(text: str, timezone: str) -> str:
    moment = parse_moment(text, text, last=NO_END)
    if moment.is_date:
        return format_day(make_local(moment.wall))
    return format_instant(moment.wall, timezone) if moment.is_utc else _format_wall(moment.wall)


def _describe_dates(instants: Sequence[int], on: str, timezone: str) -> str:
    if len(instants) > MAX_LISTED:
        return f"{on}{len(instants)} dates"
    return f"{on}{join_words(format_instant(instant, timezone) for instant in instants)}"


def _name_day(number: int) -> str:
    return _format_nth(number) if number > 0 else "last" if number == -1 else f"{_format_nth(-number)} to last"


# Words.


def _list_bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _find_step(values: Sequence[int], size: int) -> int:
    """Return the step if the values are all multiples of a divisor of `size`, else 0."""
    step = values[1] if len(values) > 1 and not values[0] else 0
    return step if step and size % step == 0 and list(values) == list(range(0, size, step)) else 0


def _find_spans(values: Iterable[int]) -> list[tuple[int, int]]:
    groups = (list(group) for _, group in groupby(enumerate(values), lambda pair: pair[1] - pair[0]))
    return [(group[0][1], group[-1][1]) for group in groups]


def _join_runs(values: Iterable[int]) -> str:
    return join_words(str(low) if low == high else f"{low} to {high}" for low, high in _split_pairs(values))


def _split_pairs(values: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Yield the spans, but a span of two values as two spans."""
    for low, high in _find_spans(values):
        yield from ((low, low), (high, high)) if high == low + 1 else ((low, high),)


def _join_names(values: Iterable[int], names: Sequence[str]) -> str:
    pairs = _split_pairs(values)
    return join_words(names[low] if low == high else f"{names[low]} to {names[high]}" for low, high in pairs)


def _format_nth(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:]
