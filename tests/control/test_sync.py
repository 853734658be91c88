"""The stored jobs become those of a file or a program: what is the same is not touched, what is not theirs stays."""

import csv
import io
import json
import os
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike import BadConfig, BadJobId, BadSchedule, Change, Changes, Difference, Redbike, RoundRobin
from redbike.config.options import ALL_COLUMNS
from redbike.errors import RedbikeError
from redbike.importers.seen import open_seen
from redbike.store.inspection.fsck import fsck
from tests.loops import raising
from tests.states import unchanged
from tests.testing.worker import START, Worker
from tests.waiting import wait_until

HOURLY = "EVERY:1h@0"


@pytest.fixture
def file(tmp_path):
    """Writes a file of rows, and returns its name."""

    def write(*rows, name="jobs.csv"):
        path = tmp_path / name
        path.write_text("".join(f"{row}\n" for row in rows))
        return str(path)

    return write


def words(changes):
    return [(change.difference, change.jobid) for change in changes]


def stored(bike):
    return dict(bike.get_schedules())


# What is the same


SAME = [
    ("EVERY:1h",),
    ("EVERY:1h@0",),
    ("*/5 * * * *",),
    ("H H * * *",),
    ("FREQ=DAILY;INTERVAL=2",),
    ("DTSTART:20300101T090000Z\\nRRULE:FREQ=DAILY",),
    ("AT:4000000000",),
    ("STOP",),
    ("NOW",),
    ("CONTINUE",),
    (HOURLY, {"retries": 5, "spread": "1m"}),
    (HOURLY, {"data": {"x": [1, 2]}}),
]


def test_it_does_not_touch_jobs_that_are_the_same(bike):
    pairs = [(f"{number}:A", *each) for number, each in enumerate(SAME)]
    assert bike.sync(pairs).added == [jobid for jobid, *_ in pairs]
    with unchanged(bike.store):
        assert bike.sync(pairs) == Changes(unchanged=len(pairs))


@pytest.mark.parametrize(
    ("zone", "tz"),
    [("UTC", None), ("Europe/Berlin", None), ("Europe/Berlin", "UTC"), ("UTC", ZoneInfo("Europe/Berlin"))],
)
def test_it_compares_what_a_schedule_means_in_its_zone(client, prefix, zone, tz):
    bike = Redbike(RoundRobin("A"), prefix, client, timezone=zone)
    pairs = [("cron:A", "30 3 * * *"), ("rule:A", "RRULE:FREQ=DAILY"), ("at:A", "AT:2040-01-01T00:00")]
    assert bike.sync(pairs, tz=tz).added == ["cron:A", "rule:A", "at:A"]
    assert bike.sync(pairs, tz=tz).unchanged == 3
    assert bike.sync(pairs, tz="Asia/Tokyo").changed.keys() == {"cron:A", "rule:A", "at:A"}
    # What Python has for a schedule is one here too.
    objects = [("at:A", datetime(2090, 1, 1, tzinfo=UTC)), ("every:A", timedelta(hours=1))]
    assert bike.sync(objects, tz=tz).added == ["every:A"]
    assert bike.sync(objects, after=None, tz=tz).unchanged == 2
    assert stored(bike)["at:A"] == "AT:2090-01-01T00:00:00Z"


def test_a_job_keeps_its_phase_its_place_its_pause_and_its_failure(bike, client):
    pairs = [("every:A", "EVERY:1h"), ("paused:A", HOURLY), ("queued:A", HOURLY), ("dead:A", "EVERY:1h")]
    bike.sync(pairs)
    bike.pause("paused:A", reason="moving house")
    bike.run("queued:A", "dead:A")
    client.hset(bike.store.keys.statuses, "dead:A", "DIE:1")
    before = [bike.tell(jobid) for jobid, _ in pairs]
    assert bike.sync([*pairs[::-1], ("new:A", HOURLY)]).added == ["new:A"]
    assert bike.sync([("every:A", timedelta(hours=1)), ("dead:A", "EVERY:60m")]) == Changes(unchanged=2)
    assert [bike.tell(jobid) for jobid, _ in pairs] == before


def test_a_one_off_that_has_had_its_run_does_not_run_again(bike):
    pairs = [("now:A", "NOW"), ("past:A", "AT:2020-01-01T00:00:00Z"), ("later:A", "AT:4000000000"), ("in:A", "IN:1h")]
    bike.sync(pairs)
    assert {bike.work_one(), bike.work_one(), bike.work_one()} == {"now:A", "past:A", None}
    instant = bike.tell("in:A")["next_run"]
    assert bike.sync(pairs) == Changes(unchanged=4)
    assert bike.tell("in:A")["next_run"] == instant, "a row counts from when it was set first"
    assert bike.set("in:A", "IN:1h")
    assert bike.tell("in:A")["next_run"] > instant
    assert bike.work_one() is None
    # Another instant is another occurrence.
    assert bike.sync([("past:A", "AT:2021-01-01T00:00:00Z")]).changed == {"past:A": "STOP -> AT:2021-01-01T00:00:00Z"}
    assert bike.work_one() == "past:A"


