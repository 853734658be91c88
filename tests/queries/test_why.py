"""Why a job does not run now, or did not run then: one sentence."""

import pytest

from redbike import BadConfig, BadJobId, NoSuchJob, Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.control.jobs import cancel_jobs
from redbike.dispatcher.due_timers import skip_expired
from redbike.queries.health import check_health
from redbike.queries.why.past import Reasons
from redbike.queries.why.pending import find_last
from redbike.schedule.parser import parse
from redbike.store.enums import Outcome, Skip
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.next_state import NextState
from redbike.store.processes import LOST, compute_checksum
from redbike.store.totals import Depths
from tests import states
from tests.queries.kept import at, register, remember
from tests.shards import name_jobs
from tests.states import DUE, JOB, LATER, NOW, OLD, QUEUE, START
from tests.verbs import dispatch, run_job, set_job, set_one, skip, take_one


def why(store, now=NOW, then=None):
    return Reasons(store.at(now), Settings()).explain(JOB, then)


# Now


def test_it_runs(store):
    register(store, "worker", now=START)
    set_job(store.at(START), JOB, OLD, START)
    take_one(store.at(START), [(QUEUE, 50.0)], "Ownerw01tag")
    assert why(store, START + 5) == f"It runs now: since {at(START)} on web1:1:Ownerw01."
    assert why(store) == f"It runs now: since {at(START)} on web1:1:Ownerw01, 50 s beyond its deadline."
    cancel_jobs(store.at(START), [JOB], Settings())
    assert why(store, START + 5).endswith("; it was cancelled, and has not ended yet.")


EVERY = "every 1 minute and 40 seconds, counted from Thursday, 1 January 1970 at 00:00 UTC"
ONE_DAY = "DTSTART:19700101T000000Z\nRRULE:FREQ=DAILY;COUNT=1"
FOR_GOOD = "It has failed for good at {}: OSError: disk full. redbike run lets it run again."
RUN_OUT = f"Its schedule has run out since {at(START)}: it has no further occurrence."


def fail(store):
    failure = {"jobid": JOB, "failed": START + 1, "error": "OSError: disk full"}
    store.at(START + 1).runs.end(states.flight(store), NextState("die", failure=failure))


def run_out(store):
    set_job(store.at(START), JOB, ONE_DAY, None)


@pytest.mark.parametrize(
    ("state", "now", "said"),
    [
        (states.bad, NOW, "It was never scheduled: its schedule is bad, and nobody has set another one."),
        (states.timeline, START, f"It is not due until {at(DUE)}, in 50 s: {EVERY}."),
        (states.waiting_to_retry, START + 2, f"Its occurrence of {at(START)} is tried again at {at(DUE)}, in 48 s."),
        (fail, NOW, FOR_GOOD.format(at(START + 1))),
        (run_out, NOW, RUN_OUT),
    ],
)
def test_it_is_to_come_or_has_failed_or_run_out_or_was_never_scheduled(store, state, now, said):
    state(store)
    assert why(store, now) == said


@pytest.mark.parametrize(("state", "said"), [(fail, FOR_GOOD.format(at(START + 1))), (run_out, RUN_OUT)])
def test_it_has_ended_for_good_and_is_paused_besides(store, state, said):
    """To resume it changes nothing."""
    state(store)
    states.pause(store, START + 2)
    paused = f"it is paused since {at(START + 2)} by somebody@somewhere, until somebody resumes it (a reason)."
    assert why(store) == f"{said} Besides, {paused}"


def test_it_is_paused(store):
    states.held(store)
    expected = f"It is paused since {at(START)} by somebody@somewhere, until somebody resumes it (a reason)."
    assert why(store) == f"{expected} An occurrence of {at(DUE)} is held."
    store.client.delete(store.keys.pauses)
    states.timeline(store)
    states.pause(store, until=LATER)
    assert f"until {at(LATER)} (a reason)." in why(store)


def test_it_is_paused_between_two_tries(store):
    states.waiting_to_retry(store)
    states.pause(store, START + 2)
    tried = f"Its occurrence of {at(START)} is tried again at {at(DUE)}, and is held then."
    assert why(store, START + 3).endswith(f"(a reason). {tried}")
    assert why(store, DUE + 1).endswith(f"(a reason). An occurrence of {at(START)} is held.")
    store.client.delete(store.keys.journal)
    assert why(store, DUE + 1, START).endswith(f"(a reason). An occurrence of {at(START)} is held.")


