"""Ten things that people come for: each takes two clicks from the overview, at a desk and on a phone."""

import re

import pytest
from playwright.sync_api import expect

from tests.queries.kept import register
from tests.verbs import take_one
from tests.web.live.browsers import DESK, NEEDS_CHROMIUM, PERSON, PHONE, expect_note, expect_title
from tests.web.live.conftest import serve, wait_for_queues

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]

DAILY = "0 12 * * *"
MOST = 2  # clicks


class Person:
    """Clicks and types on the page, and counts the clicks."""

    def __init__(self, tab):
        self.tab, self.clicks = tab, 0

    def click(self, role, name, within="body", **more):
        self.clicks += 1
        self.tab.locator(within).get_by_role(role, name=name, exact=True, **more).first.click()

    def type(self, label, text):
        self.tab.get_by_label(label).first.fill(text)


@pytest.fixture
def world(bike):
    """Jobs that have failed, one that hangs, one whose queue is paused, and changes."""
    for jobid in ("bad-1:A", "bad-2:A"):
        bike.set(jobid, DAILY)
        bike.run(jobid)
        assert bike.work_one() == jobid
    bike.set("night:B", "0 3 * * *")
    bike.pause_queue("C", reason="the printer")
    bike.set("stuck:C", "NOW")
    bike.set("hung:D", DAILY)
    bike.run("hung:D")
    register(bike.store, "worker", queues=["work-D"], now=bike.store.timeline.read_clock())
    assert take_one(bike.store, [("work-D", 3600.0)], "Ownerw01-1").jobid == "hung:D"
    with serve(bike, write=True, show_data=True) as page:
        wait_for_queues(page)
        yield page


@pytest.fixture(params=[DESK, PHONE], ids=["1440", "390"])
def person(world, visit, request):
    person = Person(visit(world.url, viewport=request.param, has_touch=request.param is PHONE))
    yield person
    assert 0 < person.clicks <= MOST


def test_what_failed_in_the_last_hour_and_its_traceback(person):
    person.click("link", "All that failed in the last hour")
    expect(person.tab.locator("#runs tbody tr")).to_have_count(2)
    person.click("link", "failed", within="#runs")
    expect(person.tab.locator("pre", has_text="Traceback")).to_contain_text("it <b>broke</b>")


def test_everything_that_failed_is_run_again(world, person):
    person.click("button", "Run all that have failed again")
    expect_title(person.tab, "Run 2 jobs?")
    person.click("button", "Run 2 jobs")
    expect_note(person.tab, "Run 2 jobs: 2 queued as a new try of the old occurrence.")
    assert {job.jobid for job in world.bike.jobs(status="ENQ")} == {"bad-1:A", "bad-2:A", "stuck:C"}


def test_a_queue_is_paused_for_an_hour_with_a_reason(world, person):
    row = person.tab.locator("#queues tr", has=person.tab.get_by_role("link", name="work-A", exact=True))
    person.clicks += 1
    row.get_by_role("link", name="Pause it").click()
    person.type("Until", "1h")
    person.type("Reason", "the disk")
    person.click("button", "Pause it")
    expect(person.tab.locator("main .note")).to_contain_text("The queue work-A is paused.")
    [pause] = [limits.pause for limits in world.bike.queue_limits() if limits.queue == "work-A"]
    now = world.bike.store.timeline.read_clock()
    assert (pause.reason, pause.by) == ("the disk", PERSON)
    assert now + 3500 < pause.until < now + 3700


def test_a_job_is_made_that_runs_every_day_at_three(world, person):
    person.click("link", "New job")
    person.type("Id", "report:A")
    person.tab.get_by_label("Schedule", exact=True).fill("0 3 * * *")
    expect(person.tab.get_by_label("What the schedule means").locator("li")).to_have_count(5)
    person.click("button", "Set this job")
    expect_title(person.tab, "report:A")
    assert dict(world.bike.get_schedules("report:A")) == {"report:A": "0 3 * * *"}


def test_a_schedule_is_changed_with_a_preview(world, person):
    # One types a verb, a part of an id and Enter, which ends at the button.
    person.click("button", re.compile("^Go to"), within="header") if person.tab.viewport_size == PHONE else (
        person.tab.keyboard.press("/")
    )
    person.type("Go to a page, a job or a queue", "edit night")
    expect(person.tab.locator("#palette-list li").first).to_contain_text("night:B")
    person.tab.keyboard.press("Enter")
    expect(person.tab.locator("#do-edit")).to_be_focused()
    person.tab.keyboard.press("Enter")
    field = person.tab.get_by_label("Schedule", exact=True)
    field.fill("30 4 * * *")
    expect(person.tab.get_by_label("What the schedule means")).to_contain_text("04:30")
    person.click("button", "Save")
    expect_title(person.tab, "night:B")
    assert dict(world.bike.get_schedules("night:B")) == {"night:B": "30 4 * * *"}


def test_what_runs_tonight_between_two_and_four(person):
    person.click("link", "Timeline")
    person.type("Around", "tomorrow 3:00")
    person.tab.get_by_label("Time", exact=True).select_option("3h")
    person.click("button", "Show", within="form.filter")
    expect(person.tab.locator("#events")).to_contain_text("night:B")
    expect(person.tab.locator("#events")).not_to_contain_text("bad-1:A")


def test_why_a_job_does_not_run(person):
    person.type("Find jobs", "stuck:C")
    person.tab.keyboard.press("Enter")
    person.click("link", "stuck:C", within="#jobs")
    expect(person.tab.locator("#why")).to_contain_text("the printer")


def test_the_worker_of_a_hung_job_is_named_and_its_run_cancelled(world, person):
    expect(person.tab.locator("#running")).to_contain_text("hung:D")
    expect(person.tab.locator("#running td[data-name=Where]")).to_contain_text("web1:1:Ownerw01")
    person.click("button", "Cancel the run of hung:D")
    expect_title(person.tab, "Cancel the job hung:D?")
    person.click("button", "Cancel the job hung:D")
    expect(person.tab.locator("main .note")).to_contain_text("hung:D: cancelled; the run has not ended yet")
    [state] = world.bike.store.questions.inspect(["hung:D"])
    assert state.run.cancelled


def test_what_was_changed_since_yesterday_and_by_whom(person):
    person.click("link", "Log")
    person.click("link", "since yesterday")
    for words in ("ada@here", "night:B", "the printer"):
        expect(person.tab.locator("#log")).to_contain_text(words)