def test_a_row_with_another_duration_counts_from_now(bike):
    bike.sync([("in:A", "IN:1h")])
    first = bike.tell("in:A")["next_run"]
    assert bike.sync([("in:A", "in:60m")]) == Changes(unchanged=1)
    assert [*bike.sync([("in:A", "IN:5h")]).changed] == ["in:A"]
    assert bike.tell("in:A")["next_run"] > first + 3600
    assert bike.sync([("in:A", "IN:5h")]) == Changes(unchanged=1)
    # A file of what is stored, such as a backup, says the same.
    assert bike.sync([("in:A", bike.tell("in:A")["schedule"])]) == Changes(unchanged=1)
    assert bike.sync([("in:A", "IN:5h")]) == Changes(unchanged=1)
    # The same holds when it has had its run: it runs once, however often it is loaded.
    bike.sync([("in:A", "IN:0.01s")])
    wait_until(lambda: (bike.dispatch_due(), bike.work_one())[1] == "in:A")
    for _ in range(2):
        assert bike.sync([("in:A", "IN:0.01s")]) == Changes(unchanged=1)
        assert bike.tell("in:A")["schedule"] == "STOP"
    assert [*bike.sync([("in:A", "IN:0.02s")]).changed] == ["in:A"]
    wait_until(lambda: (bike.dispatch_due(), bike.work_one())[1] == "in:A")


@pytest.mark.parametrize(
    ("schedule", "when", "change"),
    [
        *(("NOW", when, "both") for when in ("waiting", "running", "over")),
        ("AT:2020-01-01T00:00:00Z", "running", "options"),
        ("AT:2020-01-01T00:00:00Z", "over", "group"),
    ],
)
def test_a_one_off_of_which_something_else_changes_runs_once(client, prefix, schedule, when, change):
    ran = []

    class Worker(RoundRobin):
        def work(self, jobid):
            ran.append(jobid)
            if when == "running":
                again()

    def again():
        options = {} if change == "group" else {"retries": 5}
        group = "one" if change == "options" else "two"
        assert bike.sync([("a:A", schedule, options)], group=group, take=True).changed.keys() == {"a:A"}

    bike = Redbike(Worker("A"), prefix, client)
    bike.sync([("a:A", schedule)], group="one")
    if when == "waiting":
        again()
    while bike.work_one():
        pass
    if when == "over":
        again()
    while bike.work_one():
        pass
    assert ran == ["a:A"]
    assert ("options" in bike.tell("a:A")) == (change != "group")
    assert bike.sync([("a:A", schedule)], group=bike.tell("a:A")["group"]).unchanged == 1
    assert list(fsck(bike.store)) == []


def test_a_one_off_that_was_stopped_before_its_time_is_set_again(bike):
    bike.sync([("later:A", "AT:4000000000")])
    assert bike.sync([("later:A", "AT:2096-10-02T07:06:40Z")]) == Changes(unchanged=1)
    bike.set("later:A", "STOP")
    assert bike.sync([("later:A", "AT:4000000000")]).changed == {"later:A": "STOP -> AT:4000000000"}


# What differs


def test_it_says_what_differs_and_changes_only_that(bike):
    bike.set("a:A", HOURLY, retries=3, timeout=60, data=1, ping_url="http://host/secret")
    bike.set("b:A", "EVERY:1h", grace=7)
    bike.set("c:A", HOURLY, data=1)
    anchor = stored(bike)["b:A"]
    found = bike.sync(
        [
            ("a:A", "EVERY:2h@0", {"retries": 5, "timeout": None, "data": 2, "ping_url": "http://host/other"}),
            ("b:A", "EVERY:1h", {"retries": 1}),
            ("c:A", HOURLY, {"data": None}),
            ("d:A", HOURLY, {"data": 0}),
        ]
    )
    assert found.changed["a:A"].startswith("EVERY:1h@0 -> EVERY:2h@0; ping-url: ")
    assert found.changed["a:A"].endswith("; retries: 3 -> 5; timeout: 60 -> default; data changed")
    assert "secret" not in found.changed["a:A"]
    assert found.changed["b:A"] == "retries: default -> 1"
    assert found.changed["c:A"] == "data removed"
    assert found.added == ["d:A"]
    # What is not given stays.
    assert bike.tell("b:A")["options"] == {"grace": 7, "retries": 1}
    assert stored(bike)["b:A"] == anchor
    assert "data" not in bike.tell("c:A")


def test_a_dry_run_says_the_same_and_changes_nothing(bike):
    bike.sync([("a:A", HOURLY), ("b:A", HOURLY), ("gone:A", HOURLY)])
    pairs = [("a:A", HOURLY), ("b:A", "EVERY:2h@0"), ("c:A", "NOW"), ("bad:A", "whenever")]
    with unchanged(bike.store):
        wished = bike.sync(pairs, prune=True, dry_run=True)
    done = bike.sync(pairs, prune=True)
    assert (str(wished), wished.changed, wished.removed) == (str(done), done.changed, done.removed)
    assert str(done) == "1 added, 1 changed, 1 unchanged, 1 removed, 1 bad"


def test_with_after_its_occurrences_count_from_there(bike):
    bike.sync([("a:A", HOURLY), ("stopped:A", "STOP")])
    due = bike.tell("a:A")["next_run"]
    found = bike.sync([("a:A", HOURLY), ("stopped:A", "STOP")], after=due - 7300)
    assert (found.changed, found.unchanged) == ({"a:A": "its occurrences count from another instant"}, 1)
    assert bike.work_one() == "a:A"


