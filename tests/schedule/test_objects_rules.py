"""Rules of dateutil mean the same instants as the texts that are made of them."""

import random
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from dateutil import rrule, tz
from hypothesis import given, settings
from hypothesis import strategies as st

from redbike import BadSchedule
from redbike.schedule.objects import format_schedule
from redbike.schedule.parser import parse
from tests.schedule.walk import runs

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2030, 1, 15, 9, 30, 15)


def instants(rules, number, zone="UTC"):
    """The first instants of what a rule is stored as."""
    return [due for due in runs(format_schedule(rules, zone), 0.0, number, zone) if due is not None]


def own(rules, number):
    """The first instants that dateutil itself gives; naive ones are in UTC."""
    return [
        (each if each.tzinfo else each.replace(tzinfo=UTC)).timestamp()
        for each in islice(rules.xafter(rules_start(rules) - timedelta(days=1)), number)
    ]


def rules_start(rules):
    return getattr(rules, "_dtstart", None) or min([rule._dtstart for rule in rules._rrule] + rules._rdate)


def random_rule(chosen, begin):
    """A rule, but without what dateutil reads in another way than iCal, see ``docs/python.rst``."""
    freq = chosen.randrange(7)
    parts = {
        "interval": chosen.choice([1, 1, 2, 3, 7]),
        "wkst": chosen.choice([None, rrule.SU, 3]),
        "bymonth": chosen.choice([None, None, 6, (1, 2, 12)]),
        "byweekday": chosen.choice([None, None, 0, (rrule.MO, rrule.SU), (rrule.WE(2), rrule.FR(-1))]),
        "bymonthday": chosen.choice([None, None, 1, (-1, 15, 28)]),
        "byhour": chosen.choice([None, None, 8, (0, 12, 23)]) if freq < rrule.HOURLY else None,
        "byminute": chosen.choice([None, None, 5, (0, 59)]),
        "bysecond": chosen.choice([None, None, 7]),
        "bysetpos": chosen.choice([None, None, -1, (1, 2)]) if freq in (rrule.YEARLY, rrule.MONTHLY) else None,
    }
    # Every seventh day is the same weekday, every third month may never be June, and no first day is the second
    # Wednesday: dateutil would look for what can never occur up to the year 9999, which takes seconds.
    if freq == rrule.DAILY and parts["byweekday"] is not None:
        parts["interval"] = min(parts["interval"], 3)
    if freq == rrule.MONTHLY and parts["bymonth"] is not None:
        parts["interval"] = 1
    if parts["bymonthday"] == 1 and parts["byweekday"] == (rrule.WE(2), rrule.FR(-1)):
        parts["byweekday"] = None
    if freq >= rrule.HOURLY:
        parts |= dict.fromkeys(("bymonth", "bymonthday", "byminute", "bysecond"))
    # Without an end, dateutil would look for some of them up to the year 9999.
    if chosen.random() < 0.3 and freq < rrule.HOURLY and not parts["bymonth"] and not parts["bymonthday"]:
        end = {"count": chosen.randrange(1, 30)}
    else:
        most = 2000 * 86400 // (1, 1, 1, 1, 60, 1000, 50_000)[freq]
        end = {"until": begin + timedelta(seconds=chosen.randrange(most))}
    return rrule.rrule(freq, dtstart=begin, **parts, **end)


def check(rules, number):
    expected = own(rules, number)
    try:
        found = instants(rules, number)
    except BadSchedule:
        # A rule without an occurrence is refused, also as one of several.
        each = getattr(rules, "_rrule", [rules]) + getattr(rules, "_exrule", [])
        assert not expected or any(not own(rule, 1) for rule in each)
    else:
        assert found == expected


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_rule_is_stored_with_the_same_instants(seed):
    chosen = random.Random(seed)
    check(random_rule(chosen, START + timedelta(seconds=chosen.randrange(10**8))), 30)


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_a_set_is_stored_with_its_rules_dates_and_exceptions(seed):
    chosen, several = random.Random(seed), rrule.rruleset()
    one = random_rule(chosen, START)
    several.rrule(one)
    if chosen.random() < 0.5:
        several.rrule(random_rule(chosen, START))
    if chosen.random() < 0.3:
        several.exrule(random_rule(chosen, START))
    several.rdate(START + timedelta(days=chosen.randrange(900), seconds=chosen.randrange(86400)))
    for each in islice(one, 0, 6, 2):
        several.exdate(each)
    check(several, 20)


