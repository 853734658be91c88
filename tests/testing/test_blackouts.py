"""Three days with a blackout each night, across a clock change: what runs, and what is counted, by another count."""

from collections import Counter
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike import Redbike
from redbike.queries.blackouts import make_remark
from redbike.queries.rehearsal.outlook import Change
from redbike.queries.rehearsal.rehearser import Rehearser
from redbike.schedule.clock import Clock
from tests.testing.worker import Worker

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = 3
HOURS = 3
# At three o'clock in the night to the 25th, it is two o'clock once more.
START = datetime(2026, 10, 23, 12, tzinfo=BERLIN)
NIGHT = {"every": "CRON_TZ=Europe/Berlin 30 1 * * *", "lasting": timedelta(hours=HOURS), "reason": "backup"}
FORMS = {
    "job": (lambda bike, **how: bike.pause("*:A", **how), lambda bike, **how: bike.resume("*:A", **how)),
    "queue": (lambda bike, **how: bike.pause_queue("A", **how), lambda bike, **how: bike.resume_queue("A", **how)),
    "all": (Redbike.pause_all, Redbike.resume_all),
}


def count(catchup):
    """When a job runs that is due each hour from START on, and how many occurrences are skipped."""
    dates = [datetime(2026, 10, day, 1, 30, tzinfo=BERLIN).timestamp() for day in range(24, 24 + DAYS)]
    begin, end, over = START.timestamp(), START.timestamp() + DAYS * 86400, HOURS * 3600
    runs, held, skipped = [], None, 0
    for due in range(int(begin) + 3600, int(end) + 1, 3600):
        night = next((date for date in dates if date <= due < date + over), None)
        if night is None:
            runs.append(due)
        elif catchup == "none" or (catchup == "last" and night == held):
            skipped += 1
        else:
            runs.append(night + over)
        held = night
    return runs, skipped


@pytest.mark.parametrize(
    ("form", "catchup"), [("job", "none"), ("job", "last"), ("job", "all"), ("queue", "last"), ("all", "last")]
)
def test_what_runs_and_what_is_skipped_is_what_another_count_says(redbike, form, catchup):
    bike = redbike(Worker(), now=START, catchup=catchup)
    bike.set("job:A", f"EVERY:1h@{START.timestamp():.0f}")
    FORMS[form][0](bike, **NIGHT)
    runs = [run.start for run in bike.run_due(timedelta(days=DAYS))]
    expected, skipped = count(catchup)
    assert runs == expected
    assert bike.tell("job:A").get("skipped", {}) == ({"paused": skipped} if skipped else {})


JOBS = {
    "half:A": ("EVERY:30m@1760000000", {"catchup": "last"}),
    "odd:A": ("EVERY:17m@1760000100", {"catchup": "all", "catchup-limit": 3}),
    "all:A": ("EVERY:1h@1760000400", {"catchup": "all"}),
    "none:A": ("CRON_TZ=Europe/Berlin */20 * * * *", {"catchup": "none"}),
    "grace:A": ("EVERY:10m@1760000000", {"grace": 1800.0, "catchup": "all"}),
    "expires:A": ("EVERY:10m@1760000000", {"expires": 900.0, "catchup": "last"}),
    "rule:A": ("DTSTART:20261001T003000Z\nRRULE:FREQ=DAILY", {}),
    "once:A": (f"AT:{datetime(2026, 10, 25, 2, 0, tzinfo=BERLIN).timestamp():.0f}", {"catchup": "none"}),
    "fast:A": ("EVERY:40s@1760000000", {"catchup": "last"}),
    "spread:A": ("0 * * * *", {"spread": 600.0}),
    "start:A": ("CRON_TZ=Europe/Berlin 30 1 * * *", {"catchup": "none"}),
    "end:A": ("CRON_TZ=Europe/Berlin 30 3,4 * * *", {"catchup": "all"}),
}