def test_it_is_paused_but_somebody_has_asked_for_a_run(store):
    states.timeline(store)
    states.pause(store)
    run_job(store.at(START + 1), JOB)
    waits = f"It has been due since {at(START + 1)} and waits in {QUEUE}, but no worker works this queue."
    paused = f"it is paused since {at(START)} by somebody@somewhere, until somebody resumes it (a reason)."
    assert why(store, START + 2) == f"{waits} Besides, {paused}"


@pytest.mark.parametrize(
    ("own", "setting", "length"), [("grace", 0, " of 15 min"), (None, 60, " of 1 min"), (None, 0, "")]
)
def test_it_never_ran_as_its_grace_had_passed(store, own, setting, length):
    options = '{"grace":900}' if own else ""
    set_one(store.at(START), JobToSet(JOB, f"AT:{DUE}", DUE, True, QUEUE, options=options))
    assert skip(store.at(DUE + 901), JOB, f"{DUE:g}", f"AT:{DUE}", None, 1, Skip.LATE)
    never = f"It never ran: it was due at {at(DUE)}, and its grace{length} had passed before it could run."
    reasons = Reasons(store.at(DUE + 950), Settings(grace=setting))
    assert reasons.explain(JOB) == f"{never} redbike run runs it all the same."
    assert (reasons.explain(JOB, DUE + 5), "never" in reasons.explain(JOB, DUE - 5)) == (never, False)
    health = check_health(store.at(DUE + 950), [JOB], 60.0, Settings(grace=setting))
    assert health.problems[-1] == f"{JOB} {never.removeprefix('It ').removesuffix('.')}"


def test_it_never_ran_as_it_expired(store):
    """It has waited in a queue that nobody works."""
    set_one(store.at(START), JobToSet(JOB, f"AT:{DUE}", DUE, True, QUEUE, options='{"expires":60}'))
    dispatch(store.at(DUE), [(JOB, f"{DUE:g}", QUEUE)])
    skip_expired(store.at(DUE + 60), Settings(), [f"expires:{JOB}"])
    never = f"It never ran: it was due at {at(DUE)}, and had not begun when it expired after 1 min."
    assert why(store) == f"{never} redbike run runs it all the same."
    assert why(store, then=DUE + 5) == never
    health = check_health(store.at(DUE + 950), [JOB], 60.0, Settings())
    assert health.problems[-1] == f"{JOB} {never.removeprefix('It ').removesuffix('.')}"
    store.client.hset(store.keys.skipped, f"late:{JOB}", 1)
    assert why(store, then=DUE + 5) == f"It never ran: it was due at {at(DUE)}, and was too late when it could run."


def test_it_is_not_due_yet_and_will_be_held_then(store):
    states.timeline(store)
    plain = f"It is not due until {at(DUE)}, in 50 s: {EVERY}."
    paused = f"paused since {at(START)} by me, until"
    for queue, what in ((QUEUE, f"Its queue {QUEUE} is"), ("", "Everything is")):
        store.at(START).queue_limits.pause(queue, DUE + 5, "me", "a flood")
        assert why(store, START + 1) == f"{plain.replace('50', '49')} {what} {paused} {at(DUE + 5)} (a flood)."
        store.queue_limits.open(queue, resume=True)
        # One that ends before does not hold it.
        store.at(START).queue_limits.pause(queue, DUE - 5, "me", "a flood")
        assert why(store, START) == plain
        store.queue_limits.open(queue, resume=True)
    store.at(START).queue_limits.pause(QUEUE, None, "me", "")
    assert why(store, START) == f"{plain} Its queue {QUEUE} is {paused} somebody resumes it."


def test_what_a_pause_will_hold_is_not_held_yet(store):
    states.timeline(store)
    states.pause(store, until=DUE - 5)
    assert why(store, START).endswith(f"until {at(DUE - 5)} (a reason). It is due at {at(DUE)}.")
    store.client.delete(store.keys.pauses)
    states.timeline(store)
    states.pause(store)
    assert why(store, START).endswith(
        f"until somebody resumes it (a reason). It is due at {at(DUE)}, and is held then."
    )