# What is bad


def test_what_is_bad_is_told_and_changes_nothing_of_a_job_that_is_there(bike, caplog):
    bike.set("a:A", HOURLY)
    rows = [
        ("a:A", "whenever"),
        ("a\n:A", HOURLY),
        ("a:", HOURLY),
        ("\udc80", HOURLY),
        ("b:A", HOURLY, {"retries": "many"}),
    ]
    with unchanged(bike.store):
        found = bike.sync(rows)
    assert [type(error) for error in found.bad.values()] == [BadSchedule, BadJobId, BadJobId, BadJobId, BadConfig]
    assert caplog.messages == [f"sync: {jobid!r}: {error}" for jobid, error in found.bad.items()]
    assert bike.sync([("new:A", "whenever")]).bad.keys() == {"new:A"}
    assert bike.tell("new:A")["status"] is None


def test_an_id_that_comes_twice_is_refused_the_second_time_also_much_later(bike):
    pairs = [("a:A", HOURLY), ("a:A", "EVERY:2h@0"), *((f"{n}:A", HOURLY) for n in range(1100)), ("a:A", HOURLY)]
    found = bike.sync(pairs)
    assert "another row before this one has the same job id" in str(found.bad["a:A"])
    assert (len(found.added), len(found.bad)) == (1101, 1)
    assert stored(bike)["a:A"] == HOURLY


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("a:A", datetime(2090, 1, 1)), "naive"),
        *((pair, "") for pair in ("a:A", ("a:A",), ("a:A", None), ("a:A", 7), (7, HOURLY), ("a:A", HOURLY, {}, 1))),
        (("a:A", HOURLY, {5: 1}), "unexpected option 5: "),
        (("a:A", HOURLY, None), "bad options None of the job 'a:A': a dict is needed"),
        # As a database gives rows: its keys would be the job of a row, and the job itself would have none.
        ({"jobid": "a:A", "schedule": HOURLY}, "bad pair {'jobid': 'a:A', "),
        ({"a:A", HOURLY}, "bad pair {'"),
    ],
)
def test_what_is_no_pair_is_a_type_error_and_changes_nothing(bike, pair, said):
    bike.sync([("a:A", HOURLY)])
    with unchanged(bike.store), pytest.raises(TypeError) as refused:
        bike.sync([("b:A", HOURLY), pair], prune_all=True)
    assert said in str(refused.value)


@pytest.mark.parametrize("group", ["", "a\nb", "x" * 5000, 7, None])
def test_a_group_is_one_line_of_text(bike, group):
    with pytest.raises(BadConfig, match="bad group"):
        bike.sync([], group=group)


# Whose jobs are removed


def test_only_what_the_same_group_has_set_is_removed(bike, file):
    bike.set("mine:A", HOURLY)
    bike.sync([("other:A", HOURLY)], group="other")
    bike.sync([("a:A", HOURLY), ("b:A", HOURLY), ("taken:A", HOURLY)])
    list(bike.load(file(f"taken:A,{HOURLY}", f"file:A,{HOURLY}"), take=True))
    assert bike.sync([("a:A", HOURLY)]).removed == []
    assert bike.sync([("a:A", HOURLY)], prune=True, dry_run=True).removed == ["b:A"]
    assert bike.sync([("a:A", HOURLY)], prune=True).removed == ["b:A"]
    assert stored(bike).keys() == {"mine:A", "other:A", "a:A", "taken:A", "file:A"}
    assert bike.tell("a:A")["group"] == "sync"
    assert "group" not in bike.tell("mine:A")
    assert bike.sync([], prune_all=True, group="other").removed == ["other:A"]
    assert list(fsck(bike.store)) == []


def test_a_job_that_was_unset_and_set_by_hand_is_nobodys_and_what_was_never_set_is_free(bike):
    bike.sync([("a:A", HOURLY), ("b:A", HOURLY)])
    bike.unset("a:A")
    bike.set("a:A", HOURLY)
    bike.set("b:A", "EVERY:2h@0")
    assert bike.sync([], prune_all=True).removed == ["b:A"]
    list(bike.load([("c:A", "whenever")], group="one", mark_bad=True))
    assert bike.sync([("c:A", HOURLY)], group="two").added == ["c:A"]


@pytest.mark.parametrize("schedule", [HOURLY, "EVERY:2h@0", "whenever"])
def test_a_job_of_another_group_is_refused_unless_it_is_to_be_taken(bike, schedule):
    bike.sync([("a:A", HOURLY)], group="one")
    with unchanged(bike.store):
        for prune in (False, True):
            found = bike.sync([("a:A", schedule)], group="two", prune=prune)
            assert (found.changed, found.unchanged, found.bad.keys()) == ({}, 0, {"a:A"})
    said = "it is a row of the group 'one', not of 'two': --take (take=True) takes it over"
    assert str(found.bad["a:A"]) == said
    assert bike.sync([("a:A", HOURLY)], group="two", take=True).changed == {"a:A": "group: one -> two"}
    assert bike.sync([], group="one", prune_all=True).removed == []
    assert bike.sync([], group="two", prune_all=True).removed == ["a:A"]


RETRY = {"on_error": "retry", "retries": 1, "backoff": "1h"}
COUNT = "FREQ=SECONDLY;COUNT=20"


