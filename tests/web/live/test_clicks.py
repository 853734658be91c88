"""Every action of the page, clicked: what the page says then, what Redis has, and whom the log names."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.web.live.browsers import (
    NEEDS_CHROMIUM,
    PERSON,
    WITH_AND_WITHOUT_SCRIPT,
    YEARLY,
    expect_note,
    expect_title,
    press,
    read_log,
    wait_for_stream,
)
from tests.web.live.conftest import wait_for_queues

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]

UNTIL = datetime(2090, 1, 2, 3, 4, tzinfo=UTC).timestamp()
JOBS = ("other:B", "some-1:A", "some-2:A")


@pytest.fixture
def tab(steered, visit):
    return visit(steered.url)


@pytest.fixture
def several(steered):
    """Three jobs, two of which have names alike."""
    for jobid in JOBS:
        steered.bike.set(jobid, YEARLY)
    return steered


@WITH_AND_WITHOUT_SCRIPT
def test_one_job(several, visit, has_script):
    bike, tab = several.bike, visit(f"{several.url}job?id=other:B", java_script_enabled=has_script)
    press(tab, "Run now")
    expect_note(tab, "other:B: queued.")
    press(tab, "Cancel its run")
    expect_title(tab, "Cancel the job other:B?")
    press(tab, "Cancel the job other:B")
    expect_note(tab, "other:B: cancelled.")
    tab.locator("summary", has_text="Pause").click()
    tab.get_by_label("Until").fill("2090-01-02 03:04")
    tab.get_by_label("Reason").fill("the <b>disk</b> is full")
    press(tab, "Pause this job")
    expect_note(tab, "other:B: paused.")
    expect(tab.locator("#why")).to_contain_text("the <b>disk</b> is full")
    pause = bike.tell("other:B")["paused"]
    assert (pause["by"], pause["reason"], pause["until"]) == (PERSON, "the <b>disk</b> is full", UNTIL)
    press(tab, "Resume")
    expect_note(tab, "other:B: resumed.")
    expect(tab.locator("#why")).not_to_contain_text("disk")
    assert read_log(bike) == [(action, "other:B") for action in ("run", "cancel", "pause", "resume")]


def test_the_buttons_of_a_job_are_those_that_apply_now(several, visit):
    tab = visit(f"{several.url}job?id=other:B")
    wait_for_stream(several)
    expect(tab.get_by_role("button", name="Run now")).to_be_visible()
    for is_paused in (True, False):
        # Somebody does it elsewhere.
        _ = list(several.bike.pause("other:B") if is_paused else several.bike.resume("other:B"))
        expect(tab.get_by_role("button", name="Resume")).to_have_count(int(is_paused))
    several.bike.run("other:B")
    press(tab, "Cancel its run")
    expect_title(tab, "Cancel the job other:B?")


def test_what_is_done_to_ticked_jobs_stays_in_sight(steered, visit):
    list(steered.bike.set_many((f"many-{number:02}:A", YEARLY) for number in range(60)))
    for size in ({"width": 1440, "height": 600}, {"width": 390, "height": 844}):
        tab = visit(f"{steered.url}jobs?pattern=many", viewport=size)
        button = tab.locator("#bulk button[value=pause]")
        for is_ticked in (False, True):
            if is_ticked:
                tab.get_by_label("Select many-00:A").check()
            tab.locator("#jobs tr").last.scroll_into_view_if_needed()
            expect(button).to_be_in_viewport() if is_ticked else expect(button).not_to_be_in_viewport()


def test_jobs_that_are_ticked(several, tab):
    bike = several.bike
    tab.goto(f"{several.url}jobs")
    for number in (1, 2):
        tab.get_by_label(f"Select some-{number}:A").check()
    # What comes meanwhile takes no tick away, and gets none.
    wait_for_stream(several)
    bike.set("came:A", YEARLY)
    expect(tab.get_by_label("Select came:A")).not_to_be_checked()
    expect(tab.get_by_label("Select some-2:A")).to_be_checked()
    expect(tab.locator("#ticked")).to_have_text("2 selected")
    press(tab, "Select all of this page")
    expect(tab.get_by_label("Select came:A")).to_be_checked()
    expect(tab.locator("#ticked")).to_have_text("4 selected")
    press(tab, "Select none")
    expect(tab.locator("#ticked")).to_be_empty()
    for number in (1, 2):
        tab.get_by_label(f"Select some-{number}:A").check()
    press(tab, "Unset")
    expect_title(tab, "Unset 2 jobs?")
    expect(tab.locator(".named li")).to_have_text(["some-1:A", "some-2:A"])
    assert read_log(bike) == []
    press(tab, "Unset 2 jobs")
    expect_note(tab, "Unset 2 jobs: 2 unset.")
    assert sorted(read_log(bike)) == [("unset", "some-1:A"), ("unset", "some-2:A")]


def test_a_queue_and_everything(several, tab, visit):
    bike = several.bike
    bike.run("some-1:A")
    bike.run("other:B")
    wait_for_queues(several)
    tab.goto(f"{several.url}queues")

    def act(button, said, **texts):
        tab.get_by_label("Queue", exact=True).select_option("work-B")
        for name, text in texts.items():
            tab.locator(f"[name={name}]").fill(text)
        press(tab, button)
        expect_note(tab, f"The queue work-B {said}.")
        return tab.get_by_role("row", name="work-B")

    expect(act("Pause it", "is paused", until="2090-01-02 03:04", reason="full")).to_contain_text("full")
    expect(act("Resume it", "goes on")).to_contain_text("no worker")
    row = act("Limit it", "has these limits now: at once 5, rate 100/m", at_once="5", rate="100/m")
    expect(row).to_contain_text("5 at once, 100/m")
    expect(act("Remove its limits", "has these limits now: at once none, rate none")).not_to_contain_text("at once")
    tab.goto(several.url)
    other = visit(f"{several.url}queues")
    expect(other.locator("#everything")).to_be_empty()
    press(tab, "Pause everything")
    expect_title(tab, "Pause everything?")
    tab.get_by_label("Reason").fill("flood")
    press(tab, "Pause everything")
    expect_note(tab, "Everything is paused.")
    expect(other.locator("#everything")).to_contain_text("Everything is paused")
    press(tab, "Resume everything")
    press(tab, "Resume everything")
    expect_note(tab, "Everything goes on.")
    assert bike.queue_limits() == []
    logged = [action for action, _ in read_log(bike)]
    assert logged == ["pause", "resume", "limit", "limit", "pause", "resume"]