@pytest.mark.parametrize("zone", [BERLIN, tz.gettz("Europe/Berlin")])
def test_an_aware_start_gives_the_zone(zone):
    rule = rrule.rrule(rrule.DAILY, dtstart=START.replace(tzinfo=zone), until=datetime(2030, 6, 1, 14, tzinfo=BERLIN))
    text = format_schedule(rule, "UTC")
    assert text == "DTSTART;TZID=Europe/Berlin:20300115T093015\nRRULE:FREQ=DAILY;UNTIL=20300601T120000Z"
    # Also over the change of clocks on 31 March, at a local time that is there once every day.
    assert instants(rule, 200) == own(rule, 200)


@pytest.mark.parametrize("zone", [UTC, tz.UTC, ZoneInfo("UTC"), tz.gettz("UTC")])
def test_utc_is_a_zone_whatever_the_setting_is(zone):
    rule = rrule.rrule(rrule.DAILY, dtstart=START.replace(tzinfo=zone), count=2)
    assert format_schedule(rule, "Europe/Berlin") == "DTSTART:20300115T093015Z\nRRULE:FREQ=DAILY;COUNT=2"
    several = rrule.rruleset()
    several.rdate(START.replace(tzinfo=zone))
    assert parse(format_schedule(several, "Europe/Berlin"), "Europe/Berlin").text == (
        "DTSTART:20300115T093015Z\nRDATE:20300115T093015Z"
    )


def test_a_naive_rule_floats():
    rule = rrule.rrule(rrule.DAILY, dtstart=START, until=date(2030, 1, 17))
    assert format_schedule(rule, "Europe/Berlin") == "DTSTART:20300115T093015\nRRULE:FREQ=DAILY;UNTIL=20300117T000000"
    assert instants(rule, 9, "Europe/Berlin") == [
        datetime(2030, 1, day, 8, 30, 15, tzinfo=UTC).timestamp() for day in (15, 16)
    ]


def test_exceptions_of_another_zone_are_the_same_instants():
    several = rrule.rruleset()
    several.rrule(rrule.rrule(rrule.DAILY, dtstart=START.replace(tzinfo=BERLIN), count=4))
    several.exdate(datetime(2030, 1, 16, 8, 30, 15, tzinfo=UTC))
    several.exdate(datetime(2030, 1, 17, 3, 30, 15, tzinfo=ZoneInfo("America/New_York")))
    assert instants(several, 9) == own(several, 9)
    assert len(own(several, 9)) == 2


def set_of(*dates, **rules):
    several = rrule.rruleset()
    for date_ in dates:
        several.rdate(date_)
    for name, given_ in rules.items():
        for each in given_:
            getattr(several, name)(each)
    return several


DAILY = rrule.rrule(rrule.DAILY, dtstart=START)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (rrule.rrule(rrule.YEARLY, dtstart=START, byeaster=0), "bad rule 'DTSTART:.*BYEASTER=0': iCal has no BYEASTER"),
        (rrule.rrule(rrule.MONTHLY, dtstart=START, bymonthday=()), "bad rule 'DTSTART:.*': its bymonthday is empty"),
        (rrule.rrule(rrule.DAILY, dtstart=START.replace(tzinfo=tz.tzoffset("X", 7200))), "its zone has no IANA name"),
        (set_of(), "^bad rruleset: it has neither rules nor dates"),
        (set_of(rrule=[DAILY, rrule.rrule(rrule.DAILY, dtstart=START + timedelta(1))]), "need the same dtstart"),
        (set_of(rrule=[DAILY], exrule=[rrule.rrule(rrule.DAILY, dtstart=START + timedelta(1))]), "not .*-15 .* and"),
        (set_of(rrule=[DAILY, DAILY.replace(dtstart=START.replace(tzinfo=BERLIN))]), "need the same dtstart"),
        (set_of(rrule=[set_of(START)]), "bad rule of type rruleset in an rruleset"),
        (set_of(START.replace(microsecond=5), rrule=[DAILY]), "in whole seconds is needed"),
        (set_of(date(2030, 1, 1), rrule=[DAILY]), "a datetime in whole seconds is needed"),
        (set_of(START.replace(tzinfo=UTC), rrule=[DAILY]), "all of its times need a zone, or none"),
        (set_of(rrule=[DAILY], exdate=[START.replace(tzinfo=UTC)]), "all of its times need a zone, or none"),
    ],
)
def test_what_ical_has_no_words_for_is_refused(rule, said):
    with pytest.raises(BadSchedule, match=said):
        format_schedule(rule, "UTC")
