"""Blackouts: jobs, queues and everything are paused at each time of a schedule, beside what people do by hand."""

import json
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redbike import BadConfig, BadSchedule, NoSuchJob, Redbike, RoundRobin
from redbike.config.options import ALL_COLUMNS
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.blackouts import begin_named, decide_begun
from redbike.schedule.kinds import Every
from redbike.schedule.parser import parse
from redbike.schedule.windows import find_window, list_windows
from redbike.store.inspection.fsck import fsck
from tests.control.test_sync import export, make_file
from tests.states import unchanged
from tests.verbs import Quiet

START = 1_790_000_000.0
HOUR = 3600.0
DAILY = f"EVERY:1d@{START + HOUR - 86400:.0f}"  # an hour after START
LATER = {"every": f"EVERY:1d@{START + 3 * HOUR - 86400:.0f}", "lasting": "30m"}
FORMS = {
    "job": ("pause", "resume", ("job:A",)),
    "queue": ("pause_queue", "resume_queue", ("A",)),
    "all": ("pause_all", "resume_all", ()),
}
# fmt: off
# What somebody does when, in minutes, and from when until when it is paused on the first and on the second day.
# A pause of everything is one of the queue without a name.
BY_HAND = {
    "nothing":                              ([], [(60, 120)], [(60, 120)]),
    "a pause for good, before":             ([(30, "pause", {})], [(30, 1440)], [(0, 1440)]),
    "a pause that ends during it":          ([(30, "pause", {"until": 90})], [(30, 120)], [(60, 120)]),
    "a pause that ends before it":          ([(30, "pause", {"until": 45})], [(30, 45), (60, 120)], [(60, 120)]),
    "a pause that ends with it":            ([(30, "pause", {"until": 60})], [(30, 120)], [(60, 120)]),
    "a pause that ends later":              ([(30, "pause", {"until": 150})], [(30, 150)], [(60, 120)]),
    "a pause for good, during it":          ([(90, "pause", {})], [(60, 1440)], [(0, 1440)]),
    "a pause during it that ends later":    ([(90, "pause", {"until": 150})], [(60, 150)], [(60, 120)]),
    "a pause during it that ends earlier":  ([(90, "pause", {"until": 100})], [(60, 120)], [(60, 120)]),
    "a resume during it":                   ([(90, "resume", {})], [(60, 90)], [(60, 120)]),
    "its end for good, during it":          ([(90, "resume", {"every": True})], [(60, 90)], []),
    "its end for good, before it":          ([(30, "resume", {"every": True})], [], []),
    "its end, during a pause by hand":      ([(30, "pause", {"until": 150}), (90, "resume", {"every": True})],
                                             [(30, 150)], []),
    "its end, in a pause that it lengthens":
        ([(30, "pause", {"until": 100}), (90, "resume", {"every": True})], [(30, 100)], []),
    "its end, after that of such a pause":
        ([(30, "pause", {"until": 75}), (90, "resume", {"every": True})], [(30, 90)], []),
    "another one, in a pause that it lengthens":
        ([(30, "pause", {"until": 100}), (90, "pause", LATER)], [(30, 100), (180, 210)], [(180, 210)]),
    "a shorter one, in a pause that it lengthens":
        ([(30, "pause", {"until": 75}), (90, "pause", {"every": DAILY, "lasting": "40m"})], [(30, 100)], [(60, 100)]),
    "its end, in a pause that a shorter one lengthens":
        ([(30, "pause", {"until": 75}), (45, "pause", {"every": DAILY, "lasting": "20m"}),
          (60, "resume", {"every": True})], [(30, 75)], []),
    "another one, before it":               ([(30, "pause", LATER)], [(180, 210)], [(180, 210)]),
    "another one, during it":               ([(90, "pause", LATER)], [(60, 90), (180, 210)], [(180, 210)]),
    "a shorter one, during it":             ([(90, "pause", {"every": DAILY, "lasting": "40m"})],
                                             [(60, 100)], [(60, 100)]),
    "a longer one, during it":              ([(90, "pause", {"every": DAILY, "lasting": "90m"})],
                                             [(60, 150)], [(60, 150)]),
}
# fmt: on


def is_paused(bike, form):
    if form == "job":
        return "paused" in bike.tell("job:A")
    return any(limits.pause and limits.pause.holds(bike.now) for limits in bike.queue_limits())


CASES = [*((form, case) for form in ("job", "queue") for case in BY_HAND), ("all", "a resume during it")]


