"""Whether all is well: what counts as a problem, what does not, and the line that says it."""

import re
from datetime import timedelta

import pytest

from redbike import BadConfig, BadJobId, Health, Redbike, RoundRobin
from redbike.cli.tables import choose_jobs
from redbike.config.settings import Settings
from redbike.queries.glance import read_view
from redbike.queries.health import MOST, RECENT, check_health
from redbike.queries.metrics import Metrics
from redbike.store.archived import add_runs
from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.namespace import STEP
from redbike.store.next_state import NextState
from redbike.store.processes import LOST
from redbike.store.totals import Totals
from tests import states
from tests.loops import Acting, raising
from tests.queries.kept import archive, at, register, remember
from tests.states import DUE, JOB, NOW, OLD, QUEUE, START, TIMEOUT
from tests.verbs import run_job, set_job, set_one, take_one

MINUTE = 60.0
LATE = START + TIMEOUT + MINUTE


@pytest.fixture
def staffed(store):
    """With a dispatcher and a worker, which are seen at `NOW`."""
    register(store, "dispatcher")
    register(store, "worker", queues=[QUEUE])
    return store


def check(store, *patterns, now=NOW, max_lag=MINUTE):
    return check_health(store.at(now), patterns, max_lag, Settings())


def test_all_is_well(staffed):
    line = (
        "OK: 1 dispatcher, 1 worker, {1} waiting, {1} running | lag={0}.000s;60 overdue=0 waiting={1} in_flight={1} "
        "failing=0 dead=0 dispatchers=1 workers=1 lost=0 late=0"
    )
    health = check(staffed)
    assert (health.is_well, health.format_line()) == (True, line.format(0, 0))
    states.queue(staffed)
    states.take(staffed, now=NOW)
    set_job(staffed.at(NOW), "other:A", OLD, NOW)
    assert check(staffed, now=NOW + 2).format_line() == line.format(2, 1)


@pytest.mark.parametrize("lead", [0.0, 7200.0])
@pytest.mark.parametrize("number", [0, 3])
def test_the_clock_of_one_shard_was_ahead(client, prefix, number, lead):
    store = Redbike(RoundRobin("A"), prefix, client, shards=4).store
    for each, shard in enumerate(store.shards):
        shard.at(NOW).timeline.advance(NOW + lead if each == number else NOW - MINUTE)
    health = check(store)
    told = [problem for problem in health.problems if "ahead" in problem]
    assert told == ["the clock of the server was ahead by 2 h (redbike fsck --repair)"] * bool(lead)
    assert health.topics.count("rewound") == bool(lead)


def test_no_dispatcher_goes_round(store):
    assert check(store).problems == ("no dispatcher is running",)
    register(store, "worker")
    register(store, "dispatcher", now=NOW - LOST - 1)
    assert check(store).problems == ("no dispatcher is running", "the dispatcher web1:1:Ownerd01 was lost 16 s ago")


def test_a_recurring_job_that_has_failed_for_good_comes_first(store):
    bury(store, "once:A", f"AT:{START}")
    assert check(store).problems == ("no dispatcher is running",), "its only run was to be that one"
    bury(store, JOB, OLD)
    dead = f"{JOB} has failed for good, and its schedule does not go on: it broke"
    health = check(store, JOB)
    assert health.problems == (dead, "no dispatcher is running"), "once, whoever asks for it"
    assert (health.metrics["failing"], health.metrics["dead"], health.topics[0]) == (2, 1, "dead")
    view = read_view(store.at(NOW), 10)
    assert [failure.jobid for failure in view.failures] == [JOB, "once:A"]
    bury(store, "twice:A", f"AT:{START}", START + 90)
    assert [failure.jobid for failure in read_view(store.at(NOW), 2).failures] == [JOB, "twice:A"]
    jobs, _ = choose_jobs(store.overview.list_jobs(), None)
    assert [job.jobid for job in jobs] == [JOB, "once:A", "twice:A"]
    for number in range(MOST + 1):
        bury(store, f"more{number}:A", OLD)
    first = check(store, "*:A").problems
    assert first[MOST : MOST + 2] == ("and 2 more of that kind", "no dispatcher is running")
    others = (JOB, "more0:A", "once:A", "twice:A")
    assert sorted(first[MOST + 2 :]) == sorted(f"{jobid} has failed for good" for jobid in others)
    run_job(store.at(NOW), JOB)
    assert not any(problem.startswith(JOB) for problem in check(store).problems), "somebody has seen to it"


