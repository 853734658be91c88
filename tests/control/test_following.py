"""Jobs that follow others: when they are due, and for what. The clock stands still, and moves from one due time on."""

import json

import pytest

from redbike import BadSchedule, Redbike, RoundRobin, UnsetJob
from redbike.schedule.moments import AWAITED
from redbike.schedule.parser import parse
from redbike.store.inspection.fsck import fsck
from tests.loops import raising
from tests.store.inspection.mending import repaired
from tests.testing.worker import Worker
from tests.verbs import Quiet

START = 1_790_000_000.0 // 86400 * 86400
HOURLY = "EVERY:1h@0"
HOUR = 3600.0


class One(Worker):
    """Works all jobs in one queue."""

    def queue_for(self, jobid):
        return "work-A"


def make(redbike, work=lambda run: None, show=lambda run: (run.jobid, run.due - START), **settings):
    """A bike whose worker does `work`, and what to `show` of each run, in their order: (job, due time from START)."""
    ran = []

    def note(run):
        ran.append(show(run))
        return work(run)

    return redbike(One(note), now=START, **settings), ran


def make_family(redbike, *work, **settings):
    """The same, with a parent and a child."""
    bike, ran = make(redbike, *work, **settings)
    bike.set("parent", HOURLY)
    bike.set("child", "AFTER:parent")
    return bike, ran


def fail_if(is_to_fail):
    """A work that fails in the runs of which this is true."""

    def work(run):
        if is_to_fail(run):
            raise OSError("it broke")

    return work


def fail(jobid, until=99):
    return fail_if(lambda run: run.jobid == jobid and run.attempt < until)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("AFTER:a", "AFTER:a"),
        ("after: X , bX", "AFTER:X,bX"),
        ("AFTER:a,b,a OK", "AFTER:a,b"),
        ("AFTER:extract:etl Failed", "AFTER:extract:etl failed"),
        (r"AFTER:two\ words,a\,b,back\\slash any", r"AFTER:two\ words,a\,b,back\\slash any"),
        (r"AFTER:a\  ,  b\\  ,c", r"AFTER:a\ ,b\\,c"),
        ("AFTER:für:etl", "AFTER:für:etl"),
        ("AFTER:a, b failed once:1767582000.5", "AFTER:a,b failed once:1767582000.5"),
        ("AFTER:once:5", "AFTER:once:5"),
        ("AFTER:" + "x" * 512, "AFTER:" + "x" * 512),
        ("AFTER:" + ",".join(map(str, range(64))), "AFTER:" + ",".join(map(str, range(64)))),
    ],
)
def test_a_text_has_the_ids_of_its_parents(text, stored):
    assert parse(text).text == stored
    assert parse(stored).text == stored
    assert parse(text).next(0) is None
    assert list(parse(text).list_due(0, 1e12)) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("AFTER:", "a job id is missing"),
        ("AFTER:a,,b", "a job id is missing"),
        ("AFTER:,", "a job id is missing"),
        ("AFTER:a soon", "'soon': only ok, failed or any may follow"),
        ("AFTER:a b failed", "'b failed': only ok, failed or any may follow"),
        ("AFTER:a any failed", "'any failed': only ok, failed or any may follow"),
        ("AFTER:a once:soon", "'once:soon': only ok, failed or any may follow"),
        ("AFTER:" + ",".join(map(str, range(65))), "65 jobs, 64 are allowed"),
        ("AFTER:a\tb", "control characters"),
        ("AFTER:a," + "x" * 513, "has over 512 bytes, so it is no job id"),
    ],
)
def test_a_bad_text_is_refused(text, why):
    with pytest.raises(BadSchedule, match="bad schedule 'AFTER:") as refused:
        parse(text)
    assert why in str(refused.value)


def make_diamond(redbike, schedule="AFTER:orders,users"):
    """A bike whose report follows two jobs, of which the one whose turn comes first fails in the first hour."""
    work = fail_if(lambda run: run.jobid == "orders" and [job for job, _ in ran].count("orders") == 1)
    bike, ran = make(redbike, work, on_error="reschedule")
    for jobid, text in (("extract", HOURLY), ("orders", "AFTER:extract"), ("users", "AFTER:extract")):
        bike.set(jobid, text)
    bike.set("report", schedule)
    bike.run_due(START + HOUR, reraise=False)
    return bike, ran


