"""The oracle for steering, fed with made-up histories: it must acquit what is well and convict what is not."""

import pytest

from tests.chaos.test_oracle import EPOCH, Story, wrong

JOB = "fast.steered.0-2:A"
LIMITED = "fast.steered.0-1:L"


class Steered(Story):
    """A story of a job that a client steers."""

    def snapshot(self, when, at, job=JOB, **more):
        super().snapshot(when, at, job=job, **more)

    def run(self, due, start=None, pid=1, job=JOB, **more):
        super().run(due, start, pid, job=job, **more)

    def steer(self, kind, began, more="", answer="ok", word="", job=JOB):
        self.operations.note(
            kind, job=job, schedule=more, began=began, ended=began + 0.01, answer=answer, skipped=0, word=word
        )


@pytest.fixture
def story(tmp_path):
    return Steered(tmp_path)


def test_it_acquits_what_came_due_during_a_pause_and_is_counted(story):
    story.runs(10, 20)
    story.steer("pause", 25, word="held")
    story.steer("resume", 55)
    story.run(30, start=55.1)
    story.run(60)
    assert wrong(story.verdict(skipped={"paused": 2})) == {}


def test_it_convicts_when_that_is_not_counted(story):
    story.runs(10, 20)
    story.steer("pause", 25, word="held")
    story.steer("resume", 55)
    story.runs(60)
    assert wrong(story.verdict(skipped={"paused": 2})) == {"lost": 1}


def test_what_is_held_is_pending(story):
    story.runs(10, 20)
    story.steer("pause", 25, word="held")
    held = {"pauses": {JOB: f"{EPOCH + 30:.6f} {EPOCH + 25:.6f} - {{}}"}}
    assert wrong(story.verdict(pending=None, **held)) == {}


def test_it_convicts_a_run_while_its_job_is_paused(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.steer("pause", 25, word="held")
    story.steer("resume", 35)
    assert wrong(story.verdict()) == {"paused": 1}


@pytest.mark.parametrize("kind", ["rerun", "resume"])
def test_it_acquits_a_run_that_somebody_has_asked_for(story, kind):
    story.runs(10, 20, 30, 40, 50, 60)
    story.steer("pause", 25, word="held")
    story.steer(kind, 28)
    assert wrong(story.verdict()) == {}


def test_it_acquits_a_run_after_the_pause_has_ended_by_itself(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.steer("pause", 22, "5", word="held")
    assert wrong(story.verdict()) == {}


def test_it_convicts_a_run_before_the_pause_has_ended_by_itself(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.steer("pause", 22, "12", word="held")
    assert wrong(story.verdict()) == {"paused": 1}


def test_it_convicts_a_pause_that_goes_on_after_its_end(story):
    story.runs(10, 20)
    story.steer("pause", 25, "5", word="held")
    held = {"pauses": {JOB: f"{EPOCH + 30:.6f} {EPOCH + 25:.6f} {EPOCH + 30:.6f} {{}}"}}
    assert wrong(story.verdict(pending=None, **held)) == {"stuck": 1}


def test_it_acquits_what_was_cancelled_and_counted(story):
    story.runs(10, 20, 30, 50, 60)
    story.steer("cancel", 40.5, word="cancelled")
    assert wrong(story.verdict(skipped={"cancelled": 1})) == {}


def test_it_convicts_a_run_that_is_tried_again_after_it_was_cancelled(story):
    story.runs(10, 20)
    story.run(30, took=3, how="raised")
    story.steer("cancel", 31, word="cancelled")
    story.run(30, start=34)
    story.runs(40, 50, 60)
    assert wrong(story.verdict(skipped={"cancelled": 1})) == {"cancelled": 1}


def test_it_acquits_a_run_that_was_asked_for_after_it_was_cancelled(story):
    story.runs(10, 20)
    story.run(30, took=3, how="raised")
    story.steer("cancel", 31, word="cancelled")
    story.steer("rerun", 33.5)
    story.run(30, start=34)
    story.runs(40, 50, 60)
    assert wrong(story.verdict(skipped={"cancelled": 1})) == {}


def crowd(story, number, took=5):
    for n in range(number):
        story.run(10, start=10.1 + n / 10, took=took, pid=1 + n % 2, job=f"fast.steered.0-{2 * n + 1}:L", tag=f"t{n}")


def test_it_convicts_when_more_are_begun_than_the_limit_allows(story):
    story.runs(10, 20, 30, 40, 50, 60)
    crowd(story, 4)
    assert wrong(story.verdict())["exceeded"] == 1


def test_it_acquits_as_many_as_the_limit_allows(story):
    story.runs(10, 20, 30, 40, 50, 60)
    crowd(story, 3)
    assert "exceeded" not in wrong(story.verdict())


def test_a_limit_that_was_changed_counts(story):
    story.runs(10, 20, 30, 40, 50, 60)
    story.steer("limit", 5, "4", job="")
    crowd(story, 5)
    assert wrong(story.verdict())["exceeded"] == 1


def test_it_names_runs_that_were_lost_and_go_on(story):
    story.runs(10, 20, 30, 40, 50, 60)
    crowd(story, 4)
    story.fault("worker-pause", 10.15, 10.35, pid=1)
    verdict = story.verdict()
    assert "exceeded" not in wrong(verdict)
    assert verdict.occurrences["begun beyond a limit, beside runs that were lost and go on"] == 1


def test_what_was_counted_when_a_job_was_resumed_is_not_counted_again(story):
    story.run(10, start=36)
    story.runs(40, 50, 60)
    after = {"streaks": {JOB: f"0 0 0 - {EPOCH + 35:.6f}"}, "queued": {JOB: f"{EPOCH + 10:.6f} work-A"}}
    story.snapshot("before", 34, timeline=10)
    story.snapshot("after", 35, **after)
    assert wrong(story.verdict()) == {}


@pytest.mark.parametrize(
    ("job", "due", "stuck"), [(LIMITED, 54, {}), (JOB, 54, {"stuck": 1}), (LIMITED, 45, {"stuck": 1})]
)
def test_a_queue_with_a_limit_may_take_longer_until_nothing_is_overdue(story, job, due, stuck):
    # A one-off, because nothing else is to be judged.
    story.snapshot("after", 2, job=job, schedule=f"AT:{EPOCH + due}", timeline=due)
    assert wrong(story.verdict(pending=due, job=job, schedule=f"AT:{EPOCH + due}")) == stuck