def test_it_waits_until_it_expires(store):
    set_one(store.at(START), JobToSet(JOB, OLD, NOW, False, QUEUE, options='{"expires":60}'))
    dispatch(store.at(NOW), [(JOB, f"{NOW:g}", QUEUE)])
    waits = f"It has been due since {at(NOW)} and waits in {QUEUE}, but no worker works this queue."
    assert why(store, NOW + 20) == f"{waits} It expires at {at(NOW + 60)}, in 40 s."
    assert why(store, NOW + 70) == f"{waits} It does not run any more: it expired at {at(NOW + 60)}, 10 s ago."
    assert why(store, NOW + 20, NOW) == why(store, NOW + 20)
    skip_expired(store.at(NOW + 60), Settings(), [f"expires:{JOB}"])
    assert why(store, NOW + 61) == f"It is not due until {at(LATER)}, in 39 s: {EVERY}."
    assert why(store, NOW + 61, NOW + 1) == (
        f"An occurrence was due at {at(NOW)}, and did not run: it had not begun in time, and expired. "
        "So far, 1 occurrence of it was skipped: 1 expired."
    )


def test_it_is_due_and_no_dispatcher_is_there(store):
    states.timeline(store)
    expected = f"It has been due since {at(DUE)}"
    assert why(store) == f"{expected}, but no dispatcher is running."
    register(store, "dispatcher", now=NOW - LOST - 1)
    assert why(store) == f"{expected}, but no dispatcher is running."
    register(store, "dispatcher")
    # A pause of its queue holds no dispatcher, and one of everything that is over holds nobody.
    store.at(START).queue_limits.pause(QUEUE, None, "me", "a flood")
    store.at(START).queue_limits.pause("", NOW - 1, "me", "a flood")
    assert why(store) == f"{expected}, and a dispatcher is about to move it to {QUEUE}."
    store.queue_limits.open("", resume=True)
    store.at(START).queue_limits.pause("", None, "me", "a flood")
    assert why(store) == (
        f"{expected}, but everything is paused since {at(START)} by me, until somebody resumes it (a flood)."
    )


def test_it_waits_in_a_queue_of_which_nobody_knows_whether_it_is_worked(store):
    states.queue(store)
    register(store, "worker", queues=["work-B", "…+7"])
    waits = f"It has been due since {at(START)} and waits in {QUEUE}"
    unknown = "whether a worker works this queue is unknown, as workers have too many queues to name them"
    assert why(store) == f"{waits}; {unknown}."
    register(store, "worker", 2, queues=["work-B", "…+7"], checksums=compute_checksum("work-C"))
    assert why(store) == f"{waits}; {unknown}."
    register(store, "worker", 3, queues=["work-B", "…+7"], checksums=compute_checksum(QUEUE))
    assert "; it is the next one, " in why(store)


def test_it_waits_in_its_queue(store):
    states.queue(store)
    waits = f"It has been due since {at(START)} and waits in {QUEUE}"
    assert why(store) == f"{waits}, but no worker works this queue."
    register(store, "worker", queues=["work-B"])
    assert why(store) == f"{waits}, but no worker works this queue."
    register(store, "worker", 2)
    register(store, "worker", 3, now=START)
    soon = START + 9
    assert why(store, soon) == f"{waits}; it is the next one, and a worker is about to take it."
    for number in range(3):
        set_job(store.at(START - 1), f"{number}:A", OLD, START - 1)
    # They are behind it: it was first in the queue.
    assert why(store, soon) == f"{waits}; it is the next one, and a worker is about to take it."
    assert why(store) == (
        f"{waits}; it is the next one, but no worker takes it: a run that has overrun may hold it, see its log."
    )


def test_a_job_that_is_taken_while_it_is_looked_at_has_no_jobs_before_it(store, monkeypatch):
    states.queue(store)
    register(store, "worker")
    count = Depths.count_before

    def take_before(self, *given):
        states.take(store, now=NOW)
        return count(self, *given)

    monkeypatch.setattr(Depths, "count_before", take_before)
    assert why(store) == f"It runs now: since {at(NOW)}."