# As docs/pipelines.rst says it.
@pytest.mark.parametrize(
    ("mend", "waits_for"),
    [
        (lambda bike: None, ["orders"]),
        (lambda bike: bike.set("report", "AFTER:orders,users"), ["orders"]),
        (lambda bike: bike.run("report"), ["orders"]),
        (lambda bike: (bike.unset("report"), bike.set("report", "AFTER:orders,users")), ["orders", "users"]),
    ],
)
def test_an_end_that_a_failure_has_left_over_counts_until_the_follower_begins_anew(redbike, mend, waits_for):
    bike, ran = make_diamond(redbike)
    assert (ran[-1][0], bike.tell("report")["waits_for"]) == ("users", ["orders"])
    bike.run_due(START + 2 * HOUR)
    assert ran[-1] == ("report", 2 * HOUR)
    mend(bike)
    bike.run_due(START + 2 * HOUR)
    for hours in (3, 4):
        bike.run_due(START + hours * HOUR)
        assert ran[-1] == ("report", hours * HOUR)
        assert bike.tell("report")["waits_for"] == waits_for


def test_a_failed_parent_that_runs_again_leaves_no_end_over(redbike):
    bike, ran = make_diamond(redbike)
    bike.run("orders")
    for hours in (1, 2):
        bike.run_due(START + hours * HOUR)
        assert ran[-1] == ("report", hours * HOUR)
        assert bike.tell("report")["waits_for"] == ["orders", "users"]


def test_any_end_leaves_none_over(redbike):
    bike, ran = make_diamond(redbike, "AFTER:orders,users any")
    assert ran[-1] == ("report", HOUR)
    assert bike.tell("report")["waits_for"] == ["orders", "users"]
    assert [bike.tell(jobid)["runs"][0]["due"] for jobid in ("orders", "users")] == [START + HOUR] * 2


def test_a_follower_runs_for_the_due_time_of_its_parent(redbike):
    bike, ran = make(redbike)
    bike.set("load", "AFTER:extract")
    bike.set("extract", HOURLY)
    assert bike.tell("load")["next_run"] is None
    assert bike.tell("load")["waits_for"] == ["extract"]
    bike.run_due(START + 2 * HOUR)
    assert ran == [(job, hour * HOUR) for hour in (1, 2) for job in ("extract", "load")]
    assert bike.tell("load")["status"].startswith("TML")
    assert list(fsck(bike.store)) == []


def test_a_follower_of_several_waits_for_each_of_them(redbike):
    bike, ran = make(redbike)
    bike.set("daily", "0 6 * * *")
    bike.set("hourly", HOURLY)
    bike.set("both", "AFTER:hourly,daily any")
    bike.run_due(START + 48 * HOUR)
    both = [due for job, due in ran if job == "both"]
    daily = [due for job, due in ran if job == "daily"]
    assert len(daily) == 2
    # The first end of the hourly one came before, so it is due as soon as the daily one has ended.
    assert both == daily
    assert "skipped" not in bike.tell("both")


ENDINGS = {"ok": "AFTER:parent", "failed": "AFTER:parent failed", "any": "AFTER:parent any"}
RETRY = {"on_error": "retry", "retries": 2, "backoff": 10}


@pytest.mark.parametrize(
    ("work", "settings", "followers"),
    [
        pytest.param(fail("parent"), {"on_error": "stop"}, ["any", "failed"], id="failed for good"),
        pytest.param(fail("parent"), {"on_error": "reschedule"}, ["any", "failed"], id="failed and goes on"),
        pytest.param(raising(UnsetJob()), {}, ["any", "ok"], id="unset"),
        pytest.param(fail("parent", until=3), RETRY, ["any", "ok"], id="well after retries"),
        pytest.param(fail("parent"), RETRY, ["any", "failed"], id="failed after retries"),
    ],
)
def test_how_a_parent_has_ended_counts(redbike, work, settings, followers):
    bike, ran = make(redbike, work, **settings)
    bike.set("parent", HOURLY)
    for name, schedule in ENDINGS.items():
        bike.set(name, schedule)
    bike.run_due(START + 1.5 * HOUR, reraise=False)
    assert list(fsck(bike.store)) == []
    assert sorted(job for job, _ in ran if job in ENDINGS) == followers


@pytest.mark.parametrize("place", ["timeline", "paused", "queue"])
@pytest.mark.parametrize("schedule", [HOURLY, f"AT:{START + HOUR}"])
def test_a_parent_that_is_cancelled_between_two_tries_has_ended_as_one_that_is_cancelled_in_flight(
    redbike, schedule, place
):
    bike, ran = make(redbike, fail("parent"), **RETRY)
    bike.set("parent", schedule)
    for name, text in ENDINGS.items():
        bike.set(name, text)
    bike.run_due(START + HOUR, reraise=False)
    if place == "paused":
        bike.pause("parent")
    if place == "queue":
        bike.pause_queue("work-A")
        bike.dispatch_due(START + HOUR + 10)
    assert bike.cancel("parent")[0].word == "cancelled"
    assert bike.tell("any")["next_run"] == START + HOUR
    bike.resume_queue("work-A")
    bike.run_due(START + 1.5 * HOUR)
    assert ran == [("parent", HOUR), ("any", HOUR)]
    assert list(fsck(bike.store)) == []


