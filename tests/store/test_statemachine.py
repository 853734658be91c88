"""Random operations on a few jobs, compared with a plain model after each step, with the invariants checked."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, replace
from itertools import islice

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RULE_MARKER,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from redbike.config.settings import Settings
from redbike.control.jobs import cancel_jobs
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.dispatcher.due_timers import skip_expired
from redbike.errors import LostRun, NoSuchJob
from redbike.loop.blackouts import decide_begun
from redbike.loop.resuming import resume, resume_over
from redbike.store.blackouts import Blackout
from redbike.store.entries import read_entry
from redbike.store.enums import Outcome, Skip
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.keys import NOTIFIES, OWNER
from redbike.store.lease import GRACE, LEASE
from redbike.store.next_state import NextState
from redbike.store.processes import LOST
from redbike.store.queue_limits import QueueLimits
from redbike.store.records import Progress, RetryState, parse_batch
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.store.tally import BUCKETS
from redbike.worker.ends import commit
from tests.chance import try_machine
from tests.model import End, Model, Tries, next_of
from tests.states import list_problems, queue_for
from tests.verbs import dispatch, run_job, set_job, set_one, skip, survey, take_many

# In-flight keys expire by the real clock, so these are longer than a step takes on a busy machine.
TIMEOUTS = {"work-A": 30.0, "work-B": 20.0}
JOBIDS = ["a:A", "b:A", "c:A", "d:B", "e:B"]
MODES = [*[SetMode.REPLACE, SetMode.KEEP_PLACE] * 3, *[SetMode.KEEP_SCHEDULE] * 2]
PERIODIC = ["EVERY:5@0.0", "EVERY:60@0.0"]

LONGEST = 40.0  # seconds: the longest timeout, also of a job of its own
OPTIONS = [
    "",
    '{"history":2}',
    '{"history":0}',
    '{"timeout":40}',
    '{"timeout":24}',
    '{"on-lost":"stop"}',
    '{"grace":5}',
    '{"overlap":"queue"}',
    *['{"expires":5}'] * 4,
]

OWNERS = ["OwnerOf1", "OwnerOf2"]
ENTRY = '{"kind": "worker", "host": "web1", "pid": 4711, "queues": ["work-A"], "version": "1"}'

jobids = st.sampled_from(JOBIDS)
owners = st.sampled_from(OWNERS)
# None leaves what the job has.
options = st.sampled_from([None, None, None, *OPTIONS])
memberships = st.sampled_from([None, "", "a.csv", "b.csv", "a.csv\nNOW"])
data = st.sampled_from([None, None, "", '{"a":1}'])
delays = st.sampled_from([-3.0, 0.0, 1.0, 10.0, 40.0])
turns = st.sampled_from([["work-A"], ["work-B"], ["work-A", "work-B"], ["work-B", "work-A", "work-A"]])
which = st.integers(0, 9)
queue_limits = st.sampled_from(["", *TIMEOUTS])
ways = st.fixed_dictionaries(
    {
        "place": st.sampled_from(["next", "next", "next", "due", "due", "stop", "die", "unset"]),
        "delay": st.sampled_from([None, 0.0, 5.0]),
        "why": st.sampled_from(["", "", "", "overrun"]),
        "skipped": st.sampled_from([(0, 0), (0, 0), (2, 0), (1, 3)]),
        "outcome": st.sampled_from(["ok", "ok", "failed", None]),
        "output": st.sampled_from([None, None, "", "printed", "more"]),
    }
)


def rounded(tries):
    """Tries or a retry state, with times as Redis keeps them."""
    return [round(value, 6) if isinstance(value, float) else value for value in astuple(tries)]


def outcome_of(end: End, now: float) -> NextState:
    """What a worker or a dispatcher makes of it."""
    retry_state = RetryState(*astuple(end.tries)).format() if end.tries else ""
    failure = end.failure and {"due": end.failure[0], "attempt": end.failure[1]}
    due = f"+{end.due - now:.6f}" if end.is_pause else end.due
    outcome = end.outcome and Outcome(end.outcome)
    given = end.place, due, end.why, retry_state, failure, end.missed, end.running, end.retried
    return NextState(*given, outcome=outcome)


has_run = precondition(lambda self: hasattr(self, "runs") and self.runs)


class Jobs(RuleBasedStateMachine):
    """Its `client` is given by the test."""

    client = None
    number = 0

    @initialize()
    def begin(self):
        Jobs.number += 1
        self.store = Store(self.client, f"machine{Jobs.number}", queue_for)
        self.dispatcher = Dispatcher(self.store, Settings())
        self.model = Model(TIMEOUTS, LEASE, GRACE)
        self.now = 1000.0
        self.tags = 0
        self.signed: dict[str, tuple[float, float]] = {}  # by owner: since when it is there, and seen
        self.told: Counter[tuple[str, str]] = Counter()
        self.archivers: dict[int, Iterator[None]] = {}
        self.runs: dict[tuple[str, str], Run] = {}  # by tag and job, also those that ended long ago
        self.saved: dict[str, str] = {}  # by job, what it has saved for its next try
        self.shares: dict[str, str] = {}  # by job, how far its run says it is

    def teardown(self):
        if hasattr(self, "store"):
            self.dispatcher.close()
            assert list(fsck(self.store)) == []
            self.store.upkeep.flush()
            assert self.client.keys(f"{self.store.keys.prefix}-*") == []

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0, LEASE, 20.0]))
    def time_passes(self, seconds):
        self.now += seconds

    # Entering and removing jobs

    @rule(
        jobid=jobids,
        text=st.sampled_from(PERIODIC),
        delay=delays,
        mode=st.sampled_from(MODES),
        elsewhere=st.booleans(),
        new_jitter=st.sampled_from([False, False, False, True]),
        options=options,
        data=data,
        group=memberships,
    )
    def set_periodic(self, jobid, text, delay, mode, elsewhere, new_jitter, options, data, group):
        # Another worker class may have a queue of another name for it.
        queue = "work-B" if elsewhere else queue_for(jobid)
        more = {"options": options, "data": data, "new_jitter": new_jitter, "group": group}
        more["expires"] = self._find_expires(jobid, options)
        set_one(self.store.at(self.now), JobToSet(jobid, text, self.now + delay, False, queue, mode, **more))
        self.model.set(self.now, jobid, text, self.now + delay, once=False, mode=mode, queue=queue, **more)

    @rule(jobid=jobids, delay=delays, options=options)
    def set_once(self, jobid, delay, options):
        due, more = self.now + delay, {"options": options, "expires": self._find_expires(jobid, options)}
        set_one(self.store.at(self.now), JobToSet(jobid, f"AT:{due}", due, True, queue_for(jobid), **more))
        self.model.set(self.now, jobid, f"AT:{due}", due, once=True, **more)

    def _find_expires(self, jobid, options):
        """What the job has, or will have, of that option."""
        job = self.model.job(jobid)
        return job.expires if options is None else replace(job, options=options).expires

    @rule(jobid=jobids, text=st.sampled_from(PERIODIC))
    def set_expiring(self, jobid, text):
        """A job that waits in its queue, and must begin within 5 seconds."""
        more = {"options": '{"expires":5}', "expires": 5.0}
        set_one(self.store.at(self.now), JobToSet(jobid, text, self.now, False, queue_for(jobid), **more))
        self.model.set(self.now, jobid, text, self.now, once=False, **more)

    @rule(jobid=jobids, text=st.sampled_from(["NOW", "CONTINUE"]), data=data)
    def set_now(self, jobid, text, data=None):
        self._set_now(jobid, text, data)

    def _set_now(self, jobid, text, data=None):
        set_one(self.store.at(self.now), JobToSet(jobid, text, "now", text == "NOW", queue_for(jobid), data=data))
        self.model.set(self.now, jobid, text, self.now, text == "NOW", data=data, begins=text == "CONTINUE")

    @rule(jobid=jobids)
    def set_stop(self, jobid):
        set_job(self.store.at(self.now), jobid, "STOP", None)
        self.model.set(self.now, jobid, "STOP", None, once=False)

    @rule(jobid=jobids)
    def unset(self, jobid):
        known = self.model.unset(jobid)
        try:
            self.store.jobs.unset(jobid)
        except NoSuchJob:
            assert not known
        else:
            assert known

    @rule(jobid=jobids, membership=memberships)
    def own(self, jobid, membership):
        self.store.jobs.set_groups({jobid: membership or ""})
        self.model.own(jobid, membership or "")

    @rule(wanted=st.lists(jobids, unique=True, max_size=3), group=st.sampled_from(["a.csv", "b.csv"]))
    def unset_rows(self, wanted, group):
        gone = self.store.jobs.unset_rows(wanted, group)
        assert sorted(gone) == sorted(jobid for jobid in wanted if self.model.unset_row(jobid, group))

    @rule(jobid=jobids)
    def run_explicitly(self, jobid):
        known = self.model.run(self.now, jobid)
        try:
            run_job(self.store.at(self.now), jobid)
        except NoSuchJob:
            assert not known
        else:
            assert known

    @rule(jobid=jobids)
    def cancel(self, jobid):
        expected = self.model.cancel(self.now, jobid)
        assert cancel_jobs(self.store.at(self.now), [jobid], Settings()) == [(jobid, expected)]

    # What an operator does to queues

    @rule(name=queue_limits, delay=st.sampled_from([None, 1.0, 20.0]))
    def pause_queue(self, name, delay):
        until = None if delay is None else self.now + delay
        assert self.store.at(self.now).queue_limits.pause(name, until) == self.model.pause_queue(self.now, name, until)
        assert not self.store.at(self.now).queue_limits.pause(name, until)

    @rule(name=queue_limits, resume=st.booleans())
    def open(self, name, resume):
        expected = self.model.open(self.now, name, resume)
        for queue in self.store.queue_limits.list_queues() if not name else ():
            # Workers are woken for those that were ever used.
            self.model.open(self.now, queue, resume=False)
        assert self.store.at(self.now).queue_limits.open(name, resume) == expected

    @rule(
        name=st.sampled_from(list(TIMEOUTS)),
        at_once=st.sampled_from([None, 1, 2]),
        rate=st.sampled_from([None, None, (1, 60), (3, 10), (2, 1)]),
    )
    def limit(self, name, at_once, rate):
        self.store.at(self.now).queue_limits.limit(name, at_once or False, rate or False)
        self.model.limit(self.now, name, at_once, rate)

    # What an operator does to jobs

    @rule(jobid=jobids, delay=st.sampled_from([None, None, 1.0, 10.0]))
    def pause(self, jobid, delay):
        until = None if delay is None else self.now + delay
        [word] = self.store.at(self.now).pauses.pause([jobid], until, "me", "")
        assert word == self.model.pause(self.now, jobid, until)

    @rule(jobid=jobids, lasting=st.sampled_from([1.0, 10.0]), again=st.booleans())
    def black_out(self, jobid, lasting, again):
        name, blackouts = f"job:{jobid}", self.store.at(self.now).blackouts
        # The instant may have more decimals than a schedule.
        blackout = Blackout(f"EVERY:{math.floor(self.now)}@0", lasting + 1, self.now, "me")
        if blackouts.set([name], blackout, self.now, "") == ["missing"]:
            assert self.model.job(jobid).schedule is None
            return
        [state] = blackouts.inspect([name])
        window, following = decide_begun(state)
        given = state, window, following
        assert blackouts.begin(*given) == self.model.begin(self.now, jobid, window.end)
        if again:
            assert blackouts.begin(*given) == "stale", "another dispatcher has begun it"
        assert blackouts.end([name], "") == ["ended"]

    @rule(jobid=jobids)
    def resume(self, jobid):
        resume(self.store.at(self.now), Settings(), [jobid])
        self.model.resume(self.now, jobid)

    @rule()
    def ring(self):
        resume_over(self.store.at(self.now), Settings(), survey(self.store.at(self.now)).timers)
        self.model.ring(self.now)
        self._skip_expired(1)

    @precondition(lambda self: any(self._list_timers()))
    @rule(which=which, late=st.sampled_from([0.0, 0.0, 7.0, 60.0]), times=st.integers(1, 2))
    def expire(self, which, late, times):
        """When the time of a job has come."""
        found = list(self._list_timers())
        self.now = max(self.now, found[which % len(found)] + late)
        self._skip_expired(times)

    def _skip_expired(self, times):
        # Twice with the same survey, as two dispatchers would.
        found = survey(self.store.at(self.now)).timers if times else []
        for _ in range(times):
            skip_expired(self.store.at(self.now), Settings(), found)
        if times:
            self.model.expire(self.now)

    def _list_timers(self):
        jobs = self.model.jobs.values() if hasattr(self, "model") else ()
        return (job.expires_at for job in jobs if job.expires_at is not None)

    # What the dispatcher does

    @rule(seen=st.integers(1, 2), homeless=st.sampled_from([None, None, None, "b:A"]))
    def dispatch(self, seen, homeless):
        self._skip_expired(seen - 1)
        # Twice with the same survey, as two dispatchers would.
        found = survey(self.store.at(self.now))
        due = [(jobid, moment, "" if jobid == homeless else queue_for(jobid)) for jobid, moment in found.due]
        assert dispatch(self.store.at(self.now), due) == self.model.dispatch(self.now, homeless)
        for _ in range(seen - 1):
            assert dispatch(self.store.at(self.now), due) == 0

    @precondition(lambda self: any(self._skippable()))
    @rule(which=which, count=st.integers(1, 2), reason=st.sampled_from([Skip.MISSED, Skip.LATE]))
    def skip(self, which, count, reason):
        found = list(self._skippable())
        jobid = found[which % len(found)]
        due, schedule = self.model.job(jobid).timeline, self.model.job(jobid).schedule
        given = jobid, schedule, next_of(schedule, self.now), count, reason
        assert skip(self.store.at(self.now), jobid, repr(due), *given[1:]) == self.model.skip(due, *given)
        # Once more it changes nothing, unless it is due at the same instant again.
        if due != given[2]:
            assert not skip(self.store.at(self.now), jobid, repr(due), *given[1:])

    def _skippable(self):
        """The jobs on the timeline that have further occurrences."""
        jobs = self.model.jobs.items() if hasattr(self, "model") else ()
        return (jobid for jobid, job in jobs if job.timeline is not None and not job.runs_once)

    @rule()
    def recover(self):
        found = survey(self.store.at(self.now))
        assert [(run.tag, run.jobid) for run in found.lost] == self.model.lost(self.now)
        self.model.recover(self.now)
        self.dispatcher._recover(self.store.at(self.now), found)
        # Another dispatcher has seen the same.
        self.dispatcher._recover(self.store.at(self.now), found)

    @has_run
    @rule(which=which)
    def tidy_up(self, which):
        """Where nothing is to be done."""
        (tag, _), _ = self._one(which)
        self.store.at(self.now).upkeep.repair_tag(tag, JOBIDS)
        self.model.hold(self.now, tag)

    # What a worker does

    @rule(turns=turns, most=st.integers(1, 4), repeated=st.sampled_from([None, False, True]), strict=st.booleans())
    def take(self, turns, most, repeated, strict):
        self.tags += 1
        self._take(self._name_tag(), turns, most, strict=strict)
        if repeated is not None:
            # Whoever asks does not always know that it is for the second time.
            self._take(self._name_tag(), turns, most, repeated=repeated)

    @has_run
    @rule(turns=turns, most=st.integers(1, 4), which=which)
    def take_again(self, turns, most, which):
        """Under a tag that may have runs, or may have had some."""
        (tag, _), _ = self._one(which)
        self._take(tag, turns, most, repeated=True)

    def _take(self, tag, turns, most, strict=False, **more):
        served = tag in self.model.batches
        expected = self.model.take(self.now, tag, turns, most, strict)
        names = list(dict.fromkeys(turns))
        queues, numbers = [(name, TIMEOUTS[name]) for name in names], [1 + names.index(name) for name in turns]
        runs = take_many(self.store.at(self.now), queues, numbers, tag, most, strict=strict, **more)
        assert [run.jobid for run in runs] == expected
        for run in runs:
            assert run.due <= self.now, "never before its due time"
            # Also of one that it was given before: those that the job has now.
            job = self.model.job(run.jobid)
            assert (run.options, run.stored_data) == (job.options, job.data)
            if served:
                # What it was given first counts: a schedule that was set since is not what is run.
                known = self.runs[tag, run.jobid]
                assert (known.start, known.due, known.deadline) == (run.start, run.due, run.deadline)
            else:
                assert run.deadline == run.start + job.option("timeout", TIMEOUTS[run.queue])
                self.runs[tag, run.jobid] = run

    def _name_tag(self):
        """The last tag: one of a process, or of an older version."""
        return f"{[*OWNERS, ''][self.tags % 3]}tag{self.tags}{NOTIFIES if self.tags % 2 else ''}"

    def _one(self, which):
        """A run, also one that ended long ago: a stale tag must change nothing."""
        return list(self.runs.items())[-1 - which % len(self.runs)]

    def _together(self, which):
        """Runs that were taken together, in the order in which they were to run."""
        (tag, _), _ = self._one(which)
        return [run for (own, _), run in self.runs.items() if own == tag]

    @has_run
    @rule(which=which, first=st.integers(0, 2))
    def release(self, which, first):
        """All that were taken together, or the last ones."""
        runs = self._together(which)[first:]
        if runs:
            words = self.store.at(self.now).runs.release(runs)
            assert words == self.model.release(self.now, [run.jobid for run in runs], runs[0].tag)

    @has_run
    @rule(number=st.integers(1, 9))
    def heartbeat(self, number):
        """Also for a part of those that were taken together."""
        runs = list(self.runs.items())[-number:]
        for (tag, jobid), run in runs:
            if run.reported is not run.told and self._is_flying(run) and self.model.job(jobid).schedule is not None:
                self.shares[jobid] = run.reported.format(tag)
        words = self.store.at(self.now).runs.heartbeat([run for _, run in runs])
        assert words == self.model.heartbeat(self.now, [key for key, _ in runs])

    @rule(jobid=jobids, text=st.sampled_from(["NOW", "CONTINUE"]))
    def begin_run(self, jobid, text):
        self._set_now(jobid, text)
        self.tags += 1
        self._take(self._name_tag(), [queue_for(jobid)], 1)

    @has_run
    @rule(which=which, text=st.sampled_from(["", "1", "2"]))
    def save(self, which, text):
        _, run = self._one(which)
        run.uses_saved = True
        if not self._is_flying(run):
            with pytest.raises(LostRun):
                self.store.at(self.now).runs.save(run, text)
            return
        self.store.at(self.now).runs.save(run, text)
        if self.model.job(run.jobid).schedule is not None:
            self.saved.pop(run.jobid, None)
            self.saved |= {run.jobid: f"{run.key} {text}"} if text else {}

    @has_run
    @rule(which=which, share=st.sampled_from([0.0, 0.5, 1.0]))
    def say_how_far(self, which, share):
        """The next heartbeat tells the server."""
        self._one(which)[1].reported = Progress(share)

    def _is_flying(self, run):
        flight = self.model.job(run.jobid).flight
        return flight is not None and flight.tag == run.tag

    @has_run
    @rule(which=which)
    def read_saved(self, which):
        """Only the next try of the same occurrence finds it."""
        _, run = self._one(which)
        key, _, text = self.saved.get(run.jobid, "").partition(" ")
        assert self.store.at(self.now).runs.read_saved(run) == (text if key == run.key else "")

    @has_run
    @rule(which=which, first=st.integers(0, 2), hows=st.lists(ways, min_size=1, max_size=4), whole=st.booleans())
    def end_several(self, which, first, hows, whole):
        """All that were taken together, or a part of them."""
        runs = self._together(which)[first:]
        ends = [(run, self._how(run, **how)) for run, how in zip(runs, hows, strict=False)]
        if ends:
            given = [(run, outcome_of(end, self.now)) for run, end in ends]
            call = self.store.at(self.now).runs.pack_end(given, whole=whole)
            answers = self.store.runs.read_end(self.store.scripts.run(call))
            asked = [(run.jobid, run.schedule, end) for run, end in ends]
            assert answers == self.model.end(self.now, runs[0].tag, asked, whole)
            for (run, outcome), (_, end), answer in zip(given, ends, answers, strict=True):
                self._drop(run, outcome, answer)
                if not whole:
                    self._conclude(run, outcome, end, answer)

    @has_run
    @rule(which=which, how=ways, lives=st.booleans())
    def end(self, which, how, lives):
        _, run = self._one(which)
        end = self._how(run, **how)
        outcome = outcome_of(end, self.now)
        answer = self.store.at(self.now).runs.end(run, outcome)
        assert [answer] == self.model.end(self.now, run.tag, [(run.jobid, run.schedule, end)])
        self._drop(run, outcome, answer)
        if lives:
            self._conclude(run, outcome, end, answer)

    def _how(self, run, outcome, output, **how):
        run.output = output
        return replace(self._way(run, **how), outcome="overrun" if how["why"] else outcome, output=output)

    def _way(self, run, place, delay, why, skipped):
        due = None if delay is None else self.now + delay
        missed, running = skipped
        if place == "due":
            tries = Tries(run.failures + (not why), run.losses, run.tries + 1, run.due, run.after)
            due = run.due if due is None or why else due
            return End(place, due, why, tries, retried=not why, is_pause=due >= self.now)
        if place == "die":
            return End(place, None, why, failure=(run.due, run.attempt))
        if place == "next":
            begins = run.schedule == "CONTINUE"  # it always has a next time
            due = self.now if begins and due is None else due
            return End(place, due, why, is_pause=begins, missed=missed, running=running)
        return End(place, None, why)

    def _conclude(self, run, outcome, end, answer):
        """Go on as a worker does that is told to compute the place again."""
        if answer.word in ("changed", "overrun"):
            failure = run.due, run.attempt
            overrun = End("die", why="overrun", failure=failure, outcome="overrun", output=run.output)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Run, "now", lambda run: self.now)
                answer, outcome = commit(self.store.at(self.now), run, outcome, Settings(), answer)
            expected = self.model.conclude(self.now, run.jobid, run.tag, end, overrun)
            assert (answer.word, answer.detail) == expected
            self._drop(run, outcome, answer)

    def _drop(self, run, outcome, answer):
        """What its run has saved goes with the last try of an occurrence, and how far it was with each."""
        if answer.word != "ok":
            return
        is_over = outcome.outcome in (Outcome.OK, Outcome.CANCELLED)
        if outcome.place == "unset" or (is_over and run.uses_saved):
            self.saved.pop(run.jobid, None)
            self.shares.pop(run.jobid, None)
        if run.told is not None:
            self.shares.pop(run.jobid, None)

    # What is kept of runs

    @rule(steps=st.integers(1, 9))
    def archive(self, steps):
        """Also some steps only: whoever archives may die."""
        for _ in islice(self.store.at(self.now).archiver.archive(), steps):
            pass

    @rule(which=st.integers(0, 1), anew=st.booleans())
    def go_on_archiving(self, which, anew):
        """Two do so at the same time, maybe with long pauses between their steps."""
        if anew or which not in self.archivers:
            self.archivers[which] = self.store.at(self.now).archiver.archive()
        if next(self.archivers[which], self) is self:
            del self.archivers[which]

    # What is told of runs

    @rule()
    def tell(self):
        """What nobody has told in time."""
        for claim in self.store.at(self.now).outbox.claim_all(self.store.queue_limits.list_queues()):
            self._tell(claim.name, claim.runs)

    @rule(which=which)
    def tell_own(self, which):
        """As a worker does at once."""
        found = [*self.client.hgetall(self.store.keys.untold).items()]
        if found:
            field, value = found[which % len(found)]
            self._tell(field.decode(), read_entry(value.partition(b"\n")[2]))

    def _tell(self, field, runs):
        self.told.update((field.partition(" ")[0], run.jobid) for run in runs)
        self.store.outbox.forget([field])

    # Who is there

    @rule(owner=owners)
    def register(self, owner):
        since, _ = self.signed.get(owner, (self.now, self.now))
        assert float(self.store.at(self.now).workers.register(owner, ENTRY)) == since
        self.signed[owner] = since, self.now

    @rule(owner=owners)
    def renew(self, owner):
        assert self.store.at(self.now).workers.renew(owner)[0] == (owner in self.signed)
        if owner in self.signed:
            self.signed[owner] = self.signed[owner][0], self.now

    @rule(owner=owners)
    def unregister(self, owner):
        self.store.at(self.now).workers.unregister(owner)
        self.signed.pop(owner, None)

    # What must hold after each step

    @invariant()
    def each_process_is_as_it_has_signed(self):
        found = self.store.at(self.now).workers.list_all()
        assert {each.id[-OWNER:]: (each.since, each.seen) for each in found} == self.signed
        for each in found:
            assert (each.state == "alive") == (self.now - each.seen <= LOST)
            own = [batch for tag, batch in self.model.batches.items() if tag.startswith(each.id[-OWNER:])]
            assert set(each.jobs) == {jobid for batch in own for jobid in batch.jobs}

    @invariant()
    def each_run_that_has_ended_is_as_the_model_says(self):
        past = {jobid: runs for jobid, runs in self.model.past.items() if runs}
        everything: dict[str, list[tuple[float, str, int]]] = {}
        for run in self.store.journal.list_runs():
            everything.setdefault(run.jobid, []).append((run.due, run.outcome, run.attempt))
        assert everything == past
        for jobid in JOBIDS:
            found = self.store.journal.list_runs([jobid])
            assert [(run.due, run.outcome, run.attempt) for run in found] == past.get(jobid, [])
        counts = self.store.counts.read()
        assert sum(counts[f"took:{size:g}:{name}"] for size in (*BUCKETS, math.inf) for name in TIMEOUTS) == sum(
            number for name, number in counts.items() if name.startswith("runs:") and ":lost:" not in name
        )
        assert {name: number for name, number in counts.items() if name.startswith("runs:")} == self.model.counts

    @invariant()
    def each_run_is_told_or_is_to_be_told(self):
        told = self.told.copy()
        for field, value in self.client.hgetall(self.store.keys.untold).items():
            runs = read_entry(value.partition(b"\n")[2])
            told.update((field.decode().partition(" ")[0], run.jobid) for run in runs)
        assert told == self.model.told

    @invariant()
    def each_job_is_as_the_model_says(self):
        for state in self.store.questions.inspect(JOBIDS, with_data=True):
            job = self.model.job(state.jobid)
            assert state.schedule == job.schedule
            assert (state.status or "").partition(":")[0] == (job.status or "")
            assert state.timeline == job.timeline
            waiting = state.waiting and (state.waiting.due, state.waiting.queue)
            assert waiting == (None if job.queued is None else (job.queued, job.queue))
            assert state.held == job.held
            pause = state.pause and (state.pause.since, state.pause.until)
            assert pause == (None if job.paused is None else (job.paused, job.until))
            assert state.skipped == job.skipped
            assert state.expires_at == (None if job.expires_at is None else round(job.expires_at, 6))
            assert (state.options, state.data, state.membership) == (job.options, job.data, job.membership)
            assert (state.output, state.has_output) == (job.output, job.output is not None)
            assert rounded(RetryState.parse(state.retry_state)) == rounded(job.tries), state.retry_state
            assert (state.failure and (state.failure["due"], state.failure["attempt"])) == job.failure
            run, flight = state.run, job.flight
            assert (run is None) == (flight is None)
            if flight:
                assert (run.tag, run.queue, run.next) == (flight.tag, flight.queue, flight.next)
                assert run.cancelled == flight.cancelled
                assert (run.start, run.deadline, run.due) == (flight.start, flight.deadline, flight.due)
                assert (run.failures, run.losses) == (flight.failures, flight.losses)

    @invariant()
    def what_runs_save_and_say_is_as_the_model_says(self):
        keys = self.store.keys
        for jobid in JOBIDS:
            if self.model.job(jobid).schedule is None:
                # It was unset, or never set: nothing is kept of it.
                self.saved.pop(jobid, None)
                self.shares.pop(jobid, None)
        for key, expected in ((keys.saved, self.saved), (keys.progress, self.shares)):
            assert {jobid.decode(): text.decode() for jobid, text in self.client.hgetall(key).items()} == expected

    @invariant()
    def each_tag_is_as_the_model_says(self):
        keys, batches = self.store.keys, self.model.batches
        found = self.client.hgetall(keys.batches).items()
        assert {tag.decode(): parse_batch(jobs.decode()) for tag, jobs in found} == {
            tag: batch.jobs for tag, batch in batches.items()
        }
        leases = self.client.zrange(keys.leases, 0, -1, withscores=True)
        assert {tag.decode(): lease for tag, lease in leases} == {tag: batch.lease for tag, batch in batches.items()}
        held = {tag: batch.taken for tag, batch in batches.items() if batch.is_held}
        assert set(self.client.keys(f"{keys.inflight_base}*")) == {keys.inflight(tag).encode() for tag in held}
        for tag, taken in held.items():
            assert parse_batch(self.client.get(keys.inflight(tag)).decode()) == taken
            assert 0 < self.client.pttl(keys.inflight(tag)) <= LONGEST * 1000

    @invariant()
    def no_key_expires_by_the_real_clock(self):
        """However long an example takes. A key that would never expire, or too late, stays as it is."""
        for tag, batch in self.model.batches.items():
            if batch.is_held:
                self.client.pexpire(self.store.keys.inflight(tag), int(LONGEST * 1000), gt=True)

    @invariant()
    def each_queue_is_as_the_model_says(self):
        for name in TIMEOUTS:
            queue = self.client.lrange(self.store.keys.queue(name), 0, -1)
            assert [entry.decode() for entry in reversed(queue)] == self.model.queues[name]
            tombstones = self.client.smembers(self.store.keys.tombstones(name))
            assert {jobid.decode() for jobid in tombstones} == self.model.tombstones[name]

    @invariant()
    def each_limit_is_as_the_model_says(self):
        keys = self.store.keys
        slots = {
            f"{name}\n{jobid}"
            for name in TIMEOUTS
            if self.model.queue_limits[name].at_once
            for jobid in self.model.flying(name)
        }
        assert {slot.decode() for slot in self.client.zrange(keys.slots, 0, -1)} == slots
        kept = {limits.queue: limits for limits in self.store.queue_limits.list_all()}
        for name, limits in self.model.queue_limits.items():
            found = kept.get(name, QueueLimits(name))
            assert (found.pause and found.pause.since) == limits.since
            assert found.at_once == limits.at_once
            assert (found.rate is None) == (limits.rate is None)

    @invariant()
    def the_invariants_hold(self):
        assert list_problems(self.store) == []


def narrow(name, steps, *unchecked):
    """A machine with these steps alone, which are rare among all, and without the checks of what they leave alone."""
    kept = {
        key: value
        for key, value in vars(Jobs).items()
        if key in steps or not (hasattr(value, RULE_MARKER) or key.startswith(unchecked))
    }
    return type(name, (RuleBasedStateMachine,), kept)


SAVING = "begin_run unset heartbeat end save say_how_far read_saved"
Savers = narrow("Savers", SAVING.split(), "each_", "the_invariants_hold")
EXPIRING = """
    set_expiring set_periodic set_once set_now unset run_explicitly cancel pause resume ring pause_queue open
    time_passes dispatch take recover expire end release
