"""The facade, as a user of the library meets it."""

import time
from functools import partial
from itertools import product

import pytest

from redbike import BadConfig, BadJobId, BadSchedule, NoSuchJob, Redbike, RoundRobin, current_run, escape
from redbike.loop.timefile import Timefile
from redbike.store.inspection.fsck import fsck
from tests.loops import beside, raising, start
from tests.verbs import set_job, take_one
from tests.waiting import wait_until


class Recorder(RoundRobin):
    """Notes what it works."""

    def __init__(self, initstring="A"):
        super().__init__(initstring)
        self.worked = []

    def work(self, jobid):
        self.worked.append((jobid, current_run().due))


BIKE = {"worker": Recorder}


def work_all(bike):
    """Work what waits; for when each run was due."""
    while bike.work_one() or bike.dispatch_due():
        pass
    return [due for _, due in bike.worker.worked]


def at_first_run(bike, act):
    """Have the first run do something else as well."""
    work = bike.worker.work

    def work_and_act(jobid):
        work(jobid)
        if len(bike.worker.worked) == 1:
            act(jobid)

    bike.worker.work = work_and_act


fail = raising(ValueError("no"))


def test_a_job_is_set_told_and_worked(bike):
    unknown = {"status": None, "next_run": None, "schedule": None, "working": False}
    assert bike.tell("job:A") == unknown
    assert bike.set("job:A", "NOW") is True
    assert bike.tell("job:A").keys() == {*unknown, "queued_for"}
    assert bike.tell("job:A")["status"].startswith("ENQ:")
    at_first_run(bike, lambda jobid: seen.append((bike.tell(jobid), bike.is_working(jobid))))
    seen = []
    assert [bike.work_one(), bike.work_one()] == ["job:A", None]
    [(told, is_working)] = seen
    assert told.keys() == {*unknown, "working_for", "working_since", "deadline", "worker"}
    assert is_working is True
    assert bike.is_working("job:A") is False
    told = bike.tell("job:A")
    assert (told["next_run"], told["schedule"], told["working"]) == (None, "STOP", False)
    assert told["status"].startswith("STP:")


def test_a_bad_schedule_changes_nothing_of_a_job_that_exists(bike, caplog):
    bike.set("job:A", "EVERY:15m")
    before = bike.tell("job:A")
    assert bike.set("job:A", "EVERY:never") is False
    assert "'never'" in caplog.text
    assert bike.tell("job:A") == before


def test_a_bad_schedule_of_a_new_job_leaves_nothing_but_in_the_file_of_a_dispatcher(bike):
    rows = [("job:A", "0 0 30 2 *")]
    assert bike.set("job:A", rows[0][1]) is False
    assert [error is True for _, error in bike.set_many(rows)] == [False]
    assert [error is True for *_, error in bike.load(rows)] == [False]
    assert bike.sync(rows).bad.keys() == {"job:A"}
    assert (list(bike.get_statuses()), bike.tell("job:A")["status"]) == ([], None)
    list(bike.load(rows, mark_bad=True))
    told = bike.tell("job:A")
    assert told["status"].startswith("BAD:")
    assert told["schedule"] is None
    assert bike.set("job:A", "NOW") is True


