"""The oracle for steering, fed with made-up histories: it must acquit what is well and convict what is not."""

import pytest

from tests.chaos.test_oracle import ALL, EPOCH, Story, case, judged

JOB = "fast.steered.0-2:A"
LIMITED = "fast.steered.0-1:L"


class Steered(Story):
    """A story of a job that a client steers."""

    def snapshot(self, when, at, job=JOB, **more):
        super().snapshot(when, at, job=job, **more)

    def run(self, due, start=None, pid=1, job=JOB, **more):
        super().run(due, start, pid, job=job, **more)

    def steer(self, kind, began, more="", word="", job=JOB):
        self.change(kind, began, more, job=job, word=word)


@pytest.fixture
def story(tmp_path):
    return Steered(tmp_path)


def steered(*steps):
    """Operations, in the order of time."""
    return lambda story: [story.steer(*step) for step in steps]


def paused(began, *steps, until=""):
    return steered(("pause", began, until, "held"), *steps)


def held(until="-"):
    return {"pauses": {JOB: f"{EPOCH + 30:.6f} {EPOCH + 25:.6f} {until} {{}}"}}


def crowd(number, *steps):
    """So many runs of the queue with a limit at once, which no schedule explains, beside those of the job."""

    def act(story):
        for n in range(number):
            job = f"fast.steered.0-{2 * n + 1}:L"
            story.run(10, start=10.1 + n / 10, took=5, pid=1 + n % 2, job=job, tag=f"t{n}")
        steered(*steps)(story)

    return act


RAISED = "10 20 30+3!"
CASES = {
    "what came due during a pause and is counted": case(
        "10 20 30@55.1 60", {}, paused(25, ("resume", 55)), skipped={"paused": 2}
    ),
    "what is not counted": case("10 20 60", {"lost": 1}, paused(25, ("resume", 55)), skipped={"paused": 2}),
    "what is held is pending": case("10 20", {}, paused(25), pending=None, **held()),
    "a run while its job is paused": case(ALL, {"paused": 1}, paused(25, ("resume", 35))),
    "an explicit run while it is paused": case(ALL, {}, paused(25, ("rerun", 28))),
    "a run after it was resumed": case(ALL, {}, paused(25, ("resume", 28))),
    "a run after the pause has ended by itself": case(ALL, {}, paused(22, until="5")),
    "a run before the pause has ended by itself": case(ALL, {"paused": 1}, paused(22, until="12")),
    "a pause that goes on after its end": case(
        "10 20", {"stuck": 1}, paused(25, until="5"), pending=None, **held(f"{EPOCH + 30:.6f}")
    ),
    "what was cancelled and counted": case(
        "10 20 30 50 60", {}, steered(("cancel", 40.5, "", "cancelled")), skipped={"cancelled": 1}
    ),
    "a run that is tried again after it was cancelled": case(
        f"{RAISED} 30@34 40 50 60",
        {"cancelled": 1},
        steered(("cancel", 31, "", "cancelled")),
        skipped={"cancelled": 1},
    ),
    "a run that was asked for after it was cancelled": case(
        f"{RAISED} 30@34 40 50 60",
        {},
        steered(("cancel", 31, "", "cancelled"), ("rerun", 33.5)),
        skipped={"cancelled": 1},
    ),
    "more are begun than the limit allows": case(ALL, {"exceeded": 1, "unexplained": 4}, crowd(4)),
    "as many as the limit allows": case(ALL, {"unexplained": 3}, crowd(3)),
    "more than a limit that was changed": case(
        ALL, {"exceeded": 1, "unexplained": 5}, crowd(5, ("limit", 5, "4", "", ""))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_acquits_what_is_well_and_convicts_what_is_not(story, name):
    judged(story, *CASES[name])


def test_it_names_runs_that_were_lost_and_go_on(story):
    def strike(story):
        crowd(4)(story)
        story.fault("worker-pause", 10.15, 10.35, pid=1)

    verdict = judged(story, *case(ALL, {"unexplained": 4}, strike))
    assert verdict.occurrences["begun beyond a limit, beside runs that were lost and go on"] == 1


def test_what_was_counted_when_a_job_was_resumed_is_not_counted_again(story):
    def resume(story):
        after = {"retry_states": {JOB: f"0 0 0 - {EPOCH + 35:.6f}"}, "queued": {JOB: f"{EPOCH + 10:.6f} work-A"}}
        story.snapshot("before", 34, timeline=10)
        story.snapshot("after", 35, **after)

    judged(story, *case("10@36 40 50 60", {}, resume))


@pytest.mark.parametrize(
    ("job", "due", "stuck"), [(LIMITED, 54, {}), (JOB, 54, {"stuck": 1}), (LIMITED, 45, {"stuck": 1})]
)
def test_a_queue_with_a_limit_may_take_longer_until_nothing_is_overdue(story, job, due, stuck):
    # A one-off, because nothing else is to be judged.
    last = {"job": job, "schedule": f"AT:{EPOCH + due}"}
    judged(story, *case("", stuck, lambda story: story.snapshot("after", 2, timeline=due, **last), pending=due, **last))