def test_an_occurrence_came_due_while_an_earlier_one_waited_or_was_held(store):
    states.queue(store)
    assert why(store, START + 200, START + 150) == (
        f"An occurrence was due at {at(START + 100)}, while an earlier one waits. "
        f"It has been due since {at(START)} and waits in {QUEUE}, but no worker works this queue."
    )
    store.jobs.unset(JOB)
    states.held(store)
    held = store.questions.inspect([JOB])[0].held
    assert ", while an earlier one is held. It is paused since " in why(store, held + 1e5, held + 5e4)


def test_others_are_before_it(store):
    for number in range(3):
        set_job(store.at(START), f"{number}:A", OLD, START)
    states.queue(store)
    register(store, "worker")
    waits = f"It has been due since {at(START)} and waits in {QUEUE}"
    assert why(store) == f"{waits}, with 3 jobs before it and one worker."
    register(store, "worker", 2)
    take_one(store.at(START), [(QUEUE, 1e4)], "tag")
    take_one(store.at(START), [(QUEUE, 1e4)], "tag2")
    assert why(store) == f"{waits}, with 1 job before it and 2 workers."


def test_its_workers_are_busy(store):
    set_job(store.at(START), "other:A", OLD, START)
    states.queue(store)
    register(store, "worker")
    take_one(store.at(START), [(QUEUE, 1e4)], "Ownerw01tag")
    assert why(store).endswith("; it is the next one, but one worker is busy.")
    register(store, "worker", concurrency=2)
    assert "busy" not in why(store), "it runs one job, and could run two"


def test_its_queue_is_limited_and_paused(store):
    set_job(store.at(START), "other:A", OLD, START)
    states.queue(store)
    register(store, "worker")
    store.queue_limits.limit(QUEUE, at_once=1)
    take_one(store.at(START), [(QUEUE, 1e4)], "tag")
    assert why(store).endswith(f"waits in {QUEUE}, which has 1 job in flight, as many as its limit allows.")
    store.queue_limits.limit(QUEUE, at_once=2)
    assert "at once" not in why(store), "one more may run"
    store.queue_limits.limit(QUEUE, at_once=False, rate=(2, 3600))
    store.at(START).queue_limits.pause(QUEUE, LATER, "me@here")
    assert why(store).endswith(
        f"waits in {QUEUE}, but its queue {QUEUE} is paused since {at(START)} by me@here, until {at(LATER)}."
    )


def test_the_rate_of_its_queue_is_used_up(store):
    for jobid in ("other:A", "third:A"):
        set_job(store.at(START), jobid, OLD, START)
    states.queue(store)
    register(store, "worker")
    store.queue_limits.limit(QUEUE, rate=(2, 3600))
    waits = f"waits in {QUEUE}"
    assert why(store).endswith(f"{waits}, with 2 jobs before it and one worker."), "the bucket is full"
    take_one(store.at(START), [(QUEUE, 1e4)], "Ownerw01tag")
    assert why(store).endswith(f"{waits}, with 1 job before it and one worker."), "there is one token more"
    store.queue_limits.limit(QUEUE, rate=(1, 3600))
    limit = f"{waits}, whose limit of 1/h lets the next one begin at {at(START + 1800)}"
    assert why(store).endswith(f"{limit}, with 1 job before it.")
    take_one(store.at(START + 1800), [(QUEUE, 1e4)], "Ownerw01tag2")
    register(store, "worker", now=START + 1800)
    assert why(store, START + 1801).endswith(f" 1/h lets the next one begin at {at(START + 5400)}.")
    register(store, "worker", now=START + 5400)
    assert why(store, START + 5400).endswith("; it is the next one, but one worker is busy.")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"at_once": 1}, "which has 1 job in flight, as many as its limit allows."),
        ({"rate": "1/h"}, "whose limit of 1/h lets none begin now, with 1 job before it in its shard."),
        ({}, "with 1 job before it in its shard and one worker."),
    ],
)
def test_its_queue_is_limited_over_all_shards(client, prefix, limit, said):
    bike = Redbike(RoundRobin("A"), prefix, client, shards=2)
    jobids = name_jobs(bike.store, 0, 1, 1)
    register(bike.store, "worker", now=bike.store.timeline.read_clock())
    for jobid in jobids:
        bike.set(jobid, "EVERY:1h")
    bike.run(jobids[0])
    if limit:
        bike.limit("A", **limit)
    taken = take_one(bike.store.shards[0], [(QUEUE, 1e4)], "Ownerw01tag")
    assert taken.jobid == jobids[0]
    bike.run(*jobids[1:])
    assert bike.why(jobids[-1]).endswith(f" waits in {QUEUE}, {said}")


