"""What schedules are called in plain English."""

import random

import pytest

from redbike.errors import BadSchedule
from redbike.schedule.jitter import add_jitter
from redbike.schedule.parser import parse
from tests.exhaustive.oracle import random_line, random_rule

START = "DTSTART;TZID=America/New_York:19970902T090000\nRRULE:"
SINCE = "from Tuesday, 2 September 1997 at 09:00 on, America/New_York time."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NOW", "Once, right away."),
        ("STOP", "Not any more."),
        ("CONTINUE", "Again as soon as a run is done, or after the pause that it asks for."),
        ("AT:1780000000", "Once, on Thursday, 28 May 2026 at 20:26:40 UTC."),
        ("EVERY:15m@0", "Every 15 minutes, counted from Thursday, 1 January 1970 at 00:00 UTC."),
        ("EVERY:1d1h2s@0", "Every 1 day, 1 hour and 2 seconds, counted from Thursday, 1 January 1970 at 00:00 UTC."),
        ("EVERY:1d@0", "Every day, counted from Thursday, 1 January 1970 at 00:00 UTC."),
        ("EVERY:1m1s@0", "Every 1 minute and 1 second, counted from Thursday, 1 January 1970 at 00:00 UTC."),
        ("* * * * *", "Every minute, every day, UTC time."),
        ("*/5 * * * *", "Every 5 minutes, every day, UTC time."),
        ("0 * * * *", "Every hour, on the hour, every day, UTC time."),
        ("1 * * * *", "Every hour, at 1 minute past, every day, UTC time."),
        ("2 * * * *", "Every hour, at 2 minutes past, every day, UTC time."),
        ("5,10 * * * *", "At minutes 5 and 10 of the hour, every day, UTC time."),
        ("0 9 * * * 5", "At 09:00:05, every day, UTC time."),
        ("0 9 * * * */5", "Every 5 seconds of minute 0 from 09:00 to 09:59, every day, UTC time."),
        ("0,7 9 * * * */5", "Every 5 seconds of minutes 0 and 7 from 09:00 to 09:59, every day, UTC time."),
        ("30 9,17 * * mon-fri", "At 09:30 and 17:30, on Monday to Friday, UTC time."),
        ("*/30 9-17 * * 6,0", "Every 30 minutes from 09:00 to 17:59, on Sunday and Saturday, UTC time."),
        ("*/2 * * * * 30", "At second 30 of the minute of every 2nd minute, every day, UTC time."),
        ("* * * * * */10", "Every 10 seconds, every day, UTC time."),
        ("5 */2 * * *", "At minute 5 of the hour of every 2nd hour, every day, UTC time."),
        ("0 0 1-3 * */7", "At 00:00, on days 1 to 3 of the month if that is a Sunday, UTC time."),
        ("0 0 1-31 * fri", "At 00:00, every day, UTC time."),
        ("0 0 1,15 * 1-2", "At 00:00, on days 1 and 15 of the month or on Monday and Tuesday, UTC time."),
        ("0 0 1 * */3", "At 00:00, on day 1 of the month if that is a Sunday, Wednesday or Saturday, UTC time."),
        ("0 9 LW 1,7 *", "At 09:00, on the last weekday of the month, in January and July, UTC time."),
        ("0 9 L,15W * *", "At 09:00, on the last day and the weekday nearest day 15 of the month, UTC time."),
        ("0 0 * * 7L", "At 00:00, on the last Sunday of the month, UTC time."),
        ("0 0 * * 5#1,L2", "At 00:00, on the 1st Friday and the last Tuesday of the month, UTC time."),
        (
            "0 0 1 1 * 0 2027,2030-2035",
            "At 00:00, on day 1 of the month, in January, in 2027 and 2030 to 2035, UTC time.",
        ),
        ("CRON_TZ=Europe/Berlin @weekly", "At 00:00, on Sunday, Europe/Berlin time."),
        (START + "FREQ=DAILY;COUNT=1", f"Every day, at 09:00, once, {SINCE}"),
        (START + "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", f"Every 2 weeks, on Monday and Friday, at 09:00, {SINCE}"),
        (START + "FREQ=WEEKLY;COUNT=10", f"Every week, on Tuesday, at 09:00, 10 times, {SINCE}"),
        (
            START + "FREQ=MONTHLY;BYDAY=-1FR,2MO",
            f"Every month, on the last Friday and the 2nd Monday, at 09:00, {SINCE}",
        ),
        (START + "FREQ=MONTHLY;BYMONTHDAY=-2", f"Every month, on the 2nd to last day of the month, at 09:00, {SINCE}"),
        (
            START + "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1",
            f"Every month, on Monday and Tuesday, at 09:00, of these only the last in each month, {SINCE}",
        ),
        (
            "0 0 */15 1 mon#5",
            "At 00:00, on days 1, 16 and 31 of the month if that is the 5th Monday of the month, in January, UTC time.",
        ),
        (START + "FREQ=WEEKLY;BYMONTH=1", f"Every week, on Tuesday in January, at 09:00, {SINCE}"),
        (
            START + "FREQ=YEARLY;BYWEEKNO=20,-1",
            f"Every year, on Tuesday in week 20 and the last week, at 09:00, {SINCE}",
        ),
        (START + "FREQ=MONTHLY;BYMONTH=3", f"Every month, on the 2nd day of the month in March, at 09:00, {SINCE}"),
        (
            START + "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,MO",
            f"Every 2 weeks, on Sunday and Monday of weeks that begin on Sunday, at 09:00, {SINCE}",
        ),
        ("RDATE:20270101T000000Z", "On Friday, 1 January 2027 at 00:00, UTC time."),
        (
            START + "FREQ=DAILY;UNTIL=20260301T080000Z",
            f"Every day, at 09:00, until Sunday, 1 March 2026 at 03:00, {SINCE}",
        ),
        (
            START + "FREQ=DAILY;UNTIL=20260301T080000",
            f"Every day, at 09:00, until Sunday, 1 March 2026 at 08:00, {SINCE}",
        ),
        (
            START + "FREQ=YEARLY;BYYEARDAY=3,11,-12,13,22,101,111,112,-113",
            "Every year, on the 3rd, 11th, 12th to last, 13th, 22nd, 101st, 111th, 112th and 113th to last "
            f"day of the year, at 09:00, {SINCE}",
        ),
        (START + "FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", f"Every year, on Monday in week 1, at 09:00, {SINCE}"),
        (START + "FREQ=DAILY;INTERVAL=2;WKST=SU", f"Every 2 days, at 09:00, {SINCE}"),
        (START + "FREQ=WEEKLY;WKST=SU", f"Every week, on Tuesday, at 09:00, {SINCE}"),
        (START + "FREQ=HOURLY;BYSECOND=5,10", f"Every hour, at minute 0 at seconds 5 and 10, {SINCE}"),
        (
            "DTSTART:20260101T090005Z\nRRULE:FREQ=SECONDLY;BYHOUR=9\nRRULE:FREQ=MINUTELY\nRDATE:20260101T090001Z",
            "Every second, from 09:00 to 09:59; and every minute, at second 5, "
            "also on Thursday, 1 January 2026 at 09:00:01, from Thursday, 1 January 2026 at 09:00:05 on, UTC time.",
        ),
        (
            "RDATE:20270101T000000Z,20270102T000000Z\nEXRULE:FREQ=YEARLY;UNTIL=20260101T000000Z",
            "On Friday, 1 January 2027 at 00:00 and Saturday, 2 January 2027 at 00:00, "
            "except every year, on 1 January, at 00:00, until Thursday, 1 January 2026 at 00:00, UTC time.",
        ),
        (START + "FREQ=YEARLY", f"Every year, on 2 September, at 09:00, {SINCE}"),
        (START + "FREQ=YEARLY;BYHOUR=5", f"Every year, on 2 September, at 05:00, {SINCE}"),
        (
            START + "FREQ=YEARLY;BYMONTHDAY=1,-1;BYHOUR=5",
            f"Every year, on the 1st and last day of each month, at 05:00, {SINCE}",
        ),
        (
            START + "FREQ=YEARLY;BYMONTHDAY=13;BYDAY=FR",
            f"Every year, on Friday on the 13th day of each month, at 09:00, {SINCE}",
        ),
        (
            START + "FREQ=YEARLY;BYMONTHDAY=1;BYMONTH=3",
            f"Every year, on the 1st day of the month in March, at 09:00, {SINCE}",
        ),
        (
            START + "FREQ=YEARLY;BYMONTHDAY=8;BYDAY=2MO",
            f"Every year, on the 2nd Monday on the 8th day of the month, at 09:00, {SINCE}",
        ),
        (
            START + "FREQ=YEARLY;INTERVAL=2;BYDAY=MO,FR,2TU",
            f"Every 2 years, on each Monday, each Friday and the 2nd Tuesday, at 09:00, {SINCE}",
        ),
        (
            START + "FREQ=YEARLY;BYDAY=MO;BYMONTH=3",
            f"Every year, on Monday in March, at 09:00, {SINCE}",
        ),
        (START + "FREQ=HOURLY;INTERVAL=3;BYMINUTE=0,30", f"Every 3 hours, at minutes 0 and 30, {SINCE}"),
        (START + "FREQ=MINUTELY;BYHOUR=9,10", f"Every minute, from 09:00 to 10:59, {SINCE}"),
        (
            START + "FREQ=DAILY;UNTIL=20300101\nEXRULE:FREQ=WEEKLY\nEXDATE:20260101T140000Z",
            "Every day, at 09:00, until Tuesday, 1 January 2030, except every week, on Tuesday, at 09:00, "
            f"except on Thursday, 1 January 2026 at 09:00, {SINCE}",
        ),
    ],
)
def test_it_is_said_in_plain_english(text, words):
    assert parse(text).explain() == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("AT:1780000000", "Once, on Thursday, 28 May 2026 at 22:26:40, Europe/Berlin time."),
        ("EVERY:1d@0", "Every day, counted from Thursday, 1 January 1970 at 01:00, Europe/Berlin time."),
        ("AT:2027-10-31T00:30:00Z", "Once, on Sunday, 31 October 2027 at 02:30 (UTC+02:00), Europe/Berlin time."),
        ("AT:2027-10-31T01:30:00Z", "Once, on Sunday, 31 October 2027 at 02:30 (UTC+01:00), Europe/Berlin time."),
        ("AT:253402300799", "Once, on Friday, 31 December 9999 at 23:59:59 UTC."),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "At 09:00, every day, Asia/Tokyo time."),
        (START + "FREQ=YEARLY", f"Every year, on 2 September, at 09:00, {SINCE}"),
        (
            "DTSTART;TZID=Asia/Tokyo:20260101T090000\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z",
            "Every day, at 09:00, until Friday, 31 December 9999 at 23:59:59 UTC, "
            "from Thursday, 1 January 2026 at 09:00 on, Asia/Tokyo time.",
        ),
    ],
)
def test_instants_are_said_in_a_zone_unless_the_schedule_has_one(text, words):
    assert parse(text).explain("Europe/Berlin") == words
    assert add_jitter(parse(text), "job:A", 60).explain("Europe/Berlin").startswith(f"{words} Each run is ")


@pytest.mark.parametrize("text", ["0 9 * * *\nEXDATE:{}", "RDATE:{}"])
def test_up_to_six_dates_are_listed(text):
    dates = [f"2027010{number}T090000" for number in range(1, 8)]
    assert parse(text.format(",".join(dates[:6]))).explain().count("January 2027") == 6
    assert " 7 dates" in parse(text.format(",".join(dates))).explain()
    assert parse("0 9-14 * * *").explain().startswith("At 09:00, 10:00, 11:00, 12:00, 13:00 and 14:00, ")


def test_whatever_parses_can_be_explained():
    for seed in range(100):
        for text in (random_line(random.Random(seed)).text, random_rule(random.Random(seed)).text):
            try:
                schedule = parse(text)
            except BadSchedule:
                continue
            words = schedule.explain()
            assert words.endswith(" time.")
            assert "  " not in words
            assert ", ," not in words
