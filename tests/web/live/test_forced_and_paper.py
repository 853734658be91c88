"""The page in the colours that a person forces on all pages, and on paper."""

import pytest
from playwright.sync_api import expect

from tests.web.live.browsers import NEEDS_CHROMIUM, YEARLY, expect_note, press
from tests.web.live.test_looks import open_whole

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]

PAPER = {"width": 600, "height": 960}  # A4 with wide margins
SYSTEM = """name => {
    const probe = document.createElement('i');
    probe.style.color = name;
    document.body.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
}"""
PAINT = """colors => {
    const paper = document.createElement('canvas').getContext('2d');
    for (const color of colors) {
        paper.fillStyle = color;
        paper.fillRect(0, 0, 1, 1);
    }
    return [...paper.getImageData(0, 0, 1, 1).data].join();
}"""
# Elements that would be cut off, or that one could only press.
CUT_OFF = """() => [...document.querySelectorAll('main *')].filter(each => {
    const style = getComputedStyle(each);
    const isWide = each.scrollWidth > each.clientWidth + 1, isHigh = each.scrollHeight > each.clientHeight + 1;
    return each.checkVisibility() && !style.display.startsWith('inline') && style.overflow !== 'visible'
        && !each.closest('.unseen, svg') && (isWide || isHigh);
}).map(each => each.outerHTML.slice(0, 100))"""
CONTROLS = ":is(button, input, select, textarea, form, summary, .button, nav a):visible"


def read_styles(tab, selector, name):
    """The values that elements have of a property."""
    script = "(all, name) => all.map(each => getComputedStyle(each)[name])"
    return tab.locator(selector).evaluate_all(script, name)


def test_what_colours_say_is_seen_in_forced_ones(steering, visit):
    tab = visit(f"{steering.url}job?id=bad:A", forced_colors="active", color_scheme="dark")
    text, ground = (tab.evaluate(SYSTEM, name) for name in ("CanvasText", "Canvas"))
    # A failed run is hollow and has a cross.
    assert set(read_styles(tab, ".past rect.bad", "fill")) == {ground}
    assert set(read_styles(tab, ".past .bad", "stroke")) == {text}
    assert "▲" in tab.locator("strong.late").first.evaluate("each => getComputedStyle(each, '::before').content")
    # The page that one is on is marked, and the other ones are not.
    assert set(read_styles(tab, "nav a:not([aria-current])", "borderBottomColor")) == {ground}
    assert ground not in read_styles(tab, "nav a[aria-current]", "borderBottomColor")
    tab.goto(f"{steering.url}job?id=hello:A")
    assert set(read_styles(tab, ".past rect", "fill")) == {text}
    tab.goto(f"{steering.url}at/now")
    assert set(read_styles(tab, ".moments rect", "fill")) == {text}
    assert set(read_styles(tab, ".moments line", "stroke")) == {text}
    open_whole(tab, f"{steering.url}agenda")
    assert set(read_styles(tab, ".strip path", "fill")) == {text}
    colors = {color for level in range(1, 9) for color in read_styles(tab, f".heat .heat{level}", "backgroundColor")}
    shades = {tab.evaluate(PAINT, [ground, color]) for color in colors}
    assert len(shades) > 1
    assert tab.evaluate(PAINT, [ground]) not in shades
    # Nor is a refusal told by its colour alone.
    tab.goto(f"{steering.url}failures")
    tab.locator("[name=pattern]").last.fill("nothing:*")
    press(tab, "Run all matching jobs again")
    expect_note(tab, "No job matches any more, so nothing was done.")
    assert "▲" in tab.locator(".note").evaluate("each => getComputedStyle(each, '::before').content")


def test_on_paper_nothing_is_cut_off_and_nothing_can_be_pressed(steering, visit):
    steering.bike.set("long:A", YEARLY, history=1)
    tab = visit(steering.url, viewport=PAPER)
    for path in ("job?id=bad:A", "job?id=backup:B", "agenda", "at/now"):
        tab.emulate_media(media="screen")
        open_whole(tab, steering.url + path)
        for summary in tab.locator("main details:not(.act details) > summary").all():
            summary.click()
        assert tab.locator(CONTROLS).count() > 5, path
        tab.emulate_media(media="print")
        shown = tab.locator(CONTROLS).evaluate_all("all => all.map(each => each.outerHTML.slice(0, 100))")
        assert [each for each in shown if not each.startswith("<summary>")] == [], path
        text = tab.locator("main").inner_text()
        forbidden = ("Change it", "Rehearse", "Refresh", "Copy this text", "±")
        assert [words for words in forbidden if words in text] == [], path
        assert tab.evaluate(CUT_OFF) == [], path
        assert tab.evaluate("document.documentElement.scrollWidth") <= PAPER["width"], path
        expect(tab.locator("main h2:visible").first).to_be_visible()
        # What belongs to a picture is there.
        for each in tab.locator(".moments text").all():
            expect(each).to_be_visible()