@pytest.mark.parametrize(("form", "case"), CASES)
def test_pauses_by_hand_are_not_shortened_and_end_nothing_else(redbike, form, case):
    acts, *days = BY_HAND[case]
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", "AT:4000000000")
    pause, resume, subject = FORMS[form]
    getattr(bike, pause)(*subject, every=DAILY, lasting="1h")
    times = {30, 45, 60, 75, 90, 100, 120, 150, 180, 210, 1439}
    for day, spans in enumerate(days):
        for minute in sorted(times):
            bike.run_due(START + day * 86400 + minute * 60)
            for at, verb, options in acts if day == 0 else ():
                if at == minute:
                    ends = {"until": START + options["until"] * 60} if "until" in options else options
                    getattr(bike, pause if verb == "pause" else resume)(*subject, **ends)
            assert is_paused(bike, form) == any(begin <= minute < end for begin, end in spans), (day, minute)
    assert list(fsck(bike.store)) == []


def test_a_file_has_the_own_end_of_a_pause_that_a_blackout_has_lengthened(redbike):
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", "AT:4000000000")
    bike.pause("job:A", every=DAILY, lasting="1h")
    bike.pause("job:A", until=START + 100 * 60)
    bike.run_due(START + 90 * 60)
    rows = [ALL_COLUMNS, *bike.get_rows()]
    bike.unset("job:A")
    list(bike.sync_file(make_file(*rows)))
    assert [ALL_COLUMNS, *bike.get_rows()] == rows
    bike.resume("job:A", every=True)
    assert bike.tell("job:A")["paused"]["until"] == START + 100 * 60
    bike.client.hset(bike.store.keys.pauses, "job:A", f'- {START:.6f} - {{"own_end": "soon"}}')
    [cell] = [row[ALL_COLUMNS.index("paused")] for row in bike.get_rows()]
    assert cell.endswith('"reason": null}')


@pytest.mark.parametrize("lasting", ["40m", 5400 + 1e-8])
def test_no_job_begins_when_one_that_is_on_takes_the_place_of_another(redbike, lasting):
    worker = Quiet("A")
    bike = redbike(worker, now=START)
    bike.set("job:A", "EVERY:10m")
    bike.pause("job:A", every=DAILY, lasting="1h")
    bike.run_due(START + 90 * 60)
    worked, before = list(worker.worked), bike.store.questions.read_pauses(["job:A"])["job:A"]
    assert bike.pause("job:A", every=DAILY, lasting=lasting, reason="moved") == [("job:A", "replaced")]
    pause = bike.store.questions.read_pauses(["job:A"])["job:A"]
    assert (pause.due, pause.since, pause.to_dict()["reason"]) == (before.due, before.since, "moved")
    bike.run_due(START + 95 * 60)
    assert worker.worked == worked


def test_a_job_that_is_unset_forgets_it(redbike):
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", "EVERY:1h")
    assert bike.pause("job:*", every=DAILY, lasting="1h") == [("job:A", "set")]
    assert bike.pause("job:A", every=DAILY, lasting="1h", reason="moved") == [("job:A", "replaced")]
    bike.set("job:A", "EVERY:2h")
    assert bike.tell("job:A")["blackouts"][0]["reason"] == "moved"
    bike.unset("job:A")
    assert not bike.client.exists(bike.store.keys.blackouts, bike.store.keys.timers)
    bike.set("job:A", "EVERY:1h")
    assert "blackouts" not in bike.tell("job:A")
    assert bike.resume("job:A", every=True) == [("job:A", "unchanged")]
    with pytest.raises(NoSuchJob):
        bike.pause("nobody:A", every=DAILY, lasting="1h")


