"""Backfills: which occurrences run, in which order, and what ends them. The clock stands still, and is moved."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from redbike import BadConfig, BadJobId, NoSuchJob, RoundRobin, Settings, UnsetJob
from redbike.commands import Commands
from redbike.control.backfilling import backfill
from redbike.control.setter import Setter
from redbike.store.backfill import describe_progress, make_jobid
from redbike.store.inspection.fsck import fsck
from redbike.store.store import Store
from tests.control import test_following
from tests.control.test_following import HOUR, HOURLY, START, One, fail_if
from tests.states import untouched

DAY = 86400.0


# With the job of which it is an occurrence, and hours.
make = partial(test_following.make, show=lambda run: (run.base, (run.due - START) / HOUR))


def start(bike, hours=5, **more):
    bike.set("a", HOURLY, **more)
    return bike.backfill("a", START - hours * HOUR, START)


def is_clean(bike, kept=()):
    """Whether nothing is left of a backfill but its record, and the links of these followers."""
    names = {name.decode() for name in bike.client.hkeys(bike.store.keys.following) if not name.endswith(b"\ndone")}
    links = [link for link in bike.client.zrange(bike.store.keys.followers, 0, -1) if b"@" in link or b"\x1e" in link]
    return (names - {*kept}, links, list(fsck(bike.store))) == (set(), [], [])


def test_the_occurrences_of_a_range_run_oldest_first_each_with_its_own_due_time(redbike):
    bike, ran = make(redbike)
    found = start(bike)
    assert [(due - START) / HOUR for due in found.dues] == list(range(-5, 1))
    told = bike.tell("a")["backfill"]
    assert (told["of"], told["done"], told["left"], told["running"]) == (6, 0, 5, [START - 5 * HOUR])
    assert ". Its backfill goes on beside that: 0 of 6 done, 1 begun, 5 left: " in bike.why("a")
    first = make_jobid("a", START - 5 * HOUR)
    assert (bike.tell(first)["backfill_of"], bike.why(first)) != ("", "")
    bike.run_due()
    assert ran == [("a", hour) for hour in range(-5, 1)]
    assert "backfill" not in bike.why("a")
    told = bike.tell("a")
    assert ("backfill" in told, told["next_run"], told.get("runs")) == (False, START + HOUR, None)
    last = told["last_backfill"]
    assert (describe_progress(last), last["cancelled"]) == ("6 of 6 done", False)
    assert is_clean(bike)
    # Its occurrences are forgotten soon.
    assert bike.store.at(START + 3601).timeline.forget()[0] == 6
    assert [jobid for jobid, *_ in bike.get_statuses()] == ["a"]
    with pytest.raises(BadConfig, match=r"nothing to run: .*, 6 have succeeded"):
        bike.backfill("a", START - 5 * HOUR, START)


def test_none_runs_twice_that_has_ended_well_and_what_has_failed_runs_again(redbike):
    broken = [-3.0]
    bike, ran = make(redbike, fail_if(lambda run: (run.due - START) / HOUR in broken))
    start(bike)
    bike.run_due(reraise=False)
    assert bike.tell("a")["last_backfill"]["failed"] == 1
    assert bike.tell(make_jobid("a", START - 3 * HOUR))["status"].startswith("DIE")
    ran.clear()
    found = bike.backfill("a", START - 7 * HOUR, START)
    assert (len(found.dues), found.done) == (3, 5)
    broken.clear()
    bike.run_due()
    assert [hour for _, hour in ran] == [-7, -6, -3]
    bike.run_due(START + 2 * HOUR)
    with pytest.raises(BadConfig, match=r"nothing to run: .*10 have succeeded"):
        bike.backfill("a", START - 7 * HOUR, START + 2 * HOUR)
    ran.clear()
    assert len(bike.backfill("a", START - 2 * HOUR, START, again=True).dues) == 3
    bike.run_due()
    assert [hour for _, hour in ran] == [-2, -1, 0]


def test_what_has_succeeded_before_the_job_was_unset_runs_again(redbike):
    bike, ran = make(redbike)
    for _ in range(2):
        start(bike, 1)
        bike.run_due(bike.now + 1)
        bike.unset("a")
    assert ran == [("a", -1), ("a", 0)] * 2
    bike.set("a", HOURLY)
    bike.backfill("a", START, START)
    bike.run_due()
    assert bike.backfill("a", START - HOUR, START, dry_run=True).done == 1


def test_runs_of_the_schedule_count_too_and_so_does_what_waits(redbike):
    bike, _ = make(redbike)
    bike.set("a", HOURLY)
    bike.run_due(START + 2 * HOUR)
    bike.pause("a")
    bike.dispatch_due(bike.now)
    found = bike.backfill("a", START, START + 2 * HOUR, dry_run=True)
    assert (found.dues, found.done, found.known_since) == ([START], 2, START + HOUR)


def test_the_work_is_that_of_the_job_with_its_options_and_data(redbike):
    seen = []
    bike = redbike(One(lambda run: seen.append(run)), now=START)
    own = {"timeout": 77, "retries": 2, "expires": "1s", "grace": "1s", "finish_within": "1s"}
    start(bike, 1, data={"x": 1}, **own)
    bike.run_due()
    assert [(run.base, run.data, run.timeout, run.key) for run in seen] == [
        ("a", {"x": 1}, 77, f"a@{START + hour * HOUR:.0f}") for hour in (-1, 0)
    ]
    assert [run.jobid for run in seen] == [make_jobid("a", START - HOUR), make_jobid("a", START)]
    assert ("skipped" in bike.tell("a"), list(bike.jobs(late=True))) == (False, [])


def test_an_occurrence_has_the_options_and_data_of_when_it_begins(redbike):
    seen = []

    def work(run):
        seen.append((run.data, run.timeout))
        if len(seen) == 1:
            bike.set("a", HOURLY, data=2, timeout=88)

    bike = redbike(One(work), now=START)
    start(bike, 2, data=1, timeout=77)
    bike.run_due()
    assert seen == [(1, 77), (2, 88), (2, 88)]


def test_it_calls_no_url_and_the_schedule_does(redbike):
    urls = []
    bike = redbike(One(lambda run: urls.append(run.ping_url)), now=START, ping_url="http://127.0.0.1/{jobid}")
    start(bike, 1)
    bike.run_due(START + HOUR)
    assert urls == [None, None, "http://127.0.0.1/{jobid}"]


def test_commands_run_several_of_one_at_once_and_know_what_they_are(redbike, tmp_path):
    (tmp_path / "commands.ini").write_text(
        '[commands]\na = sh -c "env | grep ^REDBIKE_; sleep 0.3"\n[a]\noutput = 1000\n'
    )
    bike = redbike(Commands("A", str(tmp_path / "commands.ini")), now=START)
    bike.set("a:A", HOURLY)
    bike.backfill("a:A", START - HOUR, START, at_once=2)
    bike.run_due()
    for due in (START - HOUR, START):
        own = make_jobid("a:A", due)
        lines = bike.tell(own)["output"].splitlines()
        assert {"REDBIKE_JOBID=a:A", f"REDBIKE_BACKFILL={own}", f"REDBIKE_DUE={due:.0f}"} <= set(lines)
    assert is_clean(bike)


def test_a_job_that_its_worker_unsets_has_no_backfill_any_more(redbike):
    def work(run):
        if not run.backfill_of:
            raise UnsetJob

    bike, ran = make(redbike, work)
    start(bike)
    bike.run("a")
    bike.run_due()
    assert ran == [("a", 0.0)], "what waits of the backfill is forgotten, as by unset"
    assert not bike.client.exists(bike.store.keys.following)
    assert is_clean(bike)


def test_what_is_run_again_by_hand_is_left_out_while_it_waits(redbike):
    fixed = []
    bike, ran = make(redbike, fail_if(lambda run: run.due == START - HOUR and not fixed))
    start(bike, 2)
    bike.run_due(reraise=False)
    fixed.append(True)
    bike.run(make_jobid("a", START - HOUR))
    with pytest.raises(BadConfig, match=r"2 have succeeded .*, 1 waits, runs or may still run by the schedule"):
        bike.backfill("a", START - 2 * HOUR, START)
    bike.run_due()
    assert [hour for _, hour in ran].count(-1) == 2
    assert is_clean(bike)


def test_it_disturbs_no_count_of_what_is_late(redbike):
    bike, _ = make(redbike)
    start(bike, 1)
    bike.dispatch_due(bike.now)
    assert [queue.oldest_due for queue in bike.queues()] == [START]
    bike.run_due()
    list(bike.store.archiver.archive())
    counts = bike.client.hgetall(bike.store.keys.counts)
    assert counts[b"runs:ok:work-A"] == b"2"
    assert not [name for name in counts if name.startswith(b"delay")]
    assert {(run.due, int(run.started)) for run in bike.runs()} == {(START - HOUR, START), (START, START)}


def test_its_occurrences_are_no_rows_of_a_backup(redbike, tmp_path):
    bike, _ = make(redbike)
    own = make_jobid("b", START)
    bike.set(own, HOURLY)
    start(bike, 1)
    assert sorted(bike.get_schedules()) == [("a", HOURLY), (own, HOURLY)]
    assert sorted(row[0] for row in bike.get_rows()) == ["a", own]


def test_a_try_that_fails_is_tried_again_before_the_next_one_begins(redbike):
    bike, ran = make(redbike, fail_if(lambda run: run.attempt < 3), on_error="retry", retries=5, backoff=1)
    start(bike, 1)
    bike.run_due(START + 60, reraise=False)
    assert [hour for _, hour in ran] == [-1] * 3 + [0] * 3


@pytest.mark.parametrize("verb", ["cancel", "unset"])
def test_it_ends_with_cancel_or_unset_and_its_schedule_goes_on(redbike, verb):
    bike, ran = make(redbike)
    start(bike)
    bike.dispatch_due(bike.now)
    bike.work_one()
    ended = getattr(bike, verb)("a")
    bike.run_due(START + HOUR)
    assert is_clean(bike)
    if verb == "unset":
        assert [hour for _, hour in ran] == [-5]
        assert not bike.client.exists(bike.store.keys.following)
    else:
        assert ended == [("a", "ended")]
        assert [hour for _, hour in ran] == [-5, 1]
        told = bike.tell("a")["last_backfill"]
        assert (told["cancelled"], told["done"], told["dropped"], told["left"]) == (True, 1, 1, 4)
        # What it has not begun is not done.
        assert len(bike.backfill("a", START - 5 * HOUR, START, dry_run=True).dues) == 5


def test_a_job_with_the_id_of_an_occurrence_stays_that_of_its_user(redbike):
    bike, ran = make(redbike)
    own = make_jobid("a", START)
    bike.set(own, "EVERY:1h@0")
    with pytest.raises(BadJobId, match="another job has it"):
        start(bike)
    bike.unset(own)
    start(bike, 1)
    bike.set(own, "EVERY:1h@0")  # meanwhile
    with pytest.raises(BadJobId, match="an occurrence of a backfill of 'a'"):
        bike.set(make_jobid("a", START - HOUR), "EVERY:1h@0")
    [(_, refused)] = list(bike.set_many([(make_jobid("a", START - HOUR), "EVERY:1h@0")]))
    assert isinstance(refused, BadJobId)
    bike.run_due()
    assert ran == [("a", -1)]
    assert (bike.tell(own)["schedule"], bike.tell("a")["last_backfill"]["dropped"]) == (HOURLY, 1)
    assert is_clean(bike)


@pytest.mark.parametrize(
    ("schedule", "given", "error", "said"),
    [
        (HOURLY, {"start": START, "end": START - 1}, BadConfig, "it begins at .*, after its end"),
        (HOURLY, {"start": START + 1, "end": START + 2}, BadConfig, "is in the future"),
        (HOURLY, {"start": START - 90, "end": START - 1}, BadConfig, "'a' has no occurrence between"),
        ("EVERY:1s@0", {"start": START - 1_000_000}, BadConfig, "'a' has more than 1,000,000 occurrences in it"),
        (HOURLY, {"at_once": 0}, BadConfig, "bad at_once '0': 1 to 1000"),
        (HOURLY, {"at_once": 1001}, BadConfig, "bad at_once '1001'"),
        ("AFTER:b", {}, BadConfig, "'a' has no occurrences at times of its own: 'AFTER:b'"),
        ("AT:2000000000", {}, BadConfig, "'AT:2000000000'"),
        (None, {}, NoSuchJob, "no such job: 'a'"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(redbike, schedule, given, error, said):
    bike, _ = make(redbike)
    if schedule:
        bike.set("a", schedule)
    with untouched(bike.client), pytest.raises(error, match=said):
        bike.backfill("a", **{"start": START - HOUR, "end": START, **given})


def test_a_second_one_is_refused_while_the_first_is_under_way(redbike):
    bike, _ = make(redbike)
    start(bike)
    with pytest.raises(BadConfig, match="a backfill of 'a' is under way: 0 of 6 done, 1 begun, 5 left"):
        bike.backfill("a", START - HOUR, START)


def test_others_run_theirs_beside_it(redbike):
    bike, ran = make(redbike)
    bike.set("b", HOURLY)
    start(bike)
    bike.backfill("b", START - HOUR, START)
    other = Store(bike.client, "other", RoundRobin("A").queue_for).at(START)
    Setter(other, Settings()).set("a", HOURLY)
    assert len(backfill(other, "a", START - HOUR, START, 1, False, Settings()).dues) == 2
    bike.run_due()
    assert (len(ran), other.backfills.read("a")[0]["left"]) == (8, 1)
    assert is_clean(bike)


def test_the_id_of_an_occurrence_has_its_instant():
    for moment in (0, 59, 951782400, 951868799.5, 1709251199, 4102444800.000001, 253402300799):
        text = make_jobid("a", moment).removeprefix("a@")
        assert datetime.fromisoformat(text) == datetime.fromtimestamp(0, UTC) + timedelta(seconds=moment)