def test_a_bad_job_id_raises(bike):
    bad = ("", "a\nb", "x" * 513, "a:", " b:A", "b:A ", "\u00a0b:A", "b:A\u3000", "a\ud83d:A", ["a:A"], None)
    for jobid, set_it in product(bad, (bike.set, bike.enter)):
        with pytest.raises(BadJobId, match="job id") as refused:
            set_it(jobid, "NOW")
    assert isinstance(refused.value, ValueError)
    assert list(bike.get_statuses()) == []


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_job_id_of_512_bytes_is_like_any_other(bike, letter):
    jobid = letter * (510 // len(letter.encode())) + ":A"
    assert len(jobid.encode()) == 512
    bike.set(jobid, "EVERY:1h", data=1)
    bike.run(jobid)
    assert bike.work_one() == jobid
    assert [worked for worked, _ in bike.worker.worked] == [jobid]
    assert [run.jobid for run in bike.runs()] == [jobid]
    assert bike.tell(jobid)["status"].startswith("TML:")
    assert bike.unset(jobid)
    assert list(fsck(bike.store)) == []


def test_what_is_stored_is_complete_and_means_the_same_again(bike):
    bike.set("every:A", "EVERY:15m")
    bike.set("cron:A", "0 3 * * *", tz="Europe/Berlin")
    bike.set("rule:A", "RRULE:FREQ=DAILY;COUNT=5")
    stored = dict(bike.get_schedules())
    assert stored["every:A"].startswith("EVERY:15m@")
    assert stored["cron:A"] == "CRON_TZ=Europe/Berlin 0 3 * * *"
    assert "DTSTART" in stored["rule:A"]
    again = Redbike(Recorder(), bike.settings.prefix + "-again", bike.client, timezone="Asia/Tokyo")
    assert all(result is True for _, result in again.set_many(stored.items()))
    assert dict(again.get_schedules()) == stored
    for jobid in stored:
        assert again.tell(jobid)["next_run"] == bike.tell(jobid)["next_run"]


def test_after_decides_from_when_occurrences_count(bike):
    now = bike.store.timeline.read_dispatched()[0]
    bike.set("missed:A", "EVERY:1h@0", after=now - 7200)
    assert bike.tell("missed:A")["status"].startswith("ENQ:")
    bike.set("later:A", "EVERY:1h@0", after=now + 7200)
    assert bike.tell("later:A")["next_run"] > now + 7200
    bike.set("over:A", f"AT:{now - 10}", after=now)
    assert bike.tell("over:A")["status"].startswith("STP:")
    # It would be due at once wherever that is loaded again.
    assert bike.tell("over:A")["schedule"] == "STOP"
    bike.set("late:A", f"AT:{now - 10}", after=now - 20)
    assert bike.tell("late:A")["status"].startswith("ENQ:")


def test_set_says_that_nothing_is_left_to_run(bike, caplog):
    over = "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=2"
    for schedule, text in (("AT:2020-01-01", "AT:2020-01-01T00:00:00Z"), (over, over), ("NOW", None), ("STOP", None)):
        caplog.clear()
        assert bike.set("job:A", schedule, after=None if text is None else 1640995200)
        said = [f"job:A: nothing is left to run of {text!r}"] if text else []
        assert [record.getMessage() for record in caplog.records] == said


def test_a_one_off_that_is_past_is_due_at_once(bike):
    for ago in (0.4, 0.6, 86400):
        due = round(bike.store.timeline.read_clock() - ago, 3)
        bike.set("late:A", f"AT:{due}")
        assert bike.work_one() == "late:A"
        assert bike.worker.worked[-1] == ("late:A", due)


@pytest.mark.parametrize(
    ("before", "ago", "options", "is_said"),
    [
        ("waits", 3600, {}, False),
        ("waits", 3600, {"retries": 3}, False),
        ("waits", 3600, {"spread": "1m"}, False),
        ("waits", 1800, {}, True),
        ("failed", 3600, {}, True),
        ("stopped", 3600, {}, True),
    ],
)
def test_what_is_set_again_says_that_it_is_due_at_once(client, prefix, tmp_path, caplog, before, ago, options, is_said):
    caplog.set_level("INFO", "redbike")
    bike = Redbike(Recorder(), prefix, client, timefile=str(tmp_path / "timefile"), on_error="stop")
    bike.worker.work = fail
    now = bike.store.timeline.read_clock()
    Timefile(tmp_path / "timefile").write(now - 7200)
    bike.enter("job:A", f"EVERY:7d@{now - 7 * 86400 - 3600:.0f}")
    if before == "failed":
        assert bike.work_one() == "job:A"
    elif before == "stopped":
        bike.set("job:A", "STOP")
    caplog.clear()
    bike.enter("job:A", f"EVERY:7d@{now - 7 * 86400 - ago:.0f}", **options)
    assert bike.tell("job:A")["status"].startswith("ENQ:")
    assert ("job:A: due at once: it came due at " in caplog.text) is is_said


def test_the_timefile_says_from_when_occurrences_count(client, prefix, tmp_path, caplog):
    caplog.set_level("INFO", "redbike")
    path = tmp_path / "timefile"
    bike = Redbike(Recorder(), prefix, client, timefile=str(path))
    now = bike.store.timeline.read_clock()
    Timefile(path).write(now - 7200)
    bike.enter("job:A", "EVERY:1h@0")
    assert "job:A: due at once" in caplog.text
    assert bike.tell("job:A")["status"].startswith("ENQ:")
    caplog.clear()
    other, weekly = Redbike(Recorder(), prefix, client), f"EVERY:7d@{now - 7 * 86400 - 3600:.0f}"
    with beside(other.store, other.work):
        wait_until(bike.workers)
        for number in range(20):
            bike.enter(f"{number}:A", weekly)
    # Also of those that the idle worker has taken before `enter` looks.
    assert caplog.text.count("due at once: it came due at ") == 20
    caplog.clear()
    bike.enter("0:A", weekly)
    bike.pause("1:A")
    bike.enter("1:A", f"EVERY:7d@{now - 7 * 86400 - 1800:.0f}")
    bike.enter("later:A", f"EVERY:7d@{now - 86400:.0f}")
    bike.enter("now:A", "NOW")
    assert "due at once" not in caplog.text
    Timefile(path).write(now)
    bike.set("past:B", f"AT:{now - 5:.3f}")
    assert bike.tell("past:B")["status"].startswith("ENQ:"), "a one-off counts all the same"
    path.unlink()
    bike.set("other:A", "EVERY:1h@0")
    assert bike.tell("other:A")["next_run"] > now


def test_without_a_timefile_a_new_job_counts_from_now(bike):
    """Whatever Redis says of when a dispatcher ran last."""
    now = bike.store.timeline.read_clock()
    hourly = f"EVERY:1h@{now - 1800:.0f}"
    for number, until in enumerate((-7200, 400 * 86400)):
        bike.store.timeline.advance(now + until)
        bike.set(f"{number}:A", hourly)
        assert now < bike.tell(f"{number}:A")["next_run"] <= now + 3601
        assert [result for _, result in bike.set_many([(f"{number}:B", hourly)])] == [True]
        assert bike.tell(f"{number}:B")["next_run"] == bike.tell(f"{number}:A")["next_run"]


def test_a_job_never_runs_for_an_instant_before_it_was_set_however_slow_its_client_is(client, prefix):
    asked = {}

    class Slow(RoundRobin):
        def queue_for(self, jobid):
            time.sleep(0.02)
            asked[jobid] = bike.store.timeline.read_clock()
            return super().queue_for(jobid)

    bike = Redbike(Slow("A"), prefix, client)
    jobs = [f"{n}:A" for n in range(5)]
    assert all(result is True for _, result in bike.set_many((jobid, "EVERY:0.05@0") for jobid in jobs))
    bike.set("alone:A", "EVERY:0.005@0")
    # All of a batch are set in one step, after the last of them has a queue.
    for jobid, before in [*((jobid, asked[jobs[-1]]) for jobid in jobs), ("alone:A", asked["alone:A"])]:
        due = bike.tell(jobid)["next_run"]
        assert due is not None, "on the timeline"
        assert due > before
    assert not any("queued_for" in bike.tell(jobid) for jobid in jobs)
    # Nor if its schedule is changed.
    now = bike.store.timeline.read_clock()
    bike.set("job:A", "EVERY:1h@0", after=now - 7200)
    bike.set("job:A", "EVERY:2h@0")
    assert bike.tell("job:A")["next_run"] > now


def test_what_is_overdue_stays_so_when_it_is_set_again_unchanged(bike):
    """No dispatcher runs, and the file of schedules is loaded once more."""
    now = bike.store.timeline.read_clock()
    for text in ("EVERY:1h@0", "EVERY:1h", "RRULE:FREQ=HOURLY", "17 * * * *", "CONTINUE", f"AT:{now - 10}"):
        bike.set("job:A", text)
        (stored,) = dict(bike.get_schedules()).values()
        bike.unset("job:A")
        set_job(bike.store.at(now - 100), "job:A", stored, now - 60)
        assert [result for _, result in bike.set_many([("job:A", text)])] == [True]
        assert bike.set("job:A", text)
        assert bike.tell("job:A")["next_run"] == pytest.approx(now - 60, abs=1e-5)
        assert dict(bike.get_schedules()) == {"job:A": stored}
        # Whoever says from when it counts means that.
        bike.set("job:A", text, after=now + 7200)
        assert bike.tell("job:A")["next_run"] != pytest.approx(now - 60, abs=1e-5)
        bike.unset("job:A")


def test_a_file_that_is_loaded_again_does_not_revive_what_has_failed_for_good(bike):
    bike.worker.work = fail
    pairs = [("pay:A", "EVERY:1h@0"), ("other:A", "EVERY:1h@0")]
    assert all(result is True for _, result in bike.set_many(pairs, after=0))
    assert {bike.work_one(), bike.work_one()} == {"pay:A", "other:A"}
    assert all(result is True for _, result in bike.set_many(pairs))
    assert bike.tell("pay:A")["status"].startswith("DIE:")
    # Who sets that one job wants it to run, and so does who changes its schedule.
    assert bike.set("pay:A", "EVERY:1h@0")
    assert list(bike.set_many([("other:A", "EVERY:2h@0")])) == [("other:A", True)]
    assert [bike.tell(jobid)["status"][:4] for jobid, _ in pairs] == ["TML:", "TML:"]


def test_a_dump_that_is_loaded_again_leaves_what_rests_as_it_is(bike, client, prefix):
    at_first_run(bike, fail)
    for jobid in ("bad:A", "done:A", "waits:A"):
        assert bike.set(jobid, "NOW")
    assert [bike.work_one(), bike.work_one()] == ["bad:A", "done:A"]
    bike.set("off:A", "STOP")
    for jobid, event in (("bad:A", "DIE"), ("done:A", "STP"), ("off:A", "STP")):
        bike.client.hset(bike.store.keys.statuses, jobid, f"{event}:1700000000")
    before, dump = sorted(bike.get_statuses()), list(bike.get_schedules())
    assert all(result is True for _, result in bike.set_many(dump))
    assert sorted(bike.get_statuses()) == before
    # What has run once does not run again from a dump.
    other = Redbike(Recorder(), f"{prefix}-other", client)
    assert all(result is True for _, result in other.set_many(dump))
    assert [other.work_one(), other.work_one()] == ["waits:A", None]
    assert bike.run_failed() == [("bad:A", "queued")]
    # Who stops that one job means it, also where it has the text already.
    bike.set("bad:A", "STOP")
    assert bike.tell("bad:A")["status"].startswith("STP:")
    assert [bike.work_one(), bike.work_one()] == ["waits:A", None]


def test_a_failure_or_a_run_by_hand_between_missed_ones_drops_none(client, prefix):
    for catchup in ("last", "all"):
        bike = Redbike(Recorder(), f"{prefix}-{catchup}", client, catchup=catchup, on_error="retry", backoff=0.0)
        at_first_run(bike, fail)
        now = bike.store.timeline.read_clock()
        base = round(now) - 3500
        missed = [base + 1000, base + 2000, base + 3000] if catchup == "all" else []
        bike.set("job:A", f"EVERY:1000@{base - 1000}", after=base - 1)
        assert work_all(bike) == [base, base, *missed]
        assert bike.tell("job:A").get("skipped", {}) == ({} if catchup == "all" else {"missed": 3})
    bike = Redbike(Recorder(), prefix, client, catchup="all")
    at_first_run(bike, bike.run)
    bike.set("job:A", f"EVERY:1000@{base - 1000}", after=base - 1)
    assert work_all(bike) == [base, pytest.approx(now, abs=60), *missed]


def test_set_says_that_a_one_off_runs_again(bike, caplog):
    caplog.set_level("INFO", "redbike")
    for again in ("", "; it was stopped, and runs again"):
        caplog.clear()
        bike.enter("job:A", "AT:2020-01-01T00:00Z")
        said = [each.getMessage() for each in caplog.records if each.name == "redbike"]
        assert said[-1:] == [f"job:A: due at once: its time, 2020-01-01T00:00:00+00:00, is past{again}"]
        assert bike.work_one() == "job:A"
    caplog.clear()
    bike.enter("job:A", "AT:4000000000")
    bike.enter("over:A", "AT:2020-01-01T00:00Z", after=bike.store.timeline.read_clock())
    # The worker may still say how the runs have ended.
    assert [each.getMessage() for each in caplog.records if each.name == "redbike"] == []


def test_set_says_that_a_one_off_keeps_its_place_in_its_run_and_before_its_next_try(bike, caplog):
    caplog.set_level("INFO", "redbike")
    said = []

    def set_again(jobid):
        caplog.clear()
        bike.enter(jobid, "AT:2020-01-01T00:00Z")
        said.extend(each.getMessage() for each in caplog.records if "its place" in each.getMessage())

    def set_and_fail(jobid):
        set_again(jobid)
        raise OSError

    at_first_run(bike, set_and_fail)
    bike.set("job:A", "AT:2020-01-01T00:00Z", on_error="retry", backoff=1000)
    assert work_all(bike) == [1577836800]
    set_again("job:A")
    assert said == ["job:A: keeps its place: it runs now", "job:A: keeps its place: it is to be tried again"]
    assert bike.tell("job:A")["next_run"] > bike.store.timeline.read_clock() + 900


def test_set_says_that_a_one_off_has_expired(bike, caplog):
    caplog.set_level("INFO", "redbike")
    bike.enter("job:A", "AT:2020-01-01T00:00Z", expires="1m")
    bike.enter("new:A", "AT:2020-01-01T00:00Z", expires=1e9)
    assert [bike.work_one(), bike.work_one()] == ["job:A", "new:A"]
    assert [bike.tell(jobid).get("skipped", {}) for jobid in ("job:A", "new:A")] == [{"expired": 1}, {}]
    said = [each.getMessage() for each in caplog.records if " its time, " in each.getMessage()]
    expired = "does not run: its time, 2020-01-01T00:00:00+00:00, is past, and it expired at 2020-01-01T00:01:00+00:00"
    assert said == [f"job:A: {expired}", "new:A: due at once: its time, 2020-01-01T00:00:00+00:00, is past"]


def test_a_job_that_a_worker_runs_at_once_had_a_run_to_come(client, prefix):
    """Also if its only run has ended before `enter` looks at what became of it."""
    bike = Redbike(Recorder(), prefix, client)
    jobids = [f"{number}:A" for number in range(100)]
    with beside(bike.store, bike.work):
        had_runs = [bike.enter(jobid, "NOW") for jobid in jobids]
        wait_until(lambda: len(bike.worker.worked) == len(jobids))
    assert all(had_runs)
    assert not bike.enter("past:A", "AT:0", after=1)


def test_what_waits_in_a_queue_runs_nothing_from_before_it_had_its_schedule(client, prefix):
    for is_paused in (False, True):
        bike = Redbike(Recorder(), f"{prefix}-{is_paused}", client, catchup="all")
        now = bike.store.timeline.read_clock()
        base = now - now % 1000
        bike.set("job:A", "EVERY:1000@0", after=base - 5001)
        assert bike.tell("job:A")["queued_for"] == base - 5000
        if is_paused:
            bike.pause("job:A")
        bike.set("job:A", "EVERY:1000@500", after=base - 3000)
        bike.resume("job:A")
        due = work_all(bike)
        assert due[:3] == [base - 2500, base - 1500, base - 500]
        assert due[3:] == [base + 500][: len(due) - 3]
        assert bike.tell("job:A")["skipped"] == {"withdrawn": 1}


MISSED = [
    ({}, [0], {"missed": 23}),
    ({"catchup": "none"}, [], {"missed": 24}),
    ({"catchup": "all"}, range(24), {}),
    ({"catchup": "all", "catchup_limit": 5}, range(19, 24), {"missed": 19}),
    ({"catchup": "all", "catchup_limit": 0}, [], {"missed": 24}),
    ({"grace": "3h"}, [21], {"missed": 2, "late": 21}),
    ({"catchup": "all", "catchup_limit": 5, "grace": "3h"}, range(21, 24), {"missed": 19, "late": 2}),
    ({"catchup": "none", "grace": "1s"}, [], {"missed": 24}),
]


@pytest.mark.parametrize("way", ["set", "again", "file", "settings"])
def test_each_occurrence_since_the_instant_that_set_is_given_runs_or_is_counted(client, prefix, way):
    for number, (options, runs, skipped) in enumerate(MISSED if way == "set" else MISSED[2:7:2]):
        settings, options = (options, {}) if way == "settings" else ({}, options)
        bike = Redbike(Recorder(), f"{prefix}-{number}", client, **settings)
        now = bike.store.timeline.read_clock()
        begin = round(now - 24.5 * 3600)
        schedule = f"EVERY:1h@{begin}"
        if way == "again":
            bike.set("job:A", schedule, **options)
        if way == "file":
            bike.sync([("job:A", schedule, options)], after=now - 24.5 * 3600)
        else:
            bike.set("job:A", schedule, after=now - 24.5 * 3600, **options)
        assert [(due - begin) / 3600 - 1 for due in work_all(bike)] == [*runs]
        told = bike.tell("job:A")
        assert told.get("skipped", {}) == skipped
        assert told["next_run"] == begin + 25 * 3600


def test_what_is_set_again_stays_in_its_queue_and_has_skipped_nothing(bike):
    now = bike.store.timeline.read_clock()
    for _ in range(2):
        bike.set("job:A", "EVERY:1h@0", after=now - 7200)
        bike.set("job:A", "EVERY:1h@0", after=now - 72000, catchup="none")
        bike.set("job:A", "EVERY:1h@0")
    assert bike.tell("job:A")["queued_for"] < now
    assert "skipped" not in bike.tell("job:A")
    assert [bike.work_one(), bike.work_one()] == ["job:A", None]


@pytest.mark.parametrize(("catchup", "runs"), [("all", 4), ("last", 1)])
def test_what_a_schedule_has_missed_when_it_is_set_during_a_run_runs_after_that(client, prefix, catchup, runs):
    bike = Redbike(Recorder(), prefix, client, catchup=catchup)
    now = bike.store.timeline.read_clock()
    base = round(now) - 3500
    at_first_run(bike, lambda jobid: bike.set(jobid, f"EVERY:1000@{base - 1000}", after=base - 500))
    bike.set("job:A", "NOW")
    assert work_all(bike)[1:] == [base + 1000 * number for number in range(runs)]
    assert bike.tell("job:A").get("skipped", {}) == ({} if catchup == "all" else {"missed": 3})


def test_set_many_streams_and_names_each_bad_row(bike):
    def pairs():
        for n in range(1500):
            yield f"{n}:A", "NOW"
            if n == 700:
                yield "bad:A", "every day"
                yield "a\nb", "NOW"

    results = list(bike.set_many(pairs()))
    assert len(results) == 1502
    refused = [(jobid, error) for jobid, error in results if error is not True]
    assert [jobid for jobid, _ in refused] == ["bad:A", "a\nb"]
    assert isinstance(refused[0][1], BadSchedule)
    assert isinstance(refused[1][1], BadJobId)
    assert sum(1 for _ in bike.get_statuses()) == 1500
    assert bike.tell("bad:A")["status"] is None
    endless = bike.set_many((f"{n}:A", "NOW") for n in range(10**9))
    assert next(endless) == ("0:A", True)
    endless.close()


def test_what_is_set_without_a_schedule_is_unset_in_its_turn(bike):
    bike.set("job:A", "NOW")
    assert bike.set("job:A", None) is True
    assert bike.tell("job:A")["status"] is None
    bike.unset("job:A")
    pairs = [("a:A", "NOW"), ("b:A", "NOW"), ("a:A", None), ("unknown:A", None), ("b:A", None), ("b:A", "EVERY:1h")]
    assert [result for _, result in bike.set_many(pairs)] == [True] * 6
    assert [jobid for jobid, _ in bike.get_schedules()] == ["b:A"]
    assert bike.tell("b:A")["status"].startswith("TML:")


def test_statuses_before_a_time_are_those_that_can_be_read(bike, caplog):
    bike.set("job:A", "NOW")
    damaged = {"x": "no colon", "y": "ENQ:soon", "odd:A": "DYE:1"}
    bike.client.hset(bike.store.keys.statuses, mapping=damaged)
    [(jobid, event, moment)] = bike.get_statuses()
    assert (jobid, event) == ("job:A", "ENQ")
    assert isinstance(moment, int)
    assert list(bike.get_statuses(before=moment)) == []
    assert list(bike.get_statuses(before=moment + 1)) == [("job:A", "ENQ", moment)]
    assert "no colon" in caplog.text
    assert "odd:A: 'DYE:1' is no status" in caplog.text
    assert bike.tell("odd:A")["status"] == "DYE:1"


def test_a_failure_is_kept_until_the_job_is_run_again(bike):
    bike.set("job:A", "EVERY:1h")
    bike.run("job:A")
    bike.worker.work = fail
    bike.work_one()
    [failure] = bike.failures()
    assert (failure["jobid"], failure["error"], failure["attempt"]) == ("job:A", "ValueError: no", 1)
    assert bike.tell("job:A")["failure"] == failure
    bike.run("job:A")
    assert list(bike.failures()) == []
    bike.worker.work = lambda jobid: None
    assert bike.work_one() == "job:A"
    assert bike.tell("job:A")["next_run"] is not None, "it goes where its schedule says"


def test_what_matches_nothing_is_an_empty_answer(bike):
    bike.set("job:A", "EVERY:1h@0")
    for verb in (bike.run, bike.cancel, bike.pause, bike.resume):
        assert verb("nobody*") == []
        assert [jobid for jobid, _ in verb("nobody*", "job:?")] == ["job:A"]
        for text in ("nobody:A", escape("no*body:A")):
            with pytest.raises(NoSuchJob, match="body"):
                verb(text)
        with pytest.raises(BadJobId):
            verb("nobody*", "[")


def test_halt_is_for_those_that_were_there_before(client, prefix, bike):
    assert bike.is_halted() is False
    bike.control("HALT")
    assert bike.is_halted() is True
    assert Redbike(Recorder(), prefix, client).is_halted() is False
    bike.clear_control()
    assert bike.is_halted() is False
    with pytest.raises(BadConfig, match="'STOP'"):
        bike.control("STOP")
    with pytest.raises(LookupError, match="there is no run here"):
        current_run()


@pytest.mark.parametrize("ending", ["-x", "-inflight"])
def test_flush_deletes_the_keys_of_its_prefix_and_no_others(client, bike, ending):
    other = Redbike(Recorder(), bike.settings.prefix + ending, client)
    for each in (bike, other):
        each.set("queued:A", "NOW")
        each.set("later:B", "EVERY:1h")
        each.set("flying:C", "NOW")
        take_one(each.store, [("work-C", 1000.0)], "tag")
        each.control("HALT")
    client.set("neighbour", "kept")
    before = {key for key in client.scan_iter() if key.startswith(other.settings.prefix.encode())}
    before -= {bike.store.keys.inflight("tag").encode()}
    assert bike.flush() > 5
    after = set(client.scan_iter())
    assert after == before | {b"neighbour"}
    assert list(fsck(other.store)) == []


def test_the_loops_run_until_they_are_halted(bike, tmp_path, caplog):
    path = tmp_path / "schedules.csv"
    path.write_text(f"job:A,AT:{time.time() + 0.2}\nbad:A,whenever\nlast:A,EVERY:1h\n")
    threads = [start(partial(bike.dispatch, csvfilename=path)), start(bike.work)]
    wait_until(lambda: bike.worker.worked and bike.tell("last:A")["status"])
    bike.control("HALT")
    wait_until(lambda: not any(thread.is_alive() for thread in threads), timeout=3.0)
    assert "line 2" in caplog.text


@pytest.mark.parametrize("wrong", [-7200, 7200])
def test_the_clock_of_the_host_does_not_matter(bike, monkeypatch, wrong):
    before, right, runs = bike.store.timeline.read_dispatched()[0], time.time, []
    monkeypatch.setattr(time, "time", lambda: right() + wrong)
    bike.worker.work = lambda jobid: runs.append(current_run())
    bike.set("now:A", "NOW")
    bike.set("later:A", "EVERY:1h")
    set_job(bike.store.at(before - 2), "due:A", "EVERY:1h@0", before - 1)
    assert bike.dispatch_due() == 1
    assert [bike.work_one() for _ in range(3)] == ["now:A", "due:A", None]
    after = bike.store.timeline.read_dispatched()[0]
    assert all(before <= run.start <= after and run.deadline == pytest.approx(run.start + 10, abs=1e-3) for run in runs)
    assert before + 3600 <= bike.tell("later:A")["next_run"] <= after + 3600
    assert before < bike.tell("due:A")["next_run"] <= after + 3600
    assert all(int(before) <= moment <= after for _, _, moment in bike.get_statuses())
