"""The form that sets a job, filled in by hand, with the preview of its schedule."""

import pytest
from playwright.sync_api import expect

from tests.web.live.browsers import NEEDS_CHROMIUM, expect_title, press, read_log

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]


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