def test_it_is_stopped(store):
    states.stopped(store)
    assert (
        why(store) == f"Its schedule is STOP since {at(START)}: somebody has stopped it, or it ran once, as it was to."
    )
    set_job(store.at(START), JOB, "NOW", "now")
    cancel_jobs(store.at(START), [JOB], Settings())
    assert why(store).endswith("or it ran once, as it was to, or its run was cancelled.")
    remember(store, START - 50, took=2.0)
    assert why(store) == (
        f"Its schedule is STOP since {at(START)}; its last run began at {at(START - 50)} and succeeded."
    )


# Then


def test_it_ran_then(store):
    states.timeline(store)
    remember(store, 900.0, 0.5, 2.25)
    remember(store, 1000.0, 12.0, 0.002, Outcome.FAILED, "OSError: disk full")
    assert why(store, then=999.0) == (
        f"It ran: due {at(900)}, it began at {at(900)}, took 2.25 s on web1:1:Ownerw01 and succeeded."
    )
    assert why(store, then=1099.0) == (
        f"It ran: due {at(1000)}, it began at {at(1012)}, 12 s late, took 2 ms on web1:1:Ownerw01 and failed: "
        "OSError: disk full."
    )


def test_it_was_skipped_as_the_last_run_went_on(store):
    states.timeline(store)
    remember(store, 700.0, 0.0, 250.0)
    for then, due in ((801.0, 800), (920.0, 900)):
        assert why(store, then=then) == (
            f"An occurrence was due at {at(due)}, and was skipped: the run before it, on web1:1:Ownerw01, still went "
            f"on, from {at(700)} for 4 min 10 s."
        )


def overdue(store, schedule=OLD):
    set_job(store.at(START), JOB, schedule, START + 100)


def ask_for_run(store):
    overdue(store)
    remember(store, START)
    run_job(store.at(START + 10), JOB)


def forget_try(store):
    """A job that keeps no runs is to be tried again."""
    states.waiting_to_retry(store)
    store.client.delete(store.keys.journal)


def run_once_more(store):
    """The run that began at `START` goes on later, when more occurrences have come due."""
    states.waiting_to_retry(store)
    dispatch(store.at(START + 150), [(JOB, f"{DUE:.6f}", QUEUE)])
    assert take_one(store.at(START + 160), [(QUEUE, 500.0)], "again").due == START


NO_DISPATCHER = f"It has been due since {at(START + 100)}, but no dispatcher is running."
NO_WORKER = f"It has been due since {at(START)} and waits in {QUEUE}, but no worker works this queue."
BEFORE_IT = f"An occurrence was due at {at(START + 200)}, while an earlier one waits. "
TRIED_AGAIN = f"Its occurrence of {at(START)} is tried again at {at(DUE)}, in 30 s."
RUNS_AGAIN = (
    f"An occurrence was due at {at(START + 100)}, and was skipped: an earlier one had not ended, which runs now, "
)


@pytest.mark.parametrize(
    ("state", "now", "then", "said"),
    [
        (overdue, START + 250, START + 150, NO_DISPATCHER),
        (overdue, START + 250, START + 210, f"{BEFORE_IT}{NO_DISPATCHER}"),
        (lambda store: overdue(store, "CONTINUE"), START + 250, START + 210, NO_DISPATCHER),
        (states.queue, START + 50, START + 20, NO_WORKER),
        (ask_for_run, START + 50, START + 20, NO_WORKER.replace(at(START), at(START + 10))),
        (lambda store: set_job(store.at(START), JOB, "NOW", "now", once=True), START + 50, START + 20, NO_WORKER),
        (forget_try, START + 20, START + 10, TRIED_AGAIN),
        (run_once_more, START + 170, START + 120, f"{RUNS_AGAIN}since {at(START + 160)}."),
    ],
)
def test_it_has_still_to_run(store, state, now, then, said):
    state(store)
    assert why(store, now, then) == said


def test_a_follower_waits_since_its_parent_has_ended(store):
    set_one(store.at(START), JobToSet(JOB, "AFTER:parent:A", START + 100, False, QUEUE, follows=None))
    assert why(store, START + 250, START + 150) == NO_DISPATCHER


