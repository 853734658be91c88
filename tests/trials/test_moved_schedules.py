"""A schedule of Celery beat and a list of APScheduler, moved as the pages say: each job runs with its arguments.

When each is to run is written here in terms of local minutes, as Celery 5.7 and APScheduler 3.11 have it.
"""

from collections import defaultdict
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike import Jobs

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 3, 12, 12, 7, 13, tzinfo=BERLIN)
END = datetime(2026, 4, 1, 12, tzinfo=BERLIN)  # behind a Friday the 13th, a change of clocks, and the end of a month


def minutes(matches):
    """The instants of the local minutes between both that match."""
    first = START.timestamp() // 60 * 60 + 60
    instants = range(int(first), int(END.timestamp()) + 1, 60)
    return [instant for instant in instants if matches(datetime.fromtimestamp(instant, BERLIN))]


def daily(hour, minute, is_day=lambda day: True):
    return minutes(lambda at: (at.hour, at.minute) == (hour, minute) and is_day(at))


def steps(seconds):
    return [*range(int(START.timestamp()) + seconds, int(END.timestamp()) + 1, seconds)]


def is_working(day):
    return day.weekday() < 5


def is_friday_13(day):
    return (day.day, day.strftime("%a")) == (13, "Fri")


FRIDAY_13 = "DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR"
SOME = "DTSTART;TZID=Europe/Berlin:20260314T100000\nRRULE:FREQ=HOURLY;INTERVAL=6;UNTIL=20260315T210000Z"
BEAT = {
    # crontab(minute=30, hour=7, day_of_week="mon-fri")
    "report": ({"cron": "30 7 * * mon-fri"}, daily(7, 30, is_working)),
    # crontab(minute=0, hour="*/3")
    "third": ({"cron": "0 */3 * * *"}, minutes(lambda at: at.hour % 3 == at.minute == 0)),
    # crontab(minute="*/15", hour="9-10", day_of_week="mon-fri")
    "office": (
        {"cron": "*/15 9-10 * * mon-fri"},
        minutes(lambda at: is_working(at) and at.hour in (9, 10) and at.minute % 15 == 0),
    ),
    # crontab(minute=0, hour=0, day_of_month="1")
    "month": ({"cron": "0 0 1 * *"}, daily(0, 0, lambda day: day.day == 1)),
    # crontab(hour=7, day_of_week="5"): each minute of that hour
    "hour": ({"cron": "* 7 * * 5"}, minutes(lambda at: at.hour == 7 and at.strftime("%a") == "Fri")),
    # crontab(minute=0, hour=9, day_of_month="13", day_of_week="fri"): where both match
    "friday": ({"rrule": FRIDAY_13}, daily(9, 0, is_friday_13)),
    # crontab(minute=0, hour=4, day_of_month="2-31/2")
    "even": ({"cron": "0 4 2-31/2 * *"}, daily(4, 0, lambda day: day.day % 2 == 0)),
    # crontab(minute=0, hour=0, day_of_week="sun")
    "week": ({"cron": "0 0 * * sun"}, daily(0, 0, lambda day: day.strftime("%a") == "Sun")),
    # schedule(timedelta(hours=1), relative=True)
    "full": ({"schedule": "EVERY:1h@0"}, minutes(lambda at: at.minute == 0)),
    # timedelta(minutes=90), with options={"queue": "mail"}
    "poll": ({"every": timedelta(minutes=90), "queue": "mail"}, steps(5400)),
}
LIST = {
    # "cron", day_of_week="mon-fri", hour=7
    "report": ({"cron": "0 7 * * mon-fri"}, daily(7, 0, is_working)),
    # "cron", day_of_week="0", hour=5: on Mondays
    "monday": ({"cron": "0 5 * * mon"}, daily(5, 0, lambda day: day.strftime("%a") == "Mon")),
    # "cron", day="last", hour=3
    "last": ({"cron": "0 3 L * *"}, daily(3, 0, lambda day: (day + timedelta(days=1)).day == 1)),
    # "cron", day="2nd fri", hour=3
    "second": ({"cron": "0 3 * * fri#2"}, daily(3, 0, is_friday_13)),
    # "cron", day=13, day_of_week="fri", hour=9: where both match
    "friday": ({"rrule": FRIDAY_13}, daily(9, 0, is_friday_13)),
    # "cron", hour=6, minute=0, second="*/20"
    "seconds": ({"cron": "0 6 * * * */20"}, [at + more for at in daily(6, 0) for more in (0, 20, 40)]),
    # "interval", hours=6, start_date="2026-03-14 10:00", end_date="2026-03-15 22:00": from its start on
    "some": ({"rrule": SOME}, minutes(lambda at: at.day in (14, 15) and at.hour % 6 == 4 and at.minute == 0)[1:]),
    # "interval", hours=8
    "poll": ({"every": timedelta(hours=8)}, steps(28_800)),
}


