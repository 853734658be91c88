"""How the page looks and is reached in a real browser: contrast, widths, fingers, the keyboard, paper."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.web.live.browsers import DESK, NEEDS_CHROMIUM, PATHS, PHONE, WRITING
from tests.web.live.conftest import serve

pytestmark = NEEDS_CHROMIUM


def find_violations(tab):
    """What axe-core finds, and at which elements. Nothing but the colours differs in the dark."""
    found = []
    for scheme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        tab.emulate_media(color_scheme=scheme)
        violations = Axe().run(tab, options={"resultTypes": ["violations"], **options}).response["violations"]
        found += [(scheme, each["id"], node["html"][:200]) for each in violations for node in each["nodes"]]
    return found


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_axe_finds_nothing(busy, visit, size):
    # Axe is put into the page, which the policy of the page forbids.
    tab = visit(busy.url, viewport=size, bypass_csp=True, reduced_motion="reduce")
    found = {}
    for path in [*PATHS, "login"]:
        tab.goto(busy.url + path)
        found[path] = find_violations(tab)
    tab.goto(busy.url)
    tab.keyboard.press("/")
    expect(tab.get_by_role("option").first).to_be_visible()
    found["palette"] = find_violations(tab)
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    found["help"] = find_violations(tab)
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_that_steer_are_as_good(busy, visit, size):
    with serve(busy.bike, write=True, show_data=True) as page:
        tab = visit(page.url, viewport=size, bypass_csp=True, reduced_motion="reduce")
        found, wide, small = {}, [], []
        for path in WRITING:
            tab.goto(page.url + path)
            found[path] = find_violations(tab)
            if tab.evaluate("document.documentElement.scrollWidth") > size["width"]:
                wide.append(path)
            for each in tab.locator("main button:visible, main select:visible, main textarea:visible").all():
                if size is PHONE and each.bounding_box()["height"] < 44:
                    small.append((path, each.text_content()))
        assert ({path: said for path, said in found.items() if said}, wide, small) == ({}, [], [])


@pytest.mark.parametrize("width", [360, 2560])
def test_no_page_scrolls_sideways(busy, visit, width):
    tab = visit(busy.url, viewport={"width": width, "height": 800})
    for path in [*PATHS, "login"]:
        tab.goto(busy.url + path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
    tab.goto(busy.url)
    assert tab.locator("header").bounding_box()["height"] < 130


def test_controls_are_large_enough_for_fingers(busy, visit):
    tab = visit(busy.url, viewport=PHONE, has_touch=True, is_mobile=True)
    for path in PATHS:
        tab.goto(busy.url + path)
        for each in tab.locator("button:visible, select:visible, input:not([type=checkbox]):visible, nav a").all():
            assert each.bounding_box()["height"] >= 44, (path, each.text_content())


def test_everything_is_reached_by_keyboard(busy, visit):
    tab = visit(f"{busy.url}queues")
    reached = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        seen = tab.evaluate("""() => {
            const it = document.activeElement;
            if (it === document.body) return null;
            const style = getComputedStyle(it);
            return [it.textContent.trim() || it.id, style.outlineStyle !== 'none' && style.outlineWidth !== '0px'];
        }""")
        if seen is None or seen[0] in [name for name, _ in reached[:1]]:
            break
        reached.append(seen)
    names = [name for name, _ in reached]
    assert names[0] == "To the content"
    assert {"Overview", "Log", "search", "Hold", "work-A"} <= set(names)
    assert [name for name, is_outlined in reached if not is_outlined] == []
    # The time in the zone is shown on focus.
    instant = tab.locator("time[title]").first
    tab.locator("#main").focus()
    while not instant.evaluate("each => each === document.activeElement"):
        tab.keyboard.press("Tab")
    assert "UTC" in instant.evaluate("each => getComputedStyle(each, '::after').content")


def test_a_printed_page_has_no_navigation(busy, visit):
    tab = visit(f"{busy.url}queues")
    tab.emulate_media(media="print")
    expect(tab.get_by_role("navigation")).to_be_hidden()
    expect(tab.get_by_role("button", name="Hold")).to_be_hidden()
    expect(tab.get_by_role("row", name="work-A")).to_be_visible()