def wait(bike):
    for queue in ("A", "A@web1"):
        bike.pause_queue(queue)


def hold(bike):
    bike.pause(*(jobid for jobid in stored(bike) if jobid.startswith("last:")))


@pytest.mark.parametrize("jobid", ["last:A", "last:A@all"])
@pytest.mark.parametrize(
    ("schedule", "prepare", "options", "stays"),
    [
        # The run is due after its occurrence.
        *((schedule, None, {"spread": "10h"}, True) for schedule in ("IN:20s", COUNT)),
        *((schedule, None, {"spread": "10h"}, False) for schedule in ("IN:1h", "EVERY:20s")),
        *(("IN:20s", prepare, {}, True) for prepare in (wait, Redbike.pause_all, hold)),
        (COUNT, wait, {}, True),
        ("IN:20s", None, RETRY, True),
        (COUNT, None, RETRY, True),
        # It has failed for good, has no time that passes, is not due yet, or another one follows.
        ("IN:20s", None, {}, False),
        ("NOW", wait, {}, False),
        ("IN:1h", wait, {}, False),
        *(("EVERY:20s", *given, False) for given in ((wait, {}), (None, RETRY), (None, {}))),
    ],
)
def test_what_has_come_due_for_the_last_time_is_not_pruned_before_it_has_ended(
    redbike, caplog, schedule, prepare, options, stays, jobid
):
    bike = redbike(Worker(raising(OSError())), now=START, host="web1")
    bike.sync([("a:A", HOURLY), (jobid, schedule, options)])
    if prepare:
        prepare(bike)
    bike.run_due(timedelta(seconds=30), reraise=False)
    caplog.clear()
    with unchanged(bike.store):
        wished = bike.sync([("a:A", HOURLY)], prune=True, dry_run=True).removed
    assert wished == bike.sync([("a:A", HOURLY)], prune=True).removed == [jobid] * (not stays)
    said = f"not removed, as the last occurrence has not ended: {jobid}; unset what is not needed"
    assert caplog.messages == [said] * 2 * stays
    assert list(fsck(bike.store)) == []


def test_a_one_off_on_every_host_that_is_over_is_pruned(redbike):
    bike = redbike(Worker(), now=START)
    bike.sync([("a:A", HOURLY), ("last:A@all", "IN:20s")])
    bike.run_due(timedelta(days=3))
    assert bike.sync([("a:A", HOURLY)], prune=True).removed == ["last:A@all"]


@pytest.mark.parametrize(("schedule", "stays"), [("NOW", False), ("IN:20s", True), ("EVERY:20s", False)])
def test_a_last_run_in_flight_is_not_pruned_but_what_has_ended_is(redbike, schedule, stays):
    removed = []
    bike = redbike(Worker(lambda run: removed.extend(bike.sync([], prune_all=True).removed)), now=START)
    bike.sync([("last:A", schedule)])
    bike.run_due(timedelta(seconds=20))
    assert removed == ["last:A"] * (not stays)
    assert bike.sync([], prune_all=True).removed == ["last:A"] * stays


@pytest.mark.parametrize(
    ("has", "gone", "is_refused"),
    [(1, 1, True), (2, 1, False), (5, 5, True), (6, 5, False), (7, 6, True), (59, 6, True), (60, 6, False)],
)
def test_too_many_jobs_are_not_pruned_unasked(bike, file, has, gone, is_refused):
    rows = [f"{n}:A,{HOURLY}" for n in range(has)]
    list(bike.load(file(*rows)))
    rows = file(*rows[gone:])
    pairs = [(f"{n}:A", HOURLY) for n in range(gone, has)]
    with unchanged(bike.store):
        wished = list(bike.sync_file(rows, prune=True, dry_run=True))
        assert [change.difference for change in wished].count("removed") == gone
        assert len(bike.sync(pairs, prune=True, group=rows, dry_run=True).removed) == gone
        if is_refused:
            why = (
                f"no job is removed: {gone} of the {has} jobs of the group '{rows}' have no row here;"
                " --prune-all (prune_all=True) removes them anyway"
            )
            assert str(wished[-1].error) == str(list(bike.sync_file(rows, prune=True))[-1].error) == why
            with pytest.raises(BadConfig, match="no job is removed"):
                bike.sync(pairs, prune=True, group=rows)
    found = list(bike.sync_file(rows, prune=not is_refused, prune_all=is_refused))
    assert [change.difference for change in found].count("removed") == gone
    assert len(stored(bike)) == has - gone


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_dry_run_counts_the_rows_that_join_before_it_says_that_too_many_are_gone(bike, caplog, is_taken):
    bike.sync([("old:A", HOURLY)], group="g")
    if is_taken:
        bike.sync([("new:A", HOURLY)], group="other")
    wished, done = (
        bike.sync([("new:A", HOURLY)], group="g", prune=True, take=True, dry_run=is_dry) for is_dry in (True, False)
    )
    assert (repr(wished), caplog.text) == (repr(done), "")
    assert done.removed == ["old:A"]


