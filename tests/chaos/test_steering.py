"""The oracle for steering, fed with made-up histories: it must convict what is not well."""

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


def held(until):
    return {"pauses": {JOB: f"{EPOCH + 30:.6f} {EPOCH + 25:.6f} {until} {{}}"}}


def crowd(number, *steps):
    """So many runs of the queue with a limit at once, which no schedule explains, beside those of the job."""

    def act(story):
        for n in range(number):
            job = f"fast.steered.0-{2 * n + 1}:L"
            story.run(10, start=10.1 + n / 10, took=5, pid=1 + n % 2, job=job, tag=f"t{n}")
        steered(*steps)(story)

    return act


CASES = {
    "what came due during a pause and is not counted": case(
        "10 20 60", {"lost": 1}, paused(25, ("resume", 55)), skipped={"paused": 2}
    ),
    "a run while its job is paused": case(ALL, {"paused": 1}, paused(25, ("resume", 35))),
    "a run before the pause has ended by itself": case(ALL, {"paused": 1}, paused(22, until="12")),
    "a pause that goes on after its end": case(
        "10 20", {"stuck": 1}, paused(25, until="5"), pending=None, **held(f"{EPOCH + 30:.6f}")
    ),
    "a run that is tried again after it was cancelled": case(
        "10 20 30+3! 30@34 40 50 60",
        {"cancelled": 1},
        steered(("cancel", 31, "", "cancelled")),
        skipped={"cancelled": 1},
    ),
    "more are begun than the limit allows": case(ALL, {"exceeded": 1, "unexplained": 4}, crowd(4)),
    "more than a limit that was changed": case(
        ALL, {"exceeded": 1, "unexplained": 5}, crowd(5, ("limit", 5, "4", "", ""))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_convicts_what_is_not_well(story, name):
    judged(story, *CASES[name])


@pytest.mark.parametrize(
    ("job", "due", "stuck"), [(LIMITED, 50, {}), (JOB, 50, {"stuck": 1}), (LIMITED, 39, {"stuck": 1})]
)
def test_a_queue_with_a_limit_may_take_longer_until_nothing_is_overdue(story, job, due, stuck):
    # A one-off, because nothing else is to be judged.
    last = {"job": job, "schedule": f"AT:{EPOCH + due}"}
    judged(story, *case("", stuck, lambda story: story.snapshot("after", 2, timeline=due, **last), pending=due, **last))