@pytest.mark.parametrize("now", [START + 80, START + 150])
def test_a_job_that_runs_all_the_time_was_between_two_runs(store, now):
    set_job(store.at(START), JOB, "CONTINUE", START + 100)
    remember(store, 900.0, took=2.0)
    ran = f"It ran: due {at(900)}, it began at {at(900)}, took 2.00 s on web1:1:Ownerw01 and succeeded."
    for then in (START + 50, 950.0):
        next_one = f"The next one {'was' if now > START + 100 else 'is'} due at {at(START + 100)}."
        assert why(store, now, then) == f"{ran} {next_one}"
    assert why(store, now, 901.0) == ran


@pytest.mark.parametrize(
    ("option", "kept"), [('{"overlap":"queue"}', [200]), ('{"catchup":"all"}', []), ("", [])], ids=str
)
def test_what_comes_due_during_a_run_is_kept_or_skipped(store, option, kept):
    set_one(store.at(START), JobToSet(JOB, OLD, START + 100, False, QUEUE, options=option))
    dispatch(store.at(START + 100), [(JOB, f"{START + 100:.6f}", QUEUE)])
    take_one(store.at(START + 110), [(QUEUE, 500.0)], "tag")
    for later in (200, 300):
        is_kept = later in kept
        was_due, since = f"An occurrence was due at {at(START + later)}, and", f"since {at(START + 110)}."
        runs_then = f"{was_due} runs when the run before it has ended, which still goes on, {since}"
        skipped = f"{was_due} was skipped: its last run still goes on, {since}"
        assert why(store, START + 350, START + later + 10) == (runs_then if is_kept else skipped)


def test_it_runs_since_then_or_the_last_run_still_does(store):
    states.flight(store)
    assert why(store, then=START + 1) == f"An occurrence was due at {at(START)}; it runs now, since {at(START)}."
    assert why(store, START + 150, START + 110) == (
        f"An occurrence was due at {at(START + 100)}, and was skipped: its last run still goes on, since {at(START)}."
    )


def test_it_still_waits_since_then(store):
    states.queue(store)
    assert why(store, then=START + 1).startswith(
        f"It has been due since {at(START)} and waits in {QUEUE}, but no worker"
    )
    store.jobs.unset(JOB)
    set_job(store.at(START), JOB, OLD, START + 100)
    states.pause(store)
    assert f"An occurrence of {at(START + 100)} is held." in why(store, LATER, START + 100)


NAMES = {"queue": QUEUE, "everything": ""}


def hold(store, subject, until=None):
    """Somebody pauses the job, its queue or everything."""
    if subject == "job":
        store.pauses.pause([JOB], until, "me@here", "a reason")
    else:
        store.queue_limits.pause(NAMES[subject], until, "me@here", "a reason")


@pytest.mark.parametrize("subject", ["job", *NAMES])
def test_it_was_paused_then(store, subject):
    states.timeline(store)
    noted = store.noted_as("me@here")
    hold(noted.at(START - 500), subject)
    if subject != "job":
        noted.at(START - 300).queue_limits.open(NAMES[subject], resume=True)
    detail = {"queue": f"queue {QUEUE}: ", "everything": "all: "}.get(subject, "")
    told = f"An occurrence was due at {at(600)}, and did not run: me@here had paused it at {at(500)} ({detail}a reason)"
    assert why(store, then=START - 390).startswith(told)
    assert subject == "job" or "paused" not in why(store, then=START - 210)


@pytest.mark.parametrize("until", [None, START + 500])
@pytest.mark.parametrize("reason", ["", "a reason"])
@pytest.mark.parametrize("subject", [f"{QUEUE} x", f"{QUEUE} until x", "a job that was unset"])
def test_a_pause_of_another_queue_or_one_that_was_forgotten_explains_nothing(store, subject, reason, until):
    states.timeline(store)
    noted = store.noted_as("me@here")
    if subject.startswith(QUEUE):
        noted.at(START - 500).queue_limits.pause(subject, until, "me@here", reason)
    else:
        noted.at(START - 500).pauses.pause([JOB], until, "me@here", reason)
        noted.at(START - 450).jobs.unset(JOB)
        set_job(store.at(START - 440), JOB, OLD, START)
    assert " had paused it " not in why(store, then=START - 390)