@pytest.mark.parametrize(("has", "is_refused"), [(0, False), (5, False), (6, True)])
def test_what_stays_as_it_has_not_ended_does_not_count_as_gone(redbike, caplog, has, is_refused):
    bike = redbike(Worker(), now=START)
    wait(bike)
    last, kept = [(f"last{n}:A", "IN:20s") for n in range(7)], [(f"kept{n}:A", HOURLY) for n in range(9)]
    bike.sync([*last, *kept, *((f"gone{n}:A", HOURLY) for n in range(has))])
    bike.run_due(timedelta(seconds=30))
    why = f"no job is removed: {has} of the {has + 9} jobs of the group 'sync' have no row here; --prune-all"
    assert len(bike.sync(kept, prune=True, dry_run=True).removed) == has
    assert (why in caplog.text) == is_refused
    with pytest.raises(BadConfig, match=why) if is_refused else nullcontext():
        assert len(bike.sync(kept, prune=True).removed) == has


def test_a_bad_row_keeps_its_job_and_one_without_an_id_keeps_all(bike, file):
    list(bike.load(file(f"a:A,{HOURLY}", f"b:A,{HOURLY}")))
    for rows in (["a:A,whenever"], ["jobid,schedule,retries", f"a:A,{HOURLY},many"]):
        found = list(bike.sync_file(file(*rows), prune=True))
        assert words(found) == [("bad", "a:A"), ("removed", "b:A")]
        list(bike.load(file(f"b:A,{HOURLY}")))


WHOSE = [
    "a:A,NOW,",
    "a:A ,NOW",
    "a:,NOW",
    "a\0:A,NOW",
    "\udcff:A,NOW",
    "# a:A,NOW",
    'c:A,"NOW\nb:A,NOW\na:A,NOW"',
    'jobid,schedule,retries\nc:A,"NOW\nb:A,NOW,",many',
]


@pytest.mark.parametrize("text", WHOSE)
def test_no_job_is_removed_if_nobody_can_tell_whose_row_one_is(bike, tmp_path, text):
    path = tmp_path / "jobs.csv"
    path.write_text(f"a:A,{HOURLY}\nb:A,{HOURLY}\n")
    list(bike.load(str(path)))
    path.write_bytes(f"{text}\n".encode(errors="surrogateescape"))
    *_, bad, why = bike.sync_file(str(path), prune=True)
    assert (bad.difference, bad.is_note, why.is_note) == ("bad", False, True)
    assert str(why.error) == f"no job is removed, because line {bad.line} is unreadable and may be the row of one"
    assert stored(bike).keys() == {"a:A", "b:A"}
    assert [found[1] for found in bike.load(str(path), prune=True)][-1] == ""


def test_an_id_that_is_none_is_named_and_a_program_with_one_removes_no_job(bike, file, caplog):
    [change] = bike.sync_file(file(f",{HOURLY}"))
    assert (change.difference, str(change.error)) == ("bad", "bad job id '': it has 0 bytes, 1 to 512 are allowed")
    bike.sync([("a:A", HOURLY), ("b:A", HOURLY)])
    changes = bike.sync([("a:A ", HOURLY)], prune=True)
    assert (changes.removed, [*changes.bad], str(changes)) == ([], ["a:A "], "1 bad")
    said = "sync: no job is removed, because line 1 is unreadable and may be the row of one"
    assert (len(caplog.messages), caplog.messages[1]) == (2, said)


def test_a_job_that_was_never_set_is_gone_with_its_row(bike, file):
    found = bike.sync_file(file("a:A,whenever", f"b:A,{HOURLY}"), mark_bad=True)
    assert words(found) == [("bad", "a:A"), ("added", "b:A")]
    assert list(fsck(bike.store)) == []
    assert words(bike.sync_file(file(f"b:A,{HOURLY}"), prune=True)) == [("unchanged", "b:A"), ("removed", "a:A")]
    assert [jobid for jobid, _ in bike.store.catalog.list_statuses()] == ["b:A"]
    assert list(fsck(bike.store)) == []


def test_a_job_whose_blackout_alone_is_bad_does_not_get_the_status_of_a_bad_schedule(bike, file):
    blackouts = [f'"{{""every"": ""{every}"", ""seconds"": 3600}}"' for every in ("NOW", "H 3 * * *", "whenever")]
    rows = [f"{number}:A,{HOURLY},{blackout}" for number, blackout in enumerate(blackouts)]
    found = bike.sync_file(file("jobid,schedule,blackout", *rows, "bad:A,whenever,"), mark_bad=True)
    assert [change.difference for change in found] == ["bad"] * 4
    assert [jobid for jobid, _ in bike.store.catalog.list_statuses()] == ["bad:A"]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("AT:2020-01-01T00:00:00Z", "AT:1577836800"),
        ("AT:1577836800.0", "AT:2020-01-01T01:00:00+01:00"),
        ("NOW", "NOW"),
    ],
)
def test_a_one_off_does_not_run_again_if_its_row_spells_its_instant_another_way(bike, file, first, other):
    list(bike.load(file(f"a:A,{first}")))
    assert bike.work_one() or (bike.dispatch_due(), bike.work_one())
    assert words(bike.sync_file(file(f"a:A,{other}"))) == [("unchanged", "a:A")]
    # As after a file of what is stored, such as a backup, was loaded.
    assert words(bike.sync_file(file("a:A,STOP", name="backup.csv"), take=True)) == [("changed", "a:A")]
    assert words(bike.sync_file(file(f"a:A,{other}"), take=True)) == [("changed", "a:A")]
    assert stored(bike) == {"a:A": "STOP"}
    assert words(bike.sync_file(file("a:A,AT:1577836801"))) == [("changed", "a:A")]
    assert stored(bike) == {"a:A": "AT:1577836801"}