def test_a_parent_that_is_cancelled_before_its_first_try_has_not_ended(redbike):
    bike, ran = make(redbike)
    bike.set("parent", HOURLY)
    bike.set("any", ENDINGS["any"])
    bike.pause_queue("work-A")
    bike.dispatch_due(START + HOUR)
    assert bike.cancel("parent")[0].word == "cancelled"
    bike.resume_queue("work-A")
    bike.run_due(START + 1.5 * HOUR)
    assert ran == []


def test_a_follower_that_has_failed_for_good_skips_nothing(redbike):
    bike, ran = make_family(redbike, fail("child"))
    bike.run_due(START + 4 * HOUR, reraise=False)
    assert [jobid for jobid, _ in ran] == ["parent", "child", *["parent"] * 3]
    assert "skipped" not in bike.tell("child")


def test_a_parent_may_have_thousands_of_followers(redbike):
    """More than a command of the server has arguments."""
    bike, ran = make(redbike)
    bike.set("parent", HOURLY)
    for _, result in bike.set_many((f"child{number}", "AFTER:parent") for number in range(5000)):
        assert result is True
    bike.run("parent")
    assert bike.dispatch_due(START) == 0
    assert bike.work_one() == "parent"
    assert bike.dispatch_due(START) == 5000
    assert ran == [("parent", 0.0)]


def test_a_cycle_is_refused_by_name_and_changes_nothing(redbike, caplog):
    bike, _ = make(redbike)
    bike.set("a", HOURLY)
    bike.set("b", "AFTER:a")
    bike.set("c", "AFTER:x,b failed")
    before = list(bike.get_schedules())
    assert bike.set("a", "AFTER:c") is False
    assert "the job would wait for itself: a after c after b after a" in caplog.text
    assert bike.set("self", "AFTER:self") is False
    assert list(bike.get_schedules()) == before
    results = dict(bike.set_many([("d", "AFTER:e"), ("e", "AFTER:d"), ("f", "AFTER:d")]))
    assert results["d"] is True
    assert results["f"] is True
    assert "e after d after e" in str(results["e"])
    twice = bike.set_many([("j", "AFTER:k"), ("k", "AFTER:j"), ("k", HOURLY)])
    assert [result is True for _, result in twice] == [True, False, True], "each pair has a result of its own"
    assert list(fsck(bike.store)) == []


@pytest.mark.parametrize("shards", [1, 4])
def test_a_dry_run_refuses_the_cycles_that_a_load_refuses(server_url, prefix, shards, monkeypatch):
    monkeypatch.setattr("redbike.control.sync.chunks.CHUNK", 2)
    bike = Redbike(RoundRobin("A"), prefix, f"{server_url}?max_connections={shards}", shards=shards)
    bike.sync([("a:A", HOURLY), ("b:A", "AFTER:a:A"), ("c:A", "AFTER:b:A"), ("x:A", HOURLY), ("y:A", "AFTER:x:A")])
    pairs = [
        *(("d:A", "AFTER:c:A"), ("e:A", "AFTER:d:A")),
        *(("a:A", "AFTER:e:A"), ("f:A", "AFTER:f:A")),
        # A row that comes before it ends the cycle.
        *(("y:A", HOURLY), ("x:A", "AFTER:y:A")),
        *(("m:A", HOURLY, {"group_of": "g"}), ("n:A", "AFTER:o:A", {"group_of": "g"})),
        *(("o:A", "AFTER:q:A"), ("q:A", "GROUP:g")),
    ]
    wished = bike.sync(pairs, dry_run=True)
    done = bike.sync(pairs)
    assert list(done.bad) == ["a:A", "f:A", "q:A"]
    assert "a:A after e:A after d:A after c:A after b:A after a:A" in str(wished.bad["a:A"])
    assert repr(wished) == repr(done)


def test_unset_of_a_parent_names_its_followers(redbike, caplog):
    bike, _ = make_family(redbike)
    assert bike.unset("parent") is True
    assert "parent is unset; 1 job waits for it: child" in caplog.text
    bike.set("parent", HOURLY)
    bike.run_due(START + HOUR)
    assert bike.tell("child")["runs"]