@pytest.mark.parametrize("subject", NAMES)
def test_all_shards_were_paused_then(client, prefix, subject):
    """Only the first one has noted that, and the job is in another one."""
    whole = Redbike(RoundRobin("A"), prefix, client, shards=3).store
    shard, noted = whole.find_shard(JOB), whole.noted_as("me@here")
    assert shard is not whole.shards[0]
    states.timeline(shard)
    hold(noted.at(START - 500), subject)
    noted.at(START - 300).queue_limits.open(NAMES[subject], resume=True)
    assert f" did not run: me@here had paused it at {at(500)}" in why(shard, then=START - 390)


@pytest.mark.parametrize("subject", ["job", *NAMES])
def test_a_pause_that_had_ended_by_itself_explains_nothing(store, subject):
    states.timeline(store)
    hold(store.noted_as("me@here").at(START - 500), subject, START - 400)
    assert [" had paused it " in why(store, then=then) for then in (599.0, 600.0)] == [True, False]


def test_it_had_another_schedule_then(store):
    set_job(store.noted_as("me@here").at(START), JOB, OLD, DUE)
    assert why(store, then=START - 50) == (
        f"An occurrence was due at {at(900)} by the schedule as it is now, but me@here has set it at {at(START)}."
    )


def test_who_sets_a_note_hides_nothing(store):
    states.timeline(store)
    remember(store, 700.0, 0.0, 250.0)
    noted, mode = store.noted_as("me@here").at(START), SetMode.KEEP_PLACE
    set_one(noted, JobToSet(JOB, OLD, DUE, False, QUEUE, mode, options='{"note":"ask Ada"}'))
    assert ", and was skipped: the run before it" in why(store, then=801.0)
    set_one(noted, JobToSet(JOB, OLD, DUE, False, QUEUE, mode, options='{"note":"ask Ada","spread":1}'))
    assert ", but me@here has set it at " in why(store, then=801.0)


def test_nothing_was_due_then(store):
    set_job(store.at(START), JOB, f"AT:{DUE}", DUE)
    assert why(store, then=START) == f"By its present schedule, no occurrence was due by {at(START)}."
    remember(store, START - 10, 0.0, 20.0)
    assert why(store, then=START).startswith(f"It ran: due {at(START - 10)}")
    set_job(store.at(START), JOB, "0 3 * * *", 10800.0)
    assert why(store, then=0.0) == f"By its present schedule, no occurrence was due by {at(0)}."


def test_it_is_not_known_any_more(store):
    states.timeline(store)
    remember(store, 900.0)
    remember(store, 1000.0)
    assert why(store, then=500.0) == (
        f"An occurrence was due at {at(500)}; it did not run, or that run is no longer kept: the oldest one began at "
        f"{at(900)}."
    )
    store.client.hset(store.keys.skipped, f"late:{JOB}", 1)
    assert why(store, then=500.0).endswith(f"began at {at(900)}. So far, 1 occurrence of it was skipped: 1 late.")


NO_RUN = "no run is known: the job keeps no runs, or had another schedule then."
NOT_KNOWN = "Whether a dispatcher was running then is not known: none that is registered now had begun."


def test_only_the_counts_are_known(store):
    states.timeline(store)
    register(store, "dispatcher", now=900.0)
    was_due = f"An occurrence was due at {at(1000)}, and"
    assert why(store, then=1001.0) == f"{was_due} {NO_RUN}"
    store.client.hset(store.keys.skipped, f"missed:{JOB}", 3)
    assert why(store, then=1001.0) == f"{was_due} did not run. So far, 3 occurrences of it were skipped: 3 missed."


@pytest.mark.parametrize(
    ("skipped", "said"),
    [
        ({}, f"{NO_RUN} {NOT_KNOWN}"),
        ({"missed": 3}, f"did not run. So far, 3 occurrences of it were skipped: 3 missed. {NOT_KNOWN}"),
        ({"paused": 1}, "did not run. So far, 1 occurrence of it was skipped: 1 paused."),
        ({"paused": 1, "late": 1}, "did not run. So far, 2 occurrences of it were skipped: 1 late, 1 paused."),
    ],
)
def test_nobody_knows_of_a_dispatcher_that_was_replaced(store, skipped, said):
    states.timeline(store)
    register(store, "dispatcher", now=1050.0)
    for reason, number in skipped.items():
        store.client.hset(store.keys.skipped, f"{reason}:{JOB}", number)
    assert why(store, then=1001.0) == f"An occurrence was due at {at(1000)}, and {said}"