@pytest.mark.parametrize(
    ("form", "hours"), [("job", 0), *(pytest.param(form, 2, marks=pytest.mark.acceptance) for form in ("queue", "all"))]
)
def test_the_agenda_and_a_rehearsal_know_it_before_it_comes(redbike, form, hours):
    """Also while one is on: at half past two in the morning."""
    bike = redbike(Worker(), now=datetime(2026, 10, 25, 0, 30, tzinfo=BERLIN))
    for jobid, (schedule, options) in JOBS.items():
        bike.set(jobid, schedule, **{name.replace("-", "_"): value for name, value in options.items()})
    FORMS[form][0](bike, **NIGHT)
    bike.run_due(timedelta(hours=hours))
    start, known = bike.now, {}
    for jobid in JOBS:
        rehearsed = Rehearser(bike.store, bike.settings, Change("unset"), 5.9).run([jobid], 60.0).without
        known[jobid] = bike.agenda(jobid, hours=5.5), rehearsed
    runs = bike.run_due(timedelta(hours=6.5))
    for jobid, (forecast, rehearsed) in known.items():
        begun = [run.start for run in runs if run.jobid == jobid and run.start > start]
        quarters = Counter(900 * (moment // 900) for moment in begun if moment < forecast.end)
        assert {each.start: each.runs for each in forecast} == quarters, jobid
        minutes = Counter(int((moment - rehearsed.base) // 60) for moment in begun if moment < start + 5.9 * 3600)
        assert {minute: number for minute, number in enumerate(rehearsed.minutes) if number} == minutes, jobid


@pytest.mark.parametrize("form", FORMS)
def test_next_and_why_say_which_occurrence_falls_into_one(redbike, form):
    bike = redbike(Worker(), now=START, catchup="none")
    bike.set("job:A", "EVERY:70m")
    pause, resume = FORMS[form]
    pause(bike, **NIGHT)
    for _ in range(20):
        told, clock = bike.tell("job:A"), Clock(bike.now, "UTC")
        if (due := told["next_run"] or 0) > bike.now:
            remark, why = make_remark(told["blackouts"], clock)(due), bike.why("job:A")
            runs = [run.due for run in bike.run_due(due)]
            assert (due in runs) == (not remark), why
            assert ("will be paused then" in why) == bool(remark)
            past = bike.why("job:A", at=due)
            assert ("fell into" in past or " is paused since" in past or "no dispatcher" in past) == bool(remark)
        else:
            assert form != "job" or "Its blackout recurs" in bike.why("job:A")
            bike.run_due(timedelta(hours=1))
    resume(bike, every=True)
    assert "blackouts" not in bike.tell("job:A")
    assert "paused" not in bike.why("job:A")


@pytest.mark.parametrize("form", FORMS)
def test_one_that_somebody_has_ended_by_resume_holds_nothing_any_more(redbike, form):
    bike = redbike(Worker(), now=datetime(2026, 10, 25, 1, 40, tzinfo=BERLIN))
    bike.set("job:A", "EVERY:10m")
    FORMS[form][0](bike, **NIGHT)
    assert bike.agenda("job:A", hours=1).runs == 0
    FORMS[form][1](bike)
    told, forecast, end = bike.tell("job:A"), bike.agenda("job:A", hours=1), bike.now + 3600
    rehearsed = Rehearser(bike.store, bike.settings, Change("unset"), 1).run(["job:A"], 60.0).without
    assert "paused" not in bike.why("job:A")
    assert not make_remark(told["blackouts"], Clock(bike.now, "UTC"))(told["next_run"])
    assert told["blackouts"][0]["start"] > told["next_run"] > bike.now
    runs = [run.start for run in bike.run_due(timedelta(hours=2))]
    assert forecast.runs == sum(start < forecast.end for start in runs) > 0
    assert rehearsed.runs == sum(start < end for start in runs)


SOON = f"AT:{START.timestamp() + 1800:.0f}"
NEVER, LATER = "and does not run", "catchup decides when it runs"
NONE = "it does not run, as catchup is none"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("options", "schedule", "said"),
    [
        ({"catchup": "none"}, "30 * * * *", dict.fromkeys(("job", "queue", "all"), NONE)),
        ({"catchup": "last"}, "30 * * * *", dict.fromkeys(("job", "queue", "all"), LATER)),
        ({"expires": "5m"}, "30 * * * *", dict.fromkeys(("job", "queue", "all"), NEVER)),
        ({"expires": "30m"}, "30 * * * *", dict.fromkeys(("job", "queue", "all"), LATER)),
        ({"grace": "5m"}, "30 * * * *", {"job": NEVER, "queue": LATER, "all": NEVER}),
        ({"catchup": "none"}, SOON, dict.fromkeys(("job", "queue", "all"), "it runs when that ends")),
        ({"expires": "5m"}, SOON, dict.fromkeys(("job", "queue", "all"), NEVER)),
        ({"catchup": "none"}, "AFTER:load:B", {"job": NONE, "queue": LATER, "all": LATER}),
    ],
)
def test_why_says_what_becomes_of_an_occurrence_that_falls_into_one(redbike, form, options, schedule, said):
    bike = redbike(Worker(queues="A:B"), now=START)
    bike.set("load:B", "30 * * * *")
    bike.set("job:A", schedule, **options)
    FORMS[form][0](bike, every="25 * * * *", lasting="20m")
    why = bike.why("job:A")
    assert why.endswith(f": {said[form]}.") or why.endswith(f", {said[form]}."), why
    runs = [run.start for run in bike.run_due(timedelta(hours=1)) if run.jobid == "job:A"]
    assert bool(runs) == (said[form] not in (NEVER, NONE))