def bury(store, jobid, schedule, moment=START):
    set_job(store.at(moment), jobid, schedule, moment)
    run = take_one(store.at(moment), [(QUEUE, 50.0)], f"tag{jobid}")
    failure = {"jobid": jobid, "due": moment, "attempt": 1, "error": "it broke"}
    store.at(moment + 1).runs.end(run, NextState("die", failure=failure))


@pytest.mark.parametrize("shards", [1, 4])
def test_a_job_that_is_dead_is_told_whatever_else_has_failed_since(client, prefix, shards):
    worker = Acting(raising(ValueError("no luck")))
    with Redbike(worker, prefix, client, shards=shards, failures_limit=1) as bike:
        bike.set("billing:A", "EVERY:1h")
        bike.run("billing:A")
        assert bike.work_one()
        fail_others(bike)
        assert len(list(bike.failures())) == 1 + shards, "that, and the newest of each shard"
        dead = "billing:A has failed for good, and its schedule does not go on: ValueError: no luck"
        found = bike.health()
        assert (found.problems[0], found.metrics["dead"]) == (dead, 1)
        metrics = Metrics(lambda: bike.store).format()
        assert re.search(r"^redbike_dead_jobs\{.*\} 1\.0$", metrics, re.MULTILINE)
        bike.set("billing:A", "EVERY:2h")
        assert bike.health().metrics["dead"] == 0
        fail_others(bike)
        assert len(list(bike.failures())) == shards, "it goes like the others"


def fail_others(bike):
    for _ in bike.set_many((f"hook-{number}:A", "NOW") for number in range(20)):
        pass
    while bike.work_one():
        pass


def test_jobs_are_overdue(staffed):
    states.timeline(staffed)
    assert check(staffed, now=DUE + MINUTE).is_well
    health = check(staffed, now=DUE + MINUTE + 1)
    assert health.problems[0] == "1 job overdue and not enqueued, the first for 1 min 1 s"
    assert (health.metrics["overdue"], health.metrics["lag"]) == (1, MINUTE + 1)
    set_job(staffed.at(START), "other:A", OLD, DUE - 1)
    assert check(staffed, now=DUE + MINUTE + 1).problems[0].startswith("2 jobs overdue and not enqueued, the first")
    health = check(staffed, now=DUE + MINUTE + 1, max_lag=70.0)
    assert (health.is_well, health.metrics["overdue"], health.metrics["lag"]) == (True, 0, MINUTE + 2)
    staffed.queue_limits.pause("")
    paused = check(staffed, now=DUE + MINUTE + 1)
    assert not any("overdue" in problem for problem in paused.problems)
    assert paused.metrics["lag"] == 0


def test_a_pause_that_is_over_hides_nothing_though_no_dispatcher_ends_it(staffed):
    states.timeline(staffed)
    staffed.at(DUE).queue_limits.pause("", until=DUE + MINUTE)
    health = check(staffed, now=DUE + MINUTE - 1, max_lag=1.0)
    assert (health.metrics["overdue"], health.paused) == (0, ("everything",))
    health = check(staffed, now=DUE + MINUTE, max_lag=1.0)
    assert (health.metrics["overdue"], health.paused) == (1, ())


def test_jobs_wait_for_too_long(staffed):
    states.queue(staffed)
    register(staffed, "worker", queues=[QUEUE], now=START + 61)
    register(staffed, "dispatcher", now=START + 61)
    assert check(staffed, now=START + 60).is_well
    said = f"{QUEUE} has 1 job, the first of which has waited for 1 min 1 s"
    assert check(staffed, now=START + 61).problems == (said,)
    for limits, name in ((QUEUE, QUEUE), ("", "everything")):
        staffed.queue_limits.pause(limits)
        health = check(staffed, now=START + 61)
        assert (health.is_well, health.paused) == (True, (name,)), "somebody wants it so"
        assert f"1 waiting, 0 running; paused: {name} | " in health.format_line()
        staffed.queue_limits.open(limits, resume=True)