def add(jobs, called, jobid, **given):
    zone = "Europe/Berlin" if "cron" in given else None

    @jobs.job(jobid, tz=zone, data={"name": jobid, "count": 3}, **given)
    def task(name, count=1, *, kind="plain"):
        called[name].append((count, kind))


@pytest.mark.parametrize("moved", [BEAT, LIST], ids=["celery", "apscheduler"])
def test_each_runs_with_its_arguments_when_it_did_before(redbike, moved):
    jobs, called, found, queues = Jobs(), defaultdict(list), defaultdict(list), {}
    for jobid, (given, _) in moved.items():
        add(jobs, called, jobid, **given)
    bike = redbike(jobs, now=START)
    bike.sync(jobs.schedules())
    for run in bike.run_due(END):
        found[run.jobid].append(run.due)
        queues[run.jobid] = run.queue
    expected = {jobid: instants for jobid, (_, instants) in moved.items()}
    assert found == expected
    assert min(map(len, expected.values())) > 0
    assert called == {jobid: [(3, "plain")] * len(instants) for jobid, instants in expected.items()}
    assert queues["poll"] == f"work-{moved['poll'][0].get('queue', 'poll')}"


# What it has missed since three days ago, by what a list says of misfires, and the number of runs that come of it.
MISSED = {
    "coalesce": ({}, 1),  # coalesce=True
    "each": ({"catchup": "all"}, 3),  # coalesce=False, misfire_grace_time=None
    "late": ({"grace": "1h"}, 0),  # misfire_grace_time=3600
    "recent": ({"grace": "6h", "catchup": "all"}, 1),  # misfire_grace_time=21600
}


@pytest.mark.parametrize("name", MISSED)
def test_what_was_missed_runs_as_it_did_before(redbike, name):
    options, number = MISSED[name]
    jobs, worked = Jobs(), []
    jobs.job("report", cron="0 7 * * *", tz="Europe/Berlin", **options)(lambda: worked.append(name))
    bike = redbike(jobs, now=START)
    [(jobid, schedule, given)] = jobs.schedules()
    bike.set(jobid, schedule, after=START - timedelta(days=3), **given)
    bike.run_due()
    assert len(worked) == number
    assert len(bike.run_due(timedelta(days=1))) == 1


def test_a_date_that_is_set_again_replaces_the_first(redbike):
    jobs, reminded = Jobs(), []

    @jobs.job("remind")
    def remind(user, *, text):
        reminded.append((user, text))

    bike = redbike(jobs, now=START)
    # add_job(remind, "date", run_date=…, id="anna", args=["anna"], kwargs={"text": …}, replace_existing=True)
    for hours, text in ((2, "lunch"), (1, "tea")):
        remind.set("anna", START + timedelta(hours=hours), "anna", text=text)
    [run] = bike.run_due(timedelta(days=1))
    assert (run.due, reminded) == (START.timestamp() + 3600, [("anna", "tea")])