"""
Expirers = narrow("Expirers", EXPIRING.split(), "each_process", "each_run_is_told", "each_limit", "what_runs_save")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [
        *((Jobs, 4), (Savers, 4), (Expirers, 3)),
        *(pytest.param(*each, marks=pytest.mark.acceptance) for each in ((Jobs, 10), (Savers, 20), (Expirers, 7))),
        *(pytest.param(*each, marks=pytest.mark.nightly) for each in ((Jobs, 400), (Savers, 1000), (Expirers, 600))),
    ],
)
def test_random_operations_agree_with_the_model(client, monkeypatch, machine, examples):
    # So that a few runs are archived in several steps.
    monkeypatch.setattr("redbike.store.journal.READ_STEP", 2)
    monkeypatch.setattr("redbike.store.journal.WRITE_STEP", 1)
    monkeypatch.setattr(machine, "client", client)
    try_machine(machine, examples)


# Walks that chance takes too rarely, word by word. What each step does, of the job a:A:
PERIODIC_STEP = {"jobid": "a:A", "elsewhere": False, "new_jitter": False, "options": None, "data": None, "group": None}
ONE_MINUTE = PERIODIC_STEP | {"text": "EVERY:60@0.0", "mode": SetMode.REPLACE}
FIVE_SECONDS = ONE_MINUTE | {"text": "EVERY:5@0.0"}
ENDED = {"delay": 5.0, "why": "", "skipped": (0, 0), "outcome": "ok", "output": None}
WORDS = {
    "set": ("set_periodic", ONE_MINUTE | {"delay": 0.0}),
    "later": ("set_periodic", ONE_MINUTE | {"delay": 10.0}),
    "same": ("set_periodic", ONE_MINUTE | {"delay": 10.0, "mode": SetMode.KEEP_PLACE}),
    "elsewhere": ("set_periodic", ONE_MINUTE | {"delay": 0.0, "elsewhere": True}),
    "other": ("set_periodic", FIVE_SECONDS | {"delay": 10.0}),
    "past": ("set_periodic", FIVE_SECONDS | {"delay": -3.0}),
    "at": ("set_once", {"jobid": "a:A", "delay": 10.0, "options": None}),
    "due": ("set_once", {"jobid": "a:A", "delay": -3.0, "options": None}),
    "now": ("set_now", {"jobid": "a:A", "text": "NOW"}),
    "other-now": ("set_now", {"jobid": "a:A", "text": "NOW", "data": '{"a":1}'}),
    "continue": ("set_now", {"jobid": "a:A", "text": "CONTINUE"}),
    "brief": ("set_expiring", {"jobid": "a:A", "text": "EVERY:60@0.0"}),
    "brief-later": ("set_periodic", ONE_MINUTE | {"delay": 10.0, "options": '{"expires":5}'}),
    "expire": ("expire", {"which": 0, "late": 0.0, "times": 2}),
    "b": ("set_now", {"jobid": "b:A", "text": "NOW"}),
    "stop": ("set_stop", {"jobid": "a:A"}),
    "unset": ("unset", {"jobid": "a:A"}),
    "run": ("run_explicitly", {"jobid": "a:A"}),
    "cancel": ("cancel", {"jobid": "a:A"}),
    "pause": ("pause", {"jobid": "a:A", "delay": None}),
    "resume": ("resume", {"jobid": "a:A"}),
    "close": ("pause_queue", {"name": "work-A", "delay": None}),
    "close-all": ("pause_queue", {"name": "", "delay": 20.0}),
    "open": ("open", {"name": "work-A", "resume": True}),
    "dispatch": ("dispatch", {"seen": 1, "homeless": None}),
    "homeless": ("dispatch", {"seen": 1, "homeless": "a:A"}),
    "one": ("limit", {"name": "work-A", "at_once": 1, "rate": None}),
    "rate": ("limit", {"name": "work-A", "at_once": None, "rate": (1, 60)}),
    "both": ("limit", {"name": "work-A", "at_once": 1, "rate": (1, 60)}),
    "free": ("limit", {"name": "work-A", "at_once": None, "rate": None}),
    "take": ("take", {"turns": ["work-A"], "most": 1, "repeated": None, "strict": False}),
    "wait": ("time_passes", {"seconds": 4.0}),
    "long": ("time_passes", {"seconds": LEASE}),
    "lose": ("recover", {}),
    "release": ("release", {"which": 0, "first": 0}),
    "end": ("end", {"which": 0, "lives": True, "how": ENDED | {"place": "next"}}),
    "out": ("end", {"which": 0, "lives": True, "how": ENDED | {"place": "next", "delay": None}}),
    "stale": ("end", {"which": 1, "lives": True, "how": ENDED | {"place": "unset"}}),
    "overrun": ("end", {"which": 0, "lives": True, "how": ENDED | {"place": "due", "why": "overrun"}}),
    **{
        word: ("end", {"which": 0, "lives": True, "how": ENDED | {"place": place}})
        for word, place in {"die": "die", "quit": "stop", "vanish": "unset", "retry": "due"}.items()
    },
}
# One-offs, explicit runs, retries, what waits elsewhere; pauses; what is set during a run; limits; what expires.
WALKS = """
now take end, now take quit, now take die, now take retry, due take out, due take retry long dispatch take out
now take now retry take end, now take run retry take retry, due take now retry take, now take run pause retry resume
now take other-now retry take end, now take other-now now run end, now take run other-now other-now end take
past take now other-now now end, now take other-now pause retry resume take, now take run long lose take long lose take
now take long lose take long lose take long lose, set take long lose take stale, set take unset later vanish
later long homeless wait dispatch take, elsewhere later, elsewhere stop, elsewhere unset, elsewhere pause resume
later long run take end, later run take end, set take run long lose take, set take run long long overrun take
set take retry long dispatch take long lose take, set take retry later, set take retry now, set take retry run take
set take die run take end, set take die set take retry, set take die run take quit
set take run end take, set take run die take, set take run out take, set take run retry take, continue take run end take
set pause take resume take, set take pause long lose, set pause wait run take wait pause long lose
set take run wait pause end, set take pause wait run end, set take pause retry resume, set pause run take retry resume
later pause wait run take end, at pause long run take out resume, later run wait pause run take
set take wait pause release run take release, past take wait pause long end, set take pause past long end
later pause same, set pause long other, later pause long other, later long pause other, later pause other
stop pause other, set pause past resume, later pause past resume, stop pause past resume, set pause stop resume
set past, set due, set now, set wait set
set pause wait past, set pause wait due, set pause wait now, set pause wait set
set take past now, set take past run, later pause run take past end, set take continue die
set take past retry, set take pause past resume retry, set take run past retry, set take pause run past resume retry
set take pause now resume end, set take pause run now resume end, set take pause long long overrun resume take
past wait close long cancel take, past close long open long cancel, past close-all long long cancel
past take retry close long dispatch cancel, past wait close long pause long cancel resume, now close cancel
later pause unset, set take pause vanish, later long pause cancel resume, set take past cancel end
one set b take take long lose take, both set b take take release take take, rate set b take take release take take
set b take one take end take, set b stop one take, both set b take take free take, one set take end b take
rate set b take long long wait take long long take, rate set b take rate take, one set b take unset vanish take
brief-later run wait expire, brief-later run take end, brief-later long run wait expire, brief wait run wait take
brief expire, brief wait run wait expire, brief pause wait wait resume, brief take long lose expire
brief take release expire, one, later pause pause
"""


@pytest.mark.parametrize("walk", re.split(r"[,\n] *", WALKS.strip()))
def test_known_walks_agree_with_the_model(client, monkeypatch, walk):
    monkeypatch.setattr(Jobs, "client", client)
    machine = Jobs()
    machine.begin()
    for word in walk.split():
        step, given = WORDS[word]
        getattr(machine, step)(**given)
        machine.each_job_is_as_the_model_says()
        machine.each_queue_is_as_the_model_says()
        machine.each_limit_is_as_the_model_says()
    machine.each_run_that_has_ended_is_as_the_model_says()
    machine.teardown()