def test_a_row_that_is_pruned_names_the_followers_that_stay(redbike, caplog):
    bike, _ = make(redbike)
    rows = [("a:A", HOURLY), ("b:A", "AFTER:a:A"), ("c:A", "AFTER:a:A,b:A"), ("d:A", HOURLY)]
    bike.sync(rows, group="g")
    bike.set("e:A", "AFTER:b:A")
    bike.sync([*rows[2:], ("f:A", "AFTER:d:A")], group="g", prune=True)
    said = [record.getMessage() for record in caplog.records if "is unset" in record.getMessage()]
    assert sorted(said) == ["a:A is unset; 1 job waits for it: c:A", "b:A is unset; 2 jobs wait for it: c:A, e:A"]


def test_a_run_whose_job_is_unset_meanwhile_is_followed(redbike):
    foretold = []

    def work(run):
        if run.jobid == "parent":
            bike.unset("parent")
            foretold.append(bike.agenda(hours=1).runs)

    bike, ran = make(redbike, work)
    bike.set("parent", HOURLY)
    for name, schedule in ENDINGS.items():
        bike.set(name, schedule)
    bike.run("parent")
    bike.run_due(START)
    assert sorted(ran) == [("any", 0.0), ("ok", 0.0), ("parent", 0.0)]
    assert foretold == [2]
    assert bike.tell("ok")["waits_for"] == ["parent"]
    assert list(fsck(bike.store)) == []


@pytest.mark.parametrize("setting", ["grace", "catchup"])
def test_a_follower_is_not_late_because_its_parent_took_long(redbike, setting):
    """Nobody could enqueue it before."""
    bike, ran = make_family(redbike, **({"grace": 60} if setting == "grace" else {"catchup": "none"}))
    bike.run_due(START + HOUR - 1)
    store = bike.store
    bike.run_due(START + HOUR)
    assert ran[-1] == ("child", HOUR)
    # As after a parent that took two hours: it is due since then.
    store.client.zadd(store.keys.timeline, {"child": START - HOUR})
    bike.run_due(START + HOUR)
    assert ran[-1] == ("child", -HOUR)
    assert "skipped" not in bike.tell("child")


def test_what_has_expired_when_its_parent_ends_is_counted(redbike):
    bike, ran = make(redbike)
    bike.set("parent", HOURLY)
    bike.set("child", "AFTER:parent", expires="30m")
    # As its parent leaves it that was due at eleven and ends at noon.
    bike.store.client.zadd(bike.store.keys.timeline, {"child": START - HOUR})
    bike.run_due(START)
    assert ran == []
    assert bike.tell("child")["skipped"] == {"expired": 1}
    assert bike.tell("child")["waits_for"] == ["parent"]


def test_a_pause_of_its_queue_before_it_was_due_skips_no_follower(redbike):
    """The due time of its parent is in that pause."""
    bike, ran = make_family(redbike, catchup="none")
    bike.run_due(START + HOUR - 60)
    bike.pause_queue("work-A")
    bike.run_due(START + HOUR + 60)
    bike.resume_queue("work-A")
    bike.run("parent")
    bike.store.client.zadd(bike.store.keys.timeline, {"child": START + HOUR})
    bike.run_due(START + HOUR + 120)
    assert ("child", HOUR) in ran
    assert "skipped" not in bike.tell("child")


