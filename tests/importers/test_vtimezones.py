"""The IANA zone that a calendar means, by its names or by its rules."""

import pytest

from redbike.errors import BadSchedule
from redbike.importers.calendar import MICROSOFT
from redbike.importers.vtimezones import Onsets, ZoneNames
from tests.cases import instant
from tests.cases.calendars import answers

NOW = answers.NOW.timestamp()


BERLIN = (
    Onsets("16011028T030000", 7200, 3600, ("RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10",)),
    Onsets("16010325T020000", 3600, 7200, ("RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3",)),
)
NEW_YORK = (
    Onsets("20071104T020000", -14400, -18000, ("RRULE:FREQ=YEARLY;BYDAY=1SU;BYMONTH=11",)),
    Onsets("20070311T020000", -18000, -14400, ("RRULE:FREQ=YEARLY;BYDAY=2SU;BYMONTH=3",)),
)


@pytest.mark.parametrize("now", ["2026-01-15", "2026-07-15"])
@pytest.mark.parametrize(
    ("tzid", "parts", "expected"),
    [
        ("Europe/Berlin", (), "Europe/Berlin"),
        ("/example.org/20260101/Europe/Berlin", (), "Europe/Berlin"),
        ("/America/Argentina/Buenos_Aires", (), "America/Argentina/Buenos_Aires"),
        ("W. Europe Standard Time", BERLIN, "Europe/Berlin"),
        ("EST", NEW_YORK, "America/New_York"),
        ("EST", (Onsets("16010101T000000", -18000, -18000, ()),), "EST"),
        ("EST", (), "EST"),
        ("CET", BERLIN, "CET"),
        ("Here", (), None),
        ("(UTC+01:00) Amsterdam, Bern", BERLIN, "Europe/Amsterdam"),
        ("Fixed", (Onsets("16010101T000000", 31500, 31500, ()),), "Australia/Eucla"),
        ("Fixed", (Onsets("16010101T000000", 7200, 7200, ()),), "Etc/GMT-2"),
        ("Fixed", (Onsets("16010101T000000", 0, 0, ()),), "UTC"),
        ("Odd", (Onsets("16010101T000000", 1234, 1234, ()),), None),
        ("Odd", (BERLIN[0], BERLIN[1]._replace(lines=("RRULE:FREQ=YEARLY;BYDAY=2SU;BYMONTH=5",))), None),
        ("Odd", (BERLIN[0]._replace(lines=("RRULE:FREQ=SECONDLY",)), BERLIN[1]), None),
        ("Odd", (BERLIN[0]._replace(lines=("RRULE:FREQ=NEVER",)), BERLIN[1]), None),
    ],
)
def test_a_zone_is_known_by_its_name_or_by_its_rules(tzid, parts, expected, now):
    names = ZoneNames({tzid: parts}, {}, MICROSOFT, instant(now))
    if expected:
        assert names.find(tzid) == expected
    else:
        with pytest.raises(BadSchedule, match=f"unknown time zone '{tzid}'"):
            names.find(tzid)


def test_a_calendar_has_no_thousands_of_zones():
    names = ZoneNames({}, {}, MICROSOFT, NOW)
    for number in range(100):
        with pytest.raises(BadSchedule, match="the calendar does not define it"):
            names.find(f"Nowhere {number}")
    with pytest.raises(BadSchedule, match="only 100 zones of a calendar are read"):
        names.find("Nowhere 100")