@pytest.mark.parametrize("dispatcher_since", [900.0, 1150.0])
def test_it_had_failed_for_good_then(store, dispatcher_since):
    fail(store)
    register(store, "dispatcher", now=dispatcher_since)
    failed = f"and did not run: it had failed for good at {at(START + 1)}: OSError: disk full."
    for then in (START + 100, START + 150):
        assert why(store, NOW + 100, then) == f"An occurrence was due at {at(START + 100)} by its schedule, {failed}"
    # It is that occurrence that has failed.
    assert "for good" not in why(store, then=START + 2)


def test_it_had_stopped_then(store):
    set_job(store.at(START), JOB, ONE_DAY.replace("19700101T000000Z", "19700101T002000Z"), None)
    stopped = f"An occurrence was due at {at(1200)} by its schedule, and did not run: it had stopped at {at(START)}."
    assert why(store, 1300.0, 1250.0) == stopped


def test_what_cannot_be_asked(store):
    with pytest.raises(NoSuchJob, match="no such job: 'job:A'"):
        why(store)
    states.timeline(store)
    with pytest.raises(
        BadConfig, match="1970-01-01 00:18:21 UTC is in the future, in 1 s; redbike next shows the future"
    ):
        why(store, then=NOW + 1)
    with pytest.raises(BadJobId):
        Reasons(store, Settings()).explain("a\nb")


@pytest.mark.parametrize("jobid", [None, "\ud800"])
def test_a_bad_id_is_refused_before_its_shard_is_looked_for(client, prefix, jobid):
    with pytest.raises(BadJobId):
        Redbike(RoundRobin("A"), prefix, client, shards=3).why(jobid)


@pytest.mark.parametrize(
    ("text", "until", "last"),
    [
        ("EVERY:1h@0", 7200.0, 7200.0),
        ("EVERY:1h@0", 7199.0, 3600.0),
        ("* * * * * *", 1e9 + 0.5, 1e9),
        ("0 0 29 2 *", 1e9, 951782400.0),
        ("* * 29 2 * *", 1e9, 951868799.0),
        ("AT:5000", 1e9, 5000.0),
        ("AT:5000", 4999.0, None),
        ("STOP", 1e9, None),
    ],
)
def test_the_last_occurrence_is_found(text, until, last):
    schedule = parse(text, anchor=0.0)
    found, asked = [], schedule.next
    schedule.next = lambda after: found.append(after) or asked(after)
    assert find_last(schedule, until) == last
    assert len(found) < 100, "however many there are"


def test_a_run_that_is_kept_is_told_whatever_became_of_the_schedule(store):
    set_job(store.at(START), JOB, "STOP", None)
    remember(store, 900.0)
    remember(store, 1000.0)
    assert why(store, then=1050.0).startswith(f"It ran: due {at(1000)}, it began at {at(1000)}, took ")
    assert why(store, then=950.0).startswith(f"It ran: due {at(900)}, it began at ")
    assert why(store, then=800.0) == f"By its present schedule, no occurrence was due by {at(800)}."


def test_a_run_that_somebody_asked_for_or_of_the_schedule_before_is_told_from_then_on(store):
    set_job(store.at(START), JOB, "EVERY:500s@0", 1500.0)
    for due in (610.0, 620.0):
        remember(store, due, waited=2.0)
    assert why(store, then=605.0).startswith(f"An occurrence was due at {at(500)}")
    assert why(store, then=615.0).startswith(f"It ran: due {at(610)}, it began at {at(612)}")
    assert why(store, then=625.0).startswith(f"It ran: due {at(620)}, ")
    run_job(store.at(630.0), JOB)
    take_one(store.at(640.0), [(QUEUE, 50.0)], "tag")
    assert why(store, then=635.0) == f"An occurrence was due at {at(630)}; it runs now, since {at(640)}."
    assert why(store, then=622.5).startswith(f"It ran: due {at(620)}, ")
