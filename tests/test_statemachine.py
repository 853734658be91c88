"""Random operations on a few jobs, compared with a plain model after each step, with the invariants checked."""

from dataclasses import astuple, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from redbike import scripts
from redbike.errors import NoSuchJob
from redbike.fsck import fsck
from redbike.records import Entry, Outcome, Run, Streak
from redbike.store import GRACE, LEASE, Store
from tests.model import Model, Tries
from tests.states import queue_for, with_long_queues

TIMEOUT = 20.0
JOBIDS = ["a:A", "b:A", "c:A"]
PERIODIC = ["EVERY:5@0.0", "EVERY:60@0.0"]

jobids = st.sampled_from(JOBIDS)
delays = st.sampled_from([-3.0, 0.0, 1.0, 10.0, 40.0])


def rounded(tries):
    """Tries or a streak, with times as Redis keeps them."""
    return [value if value is None else round(value, 6) for value in astuple(tries)[:5]]


class Jobs(RuleBasedStateMachine):
    """Its `client` is given by the test."""

    client = None
    long = False
    number = 0

    @initialize()
    def begin(self):
        Jobs.number += 1
        self.store = Store(self.client, f"machine{Jobs.number}", queue_for)
        self.model = Model(TIMEOUT, LEASE, GRACE, self.long)
        self.now = 1000.0
        self.tags = 0
        self.runs: list[Run] = []

    def teardown(self):
        if hasattr(self, "store"):
            self.store.flush()

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0, LEASE, TIMEOUT]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(jobid=jobids, text=st.sampled_from(PERIODIC), delay=delays, keeps=st.booleans())
    def set_periodic(self, jobid, text, delay, keeps):
        self.store.set_entry(Entry(jobid, text, self.now + delay, False, "work-A", keeps), now=self.now)
        self.model.set(self.now, jobid, text, self.now + delay, once=False, keeps=keeps)

    @rule(jobid=jobids, delay=delays)
    def set_once(self, jobid, delay):
        due = self.now + delay
        self.store.set(jobid, f"AT:{due}", due, once=True, now=self.now)
        self.model.set(self.now, jobid, f"AT:{due}", due, once=True)

    @rule(jobid=jobids)
    def set_now(self, jobid):
        self.store.set(jobid, "NOW", "now", once=True, now=self.now)
        self.model.set(self.now, jobid, "NOW", self.now, once=True)

    @rule(jobid=jobids)
    def set_stop(self, jobid):
        self.store.set(jobid, "STOP", None, now=self.now)
        self.model.set(self.now, jobid, "STOP", None, once=False)

    @rule(jobid=jobids)
    def unset(self, jobid):
        known = self.model.unset(jobid)
        try:
            self.store.unset(jobid)
        except NoSuchJob:
            assert not known
        else:
            assert known

    @rule(jobid=jobids)
    def requeue(self, jobid):
        known = self.model.requeue(self.now, jobid)
        try:
            self.store.requeue(jobid, now=self.now)
        except NoSuchJob:
            assert not known
        else:
            assert known

    @rule(seen=st.integers(1, 2))
    def dispatch(self, seen):
        # Twice with the same survey, as two dispatchers would.
        due = [(jobid, moment, queue_for(jobid)) for jobid, moment in self.store.survey(now=self.now).due]
        assert self.store.dispatch(due, now=self.now) == self.model.dispatch(self.now)
        for _ in range(seen - 1):
            assert self.store.dispatch(due, now=self.now) == 0

    @rule(repeated=st.booleans())
    def take(self, repeated):
        self.tags += 1
        tag = f"tag{self.tags}"
        expected = self.model.take(self.now, tag)
        run = self.store.take([("work-A", TIMEOUT)], tag, now=self.now)
        assert (None if run == "empty" else run.jobid) == expected
        if isinstance(run, Run):
            if repeated:
                assert self.store.take([("work-A", TIMEOUT)], tag, repeated=True, now=self.now) == run
            assert run.due <= self.now, "never before its due time"
            self.runs.append(run)

    @rule(most=st.integers(2, 4), repeated=st.booleans())
    def take_several(self, most, repeated):
        self.tags += 1
        tag = f"tag{self.tags}"
        expected = [jobid for jobid in (self.model.take(self.now, tag) for _ in range(most)) if jobid]
        runs = self.store.take_many([("work-A", TIMEOUT)], [1], tag, most, now=self.now)
        assert [run.jobid for run in runs] == expected
        if repeated and runs:
            again = self.store.take_many([("work-A", TIMEOUT)], [1], tag, most, repeated=True, now=self.now)
            assert sorted(again, key=lambda run: run.jobid) == sorted(runs, key=lambda run: run.jobid)
        self.runs += runs

    def _together(self, which):
        """Runs that were taken together, also long ago."""
        tag = self.runs[-1 - which % len(self.runs)].tag
        return [run for run in self.runs if run.tag == tag]

    @rule(which=st.integers(0, 9), delay=st.sampled_from([None, 0.0, 5.0]))
    def end_several(self, which, delay):
        if self.runs:
            due = None if delay is None else self.now + delay
            ended = []
            for run in self._together(which):
                run.schedule = self.model.job(run.jobid).schedule or ""
                ended.append((run, Outcome("next", due)))
            words = self.store.ended(self.store.scripts.run(self.store.end_call(ended, now=self.now)))
            expected = [self.model.end(self.now, run.jobid, run.tag, "next", due, "") for run, _ in ended]
            assert [word for word, _ in words] == expected

    @rule(which=st.integers(0, 9))
    def release(self, which):
        if self.runs:
            runs = self._together(which)
            words = self.store.release(runs, now=self.now)
            assert words == self.model.release([run.jobid for run in runs], runs[0].tag)

    @rule(which=st.integers(0, 9))
    def heartbeat(self, which):
        if self.runs:
            run = self.runs[-1 - which % len(self.runs)]
            assert self.store.heartbeat([run], now=self.now) == [self.model.heartbeat(self.now, run.jobid, run.tag)]

    @rule(
        which=st.integers(0, 9),
        place=st.sampled_from(["next", "next", "due", "stop", "die", "unset"]),
        delay=st.sampled_from([None, 0.0, 5.0]),
        why=st.sampled_from(["", "", "overrun"]),
    )
    def end(self, which, place, delay, why):
        # Also runs that ended long ago: a stale tag must change nothing.
        if self.runs:
            self._end(self.runs[-1 - which % len(self.runs)], place, None if delay is None else self.now + delay, why)

    @rule()
    def recover(self):
        for run in self.store.survey(now=self.now).lost:
            self._end(run, "due", run.due, "lost")

    def _end(self, run, place, due, why):
        lost = why == "lost"
        schedule = self.model.job(run.jobid).schedule or ""
        known = replace(run, schedule=schedule)
        tries = failure = None
        if place == "due":
            due = run.due if due is None else due
            tries = Tries(run.failures + (not lost), run.losses + lost, run.tries + 1, run.due, run.after)
        elif place == "die":
            failure = {"jobid": run.jobid, "due": run.due, "attempt": run.attempt}
        streak = Streak(*astuple(tries)).format() if tries else ""
        word, _ = self.store.end(known, Outcome(place, due, why, streak, failure), now=self.now)
        kept = failure and (run.due, run.attempt)
        assert word == self.model.end(self.now, run.jobid, run.tag, place, due, why, tries, kept)

    @invariant()
    def all_is_as_the_model_says(self):
        if not hasattr(self, "store"):
            return
        for state in self.store.inspect(JOBIDS):
            job = self.model.jobs.get(state.jobid)
            if job is None:
                assert (state.schedule, state.status, state.timeline, state.queued, state.running) == (
                    None,
                    None,
                    None,
                    "",
                    "",
                )
                continue
            assert state.schedule == job.schedule
            assert (state.status or "").partition(":")[0] == (job.status or "")
            assert state.timeline == job.timeline
            assert (float(state.queued.split(" ")[0]) if state.queued else None) == job.queued
            assert (state.running.split(" ")[0] if state.running else None) == (job.flight.tag if job.flight else None)
            assert state.lease == (job.flight.lease if job.flight else None)
            assert state.skipped == job.skipped
            assert rounded(Streak.parse(state.streak)) == rounded(job.tries), state.streak
            assert (state.failure and (state.failure["due"], state.failure["attempt"])) == job.failure
        queue = self.client.lrange(self.store.keys.queue("work-A"), 0, -1)
        assert [entry.decode() for entry in reversed(queue)] == self.model.queue
        withdrawn = self.client.smembers(self.store.keys.withdrawn)
        assert withdrawn == {f"{jobid}\nwork-A".encode() for jobid in self.model.withdrawn}

    @invariant()
    def the_invariants_hold(self):
        if hasattr(self, "store"):
            assert list(fsck(self.store)) == []


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_random_operations_agree_with_the_model(client, monkeypatch, long):
    if long:
        monkeypatch.setattr(scripts, "SCRIPTS", with_long_queues())
    monkeypatch.setattr(Jobs, "client", client)
    monkeypatch.setattr(Jobs, "long", long)
    run_state_machine_as_test(
        Jobs,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