@pytest.mark.parametrize(("catchup", "runs"), [("last", 1), ("all", 1), ("none", 0)])
@pytest.mark.parametrize("hours", [1, 3])
def test_of_what_comes_while_a_follower_is_paused_the_latest_is_held(redbike, catchup, runs, hours):
    bike, ran = make_family(redbike, catchup=catchup)
    bike.pause("child")
    assert "held_for" not in bike.tell("child")
    bike.run_due(START + hours * HOUR)
    assert bike.tell("child")["held_for"] == START + hours * HOUR
    assert bike.tell("child").get("skipped", {}).get("paused", 0) == hours - 1
    assert list(fsck(bike.store)) == []
    bike.resume("child")
    bike.run_due(START + (hours + 0.5) * HOUR)
    assert [due for job, due in ran if job == "child"] == [hours * HOUR] * runs
    assert bike.tell("child")["status"].startswith("TML")
    assert bike.tell("child").get("skipped", {}).get("paused", 0) == hours - runs
    bike.run_due(START + (hours + 1) * HOUR)
    assert ran[-1] == ("child", (hours + 1) * HOUR)


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(
    ("verb", "schedule", "options", "after"),
    [
        ("set", "AFTER:first,second", {"spread": "5m"}, None),
        ("sync", "AFTER:first,second", {"spread": "5m"}, None),
        ("sync", "AFTER:first,second", {}, START + HOUR),
        ("set", "AFTER:second,first", {}, None),
        ("sync", "AFTER:second,first", {}, None),
    ],
)
def test_a_follower_keeps_what_has_ended_with_a_new_spread_start_or_order(
    redbike, verb, schedule, options, after, is_paused
):
    def change():
        if verb == "set":
            assert bike.set("both", schedule, **options)
        else:
            bike.sync([("both", schedule, options)], group="a file", after=after)

    bike, ran = make(redbike)
    bike.set("first", HOURLY)
    bike.set("second", "EVERY:90m@0")
    bike.sync([("both", "AFTER:first,second")], group="a file")
    bike.run_due(START + 1.2 * HOUR)
    if is_paused:
        bike.pause("both")
    change()
    bike.resume("both")
    told = bike.tell("both")
    assert (told["schedule"], told["waits_for"], list(fsck(bike.store))) == (schedule, ["second"], [])
    bike.run_due(START + 1.6 * HOUR)
    assert ran[-1] == ("both", 1.5 * HOUR)
    bike.pause("both")
    bike.run_due(START + 3.2 * HOUR)
    assert bike.tell("both")["held_for"] == START + 3 * HOUR
    change()
    assert bike.tell("both")["held_for"] == START + 3 * HOUR
    assert "skipped" not in bike.tell("both")
    bike.resume("both")
    bike.run_due(START + 4.2 * HOUR)
    assert bike.tell("both")["waits_for"] == ["second"]
    # Anything else begins to wait anew.
    bike.set("both", "AFTER:first,second any")
    assert bike.tell("both")["waits_for"] == ["first", "second"]


@pytest.mark.parametrize(
    "steps",
    ["set end", "end set end", "other set end", "pause set resume end", "pause set end resume", "pause end resume"],
)
def test_a_follower_that_is_changed_during_its_run_hears_of_its_parent(client, prefix, steps):
    ran, doing = [], iter(steps.split())

    class Changing(RoundRobin):
        def work(self, jobid):
            ran.append(jobid)
            for step in doing if jobid == "child:A" else ():
                do[step]()
                other.dispatch_due()

    def end():
        other.run("parent:A")
        assert other.work_one() == "parent:A"

    bike, other = (Redbike(worker, prefix, client) for worker in (Changing("A"), Quiet("A")))
    do = {
        "set": lambda: other.set("child:A", "AFTER:parent:A any"),
        "other": lambda: other.set("child:A", "EVERY:1h"),
        "pause": lambda: other.pause("child:A"),
        "resume": lambda: other.resume("child:A"),
        "end": end,
    }
    bike.set("parent:A", "STOP")
    bike.set("child:A", "AFTER:parent:A")
    bike.run("child:A")
    bike.work_one()
    for _ in range(2):
        bike.dispatch_due()
        bike.work_one()
    assert ran == ["child:A"] * 2
    assert bike.tell("child:A")["status"].startswith("TML")
    assert "skipped" not in bike.tell("child:A")
    assert list(bike.fsck()) == []


def test_a_file_may_turn_two_jobs_round(redbike):
    bike, _ = make(redbike)
    bike.sync([("a", HOURLY), ("b", "AFTER:a")])
    changes = bike.sync([("a", "AFTER:b"), ("b", HOURLY)])
    assert changes.bad == {}
    assert dict(bike.get_schedules())["a"] == "AFTER:b"


OTHER = json.dumps({"parents": ["x"], "when": "ok", "ended": {}})
DAMAGE = {
    "its record is gone": lambda client, keys: client.hdel(keys.following, "child"),
    "its record names another": lambda client, keys: client.hset(keys.following, "child", OTHER),
    "its record is damaged": lambda client, keys: client.hset(keys.following, "child", "{"),
    "its parent does not know it": lambda client, keys: client.zrem(keys.followers, "parent\nchild"),
    "it is nowhere": lambda client, keys: client.zrem(keys.timeline, "child"),
    "another job waits": lambda client, keys: client.zadd(keys.timeline, {"parent": AWAITED}),
    "another job has its record": lambda client, keys: client.hset(keys.following, "parent", OTHER),
    "another job has a damaged one": lambda client, keys: client.hset(keys.following, "parent", "{"),
    "an unset job has one": lambda client, keys: client.hset(keys.following, "unset", OTHER),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_and_repaired(redbike, damage):
    bike, ran = make_family(redbike)
    damage(bike.store.client, bike.store.keys)
    assert list(fsck(bike.store))
    repaired(bike)
    assert list(fsck(bike.store)) == []
    bike.run_due(START + HOUR)
    assert ran[-1] == ("child", HOUR)
