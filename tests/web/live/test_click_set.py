"""The form that sets a job, filled in by hand, with the preview of its schedule."""

import pytest
from playwright.sync_api import expect

from tests.web.live.browsers import (
    NEEDS_CHROMIUM,
    WITH_AND_WITHOUT_SCRIPT,
    YEARLY,
    expect_note,
    expect_title,
    press,
    read_log,
)

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]


@WITH_AND_WITHOUT_SCRIPT
def test_a_new_job_with_a_preview(steered, visit, has_script):
    bike = steered.bike
    tab = visit(f"{steered.url}jobs", java_script_enabled=has_script, expected="status of 400")
    preview = tab.get_by_label("What the schedule means")

    def show(schedule):
        field = tab.get_by_label("Schedule", exact=True)
        field.fill(schedule[:-1])
        field.press("End")
        field.press_sequentially(schedule[-1])
        if not has_script:
            press(tab, "Preview")

    tab.get_by_role("link", name="New job").click()
    tab.get_by_label("Id", exact=True).fill("new:A")
    show("0 3 30 2 *")
    expect(preview.locator(".problem")).to_be_visible()
    show("0 3 1 1 *")
    expect(preview.locator("li")).to_have_count(5)
    for line in preview.locator("li").all():
        expect(line).to_contain_text("-01-01 03:00")
    tab.get_by_label("Time zone").fill("Asia/Tokyo")
    show("0 3 1 1 *")
    expect(preview.locator("li").first).to_contain_text("-01-01 03:00:00 Asia/Tokyo")
    assert (dict(bike.get_schedules()), read_log(bike)) == ({}, [])
    # What was typed is still there after a preview by the server.
    expect(tab.get_by_label("Id", exact=True)).to_have_value("new:A")
    tab.locator("summary", has_text="Options").click()
    tab.locator("[name=retries]").fill("5")
    press(tab, "Set this job")
    expect_title(tab, "new:A")
    expect(tab.locator("main .note")).to_contain_text("retries default → 5")
    expect(tab.locator("main")).to_contain_text("CRON_TZ=Asia/Tokyo 0 3 1 1 *")
    assert dict(bike.get_schedules()) == {"new:A": "CRON_TZ=Asia/Tokyo 0 3 1 1 *"}
    assert bike.tell("new:A")["options"] == {"retries": 5}
    assert read_log(bike) == [("set", "new:A")]


def test_a_job_is_edited(steered, visit):
    bike = steered.bike
    bike.set("kept:A", YEARLY, data={"a": 1})
    tab = visit(f"{steered.url}job?id=kept:A", expected="status of 400")
    tab.get_by_role("link", name="Edit").click()
    expect_title(tab, "Edit kept:A")
    expect(tab.get_by_label("Schedule", exact=True)).to_have_value(YEARLY)
    tab.locator("summary", has_text="Options").click()
    tab.locator("[name=timeout]").fill("soon")
    press(tab, "Save")
    # The field that is wrong says so, and what is typed next goes there.
    expect(tab.get_by_role("alert")).to_contain_text("bad timeout 'soon'")
    expect(tab.locator("[name=timeout]")).to_be_focused()
    assert read_log(bike) == []
    tab.locator("[name=timeout]").fill("90")
    tab.get_by_label("Schedule", exact=True).fill("0 4 1 1 *")
    press(tab, "Save")
    expect_note(tab, f"kept:A: schedule {YEARLY} → 0 4 1 1 *; timeout default → 90.")
    told = bike.tell("kept:A")
    assert (told["schedule"], told["options"], told["data"]) == ("0 4 1 1 *", {"timeout": 90}, {"a": 1})
    assert read_log(bike) == [("set", "kept:A")]


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


def test_somebody_else_has_changed_the_job_meanwhile(steered, visit):
    bike = steered.bike
    bike.set("kept:A", YEARLY)
    first, second = (visit(f"{steered.url}set?id=kept:A", expected="status of 409") for _ in range(2))
    first.get_by_label("Schedule", exact=True).fill("0 4 1 1 *")
    press(first, "Save")
    expect_title(first, "kept:A")
    second.locator("summary", has_text="Options").click()
    second.locator("[name=timeout]").fill("90")
    press(second, "Save")
    alert = second.get_by_role("alert")
    expect(alert).to_contain_text("so nothing was done. Its schedule is now 0 4 1 1 *")
    expect(second.get_by_label("Schedule", exact=True)).to_have_value("0 4 1 1 *")
    assert "timeout" not in bike.tell("kept:A").get("options", {})
    press(second, "Save")
    expect_note(second, "kept:A: timeout default → 90.")
    assert (bike.tell("kept:A")["schedule"], bike.tell("kept:A")["options"]) == ("0 4 1 1 *", {"timeout": 90})
    assert read_log(bike) == [("set", "kept:A")] * 2
