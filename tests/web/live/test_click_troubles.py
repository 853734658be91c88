"""Actions by the keyboard alone, by two people at once, and while Redis is away."""

import pytest
from playwright.sync_api import expect

from tests.web.live.browsers import (
    BUSY,
    NEEDS_CHROMIUM,
    WITH_AND_WITHOUT_SCRIPT,
    YEARLY,
    expect_note,
    expect_title,
    press,
    read_log,
)
from tests.web.live.conftest import wait_for_queues

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]

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


@WITH_AND_WITHOUT_SCRIPT
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