@pytest.mark.parametrize(("minute", "until"), [(59, None), (60, 120), (119, 120), (120, None), (1500, 1560)])
def test_it_begins_when_a_dispatcher_is_back_if_it_is_not_over(redbike, minute, until):
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", f"EVERY:10m@{START:.0f}", catchup="none")
    bike.pause("job:A", every=DAILY, lasting="1h")
    Dispatcher(bike.store, bike.settings).dispatch_due(START + minute * 60)
    paused = bike.tell("job:A").get("paused", {})
    assert paused.get("until") == (until and START + until * 60)
    following = START + 60 * 60 + 86400 * (1 + minute // 1440 if minute >= 60 else 0)
    assert bike.client.zscore(bike.store.keys.timers, "blackout:job:job:A") == following
    if paused:
        assert paused["since"] == pytest.approx(START + 3600 + minute // 1440 * 86400, abs=0.01)


@pytest.mark.parametrize("others", [[], [60.0]])
def test_what_a_dispatcher_expects_is_held_if_it_wakes_only_when_a_blackout_has_begun(redbike, others):
    """Also if it was suspended while the timer of another pause came."""
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", DAILY)
    bike.pause("job:A", every=DAILY, lasting="1h")
    for seconds in others:
        bike.pause_queue("B", until=START + seconds)
    with closing(Dispatcher(bike.store, bike.settings)) as dispatcher:
        dispatcher.dispatch_due()
        bike._clock.move(START + HOUR)
        dispatcher._offset += HOUR
        dispatcher.dispatch_due()
    told = bike.tell("job:A")
    assert (told["status"][:3], told["paused"]["until"]) == ("TML", START + 2 * HOUR)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("every", [DAILY, "DTSTART:{:%Y%m%dT%H%M%SZ}\nRRULE:FREQ=DAILY;COUNT=1"])
def test_its_end_resumes_a_job_that_was_restored_during_it(redbike, every, is_new):
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", "AT:4000000000")
    bike.pause("job:A", every=every.format(datetime.fromtimestamp(START + HOUR, UTC)), lasting="1h", reason="backup")
    bike.run_due(START + 1.5 * HOUR)
    paused, rows = bike.tell("job:A")["paused"], export(bike)
    bike.unset("job:A")
    if not is_new:
        bike.set("job:A", "AT:4000000000")
    assert [change.error for change in bike.sync_file(rows)] == [None]
    assert bike.tell("job:A")["paused"] == paused
    bike.resume("job:A", every=True)
    assert "paused" not in bike.tell("job:A")


@pytest.mark.parametrize(("hours", "is_on"), [(25.5, True), (27, False)])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_row_whose_blackouts_are_over_is_that_of_a_job_without_one(redbike, hours, is_on, is_new):
    twice = f"DTSTART:{datetime.fromtimestamp(START + HOUR, UTC):%Y%m%dT%H%M%SZ}\nRRULE:FREQ=DAILY;COUNT=2"
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", "AT:4000000000")
    bike.pause("job:A", every=twice, lasting="1h")
    rows = export(bike)
    bike.run_due(START + hours * HOUR)
    if is_new:
        bike.unset("job:A")
    elif is_on:
        bike.resume("job:A")
    [change] = bike.sync_file(rows)
    assert (change.difference, change.error) == ("added" if is_new else "unchanged", None)
    assert bike.store.blackouts.list_all() == {}
    assert bike.tell("job:A").get("paused", {}).get("until") == (START + 26 * HOUR if is_new and is_on else None)


def test_of_two_dispatchers_one_begins_it_and_a_resume_in_between_stays(redbike):
    bike = redbike(RoundRobin("A"), now=START)
    bike.set("job:A", "EVERY:1h")
    for name, pause, resume in (("job:job:A", bike.pause, bike.resume), ("queue:work-A", bike.pause_queue, None)):
        subject = "job:A" if resume else "A"
        pause(subject, every=DAILY, lasting="1h")
        store = bike.store.at(START + HOUR)
        [state] = store.blackouts.inspect([name])
        begin_named(store, [name])
        assert store.blackouts.begin(state, *decide_begun(state)) == "stale"
        (resume or bike.resume_queue)(subject)
        assert store.blackouts.begin(state, *decide_begun(state)) == "stale"
    assert "paused" not in bike.tell("job:A")
    assert not any(limits.pause for limits in bike.queue_limits())


def test_one_that_is_on_begins_at_once_and_those_of_another_prefix_do_not(client, prefix):
    bike, other = (Redbike(RoundRobin("A"), f"{prefix}{name}", client) for name in ("a", "b"))
    for each in (bike, other):
        each.set("job:A", "EVERY:1h")
    now = time.time()
    assert bike.pause_all(every=f"EVERY:1d@{now - 90000:.0f}", lasting="2h", reason="backup")
    [limits] = bike.queue_limits()
    assert (limits.pause.reason, limits.pause.is_of_blackout) == ("backup", True)
    assert limits.pause.since >= now - 1
    assert not other.client.exists(other.store.keys.blackouts, other.store.keys.queue_limits)
    assert bike.resume_all()
    assert bike.queue_limits() == []
    assert bike.resume_all(every=True)
    assert not bike.resume_all(every=True)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_queue_without_jobs_is_listed_if_it_has_a_blackout(client, prefix, shards):
    with Redbike(RoundRobin("A:B"), prefix, client, shards=shards) as bike:
        bike.set("job:A", "EVERY:1h")
        bike.pause("job:A", every="0 2 * * *", lasting="1h")
        bike.pause_all(every="0 3 * * *", lasting="1h")
        bike.resume_all(every=True)
        bike.pause_queue("B", every="0 4 * * *", lasting="1h")
        client.hset(bike.store.shards[-1].keys.blackouts, "queue:statuses", "damaged")
        [queue] = [each for each in bike.queues() if each.queue != "work-A"]
        assert (queue.queue, queue.waiting, queue.blackout is not None) == ("work-B", 0, True)
        bike.resume_queue("B", every=True)
        assert [each.queue for each in bike.queues()] in ([], ["work-A"])


BAD = [
    ({"every": "foo", "lasting": "1h"}, BadSchedule, "'foo'"),
    ({"every": "NOW", "lasting": "1h"}, BadSchedule, "'NOW'"),
    ({"every": "AT:4000000000", "lasting": "1h"}, BadSchedule, "'AT:4000000000'"),
    ({"every": "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=2", "lasting": "1h"}, BadSchedule, "again and again"),
    ({"every": "AFTER:job:A", "lasting": "1h"}, BadSchedule, "again and again"),
    ({"every": "H 3 * * *", "lasting": "1h"}, BadSchedule, "'H 3 * * *': H is not allowed in a blackout"),
    ({"every": "EVERY:1h@0", "lasting": "1h"}, BadSchedule, "'EVERY:1h@0' for 1 h: it would never end"),
    ({"every": "* * * * *", "lasting": "2m"}, BadSchedule, "it would never end"),
    ({"every": "@daily", "lasting": "x"}, BadConfig, "'x'"),
    ({"every": "@daily", "lasting": 0}, BadConfig, "0: a duration"),
    ({"every": "@daily", "lasting": timedelta(-1)}, BadConfig, "-1"),
    ({"every": "@daily"}, BadConfig, "lasting"),
    ({"lasting": "1h"}, BadConfig, "every"),
    ({"every": "@daily", "lasting": "1h", "until": 4e9}, BadConfig, "until"),
    ({"every": "@daily", "lasting": "1h", "reason": "a\nb"}, BadConfig, "'a\\nb'"),
    ({"every": 5, "lasting": "1h"}, TypeError, "5"),
]


@pytest.mark.parametrize(("given", "error", "said"), BAD)
def test_what_is_no_blackout_is_refused_in_words_and_changes_nothing(bike, given, error, said):
    bike.set("job:A", "EVERY:1h")
    for pause, _, subject in FORMS.values():
        with unchanged(bike.store), pytest.raises(error) as refused:
            getattr(bike, pause)(*subject, **given)
        assert said in str(refused.value)
        assert "\n" not in str(refused.value).replace("\\n", "")


def test_windows_that_meet_are_one_and_those_that_leave_a_gap_are_not():
    # At two and three o'clock, for an hour and for half an hour; every minute of five days, but no other day.
    for text, seconds, expected in (
        ("0 2,3 * * *", 3600.0, (7200.0, 14400.0)),
        ("0 2,3 * * *", 1800.0, (7200.0, 9000.0)),
        ("0 2,3 * * *", 5400.0, (7200.0, 16200.0)),
        ("* * * * thu,fri", 60.0, (0.0, 172800.0)),
    ):
        assert find_window(parse(text), seconds, 0.0) == expected
    with pytest.raises(BadSchedule):
        find_window(parse("EVERY:1s@0"), 1.0, 0.0)
    # The clocks go forward in the night, and it lasts two hours all the same.
    berlin = parse("CRON_TZ=Europe/Berlin 30 1 * * *")
    start, end = find_window(berlin, 7200.0, 1_774_738_800.0)  # 2026-03-29 00:00
    assert (start, end) == (1_774_744_200.0, 1_774_751_400.0)


@given(st.floats(0.01, 9000), st.floats(1e9, 2e9), st.floats(0.01, 0.999))
@example(3600, 1780212968.194991, 4.4 / 3600)
def test_each_window_begins_after_the_end_of_the_one_before(period, anchor, share):
    schedule = Every("", round(period, 6), round(anchor, 6))
    windows = [*islice(list_windows(schedule, round(period * share, 6), anchor, 2.1e9), 20)]
    assert len(windows) == 20
    assert all(one.end < other.start for one, other in pairwise(windows))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda c, k: c.hset(k.blackouts, "job:job:A", "damaged"), "its record cannot be read: damaged"),
        (lambda c, k: c.zrem(k.timers, "blackout:job:job:A"), "nobody is told when it begins"),
        (lambda c, k: c.zadd(k.timers, {"blackout:job:job:A": 4e9}), "a dispatcher is told too late when it begins"),
        (lambda c, k: c.hdel(k.blackouts, "job:job:A"), "it has a timer, but there is no such blackout"),
        (lambda c, k: c.hdel(k.blackouts, "queue:"), "it has a timer, but there is no such blackout"),
        (lambda c, k: c.hset(k.blackouts, "job:x:A", c.hget(k.blackouts, "job:job:A")), "there is no such job"),
        (lambda c, k: c.hset(k.blackouts, "nobody", "{}"), "holds 'nobody', which names nothing"),
        (lambda c, k: c.zadd(k.timers, {"blackout:nobody": 1}), "holds 'blackout:nobody'"),
    ],
)
def test_fsck_finds_and_repairs_what_is_damaged(bike, client, damage, said):
    bike.set("job:A", "EVERY:1h")
    soon = f"EVERY:1d@{bike.store.timeline.read_clock() + HOUR - 86400:.0f}"  # an hour from now
    bike.pause("job:A", every=soon, lasting="1h")
    bike.pause_all(every=soon, lasting="1h")
    assert list(bike.fsck()) == []
    damage(client, bike.store.keys)
    assert said in " ".join(bike.fsck())
    assert all(is_well for _, is_well in bike.repair())
    assert list(bike.fsck()) == []
    bike.dispatch_due()
    assert list(bike.fsck()) == []