@pytest.mark.parametrize(("seconds", "late"), [(0, 0), (MINUTE - 1, 0), (MINUTE, 1)])
def test_nobody_has_waited_since_before_it_came_into_its_queue(staffed, seconds, late):
    # So does what is tried again, or run by hand.
    set_job(staffed.at(NOW), JOB, OLD, START - 900)
    now = NOW + seconds
    register(staffed, "worker", queues=[QUEUE], now=now)
    register(staffed, "dispatcher", now=now)
    health = check(staffed, JOB, now=now)
    assert (health.metrics["lag"], len(health.problems)) == (seconds, late)
    assert check(staffed, "*", now=now).problems == health.problems
    [queue] = staffed.at(now).depths.list_all(late_since=now - MINUTE)
    assert (queue.oldest_due, queue.since, queue.late) == (START - 900, NOW, late)
    lag = f'redbike_queue_lag_seconds{{prefix="{staffed.keys.prefix}",queue="{QUEUE}"}} {seconds:.1f}'
    assert lag in Metrics(lambda: staffed.at(now)).format()


def test_a_queue_has_jobs_and_no_worker(store):
    register(store, "dispatcher")
    register(store, "worker", queues=["work-B"])
    register(store, "worker", 2, queues=[QUEUE], now=NOW - RECENT - 1)
    assert check(store).is_well
    states.queue(store)
    assert check(store, now=NOW).problems == (f"{QUEUE} has 1 job and no worker (first {JOB})",)
    register(store, "worker", 3, queues=["work-C", "…+7"])
    assert check(store, max_lag=NOW).is_well, "it may be one of the seven"


def test_processes_are_lost(staffed):
    for number in range(10, 10 + MOST + 3):
        register(staffed, "worker", number, now=NOW - LOST - 1)
    health = check(staffed)
    assert len(health.problems) == MOST + 1
    assert health.problems[0] == "the worker web1:10:Ownerw10 was lost 16 s ago"
    assert health.problems[-1] == "and 3 more of that kind"
    assert health.metrics["lost"] == MOST + 3
    assert check(staffed, now=NOW + RECENT - 1).metrics["lost"] == 2, "others have their jobs, but the two are new ones"


def held_try(store):
    """What is tried again is held, and no run is kept."""
    states.waiting_to_retry(store)
    states.pause(store, START + 2)
    store.client.delete(store.keys.journal)


@pytest.mark.parametrize(
    ("make", "now", "said"),
    [
        (states.bad, NOW, f"{JOB} was never scheduled, as its schedule is bad"),
        (states.dead, NOW, f"{JOB} has failed for good, and its schedule does not go on: it broke"),
        (states.timeline, DUE + MINUTE, f"{JOB} has been due since {at(DUE)} and does not run"),
        (states.timeline, DUE + MINUTE - 1, ""),
        (states.queue, START + MINUTE, f"{JOB} has been due since {at(START)} and does not run"),
        (states.flight, NOW, ""),
        (states.flight, LATE - 1, ""),
        (states.flight, LATE, f"{JOB} still runs, since {at(START)}, beyond its deadline"),
        (states.held, DUE + MINUTE - 1, ""),
        (states.held, DUE + MINUTE, f"{JOB} is paused, though it was due at {at(DUE)}"),
        (held_try, DUE + MINUTE, f"{JOB} is paused, though it was due at {at(START)}"),
        (states.stopped, NOW, ""),
    ],
)
def test_a_job_that_is_named(store, make, now, said):
    register(store, "dispatcher", now=now)
    register(store, "worker", queues=[QUEUE], now=now)
    make(store)
    problems = [problem for problem in check(store, JOB, now=now).problems if problem.startswith(JOB)]
    assert problems == [said][: bool(said)]
    assert [each for each in check(store, "*", now=now).problems if each.startswith(JOB)] == problems
    others = [each for each in check(store, now=now).problems if each.startswith(JOB)]
    assert others == (problems if make is states.dead else [])


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.OK, ""),
        (Outcome.RETRY, "ended one try of several"),
        (Outcome.FAILED, "failed"),
        (Outcome.OVERRUN, "overran"),
        (Outcome.LOST, "was lost with its worker"),
        (Outcome.CANCELLED, "was cancelled"),
    ],
)
def test_the_last_run_of_a_job_that_is_named(staffed, outcome, told):
    set_job(staffed.at(START), JOB, OLD, 2000.0)
    remember(staffed, 800.0, outcome=Outcome.FAILED, error="at first")
    remember(staffed, 900.0, outcome=outcome, error="it broke" if told else "")
    assert check(staffed, JOB).problems == ((f"{JOB} {told} at {at(901)}: it broke",) if told else ())


def test_the_failure_of_a_job_of_which_no_run_is_kept(staffed):
    states.dead(staffed)
    staffed.client.delete(staffed.keys.journal)
    set_job(staffed.at(START), JOB, OLD, 2000.0)
    assert check(staffed, JOB).problems == (f"{JOB} failed",)