def test_many_jobs_need_one_connection_and_do_not_flood_the_log(server_url, client, prefix):
    bike = Redbike(RoundRobin("A"), prefix, f"{server_url}?max_connections=1", noted_as="me@here")
    names = [f"{n}:A" for n in range(2500)]
    assert bike.sync((jobid, HOURLY) for jobid in names).added == names
    assert len(bike.sync((jobid, "EVERY:2h@0") for jobid in names).changed) == 2500
    entries = list(bike.log())
    assert entries[0].detail == "sync: 2500 changed"
    assert 1000 <= len([entry for entry in entries if entry.action == "set"]) < 1600
    left = names[::2]
    bike = Redbike(RoundRobin("A"), prefix, client)
    assert sorted(bike.sync(((jobid, "NOW") for jobid in left), prune_all=True).removed) == sorted(names[1::2])
    assert dict(bike.get_schedules()) == dict.fromkeys(left, "NOW")


# Files


def test_a_file_is_its_full_path_and_a_pipe_is_nobody(bike, file, tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = file(f"a:A,{HOURLY}", name="one/jobs.csv")
    list(bike.load(first))
    # A file of the same name in another folder is another file.
    list(bike.load(file(f"b:A,{HOURLY}", name="two/jobs.csv"), prune=True))
    assert stored(bike).keys() == {"a:A", "b:A"}
    monkeypatch.chdir(tmp_path / "one")
    open("jobs.csv", "w").close()
    assert words(bike.sync_file("jobs.csv", prune_all=True)) == [("removed", "a:A")]
    with pytest.raises(BadConfig, match="nothing can be pruned without a group"):
        bike.sync_file(io.StringIO(""), prune=True)
    with pytest.raises(BadConfig, match="nothing can be pruned without a group"):
        bike.load("/dev/null", prune=True)
    assert words(bike.sync_file(io.StringIO(""), prune_all=True, group=str(tmp_path / "two" / "jobs.csv"))) == [
        ("removed", "b:A")
    ]


def test_the_path_of_a_file_may_hold_anything(bike, tmp_path):
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"a\nb\xff.csv"))
    with open(path, "w") as out:
        out.write(f"a:A,{HOURLY}\n")
    list(bike.load(path))
    assert bike.tell("a:A")["group"] == f"{tmp_path}/a\\nb\\xff.csv"
    open(path, "w").close()
    assert words(bike.sync_file(path, prune_all=True)) == [("removed", "a:A")]


def test_load_takes_what_sync_takes_too(bike):
    pairs = [("a:A", HOURLY), ("b:A", HOURLY, {"retries": 5}), ("bad:A", "whenever")]
    found = list(bike.load(iter(pairs)))
    assert [(line, jobid, result is True) for line, jobid, result in found] == [
        (1, "a:A", True),
        (2, "b:A", True),
        (3, "bad:A", False),
    ]
    assert "group" not in bike.tell("a:A")
    assert words(bike.sync_file(pairs[:1], group="x", prune=True)) == [("unchanged", "a:A")]
    assert bike.tell("a:A")["group"] == "x"
    for wrong in (7, None, b"jobs.csv"):
        with pytest.raises(BadConfig, match="cannot read"):
            list(bike.load(wrong))


def test_a_change_names_its_line_and_what_others_left_damaged_is_changed(bike, file):
    [added, bad] = bike.sync_file(file("jobid,schedule", f"a:A,{HOURLY}", "b:A,whenever"))
    assert added == Change(Difference.ADDED, "a:A", HOURLY, 2)
    assert (bad.difference, bad.line, type(bad.error)) == (Difference.BAD, 3, BadSchedule)
    bike.client.hset(bike.store.keys.options, "a:A", "garbage")
    bike.client.hset(bike.store.keys.schedules, "a:A", b"\xff")
    [changed] = bike.sync_file(file(f"a:A,{HOURLY}"))
    assert changed.detail.endswith(" -> EVERY:1h@0")


def test_ids_that_were_seen_are_found_however_many_and_a_full_disk_is_one_clear_error():
    with open_seen() as ids:
        assert ids.add(["a", "é", "\udc80", "a"]) == [True, True, True, False]
        assert ids.add(["é", *map(str, range(2000, 4000)), "2000"]) == [False, *[True] * 2000, False]
        assert ids.find(["b", *map(str, range(2000)), "é", "\udc80"]) == {"é", "\udc80"}
    with open_seen() as ids:
        ids._database.execute("PRAGMA max_page_count = 3")
        with pytest.raises(RedbikeError, match=r"cannot remember the ids of the jobs in a temporary file: .* full"):
            ids.add([f"{n:0500d}" for n in range(1000)])


# Pauses


def make_file(*rows):
    """An open file with these rows, the first of which is its header."""
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    file.seek(0)
    return file


def export(bike):
    """A file with all jobs."""
    return make_file(ALL_COLUMNS, *sorted(bike.get_rows()))