def test_a_dispatcher_survives_what_is_damaged(bike, client):
    bike.set("job:A", "EVERY:1h")
    client.hset(bike.store.keys.blackouts, "job:job:A", "damaged")
    client.zadd(bike.store.keys.timers, {"blackout:job:job:A": 1, "blackout:queue:": 1, "blackout:x": 1})
    bike.dispatch_due()
    assert not client.exists(bike.store.keys.blackouts, bike.store.keys.timers)


def test_the_command_line_sets_and_ends_them(shell, server_url):
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    for jobid in ("job:A", "other:A"):
        bike.set(jobid, "EVERY:1h")
    bike.store.upkeep.add_queue("work-A")
    # At hours in which none of them is on while the test runs.
    far = datetime.fromtimestamp(bike.store.timeline.read_clock() + 6 * HOUR, UTC).hour
    first, second, third = (f"0 {(far + later) % 24} * * *" for later in range(3))
    done = shell.run("pause", "job:*", f"--every={first}", "--for=2h", "--reason=backup")
    assert (done.returncode, done.stdout) == (0, "job:A\n")
    assert "paused from " in done.stderr
    assert ", for 2 h, and so each time" in done.stderr
    for arguments in (["--queue=A"], ["--all"]):
        assert shell.run("pause", *arguments, f"--every={second}", "--for=1h").returncode == 0
        again = shell.run("pause", *arguments, f"--every={third}", "--for=1h")
        assert "this takes the place of another blackout" in again.stderr
    assert {each["of"] for each in bike.tell("job:A")["blackouts"]} == {"job", "work-A", "everything"}
    assert {each["of"] for each in bike.tell("other:A")["blackouts"]} == {"work-A", "everything"}
    gone = shell.run("tell", "gone:A")
    assert gone.returncode == 1
    assert json.loads(gone.stdout) == {"status": None, "next_run": None, "schedule": None, "working": False}
    shown = shell.run("show", "job:A").stdout
    assert f"each time of {first} for 2 h" in shown
    assert "blackout of everything" in shown
    with unchanged(bike.store):
        for bad in (["--every=NOW", "--for=1h"], ["--every=@hourly", "--for=1h"], ["--every=@daily"], ["--for=2h"]):
            refused = shell.run("pause", *bad, "job:A")
            assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert shell.run("resume", "--every", "job:A").returncode == 0
    assert shell.run("resume", "--every", "--all").returncode == 0
    assert shell.run("resume", "--every", "--queue=A").stderr == ""
    assert "it had no blackout" in shell.run("resume", "job:A", "--every").stderr
    assert bike.store.blackouts.list_all() == {}
    actions = [entry.action for entry in bike.log()]
    assert (actions.count("pause --every"), actions.count("resume --every")) == (5, 3)