def test_a_job_whose_last_occurrence_was_skipped(staffed):
    set_job(staffed.at(START), JOB, OLD, 1200.0)  # due at 1000 by this schedule
    remember(staffed, 900.0)
    assert check(staffed, JOB).is_well, "nothing was ever skipped: it may have been set after that"
    staffed.client.hset(staffed.keys.skipped, f"withdrawn:{JOB}", 1)
    assert check(staffed, JOB).is_well, "it was set again"
    staffed.client.hset(staffed.keys.skipped, f"missed:{JOB}", 1)
    assert check(staffed, JOB).problems == (f"{JOB} was skipped when it was due at {at(1000)}",)
    assert check(staffed, JOB, max_lag=NOW - 999).is_well, "it may still be about to run"
    remember(staffed, 1000.0)
    assert check(staffed, JOB).is_well, "that was an earlier one"


@pytest.mark.parametrize("is_archived", [True, False])
@pytest.mark.parametrize(("waited", "is_well"), [(99.0, False), (101.0, True)])
def test_a_run_that_has_begun_since_makes_up_for_a_skipped_occurrence(staffed, is_archived, waited, is_well):
    set_job(staffed.at(START), JOB, OLD, 1200.0)  # due at 1000 by this schedule
    staffed.client.hset(staffed.keys.skipped, mapping={f"missed:{JOB}": 1, "missed:": 1})
    remember(staffed, 900.0, waited)
    if is_archived:
        archive(staffed)
    for name in (JOB, f"{JOB[:-1]}*"):
        assert check(staffed, name).is_well == is_well, name


def test_of_a_job_of_which_no_run_is_kept_nobody_knows_which_occurrence_was_skipped(staffed):
    set_job(staffed.at(START), JOB, OLD, 1200.0)
    staffed.client.hset(staffed.keys.skipped, mapping={f"paused:{JOB}": 1, "paused:": 1})
    assert [check(staffed, name).is_well for name in (JOB, f"{JOB[:-1]}*")] == [False, False]
    for options, history, is_well in (('{"history":0}', 10, True), ("{}", 0, True), ('{"history":5}', 0, False)):
        staffed.client.hset(staffed.keys.options, JOB, options)
        for name in (JOB, f"{JOB[:-1]}*"):
            health = check_health(staffed.at(NOW), [name], MINUTE, Settings(history=history))
            assert health.is_well == is_well, (options, history, name)


def test_a_job_that_somebody_has_set_since_it_was_due(staffed):
    noted = staffed.noted_as("me@here")
    set_job(noted.at(1001.0), JOB, OLD, 1200.0)
    staffed.client.hset(staffed.keys.skipped, f"missed:{JOB}", 1)
    assert check(staffed, JOB).is_well
    said = f"{JOB} was skipped when it was due at {at(1100)}"
    assert check(staffed, JOB, now=NOW + 2, max_lag=1.0).problems == (said,)
    note = JobToSet(JOB, OLD, 1200.0, False, QUEUE, SetMode.KEEP_PLACE, options='{"note":"ask Ada"}')
    set_one(noted.at(NOW + 1), note)
    assert check(staffed, JOB, now=NOW + 2, max_lag=1.0).problems == (said,), "a note moves nothing"