def test_a_move_keeps_pauses(bike, client, prefix):
    """The jobs are due at once in their new place, and do not run; one ends its pause by itself, one has ended it."""
    for number, (schedule, *_) in enumerate(SAME):
        bike.set(f"{number}:A", schedule)
        bike.pause(f"{number}:A", reason='it sends, mail "twice"', until=4e9 if number % 2 else None)
        bike.pause(f"{number}:A", every="0 2 * * sat", lasting=7200 + number % 2, reason="backup")
    bike.set("other:A", HOURLY)
    rows = export(bike).getvalue()
    assert words(bike.sync_file(io.StringIO(rows))) == [("unchanged", jobid) for jobid in sorted(stored(bike))]
    moved = Redbike(RoundRobin("A"), f"{prefix}-moved", client)
    assert [change.difference for change in moved.sync_file(io.StringIO(rows), after=0)] == ["added"] * (len(SAME) + 1)
    assert export(moved).getvalue() == rows
    assert moved.work_one() == "other:A"
    assert moved.work_one() is None
    assert list(fsck(moved.store)) == []
    assert client.zcard(moved.store.keys.timers) == len(SAME) // 2 + len(SAME)
    assert client.hlen(moved.store.keys.blackouts) == len(SAME)
    assert {word for _, word in moved.resume("*")} >= {"queue", "timeline"}
    assert list(fsck(moved.store)) == []


@pytest.mark.parametrize("every", ["0 2 * * sat", "CRON_TZ=Asia/Tokyo 0 2 * * sat", "FREQ=YEARLY", "EVERY:400d"])
def test_what_is_loaded_in_utc_keeps_its_times_where_files_are_in_another_zone(bike, client, prefix, every):
    bike.set("a:A", "0 3 * * *")
    bike.pause("a:A", every=every, lasting="1h")
    moved = Redbike(RoundRobin("A"), f"{prefix}-moved", client, timezone="Europe/Berlin")
    for tz, difference in (("UTC", "added"), ("UTC", "unchanged"), (None, "unchanged")):
        assert words(moved.sync_file(export(bike if tz else moved), tz=tz)) == [(difference, "a:A")]
        wanted, *found = (next(iter(each.store.blackouts.list_all().values())) for each in (bike, moved))
        assert [each.find(wanted.since) for each in found] == [wanted.find(wanted.since)]
    # It is stored without a zone, as before the setting was changed.
    changed = Redbike(RoundRobin("A"), prefix, client, timezone="Europe/Berlin")
    assert words(changed.sync_file(export(bike), tz="UTC")) == [("changed", "a:A")]
    assert words(changed.sync_file(export(changed))) == [("unchanged", "a:A")]


def test_a_blackout_that_is_loaded_again_keeps_its_phase(bike):
    def load(**more):
        cell = json.dumps({"every": "EVERY:4h", "seconds": 600, **more})
        return words(bike.sync_file(make_file(("jobid", "schedule", "blackout"), ("a:A", HOURLY, cell))))

    assert load() == [("added", "a:A")]
    [every] = [each.every for each in bike.store.blackouts.list_all().values()]
    assert load() == [("unchanged", "a:A")]
    assert load(reason="x") == [("changed", "a:A")]
    assert [(each.every, each.reason) for each in bike.store.blackouts.list_all().values()] == [(every, "x")]


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("paused", '{"reason": "moving house"}', "paused: moving house"),
        ("blackout", '{"every": "0 FAR * * *", "seconds": 3600}', "paused every 0 FAR * * * for 1 h"),
    ],
)
def test_a_file_pauses_a_job_that_is_there_and_resumes_none(bike, column, cell, said):
    # At an hour in which the blackout is not on while the test runs.
    far = datetime.fromtimestamp(bike.store.timeline.read_clock() + 6 * 3600, UTC).hour
    cell, said = (text.replace("FAR", str(far)) for text in (cell, said))

    def rows():
        return make_file(("jobid", "schedule", column), ("a:A", HOURLY, cell), ("b:A", HOURLY, ""))

    bike.sync([("a:A", HOURLY), ("b:A", HOURLY)])
    bike.run("a:A")
    bike.pause("b:A")
    bike.pause("b:A", every="0 3 * * *", lasting="1h")
    before = bike.tell("b:A")
    for dry_run in (True, False):
        assert [change.detail for change in bike.sync_file(rows(), dry_run=dry_run)] == [said, ""]
    assert words(bike.sync_file(rows())) == [("unchanged", "a:A"), ("unchanged", "b:A")]
    told = bike.tell("a:A")
    assert told["paused"]["reason"] == "moving house" if column == "paused" else told["blackouts"]
    assert bike.tell("b:A") == before
    assert (bike.work_one() is None) == (column == "paused")
    assert list(fsck(bike.store)) == []


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(("paused", cell) for cell in ("[", "[]", '{"untill": 1}', '{"until": "soon"}', '{"since": true}')),
        *(("paused", cell) for cell in ('{"since": -1}', '{"reason": "a\\nb"}', '{"every": 1}', '{"own_end": "soon"}')),
        *(("blackout", cell) for cell in ("2h", "[]", "{}", '{"every": "0 2 * * *"}', '{"every": 1, "seconds": 60}')),
        ("blackout", '{"every": "0 2 * * *", "seconds": 60, "for": 1}'),
        ("blackout", '{"every": "EVERY:1m", "seconds": 60}'),
        ("blackout", '{"every": "AFTER:a:A", "seconds": 60}'),
        ("blackout", '{"every": "ALL:0 3 * * *", "seconds": 60}'),
        ("blackout", '{"every": "@daily", "seconds": 0}'),
        ("blackout", '{"every": "@daily", "seconds": 60, "reason": "a\\nb"}'),
    ],
)
def test_a_cell_that_is_no_pause_is_refused(bike, column, cell):
    over = '{"until": 1}' if column == "paused" else ""
    bad, added = bike.sync_file(make_file(("jobid", "schedule", column), ("a:A", HOURLY, cell), ("b:A", HOURLY, over)))
    assert str(bad.error).startswith(f"bad paused {cell!r}: " if column == "paused" else "bad ")
    # A pause that is over is none.
    assert (words([added]), stored(bike).keys()) == ([("added", "b:A")], {"b:A"})
    assert "paused" not in bike.tell("b:A")
    assert bike.store.blackouts.list_all() == {}


