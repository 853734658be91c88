"""Actions of the page by clicks and by keys: what the page says then, what Redis has, and whom the log names."""

import pytest
from playwright.sync_api import expect

from tests.web.live.browsers import (
    BUSY,
    NEEDS_CHROMIUM,
    YEARLY,
    expect_note,
    expect_title,
    press,
    read_log,
    wait_for_stream,
)
from tests.web.live.conftest import wait_for_queues

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]


@pytest.fixture
def several(steered):
    """Three jobs, two of which have names alike."""
    for jobid in ("other:B", "some-1:A", "some-2:A"):
        steered.bike.set(jobid, YEARLY)
    return steered


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


def test_jobs_that_are_ticked(several, visit):
    bike, tab = several.bike, visit(f"{several.url}jobs")
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


IS_SEEN = """each => {
    const style = getComputedStyle(each), box = each.getBoundingClientRect();
    const isOutlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    return isOutlined && box.top >= 0 && box.bottom <= innerHeight;
}"""


def tab_to(tab, element, most):
    """Press Tab until the focus is at `element`, which takes `most` times at most; it must be seen there."""
    for _ in range(most):
        tab.keyboard.press("Tab")
        if element.evaluate("each => each === document.activeElement"):
            break
    expect(element).to_be_focused()
    assert element.evaluate(IS_SEEN)


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_a_whole_action_by_keyboard(steered, visit, has_script):
    bike = steered.bike
    for jobid in ("other:A", "some:A"):
        bike.set(jobid, YEARLY)
    tab = visit(f"{steered.url}jobs", java_script_enabled=has_script)
    tab.get_by_role("row", name="some:A").get_by_role("link", name="some:A").focus()
    tab.keyboard.press("Shift+Tab")
    box = tab.get_by_label("Select some:A")
    expect(box).to_be_focused()
    assert box.evaluate(IS_SEEN)
    tab.keyboard.press("Space")
    expect(box).to_be_checked()
    tab.get_by_role("link", name="New job").focus()
    tab_to(tab, tab.get_by_role("button", name="Unset", exact=True), 5)
    tab.keyboard.press("Enter")
    expect_title(tab, "Unset the job some:A?")
    # The question has the focus: a second Enter by mistake does nothing, and the button is near.
    title = tab.get_by_role("heading", level=1)
    expect(title).to_be_focused()
    assert title.evaluate(IS_SEEN)
    tab.keyboard.press("Enter")
    assert read_log(bike) == []
    tab_to(tab, tab.get_by_role("button", name="Unset the job some:A"), 2)
    tab.keyboard.press("Space")
    expect_note(tab, "some:A: unset.")
    # What became of it has the focus, and one goes on from there.
    note = tab.locator(".note")
    expect(note).to_be_focused()
    assert note.evaluate(IS_SEEN)
    tab_to(tab, tab.get_by_label("Id, part of it, or pattern"), 2)
    assert dict(bike.get_schedules()).keys() == {"other:A"}


@pytest.mark.parametrize("page_on_node", [{"write": True}], indirect=True)
def test_redis_goes_away_while_a_confirmation_is_open(page_on_node, node, visit):
    bike = page_on_node.bike
    bike.set("some:A", YEARLY)
    wait_for_queues(page_on_node)
    tab, other = (visit(f"{page_on_node.url}{path}", expected="status of 503") for path in ("job?id=some:A", ""))
    press(tab, "Unset")
    press(other, "Pause everything")
    for each in (tab, other):
        expect(each.get_by_role("heading", level=1)).to_be_focused()
    node.kill()
    press(tab, "Unset the job some:A")
    note = tab.locator(".note")
    expect(note).to_contain_text("Nothing was done: cannot reach Redis")
    expect(note).to_be_focused()
    expect_title(tab, "Redis does not answer")
    node.start()
    # The page comes back by itself.
    expect(tab.get_by_role("heading", level=1)).to_have_text("some:A", timeout=BUSY)
    expect(note).to_contain_text("Nothing was done: cannot reach Redis")
    assert read_log(bike) == []
    press(tab, "Unset")
    press(tab, "Unset the job some:A")
    expect_note(tab, "some:A: unset.")
    # What was asked before is still asked.
    press(other, "Pause everything")
    expect_note(other, "Everything is paused.")
    assert dict(bike.get_schedules()) == {}
    assert [action for action, _ in read_log(bike)] == ["unset", "pause"]


def test_a_new_job_with_a_preview(steered, visit):
    bike = steered.bike
    tab = visit(f"{steered.url}jobs", expected="status of 400")
    preview, field = tab.get_by_label("What the schedule means"), tab.get_by_label("Schedule", exact=True)
    tab.get_by_role("link", name="New job").click()
    tab.get_by_label("Id", exact=True).fill("new:A")
    field.press_sequentially("0 3 30 2 *")
    expect(preview.locator(".problem")).to_be_visible()
    field.fill("0 3 1 1 *")
    expect(preview.locator("li")).to_have_count(5)
    tab.get_by_label("Time zone").fill("Asia/Tokyo")
    expect(preview.locator("li").first).to_contain_text("-01-01 03:00:00 Asia/Tokyo")
    assert (dict(bike.get_schedules()), read_log(bike)) == ({}, [])
    tab.locator("summary", has_text="Options").click()
    tab.locator("[name=retries]").fill("many")
    press(tab, "Set this job")
    # The field that is wrong says so, and what is typed next goes there.
    expect(tab.get_by_role("alert")).to_contain_text("bad retries 'many'")
    expect(tab.locator("[name=retries]")).to_be_focused()
    tab.locator("[name=retries]").fill("5")
    press(tab, "Set this job")
    expect_title(tab, "new:A")
    expect(tab.locator("main .note")).to_contain_text("retries default → 5")
    assert dict(bike.get_schedules()) == {"new:A": "CRON_TZ=Asia/Tokyo 0 3 1 1 *"}
    assert bike.tell("new:A")["options"] == {"retries": 5}


def test_the_preview_is_that_of_what_was_typed_last(steered, visit):
    tab = visit(f"{steered.url}set")
    preview, field = tab.get_by_label("What the schedule means"), tab.get_by_label("Schedule", exact=True)
    held = []
    tab.route("**/preview?*", lambda route: route.continue_() if held else held.append(route))
    with tab.expect_request("**/preview?*"):
        field.fill("0 3 1 1 *")
    with tab.expect_response("**/preview?*"):
        field.fill("0 4 1 1 *")
    expect(preview).to_contain_text("-01-01 04:00")
    # The first answer comes last, and nobody waits for it any more.
    held[0].abort()
    field.fill("0 5 1 1 *")
    expect(preview).to_contain_text("-01-01 05:00")
    field.fill(" ")
    expect(preview).to_be_empty()


def test_what_was_typed_before_the_script_came_has_a_preview(steered, visit):
    tab = visit(f"{steered.url}jobs")
    held = []
    tab.route("**/set.js*", lambda route: held.append(route))
    with tab.expect_request("**/set.js*"):
        tab.goto(f"{steered.url}set", wait_until="commit")
    tab.get_by_label("Schedule", exact=True).fill("0 4 1 1 *")
    held[0].continue_()
    expect(tab.get_by_label("What the schedule means")).to_contain_text("-01-01 04:00")
