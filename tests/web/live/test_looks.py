"""How the page looks and is reached in a real browser: contrast, widths, fingers, keys, forced colours, paper."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from tests.web.live.browsers import BUSY, DESK, NEEDS_CHROMIUM, PATHS, PHONE, STEERING, YEARLY, expect_note, press
from tests.web.live.conftest import fill_more

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]

AXE = """rules => axe.run({ resultTypes: ['violations'], preload: false, ...(rules && { runOnly: rules }) }).then(
    found => found.violations.flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)}`)))"""
# Nothing but these differs in the dark and in forced colours, and on a phone.
OF_COLOURS = ["color-contrast", "link-in-text-block"]
OF_LAYOUT = ["target-size", "scrollable-region-focusable", "aria-hidden-focus", "meta-viewport"]
MORE = ["jobs?late=1", "job?id=hung:D", "job?id=child:A", "runs?failed=1", "log?since=1h%20ago", "timeline?span=30m"]
# On a phone, the map of a week scrolls sideways, and the keyboard cannot do that.
KNOWN = {'scrollable-region-focusable: <table class="heat">'}
SMALL = """() => [...document.querySelectorAll('button, select, textarea, input:not([type=checkbox]), nav a')]
    .filter(each => each.checkVisibility() && each.type !== 'hidden' && each.getBoundingClientRect().height < 44)
    .map(each => `too small for fingers: ${each.outerHTML.slice(0, 100)}`)"""
SEEN = """() => {
    const it = document.activeElement;
    if (it === document.body) return null;
    const style = getComputedStyle(it);
    return [it.textContent.trim() || it.id, style.outlineStyle !== 'none' && style.outlineWidth !== '0px'];
}"""


def find_violations(tab, rules=None):
    """What axe-core finds, and at which elements; of `rules` alone, if they are given."""
    if not tab.evaluate("'axe' in window"):
        tab.evaluate(AXE_SCRIPT)
    return tab.evaluate(AXE, rules)


def find_too_wide(tab):
    """Widths at which the page scrolls sideways."""
    for width in (360, DESK["width"], 2560):
        tab.set_viewport_size({"width": width, "height": 800})
        if tab.evaluate("document.documentElement.scrollWidth") > width:
            yield f"scrolls sideways at {width}"


def find_problems(tab):
    """All that is wrong with how the page looks, on a desk and a phone, in the light, in the dark, in few colours."""
    yield from find_too_wide(tab)
    tab.set_viewport_size(DESK)
    for looks, rules in (
        ({}, None),
        ({"color_scheme": "dark"}, OF_COLOURS),
        ({"color_scheme": "light", "forced_colors": "active"}, OF_COLOURS),
    ):
        tab.emulate_media(**looks)
        yield from find_violations(tab, rules)
    tab.emulate_media(forced_colors="none")
    tab.set_viewport_size(PHONE)
    yield from find_violations(tab, OF_LAYOUT)
    yield from tab.evaluate(SMALL)


def open_whole(tab, url):
    """Open a page, and wait until nothing of it is being counted any more."""
    tab.goto(url)
    expect(tab.locator("[data-again]")).to_have_count(0, timeout=BUSY)


def look_at(visit, page, paths):
    """Look for problems at several paths; a browser that looks."""
    # Axe is put into the page, which the policy of the page forbids.
    tab = visit(page.url, viewport=DESK, bypass_csp=True, reduced_motion="reduce")
    found = {}
    for path in paths:
        open_whole(tab, page.url + path)
        found[path] = list(find_problems(tab))
    assert {path: said for path, said in found.items() if set(said) - KNOWN} == {}
    return tab


def test_pages_that_steer_look_right(steering, visit):
    fill_more(steering)
    look_at(visit, steering, [*PATHS, *STEERING, *MORE])


def test_pages_that_only_show_look_right(busy, visit):
    tab = look_at(visit, busy, ["login", "jobs", "job?id=hello:A", "queues", ""])
    for width in (360, 2560):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.locator("header").bounding_box()["height"] < 130
    tab.keyboard.press("/")
    expect(tab.get_by_role("option").first).to_be_visible()
    assert list(find_problems(tab)) == []
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    assert find_violations(tab) == []


def test_everything_is_reached_by_keyboard(busy, visit):
    tab = visit(f"{busy.url}queues")
    reached = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        seen = tab.evaluate(SEEN)
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
    tab.emulate_media(media="print")
    expect(tab.get_by_role("navigation")).to_be_hidden()
    expect(tab.get_by_role("button", name="Hold")).to_be_hidden()
    expect(tab.get_by_role("row", name="work-A")).to_be_visible()


def test_the_first_job_is_near_by_keyboard(steering, visit):
    fill_more(steering)
    for tag in "abcdefg":
        steering.bike.set(f"tagged-{tag}:A", "0 0 1 1 *", tags=tag)
    tab = visit(f"{steering.url}jobs")
    stops = 1
    tab.keyboard.press("Tab")
    while not tab.evaluate("document.activeElement.closest('#jobs tbody') !== null"):
        tab.keyboard.press("Tab")
        stops += 1
        assert stops <= 40


def test_the_busiest_minute_of_a_chart_is_as_tall_as_the_chart(busy, visit):
    tab = visit(f"{busy.url}queues")
    chart = tab.get_by_role("row", name="work-A").locator("svg.hour")
    frame, bar = chart.bounding_box(), chart.locator("path").bounding_box()
    assert bar["height"] > 0.9 * frame["height"] > 15
    assert bar["x"] + bar["width"] > frame["x"] + 0.95 * frame["width"], "that is now"


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