def test_a_row_that_is_refused_neither_pauses_its_job_nor_changes_anything_else(bike):
    bike.sync([("a:A", HOURLY), ("b:A", "AFTER:a:A")])
    row = ("a:A", "AFTER:b:A", '{"reason": "x"}', '{"every": "0 2 * * *", "seconds": 3600}')
    with unchanged(bike.store):
        assert words(bike.sync_file(make_file(("jobid", "schedule", "paused", "blackout"), row))) == [("bad", "a:A")]


# The log


def test_the_log_has_who_has_changed_what_by_a_file(client, prefix, file):
    bike = Redbike(RoundRobin("A"), prefix, client, noted_as="me@here")
    name = file(f"a:A,{HOURLY}", f"b:A,{HOURLY}", f"c:A,{HOURLY}")
    list(bike.load(name))
    list(bike.load(file("a:A,EVERY:2h@0", "b:A,EVERY:3h@0"), prune=True))
    found = [(entry.action, entry.jobid, entry.detail) for entry in bike.log()]
    assert found == [
        ("load", "", f"{name}: 2 changed, 1 removed"),
        ("unset", "c:A", HOURLY),
        ("set", "b:A", f"{HOURLY} -> EVERY:3h@0"),
        ("set", "a:A", f"{HOURLY} -> EVERY:2h@0"),
        ("load", "", f"{name}: 3 added"),
    ]
    # Where nothing is changed, nothing is noted.
    list(bike.load(file("a:A,EVERY:2h@0", "b:A,EVERY:3h@0"), prune=True))
    list(bike.sync_file(file("a:A,EVERY:4h@0"), prune=True, dry_run=True))
    assert len(list(bike.log())) == len(found)


@pytest.mark.parametrize("rows", [10, 1300])
def test_of_a_file_that_cannot_be_read_to_its_end_all_chunks_before_that_are_set(bike, file, rows):
    list(bike.sync_file(file(f"old:A,{HOURLY}")))
    name = file(*(f"{n}:A,{HOURLY}" for n in range(rows)), "x" * 1024 * 1024)
    for difference in (Difference.ADDED, Difference.UNCHANGED):
        said = []
        with pytest.raises(BadConfig, match="a line has 1048576 characters"):
            said.extend(change for change in bike.sync_file(name, prune=True))
        assert {change.difference for change in said} == ({difference} if rows >= 500 else set())
        assert len(stored(bike)) == rows // 500 * 500 + 1


@pytest.mark.parametrize("call", ["sync", "set_many"])
def test_it_is_said_of_a_job_of_many_that_nothing_is_left_to_run(bike, caplog, call):
    """It is stored, as its rule was good, or its time."""
    rows = [("past:A", "DTSTART:20200101T000000Z RRULE:FREQ=DAILY;COUNT=3".replace(" ", "\n")), ("off:A", "STOP")]
    rows.append(("fine:A", "EVERY:1h"))
    for _ in range(2):
        list(bike.set_many(rows)) if call == "set_many" else bike.sync(rows)
    said = [record.getMessage() for record in caplog.records if "nothing is left" in record.getMessage()]
    assert len(said) == (2 if call == "set_many" else 1)
    assert said[0].startswith("past:A: nothing is left to run of 'DTSTART:20200101T000000Z")
    caplog.clear()
    list(bike.set_many([("once:A", "AT:2030-01-01T00:00:00Z")], after=2_000_000_000))
    assert "once:A: nothing is left to run of 'AT:" in caplog.text


@pytest.mark.parametrize("call", ["set", "sync", "set_many"])
def test_it_is_not_said_while_the_last_occurrence_waits(bike, caplog, call):
    rule, options = "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=1", {"note": "the last one"}
    bike.set("a:A", rule, after=0)
    assert bike.tell("a:A")["status"].startswith("ENQ:")
    if call == "set":
        bike.set("a:A", rule, **options)
    else:
        rows = [("a:A", rule, options)]
        list(bike.set_many(rows)) if call == "set_many" else bike.sync(rows)
    assert (bike.tell("a:A")["status"][:4], bike.tell("a:A")["options"]) == ("ENQ:", options)
    assert caplog.messages == []


def test_a_new_job_after_a_group_waits_for_jobs_that_join_it_in_the_same_file(bike):
    bike.sync([("a", HOURLY)])
    bike.sync([("a", HOURLY, {"group_of": "g"}), ("then", "GROUP:g")])
    assert bike.tell("then")["follows_group"]["left"] == 1
    assert bike.tell("then")["status"].startswith("TML")