def test_very_many_jobs_are_looked_at_in_few_round_trips(staffed):
    """What the server says of each of them, one by one, is tried in tests of the store."""
    store, number = staffed.at(START), 3000
    jobids = [f"team7.{n}:A" for n in range(number)]
    for first in range(0, number, STEP):
        store.jobs.set([JobToSet(jobid, OLD, 2000.0, False, QUEUE) for jobid in jobids[first : first + STEP]])
    client, keys = store.client, store.keys
    # Of all jobs occurrences were skipped some time.
    client.hset(keys.skipped, mapping={"missed:": number, **{f"missed:{jobid}": 1 for jobid in jobids}})
    packed = {
        outcome: add_runs(b"", [(pack_run(1000.0, 0.0, 1.0, outcome, 1, ""), b"web1:1:x")], 10) for outcome in Outcome
    }
    client.hset(keys.history, mapping=dict.fromkeys(jobids, packed[Outcome.OK]))
    ill = {"was cancelled": jobids[:40], "overran": jobids[40:42], "was skipped": jobids[42:92]}
    ill |= {"was never scheduled": jobids[92:95], "was lost": jobids[95:96]}
    client.hset(keys.history, mapping=dict.fromkeys(ill["was cancelled"], packed[Outcome.CANCELLED]))
    client.hset(keys.history, mapping=dict.fromkeys(ill["overran"], packed[Outcome.OVERRUN]))
    client.hdel(keys.history, *ill["was skipped"])
    client.hset(keys.statuses, mapping=dict.fromkeys(ill["was never scheduled"], "BAD:1000"))
    # Not archived yet: one has failed since, and one has succeeded.
    healed = ill["overran"].pop()
    lost, well = pack_run(1000.0, 0.0, 1.0, Outcome.LOST, 1, ""), pack_run(1000.0, 1.0, 1.0, Outcome.OK, 1, "")
    entry = [(ill["was lost"][0], QUEUE, 10, lost), (healed, QUEUE, 10, well)]
    client.rpush(keys.journal, pack_entry("web1:1:Ownerw01", entry))
    client.config_resetstat()
    found = check(staffed, "team7.*", max_lag=90.0).problems
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] < 40, "the server looks at most of them by itself"
    [total] = [int(text.split()[1]) for text in found if text.endswith("more of that kind")]
    assert (total + MOST, sum("team7" in text for text in found)) == (sum(map(len, ill.values())), MOST)
    for said, (jobid, *_) in ill.items():
        [problem] = [each for each in check(staffed, jobid, max_lag=90.0).problems if each.startswith(jobid)]
        assert problem.startswith(f"{jobid} {said}")
        assert problem in check(staffed, jobid.replace("7", "[7]", 1), max_lag=90.0).problems
    assert "jobs" not in check(staffed, healed, healed.replace("7", "?"), max_lag=90.0).topics


def test_a_job_that_is_not_there(staffed):
    states.dead(staffed)
    dead = f"{JOB} has failed for good, and its schedule does not go on: it broke"
    assert check(staffed, "other:A", "x*", JOB).problems == (dead, "no such job: 'other:A'", "no job matches 'x*'")


def test_one_line_however_ids_and_errors_look(staffed):
    jobid = "a|b\u202e:A"
    set_job(staffed.at(START), jobid, OLD, DUE)
    line = check(staffed, jobid, now=DUE + MINUTE).format_line()
    assert line.startswith(f"PROBLEM: a/b\\u202e:A has been due since {at(DUE)} and does not run | lag=")
    assert line.isprintable()
    assert Health(("no|server",)).format_line() == "PROBLEM: no/server"


def test_the_facade_asks_by_its_own_settings(client, prefix):
    bike = Redbike(RoundRobin("A"), prefix, client, timezone="Asia/Tokyo")
    assert bike.health().problems == ("no dispatcher is running",)
    bike.set(JOB, "EVERY:1h")
    run_job(bike.store, JOB)
    assert f"{QUEUE} has 1 job and no worker (first {JOB})" in bike.health(JOB, max_lag=1e9).problems
    assert [bike.health(max_lag=each).max_lag for each in ("5m", timedelta(minutes=5), 300)] == [300.0] * 3
    assert bike.health("none*", max_lag=5).problems[-1] == "no job matches 'none*'"
    with pytest.raises(BadJobId):
        bike.health("a\nb")
    for wrong in (0, -1, float("nan"), float("inf"), 10**400, "0", "soon"):
        with pytest.raises(BadConfig, match="bad max_lag"):
            bike.health(max_lag=wrong)
    with pytest.raises(TypeError, match="bad max_lag True: seconds, a text such as 15m, or a timedelta is needed"):
        bike.health(max_lag=True)


def test_each_problem_says_what_it_is_about(store):
    register(store, "dispatcher", now=NOW - LOST - 1)
    states.timeline(store)
    set_job(store.at(NOW), "other:A", OLD, NOW)
    found = check(store, "nobody:A", now=DUE + 2 * MINUTE)
    assert len(found.topics) == len(found.problems)
    assert {"dispatchers", "overdue", "lost", "jobs"} <= set(found.topics)


def test_no_run_that_is_shown_begins_in_the_future(store, monkeypatch):
    read = Totals.read

    def read_and_begin(*given):
        total = read(*given)
        states.take(store, now=NOW + 3)
        return total

    states.queue(store)
    with monkeypatch.context() as patch:
        patch.setattr(Totals, "read", read_and_begin)
        assert read_view(store.at(NOW), 10).running == []
    view = read_view(store.at(NOW + 5), 10)
    assert [run.start for run in view.running] == [NOW + 3]
    assert (view.in_flight, view.glance.now) == (1, NOW + 5)
